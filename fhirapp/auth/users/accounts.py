"""User accounts: created, linked to records, disabled; and the consents that a user can revoke."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, delete, exists, func, insert, or_, select, update

from fhirapp.audit.events import record
from fhirapp.auth.links import RecordLink, lapse_of, link_of_user, links_of
from fhirapp.auth.models import (
    ADMINISTRATOR,
    OF_PAGES,
    PATIENT,
    ROLES,
    AccessToken,
    AuthorizationCode,
    Client,
    Grant,
    Identity,
    Launch,
    ParkedRequest,
    RecoveryCode,
    RefreshToken,
    Refusal,
    Session,
    SetupCode,
    User,
    UserPatient,
    digest,
)
from fhirapp.auth.tokens import new_token, revoke_grants
from fhirapp.auth.users import passwords, second_factor, sessions
from fhirapp.config import RefusedCommand
from fhirapp.db import db
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.keys import keyed_digest

SETUP_SECONDS = 24 * 3600
# One that serves no longer than that is replaced by a start.
_LEAST_SETUP_SECONDS = 3600
MOST_USERS = 50
# Of what is typed as a name: more tell nobody apart.
_MOST_WORDS = 8
USERNAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{1,63}")
_FHIR_USER = re.compile(f"Practitioner/{ID_PATTERN}")
_PATIENT = re.compile(ID_PATTERN)


def add_user(
    connection: Connection,
    username: str,
    *,
    name: str,
    role: str,
    password: str | None = None,
    password_hash: str | None = None,
    fhir_user: str | None = None,
    by: str = "",
) -> str:
    """Add a user; return the id. Without a password nobody signs in until one is made.

    password_hash is instead of a password, which is then not checked: the demo's is too short.
    by is the identity provider whose rule gave the role.
    Once there is an administrator, the address at which the first one is made is void. Raises
    RefusedCommand.
    """
    username = _username(username)
    if role not in ROLES:
        raise RefusedCommand("A role must be one of %(roles)s.", roles=", ".join(ROLES))
    name = name.strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise RefusedCommand("A name must have 1 to 200 printable characters.")
    if role == PATIENT and fhir_user:
        raise RefusedCommand("A user with the role patient cannot be a Practitioner.")
    if connection.execute(select(User.id).where(User.username == username)).first():
        raise RefusedCommand("The user %(username)s already exists.", username=username)
    if password is not None:
        passwords.check(password, username)
        password_hash = passwords.hashed(password)
    elif password_hash is None:
        # That of random bits, which nobody knows: checking one takes as long.
        password_hash = passwords.hashed(new_token())
    user_id = str(uuid4())
    row = {
        "id": user_id,
        "username": username,
        "name": name,
        "role": role,
        "password_hash": password_hash,
        "fhir_user": _fhir_user(fhir_user),
        "disabled": False,
        "created_at": int(time.time()),
    }
    connection.execute(insert(User), [row])
    if role == ADMINISTRATOR:
        connection.execute(delete(SetupCode).where(SetupCode.user_id.is_(None)))
    event = "administrator-made" if role == ADMINISTRATOR else "user-added"
    what = ", ".join(filter(None, (username, role, by and f"by {by}")))
    record(event, about=f"user/{user_id}", what=what)
    return user_id


def find_user(connection: Connection, username: str) -> Mapping[str, Any]:
    """Return a user's row. Raises RefusedCommand where there is none."""
    name = _username(username)
    result = connection.execute(select(User.__table__).where(User.username == name))
    row = result.mappings().one_or_none()
    if row is None:
        raise RefusedCommand("Unknown user: %(username)s.", username=name)
    return dict(row)


def list_users(connection: Connection) -> Sequence[Mapping[str, Any]]:
    """Return every user's row, by name, with the links to patients' records as `links`."""
    links: dict[str, list[RecordLink]] = {}
    own_first = (UserPatient.is_self.desc(), UserPatient.patient_id)
    for row in connection.execute(select(UserPatient.__table__).order_by(*own_first)):
        lapse = lapse_of(row.patient_id, row.related_person) if row.related_person else ""
        link = RecordLink(row.patient_id, row.is_self, row.related_person, lapse)
        links.setdefault(row.user_id, []).append(link)
    rows = connection.execute(select(User.__table__).order_by(User.username)).mappings()
    return [{**row, "links": links.get(row["id"], [])} for row in rows]


def find_users(text: str, role: str = "") -> tuple[Sequence[User], bool]:
    """Return the users in whose name or user name each word stands, and whether there are more.

    A comma parts words too: Muster, Anna. With a role only those who have it. By user name.
    """
    if not text.isprintable():
        return [], False
    query = select(User).where(
        *(
            or_(
                func.lower(User.name).contains(word, autoescape=True),
                User.username.contains(word, autoescape=True),
            )
            for word in text.lower().replace(",", " ").split()[:_MOST_WORDS]
        )
    )
    if role:
        query = query.where(User.role == role)
    users = db.session.scalars(query.order_by(User.username).limit(MOST_USERS + 1)).all()
    return users[:MOST_USERS], len(users) > MOST_USERS


def set_password(
    connection: Connection,
    user_id: str,
    password: str,
    *,
    keep: str = "",
    keep_apps: bool = False,
) -> None:
    """Change a password; every session ends but the one to keep. Raises RefusedCommand.

    What apps were allowed ends too, unless they keep it.
    """
    username = connection.execute(select(User.username).where(User.id == user_id)).scalar_one()
    passwords.check(password, username)
    hashed = passwords.hashed(password)
    connection.execute(update(User).where(User.id == user_id).values(password_hash=hashed))
    connection.execute(delete(SetupCode).where(SetupCode.user_id == user_id))
    sessions.sign_out_everywhere(connection, user_id, but=keep, keep_apps=keep_apps)
    record("password-changed", about=f"user/{user_id}")


def set_user_disabled(connection: Connection, user_id: str, *, disabled: bool) -> bool:
    """Disable or enable a user; sessions end, tokens follow at once. Raises RefusedCommand.

    False where that is so already, here as in what else changes an account.
    """
    if disabled:
        _keep_an_administrator(connection, user_id)
        sessions.end_all(connection, user_id)
    others = (User.id == user_id, User.disabled.is_(not disabled))
    if connection.execute(update(User).where(*others).values(disabled=disabled)).rowcount == 0:
        return False
    record("user-disabled" if disabled else "user-enabled", about=f"user/{user_id}")
    return True


def set_role(connection: Connection, user_id: str, role: str, *, keep_apps: bool = False) -> bool:
    """Change a user's role; it holds from the next request on. Raises RefusedCommand."""
    if role not in ROLES:
        raise RefusedCommand("A role must be one of %(roles)s.", roles=", ".join(ROLES))
    if role != ADMINISTRATOR:
        _keep_an_administrator(connection, user_id)
    before = connection.execute(select(User.role).where(User.id == user_id)).scalar_one()
    if role == before:
        return False
    connection.execute(update(User).where(User.id == user_id).values(role=role))
    sessions.sign_out_everywhere(connection, user_id, keep_apps=keep_apps)
    event = "administrator-made" if role == ADMINISTRATOR else "role-changed"
    record(event, about=f"user/{user_id}", what=f"{before} to {role}")
    return True


def set_fhir_user(connection: Connection, user_id: str, fhir_user: str | None) -> bool:
    """Say who a user is in the records. Raises RefusedCommand."""
    reference = _fhir_user(fhir_user)
    others = (User.id == user_id, User.fhir_user.is_distinct_from(reference))
    if connection.execute(update(User).where(*others).values(fhir_user=reference)).rowcount == 0:
        return False
    record("practitioner-changed", about=f"user/{user_id}", what=fhir_user or "none")
    return True


def link(
    connection: Connection,
    user_id: str,
    patient_id: str,
    *,
    is_self: bool = True,
    related_person: str | None = None,
) -> bool:
    """Let a patient user see a record. Raises RefusedCommand.

    With the id of a RelatedPerson the link holds while that record says so (auth/links.py), and the
    record is not the user's own.
    """
    if not _PATIENT.fullmatch(patient_id):
        raise RefusedCommand("%(id)r is not a Patient id.", id=patient_id)
    is_self = is_self and related_person is None
    role = connection.execute(select(User.role).where(User.id == user_id)).scalar_one()
    if role != PATIENT:
        raise RefusedCommand("Only users with the role patient can be linked to a record.")
    pair = (UserPatient.user_id == user_id, UserPatient.patient_id == patient_id)
    by_it = UserPatient.related_person.is_not_distinct_from(related_person)
    same = select(exists().where(*pair, UserPatient.is_self.is_(is_self), by_it))
    if connection.execute(same).scalar():
        return False
    connection.execute(delete(UserPatient).where(*pair))
    if is_self:
        others = update(UserPatient).where(UserPatient.user_id == user_id)
        connection.execute(others.values(is_self=False))
    row = {"user_id": user_id, "patient_id": patient_id, "is_self": is_self}
    connection.execute(insert(UserPatient), [{**row, "related_person": related_person}])
    what = f"RelatedPerson/{related_person}" if related_person else ""
    record("record-linked", about=f"user/{user_id}", named=(patient_id,), what=what)
    return True


def unlink(connection: Connection, user_id: str, patient_id: str) -> bool:
    """Take a record from a patient user; tokens follow at once. False where it was not linked."""
    pair = (UserPatient.user_id == user_id, UserPatient.patient_id == patient_id)
    is_id = _PATIENT.fullmatch(patient_id) is not None
    if not is_id or connection.execute(delete(UserPatient).where(*pair)).rowcount == 0:
        return False
    record("record-unlinked", about=f"user/{user_id}", named=(patient_id,))
    return True


def new_setup_code(connection: Connection, user_id: str | None = None) -> str:
    """Return a code for a one-time address; those made before for the same purpose are void."""
    return _keep_code(connection, user_id, new_token(), int(time.time()) + SETUP_SECONDS)


def first_setup_code(connection: Connection) -> str:
    """Return the code for the address of the first administrator; a start finds that of another.

    Nothing but its digest is stored: the code is derived from when it ends.
    """
    now = int(time.time())
    row = connection.execute(select(SetupCode).where(SetupCode.user_id.is_(None))).first()
    if row is not None and row.expires_at > now + _LEAST_SETUP_SECONDS:
        code = keyed_digest("first setup", str(row.expires_at))
        if hmac.compare_digest(digest(code), row.digest):
            return code
    expires_at = now + SETUP_SECONDS
    return _keep_code(connection, None, keyed_digest("first setup", str(expires_at)), expires_at)


def _keep_code(connection: Connection, user_id: str | None, code: str, expires_at: int) -> str:
    is_for = SetupCode.user_id.is_(None) if user_id is None else SetupCode.user_id == user_id
    connection.execute(delete(SetupCode).where(is_for))
    row = {"digest": digest(code), "user_id": user_id, "expires_at": expires_at}
    connection.execute(insert(SetupCode), [row])
    record("password-address", about=f"user/{user_id}" if user_id else "")
    return code


def setup_code(code: str) -> SetupCode | None:
    """Return a code that still serves."""
    return db.session.scalars(select(SetupCode).where(*_serves(code))).one_or_none()


def spend_setup_code(connection: Connection, code: str) -> bool:
    """Use a code; False where it was used meanwhile."""
    return connection.execute(delete(SetupCode).where(*_serves(code))).rowcount == 1


def _serves(code: str) -> tuple[ColumnElement[bool], ...]:
    return SetupCode.digest == digest(code), SetupCode.expires_at > int(time.time())


def has_administrator(connection: Connection) -> bool:
    """Say whether an active administrator exists."""
    administrators = select(User.id).where(User.role == ADMINISTRATOR, User.disabled.is_(False))
    return bool(connection.execute(select(exists(administrators))).scalar())


def fhir_user_of(user: User, patient_id: str | None) -> str | None:
    """Return who a user is in the records, as <type>/<id>; None if unknown.

    It is a Practitioner, a Patient or, to the patient in context, a RelatedPerson.
    """
    if user.role != PATIENT:
        return user.fhir_user
    link = link_of_user(links_of(user.id), patient_id)
    return link and link.fhir_user


def end_second_factor(connection: Connection, user_id: str, *, keep_apps: bool = False) -> bool:
    """Take away a second factor that was lost; sessions end."""
    had_one = second_factor.disable(connection, user_id)
    return sessions.sign_out_everywhere(connection, user_id, keep_apps=keep_apps) or had_one


def _username(text: str) -> str:
    username = text.strip().lower()
    if not USERNAME.fullmatch(username):
        raise RefusedCommand(
            "A user name must have 2 to 64 characters: letters without accents, digits or . _ @ + -"
        )
    return username


def _fhir_user(text: str | None) -> str | None:
    if not text:
        return None
    if not _FHIR_USER.fullmatch(text):
        raise RefusedCommand("%(text)r is not a Practitioner. Use Practitioner/<id>.", text=text)
    return text


def _keep_an_administrator(connection: Connection, user_id: str) -> None:
    others = select(func.count()).where(
        User.role == ADMINISTRATOR, User.disabled.is_(False), User.id != user_id
    )
    role = connection.execute(select(User.role).where(User.id == user_id)).scalar_one()
    if role == ADMINISTRATOR and connection.execute(others).scalar() == 0:
        raise RefusedCommand("This is the last administrator. Add another one first.")


def remove_users(connection: Connection, user_ids: Collection[str]) -> None:
    """Remove accounts with their sessions, consents and tokens; the audit trail stays."""
    names = select(User.id, User.username).where(User.id.in_(user_ids))
    for user_id, username in connection.execute(names).all():
        record("user-removed", about=f"user/{user_id}", what=username)
    granted = select(Grant.id).where(Grant.user_id.in_(user_ids))
    for issued in (AccessToken, AuthorizationCode, RefreshToken):
        connection.execute(delete(issued).where(issued.grant_id.in_(granted)))
    for model in (Grant, Launch, ParkedRequest, Refusal, Session, RecoveryCode, SetupCode):
        connection.execute(delete(model).where(model.user_id.in_(user_ids)))
    for linked in (Identity, UserPatient):
        connection.execute(delete(linked).where(linked.user_id.in_(user_ids)))
    connection.execute(delete(User).where(User.id.in_(user_ids)))


def active_grants(user_id: str) -> list[tuple[Grant, Client]]:
    """Return what a user allows now, with whom, the newest first."""
    rows = db.session.execute(
        select(Grant, Client)
        .join(Client, Client.client_id == Grant.client_id)
        .where(
            Grant.user_id == user_id,
            Client.kind != OF_PAGES,
            Grant.revoked_at.is_(None),
            Grant.expires_at > int(time.time()),
        )
        .order_by(Grant.created_at.desc(), Grant.id)
    )
    return [(grant, client) for grant, client in rows]


def revoke_consent(connection: Connection, grant_id: str, user_id: str) -> bool | None:
    """Revoke what this user allowed the same app about the same record, however often.

    False if all was revoked already; None if the consent is not the user's, or does not exist.
    """
    mine = Grant.user_id == user_id
    query = select(Grant.client_id, Grant.patient_id).where(Grant.id == grant_id, mine)
    row = connection.execute(query).first()
    if row is None:
        return None
    client_id, patient_id = row
    # Without a record it IS NULL, which = never is.
    of_record = Grant.patient_id.is_not_distinct_from(patient_id)
    if not revoke_grants(connection, mine, Grant.client_id == client_id, of_record):
        return False
    patients = () if patient_id is None else (patient_id,)
    record("app-ended", about=f"app/{client_id}", named=patients)
    return True
