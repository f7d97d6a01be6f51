"""Sign in with user name, password and second factor, throttled whether a name is known or not."""

from __future__ import annotations

import time
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from fhirapp.audit.events import record
from fhirapp.auth import throttle
from fhirapp.auth.models import User
from fhirapp.auth.throttle import TooOften, network_of
from fhirapp.auth.users import passwords, second_factor, sessions
from fhirapp.auth.users.sessions import Signed
from fhirapp.db import db, writing

WINDOW_SECONDS = 15 * 60
# Failures in a window: of one name from one address, of one name, from one address.
PER_NAME_AND_ADDRESS, PER_NAME, PER_ADDRESS = 5, 50, 50
# Who signed in from an address before waits no longer there, however many fail: one try each time.
_PACE_SECONDS = 2
_PASSWORD, _CODE = "password", "code"
# So long a network from which somebody signed in is one of theirs.
_KNOWN_SECONDS = 90 * 86_400


class FailedAttempts(NamedTuple):
    """Tries that failed lately: how many passwords, how many codes, and when all are forgotten.

    until is a Unix time, 0 where nothing failed.
    """

    passwords: int
    codes: int
    until: int


class NewSession(NamedTuple):
    """A session that began: the secret for its cookie, and whether a code is still to come."""

    secret: str
    complete: bool


def sign_in(
    username: str, password: str, address: str, instead_of: str | None = None
) -> NewSession | None:
    """Begin a session; None where name or password is wrong. Raises TooOften.

    address is where the request comes from, instead_of the id of the session that this browser had.
    Whether the name is known makes no difference in the answer nor in the time that it takes.
    """
    name = username.strip().lower()
    tries = _Tries(_PASSWORD, name, address)
    tries.check(db.session.connection())
    user = db.session.scalars(select(User).where(User.username == name)).one_or_none()
    stored = user.password_hash if user is not None and not user.disabled else None
    user_id = user.id if user is not None else ""
    # The hash takes longer than anything else here: it keeps no snapshot open.
    db.session.close()
    proved = passwords.verify(stored, password)
    with writing() as connection:
        tries.take(connection)
        if not proved or not _remember(connection, user_id, stored or "", password):
            tries.failed(connection)
            # Not what was typed for a name that is none: it may be a password.
            record("sign-in-failed", about=f"user/{user_id}" if user_id else "")
            return None
        tries.succeeded(connection)
        without_code = select(User.totp_secret.is_(None)).where(User.id == user_id)
        complete = bool(connection.execute(without_code).scalar_one())
        secret = sessions.begin(connection, user_id, complete=complete, instead_of=instead_of)
        what = "" if complete else "by password; the second factor is still to come"
        record("sign-in", about=f"user/{user_id}", user_id=user_id, what=what)
        return NewSession(secret, complete)


def prove(user_id: str, password: str, address: str) -> bool:
    """Say whether a user who signed in knows the password still. Raises TooOften.

    Counted with the attempts to sign in, which guess the same.
    """
    user = db.session.get_one(User, user_id)
    stored, tries = user.password_hash, _Tries(_PASSWORD, user.username, address)
    tries.check(db.session.connection())
    db.session.close()
    proved = passwords.verify(stored, password)
    with writing() as connection:
        tries.take(connection)
        if proved:
            tries.succeeded(connection)
        else:
            tries.failed(connection)
            record("sign-in-failed", about=f"user/{user_id}", what="asked for it once more")
    return proved


def show_second_factor(signed: Signed, code: str, address: str) -> str | None:
    """Complete a session by a code; return its new secret, None where the code is wrong.

    Raises TooOften.
    """
    user, session_id = signed.user, signed.session_id
    tries = _Tries(_CODE, user.username, address)
    tries.check(db.session.connection())
    db.session.close()
    recovery = second_factor.recovery_code(user.id, code)
    with writing() as connection:
        tries.take(connection)
        if not second_factor.accept(connection, user, code, recovery):
            tries.failed(connection)
            record("code-failed", about=f"user/{user.id}", user_id=user.id)
            return None
        tries.succeeded(connection)
        record("sign-in", about=f"user/{user.id}", user_id=user.id, what="by the second factor")
        return sessions.renewed(connection, session_id)


def proved_otherwise(connection: Connection, user_id: str, address: str) -> None:
    """Forget the passwords that were wrong, where a new one was chosen. Within writing()."""
    username = connection.execute(select(User.username).where(User.id == user_id)).scalar_one()
    _Tries(_PASSWORD, username, address).succeeded(connection)


def failed_lately(username: str) -> FailedAttempts:
    """Return what was tried in vain for a name, from anywhere."""
    connection = db.session.connection()
    wrong_passwords, until = throttle.counted(connection, _of_name(_PASSWORD, username))
    wrong_codes, later = throttle.counted(connection, _of_name(_CODE, username))
    return FailedAttempts(wrong_passwords, wrong_codes, max(until, later))


def _of_name(what: str, name: str) -> str:
    return f"{what} of {name}"


def _remember(connection: Connection, user_id: str, stored: str, password: str) -> bool:
    """Write that a user signed in; False where the password changed meanwhile, or the user went."""
    values: dict[str, object] = {"signed_in_at": int(time.time())}
    if passwords.is_outdated(stored):
        values["password_hash"] = passwords.hashed(password)
    same = (User.id == user_id, User.password_hash == stored, User.disabled.is_(False))
    return connection.execute(update(User).where(*same).values(values)).rowcount == 1


class _Tries:
    """The tries at what one user name is proved by (what: _PASSWORD, _CODE), from one address."""

    def __init__(self, what: str, name: str, address: str) -> None:
        network = network_of(address)
        # Codes have six digits: who guesses them slowly finds one.
        self.is_password = what == _PASSWORD
        # The name comes last: whatever is typed for one makes no other key.
        self.here = f"{what} {network} {name}"
        self.of_name = _of_name(what, name)
        self.of_network = f"sign-in from {network}"
        self.known = f"signed in from {network} {name}"
        self.paced = f"{what} paced {network} {name}"

    def check(self, connection: Connection) -> None:
        """Raise TooOften where there were too many failures.

        Wherever strangers guess at a name, from its owner's address too, the owner still comes in
        from where they did before: slowly, but with the right password always.
        """
        if wait := self._wait(connection):
            if not (self.is_password and self._is_known(connection)):
                raise TooOften(wait)
            if wait := throttle.wait_seconds(connection, self.paced, 1):
                raise TooOften(wait)

    def take(self, connection: Connection) -> None:
        """Check again, after the hash: meanwhile other requests tried the same. Raises TooOften."""
        self.check(connection)
        if self._wait(connection):
            throttle.count(connection, self.paced, _PACE_SECONDS)

    def _is_known(self, connection: Connection) -> bool:
        """Say whether the user signed in from this address before."""
        return throttle.wait_seconds(connection, self.known, 1) > 0

    def _wait(self, connection: Connection) -> int:
        """Return how long a stranger would wait, in seconds."""
        limits = {self.here: PER_NAME_AND_ADDRESS, self.of_network: PER_ADDRESS}
        if self.is_password or not self._is_known(connection):
            limits[self.of_name] = PER_NAME
        return max(throttle.wait_seconds(connection, key, limit) for key, limit in limits.items())

    def failed(self, connection: Connection) -> None:
        for key in (self.here, self.of_name, self.of_network):
            throttle.count(connection, key, WINDOW_SECONDS)

    def succeeded(self, connection: Connection) -> None:
        throttle.forget(connection, self.here)
        throttle.forget(connection, self.known)
        throttle.count(connection, self.known, _KNOWN_SECONDS)
