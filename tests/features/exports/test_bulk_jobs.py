"""Export jobs: claims, restarts, limits, cancellation and failure."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.config import Settings, settings_of
from fhirapp.db import db, writing
from fhirapp.features.exports.jobs import BULK_EXPORT, IN_PROGRESS, KEPT, WAIT_SECONDS
from fhirapp.features.exports.routes import POLLS
from fhirapp.jobs import process, queue
from fhirapp.jobs.process import MOST_QUEUED
from fhirapp.jobs.queue import (
    DONE,
    FAILED,
    LEASE_SECONDS,
    MOST_ATTEMPTS,
    NEVER_FINISHED,
    Job,
    Progress,
)
from fhirapp.jobs.worker import running_jobs
from tests.support.authorizing import alter
from tests.support.bulk import Exports, folder_of
from tests.support.contract import allergy, delete, publish
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.helpers import assert_outcome
from tests.support.jobs import do_job
from tests.support.shell import start_job, unmeasured

pytestmark = pytest.mark.databases(SQLITE, THREE_SERVERS)

# The process of an export, which stops in the middle, after a file is stored.
HALF = """
import sys, time
from fhirapp.config import settings
from fhirapp.files import shared_files
from fhirapp.jobs.process import Tracker
from fhirapp.server.work import main
def wait(*_progress):
    if any("DocumentReference" in file.name for file in shared_files(settings()).list("exports")):
        print("half", flush=True)
        time.sleep(600)
Tracker.at = wait
main(*sys.argv[1:])
"""
FULL = "The export does not fit on the server's disk; export less, or ask its operator for room."


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app of the test's own: what waits there is its own."""
    return make_app()


@pytest.fixture
def exports(app: Flask) -> Exports:
    return Exports(app)


def row(app: Flask, status: str) -> Job:
    """Return an export's row."""
    with app.app_context():
        found = queue.find(status.rpartition("/")[2], BULK_EXPORT)
    assert found is not None
    return found


def claim(app: Flask, now: float) -> Job | None:
    """Claim an export, as a worker does."""
    with app.app_context(), writing() as connection:
        return queue.claim(connection, BULK_EXPORT, int(now))


# Claims.


def test_export_is_claimed_by_one_of_many_workers(make_app):
    # All of them may write at once.
    app = make_app(threads=9)
    exports = Exports(app)
    statuses = {exports.started() for _ in range(IN_PROGRESS)}
    together = Barrier(8)

    def try_it(_number: int) -> Job | None:
        together.wait()
        return claim(app, time.time())

    with ThreadPoolExecutor(8) as pool:
        claimed = [job for job in pool.map(try_it, range(8)) if job]
    assert {f"/fhir/$export/{job.id}" for job in claimed} == statuses
    assert len(claimed) == IN_PROGRESS


def test_claim_expires_with_its_lease_and_another_worker_restarts(app, exports):
    status = exports.started()
    now = time.time()
    first = claim(app, now)
    assert first is not None
    assert exports.get(status).status_code == 202
    assert claim(app, now + LEASE_SECONDS) is None
    second = claim(app, now + LEASE_SECONDS + 1)
    assert second is not None
    assert (first.id, first.attempts, second.attempts) == (second.id, 1, 2)
    with app.app_context():
        # The first lives, and asks for more; nothing that it does counts.
        half = Progress(done=4, total=8)
        assert not queue.renew(first, half, int(now))
        assert not queue.finish(first, DONE, int(now))
        assert not queue.finish(first, FAILED, int(now), error="x")
        assert queue.renew(second, half, int(now))
    assert exports.get(status).headers["X-Progress"] == "50% complete"


def test_export_that_the_servers_stop_ended_belongs_to_its_next_process_alone(app, exports):
    exports.started()
    now = int(time.time())
    with app.app_context():
        # These attempts do not count.
        for _ in range(MOST_ATTEMPTS + 1):
            stopped = claim(app, now)
            assert stopped is not None
            queue.requeue(stopped, counts=False)
        owner = claim(app, now)
        assert owner is not None
        # The server that started the stopped process sees late that it is gone.
        queue.requeue(stopped)
        assert queue.renew(owner, Progress(), now)


def test_export_that_never_comes_to_its_end_is_given_up(app, exports):
    status = exports.started()
    for number in range(MOST_ATTEMPTS):
        assert claim(app, time.time() + number * (LEASE_SECONDS + 1)) is not None
    assert exports.work(seconds=MOST_ATTEMPTS * (LEASE_SECONDS + 1)) == 0
    assert row(app, status).state == "failed"
    assert_outcome(exports.get(status), 500, "exception", NEVER_FINISHED)


def test_only_so_many_exports_run_at_once(app, monkeypatch):
    for _ in range(MOST_QUEUED + 1):
        Exports(app).started()
    started: list[str] = []
    monkeypatch.setattr(process, "_spawn", lambda _s, job, *_more: started.append(job.id))
    now = int(time.time())
    with app.app_context():
        while process.start_queued(now):
            pass
        assert len(set(started)) == len(started) == MOST_QUEUED
        # One whose process is gone makes room, and comes first.
        assert process.start_queued(now + LEASE_SECONDS + 1)
    assert started[-1] == started[0]


def test_export_that_cannot_start_is_queued_again(app, exports, monkeypatch):
    status = exports.started()

    def refuse(*_job: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with monkeypatch.context() as patch, app.app_context():
        patch.setattr(process, "_spawn", refuse)
        assert not process.start_queued(int(time.time()))
    assert (row(app, status).state, row(app, status).attempts) == ("queued", 1)
    assert exports.work() == 1
    assert exports.get(status).status_code == 200


def test_process_that_begins_after_its_lease_does_nothing(app, exports, monkeypatch):
    status = exports.started()
    late: list[Job] = []
    monkeypatch.setattr(process, "_spawn", lambda _s, job, *_more: late.append(job))
    with app.app_context():
        assert process.start_queued(int(time.time()))
    assert exports.work(seconds=LEASE_SECONDS + 1) == 1
    with app.app_context():
        do_job(settings_of(app), late[0], Path(), "")
    assert row(app, status).attempts == 2
    assert exports.lines(exports.manifest(status))


def test_export_goes_on_after_the_machine_stopped_its_process(app, exports):
    status = exports.started()
    stopped: list[int] = []

    def stop() -> None:
        if not stopped:
            stopped.append(os.getpid())
            signal.raise_signal(signal.SIGTERM)

    # The second time it ends.
    assert exports.work(on_page=stop) == 2
    assert row(app, status).attempts == 2
    assert exports.lines(exports.manifest(status))


def test_lost_lease_ends_the_process_of_an_export(app, exports, monkeypatch):
    status = exports.started()
    monkeypatch.setattr(process, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(process, "_WRITE_SECONDS", 0.0)
    monkeypatch.setattr(queue, "LEASE_SECONDS", 0)

    def lose() -> None:
        lease_until = int(time.time()) + 600
        alter(app, update(queue.JobRow).values(attempts=7, lease_until=lease_until))
        time.sleep(20)

    assert exports.work(on_page=lose) == 1
    # Another process has it.
    assert (row(app, status).state, row(app, status).attempts) == ("running", 7)
    assert not (folder_of(app, status) / "1").exists()


@pytest.mark.process
def test_export_of_a_killed_process_is_begun_again(app, exports, monkeypatch):
    status = exports.started()
    with app.app_context():
        db.engine.dispose()
    spawned: list[subprocess.Popen[str]] = []

    def spawn(settings: Settings, job: Job, folder: Path, _passphrase: str) -> None:
        child = subprocess.Popen(
            [sys.executable, "-c", HALF, job.id, str(job.attempts)],
            cwd=folder,
            env=unmeasured(process.environment(settings)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        spawned.append(child)

    with monkeypatch.context() as patch, app.app_context():
        patch.setattr(process, "_spawn", spawn)
        assert process.start_queued(int(time.time()))
    with spawned[0] as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "half\n"
        child.kill()
    attempt = folder_of(app, status) / "1"
    assert (attempt / "DocumentReference.1.ndjson").stat().st_size
    assert row(app, status).state == "running"
    assert exports.work() == 0
    assert exports.get(status).status_code == 202
    # The server that started it sees at once that it is gone, another one when its lease ends.
    process.await_end(app, lambda: None, row(app, status))
    assert row(app, status).state == "queued"
    assert exports.work() == 1
    found = exports.lines(exports.manifest(status))
    assert {(resource["resourceType"], resource["id"]) for resource in found} == {
        *exports.exported()
    }
    assert not attempt.exists()
    assert row(app, status).attempts == 2


@pytest.mark.process
def test_server_runs_exports_in_processes_and_is_woken_by_new_ones(app, exports, monkeypatch):
    monkeypatch.setattr(process, "_spawn", start_job)
    first = exports.started()
    with running_jobs(app):
        for status in (first, exports.started()):
            while row(app, status).state in ("queued", "running"):
                time.sleep(0.01)
            assert exports.lines(exports.manifest(status))


# Limits.


def test_exports_in_progress_are_limited_for_each_client(app, exports):
    statuses = [exports.started() for _ in range(IN_PROGRESS)]
    refused = exports.kick_off()
    message = f"{IN_PROGRESS} exports of this client are in progress; wait for one to finish."
    assert_outcome(refused, 429, "throttled", message)
    assert refused.headers["Retry-After"] == str(WAIT_SECONDS)
    other = Exports(app)
    other.started()
    assert len([*folder_of(app, statuses[0]).parent.iterdir()]) == IN_PROGRESS + 1
    exports.request("DELETE", statuses[0])
    exports.started()


def test_finished_exports_are_limited_for_each_client(exports):
    statuses = []
    for _ in range(KEPT):
        statuses.append(exports.started("$export?_type=Organization"))
        exports.work()
    message = f"{KEPT} exports of this client are kept; DELETE one that you have fetched."
    assert_outcome(exports.kick_off(), 429, "throttled", message)
    exports.request("DELETE", statuses[3])
    exports.started()


def test_simultaneous_kick_offs_are_limited(app, exports):
    together = Barrier(6)

    def try_it(_number: int) -> int:
        together.wait()
        return exports.kick_off("$export?_type=Patient").status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = sorted(pool.map(try_it, range(6)))
    # A writer that waits too long for its turn gets 503.
    assert set(statuses) <= {202, 429, 503}
    assert statuses.count(202) == exports.kept() == exports.work() == IN_PROGRESS


@pytest.mark.databases(SQLITE)
def test_too_many_status_requests_are_throttled(exports):
    status = exports.started()
    statuses = [exports.get(status).status_code for _ in range(POLLS)]
    assert {*statuses} == {202}
    refused = exports.get(status)
    message = "Too many status requests; wait for the time in Retry-After."
    assert_outcome(refused, 429, "throttled", message)
    assert 1 <= int(refused.headers["Retry-After"]) <= 60


# What ends an export.


def test_export_is_cancelled_while_it_is_written(app, exports, monkeypatch):
    status = exports.started()
    monkeypatch.setattr(process, "_LOOK_SECONDS", 0.01)
    pages = []

    def cancel() -> None:
        pages.append(1)
        # The job may be stopped before this request is answered: it is made in the same thread.
        exports.request("DELETE", status)
        time.sleep(20)

    assert exports.work(on_page=cancel) == 1
    assert pages == [1]
    assert exports.kept() == 0
    assert not folder_of(app, status).exists()
    assert exports.get(status).status_code == 404


def test_export_that_is_cancelled_after_it_is_written_leaves_no_files(app, exports, monkeypatch):
    """As in the half second before the process looks for a stop request again."""
    status = exports.started("$export?_type=Patient")
    finish = queue.finish

    def cancel_and_finish(*arguments: Any, **values: Any) -> bool:
        # Files that were written while the request removed those that it found.
        files = {path: path.read_bytes() for path in (folder_of(app, status) / "1").iterdir()}
        exports.request("DELETE", status)
        (folder_of(app, status) / "1").mkdir(parents=True)
        for path, content in files.items():
            path.write_bytes(content)
        return finish(*arguments, **values)

    monkeypatch.setattr(queue, "finish", cancel_and_finish)
    assert exports.work() == 1
    assert exports.kept() == 0
    assert not folder_of(app, status).exists()


@pytest.mark.parametrize("name", ["Encounter.1.ndjson", "error.1.ndjson", "manifest.json"])
def test_full_disk_fails_the_export_and_removes_its_files(app, exports, name, monkeypatch):
    status = exports.started("$export?unknown=1")
    attempt = folder_of(app, status) / "1"
    replace = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        assert exports.work() == 1
    assert_outcome(exports.get(status), 500, "exception", FULL)
    assert not attempt.exists()
    assert exports.get(f"{status}/Patient.1.ndjson").status_code == 404
    assert exports.request("DELETE", status).status_code == 202
    assert exports.get(status).status_code == 404


def test_export_leaves_room_for_the_database(exports, monkeypatch):
    status = exports.started()
    monkeypatch.setattr("fhirapp.features.exports.files.RESERVE", 2**62)
    assert exports.work() == 1
    assert_outcome(exports.get(status), 500, "exception", FULL)


def test_deletion_of_the_group_fails_a_queued_export(app, exports):
    status = exports.started("Group/grp-allergy-clinic/$export")
    delete(app, "Group", "grp-allergy-clinic", now="2026-03-01T00:00:00.000+00:00")
    assert exports.work() == 1
    reason = "Group/grp-allergy-clinic was deleted."
    assert_outcome(exports.get(status), 500, "exception", reason)
    refused = exports.kick_off("Group/grp-allergy-clinic/$export")
    assert_outcome(refused, 410, "deleted", reason)


@pytest.mark.databases(SQLITE)
def test_no_transaction_is_open_while_files_are_written(app, exports):
    """Else SQLite's log grows as long as an export takes: nothing of it can be taken over."""
    exports.started("$export?_type=AllergyIntolerance")
    left = []

    def pause() -> None:
        publish(app, allergy("meanwhile"), now="2026-03-01T00:00:00.000+00:00")
        with app.app_context(), closing(db.engine.raw_connection()) as connection:
            found = connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")
            assert found is not None
            _, log, taken_over = found.fetchone()
            left.append(log - taken_over)

    assert exports.work(on_page=pause) == 1
    assert left == [0] * len(left) != []
