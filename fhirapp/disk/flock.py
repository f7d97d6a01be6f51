"""Locks on open files and folders, which the system releases whatever way a process ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fhirapp.config import ConfigurationError


def take(descriptor: int, *, alone: bool) -> bool | None:
    """Take the lock of an open file; False where another has it, None where there are none.

    Processes that are forked hold it too.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks.
        return None
    return True


def is_left(path: Path) -> bool:
    """Say whether whoever made a file or folder, and held it, is gone."""
    if sys.platform == "win32":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return take(descriptor, alone=True) is True
    finally:
        os.close(descriptor)


@contextmanager
def naming_in(folder: Path) -> Iterator[None]:
    """Hold a folder: nobody else makes or removes what is held in it.

    So nothing is found that was made and is not held yet.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def turn(path: Path, waits: Callable[[], None]) -> Iterator[None]:
    """Hold a file, made where it is missing; one after the other, where several want to.

    waits is called once where another has it first. Raises ConfigurationError.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be held ({error.strerror}).") from None
    if os.geteuid() == 0:
        # The server's user takes turns too.
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    try:
        if take(descriptor, alone=True) is False:
            waits()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
