"""A disk that is full, and what is left on it of backups that never ended."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.disk import scratch, written_whole
from fhirapp.ops.backups.archive import DATABASE
from tests.support.backups import copy_of, make_clinic, taken
from tests.support.shell import MAIN, assert_not_done, environment, unmeasured


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance that tests of this module may read."""
    return make_clinic(tmp_path_factory.mktemp("clinic") / "instance")


@pytest.fixture
def clinic(example: Path, tmp_path: Path) -> Path:
    """An instance of the test's own."""
    return copy_of(example, tmp_path / "instance")


def fill_disk_at(suffix: str) -> Callable[[int], None]:
    """Return an fsync that finds the disk full for files with a suffix."""
    really = os.fsync

    def fsync(descriptor: int) -> None:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith(suffix):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        really(descriptor)

    return fsync


@pytest.mark.parametrize(
    ("suffix", "words"),
    [
        (
            ".part",
            r"clinic\.backup cannot be written \(No space left on device\); nothing was left there",
        ),
        (DATABASE, r"cannot be copied into .* \(No space left on device\)"),
    ],
)
def test_a_disk_that_is_full_leaves_what_was_there(clinic, tmp_path, monkeypatch, suffix, words):
    (tmp_path / "out").mkdir()
    backup = taken(clinic, tmp_path / "out" / "clinic.backup")
    before = backup.read_bytes()
    names = {path.name for path in clinic.iterdir()}
    monkeypatch.setattr(os, "fsync", fill_disk_at(suffix))
    with pytest.raises(ConfigurationError, match=words):
        taken(clinic, backup)
    assert [*backup.parent.iterdir()] == [backup]
    assert backup.read_bytes() == before
    assert {path.name for path in clinic.iterdir()} <= names


def test_a_limit_on_files_is_one_sentence_and_leaves_nothing(clinic, tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))

    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "backup", str(tmp_path / "out")],
        env=unmeasured(environment(clinic)),
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert_not_done(done, "cannot be copied")
    assert not [*(tmp_path / "out").iterdir()]
    assert not [*clinic.glob(".fhirapp*")]


def test_too_little_room_is_told_before_anything_is_written(clinic, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1_000_000))
    with pytest.raises(ConfigurationError, match=r"There is no room for a copy of fhirapp\.db"):
        taken(clinic, tmp_path / "clinic.backup")


def test_what_a_killed_backup_left_is_removed_by_the_next(clinic, tmp_path):
    left = clinic / ".fhirapp-scratch-left"
    left.mkdir()
    (left / DATABASE).write_bytes(b"x")
    part = tmp_path / ".fhirapp-left.part"
    part.write_bytes(b"x")
    taken(clinic, tmp_path / "clinic.backup")
    assert not left.exists()
    assert not part.exists()


def test_what_another_backup_has_not_finished_stays(clinic, tmp_path):
    with scratch(clinic) as folder, written_whole(tmp_path / "other.backup") as file:
        taken(clinic, tmp_path / "clinic.backup")
        assert folder.exists()
        file.write(b"more")
    assert (tmp_path / "other.backup").read_bytes() == b"more"
    assert not folder.exists()
