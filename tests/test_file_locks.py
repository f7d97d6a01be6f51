"""Locks of files and folders: who has them, and for how long."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from fhirapp.file_locks import directory_lock, is_abandoned, lock, lock_abandoned


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that can be locked."""
    path = tmp_path / "file"
    path.touch()
    return path


@pytest.fixture
def other_process(file: Path) -> Iterator[int]:
    """Id of a process that has the lock of the file, and of its folder, until it is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with lock(file), lock(file.parent):
            os.write(writing, b"locked")
            signal.pause()
        os._exit(1)
    assert os.read(reading, 6) == b"locked"
    os.close(reading)
    os.close(writing)
    yield child
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_lock_of_a_killed_process_is_released(file, other_process):
    for path in (file, file.parent):
        with lock(path, wait=False) as is_ours, lock_abandoned(path) as is_locked:
            assert (is_ours, is_locked) == (False, False)
        assert not is_abandoned(path)
    os.kill(other_process, signal.SIGKILL)
    os.waitpid(other_process, 0)
    for path in (file, file.parent):
        assert is_abandoned(path)
        with lock(path, wait=False) as is_ours:
            assert is_ours is True


def test_waiting_lock_is_taken_once_the_other_is_released(file):
    order = []

    def wait() -> None:
        with lock(file):
            order.append("waiting")

    with lock(file):
        waiting = Thread(target=wait)
        waiting.start()
        waiting.join(0.1)
        order.append("first")
    waiting.join()
    assert order == ["first", "waiting"]


def test_shared_locks_exclude_only_an_exclusive_one(file):
    with lock(file, shared=True) as first, lock(file, shared=True, wait=False) as second:
        assert (first, second) == (True, True)
        with lock(file, wait=False) as exclusive:
            assert exclusive is False


def test_forked_process_keeps_the_lock_of_its_parent(file):
    reading, writing = os.pipe()
    with lock(file):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    os.close(reading)
    assert not is_abandoned(file)
    os.close(writing)
    os.waitpid(child, 0)
    assert is_abandoned(file)


def test_missing_file_is_created_only_on_request(tmp_path):
    path = tmp_path / "new"
    assert not is_abandoned(path)
    with pytest.raises(FileNotFoundError), lock(path):
        pass
    with lock(path, create=True) as is_ours:
        assert is_ours is True
    assert path.stat().st_mode & 0o777 == 0o600


def test_file_that_root_creates_belongs_to_the_owner_of_its_folder(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(tmp_path, 12345, 12346)
    with lock(tmp_path / "new", create=True):
        status = (tmp_path / "new").stat()
    assert (status.st_uid, status.st_gid) == (12345, 12346)


def test_symbolic_link_is_not_followed_but_to_a_folder(file, tmp_path):
    link, folder = tmp_path / "link", tmp_path / "folder"
    link.symlink_to(file)
    with pytest.raises(OSError, match="symbolic links"), lock(link, create=True):
        pass
    assert not is_abandoned(link)
    folder.symlink_to(tmp_path)
    assert not is_abandoned(folder)
    with directory_lock(folder) as is_ours:
        assert is_ours is True
        assert not is_abandoned(tmp_path)
