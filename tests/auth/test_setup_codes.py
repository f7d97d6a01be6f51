"""One-time setup codes, and what a new password changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import select, update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, SetupCode, User
from fhirapp.auth.users import accounts
from fhirapp.auth.users.second_factor import enable, new_secret
from fhirapp.auth.users.sign_in import sign_in
from fhirapp.db import db, writing
from tests.support.accounts import PASSWORD, add


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own, who stay."""
    return make_app(seed=False)


def test_password_that_was_set_last_signs_in(clinic):
    with clinic.app_context(), writing() as connection:
        user_id = add(connection, "changing", password=None)
        accounts.set_password(connection, user_id, PASSWORD)
    with clinic.app_context():
        assert sign_in("changing", PASSWORD, "192.0.2.99") is not None
    with clinic.app_context(), writing() as connection:
        accounts.set_password(connection, user_id, "another one altogether")
    with clinic.app_context():
        assert sign_in("changing", PASSWORD, "192.0.2.99") is None


def is_valid(app: Flask, code: str) -> bool:
    """Return whether the page at a one-time address would open."""
    with app.app_context():
        return accounts.setup_code(code) is not None


def new_code(app: Flask, user_id: str | None = None) -> str:
    with app.app_context(), writing() as connection:
        return accounts.new_setup_code(connection, user_id)


def spend(app: Flask, code: str) -> bool:
    with app.app_context(), writing() as connection:
        return accounts.spend_setup_code(connection, code)


@pytest.fixture
def invited(clinic: Flask) -> str:
    """The id of a user who has no password yet."""
    with clinic.app_context(), writing() as connection:
        return add(connection, f"user-{uuid4().hex}", password=None)


def test_setup_code_is_used_once(clinic, invited):
    code = new_code(clinic, invited)
    with clinic.app_context():
        found = accounts.setup_code(code)
        assert found is not None
        assert found.user_id == invited
        digest = db.session.scalar(select(SetupCode.digest).where(SetupCode.user_id == invited))
        assert len(digest) == 32
        assert digest != code.encode()
    assert [spend(clinic, code), spend(clinic, code)] == [True, False]
    assert not is_valid(clinic, code)


def test_setup_code_expires_after_a_day(clinic, invited):
    code = new_code(clinic, invited)
    with clinic.app_context(), writing() as connection:
        mine = SetupCode.user_id == invited
        expires_at = connection.execute(select(SetupCode.expires_at).where(mine)).scalar_one()
        assert abs(expires_at - time.time() - 24 * 3600) < 60
        connection.execute(update(SetupCode).where(mine).values(expires_at=int(time.time())))
    assert not is_valid(clinic, code)
    assert not spend(clinic, code)


def test_new_setup_code_or_password_voids_the_code_before_of_the_same_user(clinic, invited):
    first_administrators = new_code(clinic)
    before, code = new_code(clinic, invited), new_code(clinic, invited)
    assert [is_valid(clinic, text) for text in (before, code)] == [False, True]
    assert is_valid(clinic, first_administrators)
    assert not is_valid(clinic, new_code(clinic)[:-1])
    assert not is_valid(clinic, first_administrators)
    with clinic.app_context(), writing() as connection:
        accounts.set_password(connection, invited, PASSWORD)
    assert not is_valid(clinic, code)


@pytest.mark.parametrize(("role", "still"), [(CLINICIAN, True), (ADMINISTRATOR, False)])
def test_first_administrators_code_is_void_once_there_is_one(clinic, invited, role, still):
    first_administrators, other = new_code(clinic), new_code(clinic, invited)
    with clinic.app_context(), writing() as connection:
        add(connection, f"new-{role}", role=role)
    assert is_valid(clinic, first_administrators) is still
    assert is_valid(clinic, other)


def test_new_password_keeps_the_second_factor(clinic):
    with clinic.app_context(), writing() as connection:
        user_id = add(connection, "with-a-phone")
        enable(connection, user_id, new_secret(), 0)
        accounts.set_password(connection, user_id, "another four words")
    with clinic.test_request_context():
        user = db.session.get_one(User, user_id)
        entered = sign_in(user.username, "another four words", "198.51.100.7")
    assert entered is not None
    assert not entered.complete
