"""Put several files in the places of others, all of them or none, wherever a process ends.

A journal is written first: until it is there nothing was touched, and once it is there whoever
comes next brings it to its end. What was there is kept beside, and no name is ever without a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fhirapp.config import ConfigurationError
from fhirapp.disk.files import because, beside, copy_into, sync_folder, written_whole
from fhirapp.ops.backups.archive import KEYS
from fhirapp.ops.lock import alone, unopened

# Of a SQLite database that nobody could close in order.
_BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Move:
    """A new file on its way to its place, and where what is there now is kept."""

    staged: Path
    place: Path
    kept: Path


def journal_of(database: Path) -> Path:
    """Return where the journal of a database and its keys lies."""
    return beside(database, ".restore")


def staged_for(place: Path) -> Path:
    """Return where a new file waits for a place: beside it, on the same disk."""
    return beside(place, ".restoring")


def swap(database: Path, moves: Sequence[Move]) -> None:
    """Move files to their places; nobody may have the database open. Raises OSError.

    The staged files must be on the disk.
    """
    # As seen from the database: the folder may be another's name when this is read again.
    stated = [
        [os.path.relpath(path, database.parent) for path in (one.staged, one.place, one.kept)]
        for one in moves
    ]
    with written_whole(journal_of(database), like=database) as file:
        file.write(json.dumps(stated).encode())
    _finish(database)


def finish_swap(database: Path | None) -> bool:
    """Bring to its end what was interrupted; False where there is nothing of that kind.

    Raises ConfigurationError.
    """
    if database is None or not journal_of(database).exists():
        return False
    with alone(database):
        # Another process may have been here first.
        if not journal_of(database).exists():
            return False
        with unopened(database):
            try:
                _finish(database)
            except (OSError, ValueError) as error:
                reason = because(error) if isinstance(error, OSError) else str(error)
                raise ConfigurationError(
                    f"A restore was interrupted and cannot be brought to its end ({reason}): see "
                    f"{journal_of(database)}."
                ) from None
    return True


def drop_staged(instance: Path, database: Path) -> None:
    """Remove new files that no journal is there for: their restore ended before it began to move.

    No restore may go on meanwhile.
    """
    if not journal_of(database).exists():
        for place in (database, *(instance / name for name in KEYS)):
            staged_for(place).unlink(missing_ok=True)


def _finish(database: Path) -> None:
    """Make the moves of the journal that are still to be made, and end it."""
    journal = journal_of(database)
    for names in json.loads(journal.read_bytes()):
        move = Move(*(database.parent / name for name in names))
        if move.staged.exists():
            _move(move)
    journal.unlink()
    sync_folder(journal.parent)


def _move(move: Move) -> None:
    if move.place.exists() and not move.kept.exists():
        try:
            os.link(move.place, move.kept)
        except OSError:
            # A file system without hard links.
            copy_into(move.place, move.kept)
    for suffix in _BESIDE:
        if beside(move.place, suffix).exists():
            beside(move.place, suffix).replace(beside(move.kept, suffix))
    sync_folder(move.place.parent)
    move.staged.replace(move.place)
    sync_folder(move.place.parent)
