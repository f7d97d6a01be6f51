"""Why a resource is not among what a search finds."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from flask import Flask

from fhirapp.audit.read import entries
from fhirapp.auth.models import CLINICIAN, PATIENT
from tests.support.browsing import Browser, Page, add_person

SEARCH = "/fhir/AllergyIntolerance?patient=p1&clinical-status=active&date=ge2010&_sort=date"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with people of its own, not in demo mode."""
    return make_app()


@pytest.fixture
def clinician(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def why(browser: Browser, address: str, reference: str) -> Page:
    return browser.get(f"/explore/why?{urlencode({'address': address, 'reference': reference})}")


def reasons(browser: Browser, address: str, reference: str) -> str:
    """Return what a page says why a resource is not found."""
    page = why(browser, address, reference)
    assert page.status == 200, page.words
    return page.words.rpartition("Explain ")[2].partition(" Back to the search")[0]


def asked(clinic: Flask) -> int:
    """Return how many requests were made to say why."""
    with clinic.app_context():
        return len(entries(via="explain", limit=500))


def test_each_parameter_that_leaves_it_out_is_told_with_what_is_there(clinician):
    told = reasons(clinician, f"{SEARCH}&code=nonsense", "AllergyIntolerance/al-p1-latex")
    assert (
        "date excludes it: the search matches only what is within the period from 2010-01-01"
        in told
    )
    assert "; this resource has 1996-05." in told
    assert (
        "code excludes it: the search matches only what has the code 'nonsense' of any system;"
        in told
    )
    assert "111088007 (Latex gloves)" in told
    assert "Matches: patient, clinical-status." in told


@pytest.mark.parametrize(
    "reference",
    [
        "al-p1-latex",
        "/fhir/AllergyIntolerance/al-p1-latex",
        "https://fhir.example/fhir/AllergyIntolerance/al-p1-latex/_history/1",
        " AllergyIntolerance/al-p1-latex ",
    ],
)
def test_a_reference_is_read_as_people_copy_it(clinician, reference):
    told = reasons(clinician, "/fhir/AllergyIntolerance?code:not=111088007", reference)
    assert "code:not excludes it" in told


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/fhir/AllergyIntolerance?patient=p1", "follow the “next” link"),
        ("AllergyIntolerance?patient=p1&_count=0", "But the search requests only the total"),
        (
            "/fhir/AllergyIntolerance?_summary=count&foo=1",
            "But the search requests only the total",
        ),
        ("/fhir/AllergyIntolerance?_id=al-p1-latex,al-p1-sulfa", "this search finds it"),
    ],
)
def test_what_the_search_finds_is_said_to_be_found(clinician, address, said):
    told = reasons(clinician, address, "AllergyIntolerance/al-p1-latex")
    assert told.startswith("AllergyIntolerance/al-p1-latex No parameter excludes it")
    assert said in told


def test_other_ids_leave_it_out(clinician):
    told = reasons(clinician, "/fhir/AllergyIntolerance?_id=al-p1-sulfa", "al-p1-latex")
    assert told == "al-p1-latex _id excludes it: it lists other ids."


def test_what_may_not_be_seen_is_told_as_what_is_not_there(clinic):
    browser = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    address = "/fhir/AllergyIntolerance?clinical-status=active"
    hidden, none = (
        reasons(browser, address, f"AllergyIntolerance/{one}").partition(" ")[2]
        for one in ("al-p2-morphine", "al-p2-nothing0")
    )
    assert hidden == none
    assert (
        hidden == "This AllergyIntolerance does not exist, or the token does not give access to it."
    )


def test_a_search_of_another_patient_says_that_the_token_does_not_reach(clinic):
    browser = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    told = reasons(browser, "/fhir/AllergyIntolerance?patient=p2", "al-p1-latex")
    assert "patient: the token is for one patient, and this is another." in told


def test_another_type_is_never_found(clinician):
    told = reasons(clinician, "/fhir/AllergyIntolerance?patient=p1", "Patient/p1")
    assert "This search returns AllergyIntolerance; Patient is returned only" in told


@pytest.mark.parametrize(
    "reference", ["<script>", "a/b/c", "AllergyIntolerance/", "é☃", "Patient/é"]
)
def test_what_is_no_reference_is_told(clinician, reference):
    page = why(clinician, "/fhir/AllergyIntolerance?patient=p1", reference)
    assert "This is not a reference. Enter AllergyIntolerance/ followed by the id." in page.words
    assert "<script>" not in page.response.text.partition("<main")[2]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/fhir/Patient/p1", 400),
        ("/fhir/DocumentReference/$docref?patient=p1", 400),
        ("/admin/users", 400),
        ("/fhir/../admin/users?x=1", 400),
        ("https://evil.example/fhir/Patient?name=a", 400),
        ("", 400),
        ("/fhir/Patient?name=" + "x" * 9_000, 414),
    ],
)
def test_what_is_no_search_here_is_not_asked(clinic, clinician, address, status):
    before = asked(clinic)
    page = why(clinician, address, "p1")
    assert page.status == status
    assert asked(clinic) == before


def test_a_refused_value_is_told(clinician):
    told = reasons(clinician, "/fhir/AllergyIntolerance?date=nonsense&patient=p1", "al-p1-latex")
    assert "date: 'nonsense' is not a date" in told


def test_what_is_there_stands_on_the_page_as_text(clinician):
    page = why(clinician, "/fhir/AllergyIntolerance?code=%3Cb%3Ex%3C/b%3E", "al-p1-latex")
    assert "has the code '<b>x</b>' of any system" in page.words
    assert "<b>x" not in page.response.text


def test_why_leads_back_to_the_search(clinician):
    page = why(clinician, SEARCH, "al-p1-latex")
    back = clinician.get(page.links["Back to the search"])
    assert back.status == 200
    assert "clinical-status=active" in back.response.text


def test_the_explorer_asks_why(clinician):
    page = clinician.get(f"/explore?{urlencode({'address': f'{SEARCH}&_explain=true'})}")
    told = page.submit("Explain", reference="AllergyIntolerance/al-p1-latex")
    assert told.heading == "Why does it not match?"
    assert "date excludes it" in told.words
