"""Denied requests of known clients, kept with their reasons for a month.

The response stays terse and carries an X-Request-Id; the client's owner and the administrator look
up here which scope, context, expiry or link was missing, or why the token endpoint denied the
client. No patient data is kept: of an address only its route.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from flask import Response, current_app, request
from sqlalchemy import Select, delete, func, insert, or_, select
from werkzeug.datastructures import Authorization

from fhirapp import urls
from fhirapp.auth import protector
from fhirapp.auth.models import (
    BASIC,
    AuthorizationCode,
    Client,
    Grant,
    RefreshToken,
    Refusal,
    User,
    digest,
)
from fhirapp.auth.scopes import SESSION_SCOPES, parse_scope
from fhirapp.auth.throttle import Failures
from fhirapp.auth.unverified import InvalidJwt, read_jwt
from fhirapp.db import db, is_busy, writing
from fhirapp.fhir.temporal import exact_at

# Of an address that a client sent, in characters.
_LONGEST = 100
_UNPRINTABLE = re.compile(r"[^ -~]")


def causes(client: Client, error: OAuth2Error) -> list[str]:
    """Return what is known of a refusal: the error, then what was missing."""
    text = error.description or error.get_error_description()
    more = [*_more(client, error.error)]
    if not text:
        text, *more = more or ["no details"]
    return [f"{error.error}: {text}", *more]


def claimed_client() -> Client | None:
    """Return the client that the request says that it comes from; nothing is proved by that."""
    basic = _basic()
    name = None if basic is None else basic.username
    if name is None:
        name = request.form.get("client_id") or _issuer(request.form.get("client_assertion", ""))
    if name is not None:
        # PostgreSQL refuses a text with NUL in it, instead of not finding it.
        return db.session.get(Client, name) if name.isprintable() else None
    # SMART's own client for JavaScript refreshes without saying who it is.
    spent = db.session.get(RefreshToken, digest(request.form.get("refresh_token", "")))
    return None if spent is None else db.session.get(Client, spent.client_id)


WAITS = "An administrator has not approved the client yet."


def is_waiting(client: Client | None) -> bool:
    """Say whether a client waits for approval; one that is disabled does not."""
    return client is not None and client.approved_at is None and not client.disabled


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
        return read_jwt(assertion).claims
    except InvalidJwt:
        return {}


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
        yield "It has no secret yet."
    elif not client.check_client_secret(sent.password or ""):
        yield "The secret is not the current one."


def _of_audience(aud: object) -> Iterator[str]:
    auds = aud if isinstance(aud, list) else [aud]
    if urls.token_url() not in auds:
        came = ", ".join(shortened(url) if isinstance(url, str) else "no text" for url in auds[:3])
        fault = "is missing" if aud is None else f"is {came or 'empty'}"
        yield f"aud of the assertion must be {urls.token_url()}; it {fault}."


def shortened(text: str) -> str:
    """Return the beginning of what a client sent, as far as it is printable ASCII."""
    printable = _UNPRINTABLE.sub("?", text[:_LONGEST])
    return printable if len(text) <= _LONGEST else f"{printable}..."


def _of_scope(client: Client, requested: str) -> Iterator[str]:
    yield f"It requested: {' '.join(map(_scope_name, requested.split())) or 'no scope'}"
    yield f"The client is registered for: {client.scope}"


def _scope_name(text: str) -> str:
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
            yield f"The code was used before, at {exact_at(code.used_at)}. A code can be used once."
        if code.expires_at <= time.time():
            yield f"The code expired at {exact_at(code.expires_at)}. A code is valid for a minute."
        if request.form.get("redirect_uri") != code.redirect_uri:
            yield "redirect_uri is not the one of the authorization request."
        verifier = request.form.get("code_verifier", "")
        if create_s256_code_challenge(verifier) != code.code_challenge:
            yield "code_verifier does not match the code_challenge of the authorization request."
        yield from _of_grant(code.grant_id)


def _of_refresh_token(client_id: str, token: RefreshToken | None) -> Iterator[str]:
    if token is None:
        yield "The refresh token was not issued here, or expired more than a day ago."
    elif token.client_id != client_id:
        yield "The refresh token was issued to another client."
    else:
        if token.used_at is not None:
            yield (
                f"The refresh token was used before, at {exact_at(token.used_at)}. Each can be used"
                " once: the response has the next one."
            )
        if token.expires_at <= time.time():
            yield f"The refresh token expired at {exact_at(token.expires_at)}."
        yield from _of_grant(token.grant_id)


def _of_grant(grant_id: str) -> Iterator[str]:
    grant = db.session.get_one(Grant, grant_id)
    if grant.revoked_at is not None:
        yield f"The consent ended at {exact_at(grant.revoked_at)}."
    elif grant.expires_at <= time.time():
        yield f"The consent expired at {exact_at(grant.expires_at)}."
    if db.session.get_one(User, grant.user_id).disabled:
        yield "The user is disabled."


KEPT_SECONDS = 30 * 86_400
# The newest of a client: one that asks wrongly in a loop fills no disk.
MAX_REFUSALS = 200
# The client waits meanwhile for its refusal.
PATIENCE_SECONDS = 0.25
# So many a minute are written of a client, by each process.
PER_MINUTE = 30
# Of those that nobody proved to come from the client.
UNPROVED = 5
# What is kept of each: a client's scope can be as long as a page.
MOST_REASONS, LONGEST_REASON = 12, 500
# patient/Patient.rs?name=Hartwell: a client may ask for whom it likes.
_FILTER = re.compile(r"([?&][^=&\s]+=)[^&\s]+")
_EXTENSION = "fhirapp.refusals"
# Errors that come once the client proved who it is.
_AFTER_PROOF = frozenset({"invalid_grant", "invalid_scope", "unauthorized_client"})


def record(
    client_id: str,
    status: int,
    reasons: Sequence[str],
    *,
    user_id: str | None = None,
    of: str = "fhir",
) -> None:
    """Keep why this request is refused; where the database is busy it is not kept.

    of is what is counted apart: who asks for tokens in vain takes no place from who has one.
    """
    if _too_many(f"{of} {client_id}", PER_MINUTE):
        return
    rule = request.url_rule
    now = int(time.time())
    row: dict[str, Any] = {
        "request_id": str(protector.request_key()),
        "at": now,
        "client_id": client_id,
        "user_id": user_id,
        "status": status,
        "asked": f"{request.method} {rule.rule if rule else '(unknown address)'}",
        "reasons": [_storable_reason(reason) for reason in reasons[:MOST_REASONS]],
    }
    db.session.rollback()
    try:
        with writing(patience=PATIENCE_SECONDS) as connection:
            connection.execute(delete(Refusal).where(Refusal.at < now - KEPT_SECONDS))
            count = select(func.count()).where(Refusal.client_id == client_id)
            total = connection.execute(count).scalar() or 0
            if total >= MAX_REFUSALS:
                oldest = (
                    select(Refusal.request_id)
                    .where(Refusal.client_id == client_id)
                    .order_by(Refusal.at, Refusal.request_id)
                    .limit(total - MAX_REFUSALS + 1)
                )
                connection.execute(delete(Refusal).where(Refusal.request_id.in_(oldest)))
            # A request is kept once, however often it is refused.
            known = select(Refusal.request_id).where(Refusal.request_id == row["request_id"])
            if connection.execute(known).first() is None:
                connection.execute(insert(Refusal), [row])
    except Exception as error:
        if not is_busy(error):
            raise


def _too_many(key: str, per_minute: int) -> bool:
    """Count a refusal; say whether there were so many this minute that a write is too much."""
    counts: dict[int, Failures] = current_app.extensions.setdefault(_EXTENSION, {})
    return counts.setdefault(per_minute, Failures(per_minute)).count(key) > 0


def record_oauth(response: Response, client_id: str | None, error: OAuth2Error) -> None:
    """Keep why the authorization server refused a client, and name the request in the answer.

    Without client_id, where the request failed before the client was known, it is the one that the
    request says that it comes from. Anybody can say that: of those fewer are written.
    """
    response.headers[protector.REQUEST_ID_HEADER] = protector.request_id()
    client = claimed_client() if client_id is None else db.session.get(Client, client_id)
    # A public client's name is no proof.
    is_proved = client is not None and client.kind != "public" and not is_waiting(client)
    is_proved = is_proved and (client_id is not None or error.error in _AFTER_PROOF)
    if client is None or (not is_proved and _too_many(f"unproved {client.client_id}", UNPROVED)):
        return
    record(client.client_id, response.status_code, causes(client, error), of="oauth")


def _storable_reason(reason: str) -> str:
    """Return a reason as it is kept: not too long, without the values that scopes filter by."""
    text = _FILTER.sub(r"\1…", reason)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def find_refusals(shown_id: str) -> Sequence[Refusal]:
    """Return what is kept of the refused requests whose answers named this id, the newest first.

    Ids of ours are of one request; a proxy may name several alike.
    """
    if not protector.is_request_id(shown_id):
        return []
    named = Refusal.request_id.endswith(f"/{shown_id}", autoescape=True)
    query = _newest(MAX_REFUSALS).where(or_(Refusal.request_id == shown_id, named))
    return [refusal for refusal in db.session.scalars(query) if refusal.shown_id == shown_id]


def refusals_of(client_id: str, limit: int = 50) -> Sequence[Refusal]:
    """Return a client's refusals, the newest first."""
    return db.session.scalars(_newest(limit).where(Refusal.client_id == client_id)).all()


def newest_refusals(limit: int = 100) -> Sequence[Refusal]:
    """Return the refusals of all clients, the newest first."""
    return db.session.scalars(_newest(limit)).all()


def _newest(limit: int) -> Select[Refusal]:
    # A key begins with our id, which sorts by time; a first edition's may be a proxy's.
    return select(Refusal).order_by(Refusal.at.desc(), Refusal.request_id.desc()).limit(limit)
