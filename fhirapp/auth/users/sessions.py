"""Sessions: a row here and a random secret in the browser's cookie.

A session ends after half an hour without use, and twelve hours after the password was typed. Its
secret changes whenever what it allows changes (OWASP Session Management Cheat Sheet).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

from flask import has_request_context, request
from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select, update

from fhirapp.audit.events import record
from fhirapp.auth.models import (
    ADMINISTRATOR,
    OF_PAGES,
    STAFF,
    Client,
    Grant,
    Session,
    User,
    digest,
)
from fhirapp.auth.tokens import new_token, revoke_grants
from fhirapp.config import settings
from fhirapp.db import db, is_busy, writing

IDLE_SECONDS = 30 * 60
ABSOLUTE_SECONDS = 12 * 3600
# How exactly idleness is measured: each page view would write otherwise.
_STEP_SECONDS = 60
# Characters that are kept of what a browser calls itself.
_LONGEST = 200


class Signed(NamedTuple):
    """The user who is signed in with this browser."""

    user: User
    session_id: str
    signed_in_at: int
    # Whether the second factor was shown, where the user has one or must have one.
    complete: bool
    # Whether the settings ask for a second factor, and the user has none yet.
    lacks_factor: bool = False
    # The identity provider that proved who it is, None where the password did.
    issuer: str | None = None


def begin(
    connection: Connection,
    user_id: str,
    *,
    complete: bool,
    instead_of: str | None = None,
    issuer: str | None = None,
    several_factors: bool = False,
) -> str:
    """Begin a session; return the secret for the cookie.

    instead_of is the id of the session that the browser had: it goes on where it is the same
    user's, with what apps were allowed as long as it lasts; another's ends. issuer is the identity
    provider that proved who it is, several_factors whether a second factor was shown there.
    """
    now = int(time.time())
    secret = new_token()
    # One that nobody uses is kept: apps that the user allowed until signing out hang on it.
    connection.execute(
        delete(Session).where(
            or_(Session.signed_in_at < now - ABSOLUTE_SECONDS, Session.ended_at.is_not(None))
        )
    )
    row = {
        "digest": digest(secret),
        "user_id": user_id,
        "complete": complete,
        "signed_in_at": now,
        "used_at": now,
        "issuer": issuer,
        "several_factors": several_factors,
        **_where(),
    }
    if instead_of is not None:
        mine = (Session.id == instead_of, Session.user_id == user_id, Session.ended_at.is_(None))
        if connection.execute(update(Session).where(*mine).values(row)).rowcount == 1:
            return secret
        end(connection, instead_of)
    connection.execute(insert(Session), [{"id": str(uuid4()), **row}])
    return secret


def _where() -> dict[str, str | None]:
    """Return from where this request comes, and what its browser calls itself."""
    if not has_request_context():
        return {"address": None, "browser": None}
    browser = "".join(char for char in request.user_agent.string[:_LONGEST] if char.isprintable())
    return {"address": request.remote_addr, "browser": browser or None}


def of_user(user_id: str) -> Sequence[Session]:
    """Return a user's sessions that go on, the one that was used last first."""
    return db.session.scalars(
        select(Session)
        .where(Session.user_id == user_id, *_goes_on(int(time.time())))
        .order_by(Session.used_at.desc(), Session.id)
    ).all()


def _goes_on(now: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of a session that has not ended; now is in seconds."""
    return (
        Session.ended_at.is_(None),
        Session.used_at >= now - IDLE_SECONDS,
        Session.signed_in_at >= now - ABSOLUTE_SECONDS,
    )


def end_one(connection: Connection, user_id: str, session_id: str) -> bool:
    """End a session of a user; False where it is none of theirs, or ended already."""
    theirs = (Session.id == session_id, Session.user_id == user_id, Session.ended_at.is_(None))
    if connection.execute(select(Session.id).where(*theirs)).first() is None:
        return False
    end(connection, session_id)
    record("sessions-ended", about=f"user/{user_id}", what="one")
    return True


def find(secret: str) -> Signed | None:
    """Return who signed in with this secret, None where the session is over."""
    now = int(time.time())
    row = db.session.execute(
        select(Session, User)
        .join(User, User.id == Session.user_id)
        .where(Session.digest == digest(secret), *_goes_on(now), User.disabled.is_(False))
    ).first()
    if row is None:
        return None
    session, user = row
    has_factor = user.totp_secret is not None or session.several_factors
    lacks_factor = session.complete and not has_factor and must_have_factor(user.role)
    is_complete = session.complete and not lacks_factor
    signed = Signed(
        user, session.id, session.signed_in_at, is_complete, lacks_factor, session.issuer
    )
    if session.used_at < now - _STEP_SECONDS:
        _use(signed.session_id, now)
    return signed


def must_have_factor(role: str) -> bool:
    """Say whether the settings ask users of a role for a second factor."""
    asked_of = {"administrators": (ADMINISTRATOR,), "staff": STAFF}
    return role in asked_of.get(settings().second_factor, ())


def _use(session_id: str, now: int) -> None:
    """Remember that a session is used; where the database is busy, the next page view will."""
    try:
        with writing() as connection:
            connection.execute(update(Session).where(Session.id == session_id).values(used_at=now))
    except Exception as error:
        if not is_busy(error):
            raise


def renewed(connection: Connection, session_id: str) -> str:
    """Give a session, whose user proved everything, a new secret for the cookie; return it."""
    secret = new_token()
    connection.execute(
        update(Session)
        .where(Session.id == session_id)
        .values(complete=True, digest=digest(secret), used_at=int(time.time()))
    )
    return secret


def end(connection: Connection, session_id: str) -> None:
    """End a session, and what apps were allowed only as long as it lasts."""
    connection.execute(
        update(Session).where(Session.id == session_id).values(ended_at=int(time.time()))
    )
    revoke_grants(connection, Grant.session_id == session_id)


def end_of_browser(connection: Connection, secret: str) -> None:
    """End the session of this secret, also where it was not used for long."""
    rows = connection.execute(
        select(Session.id, Session.user_id).where(Session.digest == digest(secret))
    )
    for session_id, user_id in rows.all():
        end(connection, session_id)
        record("sign-out", about=f"user/{user_id}", user_id=user_id)


def end_all(connection: Connection, user_id: str, *, but: str = "") -> int:
    """End a user's sessions: the password changed, or the role, or the user is disabled.

    Return how many there were, also those that nobody used for long.
    """
    theirs = (Session.user_id == user_id, Session.id != but, Session.ended_at.is_(None))
    ids = connection.execute(select(Session.id).where(*theirs)).scalars().all()
    for session_id in ids:
        end(connection, session_id)
    return len(ids)


def sign_out_everywhere(
    connection: Connection, user_id: str, *, but: str = "", keep_apps: bool = False
) -> bool:
    """End a user's sessions but one, and what apps may do in their name unless they keep it.

    After the password, the role or a factor changed, and where somebody asks for it. False where
    there was nothing to end.
    """
    ended = end_all(connection, user_id, but=but)
    if not keep_apps:
        apps = select(Client.client_id).where(Client.kind != OF_PAGES)
        holds = Grant.expires_at > int(time.time())
        of_apps = (Grant.user_id == user_id, Grant.client_id.in_(apps))
        ended += revoke_grants(connection, holds, *of_apps)
    if not ended:
        return False
    what = "all, and apps keep their access" if keep_apps else "all, and every app's access"
    record("sessions-ended", about=f"user/{user_id}", what=what)
    return True
