"""Processes killed at random points: each backup, restore and job is whole, or not there."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

import pytest

from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.features.backups.archive import KEYS
from fhirapp.features.backups.backup import back_up
from fhirapp.features.backups.restore import restore
from fhirapp.fhir.temporal import instant
from fhirapp.server.check import check_database
from tests.support.backups import NOW, app_in, copy_of, inside, make_clinic, settings_in, taken
from tests.support.effort import sample
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
            assert check_database(db.engine, types(), quick=False).faults == []
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
