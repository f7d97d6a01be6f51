"""The files that a table of documents names, in the folder or the archive that it came from.

Names are compared in NFC: macOS writes ü as u and a mark. A file is read by a path that stays in
the table's own folder.
"""

from __future__ import annotations

import os
import posixpath
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol

from fhirapp.features.imports.archives import ArchiveMember, Broken

LARGEST = 64 * 1024 * 1024
# Where the system knows them: no link is followed at the last step, no pipe waited for.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


class UnreadableFile(ValueError):
    """A file that is not read; str() says why."""


class TableFiles(Protocol):
    """The files beside a table; named has where those lie that it named."""

    named: set[Hashable]

    def read(self, name: str) -> bytes:
        """Return the bytes of a file by its path from the table's folder. Raises UnreadableFile."""
        ...


class Names:
    """Names of files, found in NFC."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._same: Mapping[str, list[str]] = _grouped(self._names, _composed)
        self._similar: Mapping[str, list[str]] = _grouped(self._names, _folded)

    def find(self, name: str, folder: str = "") -> str:
        """Return a name as it is written here. Raises UnreadableFile, which tells a similar name.

        folder is put before the similar name.
        """
        if name in self._names:
            return name
        same = self._same.get(_composed(name), [])
        if len(same) == 1:
            return same[0]
        if same:
            raise UnreadableFile(
                "is the name of several files, whose letters are encoded differently"
            )
        if similar := self._similar.get(_folded(name)):
            raise UnreadableFile(f"is not there; write {folder}{similar[0]}, which is there")
        raise UnreadableFile("is not there")


def _grouped(names: Iterable[str], form: Callable[[str], str]) -> Mapping[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        groups[form(name)].append(name)
    return groups


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _folded(name: str) -> str:
    """Return what names have in common that differ in case or in compatibility characters."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a path that stays in its folder. Raises UnreadableFile."""
    windows = PureWindowsPath(name)
    # A table from Windows writes notes\visit.pdf.
    relative = PurePosixPath(windows.as_posix())
    if windows.drive or windows.root or relative.is_absolute() or ".." in relative.parts:
        raise UnreadableFile("must be a path in the table's own folder, without ..")
    return relative.parts


class FolderFiles:
    """The files of a folder and those below; no link leads out of it."""

    def __init__(self, folder: Path) -> None:
        self.named: set[Hashable] = set()
        self._folder = folder
        self._listed: dict[Path, Names] = {}

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raises UnreadableFile."""
        path = self._path(parts_of(name))
        try:
            descriptor = os.open(path, _FLAGS)
            try:
                return self._content(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise UnreadableFile(f"cannot be read: {error.strerror}") from None

    def _path(self, parts: Iterable[str]) -> Path:
        """Return where a path leads, links resolved. Raises UnreadableFile."""
        try:
            home = path = self._folder.resolve(strict=True)
            for part in parts:
                path /= part if os.path.lexists(path / part) else self._name(home, path, part)
            path = path.resolve(strict=True)
        except UnreadableFile:
            raise
        except (OSError, RuntimeError, ValueError):
            raise UnreadableFile("is not there") from None
        if not path.is_relative_to(home):
            raise UnreadableFile("leads out of the table's folder")
        return path

    def _name(self, home: Path, folder: Path, part: str) -> str:
        # A folder behind a link that leads out is not listed.
        if not folder.resolve(strict=True).is_relative_to(home):
            raise UnreadableFile("leads out of the table's folder")
        if folder not in self._listed:
            self._listed[folder] = Names(path.name for path in folder.iterdir())
        above = folder.relative_to(home)
        return self._listed[folder].find(part, "" if above == Path() else f"{above.as_posix()}/")

    def _content(self, descriptor: int) -> bytes:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("is not a file")
        self.named.add((status.st_dev, status.st_ino))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # It may have grown since.
            content = b"" if status.st_size > LARGEST else file.read(LARGEST + 1)
        return checked(content, status.st_size)


def checked(content: bytes, size: int = 0) -> bytes:
    """Return the content of a file if it is neither empty nor too large. Raises UnreadableFile."""
    if max(size, len(content)) > LARGEST:
        raise UnreadableFile(f"is larger than {LARGEST} bytes")
    if not content:
        raise UnreadableFile("is empty")
    return content


class ArchiveIndex:
    """The members of an archive by their names, without those whose path leads out of it."""

    def __init__(self, members: Sequence[ArchiveMember], archive: Hashable) -> None:
        self._members = members
        self._archive = archive
        self._names: dict[str, Names] = {}

    def location(self, name: str) -> Hashable:
        """Return a unique key of a member within the import."""
        return self._archive, name

    def find(self, folder: str, path: str) -> ArchiveMember:
        """Return the member at a path from a folder. Raises UnreadableFile."""
        if folder not in self._names:
            below = (path for path in self._by_path if path.startswith(folder))
            self._names[folder] = Names(path.removeprefix(folder) for path in below)
        return self._by_path[folder + self._names[folder].find(path)]

    @cached_property
    def _by_path(self) -> dict[str, ArchiveMember]:
        found = {}
        for member in self._members:
            # Some programs on Windows write the separator of theirs.
            path = member.name.replace("\\", "/")
            if not (path.startswith("/") or ".." in path.split("/")):
                found[posixpath.normpath(path)] = member
        return found


class MemberFiles:
    """The files in the folder of a member, and below it."""

    def __init__(self, index: ArchiveIndex, table: str) -> None:
        self.named: set[Hashable] = set()
        self._index = index
        folder = posixpath.dirname(posixpath.normpath(table.replace("\\", "/")))
        self._folder = f"{folder}/" if folder else ""

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raises UnreadableFile."""
        member = self._index.find(self._folder, "/".join(parts_of(name)))
        self.named.add(self._index.location(member.name))
        if member.is_link:
            raise UnreadableFile("is a link, which is not followed")
        try:
            with member.opens(lambda _size: None) as stream:
                return checked(stream.read(LARGEST + 1))
        except Broken as error:
            raise UnreadableFile(str(error)) from None
