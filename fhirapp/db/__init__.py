"""The database: engine and transactions.

Reading goes through a `Reader` (reader.py): one snapshot for the whole request. Writing goes
through `writing()`: one transaction that takes the write lock at its start (with a deferred one,
712 of 1,200 concurrent read-then-write transactions failed with "database is locked"). base.py is
what the models inherit from.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import itemgetter
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from flask import Flask, current_app
from sqlalchemy import JSON, URL, Connection, Engine, Table, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.db.base import (
    JSON_OPTIONS,
    SCHEMA,
    SEARCH_PATH,
    Ascii,
    Base,
    Json,
    RowNumber,
    connect_args,
    db,
)
from fhirapp.db.generation import CHANNEL, EXTENSION, Generation, generation
from fhirapp.db.reader import (
    Reader,
    add_seconds,
    forget_reader,
    forget_spares,
    quoted,
    reader,
)
from fhirapp.fhir import json as fhir_json

__all__ = [
    "JSON_OPTIONS",
    "SCHEMA",
    "SEARCH_PATH",
    "TABLES_SCHEMA",
    "Ascii",
    "Base",
    "Busy",
    "Json",
    "Reader",
    "RowNumber",
    "checked_url",
    "connect_args",
    "database_errors",
    "db",
    "forget_reader",
    "init_app",
    "insert_many",
    "insert_rows",
    "is_busy",
    "lock_of_former_use",
    "lock_of_use",
    "quoted",
    "reader",
    "with_patience",
    "writing",
]

# How long a writer waits for another before the client is told to come back.
BUSY_SECONDS = 5
# How long the last free thread waits for a place among those who wait.
_TURN_SECONDS = 0.25
# SQLite reads the file through memory that the system can take back, not through its own copy; the
# most that it knows. A page of the file costs a fifth of a read.
_MMAP_BYTES = 0x7FFF0000
_PRAGMAS = (
    # For a new file. A row is about 3 kB: of 4 kB pages each would hold one and a quarter of air.
    "PRAGMA page_size = 16384",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA mmap_size = {_MMAP_BYTES}",
)
# For one who writes much: a batch touches pages all over the file's indexes. In SQLite's own 2 MB
# each would be written to the log again and again, and each checkpoint copies them all.
_MUCH = ("PRAGMA cache_size = -10000", "PRAGMA wal_autocheckpoint = 3000")
# SQL for the schema of the tables on PostgreSQL: the same before and after it is created, if the
# search_path has one name.
TABLES_SCHEMA = "coalesce(current_schema(), current_setting('search_path'))"
# Serialises writers on PostgreSQL, as the write lock does on SQLite: the number is arbitrary.
_WRITE_LOCK = 0x66686972

_WRITERS = "fhirapp.writers"
_patience: ContextVar[float | None] = ContextVar("patience", default=None)


@contextmanager
def writing(
    engine: Engine | None = None, patience: float | None = None, *, much: bool = False
) -> Iterator[Connection]:
    """Open the one writing transaction; committed at the end, rolled back on an error.

    This thread's reading transactions end first; objects already read stay usable, detached.
    With much, for a process that writes one batch after the other, SQLite takes more memory. Waits
    up to patience (else as with_patience() says, else BUSY_SECONDS) for another writer, then raises
    sqlalchemy's OperationalError; Busy much sooner where all threads but one wait already, so that
    reads go on.
    """
    forget_reader()
    db.session.close()
    seconds = (patience or _patience.get()) or BUSY_SECONDS
    began = time.perf_counter()
    with _one_of_few(), (engine or db.engine).connect() as connection:
        connection = connection.execution_options(
            fhirapp_writes=True, fhirapp_patience=seconds, fhirapp_much=much
        )
        with connection.begin():
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{round(seconds * 1000)}ms'")
                # Other servers are notified when, and if, this is committed.
                connection.exec_driver_sql(
                    f"SELECT pg_advisory_xact_lock({_WRITE_LOCK}), pg_notify('{CHANNEL}', '')"
                )
            yield connection
    add_seconds(time.perf_counter() - began)
    generation().change()


@contextmanager
def with_patience(seconds: float) -> Iterator[None]:
    """Have writers wait so long within: a command may, where a request may not."""
    before = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(before)


class Busy(Exception):
    """Too many threads of this process write or wait to write."""


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Hold one of the places for writers in this process, one fewer than it has threads."""
    places: BoundedSemaphore = current_app.extensions[_WRITERS]
    if not places.acquire(timeout=_TURN_SECONDS):
        raise Busy
    try:
        yield
    finally:
        places.release()


def insert_many(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """Insert rows of values that the driver takes as they are; twice as fast as a Core insert."""
    if rows:
        mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
        names = ", ".join(map(quoted, columns))
        marks = ", ".join([mark] * len(columns))
        connection.exec_driver_sql(
            f"INSERT INTO {quoted(table.name)} ({names}) VALUES ({marks})", [*map(tuple, rows)]
        )


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of a model's table, each with a value for every column."""
    names = table.columns.keys()
    pick = itemgetter(*names)
    json_places = [
        place for place, column in enumerate(table.columns) if isinstance(column.type, JSON)
    ]
    values = [[*pick(row)] for row in rows]
    for one in values:
        for place in json_places:
            if one[place] is not None:
                one[place] = fhir_json.text(one[place])
    insert_many(connection, table, names, values)


def is_busy(error: BaseException) -> bool:
    """Say whether an error means that the database is busy or away, and a retry may help."""
    if isinstance(error, Busy):
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.OperationalError):
        return any(word in str(cause) for word in ("locked", "busy"))
    operational = db.engine.dialect.loaded_dbapi.OperationalError
    return isinstance(cause, PoolTimeoutError | operational)


def database_errors() -> tuple[type[Exception], ...]:
    """Return what the database's driver and SQLAlchemy raise when it cannot be asked."""
    return (DBAPIError, PoolTimeoutError, db.engine.dialect.loaded_dbapi.Error)


def checked_url(settings: Settings) -> URL:
    """Return the address of the settings' database. Raises ConfigurationError.

    Nothing is opened; that its driver is installed is checked.
    """
    try:
        url = make_url(settings.database_uri)
        if url.get_backend_name() not in ("sqlite", "postgresql"):
            raise ValueError(url.get_backend_name())
        url.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise ConfigurationError(
            "FHIRAPP_DATABASE_URL is not a database address; use "
            "sqlite:////path/to/file.db or postgresql://user:password@host/name"
        ) from None
    except ImportError as error:
        raise ConfigurationError(
            f"The database driver {error.name} is not installed; "
            "for PostgreSQL run: pip install -c constraints.txt -e '.[postgresql]'"
        ) from None
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigurationError(
            "FHIRAPP_DATABASE_URL names no file; each process would have data of its own. "
            "Use sqlite:////path/to/file.db"
        )
    return url


def init_app(app: Flask) -> None:
    """Attach the database to the app; nothing is opened yet. Raises ConfigurationError."""
    settings = settings_of(app)
    url = checked_url(settings)
    app.extensions[EXTENSION] = Generation(settings.instance)
    app.extensions[_WRITERS] = BoundedSemaphore(max(1, settings.threads - 1))
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = {
        **JSON_OPTIONS,
        # What could not be stored is told without what it was: that is patients' data.
        "hide_parameters": True,
        # Each thread may hold one that reads beside one that writes.
        "pool_size": 2 * settings.threads + 1,
        # A server that was restarted has forgotten the connections that the pool holds.
        "pool_pre_ping": url.get_backend_name() != "sqlite",
    }
    if url.get_backend_name() == "postgresql":
        app.config["SQLALCHEMY_ENGINE_OPTIONS"].update(connect_args=connect_args(url))
    if url.get_backend_name() == "sqlite" and url.database:
        _make_folder(Path(url.database).parent)
    db.init_app(app)
    # Of Flask-SQLAlchemy: _forget_session does what it does.
    app.teardown_appcontext_funcs.clear()
    app.teardown_appcontext(forget_reader)
    app.teardown_appcontext(_forget_session)
    with app.app_context():
        if db.engine.dialect.name == "sqlite":
            event.listen(db.engine, "connect", _prepare_sqlite)
            event.listen(db.engine, "begin", _begin_sqlite)
        else:
            event.listen(db.engine, "connect", _hold_postgresql)
        event.listen(db.engine, "engine_disposed", forget_spares)


def _forget_session(_error: BaseException | None = None) -> None:
    """End the request's session, in place of Flask-SQLAlchemy: what is answered stays answered."""
    if not db.session.registry.has():
        return
    try:
        db.session.remove()
    except DBAPIError:
        # Its connection was lost meanwhile, with a transaction that only read.
        db.session().invalidate()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"The folder {folder} cannot be made ({error.strerror}); "
            "make it, or name another in FHIRAPP_INSTANCE_PATH."
        ) from None


def lock_of_use(*, exclusive: bool) -> str:
    """Return the SELECT that tries to lock fhirapp's tables on PostgreSQL until the session ends.

    Programs that use the tables share the lock; a restore takes it exclusively.
    """
    function = "pg_try_advisory_lock" if exclusive else "pg_try_advisory_lock_shared"
    return f"SELECT {function}({_WRITE_LOCK}, hashtext({TABLES_SCHEMA}))"


def lock_of_former_use() -> str:
    """Return the SELECT that tries to lock the tables in another schema, its parameter.

    The lock is exclusive, and ends with the transaction. Releases before 0.2 share it.
    """
    return f"SELECT pg_try_advisory_xact_lock({_WRITE_LOCK}, hashtext(%s))"


def _hold_postgresql(connection: Any, _record: object) -> None:
    """Hold the lock with each connection: also after the server was restarted."""
    from psycopg import OperationalError

    (is_held,) = connection.execute(lock_of_use(exclusive=False)).fetchone()
    connection.rollback()
    if not is_held:
        connection.close()
        raise OperationalError("the database is being restored")


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions of its own: _begin_sqlite says which kind.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("fhirapp_much"):
        for pragma in _MUCH:
            connection.exec_driver_sql(pragma)
    patience = options.get("fhirapp_patience", BUSY_SECONDS)
    if patience != BUSY_SECONDS:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(patience * 1000)}")
    try:
        writes = options.get("fhirapp_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    finally:
        if patience != BUSY_SECONDS:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
