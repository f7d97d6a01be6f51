"""Named locks between the processes of all servers on one database.

On SQLite a lock of a file in the instance folder; on PostgreSQL an advisory lock, held by a
connection of its own. Both are released however the process ends.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from sqlalchemy import ColumnElement, column, func, literal, select, table
from sqlalchemy.exc import DBAPIError

from fhirapp import file_locks
from fhirapp.config import ConfigurationError, Settings
from fhirapp.db.base import db

# Differs from the lock of use (db/__init__.py), which each connection holds.
_LOCK_CLASS = 0x66687475
_POLL_SECONDS = 0.25
_LOCKS = table("pg_locks", *map(column, ("locktype", "classid", "objid", "objsubid", "database")))
_DATABASES = table("pg_database", column("oid"), column("datname"))


@contextmanager
def lock(settings: Settings, name: str, waits: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a name; wait while another process has it.

    waits is called once before waiting. If the connection is lost, another process may take the
    lock before the block ends. Raises ConfigurationError.
    """
    if not settings.is_postgresql:
        path = settings.instance / f"{name}.lock"
        with ExitStack() as stack:
            try:
                is_free = stack.enter_context(file_locks.lock(path, wait=False, create=True))
            except OSError as error:
                raise ConfigurationError(f"{path} cannot be held ({error.strerror}).") from None
            if is_free is False:
                waits()
                stack.enter_context(file_locks.lock(path))
            yield
        return
    with db.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        # It does not return to the pool: closing it releases the lock.
        connection.detach()
        take = select(func.pg_try_advisory_lock(_LOCK_CLASS, _number(name)))
        is_waiting = False
        # pg_advisory_lock() would go on waiting in the database after this process is killed.
        while not connection.execute(take).scalar_one():
            if not is_waiting:
                waits()
            is_waiting = True
            time.sleep(_POLL_SECONDS)
        yield
        # If the connection was lost, the lock is released already.
        with suppress(DBAPIError):
            connection.execute(select(func.pg_advisory_unlock(_LOCK_CLASS, _number(name))))


def is_locked(settings: Settings, name: str) -> bool:
    """Say whether a process has the lock of a name."""
    if not settings.is_postgresql:
        path = settings.instance / f"{name}.lock"
        return path.exists() and not file_locks.is_abandoned(path)
    own = select(_DATABASES.c.oid).where(_DATABASES.c.datname == func.current_database())
    held: list[ColumnElement[bool]] = [
        _LOCKS.c.locktype == literal("advisory"),
        _LOCKS.c.classid == _LOCK_CLASS,
        _LOCKS.c.objid == _number(name),
        _LOCKS.c.objsubid == 2,
        _LOCKS.c.database == own.scalar_subquery(),
    ]
    return db.session.execute(select(_LOCKS.c.objid).where(*held)).first() is not None


def _number(name: str) -> int:
    """Return the number of a name: PostgreSQL's advisory locks have numbers."""
    return zlib.crc32(name.encode()) >> 1
