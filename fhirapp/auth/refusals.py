"""Denied requests of known clients, kept with their reasons for a month.

The response stays terse and carries an X-Request-Id; the client's owner and the administrator look
up here which scope, context, expiry or link was missing, or why the token endpoint denied the
client (reasons.py). No patient data is kept: of an address only its route.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import InvalidScopeError
from flask import Response, current_app, request
from sqlalchemy import Connection, Select, delete, func, insert, or_, select
from werkzeug.datastructures import Authorization

from fhirapp import urls
from fhirapp.auth import protector, reasons
from fhirapp.auth.links import all_links
from fhirapp.auth.models import (
    AuthorizationCode,
    Client,
    Grant,
    RefreshToken,
    Refusal,
    User,
    digest,
)
from fhirapp.auth.throttle import Failures
from fhirapp.auth.unverified import InvalidJwt, read_jwt
from fhirapp.db import db, is_busy, writing
from fhirapp.fhir.outcome import FhirError

WAITS = "An administrator has not approved the client yet."


def is_waiting(client: Client | None) -> bool:
    """Say whether a client waits for approval; one that is disabled does not."""
    return client is not None and client.approved_at is None and not client.disabled


def claimed_client() -> Client | None:
    """Return the client that the request says that it comes from; nothing is proved by that."""
    basic = _basic()
    name = None if basic is None else basic.username
    if name is None:
        name = request.form.get("client_id") or _claims().get("iss")
    if name is not None:
        # PostgreSQL refuses a text with NUL in it, instead of not finding it.
        return db.session.get(Client, name) if name.isprintable() else None
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


def _claims() -> dict[str, Any]:
    """Return what the request's assertion says, unproved; nothing of one that cannot be read."""
    try:
        return read_jwt(request.form.get("client_assertion", "")).claims
    except InvalidJwt:
        return {}


def _reasons(client: Client, error: OAuth2Error) -> list[str]:
    """Return what is known of a refusal: the error, then what was missing."""
    # What a client requested may be anything: of_scope() says as much of it as can be kept.
    is_scope = isinstance(error, InvalidScopeError)
    text = InvalidScopeError.description if is_scope else error.get_error_description()
    more = [*_missing(client, error.error)]
    if not text:
        text, *more = more or ["no details"]
    return [f"{error.error}: {text}", *more]


def _missing(client: Client, error: str) -> Iterator[str]:
    form = request.form
    if error == "invalid_client":
        sent = _basic()
        yield from reasons.of_client(client, None if sent is None else sent.password or "")
        if "client_assertion" in form:
            yield from reasons.of_audience(_claims().get("aud"), urls.token_url())
    elif error == "invalid_scope":
        yield from reasons.of_scope(client, form.get("scope", ""))
    elif error == "invalid_grant" and "code" in form:
        code = db.session.get(AuthorizationCode, digest(form["code"]))
        yield from reasons.of_code(client, code, *_consent(code), form)
    elif error == "invalid_grant" and "refresh_token" in form:
        token = db.session.get(RefreshToken, digest(form["refresh_token"]))
        yield from reasons.of_refresh_token(client, token, *_consent(token))


def _consent(spent: AuthorizationCode | RefreshToken | None) -> tuple[Grant | None, User | None]:
    """Return the consent that a code or a refresh token hangs on, and its user."""
    grant = None if spent is None else db.session.get(Grant, spent.grant_id)
    return grant, None if grant is None else db.session.get(User, grant.user_id)


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
    why: Sequence[str],
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
    row: dict[str, Any] = {
        "request_id": str(protector.request_key()),
        "at": int(time.time()),
        "client_id": client_id,
        "user_id": user_id,
        "status": status,
        "asked": f"{request.method} {rule.rule if rule else '(unknown address)'}",
        "reasons": [_storable_reason(reason) for reason in why[:MOST_REASONS]],
    }
    try:
        with writing(patience=PATIENCE_SECONDS) as connection:
            _make_room(connection, client_id)
            # A request is kept once, however often it is refused.
            known = select(Refusal.request_id).where(Refusal.request_id == row["request_id"])
            if connection.execute(known).first() is None:
                connection.execute(insert(Refusal), [row])
    except Exception as error:
        if not is_busy(error):
            raise


def record_denied(token: protector.BearerToken, error: FhirError) -> None:
    """Keep why a request with a token is refused."""
    lapses: list[str] = []
    if not token.is_linked:
        links = all_links(token.user_id or "")
        lapses = [link.lapse for link in links if link.patient_id == token.patient_id]
    why = [*reasons.of_token(token, error, lapses)]
    record(token.client_id, error.status, why, user_id=token.user_id)


def _make_room(connection: Connection, client_id: str) -> None:
    """Delete what is a month old, and the oldest of a client that has very many."""
    connection.execute(delete(Refusal).where(Refusal.at < int(time.time()) - KEPT_SECONDS))
    mine = Refusal.client_id == client_id
    count = connection.execute(select(func.count()).where(mine)).scalar_one()
    if count >= MAX_REFUSALS:
        oldest = select(Refusal.request_id).where(mine).order_by(Refusal.at, Refusal.request_id)
        excess = oldest.limit(count - MAX_REFUSALS + 1)
        connection.execute(delete(Refusal).where(Refusal.request_id.in_(excess)))


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
    record(client.client_id, response.status_code, _reasons(client, error), of="oauth")


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
