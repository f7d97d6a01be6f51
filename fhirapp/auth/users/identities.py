"""Who people are at the clinic's identity provider, and how they come in by it.

Nobody is taken for a user because of a name or an e-mail address, which a provider may give to
another: an administrator links the two. Where a rule gives roles, whoever is new and has one gets
an account; at each sign-in the rule's role holds, and without one nobody comes in.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from fhirapp.audit import acts
from fhirapp.audit.events import record
from fhirapp.auth.models import Identity, User
from fhirapp.auth.users import accounts, sessions
from fhirapp.auth.users.provider import ProviderIdentity
from fhirapp.auth.users.sign_in import NewSession
from fhirapp.config import RefusedCommand
from fhirapp.db import db, writing

# Who waits to be linked and does not come back is forgotten.
_WAIT_SECONDS = 90 * 86_400
_MOST_WAITING = 200


class SignInRefused(Exception):
    """Somebody who proved who they are is nobody here; str() says why, to them."""


def enter(arrived: ProviderIdentity, *, by_rule: bool, instead_of: str | None = None) -> NewSession:
    """Begin a session of whom the provider proved. Raises SignInRefused.

    by_rule: whether a rule gives the role. instead_of: the id of this browser's earlier session.
    """
    with writing() as connection:
        result = _enter(connection, arrived, by_rule, instead_of)
    if isinstance(result, str):
        raise SignInRefused(result)
    return result


def _enter(
    connection: Connection, arrived: ProviderIdentity, by_rule: bool, instead_of: str | None
) -> NewSession | str:
    """Return the session, or why there is none: what was written of it stays."""
    user_id = _remember(connection, arrived)
    if by_rule and arrived.role is None:
        return _refuse(
            arrived, user_id, "Your account at the identity provider has no role on this server."
        )
    if user_id is None:
        user_id = _new_user(connection, arrived) if arrived.role else None
    if user_id is None:
        return _refuse(
            arrived,
            None,
            "An administrator must first link your account at the identity provider to an "
            "account on this server.",
        )
    user = connection.execute(select(User.__table__).where(User.id == user_id)).one()
    if user.disabled:
        return _refuse(arrived, user_id, "Your account on this server is disabled.")
    if arrived.role is not None and arrived.role != user.role:
        try:
            accounts.set_role(connection, user_id, arrived.role)
        except RefusedCommand as error:
            return _refuse(arrived, user_id, error.text)
    complete = user.totp_secret is None or arrived.several_factors
    secret = sessions.begin(
        connection,
        user_id,
        complete=complete,
        instead_of=instead_of,
        issuer=arrived.issuer,
        several_factors=arrived.several_factors,
    )
    connection.execute(update(User).where(User.id == user_id).values(signed_in_at=int(time.time())))
    what = f"by {arrived.issuer}" + ("" if complete else "; the second factor is still to come")
    record("sign-in", about=f"user/{user_id}", user_id=user_id, what=what)
    return NewSession(secret, complete)


def _refuse(arrived: ProviderIdentity, user_id: str | None, why: str) -> str:
    what = f"by {arrived.issuer}, {arrived.subject}: {why.rstrip('.')}"
    record("sign-in-failed", about=f"user/{user_id}" if user_id else "", what=what)
    return why


def _remember(connection: Connection, arrived: ProviderIdentity) -> str | None:
    """Write who came; return whom they are linked with."""
    now = int(time.time())
    seen = {"name": arrived.name, "username": arrived.username, "seen_at": now}
    mine = (Identity.issuer == arrived.issuer, Identity.subject == arrived.subject)
    identity = connection.execute(select(Identity.user_id).where(*mine)).first()
    if identity is not None:
        connection.execute(update(Identity).where(*mine).values(seen))
        return str(identity[0]) if identity[0] else None
    gone = (Identity.user_id.is_(None), Identity.seen_at < now - _WAIT_SECONDS)
    connection.execute(delete(Identity).where(*gone))
    row = {"issuer": arrived.issuer, "subject": arrived.subject, "user_id": None, **seen}
    connection.execute(insert(Identity), [row])
    return None


def _new_user(connection: Connection, arrived: ProviderIdentity) -> str | None:
    """Add whoever has a role and no account; None where a user has that name already."""
    role = arrived.role or ""
    subject = hashlib.sha256(f"{arrived.issuer} {arrived.subject}".encode()).hexdigest()
    fallback = f"user-{subject[:12]}"
    is_username = accounts.USERNAME.fullmatch(arrived.username.lower()) is not None
    username = arrived.username if is_username else fallback
    name = arrived.name or username
    try:
        user_id = accounts.add_user(connection, username, name=name, role=role, by=arrived.issuer)
    except RefusedCommand:
        return None
    acts(user_id)
    link(connection, user_id, arrived.issuer, arrived.subject)
    return user_id


def link(connection: Connection, user_id: str, issuer: str, subject: str) -> bool:
    """Let somebody of the provider sign in as a user; False where they do already.

    Raises RefusedCommand.
    """
    subject = subject.strip()
    if not 0 < len(subject) <= 255 or not subject.isprintable():
        raise RefusedCommand("A subject must have 1 to 255 printable characters.")
    mine = (Identity.issuer == issuer, Identity.subject == subject)
    identity = connection.execute(select(Identity.user_id).where(*mine)).first()
    if identity is not None and identity[0] not in (None, user_id):
        raise RefusedCommand("That account is already linked to another user.")
    if identity is not None and identity[0] == user_id:
        return False
    if identity is None:
        row = {"issuer": issuer, "subject": subject, "user_id": user_id}
        connection.execute(insert(Identity), [row | {"name": "", "username": "", "seen_at": 0}])
    else:
        connection.execute(update(Identity).where(*mine).values(user_id=user_id))
    record("provider-linked", about=f"user/{user_id}", what=f"{issuer}, {subject}")
    return True


def unlink(
    connection: Connection, user_id: str, issuer: str, subject: str, *, keep_apps: bool = False
) -> None:
    """Take the link away; the user's sessions end. Raises RefusedCommand where there is none."""
    mine = (Identity.issuer == issuer, Identity.subject == subject, Identity.user_id == user_id)
    if connection.execute(delete(Identity).where(*mine)).rowcount == 0:
        raise RefusedCommand("That account is not linked.")
    sessions.sign_out_everywhere(connection, user_id, keep_apps=keep_apps)
    record("provider-unlinked", about=f"user/{user_id}", what=f"{issuer}, {subject}")


def of_user(user_id: str) -> Sequence[Identity]:
    """Return whom of a provider a user is linked with."""
    query = select(Identity).where(Identity.user_id == user_id)
    return db.session.scalars(query.order_by(Identity.issuer, Identity.subject)).all()


def waiting(issuer: str) -> Sequence[Identity]:
    """Return who came from the provider and is nobody here yet, the last first."""
    query = select(Identity).where(Identity.user_id.is_(None), Identity.issuer == issuer)
    return db.session.scalars(
        query.order_by(Identity.seen_at.desc(), Identity.subject).limit(_MOST_WAITING)
    ).all()
