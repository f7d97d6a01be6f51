"""The thread of a server process that runs queued jobs, one at a time, and sweeps up old ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import NamedTuple

from flask import Flask, current_app

from fhirapp.db import Busy, database_errors
from fhirapp.db.generation import generation
from fhirapp.trail import Unwritable

_log = logging.getLogger(__name__)

_EXTENSION = "fhirapp.jobs"
# How soon a thread sees a job that another process queued; how often it looks for jobs whose
# process was killed, and for expired ones.
_POLL_SECONDS, _LOOK_SECONDS, _SWEEP_SECONDS = 0.5, 5.0, 60.0
# How long a stopping server waits for the current page. Then the thread dies with the process, and
# another process claims the job when the lease ends.
_END_SECONDS = 1.0
# The longest pause: a page that takes longer waits for the database.
_PAUSE_SECONDS = 0.05


class Pace(NamedTuple):
    """The worker's clock in seconds since 1970, its pauses, and its signal to stop.

    pause receives the seconds of work since the previous pause.
    """

    clock: Callable[[], float] = time.time
    pause: Callable[[float], None] = lambda _worked: None
    is_stopping: Callable[[], bool] = lambda: False


WITHOUT_PAUSES = Pace()


class _Jobs(NamedTuple):
    """What the app's worker does, and the event that wakes it.

    Each of run_next runs a queued job of its kind and returns whether one ended; each of sweeps
    removes what is kept no longer, at a time in seconds since 1970.
    """

    awake: Event
    run_next: list[Callable[[Pace], bool]]
    sweeps: list[Callable[[int], None]]


def init_app(app: Flask) -> None:
    """Give the app a worker that has nothing to do yet."""
    app.extensions[_EXTENSION] = _Jobs(Event(), [], [])


def register(
    app: Flask, sweep: Callable[[int], None], run_next: Callable[[Pace], bool] | None = None
) -> None:
    """Have the app's worker run the queued jobs of a kind, if they are queued, and sweep."""
    jobs: _Jobs = app.extensions[_EXTENSION]
    jobs.sweeps.append(sweep)
    if run_next is not None:
        jobs.run_next.append(run_next)


def wake() -> None:
    """Tell this process's worker that a job is queued."""
    jobs: _Jobs = current_app.extensions[_EXTENSION]
    jobs.awake.set()


@contextmanager
def running_jobs(app: Flask) -> Iterator[None]:
    """Run jobs in the background; another process restarts the one that is cut off."""
    worker = Worker(app)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


class Worker(Thread):
    """Runs queued jobs until it is stopped."""

    def __init__(self, app: Flask) -> None:
        super().__init__(name="jobs", daemon=True)
        self._app = app
        self._jobs: _Jobs = app.extensions[_EXTENSION]
        self._stopping = False
        self._looked_at = self._swept_at = 0.0
        self._seen_generation = b""

    def stop(self) -> None:
        """Stop after the current page."""
        self._stopping = True
        self._jobs.awake.set()
        self.join(_END_SECONDS)

    def run(self) -> None:
        pace = Pace(time.time, _pause, lambda: self._stopping)
        with self._app.app_context():
            temporary: tuple[type[Exception], ...] = (OSError, Busy, Unwritable, *database_errors())
        while not self._stopping:
            self._jobs.awake.clear()
            for work in self._due(pace):
                # What one of them stumbles over keeps no other from being done.
                with self._app.app_context():
                    try:
                        work()
                    except temporary as error:
                        _log.warning("jobs wait: %s", type(error).__name__)
                    except Exception:  # noqa: BLE001
                        _log.exception("jobs failed by a mistake of this server's")
            self._jobs.awake.wait(_POLL_SECONDS)

    def _due(self, pace: Pace) -> Iterator[Callable[[], object]]:
        """Yield what is due: jobs where the database changed or the last look was long ago."""
        now = time.monotonic()
        with self._app.app_context():
            current = generation().now()
        if current != self._seen_generation or now - self._looked_at > _LOOK_SECONDS:
            self._seen_generation, self._looked_at = current, now
            for run_next in self._jobs.run_next:
                yield partial(self._run_queued, run_next, pace)
        if now - self._swept_at > _SWEEP_SECONDS:
            self._swept_at = now
            for sweep in self._jobs.sweeps:
                yield partial(sweep, int(pace.clock()))

    def _run_queued(self, run_next: Callable[[Pace], bool], pace: Pace) -> None:
        while not self._stopping and run_next(pace):
            pass


def _pause(worked: float) -> None:
    time.sleep(min(worked, _PAUSE_SECONDS))
