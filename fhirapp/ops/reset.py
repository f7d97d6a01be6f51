"""Put the demo's database back to the known state, while the server runs: one transaction.

A reader sees the state before or after, never a mixture. Rows are deleted and written anew with
their first row numbers, so that cursors and the full text fit again; the generation goes on rising,
so that no process answers from its cache; the keys in the instance folder stay. The demo's people
and clients keep their ids and times, which apps have stored.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from shutil import rmtree
from threading import Thread
from typing import Any, NamedTuple, cast

from flask import Flask
from sqlalchemy import Connection, Table, delete, insert, select, update

from fhirapp.auth.demo import APP, BACKEND, CONFIDENTIAL, PEOPLE, add_demo
from fhirapp.auth.models import Client, User, UserPatient
from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import Busy, database_errors, db, writing
from fhirapp.definition import types
from fhirapp.fhir.temporal import instant
from fhirapp.keys import demo_key
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.store.migrate import schema_version, shown
from fhirapp.store.seed import read_seed, seed_path, write_seed
from fhirapp.store.version import (
    GENERATION,
    RENDERING,
    StoreState,
    get_state,
    raise_generation,
    set_state,
)
from fhirapp.store.write import Rendering, rendering_in_force

_log = logging.getLogger(__name__)

# In the demo's own folder: what visitors uploaded, and what was made for them.
_OF_VISITORS = ("tasks", "uploads", "imports", "exports", "backups")

# When the demo was reset last, in seconds since 1970, as the store remembers it.
LAST_RESET = "demo_reset"
_KEPT_STATE = (GENERATION, RENDERING, LAST_RESET)
NIGHTLY_HOUR = 3
# Between two looks at the clock; not the same for all processes, of which one is enough.
_LOOK_SECONDS = (20.0, 40.0)


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
                    f"The database {shown(db.engine)} was never the demo's, and is not reset; "
                    "if it is a clinic's, move it to another name."
                )
        db.engine.dispose()


def reset(app: Flask, now: float, since: float | None = None) -> int | None:
    """Put the demo back as it was at first; return how many versions it has.

    Nothing is done where it was reset since a moment; that is None. Times are in seconds since
    1970. Within an app context. Raises InvalidSeed.
    """
    versions, key = read_seed(seed_path(), types()), demo_key(settings_of(app).instance)
    with writing() as connection:
        if since is not None and _was_reset(connection, since):
            return None
        known = _Known.of(connection)
        _clear(connection)
        rendering = rendering_in_force(connection, Rendering.of(settings_of(app)))
        written_at = instant(datetime.fromtimestamp(now, UTC))
        count = write_seed(connection, versions, types(), rendering, written_at)
        add_demo(connection, key)
        known.put_back(connection)
        set_state(connection, LAST_RESET, str(now))
        raise_generation(connection)
    if settings_of(app).demo:
        for name in _OF_VISITORS:
            rmtree(settings_of(app).instance / name, ignore_errors=True)
    return count


def reset_when_due(app: Flask, now: float) -> bool:
    """Reset the demo if FHIRAPP_DEMO_RESET says so and no process has; say whether this one did.

    A demo that was not running at its hour is reset when it runs again; one that is looked at for
    the first time is left alone until its hour comes. Within an app context.
    """
    slot = latest_slot(settings_of(app).demo_reset, now)
    with db.engine.connect() as connection:
        is_known = get_state(connection, LAST_RESET) is not None
        is_done = is_known and _was_reset(connection, slot)
    if not is_known:
        with writing() as connection:
            if get_state(connection, LAST_RESET) is None:
                set_state(connection, LAST_RESET, str(now))
        return False
    # reset() looks again in its transaction: another process may be faster.
    count = None if is_done else reset(app, now, slot)
    if count is not None:
        _log.info("the demo was reset: %d versions", count)
    return count is not None


def _was_reset(connection: Connection, since: float) -> bool:
    last = get_state(connection, LAST_RESET)
    return last is not None and float(last) >= since


def latest_slot(schedule: str, now: float) -> float:
    """Return the latest moment, up to now, at which a schedule wants a reset, in local time."""
    local = time.localtime(now)
    if schedule == "hourly":
        return now - (local.tm_min * 60 + local.tm_sec + now % 1)
    for days_ago in (0, 1):
        # mktime: a night in which clocks change has its three o'clock too.
        day = local.tm_mday - days_ago
        slot = time.mktime((local.tm_year, local.tm_mon, day, NIGHTLY_HOUR, 0, 0, 0, 0, -1))
        if slot <= now:
            break
    return slot


def start_timer(app: Flask) -> None:
    """Have a thread of this process reset the demo, where FHIRAPP_DEMO_RESET wants that."""
    settings = settings_of(app)
    if settings.demo and settings.demo_reset != "off":
        Thread(target=watch, args=(app, _looks()), name="demo reset", daemon=True).start()


def watch(app: Flask, looks: Iterable[float]) -> None:
    """Reset the demo whenever it is due; looks yields the time at each check."""
    for now in looks:
        with app.app_context():
            passing: tuple[type[Exception], ...] = (*database_errors(), Busy, ConfigurationError)
            try:
                reset_when_due(app, now)
            except passing as error:
                _log.warning("the demo was not reset, and will be: %s", type(error).__name__)


def _looks() -> Iterator[float]:
    while True:
        time.sleep(random.uniform(*_LOOK_SECONDS))
        yield time.time()


def _clear(connection: Connection) -> None:
    """Delete every row of every table, also of one that a later release adds."""
    for definition in types().values():
        if definition.has_words:
            full_text().clear(connection, words_table(definition.tables))
    state = cast(Table, StoreState.__table__)
    for table in reversed(db.metadata.sorted_tables):
        # Not TRUNCATE: in PostgreSQL whoever reads meanwhile would find nothing.
        gone = delete(table)
        connection.execute(gone.where(state.c.name.not_in(_KEPT_STATE)) if table is state else gone)


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
