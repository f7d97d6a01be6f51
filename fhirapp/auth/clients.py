"""Register clients and issue tokens from the shell; the clients of demo mode."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from sqlalchemy import Connection, insert, select, update

from fhirapp.auth.enforce import enforceable
from fhirapp.auth.models import AccessToken, Client, digest, token_row
from fhirapp.auth.scopes import grantable, parse_scope
from fhirapp.auth.server import new_token
from fhirapp.config import ConfigurationError

OPERATOR = "operator"
_CONTEXTS = ("patient", "user", "system")
# Ten years: what outlives that is no access token.
LONGEST_SECONDS = 10 * 365 * 86_400
_EVERYTHING = "patient/*.rs user/*.rs system/*.rs"
_BACKEND_SCOPE = "system/DocumentReference system/AllergyIntolerance system/*.read system/*.rs"
DEMO_BACKEND = "demo-backend"
DEMO_SECRET = "demo"


class RefusedCommand(ConfigurationError):
    """What was asked on the shell cannot be done; str() says why."""


def add_client(
    connection: Connection, client_id: str, *, name: str, scope: str, jwks: Mapping[str, Any]
) -> None:
    """Register a backend client that signs with its own keys. Raises RefusedCommand."""
    if not re.fullmatch(r"[A-Za-z0-9._~-]{1,64}", client_id):
        raise RefusedCommand("A client id has 1 to 64 letters, digits and . _ ~ -")
    if find(connection, client_id) is not None:
        raise RefusedCommand(f"The client {client_id} is registered already.")
    unusable = [text for text in scope.split() if not _is_system_scope(text)]
    if unusable or not scope.split():
        raise RefusedCommand(
            f"Not a scope that a backend client can have: {' '.join(unusable) or '(none)'}; "
            "use for example system/*.rs"
        )
    connection.execute(
        insert(Client),
        [
            {
                "client_id": client_id,
                "name": name,
                "auth_method": "private_key_jwt",
                "secret_digest": None,
                "jwks": public_keys(jwks),
                "scope": " ".join(scope.split()),
                "disabled": False,
            }
        ],
    )


def public_keys(jwks: Any) -> dict[str, Any]:
    """Return a key set's public part; a single key counts as a set. Raises RefusedCommand."""
    keys = jwks.get("keys", [jwks]) if isinstance(jwks, dict) else None
    if not isinstance(keys, list) or not keys or not all(isinstance(key, dict) for key in keys):
        raise RefusedCommand("Not a JSON Web Key Set: an object with a list of keys.")
    if any(key.get("kty") not in ("RSA", "EC") for key in keys):
        raise RefusedCommand("The key set must hold RSA keys for RS384, or EC keys for ES384.")
    if any(key["kty"] == "EC" and key.get("crv") != "P-384" for key in keys):
        raise RefusedCommand("ES384 needs EC keys of the curve P-384.")
    try:
        return dict(KeySet.import_key_set({"keys": keys}).as_dict(private=False))
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise RefusedCommand(f"Not a JSON Web Key Set: {error}") from None


def set_disabled(connection: Connection, client_id: str, *, disabled: bool) -> None:
    """Disable or enable a client; its tokens follow at once. Raises RefusedCommand."""
    changed = connection.execute(
        update(Client).where(Client.client_id == client_id).values(disabled=disabled)
    )
    if changed.rowcount == 0:
        raise RefusedCommand(f"There is no client {client_id}.")


def find(connection: Connection, client_id: str) -> Mapping[str, Any] | None:
    """Return a client's row."""
    table = Client.__table__
    found = connection.execute(select(table).where(table.c.client_id == client_id))
    row = found.mappings().one_or_none()
    return None if row is None else dict(row)


def list_clients(connection: Connection) -> Sequence[Mapping[str, Any]]:
    """Return every client's row."""
    table = Client.__table__
    rows = connection.execute(select(table).order_by(table.c.client_id)).mappings()
    return [dict(row) for row in rows]


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
        raise RefusedCommand(f"A token lives {LONGEST_SECONDS} seconds at most.")
    if client_id is None:
        client_id = OPERATOR
        _ensure_operator(connection)
    client = find(connection, client_id)
    if client is None or client["disabled"]:
        raise RefusedCommand(f"There is no client {client_id}, or it is disabled.")
    granted = grantable(scope.split(), client["scope"], _CONTEXTS, enforceable)
    if not granted:
        raise RefusedCommand(f"Nothing of {scope!r} can be granted to {client_id}.")
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


def add_demo_clients(connection: Connection, jwks: Mapping[str, Any]) -> None:
    """Register the client that exists only in demo mode; its secret is no secret."""
    if find(connection, DEMO_BACKEND) is not None:
        return
    connection.execute(
        insert(Client),
        [
            {
                "client_id": DEMO_BACKEND,
                "name": "Demo backend",
                "auth_method": "client_secret_basic private_key_jwt",
                "secret_digest": digest(DEMO_SECRET),
                "jwks": public_keys(jwks),
                "scope": _BACKEND_SCOPE,
                "disabled": False,
            }
        ],
    )


def _ensure_operator(connection: Connection) -> None:
    if find(connection, OPERATOR) is None:
        connection.execute(
            insert(Client),
            [
                {
                    "client_id": OPERATOR,
                    "name": "Operator on the shell",
                    "auth_method": "none",
                    "secret_digest": None,
                    "jwks": None,
                    "scope": _EVERYTHING,
                    "disabled": False,
                }
            ],
        )


def _is_system_scope(text: str) -> bool:
    scope = parse_scope(text)
    return scope is not None and scope.context == "system" and enforceable(scope)
