"""Manage registered clients, and issue tokens from the shell."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from fhirapp.auth.clients.registration import OPERATOR, check_client_id
from fhirapp.auth.enforce import enforceable
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.models import AccessToken, Client, Grant, digest, token_row
from fhirapp.auth.models.client import BASIC, OF_SHELL
from fhirapp.auth.scopes import grantable
from fhirapp.auth.tokens import new_token, revoke_grants
from fhirapp.db import db

_CONTEXTS = ("patient", "user", "system")
# Ten years: what outlives that is no access token.
LONGEST_SECONDS = 10 * 365 * 86_400
_EVERYTHING = "patient/*.rs user/*.rs system/*.rs"


def find(connection: Connection, client_id: str) -> Mapping[str, Any] | None:
    """Return a client's row, None where there is none."""
    table = Client.__table__
    found = connection.execute(select(table).where(table.c.client_id == client_id))
    row = found.mappings().one_or_none()
    return None if row is None else dict(row)


def find_known(connection: Connection, client_id: str) -> Mapping[str, Any]:
    """Return a client's row. Raises RefusedCommand where there is none."""
    check_client_id(client_id)
    row = find(connection, client_id)
    if row is None:
        raise RefusedCommand("There is no client %(client_id)s.", client_id=client_id)
    return row


def find_owned(code: str) -> Client | None:
    """Return the client that somebody manages with this code."""
    return db.session.scalars(
        select(Client).where(Client.owner_digest == digest(code))
    ).one_or_none()


def list_clients(connection: Connection) -> Sequence[Mapping[str, Any]]:
    """Return every client's row."""
    table = Client.__table__
    rows = connection.execute(select(table).order_by(table.c.client_id)).mappings()
    return [dict(row) for row in rows]


def set_disabled(connection: Connection, client_id: str, *, disabled: bool) -> None:
    """Disable or enable a client; its tokens follow at once. Raises RefusedCommand."""
    find_known(connection, client_id)
    connection.execute(
        update(Client).where(Client.client_id == client_id).values(disabled=disabled)
    )


def approve(connection: Connection, client_id: str) -> None:
    """Let a client that was registered on the page ask for tokens. Raises RefusedCommand."""
    find_known(connection, client_id)
    connection.execute(
        update(Client)
        .where(Client.client_id == client_id, Client.approved_at.is_(None))
        .values(approved_at=int(time.time()))
    )


def change(connection: Connection, client_id: str, values: Mapping[str, Any]) -> None:
    """Change what a client is registered for; registration.columns() checked it."""
    connection.execute(update(Client).where(Client.client_id == client_id).values(**values))


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
    connection.execute(
        update(AccessToken).where(AccessToken.client_id == client_id).values(revoked=True)
    )
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
        raise RefusedCommand("A token lives %(seconds)s seconds at most.", seconds=LONGEST_SECONDS)
    if client_id is None:
        client_id = OPERATOR
        _ensure_operator(connection)
    client = find_known(connection, client_id)
    if client["disabled"] or client["approved_at"] is None:
        raise RefusedCommand(
            "The client %(client_id)s is disabled, or waits for approval.", client_id=client_id
        )
    granted = grantable(scope.split(), client["scope"], _CONTEXTS, enforceable)
    if not granted:
        raise RefusedCommand(
            "Nothing of %(scope)r can be granted to %(client_id)s.",
            scope=scope,
            client_id=client_id,
        )
    if patient_id is not None and not any(text.startswith("patient/") for text in granted):
        raise RefusedCommand("--patient goes with a patient/ scope; others reach every patient.")
    if patient_id is None and any(text.startswith("patient/") for text in granted):
        raise RefusedCommand("A patient/ scope needs --patient: whose record is it for?")
    token = new_token()
    row = token_row(
        token,
        client_id=client_id,
        scope=" ".join(granted),
        lifetime=lifetime,
        patient_id=patient_id,
    )
    connection.execute(insert(AccessToken), [row])
    return token


def _ensure_operator(connection: Connection) -> None:
    if find(connection, OPERATOR) is None:
        now = int(time.time())
        row = {
            "client_id": OPERATOR,
            "name": "Operator on the shell",
            "kind": OF_SHELL,
            "auth_method": "none",
            "scope": _EVERYTHING,
            "registered_at": now,
            "approved_at": now,
            "disabled": False,
        }
        connection.execute(insert(Client), [row])
