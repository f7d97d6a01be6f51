"""The server's own clients: its pages, and the documentation of the API.

The pages read the records with a token of the signed-in user. It works like an app's: the user's
role and links decide what it opens, at each request. It needs no consent, since it stays in the
server, and ends with the session. Only its digest is stored: the server derives the token from the
session and its own key. The documentation of the API is an app, where people sign in by OAuth.
"""

from __future__ import annotations

import time
from typing import NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, insert, select

from fhirapp.auth.clients.administration import add_own
from fhirapp.auth.clients.registration import API_DOCS, PAGES
from fhirapp.auth.models import OF_PAGES, PATIENT, AccessToken, Client, Grant, User, digest
from fhirapp.auth.scopes import FHIR_USER, LAUNCH_PATIENT, OPENID
from fhirapp.auth.tokens import token_row
from fhirapp.auth.users.sessions import Signed
from fhirapp.db import db, writing
from fhirapp.keys import keyed_digest

_SCOPE = "patient/*.rs user/*.rs"
_SECONDS = 3600
# Whoever begins at the end of an hour is not interrupted.
_MORE_SECONDS = 600


class OwnToken(NamedTuple):
    """A token of our pages: the bearer's secret, and what it was issued for."""

    secret: str
    scope: str
    patient_id: str | None
    # Seconds since 1970.
    expires_at: int


def own_token(signed: Signed, user: User, patient_id: str | None = None) -> OwnToken:
    """Return the token of a session's pages for a user: who signed in, or in the demo another.

    A patient's is for one record, which patient_id names; it is issued where it is not there yet.
    """
    hour = int(time.time()) // _SECONDS
    scope = "patient/*.rs" if user.role == PATIENT else "user/*.rs"
    purpose = f"{signed.session_id} {user.id} {patient_id or ''} {hour}"
    expires_at = (hour + 1) * _SECONDS + _MORE_SECONDS
    token = OwnToken(keyed_digest("page token", purpose), scope, patient_id, expires_at)
    known = select(AccessToken.digest).where(AccessToken.digest == digest(token.secret))
    if db.session.execute(known).first() is None:
        user_id, session_id, signed_in_at = user.id, signed.session_id, signed.signed_in_at
        with writing() as connection:
            # Another tab may have been first.
            if connection.execute(known).first() is None:
                _issue(connection, token, user_id, session_id, signed_in_at)
    return token


def _issue(
    connection: Connection, token: OwnToken, user_id: str, session_id: str, signed_in_at: int
) -> None:
    now = int(time.time())
    add_own(connection, PAGES, name="The pages of this server", kind=OF_PAGES, scope=_SCOPE)
    grant_id = str(uuid4())
    grant = {
        "id": grant_id,
        "user_id": user_id,
        "client_id": PAGES,
        "scope": token.scope,
        "patient_id": token.patient_id,
        "signed_in_at": signed_in_at,
        "created_at": now,
        "expires_at": token.expires_at,
        "session_id": session_id,
    }
    connection.execute(insert(Grant), [grant])
    row = token_row(
        token.secret,
        client_id=PAGES,
        scope=token.scope,
        lifetime=token.expires_at - now,
        patient_id=token.patient_id,
        grant_id=grant_id,
    )
    connection.execute(insert(AccessToken), [row])


# Where its user comes back to.
REDIRECT_PATH = "/api-docs/signed-in"
_DOCUMENTATION_SCOPE = f"{OPENID} {FHIR_USER} {LAUNCH_PATIENT} patient/*.rs user/*.rs"


def add_documentation() -> None:
    """Add the client, where it is not there yet."""
    if db.session.get(Client, API_DOCS) is not None:
        return
    with writing() as connection:
        add_own(
            connection,
            API_DOCS,
            name="Documentation of the API",
            kind="public",
            scope=_DOCUMENTATION_SCOPE,
            redirect_uris=[REDIRECT_PATH],
            developer="this server",
        )
