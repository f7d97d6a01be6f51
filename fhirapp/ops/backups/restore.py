"""Put a backup in the place of the database and its keys. What was there is kept beside.

What was taken away since the backup comes back with it, which is told; what was open then is ended.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from flask import Flask

from fhirapp.config import ConfigurationError, Settings, sqlite_url
from fhirapp.core import current_core
from fhirapp.db import db, writing
from fhirapp.db.generation import Generation
from fhirapp.disk.files import because, owned_as, sync, sync_folder, written_whole
from fhirapp.disk.scratch import scratch
from fhirapp.ops.backups.archive import DATABASE, KEYS, InvalidBackup, Manifest
from fhirapp.ops.backups.backup import local_database, unpacked
from fhirapp.ops.backups.ended import AS_OF_THEN, end_all
from fhirapp.ops.backups.snapshot import faults_of, opened, schema_of
from fhirapp.ops.backups.swap import Move, drop_staged, finish_swap, staged_for, swap
from fhirapp.ops.check import check_database
from fhirapp.ops.lock import alone, unopened
from fhirapp.store.definition import types
from fhirapp.store.migrate import upgrade
from fhirapp.store.state import GENERATION, set_state

# Tables that a start fills of itself.
_OF_A_START = ("alembic_version", "store_state", "auth_setup_code")


@dataclass(frozen=True)
class Restored:
    """What was restored: the backup's manifest, versions of resources, what is kept of before.

    said is what a person must know of it.
    """

    manifest: Manifest
    versions: int
    kept: list[Path]
    said: str = AS_OF_THEN


def restore(
    settings: Settings, path: Path, now: datetime, passphrase: str | None, *, force: bool
) -> Restored:
    """Restore a backup; with force also over a database that holds something.

    Nothing is touched before the whole backup was checked. Raises ConfigurationError.
    """
    database = local_database(settings, "pg_restore --clean --if-exists FILE")
    if path.exists() and database.exists() and path.samefile(database):
        raise ConfigurationError(f"{path} is the database itself, and no backup.")
    settings.instance.mkdir(parents=True, exist_ok=True)
    with scratch(database.parent) as folder, alone_with(database):
        if not force and holds_anything(database):
            raise ConfigurationError(
                f"The database {database} holds records or accounts already; with --force it is "
                "replaced, and kept beside."
            )
        manifest = unpacked(path, passphrase, folder)
        versions = _make_ready(settings, folder, path, now)
        try:
            kept = _put(settings, database, folder, now)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"The backup cannot be put in its place ({because(error)}); what was begun, if "
                "anything, the next start brings to its end."
            ) from None
    Generation(settings.instance).change()
    return Restored(manifest, versions, kept)


@contextmanager
def alone_with(database: Path) -> Iterator[None]:
    """Keep servers from a database, after what was interrupted there has its end."""
    finish_swap(database)
    with alone(database):
        yield


def holds_anything(database: Path) -> bool:
    """Say whether a file is more than the empty database that a start makes."""
    if not database.exists() or database.stat().st_size == 0:
        return False
    try:
        with opened(database) as connection:
            tables = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%\\_words%'"
                " ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            ).fetchall()
            return any(
                name not in _OF_A_START
                and connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()
                for (name,) in tables
            )
    except sqlite3.Error:
        return True


def app_on_copy(settings: Settings, folder: Path) -> AbstractContextManager[Flask]:
    """Return an app, current meanwhile, on the unpacked database and keys in a folder.

    It knows the types and the keys; it has no pages.
    """
    url = sqlite_url(folder / DATABASE)
    settings = replace(settings, database_url=url, instance_path=str(folder), demo=False)
    return current_core(settings)


def _make_ready(settings: Settings, folder: Path, path: Path, now: datetime) -> int:
    """Check an unpacked backup and carry it forward; return its versions of resources.

    What was open when it was taken is ended. Raises InvalidBackup.
    """
    copy = folder / DATABASE
    faults = faults_of(copy)
    if not faults and schema_of(copy) is None:
        faults = ["it is no database of fhirapp's"]
    if faults:
        raise InvalidBackup(f"{path} is damaged, nothing was changed ({faults[0]}).")
    with app_on_copy(settings, folder):
        upgrade(db.engine)
        with writing() as connection:
            # Whoever kept a figure made from the data as it was finds it under no number again.
            set_state(connection, GENERATION, str(secrets.randbits(48)))
            end_all(connection, int(now.timestamp()))
        checked = check_database(db.engine, types(), quick=False)
    if checked.faults:
        raise InvalidBackup(f"{path} is damaged, nothing was changed ({checked.faults[0]}).")
    with unopened(copy):
        # Its log is in the file now.
        pass
    return checked.versions


def _put(settings: Settings, database: Path, folder: Path, now: datetime) -> list[Path]:
    """Swap the unpacked files for those that are there; return what is kept. Raises OSError."""
    with unopened(database):
        try:
            moves = _stage(settings, database, folder, now)
            kept = [move.kept for move in moves if move.place.exists()]
            swap(database, moves)
        except OSError:
            drop_staged(settings.instance, database)
            raise
    return kept


def _stage(settings: Settings, database: Path, folder: Path, now: datetime) -> list[Move]:
    """Put the unpacked files beside their places; return how they get there. Raises OSError."""
    staged = staged_for(database)
    (folder / DATABASE).replace(staged)
    owned_as(staged, database)
    sync(staged)
    moves = [_move(database, now)]
    for name in () if settings.demo else KEYS:
        place, found = settings.instance / name, folder / name
        if not found.exists() or (place.exists() and place.read_bytes() == found.read_bytes()):
            continue
        with written_whole(staged_for(place), like=place) as file:
            file.write(found.read_bytes())
        moves.append(_move(place, now))
    sync_folder(database.parent)
    return moves


def _move(place: Path, now: datetime) -> Move:
    name = f"{place.name}.before-{now:%Y%m%dT%H%M%SZ}"
    kept = place.with_name(name)
    number = 1
    while kept.exists():
        number += 1
        kept = place.with_name(f"{name}-{number}")
    return Move(staged_for(place), place, kept)
