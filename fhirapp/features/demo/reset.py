"""Put the demo's database back to the known state, while the server runs: one transaction.

A reader sees the state before or after, never a mixture. Rows are deleted and written anew with
their first row numbers, so that cursors and the full text fit again; the generation goes on rising,
so that no process answers from its cache; the keys in the instance folder stay. The demo's people
and clients keep their ids and times, which apps have stored.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from shutil import rmtree
from typing import Any, NamedTuple

from flask import Flask, current_app
from sqlalchemy import Connection, delete, insert, not_, select, update

from fhirapp.auth.models import Client, User, UserPatient
from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.feature import N_
from fhirapp.features.demo.accounts import APP, BACKEND, CONFIDENTIAL, PEOPLE, add_demo, demo_key
from fhirapp.features.demo.seed import read_seed, seed_path, write_seed
from fhirapp.fhir.temporal import instant
from fhirapp.jobs.kinds import BuiltInKind
from fhirapp.jobs.queue import JobRow
from fhirapp.jobs.schedules import ScheduleRow
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.store import version
from fhirapp.store.migrate import redact_url, schema_version
from fhirapp.store.write import Rendering, rendering_in_force

# In the demo's own folder: what visitors uploaded, and what was made for them.
_OF_VISITORS = ("tasks", "uploads", "imports", "exports", "backups")

_KEPT_STATE = (version.GENERATION, version.RENDERING)
_log = logging.getLogger(__name__)
_KIND = "demo-reset"
_TIMINGS: Mapping[str, str] = {"hourly": "hourly", "nightly": "daily 03:00"}


def refuse_others(app: Flask) -> None:
    """Make sure that the app's database is the demo's, or new. Raises ConfigurationError."""
    if not settings_of(app).demo:
        raise ConfigurationError("Only the demo is reset; a clinic's records stay as they are.")
    with app.app_context():
        if schema_version(db.engine) is not None:
            with db.engine.connect() as connection:
                # Not the whole row: an older schema has other columns.
                query = select(Client.client_id).where(Client.client_id == BACKEND)
                is_demo = connection.execute(query).first() is not None
            if not is_demo:
                raise ConfigurationError(
                    f"The database {redact_url(db.engine)} was never the demo's, and is not reset; "
                    "if it is a clinic's, move it to another name."
                )
        db.engine.dispose()


def reset(app: Flask, now: float) -> int:
    """Put the demo back as it was at first; return how many versions it has.

    now is in seconds since 1970. Within an app context. Raises InvalidSeed.
    """
    versions, key = read_seed(seed_path(), types()), demo_key(settings_of(app).instance)
    with writing() as connection:
        known = _Known.of(connection)
        _clear(connection)
        rendering = rendering_in_force(connection, Rendering.of(settings_of(app)))
        written_at = instant(datetime.fromtimestamp(now, UTC))
        count = write_seed(connection, versions, rendering, written_at)
        add_demo(connection, key)
        known.put_back(connection)
        version.raise_generation(connection)
    if settings_of(app).demo:
        for name in _OF_VISITORS:
            rmtree(settings_of(app).instance / name, ignore_errors=True)
    return count


def _clear(connection: Connection) -> None:
    """Delete every row of every table, also of one that a later release adds."""
    for definition in types().values():
        if definition.has_words:
            full_text().clear(connection, words_table(definition.tables))
    kept = {
        version.StoreState: version.StoreState.name.in_(_KEPT_STATE),
        ScheduleRow: ScheduleRow.kind == _KIND,
        # The runs of the reset, one of which is under way.
        JobRow: JobRow.kind == _KIND,
    }
    kept_of = {model.__table__: condition for model, condition in kept.items()}
    for table in reversed(db.metadata.sorted_tables):
        # Not TRUNCATE: in PostgreSQL whoever reads meanwhile would find nothing.
        gone = delete(table)
        connection.execute(gone.where(not_(kept_of[table])) if table in kept_of else gone)


def _timing(settings: Settings) -> str:
    """Return when the settings have the demo reset; empty for never, as outside the demo."""
    return _TIMINGS.get(settings.demo_reset, "") if settings.demo else ""


def _run(now: int) -> str:
    count = reset(current_app, now)
    _log.info("the demo was reset: %d versions", count)
    return f"{count} versions."


SCHEDULE = BuiltInKind(
    name=_KIND,
    label=N_("Demo reset"),
    fields={},
    job_path="",
    timing=_timing,
    run=_run,
    refusal=N_("The demo reset can only be changed with FHIRAPP_DEMO_RESET."),
)


class _Known(NamedTuple):
    """What the demo's people and clients keep, by their names, since apps have stored it."""

    people: Mapping[str, Mapping[str, Any]]
    clients: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, connection: Connection) -> _Known:
        names = [person.username for person in PEOPLE]
        people = select(User.username, User.id, User.created_at).where(User.username.in_(names))
        clients = select(Client.client_id, Client.registered_at).where(
            Client.client_id.in_([BACKEND, APP, CONFIDENTIAL])
        )
        return cls(
            {
                username: {"id": user_id, "created_at": created_at}
                for username, user_id, created_at in connection.execute(people)
            },
            {
                client_id: {"registered_at": at, "approved_at": at}
                for client_id, at in connection.execute(clients)
            },
        )

    def put_back(self, connection: Connection) -> None:
        """Give those who were just added what they had."""
        found = connection.execute(
            select(User.username, UserPatient.__table__).join(User, User.id == UserPatient.user_id)
        )
        links = [dict(row) for row in found.mappings()]
        connection.execute(delete(UserPatient))
        for username, kept in self.people.items():
            connection.execute(update(User).where(User.username == username).values(**kept))
        for link in links:
            user_id = self.people.get(link.pop("username"), {}).get("id", link["user_id"])
            connection.execute(insert(UserPatient), [{**link, "user_id": user_id}])
        for client_id, kept in self.clients.items():
            connection.execute(update(Client).where(Client.client_id == client_id).values(**kept))
