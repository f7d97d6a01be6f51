"""Manage registered clients: approve, change, disable, revoke, reject; issue tokens on the shell.

Anybody may register an app on the page, and programs themselves where the settings let them (RFC
7591): such registrations are throttled, limited in number, and get no tokens until an administrator
approves them.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, false, func, insert, select, union_all, update
from sqlalchemy.orm import joinedload

from fhirapp.audit.events import record
from fhirapp.auth import throttle
from fhirapp.auth.clients.registration import (
    OPERATOR,
    Registration,
    check_client_id,
    columns,
    owner_code,
    register,
)
from fhirapp.auth.models import (
    BASIC,
    NONE,
    OF_PAGES,
    OF_SHELL,
    AccessToken,
    Client,
    Grant,
    RefreshToken,
    Refusal,
    RegistrationOrigin,
    digest,
)
from fhirapp.auth.scopes import enforceable, grantable
from fhirapp.auth.throttle import network_of
from fhirapp.auth.tokens import new_token, revoke_access_tokens, revoke_grants, token_row
from fhirapp.config import RefusedCommand
from fhirapp.db import db, writing

_CONTEXTS = ("patient", "user", "system")
# Ten years: what outlives that is no access token.
LONGEST_SECONDS = 10 * 365 * 86_400
_MOST_NAMESAKES = 5


def find(connection: Connection, client_id: str) -> Mapping[str, Any] | None:
    """Return a client's row, None where there is none."""
    result = connection.execute(_rows().where(Client.client_id == client_id))
    row = result.mappings().one_or_none()
    return None if row is None else dict(row)


def find_known(connection: Connection, client_id: str) -> Mapping[str, Any]:
    """Return a client's row. Raises RefusedCommand where there is none."""
    check_client_id(client_id)
    row = find(connection, client_id)
    if row is None:
        raise RefusedCommand("Unknown client: %(client_id)s.", client_id=client_id)
    return row


def find_owned(code: str) -> Client | None:
    """Return the client that its developer manages with this code."""
    return db.session.scalars(
        select(Client).where(Client.owner_digest == digest(code))
    ).one_or_none()


def list_clients(connection: Connection) -> Sequence[Mapping[str, Any]]:
    """Return every client's row."""
    rows = connection.execute(_rows().order_by(Client.client_id)).mappings()
    return [dict(row) for row in rows]


def list_with_tokens() -> Sequence[tuple[Client, int | None]]:
    """Return every client, and when the newest of its tokens was issued that is not swept out.

    First those that wait for approval, then by name.
    """
    kinds = (AccessToken, RefreshToken)
    issued = union_all(*(select(kind.client_id, kind.issued_at) for kind in kinds)).subquery()
    newest_of_client = select(issued.c.client_id, func.max(issued.c.issued_at).label("at"))
    newest = newest_of_client.group_by(issued.c.client_id).subquery()
    rows = db.session.execute(
        select(Client, newest.c.at)
        .outerjoin(newest, newest.c.client_id == Client.client_id)
        .where(Client.kind != OF_PAGES)
        .options(joinedload(Client.origin))
        .order_by(Client.approved_at.is_not(None), func.lower(Client.name), Client.client_id)
    )
    return [(client, at) for client, at in rows]


def find_client(client_id: str) -> Client | None:
    """Return a client, whatever its state."""
    # PostgreSQL refuses a text with NUL in it, instead of not finding it.
    return db.session.get(Client, client_id) if client_id.isprintable() else None


def namesakes(client: Client) -> Sequence[Client]:
    """Return other clients that people could take for this one by their names, approved ones first.

    Case, spaces, punctuation, accents and forms of letters make no difference.
    """
    mine = _letters(client.name)
    order = (Client.approved_at.is_(None), Client.client_id)
    others = select(Client).where(Client.client_id != client.client_id).order_by(*order)
    alike = (other for other in db.session.scalars(others) if _letters(other.name) == mine)
    return [*islice(alike, _MOST_NAMESAKES)]


def _letters(name: str) -> str:
    text = unicodedata.normalize("NFKD", name).casefold()
    return "".join(filter(str.isalnum, text)) or text


def consents_to(client_id: str) -> int:
    """Return how many consents to a client are in force."""
    count = select(func.count()).where(
        Grant.client_id == client_id,
        Grant.revoked_at.is_(None),
        Grant.expires_at > int(time.time()),
    )
    return db.session.execute(count).scalar_one()


def _rows() -> Select[Any]:
    origin = (
        RegistrationOrigin.address.label("registered_from"),
        func.coalesce(RegistrationOrigin.by_itself, false()).label("registered_by_itself"),
    )
    return select(Client.__table__, *origin).outerjoin(RegistrationOrigin)


def set_disabled(connection: Connection, client_id: str, *, disabled: bool) -> bool:
    """Disable or enable a client; its tokens follow at once. Raises RefusedCommand.

    False where that is so already, here as in what else changes a client.
    """
    if find_known(connection, client_id)["disabled"] == disabled:
        return False
    connection.execute(
        update(Client).where(Client.client_id == client_id).values(disabled=disabled)
    )
    record("app-disabled" if disabled else "app-enabled", about=f"app/{client_id}")
    return True


def approve(connection: Connection, client_id: str) -> bool:
    """Let a client that waits for it ask for tokens. Raises RefusedCommand."""
    find_known(connection, client_id)
    waiting = update(Client).where(Client.client_id == client_id, Client.approved_at.is_(None))
    if connection.execute(waiting.values(approved_at=int(time.time()))).rowcount == 0:
        return False
    record("app-approved", about=f"app/{client_id}")
    return True


def change(connection: Connection, client_id: str, values: Mapping[str, Any]) -> None:
    """Change what a client is registered for; registration.columns() checked it."""
    connection.execute(update(Client).where(Client.client_id == client_id).values(**values))
    record("app-changed", about=f"app/{client_id}", what=", ".join(sorted(values)))


def new_secret(connection: Connection, client_id: str) -> str:
    """Return a client's new secret, shown this once; the old one, and what came of it, is void.

    Raises RefusedCommand.
    """
    row = find_known(connection, client_id)
    if BASIC not in row["auth_method"].split():
        raise RefusedCommand(
            "The client %(client_id)s has no secret to replace.", client_id=client_id
        )
    secret = new_token()
    connection.execute(
        update(Client).where(Client.client_id == client_id).values(secret_digest=digest(secret))
    )
    # Whoever knew the old secret may hold tokens.
    revoke_grants(connection, Grant.client_id == client_id)
    revoke_access_tokens(connection, AccessToken.client_id == client_id)
    record("app-secret", about=f"app/{client_id}")
    return secret


def issue_token(
    connection: Connection,
    *,
    scope: str,
    client_id: str | None = None,
    patient_id: str | None = None,
    lifetime: int = 3600,
) -> str:
    """Issue an access token for an operator; without a client it is the operator's own.

    lifetime is in seconds. Raises RefusedCommand.
    """
    if lifetime > LONGEST_SECONDS:
        raise RefusedCommand(
            "A token can be valid for at most %(seconds)s seconds.", seconds=LONGEST_SECONDS
        )
    if client_id is None:
        client_id = OPERATOR
        name, everything = "Operator on the shell", "patient/*.rs user/*.rs system/*.rs"
        add_own(connection, OPERATOR, name=name, kind=OF_SHELL, scope=everything)
    client = find_known(connection, client_id)
    if client["disabled"] or client["approved_at"] is None:
        raise RefusedCommand(
            "The client %(client_id)s is disabled or waiting for approval.", client_id=client_id
        )
    granted = grantable(scope.split(), client["scope"], _CONTEXTS, enforceable)
    if not granted:
        raise RefusedCommand(
            "None of the scopes %(scope)r can be granted to %(client_id)s.",
            scope=scope,
            client_id=client_id,
        )
    if patient_id is not None and not any(text.startswith("patient/") for text in granted):
        raise RefusedCommand(
            "--patient can only be used with a patient/ scope; other scopes reach every patient."
        )
    if patient_id is None and any(text.startswith("patient/") for text in granted):
        raise RefusedCommand("A patient/ scope needs --patient, the id of the patient.")
    token = new_token()
    row = token_row(
        token,
        client_id=client_id,
        scope=" ".join(granted),
        lifetime=lifetime,
        patient_id=patient_id,
    )
    connection.execute(insert(AccessToken), [row])
    record(
        "token-issued",
        about=f"app/{client_id}",
        what=row["scope"],
        named=() if patient_id is None else (patient_id,),
    )
    return token


def add_own(
    connection: Connection, client_id: str, *, name: str, kind: str, scope: str, **values: Any
) -> None:
    """Add a client of this server's own, where it is not there yet."""
    if find(connection, client_id) is None:
        now = int(time.time())
        row = {"client_id": client_id, "name": name, "kind": kind, "scope": scope, **values}
        row |= {"auth_method": NONE, "registered_at": now, "approved_at": now, "disabled": False}
        connection.execute(insert(Client), [row])


def edit(
    connection: Connection, client_id: str, *, scope: str, redirect_uris: Sequence[str]
) -> bool:
    """Change what a client may ask for, and where it may send users back to.

    Checked as at its registration; tokens follow at once. Raises RefusedCommand.
    """
    row = find_known(connection, client_id)
    kept = ("name", "kind", "auth_method", "launch_uri", "jwks", "jwks_uri", "developer", "contact")
    registration = Registration(
        **{name: row[name] for name in kept}, scope=scope, redirect_uris=tuple(redirect_uris)
    )
    checked = columns(registration)
    values = {
        name: checked[name] for name in ("scope", "redirect_uris") if checked[name] != row[name]
    }
    if values:
        change(connection, client_id, values)
    return bool(values)


def revoke_everything(connection: Connection, client_id: str) -> bool:
    """Revoke every consent to a client, and every token that it holds."""
    now = int(time.time())
    ended = revoke_grants(connection, Grant.client_id == client_id, Grant.expires_at > now)
    of_client = (AccessToken.client_id == client_id, AccessToken.expires_at > now)
    ended += revoke_access_tokens(connection, *of_client)
    if ended:
        record("app-ended", about=f"app/{client_id}", what="every consent and token")
    return bool(ended)


def reject(connection: Connection, client_id: str) -> None:
    """Delete a client that waits for approval. Raises RefusedCommand where it does not."""
    find_known(connection, client_id)
    if not _delete(connection, client_id):
        raise RefusedCommand("This app is already approved. Disable it instead.")
    record("app-rejected", about=f"app/{client_id}")


def _delete(connection: Connection, client_id: str) -> bool:
    """Delete a client unless it is approved; return whether it was not."""
    waiting = delete(Client).where(Client.client_id == client_id, Client.approved_at.is_(None))
    if connection.execute(waiting).rowcount == 0:
        return False
    connection.execute(delete(Refusal).where(Refusal.client_id == client_id))
    return True


# From one address.
PER_HOUR = 10
# Of one client, by whoever holds its owner's address.
TESTS_PER_HOUR = 30
MOST_WAITING = 100
# What nobody approved meanwhile makes room for others.
WAITING_SECONDS = 30 * 86_400
_HOUR = 3600


class TooManyWaiting(RefusedCommand):
    """So many clients wait that no other can, until an administrator has decided."""


class PendingClient(NamedTuple):
    """A client that waits for approval: its id, the code of its owner's page, its secret if any."""

    client_id: str
    owner_code: str
    secret: str | None = None


def apply(registration: Registration, address: str, *, by_itself: bool = False) -> PendingClient:
    """Register a client that waits for approval.

    address is where the request comes from. A program that registers itself has its secret at once,
    on the page it is made after the approval. Raises RefusedCommand, TooManyWaiting, TooOften.
    """
    # Before the write lock is taken: anybody may send this.
    columns(registration)
    with writing() as connection:
        throttle.attempt(connection, f"register {network_of(address)}", PER_HOUR, _HOUR)
        _make_room(connection)
        client_id = register(connection, registration, approved=False)
        row = {"client_id": client_id, "address": address[:64], "by_itself": by_itself}
        connection.execute(insert(RegistrationOrigin), [row])
        has_secret = by_itself and registration.auth_method == BASIC
        secret = new_secret(connection, client_id) if has_secret else None
        return PendingClient(client_id, owner_code(connection, client_id), secret)


def count_test(client_id: str) -> None:
    """Count one test of a client, which may ask another server. Raises TooOften."""
    with writing() as connection:
        throttle.attempt(connection, f"test {client_id}", TESTS_PER_HOUR, _HOUR)


def _make_room(connection: Connection) -> None:
    waits = Client.approved_at.is_(None)
    oldest = int(time.time()) - WAITING_SECONDS
    late = select(Client.client_id).where(waits, Client.registered_at < oldest)
    for client_id in connection.execute(late).scalars().all():
        _delete(connection, client_id)
        record("app-expired", about=f"app/{client_id}")
    count = connection.execute(select(func.count()).select_from(Client).where(waits)).scalar()
    if count is not None and count >= MOST_WAITING:
        raise TooManyWaiting(
            "%(count)s apps are already waiting for approval. Contact the administrator of the "
            "server.",
            count=MOST_WAITING,
        )
