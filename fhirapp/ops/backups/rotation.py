"""Backups by their names: those of a folder, or of a name with a time, and the newest to keep."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fhirapp.config import ConfigurationError, Settings
from fhirapp.ops.backups.archive import BEGIN, GZIP

_IN_FOLDER = "{stem}-%Y%m%dT%H%M%SZ.backup"
# What strftime() knows and strptime() does not.
_SHORT = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%e": "%d", "%h": "%b"}
# strptime() says this year where the name has none.
_NO_YEAR = 1900
_UNKNOWN = datetime(_NO_YEAR, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Naming:
    """How backups are named: a folder, and a name with strftime's marks or without."""

    folder: Path
    pattern: str

    @classmethod
    def of(cls, path: Path, stem: str) -> Naming:
        """Return the naming that a path means: a folder's own, or that of a name."""
        if path.is_dir():
            return cls(path.resolve(), _IN_FOLDER.format(stem=stem.replace("%", "%%")))
        # A link leads to where the backups are.
        resolved = path.resolve() if path.is_symlink() else path.absolute()
        pattern = re.sub("%.", lambda mark: _SHORT.get(mark[0], mark[0]), resolved.name)
        return cls(resolved.parent, pattern)

    @property
    def has_time(self) -> bool:
        return "%" in self.pattern.replace("%%", "")

    def path(self, taken: datetime) -> Path:
        """Return the file of a backup that is taken now. Raises ConfigurationError."""
        name = taken.strftime(self.pattern)
        if self.has_time and self._time(name) is None:
            raise ConfigurationError(
                f"{self.pattern!r} is no name with a time that can be read again; use for example "
                "clinic-%Y-%m-%d.backup, and %% for a percent sign."
            )
        return self.folder / name

    def backups(self) -> Sequence[Path]:
        """Return the backups of this naming that are there, oldest first.

        By the time in their names; by that of the files where names have no year.
        """
        dated = [
            (taken if taken.year > _NO_YEAR else _UNKNOWN, path.stat().st_mtime_ns, path)
            for path in self.folder.iterdir()
            if (taken := self._time(path.name)) and is_backup(path)
        ]
        return [path for _, _, path in sorted(dated)]

    def _time(self, name: str) -> datetime | None:
        try:
            return datetime.strptime(name, self.pattern).replace(tzinfo=UTC)
        except (ValueError, re.error):
            return None


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
    removed: list[Path] = []
    stuck: list[Path] = []
    for path in others[: max(0, len(others) + 1 - keep)]:
        try:
            path.unlink()
            removed.append(path)
        except OSError:
            stuck.append(path)
    return removed, stuck


def backups_folder(settings: Settings) -> Path:
    """Return the folder of the backups that are taken on a page."""
    return settings.instance / "backups"


def backups(settings: Settings) -> Sequence[Path]:
    """Return the backups in that folder, whatever their names, newest first."""
    folder = backups_folder(settings)
    # One that is being taken has a name with a dot before it until it is whole.
    names = folder.iterdir() if folder.is_dir() else ()
    found = [path for path in names if path.name[0] != "." and is_backup(path)]
    return sorted(found, key=_taken_at, reverse=True)


def _taken_at(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, path.name
    except OSError:
        # An administrator deletes it.
        return 0, path.name
