"""The audit trail itself: a chain of lines that shows what was changed in it.

chain.py appends to files, and table.py to PostgreSQL; verify.py and joins.py check them. packing.py
packs the files of past days and removes what is old, moving.py brings files into PostgreSQL.
events.py are the lines of what happens to the service: who signed in, who made an administrator.
The lines of requests are audit/'s.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flask import Flask, current_app, g
from sqlalchemy import event

from fhirapp.config import Settings, settings_of
from fhirapp.db import db
from fhirapp.fhir.temporal import instant
from fhirapp.keys import key_of
from fhirapp.trail.chain import HEAD, FileTrail, Head, Trail, Unwritable, signed_text
from fhirapp.trail.table import TableTrail

__all__ = ["FOLDER", "Trail", "Unwritable", "append", "init_app", "public_key", "trail_of"]

FOLDER = "audit"
_EXTENSION = "fhirapp.trail"
_ACTOR = "trail_actor"
_log = logging.getLogger(__name__)


def init_app(app: Flask) -> None:
    """Give the app its trail; nothing is written yet."""
    settings = settings_of(app)
    if not settings.is_postgresql:
        app.extensions[_EXTENSION] = FileTrail(
            settings.instance / FOLDER, lambda head: _signed(head, key_of(app))
        )
        return
    table = TableTrail(
        settings.database_uri,
        lambda head, chain, others: _signed(head, key_of(app), chain, others),
    )
    app.extensions[_EXTENSION] = table
    with app.app_context():
        event.listen(db.engine, "engine_disposed", lambda _engine: table.close())


def trail_of(app: Flask) -> Trail:
    """Return the app's trail."""
    trail: Trail = app.extensions[_EXTENSION]
    return trail


def is_required(settings: Settings) -> bool:
    """Say whether nothing of a record is answered that cannot be logged."""
    return settings.audit == "required" and not settings.demo


def append(line: dict[str, Any]) -> bool:
    """Append a line; where that fails, the log says so, once until it works again.

    Raises Unwritable where the settings ask for a trail that lacks nothing.
    """
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    trail = trail_of(app)
    missing = trail.missing
    try:
        trail.append(line)
    except Unwritable as error:
        if not missing:
            _log.error("the audit trail cannot be written: %s", error.reason)
        if is_required(settings_of(app)):
            raise
        return False
    if missing:
        _log.error("the audit trail is written again; it lacks %s lines", missing)
    return True


def state(app: Flask) -> str:
    """Return why the trail cannot be written, empty where it can."""
    return trail_of(app).why_unwritable()


def public_key(key: bytes) -> str:
    """Return the public key of the server's heads, in base64."""
    return _text(_private(key).public_key().public_bytes_raw())


def acts(user_id: str) -> None:
    """Note who does what this request does: a person who signed in."""
    setattr(g, _ACTOR, user_id)


def actor() -> str | None:
    """Return who does what this request does, where that is known."""
    found: str | None = g.get(_ACTOR)
    return found


def _signed(
    head: Head, key: bytes, chain: str = "", others: Mapping[str, Head] = {}
) -> dict[str, Any]:
    at = instant(datetime.now(UTC))
    line: dict[str, Any] = {
        "at": at,
        "event": HEAD,
        "head": {"n": head.number, "hash": head.digest},
        "key": public_key(key),
        "signature": _text(_private(key).sign(signed_text(head, at, chain, others))),
    }
    if chain:
        line |= {"chain": chain, "others": {name: [*last] for name, last in others.items()}}
    return line


@cache
def _private(key: bytes) -> Ed25519PrivateKey:
    seed = hashlib.blake2b(key=key, person=b"audit", digest_size=32).digest()
    return Ed25519PrivateKey.from_private_bytes(seed)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
