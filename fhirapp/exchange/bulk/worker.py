"""The thread in which a server process runs exports, one at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

from flask import Flask, current_app

from fhirapp.db import Busy, Reader, database_errors, db
from fhirapp.db.reader import generation
from fhirapp.exchange.bulk import files, jobs
from fhirapp.exchange.bulk.run import Pace, run_next

_log = logging.getLogger(__name__)

_EXTENSION = "fhirapp.bulk"
# How soon a thread sees an export that another process queued; how often it looks for exports whose
# worker was killed, and for expired ones.
_POLL_SECONDS, _LOOK_SECONDS, _SWEEP_SECONDS = 0.5, 5.0, 60.0
# How long a stopping server waits for the current page. Then the thread dies with the process, and
# another process claims the export when the lease ends.
_END_SECONDS = 1.0
# The longest pause: a page that takes longer waits for the database.
_PAUSE_SECONDS = 0.05


def init_app(app: Flask) -> None:
    """Create the event that wakes the app's worker."""
    app.extensions[_EXTENSION] = Event()


def wake() -> None:
    """Tell this process's worker that an export is queued."""
    awake: Event = current_app.extensions[_EXTENSION]
    awake.set()


@contextmanager
def running_exports(app: Flask) -> Iterator[None]:
    """Run exports in the background; another process restarts the export that is cut off."""
    worker = Worker(app)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


class Worker(Thread):
    """Runs queued exports until it is stopped."""

    def __init__(self, app: Flask) -> None:
        super().__init__(name="exports", daemon=True)
        self._app = app
        self._awake: Event = app.extensions[_EXTENSION]
        self._stopping = False
        self._looked_at = self._swept_at = 0.0
        self._seen_generation = b""

    def stop(self) -> None:
        """Stop after the current page."""
        self._stopping = True
        self._awake.set()
        self.join(_END_SECONDS)

    def run(self) -> None:
        pace = Pace(time.time, _pause, lambda: self._stopping)
        with self._app.app_context():
            temporary: tuple[type[Exception], ...] = (OSError, Busy, *database_errors())
        while not self._stopping:
            self._awake.clear()
            with self._app.app_context():
                try:
                    self._turn(pace)
                except temporary as error:
                    _log.warning("exports wait: %s", type(error).__name__)
            self._awake.wait(_POLL_SECONDS)

    def _turn(self, pace: Pace) -> None:
        """Run what is queued, if the database changed or the last look was long ago."""
        now = time.monotonic()
        current = generation().now()
        if current != self._seen_generation or now - self._looked_at > _LOOK_SECONDS:
            self._seen_generation, self._looked_at = current, now
            while not self._stopping and run_next(pace):
                pass
        if now - self._swept_at > _SWEEP_SECONDS:
            self._swept_at = now
            sweep(int(pace.clock()))


def _pause(worked: float) -> None:
    time.sleep(min(worked, _PAUSE_SECONDS))


def sweep(now: int) -> None:
    """Delete expired exports, and folders that belong to none."""
    with closing(Reader(db.engine)) as snapshot:
        expired = jobs.delete_expired(snapshot, now)
    for export_id in expired:
        files.remove(export_id)
    with closing(Reader(db.engine)) as snapshot:
        for name in files.orphans(jobs.all_ids(snapshot)):
            files.remove(name)
