"""Schedules: when they are due, who begins a run, what its jobs tell, and what is remembered."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from sqlalchemy import insert, update

from fhirapp.config import ConfigurationError, RefusedCommand, settings_of
from fhirapp.db import writing
from fhirapp.db.generation import generation
from fhirapp.jobs import process, queue, schedules
from fhirapp.jobs.queue import (
    DONE,
    FAILED,
    INTERRUPTED,
    LEASE_SECONDS,
    STOPPED,
    Job,
    JobRow,
    Progress,
)
from fhirapp.jobs.schedules import Schedule, ScheduleRow, ScheduleRuns, run_due
from fhirapp.jobs.timing import Timing
from fhirapp.jobs.worker import sweep
from tests.support.databases import POSTGRESQL, SQLITE

BERLIN = ZoneInfo("Europe/Berlin")


NOW = int(datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp())


HOUR, DAY = 3_600, 86_400


KIND = "backup"


def at(text: str) -> int:
    """Return a moment of Berlin's, with its offset where it is there twice."""
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=BERLIN)).timestamp())


def added(timing: str = "hourly", name: str = "nightly") -> Schedule:
    """Return a schedule without runs, last handled at noon."""
    row = {"name": name, "kind": KIND, "timing": timing, "options": {}}
    with writing() as connection:
        values = {**row, "is_paused": False, "handled_at": NOW}
        connection.execute(insert(ScheduleRow).values(values))
    return schedules.find(name)


def runs() -> ScheduleRuns:
    return schedules.runs_of(schedules.find("nightly"))["nightly"]


def begin(now: int = NOW + HOUR) -> Job:
    """Begin what is due; return the run under way."""
    while run_due(now):
        pass
    current = runs().current
    assert current is not None
    return current


def ended(state: str, now: int, *notes: str, error: str | None = None) -> str:
    """Add a run that has ended; return the id of its job."""
    job_id = queue.new_id()
    with writing() as connection:
        queue.add(connection, job_id, KIND, "", now, runs=True, schedule="nightly")
    job = queue.find(job_id, KIND)
    assert job is not None
    queue.finish(job, state, now + 5, progress=Progress(notes=[*notes]), error=error)
    return job_id


BOTH = pytest.mark.databases(SQLITE, POSTGRESQL)


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the process of a job do nothing."""
    monkeypatch.setattr(process, "_spawn", lambda *_: None)


@pytest.fixture
def app(empty: Flask) -> Flask:
    """An app without schedules."""
    return empty


DUE = [
    ("hourly", "2026-03-10 12:00:00", "2026-03-10 13:00:00"),
    ("hourly", "2026-03-10 12:59:59", "2026-03-10 13:00:00"),
    ("every 15 minutes", "2026-03-10 12:07:00", "2026-03-10 12:15:00"),
    ("every 1 minute", "2026-03-10 12:07:00", "2026-03-10 12:08:00"),
    ("daily 02:30", "2026-03-10 02:29:59", "2026-03-10 02:30:00"),
    ("daily 02:30", "2026-03-10 02:30:00", "2026-03-11 02:30:00"),
    ("daily 00:00", "2026-12-31 23:59:59", "2027-01-01 00:00:00"),
    ("weekly sunday 02:00", "2026-03-10 12:00:00", "2026-03-15 02:00:00"),
    ("weekly tue 11:00", "2026-03-10 12:00:00", "2026-03-17 11:00:00"),
    ("weekly tuesday 13:00", "2026-03-10 12:00:00", "2026-03-10 13:00:00"),
    # The clock is put forward: 02:30 is not there, and the run is.
    ("daily 02:30", "2026-03-28 03:00:00", "2026-03-29 03:30:00"),
    ("daily 02:30", "2026-03-29 03:30:00", "2026-03-30 02:30:00"),
    ("hourly", "2026-03-29 01:00:00", "2026-03-29 03:00:00"),
    # It is put back: 02:30 is there twice, and the run once.
    ("daily 02:30", "2026-10-24 03:00:00", "2026-10-25 02:30:00+02:00"),
    ("daily 02:30", "2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00"),
    ("daily 02:30", "2026-10-25 02:10:00+01:00", "2026-10-26 02:30:00"),
    ("hourly", "2026-10-25 02:00:00+02:00", "2026-10-25 02:00:00+01:00"),
]


def test_schedule_is_due_by_the_clock_of_the_clinic():
    found = [Timing.of(timing).after(at(after), BERLIN) for timing, after, _ in DUE]
    assert found == [at(due) for *_, due in DUE]


def test_missed_runs_are_made_up_once(app):
    with app.app_context():
        assert added().due_at(UTC) == NOW + HOUR
        begin(NOW + 10 * DAY)
        assert schedules.find("nightly").due_at(UTC) == NOW + 10 * DAY + HOUR
        assert len(runs().jobs) == 1


@BOTH
def test_run_is_begun_once(app):
    with app.app_context():
        added()
        seen = schedules.find("nightly")
        # A run by hand does not move the schedule on.
        schedules.run_now("nightly", NOW)
        with pytest.raises(RefusedCommand, match="The schedule nightly is already running"):
            schedules.run_now("nightly", NOW)
        assert schedules.find("nightly").due_at(UTC) == NOW + HOUR
        # One that another server has begun since this one looked.
        assert schedules._begin(seen, NOW + HOUR, is_due=False) is None
        queue.interrupt(runs().jobs[0])
        assert schedules._begin(seen, NOW + HOUR, is_due=True)
        queue.interrupt(runs().jobs[0])
        assert schedules._begin(seen, NOW + HOUR, is_due=True) is None
        assert [job.state for job in runs().jobs] == [INTERRUPTED, INTERRUPTED]


def test_due_run_is_left_out_while_the_last_one_is_under_way(app):
    with app.app_context():
        added()
        first = begin()
        assert run_due(NOW + 2 * HOUR)
        assert not run_due(NOW + 2 * HOUR)
        assert [job.id for job in runs().jobs] == [first.id]
        assert schedules.find("nightly").due_at(UTC) == NOW + 3 * HOUR


@pytest.mark.parametrize(
    ("state", "failures"), [(DONE, 0), (FAILED, 1), (STOPPED, 0), (INTERRUPTED, 1)]
)
def test_outcome_of_a_run_is_that_of_its_job(app, state, failures):
    with app.app_context():
        added()
        job = begin()
        if state == INTERRUPTED:
            sweep(NOW + HOUR + LEASE_SECONDS + 1)
        else:
            queue.finish(job, state, NOW + HOUR + 5, progress=Progress(notes=["So it went."]))
        found = runs()
    assert (found.current, len(found.failures), len(found.ended)) == (None, failures, 1)
    assert (found.ended[0].outcome, found.ended[0].id) == (state, job.id)
    assert found.succeeded_at == (NOW + HOUR + 5 if state == DONE else None)
    assert (found.failed_at is not None) == bool(failures)
    assert found.ended[0].summary == ("So it went." if state in (DONE, FAILED) else "")


def test_run_whose_process_was_not_started_is_interrupted_and_later_runs_go_on(app):
    """As where the server is killed after it added the job."""
    with app.app_context():
        added()
        first = begin()
        sweep(NOW + HOUR + LEASE_SECONDS)
        assert runs().current == first
        sweep(NOW + HOUR + LEASE_SECONDS + 1)
        assert runs().ended[0].state == INTERRUPTED
        assert begin(NOW + 2 * HOUR).id != first.id


@BOTH
def test_slow_run_stops_once_the_next_one_has_begun(app):
    with app.app_context():
        added()
        slow = begin()
        sweep(NOW + 2 * HOUR)
        assert queue.renew(slow, Progress(), NOW + 2 * HOUR)
        sweep(NOW + 3 * HOUR)
        following = begin(NOW + 3 * HOUR)
        assert not queue.renew(slow, Progress(), NOW + 3 * HOUR)
        assert [(job.id, job.state) for job in runs().jobs] == [
            (following.id, "running"),
            (slow.id, INTERRUPTED),
        ]


def test_failures_are_counted_until_a_run_succeeds(app):
    with app.app_context():
        added()
        for number, state in enumerate([FAILED, FAILED, DONE, INTERRUPTED, STOPPED, FAILED]):
            ended(state, NOW + 60 * number, error=f"Why {number}." if state == FAILED else None)
        found = runs()
    assert [job.summary for job in found.failures] == ["Why 5.", ""]
    assert (found.succeeded_at, found.failed_at) == (NOW + 125, NOW + 305)


def test_due_schedule_without_work_adds_no_job_and_ends_failures(app, monkeypatch):
    kind = schedules.schedule_kinds()[KIND]
    works = iter([False, False, True])
    monkeypatch.setattr(
        schedules,
        "schedule_kinds",
        lambda: {KIND: replace(kind, has_work=lambda *_: next(works))},
    )
    with app.app_context():
        added()
        ended(FAILED, NOW + 60, error="The folder is away.")
        assert not runs().is_idle
        assert len(runs().failures) == 1
        for hours in (1, 2):
            assert run_due(NOW + hours * HOUR)
            assert (runs().idle_at, runs().is_idle) == (NOW + hours * HOUR, True)
        assert (runs().failures, len(runs().jobs)) == ([], 1)
        assert runs().succeeded_at == NOW + 2 * HOUR
        begin(NOW + 3 * HOUR)
        assert not runs().is_idle


@BOTH
def test_run_that_cannot_begin_is_a_failed_job(app, monkeypatch):
    kind = schedules.schedule_kinds()[KIND]

    def passphrase(_schedule: Schedule) -> str:
        raise ConfigurationError("There is no passphrase.")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with app.app_context():
        added()
        with monkeypatch.context() as patch:
            kinds = {KIND: replace(kind, passphrase=passphrase)}
            patch.setattr(schedules, "schedule_kinds", lambda: kinds)
            assert run_due(NOW + HOUR)
            with pytest.raises(ConfigurationError, match="There is no passphrase"):
                schedules.run_now("nightly", NOW + HOUR)
        with monkeypatch.context() as patch:
            patch.setattr(schedules, "schedule_kinds", dict)
            assert run_due(NOW + 2 * HOUR)
        with monkeypatch.context() as patch:
            patch.setattr(process, "_spawn", fail)
            assert run_due(NOW + 3 * HOUR)
            assert not run_due(NOW + 3 * HOUR)
        found = runs()
    assert [job.error for job in found.failures] == [
        "No process can be started (Cannot allocate memory).",
        "This server has no schedules of the kind backup.",
        "There is no passphrase.",
        "There is no passphrase.",
    ]
    assert {job.state for job in found.jobs} == {FAILED}


def test_run_of_a_kind_with_too_many_jobs_under_way_fails(app):
    with app.app_context():
        added()
        for _ in range(process.MOST):
            with writing() as connection:
                queue.add(connection, queue.new_id(), KIND, "admin", NOW, runs=True)
        assert run_due(NOW + HOUR)
        assert "4 of these are already running" in runs().ended[0].summary
        assert schedules.find("nightly").due_at(UTC) == NOW + 2 * HOUR


def test_paused_schedule_is_not_due_and_not_made_up(app):
    with app.app_context():
        seen = added()
        assert schedules.pause("nightly", NOW, paused=True)
        assert not schedules.pause("nightly", NOW, paused=True)
        assert schedules.find("nightly").due_at(UTC) is None
        # It was paused since this server looked.
        assert schedules._begin(seen, NOW + HOUR, is_due=True) is None
        schedules.pause("nightly", NOW + DAY, paused=False)
        assert schedules.find("nightly").due_at(UTC) == NOW + DAY + HOUR
        assert not runs().jobs


def test_clock_that_was_ahead_delays_no_run_and_hides_no_failure(app):
    ahead = NOW + 365 * DAY
    with app.app_context():
        added()
        with writing() as connection:
            connection.execute(update(ScheduleRow).values(handled_at=ahead, idle_at=ahead))
        assert not run_due(NOW + HOUR)
        assert schedules.find("nightly").due_at(UTC) == NOW + 2 * HOUR
        ended(FAILED, NOW + 2 * HOUR, error="No room.")
        assert [job.error for job in runs().failures] == ["No room."]


def test_paused_schedule_of_a_clock_that_was_ahead_writes_nothing(app):
    with app.app_context():
        added()
        schedules.pause("nightly", NOW, paused=True)
        with writing() as connection:
            connection.execute(update(ScheduleRow).values(handled_at=NOW + 365 * DAY))
        before = generation().now()
        assert not run_due(NOW + HOUR)
        assert generation().now() == before


def test_removed_schedule_lets_its_run_go_on_and_a_new_one_has_no_runs(app):
    with app.app_context():
        added()
        job = begin()
        schedules.remove("nightly")
        assert queue.renew(job, Progress(), NOW + HOUR)
        schedules.remember_since(job.id, "2026-03-01T00:00:00Z")
        added()
        assert (runs().jobs, schedules.find("nightly").since) == ([], None)
        assert begin(NOW + 2 * HOUR).id != job.id
        assert queue.finish(job, DONE, NOW + 2 * HOUR)
        found = queue.find(job.id, KIND)
    assert found is not None
    assert (found.state, found.schedule) == (DONE, None)


def test_last_runs_and_the_last_success_are_remembered(app):
    with app.app_context():
        added()
        success = ended(DONE, NOW)
        for number in range(25):
            ended(FAILED, NOW + 60 * (number + 1), error=f"Why {number}.")
        current = begin()
        removed = settings_of(app).instance / "tasks" / runs().ended[24].id
        removed.mkdir(parents=True)
        sweep(NOW + HOUR)
        found = runs()
    assert (found.current, found.ended[-1].id) == (current, success)
    assert [job.error for job in found.ended[:-1]] == [f"Why {n}." for n in range(24, 4, -1)]
    assert found.succeeded_at == NOW + 5
    assert len(found.failures) == 20
    assert not removed.exists()


def test_jobs_without_a_schedule_are_remembered_by_kind(app):
    with app.app_context():
        with writing() as connection:
            for number in range(203):
                for kind in (KIND, "drill"):
                    job_id = f"{number:023x}{len(kind)}"
                    queue.add(connection, job_id, kind, "a", NOW + number, error="Why.")
            connection.execute(update(JobRow).where(JobRow.number == 1).values(state="queued"))
        sweep(NOW)
        counts = [len(queue.jobs(kind)) for kind in (KIND, "drill")]
    assert counts == [201, 200]


def test_schedule_name_is_unique_and_a_removed_schedule_unknown(app):
    with app.app_context():
        added()
        with pytest.raises(RefusedCommand, match="The schedule nightly already exists"):
            schedules.add("nightly", KIND, "hourly", {}, NOW)
        schedules.remove("nightly")
        for change in (
            lambda: schedules.find("nightly"),
            lambda: schedules.run_now("nightly", NOW),
            lambda: schedules.remove("nightly"),
            lambda: schedules.pause("nightly", NOW, paused=True),
        ):
            with pytest.raises(RefusedCommand, match="Unknown schedule: nightly"):
                change()


def test_timings_are_written_in_one_way_and_others_refused():
    written = {
        "Hourly": "hourly",
        "  daily   7:05 ": "daily 07:05",
        "weekly SUN 23:59": "weekly sunday 23:59",
        "every 1440 minutes": "every 1440 minutes",
        "every 1 minutes": "every 1 minute",
    }
    assert {text: str(Timing.of(text)) for text in written} == written
    for text in (
        *("", "daily", "daily 24:00", "daily 2:5", "weekly 02:00", "weekly 31 02:00"),
        *("weekly s 02:00", "every 0 minutes", "every 1441 minutes", "0 2 31 2 *", "daily 02:00\0"),
        *("hourly 10", "every -5 minutes", "daily \u0662\u0662:00", "\u00e9" * 5_000),
    ):
        with pytest.raises(RefusedCommand, match="Use hourly, every 15 minutes"):
            Timing.of(text)


def test_invalid_schedule_names_are_refused(app):
    for name in ("", "Nightly", "a b", "-a", "a/b", "\u00e9", "x" * 41, "a\n"):
        with app.app_context(), pytest.raises(RefusedCommand, match="lowercase letters"):
            schedules.add(name, KIND, "hourly", {}, NOW)
