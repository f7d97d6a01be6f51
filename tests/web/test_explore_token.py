"""What the person's token opens, in words; and, in the demo alone, asking as somebody else."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, AccessToken, Client, digest
from fhirapp.auth.users.accounts import unlink
from fhirapp.db import db, writing
from fhirapp.web.explore.inspector import remaining
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.helpers import Fhir
from tests.support.helpers import token_for as operators_token

TOKEN = "/explore/token"
UNKNOWN = "This server has no such token of yours."


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with people of its own, not in demo mode."""
    return make_app()


@pytest.fixture(scope="module")
def demo(make_app: Callable[..., Flask]) -> Flask:
    """An app in demo mode."""
    return make_app(demo=True)


@pytest.fixture
def clinician(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def own(page: Page) -> str:
    """Return the token that a page shows."""
    found: str = page.response.text.partition('data-copied="Copied">')[2].partition("<")[0]
    return found


def show(browser: Browser) -> str:
    return own(browser.get(TOKEN).submit("Show the token"))


def row(page: Page, names: str) -> str:
    """Return what a page says from these types on."""
    return page.words.partition(f" {names} ")[2]


def test_a_clinicians_token_opens_every_record(clinician):
    page = clinician.get(TOKEN)
    assert page.heading == "What your token can access"
    assert "User Robin Example, clinician" in page.words
    assert "Patient none (not limited to one patient)" in page.words
    assert "See everything in the record" in page.words
    every = "AllergyIntolerance, DiagnosticReport, DocumentReference, Encounter, Group, Patient,"
    assert row(page, f"{every} RelatedPerson").startswith("all all")
    assert row(page, "Binary").startswith("only those attached to documents that it can read not")
    assert "It has access to every type." in page.words


def test_a_patients_token_opens_one_record(clinic):
    browser = Browser(clinic).resume(add_person(clinic, PATIENT, "p1", "p2"))
    page = browser.get(TOKEN)
    assert "Patient p1 · open this record" in page.words
    assert page.links["open this record"] == "/explore?address=/fhir/Patient/p1"
    own = "DiagnosticReport, DocumentReference, Encounter, Patient, RelatedPerson"
    assert row(page, own).startswith("only that of patient p1 only that of patient p1")
    assert "No access to: Group." in page.words


def test_a_patients_token_opens_what_the_page_says_it_does(clinic):
    browser = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    fhir = Fhir(clinic, show(browser))
    assert fhir.ids("Patient") == ["p1"]
    assert fhir.ids("Group") == []
    assert fhir.ids("Practitioner")


def test_a_patient_without_a_record_has_no_token(clinic):
    page = Browser(clinic).resume(add_person(clinic, PATIENT)).get(TOKEN)
    assert (page.status, page.heading) == (403, "You have no token yet")
    assert "No record is linked to your account yet." in page.words


def test_what_was_taken_from_a_person_is_in_force_no_more(clinic):
    username = add_person(clinic, PATIENT, "p1")
    browser = Browser(clinic).resume(username)
    secret = show(browser)
    user_id = id_of(clinic, username)
    with clinic.app_context(), writing() as connection:
        unlink(connection, user_id, "p1")
    page = browser.get("/account")
    token = page.form("Sign out").fields["form_token"]
    page = browser.post(TOKEN, {"form_token": token, "token": secret})
    assert "Effective scopes none, no access" in page.words
    assert "No access to: AllergyIntolerance, Binary," in page.words


def test_the_token_says_when_it_ends(clinician, clinic):
    page = clinician.get(TOKEN)
    with clinic.app_context():
        key = digest(show(clinician))
        expires_at = db.session.get_one(AccessToken, key).expires_at
    minutes = (expires_at - time.time()) // 60
    assert any(
        f"Expires in {remaining(60 * int(near) + 30)}, on " in page.words
        for near in (minutes, minutes + 1)
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, ""),
        (0, ""),
        (59, "less than a minute"),
        (60, "1 minute"),
        (42 * 60 + 59, "42 minutes"),
        (7199, "119 minutes"),
        (7200, "2 hours"),
        (172_799, "47 hours"),
        (90 * 86_400, "90 days"),
    ],
)
def test_how_long_it_lasts_is_told_in_words(seconds, words):
    assert remaining(seconds) == words


def test_the_token_is_shown_only_when_it_is_asked_for(clinician, clinic):
    assert own(clinician.get(TOKEN)) == ""
    secret = show(clinician)
    assert Fhir(clinic, secret).ids("Patient?_id=p2") == ["p2"]
    assert secret not in clinician.get(TOKEN).response.text


def test_a_token_of_the_same_person_is_told(clinic):
    username = add_person(clinic, CLINICIAN)
    secret = show(Browser(clinic).resume(username))
    page = Browser(clinic).resume(username).get(TOKEN)
    told = page.submit("Inspect", token=f"Bearer {secret} ")
    assert told.heading == "What this token can access"
    assert "User Robin Example, clinician" in told.words
    assert secret not in told.response.text


def test_a_token_of_somebody_else_is_as_unknown_as_none(clinic, clinician):
    secrets = {
        "another's": show(Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))),
        "a program's": operators_token(clinic, "system/*.rs"),
        "none": "nonsense",
        "hostile": "<script>\"'é☃",
    }
    pages = [clinician.get(TOKEN).submit("Inspect", token=one) for one in secrets.values()]
    assert {(page.status, page.heading) for page in pages} == {(404, "Token not found")}
    assert len({page.words for page in pages}) == 1
    assert UNKNOWN in pages[0].words


def test_an_administrator_is_told_of_no_one_elses_token_either(clinic, clinician):
    administrator = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    page = administrator.get(TOKEN).submit("Inspect", token=show(clinician))
    assert page.status == 404


def test_in_the_demo_any_token_is_told(demo):
    browser = Browser(demo).resume("patient")
    secret = operators_token(demo, "system/AllergyIntolerance.rs?clinical-status=active")
    page = browser.get(TOKEN).submit("Inspect", token=secret)
    assert "User System (no user)" in page.words
    assert "all, only where clinical-status is active" in page.words
    assert "No access to: Binary, DiagnosticReport" in page.words


def test_an_ended_token_opens_nothing(demo):
    browser = Browser(demo).resume("patient")
    secret = operators_token(demo, "system/*.rs")
    over = update(AccessToken).where(AccessToken.digest == digest(secret)).values(expires_at=9)
    with demo.app_context(), writing() as connection:
        connection.execute(over)
    page = browser.get(TOKEN).submit("Inspect", token=secret)
    assert "It has expired. It gives no access." in page.words
    assert "expired on 1 January 1970" in page.words
    assert "No access to: AllergyIntolerance, Binary," in page.words


def test_a_token_of_a_disabled_app_opens_nothing(make_app):
    app = make_app(demo=True)
    secret = operators_token(app, "system/*.rs")
    with app.app_context(), writing() as connection:
        connection.execute(
            update(Client).where(Client.client_id == "operator").values(disabled=True)
        )
    page = Browser(app).resume("patient").get(TOKEN).submit("Inspect", token=secret)
    assert "Its app is disabled. It gives no access." in page.words


def test_a_pasted_token_stands_neither_in_an_address_nor_in_a_log(clinic, clinician, caplog):
    secret = operators_token(clinic, "system/*.rs")
    with caplog.at_level(logging.DEBUG):
        page = clinician.get(TOKEN).submit("Inspect", token=secret)
    assert clinician.get(TOKEN).form("Inspect").method == "POST"
    assert secret not in page.response.text
    assert secret not in caplog.text
    # An address that brings one is not looked at.
    asked = clinician.get(f"{TOKEN}?token={show(clinician)}")
    assert asked.heading == "What your token can access"


def test_nothing_pasted_is_told(clinician):
    page = clinician.get(TOKEN).submit("Inspect", token=" Bearer ")
    assert (page.status, page.heading) == (400, "Invalid request")


def test_nobodys_token_is_shown_to_nobody(clinic):
    assert Browser(clinic).get(TOKEN).heading == "Sign in"
    assert Browser(clinic).post(TOKEN, {"show": "1"}).status == 400
