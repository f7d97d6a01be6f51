"""The second factor on its pages: turned on, asked for, required by a setting, turned off.

Which codes are accepted is tested in tests/auth/test_second_factor.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import unquote

import pytest
import segno
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import (
    ADMINISTRATOR,
    CLINICIAN,
    PATIENT,
    SIGNED,
    RecoveryCode,
    Session,
    User,
)
from fhirapp.auth.users import second_factor
from fhirapp.auth.users.sign_in import PER_NAME_AND_ADDRESS
from fhirapp.keys import sealed
from tests.support.authorizing import Flow, add_program, rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person, id_of
from tests.support.second_factor import SECRET, code_now, enable, user_of

PAGE, CODE = "/account/second-factor", "/sign-in/code"


def code_page(app: Flask, username: str) -> Page:
    """Sign in with the password; return the page that asks for the code."""
    page = Browser(app).sign_in(username)
    assert page.form_to(CODE)
    return page


def secret_on(page: Page) -> str:
    """Return the secret that the page shows to be typed."""
    shown = page.words.partition("Or enter this secret in the app: ")[2]
    return shown.partition(" 2.")[0].replace(" ", "")


def send(page: Page, code: str, password: str = PASSWORD, **filled: str) -> Page:
    return page.send(PAGE, code=code, password=password, **filled)


def turn_on(browser: Browser) -> tuple[str, list[str], Page]:
    """Turn the second factor on; return its secret, the recovery codes and the page."""
    page = browser.get(PAGE)
    secret = secret_on(page)
    page = send(page, code_now(secret))
    codes = [word for word in page.words.split() if word.count("-") == 3]
    assert len(codes) == 8
    return secret, codes, page


def is_on(app: Flask, username: str) -> bool:
    return user_of(app, username).totp_secret is not None


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_code_or_recovery_code_is_asked_for_once_it_is_on(clinic, role):
    person = add_person(clinic, role)
    browser, elsewhere = (Browser(clinic).resume(person) for _ in range(2))
    form, before = browser.get(PAGE), browser.cookie()
    secret, codes, page = turn_on(browser)
    # The other sessions end, and this one has another secret.
    assert browser.cookie() != before
    assert elsewhere.get("/account").path.startswith("/sign-in")
    assert "On: signing in needs a code from your phone." in browser.get("/account").words
    # The recovery codes are shown this once; the form's token went with the old secret.
    for path in (PAGE, "/account"):
        assert not any(code in browser.get(path).response.text for code in codes)
    assert send(form, "000000").status == 400
    assert code_page(clinic, person).send(CODE, code=code_now(secret, later=1)).path == "/account"
    page = code_page(clinic, person).send(CODE, code=codes[0])
    assert page.path == "/account"
    assert "You have 7 recovery codes left." in page.browser.get(PAGE).words


def test_qr_code_has_the_secret_that_is_shown_and_a_new_one_each_time(clinic, person, browser):
    page = browser.get(PAGE)
    address = second_factor.address(secret_on(page), person)
    assert address in page.links.values()
    drawn = segno.make(address, error="m", micro=False).svg_data_uri(scale=5, light="white")
    assert unquote(drawn) in unquote(page.response.text.replace("&#39;", "'"))
    assert secret_on(browser.get(PAGE)) != secret_on(page)
    assert not is_on(clinic, person)


def test_wrong_code_or_password_turns_nothing_on_and_keeps_the_secret(clinic, person, browser):
    page = browser.get(PAGE)
    secret = secret_on(page)
    for code, password in (
        ("000000", PASSWORD),
        (code_now(secret), "wrong"),
        (code_now(secret), ""),
    ):
        page = send(page, code, password)
        assert (page.status, len(page.alerts), secret_on(page)) == (403, 1, secret)
    assert not is_on(clinic, person)
    assert send(page, code_now(secret)).status == 200
    assert is_on(clinic, person)


def test_tries_to_turn_it_on_are_counted(clinic, person, browser):
    page = browser.get(PAGE)
    code = code_now(secret_on(page))
    statuses = {send(page, code, "wrong").status for _ in range(PER_NAME_AND_ADDRESS)}
    assert statuses == {403}
    assert send(page, code).status == 429
    assert not is_on(clinic, person)


def test_sealed_secret_is_for_one_user_and_ten_minutes(clinic, person, browser):
    now, other, own = int(time.time()), add_person(clinic, CLINICIAN), user_of(clinic, person).id
    soon, page = now + 600, browser.get(PAGE)
    wrong = [
        f"second-factor {user_of(clinic, other).id} {soon} {SECRET}",
        f"second-factor {own} {now - 1} {SECRET}",
        f"something-else {own} {soon} {SECRET}",
        f"{own} {soon} {SECRET}",
        # As it is stored.
        SECRET,
    ]
    with clinic.app_context():
        right, *others = (
            sealed(text).decode() for text in (f"second-factor {own} {soon} {SECRET}", *wrong)
        )
    for text in (*others, "", "x", "é", "gAAAAAB", SECRET, "a" * 1000):
        refused = send(page, code_now(), secret=text)
        assert (refused.status, len(refused.alerts)) == (400, 1)
    assert not is_on(clinic, person)
    assert send(page, code_now(), secret=right).status == 200
    assert is_on(clinic, person)


def test_second_factor_is_turned_off_by_password_and_code(clinic, person):
    enable(clinic, person)
    browser = code_page(clinic, person).send(CODE, code=code_now()).browser
    right = code_now(later=1)
    for password, code in (("wrong", right), ("", right), (PASSWORD, "000000"), (PASSWORD, "")):
        page = send(browser.get(PAGE), code, password)
        assert (page.status, len(page.alerts)) == (403, 1)
    assert is_on(clinic, person)
    before = browser.cookie()
    page = send(browser.get(PAGE), right)
    assert (page.path, is_on(clinic, person)) == (PAGE, False)
    assert browser.cookie() != before
    assert Browser(clinic).sign_in(person).path == "/account"
    mine = RecoveryCode.user_id == user_of(clinic, person).id
    assert rows(clinic, select(RecoveryCode).where(mine)) == []


def test_nothing_is_shown_before_the_code(clinic, person):
    enable(clinic, person)
    page = code_page(clinic, person)
    for path in ("/account", "/account/apps", "/account/password", PAGE, "/launch"):
        shown = page.browser.get(path)
        assert shown.path.startswith(CODE)
        assert shown.offered == {}
        assert shown.links.items() <= Browser(clinic).get("/sign-in").links.items()
    own = select(Session.complete).where(Session.user_id == user_of(clinic, person).id)
    assert rows(clinic, own) == [(False,)]
    # Somebody else can sign in instead.
    assert page.send("/sign-out").path.startswith("/sign-in")
    assert page.browser.sign_in(add_person(clinic, CLINICIAN)).path == "/account"


def test_code_page_leads_on_and_asks_again_after_a_wrong_code(clinic, person, browser):
    enable(clinic, person)
    page = Browser(clinic).get("/launch?name=hart")
    page = page.submit("Sign in", username=person, password=PASSWORD).send(CODE, code="000000")
    assert (page.status, len(page.alerts)) == (403, 1)
    assert page.send(CODE, code=code_now()).path == "/launch?name=hart"
    # Without a session no code is asked for, nor of who showed it already.
    page = Browser(clinic).get(f"{CODE}?next=/launch")
    assert page.form("Sign in").fields["next"] == "/launch"
    path = "/account/apps"
    assert browser.get(f"{CODE}?next={path}").path == path
    assert browser.post_with_token(CODE, code="000000", next=path).path == path


def test_right_code_waits_after_five_wrong_ones(clinic, person):
    enable(clinic, person)
    page = code_page(clinic, person)
    for _ in range(PER_NAME_AND_ADDRESS):
        assert page.send(CODE, code="000000").status == 403
    assert page.send(CODE, code=code_now()).status == 429
    # A new session does not begin the count anew.
    page = Browser(clinic, page.browser.address).sign_in(person)
    assert page.send(CODE, code=code_now()).status == 429


# What each role may see.
SEEN = {
    ADMINISTRATOR: ("/admin", "/admin/users", "/account", "/patients/p1", "/notes"),
    CLINICIAN: ("/patients/p1", "/account", "/notes", "/launch"),
    PATIENT: ("/account", "/patients/p1"),
}


@pytest.mark.parametrize(
    ("setting", "roles"),
    [("optional", ()), ("administrators", (ADMINISTRATOR,)), ("staff", (ADMINISTRATOR, CLINICIAN))],
)
def test_required_second_factor_leads_each_role_of_the_setting_to_set_it_up(
    make_app, setting, roles
):
    app = make_app(second_factor=setting)
    for role, paths in SEEN.items():
        browser = Browser(app)
        username = add_person(app, role, *(["p1"] if role == PATIENT else []))
        pages = [browser.sign_in(username), *map(browser.get, paths)]
        assert {page.path == PAGE for page in pages} == {role in roles}
        assert ("Hartwell" in " ".join(page.words for page in pages)) is (role not in roles)


@pytest.fixture(scope="module")
def strict(make_app: Callable[..., Flask]) -> Flask:
    """An app in which staff must have a second factor."""
    return make_app(second_factor="staff")


def test_required_second_factor_is_set_up_and_cannot_be_turned_off(strict):
    name = add_person(strict, CLINICIAN)
    page = Browser(strict).sign_in(name)
    browser = page.browser
    assert send(page, code_now(secret_on(page)), "wrong").status == 403
    assert browser.get("/patients/p1").path == PAGE
    secret = turn_on(browser)[0]
    assert "Hartwell" in browser.get("/patients/p1").words
    page = send(browser.get(PAGE), code_now(secret, later=1))
    assert (page.status, len(page.alerts), is_on(strict, name)) == (403, 1, True)
    page = code_page(strict, name).send(CODE, code=code_now(secret, later=1))
    assert page.path == "/account"


def test_nothing_is_done_or_allowed_before_the_required_second_factor(strict):
    name = add_person(strict, ADMINISTRATOR)
    browser, before = Browser(strict).resume(name), rows(strict, select(User.username))
    for path in ("/admin/users/new", "/account/password", "/patients/p1/apps"):
        page = browser.post_with_token(path, username="mallory", name="M", role=ADMINISTRATOR)
        assert page.status >= 400 or page.path == PAGE, path
    assert rows(strict, select(User.username)) == before
    flow = Flow(strict, add_program(strict, SIGNED), id_of(strict, name))
    handle = flow.park(scope="openid user/*.rs")
    assert browser.get(f"/oauth/authorize/{handle}").path == PAGE
    # Signing out is possible.
    assert browser.get(CODE).path == PAGE
    page = browser.post_with_token("/sign-out")
    assert page.path == "/sign-in?done=signed-out"
