"""The second factor on its pages: turned on, asked for, turned off."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import unquote

import pytest
import segno
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import CLINICIAN, PATIENT, RecoveryCode, Session
from fhirapp.auth.users import sign_in
from fhirapp.auth.users.sign_in import PER_NAME_AND_ADDRESS
from fhirapp.db import writing
from fhirapp.keys import sealed
from tests.support.authorizing import rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person
from tests.support.second_factor import SECRET, code_now, enable, user_of

PAGE = "/account/second-factor"
NOT_RIGHT = "Incorrect or already used code. Wait for the next code and try again."


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture
def person(clinic: Flask) -> str:
    """A clinician's user name."""
    return add_person(clinic, CLINICIAN)


def show(app: Flask, username: str) -> tuple[Browser, Page]:
    """Sign in with the password; return the page that asks for the code."""
    browser = Browser(app)
    page = browser.sign_in(username)
    assert page.heading == "Enter your code"
    return browser, page


def secret_on(page: Page) -> str:
    """Return the secret that the page shows to be typed."""
    shown = page.words.partition("Or enter this secret in the app: ")[2]
    return shown.partition(" 2.")[0].replace(" ", "")


def turn_on(browser: Browser) -> tuple[str, list[str]]:
    """Turn the second factor on; return its secret and the recovery codes."""
    page = browser.get(PAGE)
    secret = secret_on(page)
    page = page.submit("Turn on second factor", password=PASSWORD, code=code_now(secret))
    assert page.heading == "The second factor is on"
    codes = [word for word in page.words.split() if word.count("-") == 3]
    assert len(codes) == 8
    return secret, codes


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_who_turned_it_on_is_asked_for_a_code(clinic, role):
    person = add_person(clinic, role)
    browser = Browser(clinic).resume(person)
    secret, _ = turn_on(browser)
    assert "On: signing in needs a code from your phone." in browser.get("/account").words
    elsewhere, page = show(clinic, person)
    page = page.submit("Sign in", code=code_now(secret, later=1))
    assert (page.path, page.heading) == ("/account", "Robin Example")
    assert elsewhere.get("/account").heading == "Robin Example"


def test_a_recovery_code_signs_in_too(clinic, person):
    browser = Browser(clinic).resume(person)
    _, codes = turn_on(browser)
    elsewhere, page = show(clinic, person)
    assert page.submit("Sign in", code=codes[0]).path == "/account"
    assert "You have 7 recovery codes left." in elsewhere.get(PAGE).words


def test_what_is_drawn_is_what_is_to_be_typed(clinic, person):
    browser = Browser(clinic).resume(person)
    page = browser.get(PAGE)
    address = page.links["open it there"]
    assert address == sign_in.address(secret_on(page), person)
    drawn = segno.make(address, error="m", micro=False).svg_data_uri(scale=5, light="white")
    assert unquote(drawn) in unquote(page.response.text.replace("&#39;", "'"))


def test_each_time_the_page_is_opened_it_shows_another_secret(clinic, person):
    browser = Browser(clinic).resume(person)
    assert secret_on(browser.get(PAGE)) != secret_on(browser.get(PAGE))
    assert user_of(clinic, person).totp_secret is None


def test_a_wrong_code_turns_nothing_on_and_shows_the_same_secret_again(clinic, person):
    browser = Browser(clinic).resume(person)
    page = browser.get(PAGE)
    again = page.submit("Turn on second factor", password=PASSWORD, code="000000")
    assert again.status == 403
    assert "Incorrect code. Wait for the next code in the app" in again.words
    assert secret_on(again) == secret_on(page)
    done = again.submit("Turn on second factor", password=PASSWORD, code=code_now(secret_on(page)))
    assert done.heading == "The second factor is on"


def test_it_is_turned_on_by_the_password_only(clinic, person):
    browser = Browser(clinic).resume(person)
    page = browser.get(PAGE)
    secret = secret_on(page)
    for wrong in ("wrong", ""):
        page = page.submit("Turn on second factor", code=code_now(secret), password=wrong)
        assert page.status == 403
        assert "Incorrect password. Enter your current password." in page.words
        assert secret_on(page) == secret
    assert user_of(clinic, person).totp_secret is None
    done = page.submit("Turn on second factor", code=code_now(secret), password=PASSWORD)
    assert done.heading == "The second factor is on"


def test_tries_to_turn_it_on_are_counted(clinic, person):
    page = Browser(clinic).resume(person).get(PAGE)
    code = code_now(secret_on(page))
    for _ in range(PER_NAME_AND_ADDRESS):
        assert page.submit("Turn on second factor", code=code, password="wrong").status == 403
    assert page.submit("Turn on second factor", code=code, password=PASSWORD).status == 429
    assert user_of(clinic, person).totp_secret is None


def test_turning_it_on_ends_the_other_sessions_and_changes_this_ones_secret(clinic, person):
    browser, elsewhere = Browser(clinic).resume(person), Browser(clinic).resume(person)
    before = browser.cookie()
    turn_on(browser)
    assert browser.cookie() != before
    assert browser.get("/account").heading == "Robin Example"
    assert elsewhere.get("/account").heading == "Sign in"


def test_the_page_with_the_recovery_codes_can_be_left_by_signing_out(clinic, person):
    browser = Browser(clinic).resume(person)
    page = browser.get(PAGE)
    page = page.submit("Turn on second factor", password=PASSWORD, code=code_now(secret_on(page)))
    assert page.submit("Sign out").heading == "Sign in"


def test_the_recovery_codes_are_shown_this_once(clinic, person):
    browser = Browser(clinic).resume(person)
    form = browser.get(PAGE)
    _, codes = turn_on(browser)
    for page in (browser.get(PAGE), browser.get("/account")):
        assert not any(code in page.response.text for code in codes)
    # The same form again, from before it was on: its token went with the session's old secret.
    assert form.submit("Turn on second factor", password=PASSWORD, code="000000").status == 400


@pytest.mark.parametrize(
    "text",
    [
        "second-factor {other} {soon} {secret}",
        "second-factor {one} {past} {secret}",
        "something-else {one} {soon} {secret}",
        "{one} {soon} {secret}",
        # As it is stored.
        "{secret}",
    ],
)
def test_a_sealed_secret_is_for_one_user_and_ten_minutes(clinic, person, text):
    other, now = add_person(clinic, CLINICIAN), int(time.time())
    times = {"soon": now + 600, "past": now - 1}
    users = {"one": user_of(clinic, person).id, "other": user_of(clinic, other).id}
    with clinic.app_context():
        right = sealed(
            "second-factor {one} {soon} {secret}".format(**users, **times, secret=SECRET)
        )
        wrong = sealed(text.format(**users, **times, secret=SECRET))
    browser = Browser(clinic).resume(person)
    page = browser.get(PAGE)
    refused = page.submit("Turn on second factor", secret=wrong.decode(), code=code_now())
    assert refused.status == 400
    assert "The QR code has expired. Scan the new one." in refused.words
    assert user_of(clinic, person).totp_secret is None
    done = page.submit(
        "Turn on second factor", secret=right.decode(), code=code_now(), password=PASSWORD
    )
    assert done.heading == "The second factor is on"


@pytest.mark.parametrize("text", ["", "x", "é", "gAAAAAB", SECRET, "a" * 1000])
def test_a_secret_that_no_page_showed_is_not_taken(clinic, person, text):
    browser = Browser(clinic).resume(person)
    page = browser.get(PAGE).submit("Turn on second factor", secret=text, code=code_now())
    assert page.status == 400
    assert user_of(clinic, person).totp_secret is None


@pytest.mark.parametrize(
    ("password", "code", "message"),
    [
        ("wrong", None, "Incorrect password. Enter your current password."),
        ("", None, "Incorrect password. Enter your current password."),
        (PASSWORD, "000000", NOT_RIGHT),
        (PASSWORD, "", NOT_RIGHT),
    ],
)
def test_it_is_turned_off_by_password_and_code_only(clinic, person, password, code, message):
    enable(clinic, person)
    browser, page = show(clinic, person)
    page.submit("Sign in", code=code_now())
    right = code_now(later=1)
    page = browser.get(PAGE).submit(
        "Turn off second factor", password=password, code=right if code is None else code
    )
    assert page.status == 403
    assert message in page.words
    assert user_of(clinic, person).totp_secret is not None
    before = browser.cookie()
    page = browser.get(PAGE).submit("Turn off second factor", password=PASSWORD, code=right)
    assert page.heading == "Set up a second factor"
    assert browser.cookie() != before
    assert Browser(clinic).sign_in(person).path == "/account"
    user_id = user_of(clinic, person).id
    assert rows(clinic, select(RecoveryCode).where(RecoveryCode.user_id == user_id)) == []


def test_tries_to_turn_it_off_are_counted(clinic, person, monkeypatch):
    monkeypatch.setattr(sign_in, "_PACE_SECONDS", 60)
    enable(clinic, person)
    browser, page = show(clinic, person)
    page.submit("Sign in", code=code_now())
    page = browser.get(PAGE)
    # One more than elsewhere, for the password was used here before; then one a while.
    for _ in range(PER_NAME_AND_ADDRESS + 1):
        assert page.submit("Turn off second factor", password="wrong", code="x").status == 403
    page = page.submit("Turn off second factor", password=PASSWORD, code=code_now(later=1))
    assert page.status == 429
    assert int(page.headers["Retry-After"]) <= 60


def test_to_turn_off_what_is_off_does_nothing(clinic, person):
    browser = Browser(clinic).resume(person)
    enable(clinic, person)
    page = browser.get(PAGE)
    with clinic.app_context(), writing() as connection:
        sign_in.disable(connection, user_of(clinic, person).id)
    page = page.submit("Turn off second factor", password=PASSWORD, code=code_now())
    assert page.heading == "Set up a second factor"


def test_a_form_from_before_it_was_on_changes_nothing(clinic, person):
    browser = Browser(clinic).resume(person)
    page = browser.get(PAGE)
    enable(clinic, person)
    before = user_of(clinic, person).totp_secret
    page = page.submit("Turn on second factor", password=PASSWORD, code=code_now(secret_on(page)))
    assert page.heading == "The second factor is on"
    assert "Your recovery codes" not in page.words
    assert user_of(clinic, person).totp_secret == before


def test_before_the_code_nothing_is_shown(clinic, person):
    enable(clinic, person)
    browser, _ = show(clinic, person)
    for path in ("/account", "/account/apps", "/account/password", PAGE, "/launch"):
        page = browser.get(path)
        assert page.heading == "Enter your code"
        assert page.offered == {}
        assert page.links == Browser(clinic).get("/sign-in").links
    complete = select(Session.complete).where(Session.user_id == user_of(clinic, person).id)
    assert rows(clinic, complete) == [(False,)]


def test_after_the_code_one_is_where_one_wanted_to_be(clinic, person):
    enable(clinic, person)
    browser = Browser(clinic)
    page = browser.get("/launch?name=hart").submit("Sign in", username=person, password=PASSWORD)
    assert page.submit("Sign in", code=code_now()).path == "/launch?name=hart"


def test_a_wrong_code_is_asked_for_again(clinic, person):
    enable(clinic, person)
    browser = Browser(clinic)
    page = browser.get("/launch").submit("Sign in", username=person, password=PASSWORD)
    page = page.submit("Sign in", code="000000")
    assert page.status == 403
    assert NOT_RIGHT in page.words
    assert page.submit("Sign in", code=code_now()).path == "/launch"


def test_after_five_wrong_codes_the_right_one_waits_too(clinic, person):
    enable(clinic, person)
    browser, page = show(clinic, person)
    for _ in range(PER_NAME_AND_ADDRESS):
        assert page.submit("Sign in", code="000000").status == 403
    page = page.submit("Sign in", code=code_now())
    assert page.status == 429
    assert "Too many attempts. Wait 15 minutes." in page.words
    # A new session does not begin the count anew.
    page = Browser(clinic, browser.address).sign_in(person)
    assert page.submit("Sign in", code=code_now()).status == 429


def test_without_a_session_no_code_is_asked_for(clinic):
    page = Browser(clinic).get("/sign-in/code?next=/launch")
    assert page.heading == "Sign in"
    assert page.form("Sign in").fields["next"] == "/launch"


def test_who_showed_the_code_is_not_asked_again(clinic, person):
    browser = Browser(clinic).resume(person)
    assert browser.get("/sign-in/code?next=/account/apps").path == "/account/apps"
    token = browser.get("/account").form("Sign out").fields["form_token"]
    form = {"form_token": token, "code": "000000", "next": "/account/apps"}
    assert browser.post("/sign-in/code", form).path == "/account/apps"


def test_somebody_else_can_sign_in_instead(clinic, person):
    enable(clinic, person)
    browser, page = show(clinic, person)
    assert page.submit("Use a different account").heading == "Sign in"
    assert browser.sign_in(add_person(clinic, CLINICIAN)).path == "/account"
