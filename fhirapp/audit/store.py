"""The audit store: three tables, in `audit.db` on SQLite and in the database on PostgreSQL.

An entry is a line of JSON that never changes; the other columns repeat parts of it, for queries.
A request's entry is committed before its answer leaves, in a transaction of its own.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import mkstemp
from threading import Lock
from typing import Any, ClassVar

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    NullPool,
    Table,
    Text,
    create_engine,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from fhirapp.db import Ascii, Reader, RowNumber, connect_args, db
from fhirapp.disk import copy_owner, reason_of, sibling
from fhirapp.fhir import json as fhir_json

NAME = "audit.db"
TABLES = MetaData()
ENTRY = Table(
    "audit_entry",
    TABLES,
    Column("n", RowNumber, Identity(), primary_key=True),
    Column("at", Ascii, nullable=False),
    Column("user_id", Ascii),
    Column("client_id", Ascii),
    Column("via", Ascii, nullable=False),
    Column("status", Integer, nullable=False),
    Column("event", Ascii, nullable=False),
    Column("about", Ascii, nullable=False),
    Column("request_id", Ascii, nullable=False),
    Column("line", Text, nullable=False),
    # JSON that is too long for a line, which has its SHA-256: the patients of an export.
    Column("attachment", Text),
    Index("ix_audit_entry_user", "user_id", "n"),
    Index("ix_audit_entry_client", "client_id", "n"),
    Index("ix_audit_entry_request", "request_id"),
    *(
        Index(
            f"ix_audit_entry_{name}",
            name,
            "n",
            sqlite_where=text(f"{name} <> ''"),
            postgresql_where=text(f"{name} <> ''"),
        )
        for name in ("event", "about")
    ),
)
# The patients whom a sealed entry is about.
SEEN = Table(
    "audit_seen",
    TABLES,
    Column("patient_id", Ascii, primary_key=True),
    Column("n", RowNumber, primary_key=True),
    sqlite_with_rowid=False,
)
# What seals.py signs.
SEAL = Table(
    "audit_seal",
    TABLES,
    Column("k", RowNumber, primary_key=True, autoincrement=False),
    Column("first", RowNumber, nullable=False),
    Column("last", RowNumber, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("root", LargeBinary, nullable=False),
    Column("at", Ascii, nullable=False),
    Column("removed", Text, nullable=False),
    Column("signature", LargeBinary, nullable=False),
)

# Runs a statement with `?` for each value, and returns its rows.
Run = Callable[..., list[tuple[Any, ...]]]

_FILLED = ("at", "user_id", "client_id", "via", "status", "event", "about", "request_id")
COLUMNS = (*_FILLED, "line", "attachment")
_NAMES = f"({', '.join(COLUMNS)})"
_NEWEST = "SELECT coalesce(max(n), 0) FROM audit_entry"
_PRAGMAS = ("synchronous = NORMAL", "cache_size = -8000")
# PostgreSQL's advisory locks of this module; the first number is arbitrary.
_LOCKS, _APPENDING, _SEALING = 0x61756474, 1, 2
_SEEN_AT_ONCE = 400
_BUSY_SECONDS, _STATEMENT_SECONDS = 5, 10
# How long who seals waits for entries that are under way, and new ones for it.
_SETTLE_SECONDS = 1
# How long entries are refused at once after the database could not be reached.
_PAUSE_SECONDS = 1.0


class Unwritable(Exception):
    """An entry could not be written, so what it is about is not done; str() says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The audit trail cannot be written ({reason}), so this is not done.")
        self.reason = reason


def columns_of(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the columns that repeat parts of a line, in their order."""
    get = line.get
    return (
        *(line["at"], get("user"), get("client"), get("via", ""), get("status", 0)),
        *(get("event", ""), get("about", "")),
        # FHIR's ids have no _, which a proxy's id in an imported line may have.
        (get("id") or get("request", "")).replace("_", "-"),
    )


def patients_of(line: str, attachment: str | None) -> set[str]:
    """Return the ids of the patients whom an entry is about; none of an invalid line."""
    try:
        content = json.loads(line)
        names = [*content.get("patients", ())]
        if attachment is not None and content.get("event") == "export":
            names += json.loads(attachment)
    except (ValueError, TypeError, AttributeError):
        return set()
    return {name for name in names if isinstance(name, str) and name.isprintable()}


def _values(line: Mapping[str, Any], attachment: str | None) -> tuple[Any, ...]:
    return (*columns_of(line), fhir_json.text(line), attachment)


def _text(content: bytes) -> str:
    """Decode a text, also an invalid one: a changed entry must not stop the sealing of others."""
    return content.decode("utf-8", "surrogateescape")


def for_seen(run: Run, sql: str, rows: Sequence[tuple[str, int]]) -> list[tuple[Any, ...]]:
    """Run a SELECT or DELETE on rows of audit_seen, some at a time; return what it finds."""
    results = []
    for at in range(0, len(rows), _SEEN_AT_ONCE):
        batch = rows[at : at + _SEEN_AT_ONCE]
        # Not IN, for which SQLite would look at all entries of each patient.
        which = " OR ".join(["(patient_id = ? AND n = ?)"] * len(batch))
        results += run(f"{sql} FROM audit_seen WHERE {which}", [*chain(*batch)])
    return results


def add_seen(run: Run, rows: Sequence[tuple[str, int]]) -> None:
    """Insert rows of audit_seen, some at a time, if they are not there."""
    for at in range(0, len(rows), _SEEN_AT_ONCE):
        batch = rows[at : at + _SEEN_AT_ONCE]
        values = ", ".join(["(?, ?)"] * len(batch))
        run(f"INSERT INTO audit_seen VALUES {values} ON CONFLICT DO NOTHING", [*chain(*batch)])


class Store(ABC):
    """The store as one process uses it. Connections are not shared with a forked child."""

    # Inserts an entry.
    statement: ClassVar[str]

    def __init__(self) -> None:
        # Entries that were refused since one was written, and why the last one was.
        self.missing, self.failure = 0, ""
        self._lock = Lock()
        self._pid = os.getpid()
        # A parent's connections, which a child neither uses nor closes.
        self._inherited: list[Any] = []

    def append(self, line: Mapping[str, Any], attachment: str | None = None) -> None:
        """Commit an entry. Raises Unwritable, and then counts it as missing."""
        missing = 0
        try:
            if self.missing:
                with self._lock:
                    missing, self.missing = self.missing, 0
            if missing:
                gap = {"at": line["at"], "event": "missing", "what": str(missing)}
                self._commit(_values(gap, None))
                missing = 0
            self._commit(_values(line, attachment))
        except OSError as error:
            self.failure = reason_of(error)
            with self._lock:
                self.missing += missing + 1
            raise Unwritable(self.failure) from error
        self.failure = ""

    def _is_child(self, connections: Any) -> bool:
        """Say whether this is a new child; then put the parent's connections aside."""
        if self._pid == os.getpid():
            return False
        self._inherited.append(connections)
        self._pid = os.getpid()
        return True

    def insert(self, run: Run, line: Mapping[str, Any], attachment: str | None) -> None:
        """Insert an entry in a transaction of sealing()."""
        run(self.statement, _values(line, attachment))

    @abstractmethod
    def _commit(self, values: tuple[Any, ...]) -> None:
        """Run the statement in a transaction of its own. Raises OSError."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Run]:
        """Open a snapshot."""

    @abstractmethod
    def sealing(self) -> AbstractContextManager[Run]:
        """Open a transaction that excludes other sealers, and is synced to disk when it ends."""

    @abstractmethod
    def settled(self) -> int:
        """Return the number up to which no entry can appear any more."""

    @abstractmethod
    def why_unwritable(self) -> str:
        """Return why no entry can be written, empty where one can."""

    @abstractmethod
    def size(self) -> int:
        """Return how many bytes the store takes."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; they open again when needed."""


def _as_os_error(error: Exception) -> OSError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    reason = str(cause).strip().splitlines()
    return OSError(errno.EIO, reason[0] if reason else type(cause).__name__)


@contextmanager
def _os_errors(*errors: type[Exception]) -> Iterator[None]:
    """Raise OSError for what a database raises."""
    try:
        yield
    except errors as error:
        raise _as_os_error(error) from error


class SqliteStore(Store):
    """The store in a file of its own; the threads of a process share one connection."""

    statement = f"INSERT INTO audit_entry {_NAMES} VALUES ({', '.join('?' * len(COLUMNS))})"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._turn = Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def _commit(self, values: tuple[Any, ...]) -> None:
        # Not with _opened(), which takes 7 us more.
        with self._turn:
            try:
                self._open().execute(self.statement, values)
            except (sqlite3.Error, SQLAlchemyError) as error:
                self._close()
                raise _as_os_error(error) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._pid != os.getpid():
            return self._connect()
        return self._connection

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the file, again if it was removed or replaced. The sealer does so every second."""
        with self._turn, _os_errors(sqlite3.Error, SQLAlchemyError):
            if not (self._path.exists() and self._path.stat().st_ino == self._inode):
                self._close()
            try:
                yield self._open()
            except BaseException:
                self._close()
                raise

    def _connect(self) -> sqlite3.Connection:
        self._close()
        if not self._path.exists():
            self._create()
        self._pid, self._inode = os.getpid(), self._path.stat().st_ino
        self._connection = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.text_factory = _text
        for pragma in _PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        return self._connection

    def _create(self) -> None:
        """Create the file under a temporary name; if another process was faster, keep its file."""
        # Only the server's user may read it.
        descriptor, name = mkstemp(dir=self._path.parent, prefix=f"{NAME}.")
        os.close(descriptor)
        draft, engine = Path(name), create_engine(f"sqlite:///{name}", poolclass=NullPool)
        try:
            TABLES.create_all(engine)
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            copy_owner(draft, self._path.parent)
            with suppress(FileExistsError):
                os.link(draft, self._path)
        finally:
            draft.unlink()

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """Open a snapshot on a connection of its own, which no writer waits for."""
        with self._opened():
            # The file and its tables are there.
            pass
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.text_factory = _text
            connection.execute("BEGIN")
            yield lambda sql, values=(): connection.execute(sql, values).fetchall()

    @contextmanager
    def sealing(self) -> Iterator[Run]:
        """Hold the file's write lock. The commit is synced, with all that came before."""
        with self._opened() as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            # An error closes the connection, which rolls back.
            yield lambda sql, values=(): connection.execute(sql, values).fetchall()
            connection.execute("COMMIT")
            connection.execute("PRAGMA synchronous = NORMAL")

    def settled(self) -> int:
        """Return the newest number: SQLite commits in the order of the numbers."""
        with self._opened() as connection:
            ((newest,),) = connection.execute(_NEWEST)
            return int(newest)

    def why_unwritable(self) -> str:
        """Return the last failure, or that there is no right to write the file."""
        if not self.failure and not os.access(
            self._path if self._path.exists() else self._path.parent, os.W_OK
        ):
            return f"no right to write {self._path}"
        return self.failure

    def size(self) -> int:
        """Return the bytes of the file and its log."""
        files = (self._path, sibling(self._path, "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close the connection; the last one to do so takes the log into the file."""
        with self._turn:
            self._close()

    def _close(self) -> None:
        if self._connection is not None and not self._is_child(self._connection):
            self._connection.close()
        self._connection = None


class PostgresqlStore(Store):
    """The store in the database that servers share; each thread that appends has a connection.

    An entry's transaction shares a lock that settled() takes alone, so that none is under way then.
    """

    statement = (
        f"WITH turn AS (SELECT pg_advisory_xact_lock_shared({_LOCKS}, {_APPENDING}))"
        f" INSERT INTO audit_entry {_NAMES} SELECT {', '.join('?' * len(COLUMNS))} FROM turn"
    )

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        # Idle connections.
        self._spares: list[Connection] = []
        self._failed_at = 0.0

    def _commit(self, values: tuple[Any, ...]) -> None:
        if self.failure and time.monotonic() - self._failed_at < _PAUSE_SECONDS:
            raise OSError(errno.EIO, self.failure)
        if self._is_child(self._spares):
            self._spares = []
        try:
            with _os_errors(*self._errors):
                try:
                    # Each of several threads takes another one.
                    connection = self._spares.pop()
                except IndexError:
                    connection = self._engine.connect()
                try:
                    self._commit_with(connection, values)
                except self._errors:
                    # The server may have been restarted since it was used.
                    self.close()
                    self._commit_with(self._engine.connect(), values)
        except OSError:
            self._failed_at = time.monotonic()
            raise

    def _commit_with(self, connection: Connection, values: tuple[Any, ...]) -> None:
        driver: Any = connection.connection.driver_connection
        try:
            # Through SQLAlchemy it takes four times as long.
            driver.execute(self.statement.replace("?", "%s"), values)
        except BaseException:
            _discard(connection)
            raise
        self._spares.append(connection)

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """Open a snapshot of the database."""
        with closing(Reader(db.engine)) as snapshot:
            yield snapshot.all

    @contextmanager
    def sealing(self) -> Iterator[Run]:
        """Hold the lock that all who seal take."""
        with _os_errors(*self._errors), db.engine.begin() as connection:

            def run(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                done = connection.exec_driver_sql(sql.replace("?", "%s"), tuple(values))
                return [tuple(row) for row in done] if done.returns_rows else []

            run(f"SELECT pg_advisory_xact_lock({_LOCKS}, {_SEALING})")
            yield run

    def settled(self) -> int:
        """Wait for the entries that are under way; return the newest number."""
        with _os_errors(*self._errors), db.engine.begin() as connection:
            run = connection.exec_driver_sql
            run(f"SET LOCAL lock_timeout = '{_SETTLE_SECONDS}s'")
            run(f"SELECT pg_advisory_xact_lock({_LOCKS}, {_APPENDING})")
            return int(run(_NEWEST).scalar_one())

    def why_unwritable(self) -> str:
        """Return the last failure, a lack of rights, or that this is a standby server."""
        if self.failure:
            return self.failure
        right = func.has_table_privilege(ENTRY.name, "INSERT")
        try:
            with _os_errors(*self._errors), self._engine.connect() as connection:
                may, is_standby = connection.execute(select(right, func.pg_is_in_recovery())).one()
        except OSError as error:
            return reason_of(error)
        if is_standby:
            return "the database is a standby server, which cannot be written"
        return "" if may else f"no right to write {ENTRY.name}"

    def size(self) -> int:
        """Return the bytes of the tables with their indexes."""
        sizes = [func.pg_total_relation_size(name) for name in TABLES.tables]
        with _os_errors(*self._errors), self._engine.connect() as connection:
            return sum(connection.execute(select(*sizes)).one())

    def close(self) -> None:
        """Close the idle connections."""
        spares, self._spares = self._spares, []
        if not self._is_child(spares):
            for connection in spares:
                _discard(connection)

    @cached_property
    def _engine(self) -> Engine:
        options = f"-c statement_timeout={_STATEMENT_SECONDS}s"
        arguments = connect_args(make_url(self._url), application_name="fhirapp audit")
        return create_engine(
            self._url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            # Lines hold what was searched for.
            hide_parameters=True,
            connect_args={**arguments, "options": f"{arguments['options']} {options}"},
        )

    @cached_property
    def _errors(self) -> tuple[type[Exception], ...]:
        return (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)


def _discard(connection: Connection) -> None:
    """Close a connection without a rollback first, which a lost one would refuse."""
    connection.invalidate()
    connection.close()
