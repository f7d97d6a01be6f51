"""What surrounds every page: navigation by role, small on a phone, by keyboard too; the manual."""

from __future__ import annotations

import re

import pytest

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from tests.support.browsing import Browser, add_person

pytest_plugins = ["tests.support.live", "tests.support.browser"]


@pytest.mark.parametrize(
    ("role", "own"),
    [
        # Those who are not signed in are asked to, and led back.
        (None, ["/sign-in"]),
        (PATIENT, ["/account"]),
        (CLINICIAN, ["/account"]),
        (ADMINISTRATOR, ["/admin", "/account"]),
    ],
)
def test_navigation_is_that_of_the_role(clinic, role, own):
    paths = ["/explore", "/patients", "/notes", "/api-docs", "/docs", *own]
    browser = Browser(clinic)
    if role is not None:
        browser.resume(add_person(clinic, role, *(["p1"] if role == PATIENT else [])))
    page = browser.get("/sign-in")
    above = [path for words, path in page.links.items() if words not in page.offered]
    assert above == ["#main", "/", *paths]
    assert {browser.get(path).status for path in paths} == {200}


@pytest.mark.parametrize(
    ("path", "group", "shown"),
    [
        ("/admin/users/new", "People", ["/admin/users", "/admin/patients"]),
        (
            "/admin/schedules/backup/new",
            "Data",
            ["/admin/imports", "/admin/exports", "/admin/backups", "/admin/schedules"],
        ),
        ("/admin/refusals", "Apps", ["/admin/clients", "/admin/grants", "/admin/refusals"]),
        (
            # In no menu itself.
            "/admin/about",
            "System",
            ["/admin", "/admin/audit", "/admin/logs", "/admin/keys", "/admin/settings"],
        ),
    ],
)
def test_administration_shows_four_groups_and_the_pages_of_the_current_one(
    clinic, path, group, shown
):
    browser = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    text = browser.get(path).response.text
    groups, pages = (
        re.findall(r'<a href="([^"]+)"([^>]*)>([^<]+)</a>', menu)
        for menu in re.findall(r'<nav class="ways[^>]*>(.*?)</nav>', text, re.DOTALL)
    )
    assert [words for _path, _current, words in groups] == ["People", "Data", "Apps", "System"]
    assert [words for _path, current, words in groups if "aria-current" in current] == [group]
    assert [address for address, _current, _words in pages] == shown


def test_lessons_are_linked_in_the_demo_alone(make_app):
    assert "/learn" in Browser(make_app(demo=True)).get("/sign-in").links.values()


def test_page_links_to_the_page_of_the_manual_that_helps(clinic):
    browser = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    manual = {
        "/": "/docs",
        "/explore": "/docs/search",
        "/apps/register": "/docs/connect",
        "/admin/users": "/docs/administration",
    }
    assert {path: browser.get(path).links["Manual"] for path in manual} == manual


def test_first_key_leads_past_the_navigation(visit):
    browser = visit()
    browser.open("/sign-in")
    # The field for the name has the focus there; elsewhere nothing has.
    browser.open("/")
    browser.page.keyboard.press("Tab")
    skip = browser.page.locator('a[href="#main"]')
    assert skip.evaluate("link => link === document.activeElement")
    assert skip.bounding_box()["x"] >= 0
    browser.page.keyboard.press("Enter")
    assert browser.page.evaluate("document.activeElement.id") == "main"
