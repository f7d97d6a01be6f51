"""What a person asked lately with the explorer, and what is different when it is asked again."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from flask import Flask

from fhirapp.audit.read import entries
from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.auth.users.accounts import unlink
from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.web.explore.explanation import MOST_REQUESTS
from tests.support.browsing import Browser, Page, add_person, id_of

HISTORY = "/explore/history"
EMPTY = "No requests from the explorer yet."


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with people of its own."""
    return make_app()


@pytest.fixture
def clinician(clinic: Flask) -> Browser:
    """Somebody who asked nothing yet."""
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def explore(browser: Browser, address: str, **beside: str) -> Page:
    return browser.get(f"/explore?{urlencode({'address': address, **beside})}")


def links(page: Page) -> list[str]:
    """Return the addresses in the list, newest first."""
    return [words for words in page.links if words.startswith("/fhir/")]


def again(page: Page) -> list[str]:
    """Return where the requests in the list are repeated."""
    return [href for words, href in page.links.items() if words.startswith("Repeat and compare")]


def test_who_asked_nothing_has_no_history(clinician):
    page = clinician.get(HISTORY)
    assert page.heading == "Recent requests"
    assert EMPTY in page.words


def test_what_was_asked_is_listed_newest_first(clinician):
    explore(clinician, "/fhir/Patient/p1")
    explore(clinician, "/fhir/AllergyIntolerance?patient=p1&_count=2")
    explore(clinician, "/fhir/Patient/unknown")
    page = clinician.get(HISTORY)
    assert links(page) == [
        "/fhir/Patient/unknown",
        "/fhir/AllergyIntolerance?patient=p1&_count=2",
        "/fhir/Patient/p1",
    ]
    assert "/fhir/Patient/unknown GET · 404 · 0 resources · " in page.words
    assert "/fhir/AllergyIntolerance?patient=p1&_count=2 GET · 200 · 2 resources · " in page.words
    assert "/fhir/Patient/p1 GET · 200 · 1 resource · " in page.words


def test_a_link_asks_the_very_same_again(clinician):
    address = "/fhir/AllergyIntolerance?code:text=a%26b+c%25&_explain=true"
    explore(clinician, address)
    (found,) = links(clinician.get(HISTORY))
    assert found == address
    clinician.get(clinician.get(HISTORY).links[found])
    assert clinician.get(HISTORY).words.count(f"{address} GET · 200 · ") == 2


def test_a_search_by_post_is_listed_and_posted_again(clinician, clinic):
    explore(clinician, "/fhir/AllergyIntolerance?patient=p1&_count=2", method="post")
    page = clinician.get(HISTORY)
    assert "/fhir/AllergyIntolerance?patient=p1&_count=2 POST · 200 · 2 resources · " in page.words
    clinician.get(page.links["/fhir/AllergyIntolerance?patient=p1&_count=2"])
    assert "no change" in clinician.get(again(page)[0]).words
    with clinic.app_context():
        newest, first = entries(via="explore", limit=2)
    assert (newest.method, newest.path, newest.body) == (first.method, first.path, first.body)
    assert newest.path == "/fhir/AllergyIntolerance/_search"


def test_nobody_sees_what_others_asked(clinic, clinician):
    explore(clinician, "/fhir/Patient/p1")
    other = Browser(clinic).resume(add_person(clinic, CLINICIAN))
    assert EMPTY in other.get(HISTORY).words
    (number,) = [one.partition("compare=")[2] for one in again(clinician.get(HISTORY))]
    page = other.get(f"{HISTORY}?compare={number}")
    assert page.status == 404
    assert "None of your recent requests has this number." in page.words


def test_what_explains_a_search_is_not_listed(clinician):
    explore(clinician, "/fhir/AllergyIntolerance?patient=p1&_explain=true", narrow="1")
    clinician.get("/explore/why?address=/fhir/AllergyIntolerance?code=x&reference=al-p1-latex")
    page = clinician.get(HISTORY)
    assert links(page) == ["/fhir/AllergyIntolerance?patient=p1&_explain=true"]
    clinician.get(again(page)[0])
    assert len(again(clinician.get(HISTORY))) == 1


def test_older_requests_are_on_further_pages(clinician):
    for number in range(27):
        explore(clinician, f"/fhir/Patient/x{number}")
    first = clinician.get(HISTORY)
    assert links(first) == [f"/fhir/Patient/x{number}" for number in range(26, 1, -1)]
    second = clinician.get(first.links["Older"])
    assert links(second) == ["/fhir/Patient/x1", "/fhir/Patient/x0"]
    assert "Older" not in second.links
    assert second.links["Back to the newest"] == HISTORY
    assert "No older requests." in clinician.get(f"{HISTORY}?before=1").words


@pytest.mark.parametrize("name", ["before", "compare"])
@pytest.mark.parametrize("number", ["x", "-1", "1.5", "²", "9" * 40, "1'--"])
def test_a_number_that_is_none_is_told(clinician, name, number):
    page = clinician.get(f"{HISTORY}?{urlencode({name: number})}")
    assert (page.status, page.heading) == (400, "Invalid request")


def test_a_request_that_is_not_there_is_not_found(clinician):
    assert clinician.get(f"{HISTORY}?compare=999999999").status == 404


def test_what_is_repeated_is_compared(make_app, tmp_path):
    app = make_app()
    browser = Browser(app).resume(add_person(app, CLINICIAN))
    explore(browser, "/fhir/AllergyIntolerance?patient=p4,p9&_include=AllergyIntolerance:patient")
    compare = again(browser.get(HISTORY))[0]
    same = browser.get(compare)
    assert "Repeated: no change" in same.words
    (tmp_path / "records.ndjson").write_text(
        '{"resourceType": "AllergyIntolerance", "id": "fresh",'
        ' "patient": {"reference": "Patient/p4"}, "code": {"text": "Latex"}}\n'
        '{"resourceType": "Patient", "id": "p4", "name": [{"text": "Somebody Else"}]}\n'
    )
    with app.app_context():
        import_paths([tmp_path], types(), app.config["FHIRAPP"])
    page = browser.get(compare)
    assert "Repeated: response changed" in page.words
    assert "New: AllergyIntolerance/fresh" in page.words
    assert "Changed version: Patient/p4" in page.words
    assert "No longer returned" not in page.words
    then, now = (
        int(page.words.partition(begins)[2].split()[0]) for begins in (" UTC 200 ", " now 200 ")
    )
    assert now == then + 1
    assert page.links["AllergyIntolerance/fresh"].startswith("/explore?address=")


def test_what_a_person_may_see_no_more_is_told(make_app):
    app = make_app()
    username = add_person(app, PATIENT, "p1", "p2")
    browser = Browser(app).resume(username)
    explore(browser, "/fhir/AllergyIntolerance?patient=p1")
    compare = again(browser.get(HISTORY))[0]
    user_id = id_of(app, username)
    with app.app_context(), writing() as connection:
        unlink(connection, user_id, "p1")
    page = browser.get(compare)
    assert "The status was 200 and is 403." in page.words
    assert "No longer returned: AllergyIntolerance/al-p1-" in page.words


def test_what_was_cut_off_cannot_be_repeated(clinician):
    explore(clinician, f"/fhir/Patient?name={'x' * 5_000}")
    page = clinician.get(HISTORY)
    assert "too long to store in full" in page.words
    assert again(page) == []


def test_a_hostile_address_is_text(clinician):
    explore(clinician, "/fhir/Patient?name=%3Cscript%3Ealert(1)%3C/script%3E%22%27")
    explore(clinician, "/fhir/Patient/%3Cb%3E")
    page = clinician.get(HISTORY)
    assert page.status == 200
    assert "<script>alert" not in page.response.text
    assert "<b>" not in page.response.text


def test_each_request_of_a_page_is_noted_by_itself(clinic, clinician):
    """What one of them was answered stands in no other's line, nor does its id."""
    explore(clinician, "/fhir/Patient/p1")
    explore(clinician, "/fhir/AllergyIntolerance?patient=p1&_explain=true&_count=1", narrow="1")
    address = "/fhir/AllergyIntolerance?code=x&onset=1900&criticality=high"
    clinician.get(f"/explore/why?{urlencode({'address': address, 'reference': 'al-p1-latex'})}")
    with clinic.app_context():
        noted = entries(limit=MOST_REQUESTS + 10)
    reads = [one for one in noted if one.path.endswith("/AllergyIntolerance/al-p1-latex")]
    counts = [one for one in noted if "_summary=count" in one.path]
    assert reads
    assert counts
    assert [one.served for one in reads[:1]] == [("AllergyIntolerance/al-p1-latex/1",)]
    assert {one.served for one in counts} == {()}
    assert len({one.request_id for one in noted}) == len(noted)


def test_history_is_for_who_signed_in(clinic):
    assert Browser(clinic).get(HISTORY).heading == "Sign in"
