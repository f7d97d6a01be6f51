"""The one-time addresses: of the first administrator, and of a new password."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User
from fhirapp.auth.users import accounts
from fhirapp.db import writing
from tests.support.authorizing import rows
from tests.support.browsing import PASSWORD, Browser, add_person

WRONG = "Incorrect user name or password."
A_PASSWORD = "four words in a row"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture
def person(clinic: Flask) -> str:
    """A clinician's user name."""
    return add_person(clinic, CLINICIAN)


def new_code(app: Flask, username: str | None = None) -> str:
    with app.app_context(), writing() as connection:
        user_id = None if username is None else accounts.find_user(connection, username)["id"]
        return accounts.new_setup_code(connection, user_id)


def test_the_first_administrator_is_made_once(make_app):
    empty = make_app(seed=False)
    code = new_code(empty)
    browser = Browser(empty)
    form = browser.get(f"/setup?code={code}")
    filled = {"name": "Ada Example", "username": "Ada", "password": A_PASSWORD}
    page = form.submit("Create administrator account", **filled, again=A_PASSWORD)
    assert page.heading == "Sign in"
    assert "Administrator account created. Sign in to continue." in page.words
    entered = page.submit("Sign in", username="ada", password=A_PASSWORD)
    assert (entered.path, "Add users" in entered.words) == ("/admin", True)
    assert "Administer" in browser.get("/account").links
    assert form.submit("Create administrator account", **filled, again=A_PASSWORD).status in (
        400,
        404,
    )
    assert Browser(empty).get(f"/setup?code={code}").status == 404
    roles = rows(empty, select(User.role).where(User.username == "ada"))
    assert roles == [(ADMINISTRATOR,)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"again": "other words in a row"},
            "The passwords do not match. Enter the same password twice.",
        ),
        ({"password": "short", "again": "short"}, "Choose a password of at least 10 characters."),
        ({"username": "é"}, "A user name must have 2 to 64 characters: letters without accents"),
        ({"username": "admin"}, "The user admin already exists."),
        ({"name": " "}, "A name must have 1 to 200 printable characters."),
    ],
)
def test_what_is_wrong_with_the_first_administrator_is_said_and_the_code_serves_still(
    clinic, changes, message
):
    code = new_code(clinic)
    right = {"name": "A", "username": "a-b", "password": A_PASSWORD, "again": A_PASSWORD}
    page = Browser(clinic).get(f"/setup?code={code}")
    page = page.submit("Create administrator account", **(right | changes))
    assert page.status == 400
    assert message in page.words
    # What was typed is there again, but for the passwords.
    form = page.form("Create administrator account")
    assert form.fields["username"] == changes.get("username", "a-b")
    assert form.fields["password"] == form.fields["again"] == ""
    assert Browser(clinic).get(f"/setup?code={code}").status == 200


def test_a_user_makes_a_password_at_an_address_that_serves_once(clinic, person):
    code = new_code(clinic, person)
    page = Browser(clinic).get(f"/setup?code={code}")
    assert page.heading == "Choose a password, Robin Example"
    page = page.submit("Save password", password=A_PASSWORD, again=A_PASSWORD)
    assert page.heading == "Sign in"
    assert "Password saved. Sign in with your new password." in page.words
    assert WRONG in Browser(clinic).sign_in(person, PASSWORD).words
    assert Browser(clinic).sign_in(person, A_PASSWORD).path == "/account"
    assert Browser(clinic).get(f"/setup?code={code}").status == 404


@pytest.mark.parametrize(
    ("role", "path"),
    [(ADMINISTRATOR, "/admin"), (CLINICIAN, "/patients"), (PATIENT, "/patients")],
)
def test_whoever_is_invited_begins_where_the_work_is(clinic, role, path):
    username = add_person(clinic, role, *(["p1"] if role == PATIENT else []))
    page = Browser(clinic).get(f"/setup?code={new_code(clinic, username)}")
    page = page.submit("Save password", password=A_PASSWORD, again=A_PASSWORD)
    assert page.submit("Sign in", username=username, password=A_PASSWORD).path.startswith(path)


def test_a_new_address_makes_the_one_before_void(clinic, person):
    first, second = new_code(clinic, person), new_code(clinic, person)
    assert Browser(clinic).get(f"/setup?code={first}").status == 404
    assert Browser(clinic).get(f"/setup?code={second}").status == 200


@pytest.mark.parametrize("code", ["x", "%00", "%F0%9F", "a" * 3000])
def test_an_address_that_is_none_makes_nobody(clinic, code):
    """What it was nobody can tell: it is the same as for one that was used."""
    page = Browser(clinic).get(f"/setup?code={code}")
    assert (page.status, page.heading) == (404, "This link no longer works")
    assert "or has expired. Ask an administrator for a new one" in page.words


def test_without_a_code_there_is_no_page(clinic):
    page = Browser(clinic).get("/setup")
    assert (page.status, page.heading) == (404, "Page not found")


@pytest.mark.usefixtures("unhurried")
def test_one_of_two_who_use_an_address_at_once_makes_the_password(clinic, person):
    code = new_code(clinic, person)
    pages = [Browser(clinic).get(f"/setup?code={code}") for _ in range(4)]

    def use(at: int) -> int:
        password = f"{A_PASSWORD} {at}"
        return pages[at].submit("Save password", password=password, again=password).status

    with ThreadPoolExecutor(4) as pool:
        assert Counter(pool.map(use, range(4))) == {200: 1, 404: 3}
