"""The database: engine, transactions, column types; the only place that knows Flask-SQLAlchemy.

Reading goes through a `Reader`: one snapshot for the whole request, in the driver's own SQL (with
SQLAlchemy's statement layer a search costs 45 µs more). Writing goes through `writing()`: one
transaction that takes the write lock at its start (with a deferred one, 712 of 1,200 concurrent
read-then-write transactions failed with "database is locked").
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from flask import Flask, current_app, g
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
    event,
    make_url,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column, registry
from sqlalchemy.pool import PoolProxiedConnection

from fhirapp.config import ConfigurationError, Settings
from fhirapp.fhir import json as fhir_json

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
# Serialises writers on PostgreSQL, as the write lock does on SQLite: the number is arbitrary.
_WRITE_LOCK = 0x66686972

_WRITERS = "fhirapp.writers"
# How JSON columns are written and read: decimals keep their digits.
JSON_OPTIONS = {
    "json_serializer": fhir_json.text,
    "json_deserializer": fhir_json.loads,
}

# Text that sorts by its bytes on every database, as SQLite does by default.
Ascii = String().with_variant(String(collation="C"), "postgresql")
# FHIR JSON; on PostgreSQL json, not jsonb, which would reorder keys.
Json = JSON(none_as_null=True)
# A row number: SQLite's rowid where it is a primary key.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


class _Base(DeclarativeBase):
    registry = registry(type_annotation_map={str: Ascii, Any: Json, bytes: LargeBinary})


db = SQLAlchemy(model_class=_Base, disable_autonaming=True)

if TYPE_CHECKING:

    class Base(_Base):
        """What the models inherit from."""
else:
    Base = db.Model


class Versioned(Base):
    """A resource type's table: a row for each version.

    Written in seed.sql: id, version_id, last_updated, deleted, meta, text, extra and a column for
    each element, named as FHIR names it, in snake_case. Computed by store/: pk, is_current,
    replaced_pk, patient_id, digest, body.
    """

    __abstract__ = True

    pk: Mapped[int] = mapped_column(RowNumber, primary_key=True, sort_order=-9)
    id: Mapped[str] = mapped_column(sort_order=-8)
    version_id: Mapped[int] = mapped_column(sort_order=-7)
    # An instant as it is served, so that its text sorts by time: 2024-03-01T09:00:00.000+00:00
    last_updated: Mapped[str] = mapped_column(sort_order=-6)
    # The version that search answers: the newest, unless that is a deletion.
    is_current: Mapped[bool] = mapped_column(
        default=False, server_default=text("FALSE"), sort_order=-5
    )
    deleted: Mapped[bool] = mapped_column(
        default=False, server_default=text("FALSE"), sort_order=-4
    )
    # The row of the next version, so that a page can be found as it was when paging began.
    replaced_pk: Mapped[int | None] = mapped_column(RowNumber, sort_order=-3)
    # The patient compartment that the resource belongs to.
    patient_id: Mapped[str | None] = mapped_column(sort_order=-3)
    # The source's profile, tag, security and source.
    meta: Mapped[Any | None] = mapped_column(sort_order=-2)
    # R4 elements without a column of their own, by FHIR's names; extensions; contained resources.
    extra: Mapped[Any | None] = mapped_column(sort_order=7)
    # Of the content, so that the same content makes no new version.
    digest: Mapped[bytes | None] = mapped_column(sort_order=8)
    # The resource as it is served, indented, its own addresses relative.
    body: Mapped[bytes | None] = mapped_column(sort_order=9)

    @declared_attr.directive
    @classmethod
    def __table_args__(cls) -> tuple[Any, ...]:
        name = cls.__tablename__
        current: dict[str, Any] = {
            "sqlite_where": text("is_current"),
            "postgresql_where": text("is_current"),
        }
        return (
            UniqueConstraint("id", "version_id", name=f"uq_{name}_version"),
            Index(f"ix_{name}_current", "id", unique=True, **current),
            Index(f"ix_{name}_newest", "last_updated", "id", **current),
            Index(f"ix_{name}_patient", "patient_id", "last_updated", "id", "is_current"),
            Index(f"ix_{name}_history", "last_updated", "pk"),
            Index(
                f"ix_{name}_replaced",
                "replaced_pk",
                sqlite_where=text("replaced_pk IS NOT NULL"),
                postgresql_where=text("replaced_pk IS NOT NULL"),
            ),
        )


class DomainVersioned(Versioned):
    """The table of a type whose resources carry a narrative."""

    __abstract__ = True

    text: Mapped[Any | None] = mapped_column(sort_order=-1)


class Reader:
    """One snapshot of the database, read in the driver's SQL with `?` for each value."""

    def __init__(self, engine: Engine) -> None:
        self._pooled: PoolProxiedConnection = engine.raw_connection()
        driver: Any = self._pooled.driver_connection
        self._driver = driver
        self._is_sqlite = engine.dialect.name == "sqlite"
        if self._is_sqlite:
            self._driver.execute("BEGIN")
        else:
            self._driver.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return every row."""
        if not self._is_sqlite:
            sql = sql.replace("?", "%s")
        rows: list[tuple[Any, ...]] = self._driver.execute(sql, values).fetchall()
        return rows

    def first(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row, None where there is none."""
        rows = self.all(sql, values)
        return rows[0] if rows else None

    def slice(self, table: str, column: str, pk: int, start: int, size: int) -> bytes:
        """Return bytes of a row's binary column from start on, without reading the others.

        At most size, fewer at the end. The row must be there.
        """
        if self._is_sqlite:
            # Not substr(), for which SQLite reads the whole value.
            with self._driver.blobopen(table, column, pk, readonly=True) as blob:
                blob.seek(start)
                found: bytes = blob.read(size)
                return found
        # In binary: as text, bytes are twice as long and take five times as long.
        ((found,),) = self._driver.execute(
            f"SELECT substring({quoted(column)} FROM %s FOR %s) FROM {quoted(table)} WHERE pk = %s",
            (start + 1, size, pk),
            binary=True,
        )
        return found

    def plan(self, sql: str, values: Sequence[Any]) -> list[str]:
        """Return how SQLite, which the demo always has, runs a SELECT: a line for each step."""
        return [row[3] for row in self.all(f"EXPLAIN QUERY PLAN {sql}", values)]

    def close(self) -> None:
        """End the snapshot and give the connection back."""
        self._pooled.close()


def reader() -> Reader:
    """Return this request's snapshot, taken at the first call."""
    found: Reader | None = g.get("reader")
    if found is None:
        found = g.reader = Reader(db.engine)
    return found


def forget_reader(_error: BaseException | None = None) -> None:
    """Close this request's snapshot; the next reader() sees what was committed since."""
    found: Reader | None = g.pop("reader", None)
    if found is not None:
        found.close()


@contextmanager
def writing(engine: Engine | None = None) -> Iterator[Connection]:
    """Open the one writing transaction; committed at the end, rolled back on an error.

    Waits up to BUSY_SECONDS for another writer, then raises sqlalchemy's OperationalError; Busy
    much sooner where all threads but one wait already, so that reads go on.
    """
    forget_reader()
    with _one_of_few(), (engine or db.engine).connect() as connection:
        connection = connection.execution_options(fhirapp_writes=True)
        with connection.begin():
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})")
            yield connection


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


def init_app(app: Flask, settings: Settings) -> None:
    """Attach the database to the app; nothing is opened yet. Raises ConfigurationError."""
    try:
        url = make_url(settings.database_uri)
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
    app.extensions[_WRITERS] = BoundedSemaphore(max(1, settings.threads - 1))
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = {
        **JSON_OPTIONS,
        # What could not be stored is told without what it was: that is patients' data.
        "hide_parameters": True,
        "pool_size": settings.threads + 1,
        # A server that was restarted has forgotten the connections that the pool holds.
        "pool_pre_ping": url.get_backend_name() != "sqlite",
    }
    if url.get_backend_name() == "postgresql":
        # To compile a query takes it a third of a second, to run one of ours some milliseconds.
        options = {"connect_args": {"options": "-c jit=off"}}
        app.config["SQLALCHEMY_ENGINE_OPTIONS"].update(options)
    if url.get_backend_name() == "sqlite" and url.database:
        _make_folder(Path(url.database).parent)
    db.init_app(app)
    app.teardown_appcontext(forget_reader)
    with app.app_context():
        if db.engine.dialect.name == "sqlite":
            event.listen(db.engine, "connect", _prepare_sqlite)
            event.listen(db.engine, "begin", _begin_sqlite)


def quoted(name: str) -> str:
    """Return a table's name as SQL writes it: `binary` is a reserved word."""
    return f'"{name}"'


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"The folder {folder} cannot be made ({error.strerror}); "
            "make it, or name another in FHIRAPP_INSTANCE_PATH."
        ) from None


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions of its own: _begin_sqlite says which kind.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("fhirapp_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
