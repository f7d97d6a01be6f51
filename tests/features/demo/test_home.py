"""The page at /: what the server is, where each role may go on, and the demo's example search."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import delete, insert, update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User
from fhirapp.features.demo import live_search
from fhirapp.store.import_models import ImportRun
from fhirapp.web import home
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, add_person
from tests.support.contract import publish

EXAMPLE = "/explore?address=%2Ffhir%2FAllergyIntolerance%3Fpatient%3Dp1%26_explain%3Dtrue"
EXPLAINED = EXAMPLE.replace("_explain", "criticality%3Dhigh%26_explain") + "&narrow=1#explained"
WALNUT = {
    "resourceType": "AllergyIntolerance",
    "id": "walnut",
    "code": {"text": "Walnut"},
    "patient": {"reference": "Patient/p1"},
    "criticality": "high",
}


@pytest.fixture(scope="module")
def demo(make_app: Callable[..., Flask]) -> Flask:
    """The demo, whose records these tests do not change."""
    return make_app(demo=True)


def home_of(app: Flask, role: str | None = None, *patients: str) -> Page:
    """Return the page as somebody of a role sees it, or nobody."""
    browser = Browser(app)
    if role is not None:
        browser.resume(add_person(app, role, *patients))
    return browser.get("/")


def add_walnut(app: Flask) -> None:
    publish(app, WALNUT, now="2026-02-01T00:00:00.000+00:00")


def test_empty_clinic_says_what_comes_first(make_app):
    app = make_app(seed=False)
    alter(app, update(User).values(role=CLINICIAN))
    first = "open the set-up link that the server printed"
    assert first in home_of(app).words
    page = home_of(app, ADMINISTRATOR)
    assert "There are no records yet." in page.words
    assert "/admin/imports" in page.offered.values()
    assert first not in home_of(app).words
    assert "There are no records yet." not in home_of(app, CLINICIAN).words


def test_each_role_sees_its_links_and_its_numbers(clinic):
    for role, links in (
        (None, ["/sign-in", "/apps/register", "/api-docs"]),
        (PATIENT, ["/patients", "/notes", "/account/apps", "/explore"]),
        (CLINICIAN, ["/notes", "/launch", "/explore"]),
        (ADMINISTRATOR, ["/notes", "/launch", "/explore", "/admin"]),
    ):
        page = home_of(clinic, role)
        assert [*page.offered.values()] == links
        assert "demo" not in page.response.text.lower()
        # Numbers are of what the user may read, and for nobody who did not sign in.
        is_staff = role in (CLINICIAN, ADMINISTRATOR)
        assert ("patients Patient 14 " in page.words) == is_staff
        assert ("running since" in page.words) == (role is not None)
        assert ("/patients" in page.actions) == is_staff
        assert bool(re.search(r"AllergyIntolerance \d+ ", page.words)) == is_staff
    assert "AllergyIntolerance 6 " in home_of(clinic, PATIENT, "p1").words


def test_numbers_are_counted_once_for_each_state_of_the_records(make_app, monkeypatch):
    app = make_app()
    browser = Browser(app).resume(add_person(app, CLINICIAN))
    first = browser.get("/").words
    with monkeypatch.context() as patched:
        patched.setattr(home, "ask", lambda *_, **__: pytest.fail("counted again"))
        assert browser.get("/").words == first
    number = int(re.search(r"AllergyIntolerance (\d+) ", first)[1])
    add_walnut(app)
    assert f"AllergyIntolerance {number + 1} " in browser.get("/").words


def test_anybody_sees_the_day_of_the_last_import_and_nothing_of_patients(clinic):
    alter(clinic, delete(ImportRun))
    assert "Nothing has been imported yet." in home_of(clinic).words
    run = {"inputs": [], "who": "", "began_at": "", "ended_at": "2026-05-03T10:00:00.000+00:00"}
    alter(clinic, insert(ImportRun).values(**run, last_rows={}))
    words = home_of(clinic).words
    assert "Last import: 3 May 2026." in words
    for told in ("Hartwell", "Penicillin", "match", "10:00"):
        assert told not in words


def test_demo_names_its_accounts_and_clients(demo):
    page = home_of(demo)
    for words in ("clinician", "admin", "patient", "demo-backend", "demo-app", "demo-confidential"):
        assert words in page.words
    assert "All accounts use the password demo." in page.words
    assert "/learn" in page.offered.values()


def test_demo_shows_what_a_search_finds_now(make_app, monkeypatch):
    app = make_app(demo=True)
    words = home_of(app).words
    assert (
        "GET /fhir/AllergyIntolerance?patient=p1&criticality=high All allergies and intolerances 39"
        " patient refers to 'Patient/p1' 6 of 39 criticality has the code 'high' of any system"
        " 1 of 6 Penicillin · Amelia Rose Hartwell severe 1 match in "
    ) in words
    assert re.search(r"1 match in \d+ ms\. Nothing was ignored\.", words)
    # It is made once for each state of the records.
    with monkeypatch.context() as patched:
        patched.setattr(live_search, "ask", lambda *_, **__: pytest.fail("searched again"))
        assert home_of(app).words == words
    add_walnut(app)
    words = home_of(app).words
    assert "6 of 39" not in words
    assert "7 of 40 criticality has the code 'high' of any system 2 of 7 " in words
    assert "Walnut · Amelia Rose Hartwell" in words
    assert "2 matches in " in words


@pytest.mark.parametrize(
    ("username", "leads_to", "name"),
    [
        ("clinician", EXAMPLE, "Dr. Folake Adeyemi"),
        ("clinician", EXPLAINED, "Dr. Folake Adeyemi"),
        ("clinician", "/patients", "Dr. Folake Adeyemi"),
        ("admin", "/admin", "Alex Admin"),
        ("patient", "/patients", "Amelia Hartwell"),
    ],
)
def test_one_click_signs_in_as_an_account_of_the_demo_and_leads_on(demo, username, leads_to, name):
    browser = Browser(demo)
    (form,) = (
        form
        for form in browser.get("/").forms
        if (form.fields.get("next"), form.fields.get("username")) == (leads_to, username)
    )
    page = browser.post(form.action, form.fields)
    assert page.path.startswith(leads_to.partition("?")[0])
    assert name in browser.get("/account").links


def test_signed_in_user_of_the_demo_can_become_another(demo):
    page = Browser(demo).resume("patient").get("/")
    assert {EXAMPLE, EXPLAINED} <= {*page.offered.values()}
    page = page.submit("Continue as clinician")
    assert ("Dr. Folake Adeyemi" in page.links, "Amelia Hartwell" in page.links) == (True, False)
