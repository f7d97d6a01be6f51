"""The user's recent requests from the explorer, and how their answers have changed since."""

from __future__ import annotations

from urllib.parse import urlencode

from fhirapp.audit.entries import entries
from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.auth.users.accounts import unlink
from fhirapp.db import writing
from fhirapp.features.explore.explanation import MOST_REQUESTS
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.pages import browser_of, elements, explorer_address, in_order, links, texts
from tests.support.publishing import TIMES, publish

HISTORY = "/explore/history"
ALLERGIES = "/fhir/AllergyIntolerance"


def explore(browser: Browser, *addresses: str, **beside: str) -> None:
    for address in addresses:
        browser.get(explorer_address(address, **beside))


def listed(browser: Browser) -> list[list[str]]:
    """Return address, method, status and number of resources of each request, newest first."""
    lines = elements(browser.get(HISTORY), "div.asked")
    return [texts(line, "a") + texts(line, "small")[0].split(" · ")[:3] for line in lines]


def comparisons(page: Page) -> list[str]:
    return links(page, f"{HISTORY}?compare=")


def test_requests_are_listed_newest_first_and_sent_again_by_a_link(clinician):
    assert (clinician.get(HISTORY).status, listed(clinician)) == (200, [])
    search = f"{ALLERGIES}?patient=p1&code:text=a%26b+c%25,latex&_explain=true"
    explore(clinician, "/fhir/Patient/p1", search, "/fhir/Patient/unknown")
    requests = [
        ["/fhir/Patient/unknown", "GET", "404", "0 resources"],
        [search, "GET", "200", "1 resource"],
        ["/fhir/Patient/p1", "GET", "200", "1 resource"],
    ]
    assert listed(clinician) == requests
    clinician.get(clinician.get(HISTORY).links[search])
    assert listed(clinician) == [requests[1], *requests]


def test_search_by_post_is_listed_and_posted_again(clinic, clinician):
    search = f"{ALLERGIES}?patient=p1&_count=2"
    explore(clinician, search, method="post")
    assert listed(clinician) == [[search, "POST", "200", "2 resources"]]
    page = clinician.get(HISTORY)
    clinician.get(page.links[search])
    assert elements(clinician.get(comparisons(page)[0]), "ul.findings") == []
    with clinic.app_context():
        newest, first = entries(via="explore", limit=2)
    assert (newest.method, newest.path, newest.body) == (first.method, first.path, first.body)
    assert newest.path == f"{ALLERGIES}/_search"


def test_history_is_each_users_own(clinic, clinician):
    explore(clinician, "/fhir/Patient/p1")
    other = browser_of(clinic, CLINICIAN)
    assert listed(other) == []
    (comparison,) = comparisons(clinician.get(HISTORY))
    assert other.get(comparison).status == 404
    assert other.get(f"{HISTORY}?compare=999999999").status == 404
    assert Browser(clinic).get(HISTORY).path.startswith("/sign-in")


def test_requests_that_explain_a_search_are_not_listed(clinician):
    search = f"{ALLERGIES}?patient=p1&_explain=true"
    explore(clinician, search, narrow="1")
    clinician.get("/explore/why?address=/fhir/AllergyIntolerance?code=x&reference=al-p1-latex")
    clinician.get(comparisons(clinician.get(HISTORY))[0])
    assert [request[0] for request in listed(clinician)] == [search]


def test_older_requests_are_on_further_pages(clinician):
    for number in range(27):
        explore(clinician, f"/fhir/Group/x{number}")
    first = clinician.get(HISTORY)
    assert texts(first, "div.asked")[0].startswith("/fhir/Group/x26 ")
    assert len(elements(first, "div.asked")) == 25
    (older,) = links(first, f"{HISTORY}?before=")
    second = clinician.get(older)
    assert len(elements(second, "div.asked")) == 2
    assert links(second, HISTORY)[-1] == HISTORY
    assert links(second, f"{HISTORY}?before=") == []
    assert elements(clinician.get(f"{HISTORY}?before=1"), "div.asked") == []


def test_number_that_is_none_is_refused(clinician):
    for name in ("before", "compare"):
        for number in ("x", "-1", "1.5", "²", "9" * 40, "1'--"):
            assert clinician.get(f"{HISTORY}?{urlencode({name: number})}").status == 400, number


def test_repeated_request_is_compared_with_its_first_answer(make_app):
    app = make_app()
    browser = browser_of(app, CLINICIAN)
    explore(browser, f"{ALLERGIES}?patient=p4,p9&_include=AllergyIntolerance:patient")
    (comparison,) = comparisons(browser.get(HISTORY))
    assert elements(browser.get(comparison), "ul.findings") == []
    patient = {"resourceType": "Patient", "id": "p4", "name": [{"text": "Somebody Else"}]}
    fresh = {"resourceType": "AllergyIntolerance", "id": "fresh", "code": {"text": "Latex"}}
    publish(app, TIMES[0], patient)
    publish(app, TIMES[0], fresh | {"patient": {"reference": "Patient/p4"}})
    page = browser.get(comparison)
    assert texts(page, "li")[:2] == [
        *("New: AllergyIntolerance/fresh", "Changed version: Patient/p4")
    ]
    assert page.links["AllergyIntolerance/fresh"].startswith("/explore?address=")
    then, now = (int(number) for number in texts(page, "td.number"))
    assert now == then + 1


def test_resources_that_are_no_longer_visible_are_listed(make_app):
    app = make_app()
    username = add_person(app, PATIENT, "p1", "p2")
    browser = Browser(app).resume(username)
    explore(browser, f"{ALLERGIES}?patient=p1")
    (comparison,) = comparisons(browser.get(HISTORY))
    user_id = id_of(app, username)
    with app.app_context(), writing() as connection:
        unlink(connection, user_id, "p1")
    (findings,) = texts(browser.get(comparison), "ul.findings")
    assert in_order(findings, "AllergyIntolerance/al-p1-", "200", "403")


def test_each_request_of_a_page_has_an_audit_entry_of_its_own(clinic, clinician):
    explore(clinician, "/fhir/Patient/p1")
    explore(clinician, f"{ALLERGIES}?patient=p1&_explain=true&_count=1", narrow="1")
    address = f"{ALLERGIES}?code=x&onset=1900&criticality=high"
    clinician.get(f"/explore/why?{urlencode({'address': address, 'reference': 'al-p1-latex'})}")
    with clinic.app_context():
        noted = entries(limit=MOST_REQUESTS + 10)
    reads = [entry for entry in noted if entry.path.endswith("/AllergyIntolerance/al-p1-latex")]
    counts = {entry.served for entry in noted if "_summary=count" in entry.path}
    assert reads[0].served == ("AllergyIntolerance/al-p1-latex/1",)
    assert counts == {()}
    assert len({entry.request_id for entry in noted}) == len(noted)
