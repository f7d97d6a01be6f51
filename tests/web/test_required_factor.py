"""A second factor that the settings ask for: without it nothing is seen, and it is made at once."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, SIGNED, User
from tests.support.authorizing import Flow, add_program, rows
from tests.support.browsing import PASSWORD, Browser, add_person, id_of
from tests.support.second_factor import code_now
from tests.web.test_second_factor_pages import PAGE, secret_on, turn_on

MUST = "This server requires a second factor for your role."
# What each role may see, and where it is led instead.
SEEN = {
    ADMINISTRATOR: ("/admin", "/admin/users", "/account", "/patients/p1", "/notes"),
    CLINICIAN: ("/patients/p1", "/account", "/notes", "/launch"),
    PATIENT: ("/account", "/patients/p1"),
}


@pytest.mark.parametrize(
    ("setting", "role", "is_asked"),
    [
        *(("optional", role, False) for role in SEEN),
        *(("administrators", role, role == ADMINISTRATOR) for role in SEEN),
        *(("staff", role, role != PATIENT) for role in SEEN),
    ],
)
def test_whom_the_setting_names_sees_nothing_without(make_app, setting, role, is_asked):
    app = make_app(second_factor=setting)
    browser = Browser(app)
    page = browser.sign_in(add_person(app, role))
    assert (page.path == PAGE) is is_asked
    assert (MUST in page.words) is is_asked
    for path in SEEN[role]:
        page = browser.get(path)
        assert (page.path == PAGE) is is_asked, path
        assert "Hartwell" not in page.words or not is_asked


def test_once_it_is_on_all_is_seen(make_app):
    app = make_app(second_factor="staff")
    name = add_person(app, CLINICIAN)
    browser = Browser(app)
    browser.sign_in(name)
    secret, _ = turn_on(browser)
    assert "Hartwell" in browser.get("/patients/p1").words
    elsewhere = Browser(app)
    page = elsewhere.sign_in(name).submit("Sign in", code=code_now(secret, later=1))
    assert page.path == "/account"


def test_nobody_who_must_have_it_turns_it_off(make_app):
    app = make_app(second_factor="staff")
    browser = Browser(app)
    browser.sign_in(add_person(app, CLINICIAN))
    secret, _ = turn_on(browser)
    page = browser.get(PAGE).submit(
        "Turn off second factor", password=PASSWORD, code=code_now(secret, later=1)
    )
    assert page.status == 403
    assert "so you can't turn it off" in page.words
    assert "Hartwell" in browser.get("/patients/p1").words


def test_forms_are_refused_until_it_is_on(make_app):
    app = make_app(second_factor="administrators")
    browser = Browser(app)
    browser.sign_in(add_person(app, ADMINISTRATOR))
    before = rows(app, select(User.username))
    for path in ("/admin/users", "/account/password", "/patients/p1/apps"):
        page = browser.post(path, {"username": "mallory", "name": "M", "role": "administrator"})
        assert page.status >= 400 or page.path.startswith((PAGE, "/sign-in")), path
    assert rows(app, select(User.username)) == before


def test_the_password_is_asked_for_with_it(make_app):
    app = make_app(second_factor="staff")
    browser = Browser(app)
    page = browser.sign_in(add_person(app, CLINICIAN))
    page = page.submit("Turn on second factor", password="wrong", code=code_now(secret_on(page)))
    assert page.status == 403
    assert browser.get("/patients/p1").path == PAGE


def test_no_app_is_allowed_anything_without_it(make_app):
    app = make_app(second_factor="staff")
    name = add_person(app, CLINICIAN)
    flow = Flow(app, add_program(app, SIGNED), id_of(app, name))
    browser = Browser(app)
    browser.sign_in(name)
    page = browser.get(f"/oauth/authorize/{flow.park(scope='openid user/*.rs')}")
    assert page.path == PAGE


def test_who_must_have_it_can_still_leave(make_app):
    app = make_app(second_factor="staff")
    browser = Browser(app)
    browser.sign_in(add_person(app, CLINICIAN))
    assert browser.get("/sign-in/code").path == PAGE
    assert browser.post("/sign-out", {}).status < 500
