"""The thread of a server that starts jobs and runs of schedules, and removes old data.

Each process has this thread; a lock on a file of the instance folder chooses one of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread
from typing import NamedTuple

from flask import Flask, current_app

from fhirapp.audit import Unwritable
from fhirapp.audit.seals import remove_expired
from fhirapp.config import settings_of
from fhirapp.db import Busy, database_errors
from fhirapp.db.generation import generation
from fhirapp.feature import features, imported, requeued_kinds
from fhirapp.file_locks import lock
from fhirapp.jobs import process, queue, schedules, uploads

_log = logging.getLogger(__name__)

_EXTENSION = "fhirapp.jobs"
# How soon a thread sees a job that another process queued; how often it looks for jobs whose
# process was killed; how often it removes old data.
_POLL_SECONDS, _LOOK_SECONDS, _SWEEP_SECONDS = 0.5, 5.0, 60.0
# How long a stopping server waits for the current step.
_END_SECONDS = 1.0
_LOCK = "jobs.lock"
# How long files without a job are kept, and uploads that no job has taken, in seconds.
DAY = 86_400


class _Jobs(NamedTuple):
    """The functions that the app's worker calls, and the event that wakes it.

    Each of run_next starts a job that is due, and returns whether there was one; each of sweeps
    removes old data. Both are given the time in seconds since 1970.
    """

    awake: Event
    run_next: list[Callable[[int], bool]]
    sweeps: list[Callable[[int], None]]


def init_app(app: Flask) -> None:
    """Give the app a worker."""
    sweeps = [
        sweep,
        lambda _now: process.store_leftover_files(),
        lambda _now: remove_expired(app),
    ]
    app.extensions[_EXTENSION] = _Jobs(Event(), [process.start_queued, schedules.run_due], sweeps)


def sweep(now: int) -> None:
    """Mark lost jobs as interrupted; remove old jobs, and what features keep no longer."""
    # Jobs of these kinds are begun again, and expire.
    requeued = requeued_kinds()
    queue.interrupt_lost(now, requeued)
    own = [imported(reference) for feature in features() for reference in feature.sweeps]
    for remove in (_remove_orphans, *own):
        # What cannot be removed now is removed later.
        with suppress(OSError):
            remove(now)
    for job in queue.forgettable_jobs(requeued):
        process.remove(job)


def _remove_orphans(now: int) -> None:
    """Remove old files without a job, and old uploads."""
    with suppress(OSError):
        process.remove_orphans(now - DAY)
    uploads.remove_old(now - DAY)


def register(
    app: Flask,
    *,
    sweep: Callable[[int], None] | None = None,
    run_next: Callable[[int], bool] | None = None,
) -> None:
    """Have the app's worker call further functions."""
    jobs: _Jobs = app.extensions[_EXTENSION]
    if sweep is not None:
        jobs.sweeps.append(sweep)
    if run_next is not None:
        jobs.run_next.append(run_next)


def wake() -> None:
    """Tell this process's worker that a job is queued."""
    jobs: _Jobs = current_app.extensions[_EXTENSION]
    jobs.awake.set()


@contextmanager
def running_jobs(app: Flask) -> Iterator[None]:
    """Start jobs in the background."""
    worker = Worker(app)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


class Worker(Thread):
    """Starts jobs until it is stopped, while no other process of the server does."""

    def __init__(self, app: Flask) -> None:
        super().__init__(name="jobs", daemon=True)
        self._app = app
        self._jobs: _Jobs = app.extensions[_EXTENSION]
        self._stopping = False
        self._looked_at = self._swept_at = 0.0
        self._seen_generation = b""

    def stop(self) -> None:
        """Stop after the current step."""
        self._stopping = True
        self._jobs.awake.set()
        self.join(_END_SECONDS)

    def run(self) -> None:
        while not self._stopping:
            try:
                self._wait_for_turn()
            except Exception:  # noqa: BLE001
                # For example a full disk: without this thread no further job would start.
                _log.exception("jobs cannot be started now")
                self._jobs.awake.wait(_LOOK_SECONDS)

    def _wait_for_turn(self) -> None:
        path = settings_of(self._app).instance / _LOCK
        with lock(path, wait=False, create=True) as is_ours:
            if is_ours is not False:
                self._run()
                return
        self._jobs.awake.wait(_LOOK_SECONDS)
        self._jobs.awake.clear()

    def _run(self) -> None:
        with self._app.app_context():
            temporary: tuple[type[Exception], ...] = (OSError, Busy, Unwritable, *database_errors())
        while not self._stopping:
            self._jobs.awake.clear()
            for work in self._due():
                # An error in one step does not stop the others.
                with self._app.app_context():
                    try:
                        work()
                    except temporary as error:
                        _log.warning("background jobs are delayed: %s", type(error).__name__)
                    except Exception:  # noqa: BLE001
                        _log.exception("a background step failed")
            self._jobs.awake.wait(_POLL_SECONDS)

    def _due(self) -> Iterator[Callable[[], object]]:
        """Yield what is due: jobs where the database changed or the last look was long ago."""
        now = time.monotonic()
        with self._app.app_context():
            current = generation().now()
        if current != self._seen_generation or now - self._looked_at > _LOOK_SECONDS:
            self._seen_generation, self._looked_at = current, now
            for run_next in self._jobs.run_next:
                yield partial(self._run_all, run_next)
        if now - self._swept_at > _SWEEP_SECONDS:
            self._swept_at = now
            for sweep in self._jobs.sweeps:
                yield partial(sweep, int(time.time()))

    def _run_all(self, run_next: Callable[[int], bool]) -> None:
        while not self._stopping and run_next(int(time.time())):
            pass
