"""The audit trail: who requested what, who did what to the service, and proof that it is whole.

store.py    three tables: entries, the patients whom each is about, and seals
events.py   the entries of what happens to the service; rest/recorder.py has those of requests
entries.py  queries, for the pages, the commands and AuditEvent
seals.py    signs new entries every second; removes entries that have expired
verify.py   checks all entries against the seals, and against a copied head
earlier.py  imports the trail of an earlier release, once
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from flask import Flask, current_app, g
from sqlalchemy import event

from fhirapp.audit.store import NAME, PostgresqlStore, SqliteStore, Store, Unwritable
from fhirapp.config import Settings, settings_of
from fhirapp.db import db

__all__ = ["Unwritable", "append", "init_app", "store_of"]

_EXTENSION = "fhirapp.audit"
_ACTOR = "audit_actor"
_log = logging.getLogger(__name__)


def init_app(app: Flask) -> None:
    """Give the app its store; nothing is opened yet."""
    settings = settings_of(app)
    store: Store = (
        PostgresqlStore(settings.database_uri)
        if settings.is_postgresql
        else SqliteStore(settings.instance / NAME)
    )
    app.extensions[_EXTENSION] = store
    with app.app_context():
        event.listen(db.engine, "engine_disposed", lambda _engine: store.close())


def store_of(app: Flask) -> Store:
    """Return the app's store."""
    store: Store = app.extensions[_EXTENSION]
    return store


def is_required(settings: Settings) -> bool:
    """Say whether nothing of a record is answered that cannot be recorded."""
    return settings.audit == "required" and not settings.demo


def append(line: Mapping[str, Any], attachment: str | None = None) -> None:
    """Commit an entry; where that fails, the log says so, once until it works again.

    Raises Unwritable where the settings require an entry.
    """
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    store = store_of(app)
    missing = store.missing
    try:
        store.append(line, attachment)
    except Unwritable as error:
        if not missing:
            _log.error("the audit trail cannot be written: %s", error.reason)
        if is_required(settings_of(app)):
            raise
        return
    if missing:
        _log.error("the audit trail is written again; it lacks %s entries", missing)


def state(app: Flask) -> str:
    """Return why the trail cannot be written, empty where it can."""
    return store_of(app).why_unwritable()


def acts(user_id: str) -> None:
    """Note who does what this request does: a person who signed in."""
    setattr(g, _ACTOR, user_id)


def actor() -> str | None:
    """Return who does what this request does, where that is known."""
    name: str | None = g.get(_ACTOR)
    return name
