"""Why was I denied? Each refusal of a known client is kept with its reasons, for a month.

The answer on the wire stays terse and carries an X-Request-Id; the client's owner and the
administrator read here which scope, context, expiry or link was missing. Never patient data: of an
address only its kind is kept.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from typing import Any

from authlib.oauth2 import OAuth2Error
from flask import Response, current_app, g, request
from sqlalchemy import Select, delete, func, insert, select

from fhirapp.auth.access.causes import causes, claimed_client
from fhirapp.auth.models import Client, Refusal
from fhirapp.auth.throttle import Failures
from fhirapp.db import db, is_busy, writing

KEPT_SECONDS = 30 * 86_400
# The newest of a client: one that asks wrongly in a loop fills no disk.
KEPT = 200
# The client waits meanwhile for its refusal.
PATIENCE_SECONDS = 0.25
# So many a minute are written of a client, by each process.
PER_MINUTE = 30
# Of those that nobody proved to come from the client.
UNPROVED = 5
# What is kept of each: a client's scope can be as long as a page.
MOST_REASONS, LONGEST_REASON = 12, 500
HEADER = "X-Request-Id"
# patient/Patient.rs?name=Hartwell: a client may ask for whom it likes.
_FILTER = re.compile(r"([?&][^=&\s]+=)[^&\s]+")
_REQUEST_ID = re.compile(r"[0-9a-f]{16}")
_EXTENSION = "fhirapp.refusals"
# Errors that come once the client proved who it is.
_AFTER_PROOF = frozenset({"invalid_grant", "invalid_scope", "unauthorized_client"})


def request_id() -> str:
    """Return the id of the request that is served, by which its refusal is found."""
    found: str | None = g.get("request_id")
    if found is None:
        # Milliseconds first: so the refusals of one second sort too.
        found = g.request_id = f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(3)[:5]}"
    return found


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
        "request_id": request_id(),
        "at": now,
        "client_id": client_id,
        "user_id": user_id,
        "status": status,
        "asked": f"{request.method} {rule.rule if rule else '(unknown address)'}",
        "reasons": [_kept(reason) for reason in reasons[:MOST_REASONS]],
    }
    db.session.rollback()
    try:
        with writing(patience=PATIENCE_SECONDS) as connection:
            connection.execute(delete(Refusal).where(Refusal.at < now - KEPT_SECONDS))
            count = select(func.count()).where(Refusal.client_id == client_id)
            kept = connection.execute(count).scalar() or 0
            if kept >= KEPT:
                oldest = (
                    select(Refusal.request_id)
                    .where(Refusal.client_id == client_id)
                    .order_by(Refusal.request_id)
                    .limit(kept - KEPT + 1)
                )
                connection.execute(delete(Refusal).where(Refusal.request_id.in_(oldest)))
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
    response.headers[HEADER] = request_id()
    client = claimed_client() if client_id is None else db.session.get(Client, client_id)
    # A public client's name is no proof.
    is_proved = client is not None and client.kind != "public"
    is_proved = is_proved and (client_id is not None or error.error in _AFTER_PROOF)
    if client is None or (not is_proved and _too_many(f"unproved {client.client_id}", UNPROVED)):
        return
    record(client.client_id, response.status_code, causes(client, error), of="oauth")


def _kept(reason: str) -> str:
    """Return a reason as it is kept: not too long, without the values that scopes filter by."""
    text = _FILTER.sub(r"\1…", reason)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def find_refusal(request_id: str) -> Refusal | None:
    """Return what is kept of a refused request, None where that is nothing."""
    return db.session.get(Refusal, request_id) if _REQUEST_ID.fullmatch(request_id) else None


def refusals_of(client_id: str, limit: int = 50) -> Sequence[Refusal]:
    """Return a client's refusals, the newest first."""
    return db.session.scalars(_newest(limit).where(Refusal.client_id == client_id)).all()


def newest_refusals(limit: int = 100) -> Sequence[Refusal]:
    """Return the refusals of all clients, the newest first."""
    return db.session.scalars(_newest(limit)).all()


def _newest(limit: int) -> Select[Refusal]:
    return select(Refusal).order_by(Refusal.request_id.desc()).limit(limit)
