"""A form that is sent too late: nothing is done, and what was typed comes back."""

from __future__ import annotations

import errno
import sqlite3
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, select

from fhirapp.auth.models import ADMINISTRATOR, Client, Session, User
from fhirapp.web.cookies import SESSION, TYPED, VISITOR, page_of_form
from tests.support.authorizing import alter, rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
NEW_USER = "/admin/users/new"
# The page, its form, what is typed.
FORMS: list[tuple[str, str, dict[str, Any]]] = [
    (NEW_USER, "/new", {"name": "Nora", "username": "late", "role": "patient"}),
    ("/admin/exports", "/exports", {"type": ["Patient", "Group"], "since": "2026-05-03"}),
    ("/admin/imports", "/imports", {"source": "lab", "prefix": "l-", "dry_run": "yes"}),
    (
        "/apps/register?kind=public",
        "/register",
        {"name": "Late", "redirect_uris": "https://a.example/b", "scope": ["openid", "fhirUser"]},
    ),
]


@pytest.fixture
def person(clinic: Flask) -> str:
    """An administrator's user name."""
    return add_person(clinic, ADMINISTRATOR)


@pytest.fixture
def admin(clinic: Flask, person: str) -> Browser:
    return Browser(clinic).resume(person)


def send(
    page: Page, end: str, headers: dict[str, str] = SAME_ORIGIN, lost: str = "", **typed: Any
) -> Page:
    """Send a form as a browser does that says where it comes from and has lost a cookie."""
    form = page.form_to(end)
    fields = {**form.fields, **typed}
    fields.pop("files", None)
    if lost:
        page.browser.set_cookie("", lost)
    return page.browser.post(form.action, fields, headers=headers)


def signed_in_again(page: Page, person: str) -> Page:
    assert page.path.startswith("/sign-in") or page.form("Sign in")
    assert page.status == 200
    return page.submit("Sign in", username=person, password=PASSWORD)


def back(page: Page) -> Page:
    """Follow the link to the form from the page that says that it has expired."""
    assert page.status == 400
    (path,) = page.offered.values()
    return page.browser.get(path)


def assert_filled(page: Page, end: str, typed: dict[str, Any]) -> None:
    fields = page.form_to(end).fields
    found = {name: sorted(text.strip() for text in fields.getlist(name)) for name in typed}
    expected = {name: sorted([value] if isinstance(value, str) else value)
                for name, value in typed.items()}  # fmt: skip
    assert found == expected


@pytest.mark.parametrize(("path", "end", "typed"), FORMS)
def test_typed_values_come_back_after_signing_in_again(admin, person, path, end, typed):
    if path.startswith("/admin"):
        page = signed_in_again(send(admin.get(path), end, lost=SESSION, **typed), person)
        assert page.path == path
        assert_filled(page, end, typed)
    # A form of an earlier session comes back too.
    page = admin.get(path)
    admin.resume(person)
    assert_filled(back(send(page, end, **typed)), end, typed)


def test_expired_session_does_nothing_and_typed_values_come_back_once(clinic, admin, person):
    page = admin.get(NEW_USER)
    alter(clinic, delete(Session))
    typed = FORMS[0][2]
    page = signed_in_again(send(page, "/new", **typed), person)
    assert_filled(page, "/new", typed)
    assert not rows(clinic, select(User.id).where(User.username == "late"))
    assert admin.get(NEW_USER).form_to("/new").fields["name"] == ""


def test_registration_of_an_app_comes_back_without_a_session(clinic):
    browser, (path, end, typed) = Browser(clinic), FORMS[3]
    assert_filled(back(send(browser.get(path), end, lost=VISITOR, **typed)), end, typed)
    assert not rows(clinic, select(Client.client_id).where(Client.name == "Late"))


def test_form_of_another_site_is_not_kept(admin, person):
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": ""}):
        page = admin.get(NEW_USER)
        page = send(page, "/new", headers, lost=SESSION, **FORMS[0][2])
        assert page.status == 400
        assert not admin.cookie(TYPED)
        admin.resume(person)


def test_no_password_key_or_long_text_is_kept(clinic, admin, person):
    typed = {"old": "secret one", "password": "secret two", "again": "secret two"}
    for path, end, fields in (
        ("/account/password", "/password", typed),
        (NEW_USER, "/new", {"name": "a" * 4_000}),
    ):
        page = send(admin.get(path), end, lost=SESSION, **fields)
        assert page.status == 200
        assert not admin.cookie(TYPED)
        admin.resume(person)
    browser = Browser(clinic)
    page = browser.get("/sign-in?next=/account/apps")
    page = send(page, "/sign-in", lost=VISITOR, username="ann", password="secret")
    assert "secret" not in (browser.cookie(TYPED) or "")
    fields = back(page).form("Sign in").fields
    assert (fields["username"], fields["next"]) == ("ann", "/account/apps")
    browser = Browser(clinic)
    page = browser.get("/apps/register?kind=backend")
    send(page, "/register", lost=VISITOR, name="Lab", jwks='{"d": "mine-alone"}')
    kept = browser.cookie(TYPED) or ""
    assert ("name=Lab" in kept, "mine-alone" in kept) == (True, False)


def test_signing_out_after_the_session_ended_is_no_error(admin):
    page = send(admin.get("/account"), "/sign-out", lost=SESSION)
    assert (page.status, page.path) == (200, "/sign-in?done=signed-out")


def test_each_form_has_a_page_to_come_back_to(clinic):
    user = "/admin/users/5e0c9a4e-0d5c-4b6a-9b0a-9d1f0e6c1a2b"
    pages = {
        NEW_USER: NEW_USER,
        f"{user}/role": user,
        "/admin/backups/x/drill": "/admin/backups/x",
        "/admin/backups/x/restore/confirm": "/admin/backups/x/restore",
        "/admin/keys/rotate": "/admin/keys",
        "/admin/uploads/0123456789abcdef01234567/discard": "/admin/imports",
        "/account/apps/x/revoke": "/account/apps",
        "/sign-out": "/",
    }
    found = {}
    for path in pages:
        with clinic.test_request_context(path, method="POST"):
            found[path] = page_of_form()
    assert found == pages


def full_database() -> sqlite3.OperationalError:
    """Return what SQLite says where it finds no room."""
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError) as caught:
        connection.execute("CREATE TABLE t (x)")
    return caught.value


def test_full_disk_is_named_as_such(clinic, admin, monkeypatch):
    for error in (full_database(), OSError(errno.ENOSPC, "No space left on device")):

        def fail(error: Exception = error) -> None:
            raise error

        monkeypatch.setitem(clinic.view_functions, "admin_users.add", fail)
        page = send(admin.get(NEW_USER), "/new", name="Nora")
        assert (page.status, [*page.offered.values()]) == (507, [NEW_USER])
        assert "disk is full" in page.heading
