"""The page at /: what the server is and how it is, and the doors, for whoever may go through."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import delete, insert, update

from fhirapp.auth.clients.administration import set_disabled
from fhirapp.auth.demo import BACKEND
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User
from fhirapp.db import writing
from fhirapp.exchange.models import ImportRun
from fhirapp.web import home, live_search
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, add_person
from tests.support.contract import publish

EXAMPLE = "/explore?address=%2Ffhir%2FAllergyIntolerance%3Fpatient%3Dp1%26_explain%3Dtrue"
WALNUT = {
    "resourceType": "AllergyIntolerance",
    "id": "walnut",
    "code": {"text": "Walnut"},
    "patient": {"reference": "Patient/p1"},
    "criticality": "high",
}
EXPLAINED = EXAMPLE.replace("_explain", "criticality%3Dhigh%26_explain") + "&narrow=1#explained"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """A clinic's server."""
    return make_app()


@pytest.fixture(scope="module")
def demo(make_app: Callable[..., Flask]) -> Flask:
    """The demo."""
    return make_app(demo=True)


def headings(page: Page) -> list[str]:
    """Return the headings below the page's own."""
    return [text.strip() for text in re.findall(r"<h2[^>]*>([^<]*)</h2>", page.response.text)]


def test_it_says_what_the_server_is_to_anybody(clinic):
    page = Browser(clinic).get("/")
    assert page.heading == "Clinical notes and allergies, over FHIR"
    assert "People and apps can read and search them as FHIR R4." in page.words
    assert "Server is running. Version" in page.words


def test_an_empty_clinic_is_told_what_comes_first(make_app):
    app = make_app(seed=False)
    alter(app, update(User).values(role=CLINICIAN))
    first = "To create the first one, open the set-up link that the server printed"
    assert first in Browser(app).get("/").words
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    assert first not in Browser(app).get("/").words
    page = admin.get("/")
    assert "There are no records yet." in page.words
    assert page.links["Import records"] == "/admin/imports"
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    assert "There are no records yet." not in clinician.get("/").words


def test_numbers_and_times_are_for_who_signed_in(clinic):
    assert not re.search(r"since|patients \d|\d patients", Browser(clinic).get("/").words)
    page = Browser(clinic).resume(add_person(clinic, CLINICIAN)).get("/")
    assert "Server is running since " in page.words
    assert "patients Patient 14 " in page.words
    assert re.search(r"allergies and intolerances AllergyIntolerance \d+ ", page.words)


def test_numbers_are_counted_once_for_each_state_of_the_records(make_app, monkeypatch):
    app = make_app()
    browser = Browser(app).resume(add_person(app, CLINICIAN))
    first = browser.get("/").words
    with monkeypatch.context() as patched:
        patched.setattr(home, "ask", lambda *_, **__: pytest.fail("again"))
        assert browser.get("/").words == first
    number = int(re.search(r"AllergyIntolerance (\d+) ", first)[1])
    publish(app, WALNUT, now="2026-02-01T00:00:00.000+00:00")
    assert f"AllergyIntolerance {number + 1} " in browser.get("/").words


@pytest.mark.parametrize(
    ("patients", "shown"),
    [(("p1",), "allergies and intolerances AllergyIntolerance 6 "), ((), None)],
)
def test_the_numbers_are_of_what_one_may_read(clinic, patients, shown):
    page = Browser(clinic).resume(add_person(clinic, PATIENT, *patients)).get("/")
    assert page.status == 200
    assert "Patient 14" not in page.words
    assert (shown in page.words) if shown else ("AllergyIntolerance" not in page.words)


@pytest.mark.parametrize(
    ("role", "first"),
    [
        (None, ["/sign-in", "/apps/register", "/api-docs"]),
        (PATIENT, ["/patients", "/notes", "/account/apps", "/explore"]),
        (CLINICIAN, ["/notes", "/launch", "/explore"]),
        (ADMINISTRATOR, ["/notes", "/launch", "/explore", "/admin"]),
    ],
)
def test_each_sees_the_doors_that_they_may_use(clinic, role, first):
    browser = Browser(clinic)
    if role is not None:
        browser.resume(add_person(clinic, role))
    page = browser.get("/")
    assert list(page.offered.values()) == first
    assert "demo" not in page.response.text.lower()


def test_a_clinician_finds_a_patient_from_there(clinic):
    home = Browser(clinic).resume(add_person(clinic, CLINICIAN)).get("/")
    found = home.submit("Find a patient", name="Amelia")
    assert found.path == "/patients"
    assert "Amelia Rose Hartwell" in found.words
    assert "Find a patient" not in [
        button
        for form in Browser(clinic).resume(add_person(clinic, PATIENT, "p1")).get("/").forms
        for button in form.buttons
    ]


def test_a_clinic_tells_anybody_the_day_of_the_last_import_and_nothing_of_patients(make_app):
    app = make_app()
    alter(app, delete(ImportRun))
    assert "Nothing has been imported yet." in Browser(app).get("/").words
    run = {"inputs": [], "who": "", "began_at": "", "ended_at": "2026-05-03T10:00:00.000+00:00"}
    alter(app, insert(ImportRun).values(**run, last_rows={}))
    words = Browser(app).get("/").words
    assert "Last import: 3 May 2026." in words
    for told in ("Hartwell", "Penicillin", "match", "10:00"):
        assert told not in words


def test_the_demo_names_whom_to_be(demo):
    page = Browser(demo).get("/")
    assert headings(page) == ["Example search on this server", "Demo accounts", "Demo clients"]
    for words in ("clinician", "admin", "patient", "demo-backend", "demo-app", "demo-confidential"):
        assert words in page.words
    assert "All accounts use the password demo." in page.words
    assert page.offered["Start the lessons"] == "/learn"


def test_the_demo_shows_what_a_search_finds_now(make_app):
    app = make_app(demo=True)
    browser = Browser(app)
    shown = (
        "GET /fhir/AllergyIntolerance?patient=p1&criticality=high All allergies and intolerances 39"
        " patient refers to 'Patient/p1' 6 of 39 criticality has the code 'high' of any system"
        " 1 of 6 Penicillin · Amelia Rose Hartwell severe 1 match in "
    )
    words = browser.get("/").words
    assert shown in words
    assert re.search(r"1 match in \d+ ms\. Nothing was ignored\.", words)
    publish(app, WALNUT, now="2026-02-01T00:00:00.000+00:00")
    words = browser.get("/").words
    assert "6 of 39" not in words
    assert "7 of 40 criticality has the code 'high' of any system 2 of 7 " in words
    assert "Walnut · Amelia Rose Hartwell" in words
    assert "2 matches in " in words


def test_the_search_is_made_once_for_each_state_of_the_records(make_app, monkeypatch):
    app = make_app(demo=True)
    first = Browser(app).get("/").words
    monkeypatch.setattr(live_search, "ask", lambda *_, **__: pytest.fail("again"))
    assert Browser(app).get("/").words == first


def test_without_its_client_the_demo_shows_no_search(make_app):
    app = make_app(demo=True)
    with app.app_context(), writing() as connection:
        set_disabled(connection, BACKEND, disabled=True)
    page = Browser(app).get("/")
    assert (page.status, headings(page)) == (200, ["Demo accounts", "Demo clients"])
    # What was refused is asked again.
    with app.app_context(), writing() as connection:
        set_disabled(connection, BACKEND, disabled=False)
    assert "1 match in " in Browser(app).get("/").words


@pytest.mark.parametrize(
    ("button", "name", "leads_to"),
    [
        ("Try a search", "Dr. Folake Adeyemi", EXAMPLE),
        ("Explain this search", "Dr. Folake Adeyemi", EXPLAINED),
        ("Continue as clinician", "Dr. Folake Adeyemi", "/patients"),
        ("Continue as administrator", "Alex Admin", "/admin"),
        ("Continue as patient", "Amelia Hartwell", "/patients"),
    ],
)
def test_one_click_signs_in_as_somebody_of_the_demo_and_leads_on(demo, button, name, leads_to):
    browser = Browser(demo)
    home = browser.get("/")
    assert home.form(button).fields["next"] == leads_to
    page = home.submit(button)
    assert page.path.startswith(leads_to.partition("?")[0])
    assert name in browser.get("/account").links


def test_who_looks_around_in_the_demo_can_be_somebody_else(demo):
    browser = Browser(demo).resume("clinician")
    home = browser.get("/")
    assert home.offered["Try a search"] == EXAMPLE
    assert home.offered["Explain this search"] == EXPLAINED
    page = browser.get("/").submit("Continue as patient")
    assert "Amelia Hartwell" in page.links
    assert "Dr. Folake Adeyemi" not in page.links
