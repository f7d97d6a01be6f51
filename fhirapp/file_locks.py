"""Locks of files and folders between processes, released by the system however a process ends.

Forked processes share the locks that they inherit. Windows and some file systems have no such
locks; nothing is locked there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def lock(
    path: Path, *, shared: bool = False, wait: bool = True, create: bool = False
) -> Iterator[bool | None]:
    """Lock a file or folder, but no symbolic link; create makes a file that is missing.

    Without wait, False says that another process has the lock. None says that there are no locks
    here. Raises OSError if the path cannot be opened.
    """
    if sys.platform == "win32":
        yield None
        return
    try:
        # On NFS only a file that is open for writing can be locked.
        flags = os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o600)
    except IsADirectoryError:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if create and os.fstat(descriptor).st_uid == 0:
            # A command of root made it; the server's user needs it too.
            with suppress(OSError):
                owner = path.parent.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        is_locked: bool | None = True
        operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, operation | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            is_locked = False
        except OSError:
            # A file system without locks.
            is_locked = None
        yield is_locked
    finally:
        os.close(descriptor)


def directory_lock(folder: Path) -> AbstractContextManager[bool | None]:
    """Lock a folder: creating a locked file or folder in it is one step for other processes."""
    return lock(folder.resolve())


@contextmanager
def lock_abandoned(path: Path) -> Iterator[bool]:
    """Lock a file or folder whose creator has ended; False while its creator still locks it."""
    with ExitStack() as stack:
        is_locked: bool | None = False
        with suppress(OSError):
            is_locked = stack.enter_context(lock(path, wait=False))
        yield is_locked is True


def is_abandoned(path: Path) -> bool:
    """Say whether the process that created and locked a file or folder has ended."""
    with lock_abandoned(path) as is_locked:
        return is_locked
