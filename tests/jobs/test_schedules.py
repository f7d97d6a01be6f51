"""Schedules as rows: when they are due, who claims a run, and how it ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from flask import Flask

from fhirapp.config import RefusedCommand
from fhirapp.db import writing
from fhirapp.jobs import queue, schedules
from fhirapp.jobs.queue import DONE, FAILED, INTERRUPTED, STOPPED, Progress
from fhirapp.jobs.schedules import IDLE, SKIPPED, ScheduledRun, Timing
from tests.support.databases import POSTGRESQL, SQLITE

BERLIN = ZoneInfo("Europe/Berlin")


NOW = int(datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp())


HOUR, DAY = 3_600, 86_400


KIND = "backup"


def at(text: str) -> int:
    """Return a moment of Berlin's, with its offset where it is there twice."""
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=BERLIN)).timestamp())


def added(timing: str = "hourly", name: str = "nightly") -> schedules.Schedule:
    schedules.add(name, KIND, Timing.of(timing), {}, NOW)
    return schedules.find(name)


def claim(*arguments: Any, **options: Any) -> bool:
    with writing() as connection:
        return schedules.claim(connection, *arguments, **options)


def claimed(job_id: str, now: int = NOW + HOUR, *, with_job: bool = True) -> schedules.Schedule:
    """Return the schedule with a run that was claimed, and its job."""
    assert claim(schedules.find("nightly"), now, job_id)
    if with_job:
        with writing() as connection:
            queue.add(connection, job_id, KIND, "schedule:nightly", now, runs=True)
    return schedules.find("nightly")


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
        nightly = added()
        assert nightly.due_at(UTC) == NOW + HOUR
        assert claim(nightly, NOW + 10 * DAY, queue.new_id())
        assert schedules.find("nightly").due_at(UTC) == NOW + 10 * DAY + HOUR


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_run_is_claimed_once(app):
    with app.app_context():
        nightly = added()
        # A run by hand is one too, and moves nothing.
        assert claim(nightly, NOW, queue.new_id(), is_due=False)
        assert not claim(nightly, NOW, queue.new_id(), is_due=False)
        assert schedules.find("nightly").due_at(UTC) == NOW + HOUR
        schedules.remove("nightly")
        nightly = added()
        assert claim(nightly, NOW + HOUR, queue.new_id())
        assert not claim(nightly, NOW + HOUR, queue.new_id())
        assert not schedules.note(nightly, ScheduledRun(NOW + HOUR, NOW + HOUR, IDLE))


@pytest.mark.parametrize(
    ("state", "failures"), [(DONE, 0), (FAILED, 1), (STOPPED, 0), (INTERRUPTED, 1)]
)
def test_outcome_of_a_run_is_that_of_its_job(app, state, failures):
    job_id = queue.new_id()
    with app.app_context():
        added()
        nightly = claimed(job_id)
        assert schedules.settle(nightly, NOW + HOUR + 1)
        job = queue.find(job_id, KIND)
        if state == INTERRUPTED:
            queue.interrupt(job)
        else:
            queue.finish(job, state, NOW + HOUR + 5, progress=Progress(notes=["So it went."]))
        assert not schedules.settle(nightly, NOW + HOUR + 60)
        # What another process saw at the same moment changes nothing.
        assert not schedules.settle(nightly, NOW + HOUR + 60)
        ended = schedules.find("nightly")
    assert (ended.job_id, ended.failures, len(ended.history)) == (None, failures, 1)
    assert (ended.last.outcome, ended.last.job_id) == (state, job_id)
    assert (ended.succeeded_at is not None) == (state == DONE)
    assert (ended.failed_at is not None) == bool(failures)


def test_claim_without_a_job_is_interrupted_and_later_runs_go_on(app):
    with app.app_context():
        added()
        nightly = claimed(queue.new_id(), with_job=False)
        assert schedules.settle(nightly, NOW + HOUR + 10)
        assert not schedules.settle(nightly, NOW + HOUR + 90)
        ended = schedules.find("nightly")
        assert (ended.last.outcome, ended.failures) == (INTERRUPTED, 1)
        assert ended.due_at(UTC) == NOW + 2 * HOUR
        assert claim(ended, NOW + 2 * HOUR, queue.new_id())


def test_failures_are_counted_until_a_run_succeeds(app):
    with app.app_context():
        added()
        for number, state in enumerate([FAILED, FAILED, DONE, FAILED], 1):
            nightly = schedules.find("nightly")
            assert schedules.note(nightly, ScheduledRun(NOW + number, NOW + number, state, "Why."))
        ended = schedules.find("nightly")
    assert (ended.failures, ended.succeeded_at, ended.failed_at) == (1, NOW + 3, NOW + 4)
    assert [run.outcome for run in ended.history] == [FAILED, DONE, FAILED, FAILED]


def test_consecutive_idle_runs_are_one_line(app):
    with app.app_context():
        added()
        states = [FAILED, IDLE, IDLE, IDLE, SKIPPED, SKIPPED]
        for number, state in enumerate(states, 1):
            assert schedules.note(
                schedules.find("nightly"), ScheduledRun(NOW + number, NOW + number, state)
            )
        ended = schedules.find("nightly")
    assert [(run.outcome, run.began_at - NOW) for run in ended.history] == [
        (SKIPPED, 6),
        (IDLE, 4),
        (FAILED, 1),
    ]


def test_paused_schedule_is_not_due_and_not_made_up(app):
    with app.app_context():
        nightly = added()
        schedules.pause("nightly", NOW, paused=True)
        assert schedules.find("nightly").due_at(UTC) is None
        assert not claim(nightly, NOW + HOUR, queue.new_id())
        schedules.pause("nightly", NOW + DAY, paused=False)
        assert schedules.find("nightly").due_at(UTC) == NOW + DAY + HOUR


def test_clock_that_was_ahead_delays_no_run(app):
    with app.app_context():
        added()
        nightly = schedules.find("nightly")
        assert schedules.note(nightly, ScheduledRun(NOW + 365 * DAY, NOW + 365 * DAY, DONE))
        ahead = schedules.find("nightly")
        assert schedules.set_back(ahead, NOW + HOUR).due_at(UTC) == NOW + 2 * HOUR
        assert schedules.find("nightly").due_at(UTC) == NOW + 2 * HOUR


def test_schedule_name_is_unique_and_a_removed_schedule_unknown(app):
    with app.app_context():
        added()
        with pytest.raises(RefusedCommand, match="The schedule nightly already exists"):
            added()
        schedules.remove("nightly")
        for change in (
            lambda: schedules.find("nightly"),
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
            added(name=name)
