"""What is around every page: navigation by role, small on a phone, by keyboard too; the manual."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from tests.support.browsing import Browser, add_person

pytest_plugins = ["tests.support.live", "tests.support.browser"]

WAYS = ["/explore", "/patients", "/notes", "/api-docs", "/docs"]
SCREEN = {"width": 320, "height": 640}


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """A clinic's server."""
    return make_app()


@pytest.mark.parametrize(
    ("role", "ways"),
    [
        # What there is: those who are not signed in are asked to, and led back.
        (None, [*WAYS, "/sign-in"]),
        (PATIENT, [*WAYS, "/account"]),
        (CLINICIAN, [*WAYS, "/account"]),
        (ADMINISTRATOR, [*WAYS, "/admin", "/account"]),
    ],
)
def test_the_ways_are_those_of_the_role(clinic, role, ways):
    browser = Browser(clinic)
    if role is not None:
        browser.resume(add_person(clinic, role))
    page = browser.get("/sign-in")
    above = [path for words, path in page.links.items() if words not in page.offered]
    assert above == ["#main", "/", *ways]
    for path in ways:
        assert browser.get(path).heading != "You don't have access to this"


@pytest.mark.parametrize(
    ("path", "manual"),
    [
        ("/", "/docs"),
        ("/explore", "/docs/search"),
        ("/apps/register", "/docs/connect"),
        ("/admin/users", "/docs/administration"),
    ],
)
def test_a_page_leads_to_the_page_of_the_manual_that_helps(clinic, path, manual):
    browser = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    assert browser.get(path).links["Manual"] == manual


def test_lessons_are_of_the_demo(clinic, make_app):
    assert "/learn" not in Browser(clinic).get("/sign-in").links.values()
    assert "/learn" in Browser(make_app(demo=True)).get("/sign-in").links.values()


@pytest.mark.parametrize("path", ["/", "/account", "/admin/users"])
def test_on_a_phone_the_page_begins_in_the_upper_third(visit, path):
    one = visit(viewport=SCREEN)
    one.open("/sign-in")
    one.sign_in("admin")
    one.open(path)
    assert one.page.locator("main").bounding_box()["y"] <= SCREEN["height"] / 3
    assert one.page.evaluate("document.documentElement.scrollWidth") == SCREEN["width"]


def test_the_first_key_leads_past_the_ways(visit):
    one = visit()
    one.open("/sign-in")
    # The field for the name has the focus there; elsewhere nothing has.
    one.open("/")
    one.page.keyboard.press("Tab")
    skip = one.page.get_by_role("link", name="Skip to content")
    assert skip.evaluate("one => one === document.activeElement")
    assert skip.bounding_box()["x"] >= 0
    one.page.keyboard.press("Enter")
    assert one.page.evaluate("document.activeElement.id") == "main"


def test_what_has_the_focus_is_outlined(visit):
    one = visit()
    one.open("/")
    for _ in range(3):
        one.page.keyboard.press("Tab")
        assert one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
