"""Locks on a database: shared by servers and commands, exclusive for a restore.

On SQLite this is a lock on a file beside the database, which the system releases however a process
ends. A server's children hold it with their parent. A program that does not take it (another WSGI
server, SQLite's shell) is noticed by SQLite's own exclusive lock. On PostgreSQL it is an advisory
lock, which each connection of fhirapp holds too (db/__init__.py).
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from fhirapp import file_locks
from fhirapp.config import ConfigurationError, Settings
from fhirapp.db import checked_url, connect_args, lock_of_use
from fhirapp.disk import copy_owner, database_path, reason_of, sibling
from fhirapp.store.migrate import redact_url, unusable


@contextmanager
def in_use(settings: Settings) -> Iterator[None]:
    """Take the shared lock of the settings' database.

    Raises ConfigurationError while it is being restored.
    """
    with _lock(settings, exclusive=False) as held:
        if held is False:
            raise ConfigurationError(
                f"The database {_address(settings)} is being restored; start again when that has "
                "ended."
            )
        yield


@contextmanager
def exclusive_use(settings: Settings) -> Iterator[None]:
    """Take the exclusive lock of the settings' database.

    Raises ConfigurationError where a server or command uses it.
    """
    with _lock(settings, exclusive=True) as held:
        # None, where files cannot be locked: SQLite itself notices that the file is open.
        if held is False:
            raise ConfigurationError(
                f"A server runs on the database {_address(settings)}, or a command uses it; stop "
                "that first."
            )
        yield


def _address(settings: Settings) -> object:
    return database_path(settings) or redact_url(server_engine(checked_url(settings)))


def server_engine(url: URL) -> Engine:
    """Return an engine of PostgreSQL whose sessions hold no lock by themselves."""
    return create_engine(
        url,
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
        connect_args=connect_args(url),
    )


def _lock(settings: Settings, *, exclusive: bool) -> AbstractContextManager[bool | None]:
    """Hold a database's lock; False where another program has it, None if it cannot be locked."""
    database = database_path(settings)
    if database is None:
        return _server_lock(checked_url(settings), exclusive=exclusive)
    return _file_lock(database, exclusive=exclusive)


@contextmanager
def _server_lock(url: URL, *, exclusive: bool) -> Iterator[bool]:
    """Hold the lock of a PostgreSQL database."""
    engine = server_engine(url)
    try:
        session = engine.connect()
        held = bool(session.exec_driver_sql(lock_of_use(exclusive=exclusive)).scalar())
    except DatabaseError as error:
        raise unusable(engine, error) from None
    with session:
        yield held


@contextmanager
def closed_file(database: Path) -> Iterator[None]:
    """Lock a SQLite file that no program has open, and write its log into it.

    A damaged file is not locked. Raises ConfigurationError where a program has it open.
    """
    if not database.exists():
        yield
        return
    with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as connection:
        try:
            # Leaving WAL fails while another program has the file open, even to read.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            # The lower byte is what kind of error it is.
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise ConfigurationError(
                    f"The database {database} is in use by another program; stop that one first."
                ) from None
        if sys.platform == "win32":
            # Windows replaces no file that is open.
            connection.close()
        yield


@contextmanager
def _file_lock(database: Path, *, exclusive: bool) -> Iterator[bool | None]:
    """Hold the lock on the file beside a SQLite database."""
    path = sibling(database, ".lock")
    if database.is_dir():
        # No database: opening it raises the error.
        yield None
        return
    with ExitStack() as stack:
        held = None
        try:
            held = stack.enter_context(
                file_locks.lock(path, shared=not exclusive, wait=False, create=True)
            )
            copy_owner(path, database)
        except OSError as error:
            # A command that shares the lock fails at its next step: the folder cannot be written.
            if exclusive:
                raise ConfigurationError(
                    f"The file {path} cannot be written ({reason_of(error)}); run this as the "
                    "server's own user."
                ) from None
        yield held
