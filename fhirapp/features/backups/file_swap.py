"""The swap of a SQLite database and its keys for restored files: all of them or none.

The new files are staged beside their places, and a journal names the moves. If the process is
killed, the next start completes them. The replaced files are kept.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fhirapp import disk
from fhirapp.audit.store import NAME as TRAIL_FILE
from fhirapp.config import ConfigurationError, Settings
from fhirapp.db.sqlite_file import opened
from fhirapp.features.backups.archive import DATABASE, KEYS, TRAIL
from fhirapp.server.lock import closed_file, exclusive_use

# Files that a SQLite database leaves behind where its process was killed.
_BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Move:
    """A new file on its way to its place, and where what is there now is kept."""

    staged: Path
    place: Path
    kept: Path


def journal_of(database: Path) -> Path:
    """Return where the journal of a database and its keys lies."""
    return disk.sibling(database, ".restore")


def staged_for(place: Path) -> Path:
    """Return where a new file waits for a place: beside it, on the same disk."""
    return disk.sibling(place, ".restoring")


def swap_files(database: Path, moves: Sequence[Move]) -> None:
    """Move files to their places; no program may have the database open. Raises OSError.

    The staged files must be on the disk.
    """
    # As seen from the database: the folder may be another's name when this is read again.
    stated = [
        [os.path.relpath(path, database.parent) for path in (move.staged, move.place, move.kept)]
        for move in moves
    ]
    with disk.write_atomically(journal_of(database), like=database) as file:
        file.write(json.dumps(stated).encode())
    _finish(database)


def finish_swap(settings: Settings) -> bool:
    """Complete an interrupted swap; return whether there was one. Raises ConfigurationError."""
    database = disk.database_path(settings)
    if database is None or not journal_of(database).exists():
        return False
    with exclusive_use(settings):
        # Another process may have been here first.
        if not journal_of(database).exists():
            return False
        with closed_file(database):
            try:
                _finish(database)
            except (OSError, ValueError) as error:
                reason = disk.reason_of(error) if isinstance(error, OSError) else str(error)
                raise ConfigurationError(
                    f"A restore was interrupted and cannot be completed ({reason}): see "
                    f"{journal_of(database)}."
                ) from None
    return True


def drop_staged(instance: Path, database: Path) -> None:
    """Remove new files without a journal: their restore ended before it began to move files.

    No restore may run meanwhile.
    """
    if not journal_of(database).exists():
        for place in (database, *(instance / name for name in (TRAIL_FILE, *KEYS))):
            staged_for(place).unlink(missing_ok=True)


def _finish(database: Path) -> None:
    """Make the moves of the journal that were not made yet, and remove it."""
    journal = journal_of(database)
    for names in json.loads(journal.read_bytes()):
        move = Move(*(database.parent / name for name in names))
        if move.staged.exists():
            _move_into_place(move)
    journal.unlink()
    disk.sync_folder(journal.parent)


def _move_into_place(move: Move) -> None:
    if move.place.exists() and not move.kept.exists():
        try:
            os.link(move.place, move.kept)
        except OSError:
            # A file system without hard links.
            disk.copy_into(move.place, move.kept)
    for suffix in _BESIDE:
        if disk.sibling(move.place, suffix).exists():
            disk.sibling(move.place, suffix).replace(disk.sibling(move.kept, suffix))
    disk.sync_folder(move.place.parent)
    move.staged.replace(move.place)
    disk.sync_folder(move.place.parent)


def swap_database(
    settings: Settings, folder: Path, now: datetime
) -> tuple[list[Path], Path | None]:
    """Put the files of a folder beside the database in the place of the present ones.

    Returns the files that keep the present ones, and the backup's audit trail if another one is in
    use: the present trail stays. The caller holds the exclusive lock of the database. Raises
    ConfigurationError.
    """
    database = disk.database_path(settings)
    assert database is not None
    try:
        with closed_file(database):
            try:
                moves = _stage(settings, database, folder, now)
                trail = _keep_trail(settings.instance / TRAIL_FILE, folder / TRAIL, now)
                kept = [move.kept for move in moves if move.place.exists()]
                swap_files(database, moves)
            except OSError:
                drop_staged(settings.instance, database)
                raise
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(
            f"The backup cannot be put in its place ({disk.reason_of(error)}); the next start "
            "completes what was begun, if anything."
        ) from None
    return kept, trail


def _stage(settings: Settings, database: Path, folder: Path, now: datetime) -> list[Move]:
    """Put the unpacked files beside their places; return the moves to make. Raises OSError."""
    staged = staged_for(database)
    (folder / DATABASE).replace(staged)
    disk.copy_owner(staged, database)
    disk.sync(staged)
    moves = [_move(database, now)]
    trail = settings.instance / TRAIL_FILE
    if (folder / TRAIL).exists() and not trail.exists():
        disk.copy_into(folder / TRAIL, staged_for(trail))
        moves.append(_move(trail, now))
    for name in () if settings.demo else KEYS:
        place, new = settings.instance / name, folder / name
        if not new.exists() or (place.exists() and place.read_bytes() == new.read_bytes()):
            continue
        with disk.write_atomically(staged_for(place), like=place) as file:
            file.write(new.read_bytes())
        moves.append(_move(place, now))
    disk.sync_folder(database.parent)
    return moves


def _keep_trail(trail: Path, copy: Path, now: datetime) -> Path | None:
    """Copy the backup's audit trail beside the present one; None if that continues it.

    The present trail always stays. Raises OSError.
    """
    if not copy.exists() or not trail.exists() or _continues(trail, copy):
        return None
    target = trail.with_name(f"audit.from-backup-{now:%Y%m%dT%H%M%SZ}.db")
    disk.copy_into(copy, target)
    return target


def _continues(trail: Path, copy: Path) -> bool:
    """Return whether a trail has the newest entry of a copy."""
    newest = "SELECT n, line FROM audit_entry WHERE n = ? AND line = ?"
    try:
        with opened(copy) as of_copy, opened(trail) as of_trail:
            last = of_copy.execute("SELECT n, line FROM audit_entry ORDER BY n DESC").fetchone()
            return last is None or of_trail.execute(newest, last).fetchone() is not None
    except sqlite3.Error:
        return False


def _move(place: Path, now: datetime) -> Move:
    name = f"{place.name}.before-{now:%Y%m%dT%H%M%SZ}"
    kept = place.with_name(name)
    number = 1
    while kept.exists():
        number += 1
        kept = place.with_name(f"{name}-{number}")
    return Move(staged_for(place), place, kept)
