"""The members of an archive that a table in the same archive names."""

from __future__ import annotations

import posixpath
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property

from fhirapp.features.imports.archives import ArchiveMember, Broken
from fhirapp.features.imports.tables.files import LARGEST, Names, UnreadableFile, checked, parts_of


class Index:
    """Members by their names; those of a path that leads out of the archive are left out."""

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
            self._names[folder] = Names(self._below(folder))
        return self._by_path[folder + self._names[folder].find(path)]

    def _below(self, folder: str) -> Iterator[str]:
        return (path.removeprefix(folder) for path in self._by_path if path.startswith(folder))

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

    def __init__(self, index: Index, table: str) -> None:
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
