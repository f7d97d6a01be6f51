"""Issue tokens and take them back: the only place that writes them.

A code, and a refresh token, serves once, however many ask at once: the one conditional UPDATE that
changes a row decides, in the transaction that writes what it is exchanged for.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError
from sqlalchemy import Connection, delete, exists, insert, select, update

from fhirapp.auth.models import (
    AccessToken,
    AuthorizationCode,
    Grant,
    Launch,
    ParkedRequest,
    RefreshToken,
    digest,
)
from fhirapp.auth.scopes import OFFLINE, ONLINE
from fhirapp.db import writing

BACKEND_SECONDS = 300
USER_SECONDS = 3600
CODE_SECONDS = 60
# A refresh token lives so long unless it is used, and its grant so long at the most.
REFRESH_IDLE_SECONDS = 90 * 86_400
OFFLINE_SECONDS = 180 * 86_400
# Two tabs of one app refresh at once: the slower one is refused, and nothing else happens.
GRACE_SECONDS = 10
# What expired is kept a while, so that it is told apart from what is unknown: a code that is used
# again ends its grant, and a client hears that its token has expired.
_KEPT_SECONDS = 86_400


def new_token() -> str:
    """Return a new opaque token of 256 random bits."""
    return secrets.token_urlsafe(32)


def has_refresh(scope: str) -> bool:
    """Say whether a grant of this scope comes with a refresh token."""
    return not {OFFLINE, ONLINE}.isdisjoint(scope.split())


def token_row(
    token: str,
    *,
    client_id: str,
    scope: str,
    lifetime: int,
    patient_id: str | None = None,
    grant_id: str | None = None,
) -> Mapping[str, Any]:
    """Return the row of a new access token; lifetime is in seconds."""
    now = int(time.time())
    return {
        "digest": digest(token),
        "client_id": client_id,
        "grant_id": grant_id,
        "scope": scope,
        "patient_id": patient_id,
        "issued_at": now,
        "expires_at": now + lifetime,
        "revoked": False,
    }


def save_backend_token(token: Mapping[str, Any], client_id: str) -> None:
    """Store the token of a client that acts for itself."""
    row = token_row(
        token["access_token"],
        client_id=client_id,
        scope=token["scope"],
        lifetime=token["expires_in"],
    )
    with _writing() as connection:
        connection.execute(insert(AccessToken), [row])


def exchange(
    token: Mapping[str, Any], grant: Grant, spent: AuthorizationCode | RefreshToken
) -> None:
    """Store the tokens that a code or a refresh token is exchanged for. Raises InvalidGrantError.

    Whoever uses a code again ends the grant: somebody else has it too (RFC 6749 §4.1.2).
    """
    now = int(time.time())
    kind, key, grant_id = type(spent), spent.digest, grant.id
    access = token_row(
        token["access_token"],
        client_id=grant.client_id,
        grant_id=grant_id,
        scope=token["scope"],
        patient_id=grant.patient_id,
        lifetime=token["expires_in"],
    )
    refresh = {
        "digest": digest(token.get("refresh_token", "")),
        "grant_id": grant_id,
        "client_id": grant.client_id,
        # Of the grant: a refresh may ask for less, and for all the next time.
        "scope": grant.scope,
        "issued_at": now,
        "expires_at": min(now + REFRESH_IDLE_SECONDS, grant.expires_at),
    }
    with _writing() as connection:
        lives = select(Grant.id).where(Grant.id == grant_id, Grant.revoked_at.is_(None))
        if connection.execute(lives).first() is None:
            raise InvalidGrantError("The access was revoked.")
        unused = update(kind).where(kind.digest == key, kind.used_at.is_(None))
        if connection.execute(unused.values(used_at=now)).rowcount == 1:
            connection.execute(insert(AccessToken), [access])
            if "refresh_token" in token:
                connection.execute(insert(RefreshToken), [refresh])
            return
        if kind is AuthorizationCode:
            revoke_grants(connection, Grant.id == grant_id)
    raise InvalidGrantError("It was used before.")


def revoke_grants(connection: Connection, *conditions: Any) -> int:
    """Revoke the grants that meet the conditions, and with them their tokens; return how many.

    The protector asks for the grant with each token: nothing else needs to be written.
    """
    lasting = update(Grant).where(Grant.revoked_at.is_(None), *conditions)
    return connection.execute(lasting.values(revoked_at=int(time.time()))).rowcount


def revoke_access_tokens(connection: Connection, *conditions: Any) -> int:
    """Revoke the access tokens that meet the conditions; return how many."""
    lasting = update(AccessToken).where(AccessToken.revoked.is_(False), *conditions)
    return connection.execute(lasting.values(revoked=True)).rowcount


def revoke_of_patient(connection: Connection, patient_id: str) -> int:
    """Revoke whatever has a patient in context; return how many consents and tokens."""
    now = int(time.time())
    for table in (Launch, ParkedRequest):
        unused = update(table).where(table.patient_id == patient_id, table.used_at.is_(None))
        connection.execute(unused.values(used_at=now))
    # Those without a consent, as of the command line.
    bare = (AccessToken.patient_id == patient_id, AccessToken.grant_id.is_(None))
    revoked = revoke_access_tokens(connection, *bare, AccessToken.expires_at > now)
    return revoked + revoke_grants(connection, Grant.patient_id == patient_id)


def revoke_replayed(spent: AuthorizationCode | RefreshToken) -> None:
    """End the grant of a code or refresh token that is used again."""
    its = Grant.id == spent.grant_id
    with _writing() as connection:
        revoke_grants(connection, its)


def revoke_access_token(key: bytes) -> None:
    """Revoke one access token, by its digest."""
    with _writing() as connection:
        revoke_access_tokens(connection, AccessToken.digest == key)


def sweep(connection: Connection) -> None:
    """Delete what expired long ago."""
    before = int(time.time()) - _KEPT_SECONDS
    issued = (AccessToken, AuthorizationCode, RefreshToken)
    for model in issued:
        connection.execute(delete(model).where(model.expires_at < before))
    bare = [~exists().where(model.grant_id == Grant.id) for model in issued]
    connection.execute(delete(Grant).where(Grant.expires_at < before, *bare))


@contextmanager
def _writing() -> Iterator[Connection]:
    """Open the writing transaction, and delete what has expired."""
    with writing() as connection:
        sweep(connection)
        yield connection
