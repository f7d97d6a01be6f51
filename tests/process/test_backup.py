"""Backups in processes of their own: a limit on files."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.support.backups import inside
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp, unmeasured


@pytest.mark.smoke
def test_backup_command_writes_a_backup_that_opens(clinic_folder, tmp_path):
    done = fhirapp(clinic_folder, "backup", str(tmp_path / "clinic.backup"))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'clinic.backup'}\n")
    assert inside(tmp_path / "clinic.backup", tmp_path / "copy").files


def test_limit_on_file_size_is_one_sentence_and_leaves_nothing(clinic_folder, tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))

    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "backup", str(tmp_path / "out")],
        env=unmeasured(environment(clinic_folder)),
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert_not_done(done, "cannot be copied")
    assert not [*(tmp_path / "out").iterdir()]
    assert not [*clinic_folder.glob(".fhirapp*")]
