"""The index of a trail in files: a SQLite database beside them, which lines are loaded into.

The lines are authoritative: the index can be deleted, and is made anew where it is missing or
damaged.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from fhirapp.audit.lines import parsed, rows_of
from fhirapp.disk import take
from fhirapp.trail.chain import files, opened, size_of

_log = logging.getLogger(__name__)

_INDEX = "index.db"
# Of the tables; those of another release are made anew from the lines.
_VERSION = 3
_TABLES = (
    """CREATE TABLE file (name TEXT PRIMARY KEY, done INTEGER NOT NULL)""",
    """CREATE TABLE entry (
      number INTEGER PRIMARY KEY, at TEXT NOT NULL, user_id TEXT, client_id TEXT, via TEXT NOT NULL,
      method TEXT NOT NULL, path TEXT NOT NULL, body TEXT NOT NULL, status INTEGER NOT NULL,
      milliseconds REAL NOT NULL, served TEXT NOT NULL, request_id TEXT NOT NULL,
      event TEXT NOT NULL, about TEXT NOT NULL, address TEXT NOT NULL)""",
    """CREATE INDEX entry_of_user ON entry (user_id, number)""",
    """CREATE INDEX entry_of_client ON entry (client_id, number)""",
    """CREATE INDEX entry_of_event ON entry (event, number) WHERE event <> ''""",
    """CREATE INDEX entry_of_about ON entry (about, number) WHERE about <> ''""",
    """CREATE INDEX entry_of_request ON entry (request_id)""",
    """CREATE TABLE seen (
      patient_id TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (patient_id, number)
    ) WITHOUT ROWID""",
    """CREATE INDEX seen_of_entry ON seen (number)""",
)
# How long a page waits for another that loads lines, and how often it looks.
_PATIENCE_SECONDS = 10
_LOOK_SECONDS = 0.01
# Errors that a new database would raise too, or that pass by themselves.
_NO_DAMAGE = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT),
    }
)

# Lines that are loaded at once.
_AT_ONCE = 2_000

Rows = list[tuple[Any, ...]]


def rows(folder: Path, sql: str, values: Sequence[Any]) -> Rows:
    """Return a query's rows from a folder's database, after what is new was loaded into it.

    A damaged database is made anew, once. Raises sqlite3.Error.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with _held(folder, alone=False):
            return _query(folder, sql, values)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
    # SQLite's files may not be removed while another process has them open.
    with _held(folder, alone=True):
        try:
            # Another may have been first.
            return _query(folder, sql, values)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            _log.error("the index of the audit trail is damaged (%s); it is made anew", error)
            for file in folder.glob(f"{_INDEX}*"):
                file.unlink(missing_ok=True)
    with _held(folder, alone=False):
        return _query(folder, sql, values)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # An extended code has the plain one in its last byte; a mistake of ours has none.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in _NO_DAMAGE


@contextmanager
def _held(folder: Path, *, alone: bool) -> Iterator[None]:
    """Lock the folder: shared to query, alone to remove. Raises OperationalError after a while."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + _PATIENCE_SECONDS
        while take(descriptor, alone=alone) is False:
            if time.monotonic() > until:
                raise sqlite3.OperationalError("the index of the audit trail is locked")
            time.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _query(folder: Path, sql: str, values: Sequence[Any]) -> Rows:
    path = folder / _INDEX
    if not path.exists():
        # Nobody else may read it, from the first moment on.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    with closing(
        sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
    ) as connection:
        _use_log(connection)
        # After a power cut it may lack the last lines, but none that it counts as brought in.
        connection.execute("PRAGMA synchronous = NORMAL")
        _make_tables(connection)
        _bring_all(connection, folder)
        return connection.execute(sql, values).fetchall()


def _use_log(connection: sqlite3.Connection) -> None:
    """Have the file write ahead. Where several make it at once, SQLite itself waits for none."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_LOOK_SECONDS)


def _make_tables(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another may have been first, and have brought lines in.
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        for table in ("seen", "entry", "file"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


def _bring_all(connection: sqlite3.Connection, folder: Path) -> None:
    """Bring every line into the index that has been written until now; forget what was removed."""
    listed = files(folder)
    for file in listed:
        # One that is packed meanwhile was brought in, but for what the next look brings.
        with suppress(FileNotFoundError):
            _bring(connection, file)
    names = {_day(file) for file in listed}
    gone = [name for (name,) in connection.execute("SELECT name FROM file") if name not in names]
    if gone:
        _forget(connection, gone, min(names, default="9"))


def _day(file: Path) -> str:
    return file.name.removesuffix(".gz")


def _done(connection: sqlite3.Connection, name: str) -> int:
    """Return how many bytes of a file were brought in."""
    row = connection.execute("SELECT done FROM file WHERE name = ?", (name,)).fetchone()
    return row[0] if row else 0


def _bring(connection: sqlite3.Connection, file: Path) -> None:
    """Bring a file's new lines into the index, some at a time."""
    name = _day(file)
    if _done(connection, name) >= size_of(file):
        return
    with opened(file) as content:
        size = _AT_ONCE
        while size == _AT_ONCE:
            connection.execute("BEGIN IMMEDIATE")
            try:
                # Another may have been first.
                done = _done(connection, name)
                lines, end = _lines(content, done)
                size = len(lines)
                _add(connection, [entry for line in lines if (entry := parsed(line)) is not None])
                connection.execute(
                    "INSERT INTO file VALUES (?, ?)"
                    " ON CONFLICT (name) DO UPDATE SET done = excluded.done",
                    (name, end),
                )
                connection.execute("COMMIT")
            except BaseException:
                # Some errors have done so already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _forget(connection: sqlite3.Connection, gone: Sequence[str], oldest: str) -> None:
    """Remove the entries of days that are kept no longer; oldest is the first file that is."""
    day = oldest.removesuffix(".ndjson")
    connection.execute("BEGIN IMMEDIATE")
    old = "SELECT number FROM entry WHERE at < ?"
    connection.execute(f"DELETE FROM seen WHERE number IN ({old})", (day,))
    connection.execute("DELETE FROM entry WHERE at < ?", (day,))
    connection.executemany("DELETE FROM file WHERE name = ?", [(name,) for name in gone])
    connection.execute("COMMIT")


def _lines(content: IO[bytes], start: int) -> tuple[list[bytes], int]:
    """Return whole lines from a place on, and the place where they end."""
    lines: list[bytes] = []
    if content.tell() != start:
        content.seek(start)
    while len(lines) < _AT_ONCE:
        line = content.readline()
        if not line.endswith(b"\n"):
            # It is being written.
            break
        lines.append(line)
        start += len(line)
    return lines, start


def _add(connection: sqlite3.Connection, lines: Sequence[Mapping[str, Any]]) -> None:
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM entry").fetchone()
    values, seen = rows_of([*enumerate(lines, last + 1)])
    connection.executemany(f"INSERT INTO entry VALUES ({', '.join('?' * 15)})", values)
    connection.executemany("INSERT INTO seen VALUES (?, ?)", seen)
