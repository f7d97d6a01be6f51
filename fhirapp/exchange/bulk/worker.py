"""The thread in which a server process works on exports, one at a time.

Each process has one; a claim in the database lets one of them have an export. It rests as long as
it worked, after each few rows, so that the threads that answer requests wait a millisecond for it
at the most. It has no lower priority with the system: while it holds the interpreter, they wait for
whatever it waits for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

from flask import Flask, current_app

from fhirapp.db import Busy, Reader, database_errors, db
from fhirapp.db.generation import generation
from fhirapp.exchange.bulk import folder, jobs
from fhirapp.exchange.bulk.work import Pace, work

_log = logging.getLogger(__name__)

_EXTENSION = "fhirapp.bulk"
# How soon an export that another process took on is seen, in seconds; how often it is looked for
# those whose worker was killed, and for those that expired.
_POLL_SECONDS, _LOOK_SECONDS, _SWEEP_SECONDS = 0.5, 5.0, 60.0
# How long the end of a server waits for a page to be written; whoever waits longer is left to die,
# and the export is claimed anew once the lease is over.
_END_SECONDS = 1.0
# The longest rest: what takes longer than a page waits for the database, not for us.
_REST_SECONDS = 0.05


def init_app(app: Flask) -> None:
    """Give the app what wakes its worker, should it have one."""
    app.extensions[_EXTENSION] = Event()


def wake() -> None:
    """Tell this process's worker that there is an export."""
    awake: Event = current_app.extensions[_EXTENSION]
    awake.set()


@contextmanager
def exporting(app: Flask) -> Iterator[None]:
    """Work on exports meanwhile; what is under way at the end is begun anew by another process."""
    worker = Worker(app)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


class Worker(Thread):
    """Looks for exports and does them, until it is stopped."""

    def __init__(self, app: Flask) -> None:
        super().__init__(name="exports", daemon=True)
        self._app = app
        self._awake: Event = app.extensions[_EXTENSION]
        self._stopping = False
        self._looked = self._swept = 0.0
        self._seen = b""

    def stop(self) -> None:
        """Stop after the page at hand."""
        self._stopping = True
        self._awake.set()
        self.join(_END_SECONDS)

    def run(self) -> None:
        pace = Pace(time.time, self._rest, lambda: self._stopping)
        with self._app.app_context():
            passing: tuple[type[Exception], ...] = (OSError, Busy, *database_errors())
        while not self._stopping:
            self._awake.clear()
            with self._app.app_context():
                try:
                    self._turn(pace)
                except passing as error:
                    _log.warning("exports wait: %s", type(error).__name__)
            self._awake.wait(_POLL_SECONDS)

    def _turn(self, pace: Pace) -> None:
        """Do what waits, if something was written since the last look, or that is long ago."""
        now = time.monotonic()
        seen = generation().now()
        if seen != self._seen or now - self._looked > _LOOK_SECONDS:
            self._seen, self._looked = seen, now
            while not self._stopping and work(pace):
                pass
        if now - self._swept > _SWEEP_SECONDS:
            self._swept = now
            sweep(int(pace.clock()))

    def _rest(self, worked: float) -> None:
        time.sleep(min(worked, _REST_SECONDS))


def sweep(now: int) -> None:
    """Forget the exports that expired, and remove the files that belong to none."""
    with closing(Reader(db.engine)) as snapshot:
        expired = jobs.forget_expired(snapshot, now)
    for export_id in expired:
        folder.remove(export_id)
    with closing(Reader(db.engine)) as snapshot:
        for name in folder.orphans(jobs.known(snapshot)):
            folder.remove(name)
