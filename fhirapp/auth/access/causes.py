"""Why the token endpoint refused a client that it knows, in sentences for the client's owner.

Worked out after the refusal, from what is stored now. Of what the client sent only scopes are
repeated, and the beginning of an address that is not this server's.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from flask import request
from joserfc import jws
from joserfc.errors import JoseError
from werkzeug.datastructures import Authorization

from fhirapp.address import token_url
from fhirapp.auth.models import AuthorizationCode, Client, Grant, RefreshToken, User, digest
from fhirapp.auth.models.client import BASIC
from fhirapp.auth.scopes import SESSION_SCOPES, parse_scope
from fhirapp.db import db
from fhirapp.fhir import local_time

# Of an address that a client sent, in characters.
_LONGEST = 100
_UNPRINTABLE = re.compile(r"[^ -~]")


def causes(client: Client, error: OAuth2Error) -> list[str]:
    """Return what is known of a refusal: the error, then what was missing."""
    said = error.description or error.get_error_description()
    more = [*_more(client, error.error)]
    if not said:
        said, *more = more or ["no more is known"]
    return [f"{error.error}: {said}", *more]


def claimed_client() -> Client | None:
    """Return the client that the request says that it comes from; nothing is proved by that."""
    basic = _basic()
    named = None if basic is None else basic.username
    if named is None:
        named = request.form.get("client_id") or _issuer(request.form.get("client_assertion", ""))
    if named is not None:
        # PostgreSQL refuses a text with NUL in it, instead of not finding it.
        return db.session.get(Client, named) if named.isprintable() else None
    # SMART's own client for JavaScript refreshes without saying who it is.
    spent = db.session.get(RefreshToken, digest(request.form.get("refresh_token", "")))
    return None if spent is None else db.session.get(Client, spent.client_id)


def _basic() -> Authorization | None:
    """Return the Basic header, None where there is none, or none that can be read."""
    try:
        sent = request.authorization
    except ValueError:
        return None
    return sent if sent is not None and sent.type == "basic" else None


def _issuer(assertion: str) -> str | None:
    issuer = _claims(assertion).get("iss")
    return issuer if isinstance(issuer, str) else None


def _claims(assertion: str) -> dict[str, Any]:
    """Return what an assertion says, which nothing proves; nothing of one that cannot be read."""
    try:
        claims = json.loads(jws.extract_compact(assertion.encode()).payload)
    except (JoseError, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _more(client: Client, error: str) -> Iterator[str]:
    form, client_id = request.form, client.client_id
    if error == "invalid_client":
        yield from _of_client(client)
    elif error == "invalid_scope":
        yield from _of_scope(client, form.get("scope", ""))
    elif error == "invalid_grant" and "code" in form:
        yield from _of_code(client_id, db.session.get(AuthorizationCode, digest(form["code"])))
    elif error == "invalid_grant" and "refresh_token" in form:
        key = digest(form["refresh_token"])
        yield from _of_refresh_token(client_id, db.session.get(RefreshToken, key))


def _of_client(client: Client) -> Iterator[str]:
    if client.approved_at is None:
        yield "An administrator has not approved the client yet."
    if client.disabled:
        yield "The client is disabled."
    if "client_assertion" in request.form:
        yield from _of_audience(_claims(request.form["client_assertion"]).get("aud"))
    sent = _basic()
    if sent is None:
        return
    if BASIC not in client.auth_method.split():
        yield f"It sent a secret, but is registered for {client.auth_method}."
    elif client.secret_digest is None:
        yield "No secret was made for it yet."
    elif not client.check_client_secret(sent.password or ""):
        yield "The secret is not the one that it has now."


def _of_audience(aud: object) -> Iterator[str]:
    named = aud if isinstance(aud, list) else [aud]
    if token_url() not in named:
        came = ", ".join(shortened(one) if isinstance(one, str) else "no text" for one in named[:3])
        said = "is missing" if aud is None else f"is {came or 'empty'}"
        yield f"aud of the assertion must be {token_url()}; it {said}."


def shortened(text: str) -> str:
    """Return the beginning of what a client sent, as far as it is printable ASCII."""
    said = _UNPRINTABLE.sub("?", text[:_LONGEST])
    return said if len(text) <= _LONGEST else f"{said}..."


def _of_scope(client: Client, asked: str) -> Iterator[str]:
    yield f"It asked for: {' '.join(map(_named, asked.split())) or 'no scope'}"
    yield f"The client is registered for: {client.scope}"


def _named(text: str) -> str:
    """Return a scope; what is none may be anything."""
    is_known = text in SESSION_SCOPES or parse_scope(text) is not None
    return text if is_known else "(no scope that this server knows)"


def _of_code(client_id: str, code: AuthorizationCode | None) -> Iterator[str]:
    if code is None:
        yield "The code was not issued here, or more than a day ago."
    elif code.client_id != client_id:
        yield "The code was issued to another client."
    else:
        if code.used_at is not None:
            yield f"The code was used before, at {shown(code.used_at)}; it serves once."
        if code.expires_at <= time.time():
            yield f"The code expired at {shown(code.expires_at)}; it serves for a minute."
        if request.form.get("redirect_uri") != code.redirect_uri:
            yield "redirect_uri is not the one of the authorization request."
        verifier = request.form.get("code_verifier", "")
        if create_s256_code_challenge(verifier) != code.code_challenge:
            yield "code_verifier does not fit the code_challenge of the authorization request."
        yield from _of_grant(code.grant_id)


def _of_refresh_token(client_id: str, token: RefreshToken | None) -> Iterator[str]:
    if token is None:
        yield "The refresh token was not issued here, or expired more than a day ago."
    elif token.client_id != client_id:
        yield "The refresh token was issued to another client."
    else:
        if token.used_at is not None:
            yield (
                f"The refresh token was used before, at {shown(token.used_at)}; each serves once,"
                " and the answer brings the next one."
            )
        if token.expires_at <= time.time():
            yield f"The refresh token expired at {shown(token.expires_at)}."
        yield from _of_grant(token.grant_id)


def _of_grant(grant_id: str) -> Iterator[str]:
    grant = db.session.get_one(Grant, grant_id)
    if grant.revoked_at is not None:
        yield f"The consent ended at {shown(grant.revoked_at)}."
    elif grant.expires_at <= time.time():
        yield f"The consent lasted until {shown(grant.expires_at)}."
    if db.session.get_one(User, grant.user_id).disabled:
        yield "The user is disabled."


def shown(seconds: int) -> str:
    """Return a moment as refusals tell it: 3 May 2026, 14:05:09 CDT."""
    return local_time.exact(local_time.local(datetime.fromtimestamp(seconds, UTC)))
