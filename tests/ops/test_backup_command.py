"""`fhirapp backup`: what it prints, where passphrases come from, and what it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.backups import copy_of, inside, make_clinic, taken
from tests.support.shell import assert_not_done, environment, fhirapp, unmeasured


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance that tests of this module may read."""
    return make_clinic(tmp_path_factory.mktemp("clinic") / "instance")


@pytest.fixture
def clinic(example: Path, tmp_path: Path) -> Path:
    """An instance of the test's own."""
    return copy_of(example, tmp_path / "instance")


def test_the_command_prints_the_files_name_and_keeps_the_newest(clinic, tmp_path):
    for year in (2023, 2024, 2025):
        target = tmp_path / f"clinic-{year}-01-01.backup"
        shutil.copyfile(taken(clinic, tmp_path / "x.backup"), target)
    done = fhirapp(clinic, "backup", str(tmp_path / "clinic-%F.backup"), "--keep", "2")
    assert done.returncode == 0, done.stderr
    newest = Path(done.stdout.strip())
    assert newest.exists()
    assert "not encrypted" in done.stderr
    assert {path.name for path in tmp_path.glob("*.backup")} == {
        "clinic-2025-01-01.backup",
        newest.name,
        "x.backup",
    }


def test_the_command_encrypts_with_a_passphrase_from_file_or_environment(clinic, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("correct horse\nsecond line\n")
    (tmp_path / "out").mkdir()
    done = fhirapp(clinic, "backup", str(tmp_path / "out"), "--passphrase-file", str(secret))
    assert done.returncode == 0, done.stderr
    backup = Path(done.stdout.strip())
    assert backup.name.startswith("fhirapp-2")
    inside(backup, tmp_path / "copy", "correct horse")
    # A folder stands for the newest backup in it.
    verify = ("backup", "--verify", str(tmp_path / "out"))
    tried = fhirapp(clinic, *verify, BACKUP_PASSPHRASE="correct horse")
    assert (tried.returncode, tried.stderr) == (0, "")
    assert f"{backup}, taken 2" in tried.stdout
    assert " is whole: " in tried.stdout
    assert_not_done(fhirapp(clinic, *verify, BACKUP_PASSPHRASE="wrong"), "does not open")
    assert_not_done(fhirapp(clinic, *verify), "No passphrase is set: use --passphrase-file")


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        (["{}", "--encrypt"], {}, "No passphrase is set"),
        (["{}/x.backup", "--keep", "3"], {}, "--keep needs a folder, or a name with a time"),
        (["{}", "--keep", "0"], {}, "--keep"),
        (["{}", "--verify", "--keep", "3"], {}, "--verify takes no backup"),
        (["{}/x-%s.backup"], {}, "is no name with a time that can be read again"),
        (["{}", "--passphrase-file", "{}/none"], {}, "--passphrase-file"),
        (["{}", "--passphrase-file", "{}/empty"], {}, "The first line of"),
        (["{}/none/"], {}, "There is no folder"),
        (["{}/none.backup", "--verify"], {}, "There is no backup"),
        (["{}", "--verify"], {}, "There is no backup"),
        (
            ["{}"],
            {"DATABASE_URL": "postgresql+psycopg://clinic:hunter2@127.0.0.1:9/clinic"},
            "The database postgresql+psycopg://clinic:***@127.0.0.1:9/clinic cannot be used",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(clinic, tmp_path, arguments, settings, words):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "out" / "empty").write_text("\n")
    given = [one.replace("{}", str(out)) for one in arguments]
    done = fhirapp(clinic, "backup", *given, **settings)
    assert_not_done(done, words)
    assert "hunter2" not in done.stderr
    assert [path.name for path in out.iterdir()] == ["empty"]


@pytest.mark.skipif(sys.platform != "linux", reason="tells the memory of a process")
@pytest.mark.parametrize("verifies", [False, True])
def test_an_encrypted_backup_takes_little_memory(clinic, tmp_path, verifies):
    (tmp_path / "out").mkdir()
    secret, status = tmp_path / "secret", tmp_path / "status"
    secret.write_text("correct horse\n")
    words = ["backup", str(tmp_path / "out"), "--passphrase-file", str(secret)]
    if verifies:
        assert fhirapp(clinic, *words).returncode == 0
        words.insert(1, "--verify")
    at_its_end = (
        "import atexit, pathlib, sys\n"
        "told = pathlib.Path('/proc/self/status')\n"
        "atexit.register(lambda: pathlib.Path(sys.argv.pop()).write_text(told.read_text()))\n"
        "sys.argv, last = sys.argv[:-1], sys.argv[-1]\n"
        "from fhirapp.cli import cli\n"
        "try:\n"
        "    cli.main()\n"
        "finally:\n"
        "    sys.argv.append(last)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", at_its_end, *words, str(status)],
        env=unmeasured(environment(clinic)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (most,) = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert int(most) <= 150_000
