"""The files that a table of documents names: by a path that stays in the table's own folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable, Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol

LARGEST = 64 * 1024 * 1024
# Where the system knows them: no link is followed at the last step, no pipe waited for.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


class Unreadable(ValueError):
    """A file that is not read; str() says why."""


class Files(Protocol):
    """The files beside a table; named has where those lie that it named."""

    named: set[Hashable]

    def read(self, name: str) -> bytes:
        """Return the bytes of a file, by its path from the table's folder. Raises Unreadable."""
        ...


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a path that stays in its folder. Raises Unreadable."""
    windows = PureWindowsPath(name)
    # A table from Windows writes notes\visit.pdf.
    relative = PurePosixPath(windows.as_posix())
    if windows.drive or windows.root or relative.is_absolute() or ".." in relative.parts:
        raise Unreadable("must be a path in the table's own folder, without ..")
    return relative.parts


class FolderFiles:
    """The files of a folder and those below; no link leads out of it."""

    def __init__(self, folder: Path) -> None:
        self.named: set[Hashable] = set()
        self._folder = folder

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raises Unreadable."""
        path = self._path(parts_of(name))
        try:
            descriptor = os.open(path, _FLAGS)
            try:
                return self._content(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise Unreadable(f"cannot be read: {error.strerror}") from None

    def _path(self, parts: Iterable[str]) -> Path:
        """Return where a path leads, links resolved. Raises Unreadable."""
        try:
            home = self._folder.resolve(strict=True)
            path = home.joinpath(*parts).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise Unreadable("is not there") from None
        if not path.is_relative_to(home):
            raise Unreadable("leads out of the table's folder")
        return path

    def _content(self, descriptor: int) -> bytes:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("is not a file")
        self.named.add((status.st_dev, status.st_ino))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # It may have grown since.
            content = b"" if status.st_size > LARGEST else file.read(LARGEST + 1)
        return checked(content, status.st_size)


def checked(content: bytes, size: int = 0) -> bytes:
    """Return the content of a file if it is neither empty nor too large. Raises Unreadable."""
    if max(size, len(content)) > LARGEST:
        raise Unreadable(f"is larger than {LARGEST} bytes")
    if not content:
        raise Unreadable("is empty")
    return content
