"""Whether this server can answer requests: the answer of /health/ready, for orchestrators.

The database is examined as a request would use it; nothing is written. An examination that takes
too long goes on in its thread, and no other is begun until it ends.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from threading import Lock, Thread

from flask import Flask, current_app
from sqlalchemy import Engine

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import database_errors, db, is_busy
from fhirapp.disk import database_path
from fhirapp.feature import N_
from fhirapp.probe import WRONG, Finding
from fhirapp.server.integrity import known_damage
from fhirapp.store.migrate import HEAD, schema_version

# Orchestrators wait a few seconds for an answer, and ask again soon.
SECONDS = 2.0
# What a request or the audit trail may need at once.
LEAST_FREE = 16 * 1024 * 1024
_ADVICE = N_("Until this is fixed, /health/ready answers 503.")
_UNREADABLE = N_("The database cannot be queried.")
_READ_ONLY = N_("The database is read-only.")
_EXTENSION = "fhirapp.readiness"
_log = logging.getLogger(__name__)


class Readiness:
    """The examination that this process is doing, if any."""

    def __init__(self) -> None:
        self._result: Future[Finding | None] | None = None
        self._lock = Lock()

    def fault(self, examine: Callable[[], Finding | None], seconds: float) -> Finding | None:
        """Return why requests cannot be answered, None if they can; one examination at a time."""
        with self._lock:
            if self._result is None or self._result.done():
                result: Future[Finding | None] = Future()
                Thread(target=_run, args=(examine, result), daemon=True).start()
                self._result = result
            result = self._result
        try:
            return result.result(timeout=seconds)
        except FutureTimeoutError:
            text = N_("The database does not answer within %(seconds)s seconds.")
            return _fault(text, seconds=f"{seconds:g}")


def init_app(app: Flask) -> None:
    """Prepare the examinations of this process."""
    app.extensions[_EXTENSION] = Readiness()


def fault(seconds: float = SECONDS) -> Finding | None:
    """Return why this server cannot answer requests, None if it can. It names no path."""
    readiness: Readiness = current_app.extensions[_EXTENSION]
    app = current_app._get_current_object()  # type: ignore[attr-defined]

    def examine() -> Finding | None:
        with app.app_context():
            return _examine(app)

    return readiness.fault(examine, seconds)


def _fault(text: str, **values: object) -> Finding:
    return Finding(WRONG, text, _ADVICE, values=values)


def _run(examine: Callable[[], Finding | None], result: Future[Finding | None]) -> None:
    try:
        result.set_result(examine())
    except ConfigurationError:
        # Its text names the address of the database, which only operators may see.
        result.set_result(_fault(_UNREADABLE))
    except Exception as error:  # noqa: BLE001
        # Whatever fails, clients get an answer.
        _log.warning("not ready: %s", type(error).__name__)
        text = N_("The database cannot be queried (%(error)s).")
        result.set_result(_fault(text, error=type(error).__name__))


def _examine(app: Flask) -> Finding | None:
    schema = schema_version(db.engine)
    if schema != HEAD:
        text = N_(
            "The database has schema version %(there)s, but this server needs %(known)s. "
            "Restart the server."
        )
        return _fault(text, there=schema or "none", known=HEAD)
    try:
        if _is_read_only(db.engine):
            return _fault(_READ_ONLY)
    except database_errors() as error:
        if is_busy(error):
            # Another process writes, so it can be written.
            return None
        raise
    database = database_path(settings_of(app))
    if database and known_damage(database):
        return _fault(N_("The database is damaged. Restore a backup: fhirapp restore."))
    for folder in {settings_of(app).instance, *([database.parent] if database else [])}:
        if shutil.disk_usage(folder).free < LEAST_FREE:
            return _fault(N_("The disk is full."))
    return None


def _is_read_only(engine: Engine) -> bool:
    """Return whether nothing can be written. Raises what the database raises."""
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            is_standby = connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
            read_only = connection.exec_driver_sql("SHOW transaction_read_only").scalar_one()
        return bool(is_standby or read_only == "on")
    with engine.connect() as connection:
        driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
        driver.execute("PRAGMA busy_timeout = 0")
        try:
            driver.execute("BEGIN IMMEDIATE")
            # This number has no meaning, and is never committed.
            driver.execute("PRAGMA user_version = 1")
            driver.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            # The higher bits have the reason, such as a folder that cannot be written.
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:
                return True
            raise
        finally:
            connection.invalidate()
    return False
