"""Sessions: how long they last, when their secret changes, what ends them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyotp
import pytest
from flask import Flask
from sqlalchemy import func, select, update

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Grant, Session, User
from fhirapp.auth.scopes import OFFLINE, ONLINE
from fhirapp.auth.users import accounts, sessions, sign_in
from fhirapp.auth.users.sessions import ABSOLUTE_SECONDS, IDLE_SECONDS
from fhirapp.config import load_settings
from fhirapp.db import writing
from fhirapp.web.times import moment
from tests.support.authorizing import Flow, add_program, alter, rows
from tests.support.browsing import PASSWORD, Browser, add_person, cookie_name, id_of
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.helpers import Fhir

pytestmark = pytest.mark.databases(SQLITE, THREE_SERVERS)

A_PASSWORD = "four words in a row"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture
def person(clinic: Flask) -> str:
    """A clinician's user name."""
    return add_person(clinic, CLINICIAN)


@pytest.fixture
def browser(clinic: Flask, person: str) -> Browser:
    """The browser in which that person is signed in."""
    return signed_in(clinic, person)


def signed_in(app: Flask, username: str) -> Browser:
    return Browser(app).resume(username)


def session_of(app: Flask, username: str) -> Session:
    """Return the row of a user's only session that lasts."""
    user_id = id_of(app, username)
    lasting = select(Session).where(Session.user_id == user_id, Session.ended_at.is_(None))
    ((session,),) = rows(app, lasting)
    found: Session = session
    return found


def age(app: Flask, username: str, **values: int) -> None:
    """Let time pass for a user's session."""
    alter(app, update(Session).where(Session.user_id == id_of(app, username)).values(**values))


def is_in(browser: Browser) -> bool:
    """Say whether the browser is shown the account, and not asked to sign in."""
    page = browser.get("/account")
    assert page.status == 200
    assert page.path in ("/account", "/sign-in?next=%2Faccount")
    return page.path == "/account"


def copy_of(app: Flask, browser: Browser) -> Browser:
    """Return a browser of somebody who knows the secret that a browser has now."""
    copy = Browser(app)
    copy.set_cookie(browser.cookie() or "")
    return copy


@contextmanager
def busy(app: Flask) -> Iterator[None]:
    """Let every place of those who write be taken."""
    places = app.extensions["fhirapp.writers"]
    taken = 0
    while places.acquire(blocking=False):
        taken += 1
    try:
        yield
    finally:
        for _ in range(taken):
            places.release()


def test_the_secret_in_the_cookie_is_stored_as_its_digest(clinic, person, browser):
    secret = browser.cookie()
    session = session_of(clinic, person)
    assert secret is not None
    assert len(secret) == 43
    assert secret.encode() not in session.digest
    assert len(session.digest) == 32


def test_the_cookie_is_for_this_site_and_for_no_script(clinic, person):
    page = Browser(clinic).get("/sign-in")
    answer = page.browser.client.post(
        "/sign-in",
        base_url="https://fhir.example",
        data={**page.form("Sign in").fields, "username": person, "password": PASSWORD},
    )
    (cookie,) = answer.headers.getlist("Set-Cookie")
    name, *attributes = cookie.split("; ")
    assert name.startswith(f"{cookie_name(clinic)}=")
    assert name.startswith("__Host-fhirapp_session_")
    attributes = [one for one in attributes if not one.startswith("Expires")]
    assert sorted(attributes) == ["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=Lax", "Secure"]


def test_on_loopback_without_tls_the_cookie_has_no_prefix(make_app):
    app = make_app(seed=False, base_url="http://localhost:8000")
    answer = app.test_client().get("/sign-in", base_url="http://localhost:8000")
    (cookie,) = answer.headers.getlist("Set-Cookie")
    assert cookie.startswith("fhirapp_visitor_")
    assert "Secure" not in cookie


def test_servers_on_one_host_have_cookies_of_their_own(tmp_path):
    """A browser sends a host's cookies to each of its ports."""
    clinic, other = load_settings({}, instance_path=f"{tmp_path}/a"), f"{tmp_path}/b"
    servers = [clinic, replace(clinic, instance_path=other), replace(clinic, demo=True), clinic]
    names = [cookie_name(create_app(settings)) for settings in servers]
    assert len(set(names[:3])) == 3
    # The processes of one server, and one that is started again, go on with the same.
    assert names[3] == names[0]


def test_a_new_password_of_the_database_signs_nobody_out(tmp_path):
    pytest.importorskip("psycopg")
    settings = load_settings({}, instance_path=str(tmp_path))
    urls = [f"postgresql://user:{password}@localhost/name" for password in ("old", "new")]
    names = {cookie_name(create_app(replace(settings, database_url=url))) for url in urls}
    assert len(names) == 1


@pytest.mark.parametrize(
    ("idle", "age_seconds", "lasts"),
    [
        (IDLE_SECONDS - 30, IDLE_SECONDS, True),
        (IDLE_SECONDS + 30, IDLE_SECONDS + 30, False),
        (0, ABSOLUTE_SECONDS - 30, True),
        (0, ABSOLUTE_SECONDS + 30, False),
    ],
)
def test_a_session_ends_without_use_and_after_twelve_hours(
    clinic, person, browser, idle, age_seconds, lasts
):
    now = int(time.time())
    age(clinic, person, used_at=now - idle, signed_in_at=now - age_seconds)
    assert is_in(browser) is lasts


def test_the_page_says_when_the_session_ends(clinic, person, browser):
    since = session_of(clinic, person).signed_in_at
    words = browser.get("/account").words
    assert f"Signed in since {moment(since)}" in words
    until = moment(since + ABSOLUTE_SECONDS)
    assert f"after 30 minutes of inactivity, or {until} at the latest" in words


def test_use_keeps_a_session(clinic, person, browser):
    now = int(time.time())
    age(clinic, person, used_at=now - 120)
    assert is_in(browser)
    assert session_of(clinic, person).used_at >= now


def test_use_within_a_minute_writes_nothing(clinic, person, browser):
    used_at = int(time.time()) - 30
    age(clinic, person, used_at=used_at)
    with busy(clinic):
        assert is_in(browser)
    assert session_of(clinic, person).used_at == used_at


@pytest.mark.databases(SQLITE)
def test_where_the_database_is_busy_a_page_is_shown_all_the_same(clinic, person, browser):
    used_at = int(time.time()) - 120
    age(clinic, person, used_at=used_at)
    with busy(clinic):
        assert is_in(browser)
    assert session_of(clinic, person).used_at == used_at


@pytest.mark.databases(SQLITE)
def test_what_must_be_written_is_refused_while_the_database_is_busy(clinic, browser):
    with busy(clinic):
        page = browser.get("/account").submit("Sign out")
    assert (page.status, page.heading) == (503, "The server is busy")
    assert page.headers["Retry-After"] == "2"
    assert is_in(browser)


def test_signing_in_again_changes_the_secret_and_keeps_the_session(clinic, person, browser):
    old = copy_of(clinic, browser)
    an_hour_ago = int(time.time()) - 3600
    age(clinic, person, signed_in_at=an_hour_ago)
    before = session_of(clinic, person)
    browser.sign_in(person)
    after = session_of(clinic, person)
    assert after.id == before.id
    assert after.signed_in_at >= an_hour_ago + 3600
    assert is_in(browser)
    assert not is_in(old)


def test_somebody_else_who_signs_in_ends_the_session_before(clinic, person, browser):
    old = copy_of(clinic, browser)
    other = add_person(clinic, CLINICIAN, name="Somebody Else")
    assert browser.sign_in(other).heading == "Somebody Else"
    assert not is_in(old)


def test_a_wrong_password_leaves_the_session_as_it_is(clinic, person, browser):
    assert browser.sign_in(person, "wrong").status == 403
    assert is_in(browser)


def test_a_session_that_ended_is_not_taken_up_again(clinic, person, browser):
    before = session_of(clinic, person)
    age(clinic, person, used_at=1)
    browser.sign_in(person)
    assert session_of(clinic, person).id != before.id


def test_a_secret_that_the_browser_brought_along_is_never_a_sessions(clinic, person):
    browser = Browser(clinic)
    browser.set_cookie("chosen-by-somebody-else")
    browser.sign_in(person)
    assert browser.cookie() != "chosen-by-somebody-else"
    assert is_in(browser)


def test_the_second_factor_changes_the_secret(clinic, person):
    secret = sign_in.new_secret()
    with clinic.app_context(), writing() as connection:
        sign_in.enable(connection, id_of(clinic, person), secret, 1)
    browser = Browser(clinic)
    page = browser.sign_in(person)
    assert page.heading == "Enter your code"
    old = copy_of(clinic, browser)
    assert page.submit("Sign in", code=pyotp.TOTP(secret).now()).path == "/account"
    assert old.cookie() != browser.cookie()
    assert not is_in(old)


def test_after_signing_out_the_old_cookie_is_dead(clinic, browser):
    old = copy_of(clinic, browser)
    assert browser.get("/account").submit("Sign out").heading == "Sign in"
    assert browser.cookie() is None
    assert not is_in(browser)
    assert not is_in(old)


def test_to_sign_out_twice_is_no_error(clinic, browser):
    page = browser.get("/account")
    page.submit("Sign out")
    assert browser.get("/account").heading == "Sign in"


def change_password(app: Flask, user_id: str) -> None:
    with app.app_context(), writing() as connection:
        accounts.set_password(connection, user_id, A_PASSWORD)


def disable(app: Flask, user_id: str) -> None:
    with app.app_context(), writing() as connection:
        accounts.set_user_disabled(connection, user_id, disabled=True)


def disable_row(app: Flask, user_id: str) -> None:
    alter(app, update(User).where(User.id == user_id).values(disabled=True))


def change_role(app: Flask, user_id: str) -> None:
    with app.app_context(), writing() as connection:
        accounts.set_role(connection, user_id, PATIENT)


def end_second_factor(app: Flask, user_id: str) -> None:
    with app.app_context(), writing() as connection:
        accounts.end_second_factor(connection, user_id)


@pytest.mark.parametrize(
    "change", [change_password, disable, disable_row, change_role, end_second_factor]
)
def test_what_changes_a_user_ends_every_session_at_once(clinic, person, browser, change):
    another = signed_in(clinic, person)
    stranger = signed_in(clinic, add_person(clinic, ADMINISTRATOR))
    change(clinic, id_of(clinic, person))
    assert not is_in(browser)
    assert not is_in(another)
    assert is_in(stranger)


def test_who_is_enabled_again_signs_in_anew(clinic, person, browser):
    disable(clinic, id_of(clinic, person))
    with clinic.app_context(), writing() as connection:
        accounts.set_user_disabled(connection, id_of(clinic, person), disabled=False)
    assert not is_in(browser)
    assert browser.sign_in(person).path == "/account"


def test_sessions_that_are_over_are_deleted_when_another_begins(clinic, person, browser):
    over = session_of(clinic, person).id
    age(clinic, person, signed_in_at=int(time.time()) - ABSOLUTE_SECONDS - 1)
    signed_in(clinic, add_person(clinic, CLINICIAN))
    assert rows(clinic, select(func.count()).where(Session.id == over)) == [(0,)]


def grant_of(app: Flask, scope: str) -> tuple[Flow, str]:
    """Return somebody's flow, and the id of what was allowed in it."""
    user_id = id_of(app, add_person(app, CLINICIAN))
    flow = Flow(app, add_program(app), user_id)
    flow.tokens(f"openid user/*.rs {scope}")
    ((grant_id,),) = rows(app, select(Grant.id).where(Grant.user_id == user_id))
    return flow, str(grant_id)


def is_revoked(app: Flask, grant_id: str) -> bool:
    ((revoked_at,),) = rows(app, select(Grant.revoked_at).where(Grant.id == grant_id))
    return revoked_at is not None


@pytest.mark.parametrize(("scope", "ends"), [(ONLINE, True), (OFFLINE, False), ("", False)])
def test_with_the_session_ends_what_was_allowed_as_long_as_it_lasts(clinic, scope, ends):
    flow, grant_id = grant_of(clinic, scope)
    browser = Browser(clinic)
    browser.set_cookie(flow.session)
    browser.get("/account").submit("Sign out")
    assert is_revoked(clinic, grant_id) is ends


def test_who_signs_in_again_keeps_what_was_allowed_as_long_as_the_session_lasts(clinic):
    flow, grant_id = grant_of(clinic, ONLINE)
    with clinic.app_context():
        found = sessions.find(flow.session)
        assert found is not None
        with writing() as connection:
            before = found.session_id
            sessions.begin(connection, flow.user_id, complete=True, instead_of=before)
    assert not is_revoked(clinic, grant_id)


def test_somebody_else_who_signs_in_ends_what_was_allowed_so(clinic):
    flow, grant_id = grant_of(clinic, ONLINE)
    browser = Browser(clinic)
    browser.set_cookie(flow.session)
    browser.sign_in(add_person(clinic, CLINICIAN))
    assert is_revoked(clinic, grant_id)


@pytest.mark.parametrize("cookie", ["", "x", "é", "a" * 3000, '"', "\\"])
def test_a_cookie_that_is_no_sessions_is_nobodys(clinic, cookie):
    browser = Browser(clinic)
    browser.set_cookie(cookie)
    assert not is_in(browser)


@pytest.mark.parametrize("way", ["sign out", "sign in again", "end all"])
def test_what_is_allowed_until_sign_out_ends_though_the_session_was_idle(clinic, way):
    """People work in the app meanwhile, and not on our pages."""
    name = add_person(clinic, CLINICIAN)
    browser = signed_in(clinic, name)
    flow = Flow(clinic, add_program(clinic), id_of(clinic, name))
    flow.session = browser.cookie()
    token = flow.tokens("user/*.rs online_access")
    age(clinic, name, used_at=int(time.time()) - IDLE_SECONDS - 1)
    signed_in(clinic, add_person(clinic, CLINICIAN))
    fhir = Fhir(clinic, token["access_token"])
    assert fhir.get("Patient").status_code == 200
    if way == "sign out":
        browser.post(
            "/sign-out",
            {"form_token": browser.get("/sign-in").form("Sign in").fields["form_token"]},
        )
    elif way == "sign in again":
        browser.sign_in(name)
    else:
        with clinic.app_context(), writing() as connection:
            sessions.end_all(connection, id_of(clinic, name))
    assert fhir.get("Patient").status_code == 401
    assert flow.refresh(token["refresh_token"]).get_json()["error"] == "invalid_grant"
