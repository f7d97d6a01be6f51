"""The page at /: what the server is and how it is, and the doors, for whoever may go through."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, add_person

DOORS = {"Learn": "/learn", "Explore": "/explore", "Administer": "/admin"}
EXAMPLE = "/explore?address=%2Ffhir%2FAllergyIntolerance%3Fpatient%3Dp1%26_explain%3Dtrue"


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
    assert "lets apps and people read and search them as FHIR R4." in page.words
    assert "Server is running. Version" in page.words


def test_an_empty_clinic_is_told_what_comes_first(make_app):
    app = make_app(seed=False)
    alter(app, update(User).values(role=CLINICIAN))
    first = "Make the first one at the address that the server printed"
    assert first in Browser(app).get("/").words
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    assert first not in Browser(app).get("/").words
    page = admin.get("/")
    assert "There are no records here yet." in page.words
    assert page.links["Import the first ones"] == "/admin/imports"
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    assert "There are no records here yet." not in clinician.get("/").words


def test_numbers_and_times_are_for_who_signed_in(clinic):
    assert not re.search(r"since|patients \d|\d patients", Browser(clinic).get("/").words)
    page = Browser(clinic).resume(add_person(clinic, CLINICIAN)).get("/")
    assert "Server is running since " in page.words
    assert "patients Patient 14 " in page.words
    assert re.search(r"allergies and intolerances AllergyIntolerance \d+ ", page.words)


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
    ("role", "doors", "first"),
    [
        (None, [], ["/sign-in", "/apps/register", "/api-docs"]),
        (PATIENT, ["Explore"], ["/patients", "/notes", "/account/apps", "/explore"]),
        (CLINICIAN, ["Explore"], ["/patients", "/notes", "/launch", "/explore"]),
        (
            ADMINISTRATOR,
            ["Explore", "Administer"],
            ["/patients", "/notes", "/launch", "/explore", "/admin"],
        ),
    ],
)
def test_each_sees_the_doors_that_they_may_use(clinic, role, doors, first):
    browser = Browser(clinic)
    if role is not None:
        browser.resume(add_person(clinic, role))
    page = browser.get("/")
    assert headings(page) == doors
    assert list(page.offered.values()) == first
    assert "demo" not in page.response.text.lower()


def test_the_demo_has_all_the_doors_and_names_whom_to_be(demo):
    page = Browser(demo).get("/")
    assert headings(page) == [*DOORS, "Demo accounts", "Demo clients"]
    for words in ("clinician", "admin", "patient", "demo-backend", "demo-app", "demo-confidential"):
        assert words in page.words
    assert "Each has the password demo." in page.words


@pytest.mark.parametrize(
    ("button", "name", "leads_to"),
    [
        ("Explore as Dr. Folake Adeyemi", "Dr. Folake Adeyemi", EXAMPLE),
        ("Administer as Alex Admin", "Alex Admin", "/admin"),
        ("Sign in as Dr. Folake Adeyemi", "Dr. Folake Adeyemi", "/patients"),
        ("Sign in as Alex Admin", "Alex Admin", "/admin"),
        ("Sign in as Amelia Hartwell", "Amelia Hartwell", "/patients"),
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
    page = browser.get("/").submit("Sign in as Amelia Hartwell")
    assert "Amelia Hartwell" in page.links
    assert "Dr. Folake Adeyemi" not in page.links
