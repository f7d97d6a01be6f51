"""In the demo one tries a request as another person; outside it nobody asks with another's token.

/explore/why and the explorer ask with the token of who is named in `as`.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from flask import Flask
from sqlalchemy import select, update

from fhirapp.auth.demo import PEOPLE
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, AccessToken, Grant, User
from fhirapp.db import db, writing
from tests.support.browsing import Browser, Page, add_person, id_of


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


OF_ANOTHER = "/explore/why?address=/fhir/AllergyIntolerance%3Fclinical-status%3Dresolved&reference="
UNSEEN = "This AllergyIntolerance does not exist, or the token does not give access to it."
SEEN = "clinical-status excludes it:"


def why(browser: Browser, username: str, reference: str = "al-p2-morphine") -> Page:
    return browser.get(f"{OF_ANOTHER}{reference}&{urlencode({'as': username})}")


def test_in_the_demo_one_asks_as_another_person(demo):
    browser = Browser(demo).resume("patient")
    assert UNSEEN in why(browser, "").words
    assert SEEN in why(browser, "clinician").words
    assert SEEN in why(browser, "admin").words
    # Nobody was signed out meanwhile, and nothing else changed.
    assert UNSEEN in why(browser, "").words
    assert "User Amelia Hartwell, patient" in browser.get("/explore/token").words


def test_in_the_demo_a_clinician_sees_what_the_patient_sees(demo):
    browser = Browser(demo).resume("clinician")
    assert SEEN in why(browser, "").words
    assert UNSEEN in why(browser, "patient").words
    assert SEEN in why(browser, "patient", "al-p1-latex").words


@pytest.mark.parametrize("username", ["nobody", "clinician'--", "Clinician", " clinician", "é☃"])
def test_in_the_demo_an_unknown_name_is_told(demo, username):
    page = why(Browser(demo).resume("patient"), username)
    assert page.status == 404
    assert "The demo has no account with this name." in page.words


def test_somebody_who_was_added_to_the_demo_cannot_be_asked_as(demo):
    added = add_person(demo, ADMINISTRATOR)
    assert why(Browser(demo).resume("patient"), added).status == 404


def test_somebody_of_the_demo_who_is_disabled_cannot_be_asked_as(make_app):
    app = make_app(demo=True)
    with app.app_context(), writing() as connection:
        connection.execute(update(User).where(User.username == "admin").values(disabled=True))
    page = why(Browser(app).resume("patient"), "admin")
    assert (page.status, "is disabled" in page.words) == (404, True)


def test_outside_the_demo_nobody_is_asked_as(clinic):
    """The people of the demo are in the tests' app too, and so are others."""
    own = add_person(clinic, PATIENT, "p1")
    browser = Browser(clinic).resume(own)
    clinician = add_person(clinic, CLINICIAN)
    tokens = browser_tokens(clinic)
    for username in (*(person.username for person in PEOPLE), clinician, "nobody", ""):
        page = why(browser, username)
        assert UNSEEN in page.words, username
        assert SEEN in why(browser, username, "al-p1-latex").words
    # Nor was a token made for anybody else.
    users = {user for user, _ in browser_tokens(clinic) - tokens}
    assert users == {id_of(clinic, own)}


def browser_tokens(app: Flask) -> set[tuple[str, bytes]]:
    """Return whose tokens of our pages there are."""
    rows = select(Grant.user_id, AccessToken.digest).join(
        AccessToken, AccessToken.grant_id == Grant.id
    )
    with app.app_context():
        return {(user_id, key) for user_id, key in db.session.execute(rows)}


MORPHINE = "address=/fhir/AllergyIntolerance/al-p2-morphine"


@pytest.mark.parametrize("path", [f"/explore?{MORPHINE}&view=raw", f"/explore/whole?{MORPHINE}"])
@pytest.mark.parametrize("method", ["", "&method=post"])
def test_no_page_of_the_explorer_asks_as_another_outside_the_demo(clinic, demo, path, method):
    clinician = add_person(clinic, CLINICIAN)
    browser = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    for username in ("admin", "clinician", clinician, f"{clinician}&as=clinician"):
        page = browser.get(f"{path}{method}&as={username}")
        assert "orphine" not in page.response.text.replace("al-p2-morphine", "")
    # There it would have been.
    if not method:
        page = Browser(demo).resume("patient").get(f"{path}&as=clinician")
        assert "Morphine" in page.response.text


def test_the_form_to_ask_as_another_keeps_the_address(demo):
    page = Browser(demo).resume("clinician").get(f"/explore?{MORPHINE}")
    assert "200 OK" in page.words
    asked = page.submit("Run as this person", **{"as": "patient"})
    assert "404 NOT FOUND" in asked.words.upper()
    assert "al-p2-morphine" in asked.words
    assert asked.form("Run as this person").fields["as"] == "patient"
    assert "200 OK" in asked.submit("Run as this person", **{"as": ""}).words


def test_outside_the_demo_there_is_no_such_form(clinic, clinician):
    page = clinician.get(f"/explore?{MORPHINE}&as=patient")
    assert "200 OK" in page.words
    assert "As another person" not in page.words
    assert not any("Run as this person" in form.buttons for form in page.forms)
