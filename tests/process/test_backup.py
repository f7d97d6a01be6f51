"""Backups in processes of their own: a limit on files, an import meanwhile."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from fhirapp.ops.backups.drill import drill
from fhirapp.ops.backups.restore import restore
from tests.support.backups import NOW, app_in, inside, settings_in, taken
from tests.support.importing import PATIENT, load_lines
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp, unmeasured


def test_backups_taken_during_an_import_verify_and_restore(tmp_path, synthea_folder):
    folder = tmp_path / "instance"
    with app_in(folder) as app:
        load_lines(app, tmp_path, PATIENT)
    command = [sys.executable, "-c", MAIN, "import", str(synthea_folder)]
    with subprocess.Popen(command, env=environment(folder), stdout=subprocess.DEVNULL) as process:
        backups = []
        while process.poll() is None:
            backups.append(taken(folder, tmp_path / f"{len(backups)}.backup"))
    assert process.returncode == 0
    versions = []
    for path in (backups[0], backups[len(backups) // 2], backups[-1]):
        drilled = drill(settings_in(folder), path, None)
        assert drilled.faults == []
        versions.append(drilled.versions)
    assert versions == sorted(versions)
    assert versions[0] >= 1
    done = restore(settings_in(folder), backups[-1], NOW, None, force=True)
    assert done.versions == versions[-1]
    checked = fhirapp(folder, "db", "check")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.smoke
def test_backup_command_writes_a_backup_that_opens(clinic, tmp_path):
    done = fhirapp(clinic, "backup", str(tmp_path / "clinic.backup"))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'clinic.backup'}\n")
    assert inside(tmp_path / "clinic.backup", tmp_path / "copy").files


def test_limit_on_file_size_is_one_sentence_and_leaves_nothing(clinic, tmp_path):
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
