"""Sign in: a name and a password, and the second factor; throttled, for known and unknown alike."""

from __future__ import annotations

import time
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from fhirapp.auth import attempts, passwords, second_factor, sessions
from fhirapp.auth.models import User
from fhirapp.auth.sessions import Signed
from fhirapp.db import db, writing

WINDOW_SECONDS = 15 * 60
# Failures in a window: of one name from one address, of one name, from one address.
PER_NAME_AND_ADDRESS, PER_NAME, PER_ADDRESS = 5, 50, 50


class TooOften(Exception):
    """There were too many failures; seconds says how long to wait."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"wait {seconds} seconds")
        self.seconds = seconds


class Entered(NamedTuple):
    """A session that began: the secret for its cookie, and whether a code is still to come."""

    secret: str
    complete: bool


def sign_in(username: str, password: str, address: str) -> Entered | None:
    """Begin a session; None where name or password is wrong. Raises TooOften.

    address is where the request comes from. Whether the name is known makes no difference in the
    answer nor in the time that it takes.
    """
    name = username.strip().lower()
    keys = _keys(name, address)
    _check(keys)
    user = db.session.scalars(select(User).where(User.username == name)).one_or_none()
    stored = user.password_hash if user is not None and not user.disabled else None
    proved = passwords.verify(stored, password)
    user_id = user.id if user is not None else ""
    complete = user is not None and user.totp_secret is None
    # The hash took longer than anything else here: the snapshot before it is old.
    db.session.rollback()
    with writing() as connection:
        if not proved:
            _count(connection, keys)
            return None
        values: dict[str, object] = {"signed_in_at": int(time.time())}
        if stored is not None and passwords.is_outdated(stored):
            values["password_hash"] = passwords.hashed(password)
        connection.execute(update(User).where(User.id == user_id).values(values))
        attempts.forget(connection, keys[0][0])
        return Entered(sessions.begin(connection, user_id, complete=complete), complete)


def show_second_factor(signed: Signed, code: str, address: str) -> str | None:
    """Complete a session by a code; return its new secret, None where the code is wrong.

    Raises TooOften.
    """
    user, session_id = signed.user, signed.session_id
    keys = _keys(f"{user.username} code", address)
    _check(keys)
    db.session.expunge_all()
    db.session.rollback()
    with writing() as connection:
        if not second_factor.accept(connection, user, code):
            _count(connection, keys)
            return None
        attempts.forget(connection, keys[0][0])
        return sessions.completed(connection, session_id)


def _keys(name: str, address: str) -> list[tuple[str, int]]:
    return [
        (f"sign-in {name} {address}", PER_NAME_AND_ADDRESS),
        (f"sign-in {name}", PER_NAME),
        (f"sign-in from {address}", PER_ADDRESS),
    ]


def _check(keys: list[tuple[str, int]]) -> None:
    connection = db.session.connection()
    wait = max(attempts.wait_seconds(connection, key, limit) for key, limit in keys)
    if wait:
        raise TooOften(wait)


def _count(connection: Connection, keys: list[tuple[str, int]]) -> None:
    for key, _ in keys:
        attempts.count(connection, key, WINDOW_SECONDS)
