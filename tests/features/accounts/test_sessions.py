"""Sessions: how long they last, when their secret changes, what ends them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyotp
import pytest
from flask import Flask
from sqlalchemy import func, select, update

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, Grant, Session, User
from fhirapp.auth.scopes import OFFLINE, ONLINE
from fhirapp.auth.users import second_factor, sessions
from fhirapp.auth.users.sessions import ABSOLUTE_SECONDS, IDLE_SECONDS
from fhirapp.db import writing
from fhirapp.environment import load_settings
from fhirapp.web.times import moment
from tests.support.authorizing import Flow, add_program, alter, rows
from tests.support.browsing import PASSWORD, Browser, add_person, cookie_name, id_of
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.helpers import Fhir

# What several servers share: the session's row, its secret, what ends it.
on_three_servers = pytest.mark.databases(SQLITE, THREE_SERVERS)


def session_of(app: Flask, username: str) -> Session:
    """Return the row of a user's only session that has not ended."""
    lasting = select(Session).where(
        Session.user_id == id_of(app, username), Session.ended_at.is_(None)
    )
    ((found,),) = rows(app, lasting)
    session: Session = found
    return session


def age(app: Flask, username: str, **values: int) -> None:
    """Let time pass for a user's session."""
    alter(app, update(Session).where(Session.user_id == id_of(app, username)).values(**values))


def is_signed_in(browser: Browser) -> bool:
    page = browser.get("/account")
    assert page.status == 200
    assert page.path in ("/account", "/sign-in?next=%2Faccount")
    return page.path == "/account"


def copy_of(browser: Browser) -> Browser:
    """Return a browser of somebody who knows the secret that a browser has now."""
    copy = Browser(browser.client.application)
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


def test_session_secret_is_stored_as_its_digest(clinic, person, browser):
    secret, session = browser.cookie(), session_of(clinic, person)
    assert secret is not None
    assert (len(secret), len(session.digest)) == (43, 32)
    assert secret.encode() not in session.digest


def test_session_cookie_is_for_this_site_and_for_no_script(clinic, person, make_app):
    page = Browser(clinic).get("/sign-in")
    fields = {**page.form("Sign in").fields, "username": person, "password": PASSWORD}
    client = page.browser.client
    answer = client.post("/sign-in", base_url="https://fhir.example", data=fields)
    (cookie,) = answer.headers.getlist("Set-Cookie")
    name, *attributes = cookie.split("; ")
    assert name.startswith(f"{cookie_name(clinic)}=")
    assert name.startswith("__Host-fhirapp_session_")
    attributes = [text for text in attributes if not text.startswith("Expires")]
    assert sorted(attributes) == ["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=Lax", "Secure"]
    # On loopback without TLS it has no prefix.
    url = "http://localhost:8000"
    answer = make_app(seed=False, base_url=url).test_client().get("/sign-in", base_url=url)
    (cookie,) = answer.headers.getlist("Set-Cookie")
    assert cookie.startswith("fhirapp_visitor_")
    assert "Secure" not in cookie


def test_cookies_of_servers_on_one_host_have_names_of_their_own(tmp_path):
    """A browser sends a host's cookies to each of its ports."""
    clinic, other = load_settings({}, instance_path=f"{tmp_path}/a"), f"{tmp_path}/b"
    servers = [clinic, replace(clinic, instance_path=other), replace(clinic, demo=True), clinic]
    names = [cookie_name(create_app(settings)) for settings in servers]
    assert len(set(names[:3])) == 3
    # The processes of one server, and one that is started again, go on with the same.
    assert names[3] == names[0]
    pytest.importorskip("psycopg")
    urls = [f"postgresql://user:{password}@localhost/name" for password in ("old", "new")]
    names = [cookie_name(create_app(replace(clinic, database_url=url))) for url in urls]
    assert names[0] == names[1]


@on_three_servers
def test_session_ends_without_use_and_after_twelve_hours(clinic, person, browser):
    found = {}
    for idle, seconds in (
        (IDLE_SECONDS - 30, IDLE_SECONDS),
        (0, ABSOLUTE_SECONDS - 30),
        (IDLE_SECONDS + 30, IDLE_SECONDS + 30),
        (0, ABSOLUTE_SECONDS + 30),
    ):
        now = int(time.time())
        age(clinic, person, used_at=now - idle, signed_in_at=now - seconds)
        found[idle, seconds] = is_signed_in(browser)
    assert [*found.values()] == [True, True, False, False]
    # One that ended is not taken up again, and is deleted when another begins.
    over = session_of(clinic, person).id
    browser.sign_in(person)
    assert session_of(clinic, person).id != over
    assert rows(clinic, select(func.count()).where(Session.id == over)) == [(0,)]


def test_account_shows_when_the_session_ends(clinic, person, browser):
    since = session_of(clinic, person).signed_in_at
    words = browser.get("/account").words
    assert f"Signed in since {moment(since)}" in words
    until = moment(since + ABSOLUTE_SECONDS)
    assert f"after 30 minutes of inactivity, or {until} at the latest" in words


def test_use_renews_a_session_and_writes_once_a_minute(clinic, person, browser):
    now = int(time.time())
    age(clinic, person, used_at=now - 120)
    assert is_signed_in(browser)
    assert session_of(clinic, person).used_at >= now
    for seconds in (30, 120):
        # Where the database is busy, a page is shown all the same.
        age(clinic, person, used_at=now - seconds)
        with busy(clinic):
            assert is_signed_in(browser)
        assert session_of(clinic, person).used_at == now - seconds


def test_sign_out_is_refused_while_the_database_is_busy(clinic, browser):
    with busy(clinic):
        page = browser.get("/account").send("/sign-out")
    assert (page.status, page.headers["Retry-After"]) == (503, "2")
    assert is_signed_in(browser)


@on_three_servers
def test_signing_in_again_changes_the_secret_and_keeps_the_session(clinic, person, browser):
    old, an_hour_ago = copy_of(browser), int(time.time()) - 3600
    age(clinic, person, signed_in_at=an_hour_ago)
    before = session_of(clinic, person)
    assert browser.sign_in(person, "wrong").status == 403
    assert is_signed_in(browser)
    browser.sign_in(person)
    after = session_of(clinic, person)
    assert after.id == before.id
    assert after.signed_in_at >= an_hour_ago + 3600
    assert [is_signed_in(browser), is_signed_in(old)] == [True, False]


def test_sign_in_of_another_user_ends_the_session_before(clinic, browser):
    old = copy_of(browser)
    other = add_person(clinic, CLINICIAN, name="Somebody Else")
    assert browser.sign_in(other).heading == "Somebody Else"
    assert not is_signed_in(old)


def test_secret_that_a_browser_brings_along_is_never_a_sessions(clinic, person):
    browser = Browser(clinic)
    for cookie in ("", "x", "é", "a" * 3000, '"', "\\", "chosen-by-somebody-else"):
        browser.set_cookie(cookie)
        assert not is_signed_in(browser), cookie
    browser.sign_in(person)
    assert browser.cookie() != "chosen-by-somebody-else"
    assert is_signed_in(browser)


def test_second_factor_changes_the_secret(clinic, person):
    secret, browser = second_factor.new_secret(), Browser(clinic)
    with clinic.app_context(), writing() as connection:
        second_factor.enable(connection, id_of(clinic, person), secret, 1)
    page = browser.sign_in(person)
    old = copy_of(browser)
    assert page.send("/sign-in/code", code=pyotp.TOTP(secret).now()).path == "/account"
    assert old.cookie() != browser.cookie()
    assert old.get("/account").path.startswith("/sign-in")


@on_three_servers
def test_cookie_is_worthless_after_sign_out(browser):
    old, page = copy_of(browser), browser.get("/account")
    assert page.send("/sign-out").path.startswith("/sign-in")
    assert browser.cookie() is None
    assert [is_signed_in(browser), is_signed_in(old)] == [False, False]
    page.send("/sign-out")
    assert not is_signed_in(browser)


@on_three_servers
def test_session_of_a_disabled_user_ends_at_once(clinic, person, browser):
    """Which changes of a user end sessions is tested in tests/auth/test_users.py."""
    other = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    alter(clinic, update(User).where(User.username == person).values(disabled=True))
    assert [is_signed_in(browser), is_signed_in(other)] == [False, True]


def grant_of(app: Flask, scope: str) -> tuple[Flow, str]:
    """Return somebody's flow, and the id of what was allowed in it."""
    flow = Flow(app, add_program(app), id_of(app, add_person(app, CLINICIAN)))
    flow.tokens(f"openid user/*.rs {scope}")
    ((grant_id,),) = rows(app, select(Grant.id).where(Grant.user_id == flow.user_id))
    return flow, str(grant_id)


def is_revoked(app: Flask, grant_id: str) -> bool:
    ((revoked_at,),) = rows(app, select(Grant.revoked_at).where(Grant.id == grant_id))
    return revoked_at is not None


@on_three_servers
def test_online_access_ends_with_the_session_alone(clinic):
    for scope, ends in ((ONLINE, True), (OFFLINE, False), ("", False)):
        flow, grant_id = grant_of(clinic, scope)
        browser = Browser(clinic)
        browser.set_cookie(flow.session)
        browser.get("/account").send("/sign-out")
        assert is_revoked(clinic, grant_id) is ends, scope
    # Who signs in again keeps it; another user ends it.
    flow, grant_id = grant_of(clinic, ONLINE)
    with clinic.app_context():
        found = sessions.find(flow.session)
        assert found is not None
        before = found.session_id
        with writing() as connection:
            secret = sessions.begin(connection, flow.user_id, complete=True, instead_of=before)
    assert not is_revoked(clinic, grant_id)
    browser = Browser(clinic)
    browser.set_cookie(secret)
    browser.sign_in(add_person(clinic, CLINICIAN))
    assert is_revoked(clinic, grant_id)


@pytest.mark.parametrize("way", ["sign out", "sign in again", "end all"])
def test_online_access_outlasts_an_idle_session_until_it_ends(clinic, way):
    """People work in the app meanwhile, and not on our pages."""
    flow, _ = grant_of(clinic, ONLINE)
    name = next(
        name for (name,) in rows(clinic, select(User.username).where(User.id == flow.user_id))
    )
    browser, token = Browser(clinic), flow.tokens("user/*.rs online_access")
    browser.set_cookie(flow.session)
    age(clinic, name, used_at=int(time.time()) - IDLE_SECONDS - 1)
    Browser(clinic).resume(add_person(clinic, CLINICIAN))
    fhir = Fhir(clinic, token["access_token"])
    assert fhir.get("Patient").status_code == 200
    if way == "sign out":
        browser.post_with_token("/sign-out")
    elif way == "sign in again":
        browser.sign_in(name)
    else:
        with clinic.app_context(), writing() as connection:
            sessions.end_all(connection, flow.user_id)
    assert fhir.get("Patient").status_code == 401
    assert flow.refresh(token["refresh_token"]).get_json()["error"] == "invalid_grant"
