"""Tasks whose power was cut: on the disk before they have their name, and not kept for ever."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fhirapp.config import Settings
from fhirapp.jobs import files as tasks
from fhirapp.jobs import start
from fhirapp.jobs.files import EXPORT, HELD, MADE
from tests.ops.test_backup import settings_in

NOW = 1_800_000_000
ASKED = {"kind": EXPORT, "who": "admin", "asked_at": NOW, "asked": {}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of an instance without anything."""
    return settings_in(tmp_path)


def made(settings: Settings, *, age: float, **asked: Any) -> Path:
    """Return the folder of an export so many seconds old, which has made something."""
    task_id = tasks.new_id()
    new = tasks.claimed(settings.instance, task_id, None)
    assert new is not None
    tasks.write_asked(new, ASKED | asked)
    path = tasks.named(new, task_id)
    (path / MADE).mkdir()
    (path / MADE / "Patient.ndjson").write_bytes(b"{}\n")
    os.utime(path, (NOW - age, NOW - age))
    return path


def lose(path: Path) -> None:
    (path / "asked.json").unlink()


def empty(path: Path) -> None:
    (path / "asked.json").write_bytes(b"")


def zero(path: Path) -> None:
    (path / "asked.json").write_bytes(b"\0" * 120)


def other(path: Path) -> None:
    (path / "asked.json").write_bytes(b"[]")


@pytest.mark.parametrize("cut", [lose, empty, zero, other])
def test_a_folder_that_does_not_say_whose_it_is_goes_when_it_is_old(
    settings: Settings, cut: Callable[[Path], None]
) -> None:
    paths = [made(settings, age=age) for age in (start.DAY + 10, start.DAY - 10)]
    for path in paths:
        age = path.stat().st_mtime
        cut(path)
        os.utime(path, (age, age))
    start.sweep(settings, NOW)
    assert [path.exists() for path in paths] == [False, True]


def test_what_says_whose_it_is_or_is_at_work_stays(settings: Settings) -> None:
    known, works = made(settings, age=3 * start.DAY), made(settings, age=3 * start.DAY)
    (works / HELD).touch()
    empty(works)
    os.utime(works, (1, 1))
    held = os.open(works / HELD, os.O_RDWR)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        start.sweep(settings, NOW)
        assert known.exists()
        assert works.exists()
    finally:
        os.close(held)
    start.sweep(settings, NOW)
    assert not works.exists()


def test_folders_of_other_names_are_nobodys_to_remove(settings: Settings) -> None:
    path = tasks.tasks_folder(settings.instance) / "lost+found"
    path.mkdir(parents=True)
    os.utime(path, (1, 1))
    start.sweep(settings, NOW)
    assert path.exists()


def test_a_task_is_on_the_disk_before_it_has_its_name(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.name, any(tasks.is_id(one.name) for one in folder.iterdir())))

    folder = tasks.tasks_folder(settings.instance)
    monkeypatch.setattr(os, "fsync", fsync)
    path = made(settings, age=0)
    before = [name for name, is_named in synced if not is_named]
    assert before == ["asked.json", f".new-{path.name}"]
    assert [name for name, is_named in synced if is_named] == [folder.name]
