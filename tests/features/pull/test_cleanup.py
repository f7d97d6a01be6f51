"""Removal of downloads that failed: with their schedule, or after a week."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.features.imports.jobs import PULL
from fhirapp.features.pull.jobs import sweep
from fhirapp.file_locks import lock
from fhirapp.jobs import process, queue, schedules
from fhirapp.jobs.queue import DONE, FAILED
from tests.support.bulk_server import EXPORT, file, lines_of, outcome
from tests.support.jobs import do_job
from tests.support.schedules import HOUR, START, add, look, names

WEEK = 7 * 24 * HOUR
PATIENTS = lines_of("Patient", 3)
BROKEN = outcome("500 Internal Server Error", "The disk is on fire.")


@pytest.fixture
def downloads(empty, server, monkeypatch) -> Path:
    """Return the folder of downloads after a pull fetched one of two files, and failed."""
    monkeypatch.setattr(process, "_spawn", do_job)
    server.offer(Patient=file(PATIENTS), AllergyIntolerance=[BROKEN, file(b"")])
    add(empty, PULL, address=server.url + EXPORT)
    assert look(empty).outcome == FAILED
    folder = settings_of(empty).instance / "downloads"
    assert len(names(folder)) == 1
    return folder


@pytest.fixture
def sweep_at(empty):
    """Return a function that sweeps so many seconds from now."""

    def run(seconds: int) -> None:
        with empty.app_context():
            sweep(int(time.time()) + seconds)

    return run


def remove_schedule(app):
    with app.app_context():
        schedules.remove("one")


def test_failed_download_is_continued_by_the_next_run_and_then_removed(
    empty, server, downloads, sweep_at
):
    sweep_at(WEEK - HOUR)
    assert look(empty, START + 2 * HOUR).outcome == DONE
    assert server.lines.count("GET /files/Patient") == server.lines.count(f"GET {EXPORT}") == 1
    assert names(downloads) == []


def test_failed_download_is_removed_with_its_schedule(empty, downloads, sweep_at):
    remove_schedule(empty)
    sweep_at(0)
    assert names(downloads) == []


def test_failed_download_is_removed_a_week_after_its_last_run(empty, server, downloads, sweep_at):
    (folder,) = downloads.iterdir()
    os.utime(folder, (0, 0))
    server.answers["/files/AllergyIntolerance"] = [BROKEN]
    assert look(empty, START + 2 * HOUR).outcome == FAILED
    sweep_at(WEEK - HOUR)
    assert folder.exists()
    sweep_at(WEEK + HOUR)
    assert names(downloads) == []


def test_download_of_a_command_is_removed_after_a_week(downloads, sweep_at):
    own = downloads / "0123456789abcdef"
    own.mkdir()
    sweep_at(WEEK - HOUR)
    assert own.exists()
    sweep_at(WEEK + HOUR)
    assert names(downloads) == []


def test_download_is_not_removed_during_its_run(empty, server, downloads, sweep_at):
    (folder,) = downloads.iterdir()
    remove_schedule(empty)
    with lock(folder / "lock", wait=False):
        sweep_at(WEEK + HOUR)
    assert folder.exists()
    with empty.app_context(), writing() as connection:
        queue.add(connection, "imports-now", PULL, "schedule:one", START, runs=True)
    sweep_at(WEEK + HOUR)
    assert folder.exists()
