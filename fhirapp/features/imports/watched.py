"""Watched folders: the units that wait in one, and the folders that are ours there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from fhirapp.config import ConfigurationError
from fhirapp.disk import copy_owner, refuse_failures
from fhirapp.features.imports.skipped import system_reason

DONE_FOLDER, FAILED_FOLDER = "done", "failed"
# What lies beside a unit that failed; of tables the kind is in the name too.
_OF_A_REPORT = re.compile(r"\.(report\.(json|html)|rejected(\.\w+)?\.\w+)$")
# A unit that changed more recently may still be growing.
QUIET_SECONDS = 30


def waiting(folder: Path, now: float) -> list[Path]:
    """Return the units of a watched folder that are quiet, by name. Raises ConfigurationError."""
    with refuse_failures(f"The watched folder {folder} cannot be read"):
        units = [path for path in folder.iterdir() if not _is_ignored(path)]
        return sorted(unit for unit in units if _is_quiet(unit, now))


def failed_units(folder: Path) -> list[str]:
    """Return the names of what lies in a watched folder's failed/, without the reports of it."""
    names = {path.name for path in Path(folder, FAILED_FOLDER).iterdir() if path.name[0] != "."}
    return sorted(name for name in names if not _OF_A_REPORT.search(name))


def _is_ignored(path: Path) -> bool:
    """Say whether a path is hidden, ours, or made by a system that shows the folder."""
    is_own = path.name in (DONE_FOLDER, FAILED_FOLDER)
    return is_own or path.name[0] == "." or bool(system_reason(path.name))


def _is_quiet(unit: Path, now: float) -> bool:
    try:
        # Not the time of modification, which a copy keeps; a clock may have been set back.
        newest = max(state.st_ctime for _path, state in _contents(unit))
    except OSError:
        return False
    return abs(now - newest) >= QUIET_SECONDS


def _contents(unit: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield a file, or a folder and all in it, without following links. Raises OSError."""
    yield unit, unit.lstat()
    if unit.is_dir() and not unit.is_symlink():
        for folder, folders, files in os.walk(unit):
            for name in (*folders, *files):
                path = Path(folder, name)
                yield path, path.lstat()


def state_of(unit: Path) -> dict[Path, tuple[int, int]]:
    """Return the size and time of each file of a unit: what changes while it grows."""
    return {path: (state.st_size, state.st_mtime_ns) for path, state in _contents(unit)}


def own_folder(path: Path) -> Path:
    """Make a folder of ours in a watched folder, unless it is there. Raises ConfigurationError."""
    with refuse_failures(f"The folder {path} cannot be made"):
        path.mkdir(mode=0o770, exist_ok=True)
        copy_owner(path, path.parent)
        is_link = path.is_symlink()
    if is_link:
        raise ConfigurationError(f"{path} is a link; there must be a folder in its place.")
    return path
