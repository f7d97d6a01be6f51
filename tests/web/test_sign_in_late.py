"""A form that comes too late: nothing is done, a sentence says so, what was typed comes back."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, select

from fhirapp.auth.models import ADMINISTRATOR, Client, Session, User
from fhirapp.web.cookies import SESSION, TYPED, VISITOR, page_of_form
from tests.support.app_pages import client_of, register
from tests.support.authorizing import alter, rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person
from tests.support.helpers import BASE_URL

OURS = {"Sec-Fetch-Site": "same-origin"}
OUT = "You were signed out before you sent the form, so nothing was changed."
AGAIN = "Your entries are still in the form."
# The page, its button, what is typed.
FORMS: list[tuple[str, str, dict[str, Any]]] = [
    ("/admin/users/new", "Add user", {"name": "Nora", "username": "late", "role": "patient"}),
    ("/admin/exports", "Start export", {"type": ["Patient", "Group"], "since": "2026-05-03"}),
    ("/admin/imports", "Start import", {"source": "lab", "prefix": "l-", "dry_run": "yes"}),
    (
        "/apps/register?kind=public",
        "Register app",
        {"name": "Late", "redirect_uris": "https://a.example/b", "scope": ["openid", "fhirUser"]},
    ),
]


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture
def person(clinic: Flask) -> str:
    """An administrator's user name."""
    return add_person(clinic, ADMINISTRATOR)


@pytest.fixture
def admin(clinic: Flask, person: str) -> Browser:
    return Browser(clinic).resume(person)


def lose(browser: Browser, *cookies: str) -> None:
    """Take cookies from a browser, as time does."""
    for cookie in cookies:
        browser.set_cookie("", cookie)


def send(page: Page, button: str, headers: dict[str, str] = OURS, **typed: Any) -> Page:
    """Send a form as a browser does that tells where it comes from."""
    form = page.form(button)
    fields = {**form.fields, **typed}
    fields.pop("files", None)
    return page.browser.post(form.action, fields, headers=headers)


def assert_filled(page: Page, button: str, typed: dict[str, Any]) -> None:
    fields = page.form(button).fields
    for name, value in typed.items():
        found = sorted(one.strip() for one in fields.getlist(name))
        assert found == sorted(value if isinstance(value, list) else [value]), name


@pytest.mark.parametrize(("path", "button", "typed"), FORMS[:3])
def test_what_was_typed_comes_back_after_signing_in_again(admin, person, path, button, typed):
    page = admin.get(path)
    lose(admin, SESSION)
    page = send(page, button, **typed)
    assert (page.heading, page.status) == ("Sign in", 200)
    assert OUT in page.words
    page = page.submit("Sign in", username=person, password=PASSWORD)
    assert page.path == path
    assert_filled(page, button, typed)


def test_where_the_session_ran_out_it_is_the_same(clinic, admin, person):
    page = admin.get("/admin/users/new")
    alter(clinic, delete(Session))
    page = send(page, "Add user", **FORMS[0][2])
    assert OUT in page.words
    page = page.submit("Sign in", username=person, password=PASSWORD)
    assert_filled(page, "Add user", FORMS[0][2])
    # Nothing was done, and it comes back once.
    assert not rows(clinic, select(User.id).where(User.username == "late"))
    assert admin.get("/admin/users/new").form("Add user").fields["name"] == ""


def test_what_an_upload_brought_comes_back(admin, person):
    page = admin.get("/admin/imports")
    task = page.form("Start import").fields["task"]
    admin.client.post(
        f"/admin/uploads/{task}/0?name=a.ndjson&size=2&at=0&left=2",
        base_url=BASE_URL,
        data=b"{}",
        headers={"X-Form-Token": page.form("Start import").fields["form_token"]},
    )
    lose(admin, SESSION)
    page = send(page, "Start import")
    page = page.submit("Sign in", username=person, password=PASSWORD)
    assert "1 file uploaded" in page.words
    assert page.form("Start import").fields["task"] == task


def test_the_change_of_an_app_comes_back(clinic, admin, person):
    client = client_of(clinic, register(clinic, "public", name="Changed")).client_id
    page = admin.get(f"/admin/clients/{client}")
    lose(admin, SESSION)
    page = send(page, "Save", scope="openid", redirect_uris="https://b.example/")
    page = page.submit("Sign in", username=person, password=PASSWORD)
    assert page.path == f"/admin/clients/{client}"
    assert_filled(page, "Save", {"scope": "openid", "redirect_uris": "https://b.example/"})


@pytest.mark.parametrize(("path", "button", "typed"), FORMS)
def test_a_form_of_an_earlier_session_comes_back_too(admin, person, path, button, typed):
    page = admin.get(path)
    admin.resume(person)
    page = send(page, button, **typed)
    assert (page.status, page.heading) == (400, "This form has expired")
    assert AGAIN in page.words
    page = admin.get(page.offered["Back to the form"])
    assert_filled(page, button, typed)


def test_who_registers_an_app_needs_no_session_for_it(clinic):
    browser, (path, button, typed) = Browser(clinic), FORMS[3]
    page = browser.get(path)
    lose(browser, VISITOR)
    page = send(page, button, **typed)
    page = browser.get(page.offered["Back to the form"])
    assert_filled(page, button, typed)
    assert not rows(clinic, select(Client.client_id).where(Client.name == "Late"))


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": ""}])
def test_what_another_site_sends_is_not_kept(admin, headers):
    page = admin.get("/admin/users/new")
    lose(admin, SESSION)
    page = send(page, "Add user", headers, **FORMS[0][2])
    assert (page.status, page.heading) == (400, "Invalid request")
    assert not admin.cookie(TYPED)


def test_no_password_is_kept(clinic, admin):
    page = admin.get("/account/password")
    lose(admin, SESSION)
    page = send(
        page, "Change password", old="secret one", password="secret two", again="secret two"
    )
    assert f"{OUT} Sign in and send it again." in page.words
    assert not admin.cookie(TYPED)
    browser = Browser(clinic)
    page = browser.get("/sign-in?next=/account/apps")
    lose(browser, VISITOR)
    page = send(page, "Sign in", username="ann", password="secret")
    assert "secret" not in (browser.cookie(TYPED) or "")
    fields = browser.get(page.offered["Back to the form"]).form("Sign in").fields
    assert (fields["username"], fields["next"]) == ("ann", "/account/apps")


def test_no_key_is_kept(clinic):
    browser = Browser(clinic)
    page = browser.get("/apps/register?kind=backend")
    lose(browser, VISITOR)
    send(page, "Register app", name="Lab", jwks='{"d": "mine-alone"}')
    assert "name=Lab" in (browser.cookie(TYPED) or "")
    assert "mine-alone" not in (browser.cookie(TYPED) or "")


def test_what_is_too_long_for_a_cookie_is_not_kept(admin):
    page = admin.get("/admin/users/new")
    lose(admin, SESSION)
    page = send(page, "Add user", name="a" * 4_000)
    assert f"{OUT} Sign in and send it again." in page.words
    assert not admin.cookie(TYPED)


def test_whoever_is_signed_out_already_can_sign_out(admin):
    page = admin.get("/account")
    lose(admin, SESSION)
    page = send(page, "Sign out")
    assert (page.heading, page.status) == ("Sign in", 200)
    assert "You are signed out." in page.words


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/admin/users/new", "/admin/users/new"),
        ("/admin/users/5e0c9a4e-0d5c-4b6a-9b0a-9d1f0e6c1a2b/role",
         "/admin/users/5e0c9a4e-0d5c-4b6a-9b0a-9d1f0e6c1a2b"),
        ("/admin/backups/x/drill", "/admin/backups/x"),
        ("/admin/backups/x/restore/confirm", "/admin/backups/x/restore"),
        ("/admin/keys/rotate", "/admin/keys"),
        ("/admin/uploads/0123456789abcdef01234567/discard", "/admin/imports"),
        ("/account/apps/x/revoke", "/account/apps"),
        ("/sign-out", "/"),
    ],
)  # fmt: skip
def test_a_form_has_a_page_to_come_back_to(clinic, path, page):
    with clinic.test_request_context(path, method="POST"):
        assert page_of_form() == page


def full() -> sqlite3.OperationalError:
    """Return what SQLite says where it finds no room."""
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError) as caught:
        connection.execute("CREATE TABLE t (x)")
    return caught.value


@pytest.mark.parametrize(
    "error", [full(), OSError(errno.ENOSPC, "No space left on device")], ids=["database", "file"]
)
def test_a_full_disk_is_told_as_such(make_app, error):
    app = make_app()
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    page = admin.get("/admin/users/new")

    def fails() -> None:
        raise error

    app.view_functions["admin_users.add"] = fails
    page = send(page, "Add user", name="Nora")
    assert (page.status, page.heading) == (507, "The server's disk is full")
    assert "Nothing was saved." in page.words
    assert page.offered["Back to the form"] == "/admin/users/new"
