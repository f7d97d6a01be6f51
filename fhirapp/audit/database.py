"""The database beside the lines, which can be deleted, and is made anew where it is damaged."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fhirapp.disk.flock import take

_log = logging.getLogger(__name__)

_INDEX = "index.db"
_TABLES = """
CREATE TABLE IF NOT EXISTS file (name TEXT PRIMARY KEY, done INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS entry (
  number INTEGER PRIMARY KEY, at TEXT NOT NULL, user_id TEXT, client_id TEXT, via TEXT NOT NULL,
  method TEXT NOT NULL, path TEXT NOT NULL, body TEXT NOT NULL, status INTEGER NOT NULL,
  milliseconds REAL NOT NULL, served TEXT NOT NULL, request_id TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS entry_of_user ON entry (user_id, number);
CREATE INDEX IF NOT EXISTS entry_of_client ON entry (client_id, number);
CREATE TABLE IF NOT EXISTS seen (
  patient_id TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (patient_id, number)
) WITHOUT ROWID;
"""
# How long a page waits for another that brings lines in, and how often it looks.
_PATIENCE_SECONDS = 10
_LOOK_SECONDS = 0.01
# Of what a database refuses, what a new one would too, or this one not a moment later.
_NO_DAMAGE = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT),
    }
)

Bring = Callable[[sqlite3.Connection], None]
Rows = list[tuple[Any, ...]]


def rows(folder: Path, bring: Bring, sql: str, values: Sequence[Any]) -> Rows:
    """Ask the database of a folder, after bring wrote into it what is new.

    One that is damaged is made anew, once. Raises sqlite3.Error.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with _held(folder, alone=False):
            return _asked(folder, bring, sql, values)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
    # SQLite's files may not be removed while somebody has them open.
    with _held(folder, alone=True):
        try:
            # Another may have been first.
            return _asked(folder, bring, sql, values)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            _log.error("the index of the audit trail is damaged (%s); it is made anew", error)
            for file in folder.glob(f"{_INDEX}*"):
                file.unlink(missing_ok=True)
    with _held(folder, alone=False):
        return _asked(folder, bring, sql, values)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # An extended code has the plain one in its last byte; a mistake of ours has none.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in _NO_DAMAGE


@contextmanager
def _held(folder: Path, *, alone: bool) -> Iterator[None]:
    """Hold the folder: together to ask, alone to remove. Raises OperationalError where it lasts."""
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


def _asked(folder: Path, bring: Bring, sql: str, values: Sequence[Any]) -> Rows:
    path = folder / _INDEX
    if not path.exists():
        # Nobody else may read it, from the first moment on.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    with closing(
        sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
    ) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        # After a power cut it may lack the last lines, but none that it counts as brought in.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_TABLES)
        bring(connection)
        return connection.execute(sql, values).fetchall()
