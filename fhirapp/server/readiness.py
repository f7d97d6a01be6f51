"""Whether this server can do its work: what /health/ready answers, for orchestrators to route by.

It looks at the database as a request would, and writes nothing. A look that takes too long goes on
in its thread, and no other is begun until it ends.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from threading import Lock, Thread

from flask import Flask, current_app
from sqlalchemy import Engine

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.current import this_app
from fhirapp.db import database_errors, db, is_busy
from fhirapp.db.sqlite_file import integrity_faults, opened
from fhirapp.disk import because, beside, database_path, take
from fhirapp.store.migrate import HEAD, schema_version

# An orchestrator asks again soon, and may wait no longer than this itself.
SECONDS = 2.0
# What a request or the trail may need at once.
LEAST_FREE = 16 * 1024 * 1024
# A file up to this is checked before the server answers; a larger one while it does.
_CHECKED_FIRST = 128 * 1024 * 1024
_MAGIC = b"SQLite format 3\0"
_EXTENSION = "fhirapp.readiness"
_log = logging.getLogger(__name__)


class Readiness:
    """What this process found of its database."""

    def __init__(self) -> None:
        self._look: Future[str] | None = None
        self._lock = Lock()

    def why_not(self, look: Callable[[], str], seconds: float) -> str:
        """Return why the server cannot work, empty where it can; one look at a time."""
        with self._lock:
            if self._look is None:
                self._look = Future()
                Thread(target=_run, args=(look, self._look), daemon=True).start()
            mine = self._look
        try:
            found = mine.result(timeout=seconds)
        except FutureTimeoutError:
            return f"the database does not answer in {seconds:g} seconds"
        with self._lock:
            if self._look is mine:
                self._look = None
        return found


def init_app(app: Flask) -> None:
    """Remember what this process finds of its database."""
    app.extensions[_EXTENSION] = Readiness()


def why_not_ready(seconds: float = SECONDS) -> str:
    """Return why this server cannot do its work, empty where it can; soon enough in any case."""
    found: Readiness = current_app.extensions[_EXTENSION]
    app = this_app()

    def look() -> str:
        with app.app_context():
            return _look(app)

    return found.why_not(look, seconds)


def _run(look: Callable[[], str], answer: Future[str]) -> None:
    try:
        answer.set_result(look())
    except ConfigurationError:
        # It names the database's address, which is for operators.
        answer.set_result("the database cannot be queried")
    except Exception as error:  # noqa: BLE001
        # Whatever it is, who asks is told, and nobody waits for an answer that never comes.
        _log.warning("not ready: %s", type(error).__name__)
        answer.set_result(f"the database cannot be queried ({type(error).__name__})")


def _look(app: Flask) -> str:
    schema = schema_version(db.engine)
    if schema != HEAD:
        return f"the database has schema {schema or 'none'}, and this release needs {HEAD}"
    try:
        if fault := _unwritable(db.engine):
            return fault
    except database_errors() as error:
        if is_busy(error):
            # Somebody writes: so it can be written.
            return ""
        raise
    database = database_path(settings_of(app))
    if database and (damage := _noted(database)):
        return f"the database is damaged ({damage}): restore a backup"
    folders = {settings_of(app).instance, *([database.parent] if database else [])}
    for folder in folders:
        free = shutil.disk_usage(folder).free
        if free < LEAST_FREE:
            return f"the disk of {folder} is full"
    return ""


def _unwritable(engine: Engine) -> str:
    """Return why nothing can be written, empty where it can. Raises what the database raises."""
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            is_standby = connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
            read_only = connection.exec_driver_sql("SHOW transaction_read_only").scalar_one()
        return "the database is read-only" if is_standby or read_only == "on" else ""
    with engine.connect() as connection:
        driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
        driver.execute("PRAGMA busy_timeout = 0")
        try:
            driver.execute("BEGIN IMMEDIATE")
            # A number that is nobody's; it is never committed.
            driver.execute("PRAGMA user_version = 1")
            driver.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            # With the reason in the higher bits, such as a folder that cannot be written.
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:
                return "the database is read-only"
            raise
        finally:
            connection.invalidate()
    return ""


def check_before(database: Path) -> None:
    """Check a SQLite file before it is served. Raises ConfigurationError where it is damaged.

    Not one that is large: check_meanwhile() does.
    """
    _note(database).unlink(missing_ok=True)
    is_checked = _is_sqlite(database) and database.stat().st_size <= _CHECKED_FIRST
    fault = fault_of(database) if is_checked else ""
    if fault:
        raise ConfigurationError(f"The database {database} is damaged ({fault}); restore a backup.")


def _is_sqlite(path: Path) -> bool:
    """Say whether a file is SQLite's: what is none, or is not there, is told otherwise."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def check_meanwhile(database: Path) -> Thread | None:
    """Check a large file in a thread of one of the server's processes, while requests go on.

    What is found lies beside the file, for all of them. Return the thread.
    """
    if not database.exists() or database.stat().st_size <= _CHECKED_FIRST:
        return None

    def check() -> None:
        try:
            with beside(database, ".checking").open("wb") as file:
                if take(file.fileno(), alone=True) is False:
                    return
                if fault := fault_of(database):
                    _log.error("the database %s is damaged: %s", database, fault)
                    _note(database).write_text(fault, encoding="utf-8")
        except OSError as error:
            _log.warning("the database is not checked: %s", because(error))

    thread = Thread(target=check, name="check of the database", daemon=True)
    thread.start()
    return thread


def _note(database: Path) -> Path:
    return beside(database, ".damaged")


def _noted(database: Path) -> str:
    try:
        return _note(database).read_text(encoding="utf-8")
    except OSError:
        return ""


def fault_of(database: Path) -> str:
    """Return the first that SQLite finds wrong with a file, empty where it is whole, or in use."""
    try:
        with opened(database) as connection:
            faults = integrity_faults(connection.execute, quick=True)
    except sqlite3.Error as error:
        busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        return "" if error.sqlite_errorcode in busy else because(error)
    # SQLite's list is one text of several lines.
    lines = [line for fault in faults for line in fault.splitlines() if "***" not in line]
    return lines[0] if lines else ""
