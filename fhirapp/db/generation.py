"""The generation: a value that changes with each commit of any server.

The processes of one server share it as a memory-mapped file. Servers on one PostgreSQL notify each
other by NOTIFY, which is sent with the commit: one process of each server listens.
"""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Event, Thread
from typing import Any

from flask import Flask, current_app
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db.base import db
from fhirapp.file_locks import lock

_SIZE = 8
NAME = "generation"
EXTENSION = "fhirapp.generation"


class Generation:
    """A value that changes with each write of any process."""

    def __init__(self, instance: Path) -> None:
        self.path = instance / NAME

    def now(self) -> bytes:
        """Return the value; read it before the data that is cached with it."""
        return self._shared[:]

    def change(self) -> None:
        """Change the value after a commit."""
        self._shared[:] = os.urandom(_SIZE)

    @cached_property
    def _shared(self) -> mmap.mmap:
        """The memory-mapped file, created if it is missing. Raises ConfigurationError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The file {self.path} cannot be written ({error.strerror}); give this user the "
                "right to, or name another folder in FHIRAPP_INSTANCE_PATH."
            ) from None
        try:
            if os.fstat(descriptor).st_size < _SIZE:
                os.ftruncate(descriptor, _SIZE)
            return mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)


def generation() -> Generation:
    """Return the generation of the current app."""
    found: Generation = current_app.extensions[EXTENSION]
    return found


# Name of the channel of NOTIFY, which belongs to one database.
CHANNEL = "fhirapp_written"
_LISTEN = f"LISTEN {CHANNEL}"
# How soon a process takes over from the listening one, or connects again; how long no notification
# comes before the connection is checked.
_POLL_SECONDS, _QUIET_SECONDS = 0.5, 5.0
_log = logging.getLogger(__name__)


@contextmanager
def following_others(app: Flask) -> Iterator[None]:
    """Follow what other servers write to PostgreSQL, until the block ends."""
    if not settings_of(app).is_postgresql:
        yield
        return
    with app.app_context():
        listener = _Listener(db.engine, generation())
    listener.start()
    try:
        yield
    finally:
        listener.ended.set()
        listener.join(2 * _POLL_SECONDS)


class _Listener(Thread):
    """Changes the generation when another server has written.

    No write is missed: the generation also changes whenever listening begins. Caches that depend on
    the generation expire after a second, so they are never older while no process listens.
    """

    def __init__(self, engine: Engine, generation: Generation) -> None:
        super().__init__(name="listener", daemon=True)
        self.ended = Event()
        self._engine = engine
        self._generation = generation
        self._is_away = False

    def run(self) -> None:
        while not self.ended.is_set():
            # One of the server's processes listens; when that ends, another does.
            with lock(self._generation.path, wait=False, create=True) as is_ours:
                while is_ours is not False and not self.ended.is_set():
                    if not self._listen():
                        self.ended.wait(_POLL_SECONDS)
            self.ended.wait(_POLL_SECONDS)

    def _listen(self) -> bool:
        """Listen until the connection is lost or the server ends; return whether there was one."""
        driver: Any = None
        listened = False
        try:
            # It does not return to the pool, which would lend it to others.
            pooled = self._engine.raw_connection()
            driver = pooled.driver_connection
            pooled.detach()
            driver.autocommit = True
            driver.execute(_LISTEN)
            listened = True
            self._generation.change()
            if self._is_away:
                _log.warning("what other servers write is heard of again")
            self._is_away = False
            self._follow(driver)
        except (DBAPIError, PoolTimeoutError, self._engine.dialect.loaded_dbapi.Error) as error:
            if not self._is_away:
                _log.warning("what other servers write is not heard of: %s", type(error).__name__)
            self._is_away = True
        finally:
            if driver is not None:
                driver.close()
        return listened

    def _follow(self, driver: Any) -> None:
        quiet = 0.0
        while not self.ended.is_set():
            found = [*driver.notifies(timeout=_POLL_SECONDS, stop_after=1)]
            if found:
                self._generation.change()
            quiet = 0.0 if found else quiet + _POLL_SECONDS
            if quiet >= _QUIET_SECONDS:
                # A lost host does not close the connection.
                driver.execute(_LISTEN)
                quiet = 0.0
