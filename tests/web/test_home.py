"""The page at /: what the server is, and where each role may go on."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from sqlalchemy import delete, insert, update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User
from fhirapp.store.import_models import ImportRun
from fhirapp.web import home
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, add_person
from tests.support.contract import allergy, publish


def home_of(app: Flask, role: str | None = None, *patients: str) -> Page:
    """Return the page as somebody of a role sees it, or nobody."""
    browser = Browser(app)
    if role is not None:
        browser.resume(add_person(app, role, *patients))
    return browser.get("/")


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
    publish(app, allergy("walnut"), now="2026-02-01T00:00:00.000+00:00")
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
