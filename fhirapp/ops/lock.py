"""Who uses a SQLite database: servers side by side, or a restore alone.

A lock on a file beside the database, which the system releases whatever way a process ends. A
server's children hold it with their parent. Where a program takes no part (another WSGI server, a
shell of SQLite), SQLite's own exclusive lock tells that it has the database open.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from fhirapp.config import ConfigurationError
from fhirapp.disk import because, beside, owned_as, take


@contextmanager
def in_use(database: Path | None) -> Iterator[None]:
    """Hold a database, None where it is no file, beside others that use it.

    Raises ConfigurationError where one is being restored.
    """
    with nullcontext() if database is None else _held(database, alone=False) as held:
        if held is False:
            raise ConfigurationError(
                f"The database {database} is being restored; start again when that has ended."
            )
        yield


@contextmanager
def alone(database: Path) -> Iterator[None]:
    """Hold a database that no server uses. Raises ConfigurationError."""
    with _held(database, alone=True) as held:
        if not held:
            raise ConfigurationError(
                f"A server runs on the database {database}, or a command works on it; stop that "
                "first."
            )
        yield


@contextmanager
def unopened(database: Path) -> Iterator[None]:
    """Hold a database file that nobody has open, and what is in its log written into it.

    One that is damaged is held by nobody. Raises ConfigurationError where somebody has it open.
    """
    if not database.exists():
        yield
        return
    with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as connection:
        try:
            # Leaving WAL needs that nobody else has the file open, not even to read.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            # The lower byte is what kind of error it is.
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise ConfigurationError(
                    f"The database {database} is in use by another program; stop that one first."
                ) from None
        if sys.platform == "win32":
            # Which replaces no file that is open.
            connection.close()
        yield


@contextmanager
def _held(database: Path, *, alone: bool) -> Iterator[bool | None]:
    """Hold the lock; False where another has it, None where there can be none."""
    path = beside(database, ".lock")
    if database.is_dir():
        # No database: that is told where it is opened.
        yield None
        return
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if alone:
            raise ConfigurationError(
                f"The file {path} cannot be written ({because(error)}); run this as the server's "
                "own user."
            ) from None
        # Who may not write there is told by what comes next.
        yield None
        return
    try:
        owned_as(path, database)
        yield take(descriptor, alone=alone)
    finally:
        os.close(descriptor)
