"""Jobs as rows: claimed, renewed, interrupted and stopped; and folders of no job."""

from __future__ import annotations

import errno
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pytest
from flask import Flask

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import writing
from fhirapp.features.backups.jobs import BACKUP, VERIFICATION
from fhirapp.features.exports.jobs import EXPORT
from fhirapp.features.imports.jobs import IMPORT
from fhirapp.file_locks import lock
from fhirapp.jobs import process, queue, uploads, worker
from fhirapp.jobs.queue import (
    DONE,
    FAILED,
    INTERRUPTED,
    LEASE_SECONDS,
    RUNNING,
    STOPPED,
    Job,
    Progress,
)
from fhirapp.jobs.worker import DAY, sweep
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.jobs import wait_for

NOW = 1_800_000_000


def added(app: Flask, kind: str = EXPORT, *, now: int = NOW) -> Job:
    """Return a job whose process has begun."""
    job_id = queue.new_id()
    with app.app_context(), writing() as connection:
        assert queue.add(connection, job_id, kind, "admin", now, runs=True)
    return found(app, job_id)


def found(app: Flask, job_id: str) -> Job:
    """Return a job as it is now."""
    with app.app_context():
        job = queue.find(job_id, IMPORT, EXPORT, BACKUP, VERIFICATION)
    assert job is not None
    return job


BOTH = pytest.mark.databases(SQLITE, THREE_SERVERS)


@pytest.fixture
def app(empty: Flask) -> Flask:
    """An app without jobs."""
    return empty


def made(app: Flask, job_id: str, *, age: float) -> Path:
    """Return a file such as a job makes, so many seconds old."""
    path = settings_of(app).instance / "tasks" / job_id / "made" / "report.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}")
    os.utime(path, (NOW - age, NOW - age))
    return path


def work(app: Flask, job_id: str, *, age: float) -> Path:
    """Return a folder such as a job works in, so many seconds old."""
    path = process.folder_of(job_id, settings_of(app).instance)
    path.mkdir(parents=True)
    os.utime(path, (NOW - age, NOW - age))
    return path


def test_job_is_added_once_and_the_newest_listed_first(app):
    job = added(app)
    with app.app_context(), writing() as connection:
        assert not queue.add(connection, job.id, IMPORT, "other", NOW)
    assert found(app, job.id) == job
    ids = [job.id, *(added(app).id for _ in range(4))]
    with app.app_context():
        # The newest comes first.
        assert [job.id for job in queue.jobs(EXPORT, IMPORT)] == ids[::-1]
        assert [job.id for job in queue.jobs(EXPORT, limit=2)] == ids[:2:-1]
        assert queue.jobs(IMPORT) == []


@BOTH
def test_job_whose_lease_expired_is_interrupted_until_it_renews(app):
    job, half = added(app), Progress(done=50, total=100)
    with app.app_context():
        sweep(NOW + LEASE_SECONDS)
        assert found(app, job.id).state == RUNNING
        sweep(NOW + LEASE_SECONDS + 1)
        assert (found(app, job.id).state, found(app, job.id).lease_until) == (INTERRUPTED, None)
        assert queue.renew(job, half, NOW + 60)
        assert (found(app, job.id).state, found(app, job.id).progress) == (RUNNING, half)
        sweep(NOW + 60 + LEASE_SECONDS)
        assert found(app, job.id).state == RUNNING
        queue.interrupt(job)
        assert queue.finish(job, "done", NOW + 61, progress=half)
        queue.interrupt(job)
    assert (found(app, job.id).state, found(app, job.id).ended_at) == ("done", NOW + 61)


def test_deleted_or_ended_job_is_not_renewed(app):
    job, other = added(app), added(app)
    with app.app_context():
        queue.delete_job(job.id)
        assert not queue.renew(job, Progress(), NOW)
        assert queue.stop_requests(job.id) is None
        assert queue.finish(other, STOPPED, NOW)
        assert not queue.renew(other, Progress(), NOW)
        queue.request_stop(other.id)
        assert queue.stop_requests(other.id) == 0


@pytest.mark.process
@BOTH
@pytest.mark.parametrize("requests", [1, 2])
def test_process_stops_when_asked_and_is_killed_when_asked_again(
    app, requests, monkeypatch, tmp_path
):
    """A job that never looks up: only its thread sees that it shall stop."""
    (tmp_path / "sleeper.py").write_text(
        "import sys, time\n"
        "from fhirapp.environment import load_settings\n"
        "from fhirapp.core import core_app\n"
        "from fhirapp.jobs import process\n"
        "def sleep(job, tracker):\n"
        "    tracker.phase('works')\n"
        "    time.sleep(60)\n"
        "app = core_app(load_settings())\n"
        "process.run_job(app, sys.argv[1], int(sys.argv[2]), {'export': sleep})\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(process, "MODULE", "sleeper")
    job_id = queue.new_id()
    with app.app_context():
        assert process.start(job_id, EXPORT, owner="admin", request={}, now=int(time.time()))
        while found(app, job_id).progress.phase != "works":
            time.sleep(0.05)
        for _ in range(requests):
            queue.request_stop(job_id)
    job = wait_for(app, job_id)
    assert job.state == (STOPPED if requests == 1 else INTERRUPTED)


def test_process_that_cannot_be_started_leaves_nothing(app, tmp_path, monkeypatch):
    job_id = queue.new_id()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with app.app_context(), pytest.raises(ConfigurationError, match="No process can be started"):
        process.start(job_id, IMPORT, owner="admin", request={}, now=int(time.time()))
    with app.app_context():
        assert queue.find(job_id, IMPORT) is None
    assert not process.folder_of(job_id, settings_of(app).instance).exists()


def test_old_files_of_no_job_are_removed(app):
    job = added(app)
    paths = [
        path
        for make in (made, work)
        for path in (
            make(app, job.id, age=3 * DAY),
            make(app, queue.new_id(), age=DAY + 10),
            make(app, queue.new_id(), age=DAY - 10),
            # Its name is no job's.
            make(app, "lost+found", age=3 * DAY),
        )
    ]
    with app.app_context():
        sweep(NOW)
    assert [path.exists() for path in paths] == [True, False, True, True] * 2


def test_files_of_a_killed_process_are_kept_once_it_is_gone(app):
    """As the servers of its machine do from time to time, where the one that began it is gone."""
    job = added(app, IMPORT)
    path = work(app, job.id, age=0)
    (path / "made").mkdir()
    (path / "made" / "rejected.ndjson").write_bytes(b"{}\n")
    (path / "made" / ".half").write_bytes(b"")
    with app.app_context():
        process.store_leftover_files()
        assert path.exists()
        queue.interrupt(job)
        with lock(path):
            process.store_leftover_files()
            assert path.exists()
        process.store_leftover_files()
        files = process.made_files(found(app, job.id))
    assert [(file.base, file.size) for file in files] == [("rejected.ndjson", 3)]
    assert not path.exists()


@BOTH
@pytest.mark.parametrize(
    ("outcome", "error"), [(DONE, None), (FAILED, "The disk is full."), (STOPPED, None)]
)
def test_job_whose_files_cannot_be_stored_is_uploading_until_they_are(
    app, outcome, error, monkeypatch
):
    job = added(app, IMPORT)
    path = work(app, job.id, age=0)
    (path / "made").mkdir()
    (path / "made" / "report.json").write_bytes(b"{}")
    with app.app_context():
        queue.request_stop(job.id)
        with monkeypatch.context() as patch:
            patch.setattr(process, "_store_files", refuse_files)
            with process.Tracker(app, found(app, job.id)) as tracker:
                tracker.end(outcome, error=error, note="A remark." if not error else "")
        waiting = found(app, job.id)
        assert (waiting.state, waiting.outcome, waiting.error) == ("uploading", outcome, error)
        assert waiting.progress.storage_error.endswith(": No such device or address")
        assert (waiting.is_under_way, waiting.is_stopping) == (False, False)
        # Nobody stops it or takes it for lost, and none of its files is offered.
        queue.request_stop(job.id)
        sweep(NOW + DAY)
        assert found(app, job.id) == waiting
        assert process.made_files(waiting) == []
        process.store_leftover_files()
        stored = found(app, job.id)
        assert [file.base for file in process.made_files(stored)] == ["report.json"]
    assert (stored.state, stored.error, stored.progress.storage_error) == (outcome, error, "")
    assert stored.progress.notes == waiting.progress.notes
    assert stored.ended_at == waiting.ended_at
    assert not path.exists()


def refuse_files(*_: object) -> list[tuple[str, int]]:
    """Raise what a storage raises that cannot be reached."""
    raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))


def test_process_that_begins_late_does_nothing(app):
    """Its job is another attempt's, has ended or was deleted."""
    second, ended, deleted = added(app, IMPORT), added(app, IMPORT), added(app, IMPORT)
    ran: list[str] = []

    def run(job: Job, _tracker: process.Tracker) -> str:
        ran.append(job.id)
        return ""

    with app.app_context():
        queue.finish(ended, DONE, NOW)
        queue.delete_job(deleted.id)
    for job, attempt in ((second, second.attempts - 1), (ended, 1), (deleted, 1)):
        process.run_job(app, job.id, attempt, {IMPORT: run})
    assert ran == []
    assert found(app, second.id) == second


@BOTH
def test_files_of_a_killed_process_are_kept_by_one_of_two(app):
    job = added(app, IMPORT)
    path = work(app, job.id, age=0)
    (path / "made").mkdir()
    for number in range(200):
        (path / "made" / f"{number}.ndjson").write_bytes(b"{}\n")
    together = Barrier(2)

    def keep(_number: int) -> None:
        with app.app_context():
            together.wait()
            process.store_leftover_files()

    with app.app_context():
        queue.interrupt(job)
        with ThreadPoolExecutor(2) as both:
            assert [*both.map(keep, range(2))] == [None, None]
        made = found(app, job.id).progress.made
    assert made is not None
    assert len(made) == 200


@BOTH
def test_uploads_of_an_import_are_removed_a_day_after_its_end(app):
    job = added(app, IMPORT)
    with app.app_context():
        uploads.add(job.id, "u", uploads.UploadChunk(0, "a.ndjson", 2, 0, 2, b"{}"))
        queue.finish(job, STOPPED, NOW)
        os.utime(settings_of(app).instance / "uploads" / job.id, times=(NOW - 5 * DAY,) * 2)
        sweep(NOW + DAY - 1)
        assert uploads.is_kept(job.id)
        sweep(NOW + DAY + 1)
        assert not uploads.is_kept(job.id)
    assert not [*(settings_of(app).instance / "uploads").glob("*/*")]
    assert found(app, job.id)


@pytest.mark.parametrize("error", [OSError(5, "the files are away"), KeyError("a mistake")])
def test_failing_work_stops_no_other_work(app, error):
    ran, swept = Event(), Event()

    def fail(_argument: object) -> bool:
        raise error

    def run(_pace: object) -> bool:
        ran.set()
        return False

    worker.register(app, sweep=fail, run_next=fail)
    worker.register(app, sweep=lambda _now: swept.set(), run_next=run)
    with worker.running_jobs(app):
        assert ran.wait(20)
        assert swept.wait(20)
