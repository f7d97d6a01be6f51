"""The home page of the demo: its accounts and clients, and its example search."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.features.demo import live_search
from tests.support.browsing import Browser
from tests.support.contract import allergy, publish

EXAMPLE = "/explore?address=%2Ffhir%2FAllergyIntolerance%3Fpatient%3Dp1%26_explain%3Dtrue"
EXPLAINED = EXAMPLE.replace("_explain", "criticality%3Dhigh%26_explain") + "&narrow=1#explained"


@pytest.fixture(scope="module")
def demo(make_app: Callable[..., Flask]) -> Flask:
    """The demo, whose records these tests do not change."""
    return make_app(demo=True)


def test_demo_names_its_accounts_and_clients(demo):
    page = Browser(demo).get("/")
    for words in ("clinician", "admin", "patient", "demo-backend", "demo-app", "demo-confidential"):
        assert words in page.words
    assert "All accounts use the password demo." in page.words
    assert "/learn" in page.offered.values()


def test_demo_shows_what_a_search_finds_now(make_app, monkeypatch):
    app = make_app(demo=True)
    words = Browser(app).get("/").words
    assert (
        "GET /fhir/AllergyIntolerance?patient=p1&criticality=high All allergies and intolerances 39"
        " patient refers to 'Patient/p1' 6 of 39 criticality has the code 'high' of any system"
        " 1 of 6 Penicillin · Amelia Rose Hartwell severe 1 match in "
    ) in words
    assert re.search(r"1 match in \d+ ms\. Nothing was ignored\.", words)
    # It is made once for each state of the records.
    with monkeypatch.context() as patched:
        patched.setattr(live_search, "ask", lambda *_, **__: pytest.fail("searched again"))
        assert Browser(app).get("/").words == words
    walnut = allergy("walnut", code={"text": "Walnut"}, criticality="high")
    publish(app, walnut, now="2026-02-01T00:00:00.000+00:00")
    words = Browser(app).get("/").words
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
        ("parent", "/patients", "Sara Lindqvist"),
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


def test_chart_says_who_reads_the_record_of_another_person(demo):
    page = Browser(demo).resume("parent").get("/patients/p3")
    assert "Not your own record Sara Lindqvist has been given access to it." in page.words
    assert "Not your own record" not in Browser(demo).resume("patient").get("/patients/p1").words
