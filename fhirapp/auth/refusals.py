"""Why was I denied? Each refusal of a known client is kept with its reasons, for a month.

The answer on the wire stays terse and carries an X-Request-Id; the client's owner and the
administrator read here which scope, context, expiry or link was missing. Never patient data: of an
address only its kind is kept.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from authlib.oauth2 import OAuth2Error
from flask import Response, current_app, g, request
from sqlalchemy import delete, func, insert, select

from fhirapp.auth.models import Refusal
from fhirapp.auth.throttle import Failures
from fhirapp.db import db, is_busy, writing

KEPT_SECONDS = 30 * 86_400
# The newest of a client: one that asks wrongly in a loop fills no disk.
KEPT = 200
# So many a minute are written, by each process.
PER_MINUTE = 30
HEADER = "X-Request-Id"
_EXTENSION = "fhirapp.refusals"


def request_id() -> str:
    """Return the id of the request that is served, by which its refusal is found."""
    found: str | None = g.get("request_id")
    if found is None:
        found = g.request_id = secrets.token_hex(8)
    return found


def record(client_id: str, status: int, reasons: Sequence[str], user_id: str | None = None) -> None:
    """Keep why this request is refused; where the database is busy it is not kept."""
    if _too_many(client_id):
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
        "reasons": list(reasons),
    }
    db.session.rollback()
    try:
        with writing() as connection:
            count = select(func.count()).where(Refusal.client_id == client_id)
            kept = connection.execute(count).scalar() or 0
            connection.execute(delete(Refusal).where(Refusal.at < now - KEPT_SECONDS))
            if kept >= KEPT:
                oldest = (
                    select(Refusal.request_id)
                    .where(Refusal.client_id == client_id)
                    .order_by(Refusal.at)
                    .limit(kept - KEPT + 1)
                )
                connection.execute(delete(Refusal).where(Refusal.request_id.in_(oldest)))
            known = select(Refusal.request_id).where(Refusal.request_id == row["request_id"])
            if connection.execute(known).first() is None:
                connection.execute(insert(Refusal), [row])
    except Exception as error:
        if not is_busy(error):
            raise


def _too_many(client_id: str) -> bool:
    """Count a refusal; say whether the client had so many this minute that a write is too much."""
    failures: Failures = current_app.extensions.setdefault(_EXTENSION, Failures(PER_MINUTE))
    return failures.count(client_id) > 0


def record_oauth(response: Response, client_id: str, error: OAuth2Error) -> None:
    """Keep why the authorization server refused a client, and name the request in the answer."""
    response.headers[HEADER] = request_id()
    said = error.description or "no more is known"
    record(client_id, response.status_code, [f"{error.error}: {said}"])


def find_refusal(request_id: str) -> Refusal | None:
    """Return what is kept of a refused request."""
    return db.session.get(Refusal, request_id)


def refusals_of(client_id: str, limit: int = 50) -> Sequence[Refusal]:
    """Return a client's refusals, the newest first."""
    return db.session.scalars(
        select(Refusal)
        .where(Refusal.client_id == client_id)
        .order_by(Refusal.at.desc())
        .limit(limit)
    ).all()
