"""Files and folders: written whole or not at all, private to the server's user."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp, mkstemp
from typing import BinaryIO

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from fhirapp.config import ConfigurationError, Settings
from fhirapp.file_locks import directory_lock, is_abandoned, lock

# Bytes that are copied at a time.
CHUNK = 1024 * 1024
# Bytes that stay free for the server's log.
_SPARE = 16 * 1024 * 1024
# Bytes that a start writes: the shared memory of SQLite's log, a page of log and of database.
_LEAST = 64 * 1024
# Names of files that are not complete yet.
_PREFIX = ".fhirapp-"
_SUFFIX = ".part"


def database_path(settings: Settings) -> Path | None:
    """Return the SQLite file that the settings name, None for another kind of database.

    Raises ConfigurationError.
    """
    try:
        url = make_url(settings.database_uri)
    except (ArgumentError, ValueError):
        raise ConfigurationError("FHIRAPP_DATABASE_URL is not a database address.") from None
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    # As Flask-SQLAlchemy reads it.
    return settings.instance / str(url.database)


def sibling(path: Path, suffix: str) -> Path:
    """Return the path in the same folder that adds a suffix to the name."""
    return Path(f"{path}{suffix}")


def is_older(path: Path, moment: float) -> bool:
    """Say whether a file or folder exists and was last changed before a moment."""
    try:
        return path.stat().st_mtime < moment
    except OSError:
        return False


def reason_of(error: OSError | sqlite3.Error) -> str:
    """Return the reason that an error gives, without the file's name."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def open_private(name: str, flags: int) -> int:
    """Open a file for open(), readable by its owner only if it is new."""
    return os.open(name, flags, 0o600)


@contextmanager
def refuse_failures(what: str, advice: str = ".") -> Iterator[None]:
    """Raise ConfigurationError for the failure of a file: what, its reason in brackets, advice."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"{what} ({reason_of(error)}){advice}") from None


def need_space(folder: Path, size: int, what: str) -> None:
    """Check that a folder has room for size bytes of what. Raises ConfigurationError."""
    free = shutil.disk_usage(folder).free
    if free < size + _SPARE:
        raise ConfigurationError(
            f"There is no room for {what} in {folder}: {human_size(size + _SPARE)} are needed and "
            f"{human_size(free)} are free. Nothing was changed."
        )


def need_writable(folder: Path) -> None:
    """Check that a folder can be written and has the room that a start needs.

    Raises ConfigurationError.
    """
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(_LEAST))
            file.flush()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ConfigurationError(f"The disk of {folder} is full; make room on it.") from None
        raise ConfigurationError(
            f"The folder {folder} cannot be written ({reason_of(error)}); give this user the right "
            "to write it and all that is in it."
        ) from None


def scale_size(size: float) -> tuple[float, int, str]:
    """Return a number of bytes in its unit: the number, its decimals, and bytes, kB, MB or GB."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return size, 0 if unit == "bytes" or size >= 100 else 1, unit
        size /= 1000
    return size, 1, "GB"


def human_size(size: float) -> str:
    """Return a number of bytes with its unit: 512 bytes, 1.5 kB, 79.2 GB."""
    number, decimals, unit = scale_size(size)
    return f"{number:,.{decimals}f} {unit}"


@contextmanager
def write_atomically(path: Path, *, like: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file that replaces a path if the block succeeds, and is removed otherwise.

    Only this user can read it, or the owner of the file that like names. It is flushed to the disk
    before it has its name. Partial files of processes that were killed are removed.
    """
    with ExitStack() as stack:
        with directory_lock(path.parent):
            for leftover in path.parent.glob(f"{_PREFIX}*{_SUFFIX}"):
                if is_abandoned(leftover):
                    leftover.unlink(missing_ok=True)
            descriptor, name = mkstemp(dir=path.parent, prefix=_PREFIX, suffix=_SUFFIX)
            part = Path(name)
            stack.enter_context(lock(part, wait=False))
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            copy_owner(part, like or path)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)


def copy_into(path: Path, target: Path) -> None:
    """Copy a file to a path, completely or not at all."""
    with path.open("rb") as source, write_atomically(target, like=path) as file:
        shutil.copyfileobj(source, file, CHUNK)


def sync(path: Path) -> None:
    """Flush a file's content to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def copy_owner(path: Path, other: Path) -> None:
    """Give a file to the owner of another, or of its folder if there is no other file.

    Only root does so: the server can then read what root restored.
    """
    if sys.platform != "win32" and os.geteuid() == 0:
        with suppress(OSError):
            found = (other if other.exists() else path.parent).stat()
            os.chown(path, found.st_uid, found.st_gid)


_TEMPORARY_PREFIX = ".fhirapp-scratch-"


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Create a folder in a folder, which only this user can read; it is removed at the end.

    Folders of processes that were killed are removed. Raises ConfigurationError.
    """
    with ExitStack() as stack:
        advice = "; run this as the server's own user, or name another in FHIRAPP_INSTANCE_PATH."
        with refuse_failures(f"The folder {folder} cannot be written", advice):
            folder.mkdir(parents=True, exist_ok=True)
            with directory_lock(folder):
                for leftover in folder.glob(f"{_TEMPORARY_PREFIX}*"):
                    if is_abandoned(leftover):
                        shutil.rmtree(leftover, ignore_errors=True)
                path = Path(mkdtemp(prefix=_TEMPORARY_PREFIX, dir=folder))
                stack.enter_context(lock(path, wait=False))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
