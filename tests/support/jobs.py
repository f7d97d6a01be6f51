"""Jobs that an administrator starts on a page: done in this process, or followed to their end."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flask import Flask, current_app

from fhirapp.config import Settings, settings_of
from fhirapp.core import current_core
from fhirapp.features.backups.jobs import BACKUP, RESTORE, VERIFICATION
from fhirapp.features.exports.jobs import EXPORT
from fhirapp.features.imports.jobs import FOLDER, IMPORT, PULL
from fhirapp.jobs import process, queue
from fhirapp.jobs.queue import Job
from fhirapp.server import work
from tests.support.browsing import Page

KINDS = (IMPORT, EXPORT, BACKUP, VERIFICATION, FOLDER, PULL, RESTORE)
_ID = re.compile(r"[0-9a-f]{24}")
_LONGEST_SECONDS = 120


def task_id(page: Page) -> str:
    """Return the id in a page's address."""
    found = _ID.search(page.path)
    assert found, (page.path, page.status, page.words)
    return found[0]


def task(app: Flask, job_id: str) -> Job:
    """Return a job as it is now."""
    with app.app_context():
        job = queue.find(job_id, *KINDS)
    assert job is not None
    return job


def wait_for(app: Flask, job_id: str) -> Job:
    """Wait for the end of a job; return it."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while (job := task(app, job_id)).is_under_way:
        assert time.monotonic() < deadline, job
        time.sleep(0.02)
    return job


def newest(app: Flask, kind: str) -> Job:
    """Wait for the newest job of a kind."""
    with app.app_context():
        job_id = queue.jobs(kind, limit=1)[0].id
    return wait_for(app, job_id)


def run_job(app: Flask, job: Job, folder: Path, passphrase: str) -> None:
    """Do a job in this process as the job's own process would, and return when it has ended."""
    settings = settings_of(app)
    kinds = work.job_functions(settings, passphrase)

    @contextmanager
    def current(wanted: Settings) -> Iterator[Flask]:
        """Use this app, but for the copy of the database that a dry run changes."""
        with app.app_context() if wanted == settings else current_core(wanted):
            yield app

    folder_before, handler = Path.cwd(), signal.getsignal(signal.SIGTERM)
    os.chdir(folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for feature in ("backups", "exports", "imports"):
                patch.setattr(f"fhirapp.features.{feature}.jobs.current_core", current)
            process.run_job(app, job.id, job.attempts, kinds)
    finally:
        os.chdir(folder_before)
        signal.signal(signal.SIGTERM, handler)


def do_job(_settings: Settings, job: Job, folder: Path, passphrase: str) -> None:
    """Do a job in this process, in place of `fhirapp.jobs.process._spawn`."""
    run_job(current_app._get_current_object(), job, folder, passphrase)


def run_queued(
    app: Flask, *, seconds: float = 0, on_progress: Callable[[], object] = lambda: None
) -> int:
    """Run the queued jobs in this process, as if so many seconds had passed; return how many.

    on_progress is called each time that a job notes how much is done.
    """
    count = 0
    with app.app_context(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("fhirapp.jobs.process._spawn", do_job)
        patch.setattr(process.Tracker, "at", lambda *_: on_progress())
        while process.start_queued(int(time.time() + seconds)):
            count += 1
    return count


class HeldJobs:
    """Jobs that were started and whose work waits until a test lets it begin."""

    def __init__(self) -> None:
        self._held: list[tuple[Flask, Job, Path, str]] = []

    def hold(self, _settings: Settings, job: Job, folder: Path, passphrase: str) -> None:
        """Stand for `fhirapp.jobs.process._spawn`."""
        self._held.append((current_app._get_current_object(), job, folder, passphrase))

    @property
    def count(self) -> int:
        return len(self._held)

    def run(self) -> None:
        """Do the jobs in the order in which they were started."""
        while self._held:
            run_job(*self._held.pop(0))
