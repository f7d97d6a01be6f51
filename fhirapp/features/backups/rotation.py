"""Backups by their names, which have the time in them, and the newest to keep.

Beside them those that the server keeps itself, which all servers of a database reach.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from fhirapp.config import Settings
from fhirapp.disk import database_path, need_space, refuse_failures, temporary_folder
from fhirapp.features.backups.archive import BEGIN, GZIP
from fhirapp.files import SCHEME, Bucket, Folder, StoredFile, fetch, shared_files

FOLDER = "backups"
_T = TypeVar("_T")


def time_in_name(taken: datetime) -> str:
    """Return the time as names of backups have it, so exact that no two share a name."""
    return f"{taken:%Y%m%dT%H%M%S.%fZ}"


@dataclass(frozen=True)
class Naming:
    """The names of backups in a folder that begin alike: fhirapp-20260105T020000.123456Z.backup."""

    folder: Path
    stem: str

    def path(self, taken: datetime) -> Path:
        """Return the file of a backup that is taken now."""
        return self.folder / f"{self.stem}-{time_in_name(taken)}.backup"

    def backups(self) -> Sequence[Path]:
        """Return the backups of this naming that are there, oldest first by their names."""
        dated = [
            (taken, path)
            for path in self.folder.iterdir()
            if (taken := self.taken(path.name)) and is_backup(path)
        ]
        return [path for _, path in sorted(dated)]

    def taken(self, name: str) -> datetime | None:
        """Return the time in a name, None of another naming; earlier releases had whole seconds."""
        time = r"([0-9]{8}T[0-9]{6}(?:\.[0-9]{6})?Z)"
        found = re.fullmatch(rf"{re.escape(self.stem)}-{time}\.backup", name)
        try:
            return datetime.fromisoformat(found[1]) if found else None
        except ValueError:
            return None


def stem_of(settings: Settings) -> str:
    """Return what the names of backups begin with that no schedule takes."""
    database = database_path(settings)
    return database.stem if database else "fhirapp"


def is_backup(path: Path) -> bool:
    """Say whether a file begins as a backup does."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(len(BEGIN))
    except OSError:
        return False
    return head.startswith(GZIP) or head == BEGIN


def prune(naming: Naming, keep: int, newest: Path) -> tuple[list[Path], list[Path]]:
    """Remove the oldest backups beyond so many; return those removed and those that could not be.

    The newest stays whatever the others' names say.
    """
    others = [path for path in naming.backups() if path != newest]
    return _remove(others[: max(0, len(others) + 1 - keep)], Path.unlink)


def _remove(old: Sequence[_T], remove: Callable[[_T], None]) -> tuple[list[_T], list[_T]]:
    removed: list[_T] = []
    stuck: list[_T] = []
    for one in old:
        try:
            remove(one)
            removed.append(one)
        except OSError:
            stuck.append(one)
    return removed, stuck


class Backup(NamedTuple):
    """A backup where the server keeps them: its bytes, when it was taken in seconds since 1970."""

    name: str
    size: int
    taken_at: float
    is_sealed: bool


def backups(settings: Settings) -> Sequence[Backup]:
    """Return the backups that the server keeps, whatever their names, newest first.

    Raises OSError where they cannot be listed.
    """
    files = shared_files(settings)
    found = [(file, _head(files, file)) for file in files.list(FOLDER)]
    kept = [
        Backup(file.base, file.size, file.modified, head == BEGIN)
        for file, head in found
        if head.startswith(GZIP) or head == BEGIN
    ]
    return sorted(kept, key=lambda backup: (backup.taken_at, backup.name), reverse=True)


@lru_cache(maxsize=1_000)
def _head(files: Folder | Bucket, file: StoredFile) -> bytes:
    """Return the first bytes of a file, which never changes; none where it was removed."""
    try:
        return files.read(file.name, 0, min(len(BEGIN), file.size))
    except FileNotFoundError:
        return b""


def keep_backup(settings: Settings, path: Path) -> None:
    """Move a backup of this machine to where the server keeps them. Raises ConfigurationError."""
    files = shared_files(settings)
    with refuse_failures(f"The backup cannot be kept in {files.place}"):
        files.put(f"{FOLDER}/{path.name}", path)


def delete_backup(settings: Settings, name: str) -> None:
    """Delete a backup that the server keeps. Raises OSError."""
    shared_files(settings).delete([f"{FOLDER}/{name}"])


def prune_kept(settings: Settings, naming: Naming, keep: int, newest: str) -> list[str]:
    """Remove the oldest of those that the server keeps, as prune() does; return what stuck."""
    names = sorted(one.name for one in backups(settings) if naming.taken(one.name))
    others = [name for name in names if name != newest]
    old = others[: max(0, len(others) + 1 - keep)]
    return _remove(old, partial(delete_backup, settings))[1]


def place_of(settings: Settings, name: str) -> str:
    """Return where a backup is that the server keeps: a path, or an address in an S3 store."""
    return f"{shared_files(settings).place}/{FOLDER}/{name}"


@contextmanager
def at_hand(settings: Settings, place: str) -> Iterator[Path]:
    """Yield the file of a backup, of one in an S3 store a copy. Raises ConfigurationError."""
    if not place.startswith(SCHEME):
        yield Path(place)
        return
    root, _, name = place.rpartition("/")
    with temporary_folder(settings.instance) as folder:
        with refuse_failures(f"{place} cannot be read"):
            bucket = Bucket(root)
            need_space(folder, bucket.stat(name).size, "a copy of the backup")
            fetch(bucket, name, folder / name)
        yield folder / name
