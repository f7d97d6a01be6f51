"""One-time addresses: of the first administrator, and of a new password.

Which names and passwords are refused is tested in tests/auth/test_users.py.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User
from fhirapp.auth.users import accounts
from fhirapp.db import writing
from tests.support.authorizing import rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person

A_PASSWORD = "four words in a row"
CHOSEN = {"password": A_PASSWORD, "again": A_PASSWORD}
ADA = {"name": "Ada Example", "username": "Ada", **CHOSEN}


def new_code(app: Flask, username: str | None = None) -> str:
    with app.app_context(), writing() as connection:
        user_id = None if username is None else accounts.find_user(connection, username)["id"]
        return accounts.new_setup_code(connection, user_id)


def open_page(app: Flask, code: str) -> Page:
    return Browser(app).get(f"/setup?code={code}")


def test_first_administrator_is_created_once(make_app):
    empty = make_app(seed=False)
    code = new_code(empty)
    form = open_page(empty, code)
    page = form.send("/setup", **ADA)
    entered = page.submit("Sign in", username="ada", password=A_PASSWORD)
    assert entered.path == "/admin"
    assert "/admin/users" in entered.links.values()
    assert form.send("/setup", **ADA).status in (400, 404)
    assert open_page(empty, code).status == 404
    roles = rows(empty, select(User.role).where(User.username == "ada"))
    assert roles == [(ADMINISTRATOR,)]


def test_refused_first_administrator_leaves_the_code_valid(clinic):
    code = new_code(clinic)
    for changes in ({"again": "other words in a row"}, {"username": "admin"}, {"name": " "}):
        page = open_page(clinic, code).send("/setup", **(ADA | changes))
        assert (page.status, len(page.alerts)) == (400, 1)
        # What was typed is there again, but for the passwords.
        fields = page.form_to("/setup").fields
        typed = [fields[name] for name in ("username", "password", "again")]
        assert typed == [changes.get("username", "Ada"), "", ""]
    assert open_page(clinic, code).status == 200


def test_user_chooses_a_password_at_an_address_that_serves_once(clinic, person):
    void, code = new_code(clinic, person), new_code(clinic, person)
    assert open_page(clinic, void).status == 404
    page = open_page(clinic, code)
    assert "Robin Example" in page.heading
    page.send("/setup", **CHOSEN)
    assert Browser(clinic).sign_in(person, PASSWORD).status == 403
    assert Browser(clinic).sign_in(person, A_PASSWORD).path == "/account"
    assert open_page(clinic, code).status == 404


def test_invited_user_begins_where_the_work_is(clinic):
    for role, path in ((ADMINISTRATOR, "/admin"), (CLINICIAN, "/patients"), (PATIENT, "/patients")):
        username = add_person(clinic, role, *(["p1"] if role == PATIENT else []))
        page = open_page(clinic, new_code(clinic, username)).send("/setup", **CHOSEN)
        page = page.submit("Sign in", username=username, password=A_PASSWORD)
        assert page.path.startswith(path)


def test_code_that_is_none_is_not_told_from_one_that_was_used(clinic):
    pages = [open_page(clinic, code) for code in ("x", "%00", "%F0%9F", "a" * 3000)]
    assert {(page.status, page.words) for page in pages} == {(404, pages[0].words)}
    assert "Ask an administrator for a new one" in pages[0].words
    page = Browser(clinic).get("/setup")
    assert (page.status, page.words == pages[0].words) == (404, False)


@pytest.mark.usefixtures("unhurried")
def test_one_of_several_users_of_an_address_at_once_sets_the_password(clinic, person):
    code = new_code(clinic, person)
    pages = [open_page(clinic, code) for _ in range(4)]

    def use(at: int) -> int:
        password = f"{A_PASSWORD} {at}"
        return pages[at].send("/setup", password=password, again=password).status

    with ThreadPoolExecutor(4) as pool:
        assert Counter(pool.map(use, range(4))) == {200: 1, 404: 3}
