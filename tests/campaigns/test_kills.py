"""Processes killed at random points: each backup, restore and job is whole, or not there."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.features.backups.archive import KEYS
from fhirapp.features.backups.backup import back_up
from fhirapp.features.backups.jobs import BACKUP
from fhirapp.features.backups.restore import restore
from fhirapp.fhir.temporal import instant
from fhirapp.jobs import process, queue, schedules, worker
from fhirapp.jobs.queue import DONE, INTERRUPTED, NEVER_FINISHED, RUNNING, JobRow
from fhirapp.jobs.schedules import ScheduleRow
from fhirapp.server.check import Depth, check_database
from tests.support.backups import NOW, app_in, copy_of, inside, make_clinic, settings_in, taken
from tests.support.bulk import Exports
from tests.support.effort import sample
from tests.support.helpers import BASE_URL
from tests.support.importing import PATIENT, load_lines

pytestmark = pytest.mark.campaign

_FORK = multiprocessing.get_context("fork")
# One process in ten is not killed.
_SPARED = 0.1


def runs_killed(work: Callable[[], object], longest: float, chance: Random) -> bool:
    """Run a function in a process that is killed at a random time; return whether it was."""
    child = _FORK.Process(target=work)
    child.start()
    child.join(None if chance.random() < _SPARED else chance.uniform(0, longest))
    child.kill()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


def duration(work: Callable[[], object]) -> float:
    """Return how many seconds a function takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def scratch_files(*folders: Path) -> list[Path]:
    """Return the files and folders that a process left that was killed."""
    return [path for folder in folders for path in folder.glob(".fhirapp*")]


def test_backup_killed_at_random_leaves_the_earlier_or_the_new_one(tmp_path):
    clinic, chance = make_clinic(tmp_path / "clinic"), Random(1)
    settings, place = settings_in(clinic), tmp_path / "out" / "clinic.backup"
    place.parent.mkdir()
    moments = [NOW + timedelta(minutes=number) for number in range(sample(8, 300) + 1)]
    longest = duration(lambda: back_up(settings, place, moments[0], None))
    expected = instant(moments[0])
    for number, moment in enumerate(moments[1:]):
        is_killed = runs_killed(partial(back_up, settings, place, moment, None), longest, chance)
        found = inside(place, tmp_path / f"copy{number}").taken
        assert found == instant(moment) or (is_killed and found == expected)
        expected = found
        if not is_killed:
            assert scratch_files(clinic, place.parent) == []


def test_restore_killed_at_random_leaves_the_old_or_the_new_database(tmp_path):
    without = make_clinic(tmp_path / "without")
    with_one = copy_of(without, tmp_path / "with")
    (with_one / KEYS[0]).write_bytes(b"o" * 32)
    with app_in(with_one) as app:
        load_lines(app, tmp_path, PATIENT)
    backups = [taken(folder, tmp_path / f"{folder.name}.backup") for folder in (without, with_one)]
    folder, chance, has_one = copy_of(without, tmp_path / "instance"), Random(2), False
    settings = settings_in(folder)
    longest = duration(lambda: restore(settings, backups[0], NOW, None, force=True))

    for _ in range(sample(8, 300)):
        wanted = not has_one
        work = partial(restore, settings, backups[wanted], NOW, None, force=True)
        is_killed = runs_killed(work, longest, chance)
        with app_in(folder) as app, app.app_context():
            assert check_database(db.engine, types(), Depth.STRUCTURE).faults == []
        with closing(sqlite3.connect(folder / "fhirapp.db")) as connection:
            (count,) = connection.execute(
                "SELECT count(*) FROM patient WHERE id = 'one'"
            ).fetchone()
        assert (folder / KEYS[0]).read_bytes() == (
            [without, with_one][count] / KEYS[0]
        ).read_bytes()
        assert is_killed or bool(count) == wanted
        has_one = bool(count)
        for path in folder.glob("*.before-*"):
            path.unlink()


def serve(app: Flask) -> None:
    """Start jobs and runs of schedules as a server's worker does, until this process is killed."""
    while True:
        with app.app_context():
            now = int(time.time())
            worker.sweep(now)
            for run_next in (schedules.run_due, process.start_queued):
                while run_next(now):
                    pass
        time.sleep(0.05)


def job_processes() -> dict[str, int]:
    """Return the process of each job that has one; assert that no job has two."""
    found: dict[str, int] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if process.MODULE.encode() in words:
                job_id = words[words.index(process.MODULE.encode()) + 1].decode()
                assert job_id not in found
                found[job_id] = int(path.parent.name)
    return found


def let_time_pass(app: Flask) -> None:
    """Let the leases of jobs without a process run out, and the schedule become due."""
    with app.app_context():
        with writing() as connection:
            is_lost = JobRow.state == RUNNING, JobRow.id.not_in(job_processes())
            connection.execute(update(JobRow).where(*is_lost).values(lease_until=0))
            earlier = ScheduleRow.handled_at - 60
            connection.execute(update(ScheduleRow).values(handled_at=earlier))
        # A connection must not be carried into another process.
        db.engine.dispose()


def finished(client: Exports, status: str, expected: set[tuple[str, str]]) -> bool:
    """Say whether an export has finished, and then check and delete it."""
    response = client.get(status)
    if response.status_code == 202:
        return False
    if response.status_code == 200:
        lines = client.lines(response.get_json())
        assert {(line["resourceType"], line["id"]) for line in lines} == expected
    else:
        assert NEVER_FINISHED in response.text
    assert client.request("DELETE", status).status_code == 202
    return True


def test_jobs_killed_at_random_are_begun_again_or_interrupted(tmp_path):
    """The server, its jobs or both are killed; no job is lost, and none has two processes."""
    chance, kept, path = Random(3), tmp_path / "kept", "$export?_type=Patient"
    kept.mkdir()
    with app_in(make_clinic(tmp_path / "clinic"), base_url=BASE_URL) as app:
        with app.app_context():
            options = {"folder": str(kept), "keep": 2}
            schedules.add("nightly", BACKUP, "every 1 minute", options, int(time.time()))
        client = Exports(app)
        expected, started = {*client.exported(path)}, list[str]()
        killed, rounds = 0, sample(6, 200)
        while killed < rounds or started:
            started = [status for status in started if not finished(client, status, expected)]
            if killed < rounds and len(started) < 2:
                started.append(client.started(path))
            let_time_pass(app)
            server = _FORK.Process(target=serve, args=(app,))
            server.start()
            time.sleep(chance.uniform(0, 3))
            if killed < rounds and chance.random() < 0.7:
                for pid in job_processes().values():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                time.sleep(chance.uniform(0, 0.5))
            server.kill()
            server.join()
            killed += 1
        while job_processes():
            time.sleep(0.1)
        let_time_pass(app)
        with app.app_context():
            worker.sweep(int(time.time()))
            runs = queue.jobs(BACKUP)
        outcomes = Counter(run.state for run in runs)
        assert {*outcomes} <= {DONE, INTERRUPTED}
        assert outcomes[DONE]
        assert len([*kept.iterdir()]) <= 3
        for number, backup in enumerate(kept.iterdir()):
            inside(backup, tmp_path / f"copy{number}")
