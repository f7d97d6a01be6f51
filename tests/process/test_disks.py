"""Commands on disks that cannot be written or are full: a sentence, exit code 2, nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shell import MAIN, environment, fhirapp


def can_mount() -> bool:
    """Say whether this user may mount a disk that no other process sees: on Linux, root may."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    mount = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


@pytest.fixture(autouse=True, scope="module")
def _mounts() -> None:
    if not can_mount():
        pytest.skip("needs Linux and root, to mount disks of its own")


READ_ONLY = 'mount --bind "$0" "$0"; mount -o remount,ro,bind "$0"'
# A disk with the folder's files and no room for more.
FULL = """
mkdir "$0.disk"; mount -t tmpfs -o size=6m tmpfs "$0.disk"; cp -a "$0/." "$0.disk"
mount --move "$0.disk" "$0"; dd if=/dev/zero of="$0/others" bs=1k 2>/dev/null || true
"""
# A small disk, empty.
SMALL = 'mount -t tmpfs -o size=300k tmpfs "$0"'
# No folder for temporary files can be written. The instance folder can, also where it is below one.
# Nothing is hidden: the checkout and the interpreter may be below one too.
WITHOUT_TMP = """
for folder in /tmp /var/tmp; do
    mount --rbind "$folder" "$folder"; mount -o remount,ro,bind "$folder"
done
mount --bind "$0" "$0"; mount -o remount,rw,bind "$0"
unset TMPDIR TEMP TMP SQLITE_TMPDIR
cd /proc
"""

COMMANDS = (
    ("serve", "--port", "0"),
    ("token", "issue", "--scope", "system/*.rs"),
    ("client", "list"),
    ("db", "check"),
    ("import", "."),
)


def on_disk(folder: Path, mounts: str, *words: str, **settings: str):
    """Run fhirapp where the instance folder is mounted so, for it alone."""
    script = f'set -e\n{mounts}\nexec "$@"'
    return subprocess.run(
        [
            *("unshare", "--mount", "bash", "-c", script, str(folder)),
            *(sys.executable, "-c", MAIN, *words),
        ],
        env=environment(folder, **settings),
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def instance(tmp_path):
    """An instance folder in which the server has started before."""
    folder = tmp_path / "instance"
    folder.mkdir()
    assert fhirapp(folder, "token", "issue", "--scope", "system/*.rs").returncode == 0
    return folder


def assert_one_sentence(done, words: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fhirapp: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_read_only_folder_is_one_sentence(instance, words):
    done = on_disk(instance, READ_ONLY, *words)
    assert_one_sentence(done, "(Read-only file system)")


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_full_disk_is_one_sentence_and_loses_nothing(instance, words):
    before = (instance / "fhirapp.db").read_bytes()
    assert_one_sentence(on_disk(instance, FULL, *words), "is full")
    assert (instance / "fhirapp.db").read_bytes() == before


@pytest.mark.parametrize("words", [("serve",), ("serve", "--demo"), COMMANDS[1]])
def test_first_start_without_space_is_one_sentence(tmp_path, words):
    folder = tmp_path / "instance"
    folder.mkdir()
    assert_one_sentence(on_disk(folder, SMALL, *words), "is full")


def test_commands_work_without_a_writable_folder_for_temporary_files(instance):
    done = on_disk(instance, WITHOUT_TMP, *COMMANDS[1])
    assert done.returncode == 0, done.stderr
    # SQLite sorts more than it keeps in memory.
    done = on_disk(instance, WITHOUT_TMP, "db", "check")
    assert done.returncode == 0, done.stderr
