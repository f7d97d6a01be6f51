"""Put a backup in the place of the database and its keys, and keep the old ones.

All files, or tables, are replaced or none, even if the process is killed. Access that was revoked
after the backup comes back, with a warning; sessions, tokens and running jobs end.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from flask import Flask
from sqlalchemy import URL, Connection, delete, update

from fhirapp import disk
from fhirapp.audit.store import NAME as TRAIL_FILE
from fhirapp.audit.store import TABLES
from fhirapp.auth.models import AccessToken, Launch, ParkedRequest, Session, SetupCode
from fhirapp.auth.tokens import revoke_grants
from fhirapp.config import ConfigurationError, Settings, sqlite_url
from fhirapp.core import current_core
from fhirapp.db import checked_url, db, writing
from fhirapp.db.generation import Generation
from fhirapp.db.sqlite_file import faults_of, opened, schema_of
from fhirapp.definition import types
from fhirapp.features.backups.archive import (
    DATABASE,
    DUMP,
    KEYS,
    TRAIL,
    BackupManifest,
    InvalidBackup,
)
from fhirapp.features.backups.backup import unpacked
from fhirapp.features.backups.schemas import drop_loaded, holds_rows, load_beside, swap_in
from fhirapp.server.check import Depth, check_database
from fhirapp.server.lock import alone, alone_on_server, server_engine, unopened
from fhirapp.store.migrate import redact_url, schema_version, upgrade
from fhirapp.store.version import GENERATION, set_state

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


def swap(database: Path, moves: Sequence[Move]) -> None:
    """Move files to their places; no program may have the database open. Raises OSError.

    The staged files must be on the disk.
    """
    # As seen from the database: the folder may be another's name when this is read again.
    stated = [
        [os.path.relpath(path, database.parent) for path in (one.staged, one.place, one.kept)]
        for one in moves
    ]
    with disk.write_atomically(journal_of(database), like=database) as file:
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
                reason = disk.reason_of(error) if isinstance(error, OSError) else str(error)
                raise ConfigurationError(
                    f"A restore was interrupted and cannot be completed ({reason}): see "
                    f"{journal_of(database)}."
                ) from None
    return True


def drop_staged(instance: Path, database: Path) -> None:
    """Remove new files that no journal is there for: their restore ended before it began to move.

    No restore may go on meanwhile.
    """
    if not journal_of(database).exists():
        for place in (database, *(instance / name for name in (TRAIL_FILE, *KEYS))):
            staged_for(place).unlink(missing_ok=True)


def _finish(database: Path) -> None:
    """Make the moves of the journal that are still to be made, and end it."""
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


# What an administrator must know after a restore.
NOTICE = (
    "Accounts, passwords, links to records, and clients with their secrets and keys are as they "
    "were then: what you have disabled, unlinked or changed since, do again. Everybody must sign "
    "in again, and apps must ask for consent and tokens again."
)


def end_all(connection: Connection, now: int) -> None:
    """End all sessions, consents, tokens, codes, launches and setup codes; now is in seconds.

    Codes and refresh tokens end with their consent.
    """
    connection.execute(update(Session).where(Session.ended_at.is_(None)).values(ended_at=now))
    revoke_grants(connection)
    connection.execute(update(AccessToken).values(revoked=True))
    for begun in (Launch, ParkedRequest):
        connection.execute(update(begun).where(begun.used_at.is_(None)).values(used_at=now))
    connection.execute(delete(SetupCode))


# Tables that a start fills of itself.
_OF_A_START = (
    *("alembic_version", "store_state", "auth_setup_code", "server_secret"),
    *TABLES.tables,
)
_HOLDS = (
    "The database {} already holds records or accounts; --force replaces it, and keeps the old one "
    "beside it."
)


@dataclass(frozen=True)
class RestoreResult:
    """What was restored: the backup's manifest, versions of resources, and where the old is kept.

    That is files, or a schema of PostgreSQL's, in words.
    """

    manifest: BackupManifest
    versions: int
    kept: Sequence[Path | str]


def restore(
    settings: Settings, path: Path, now: datetime, passphrase: str | None, *, force: bool
) -> RestoreResult:
    """Restore a backup; with force also over a database that holds something.

    Nothing is touched before the whole backup was checked. Raises ConfigurationError.
    """
    database = disk.database_path(settings)
    if database is None:
        return _restore_dump(settings, path, now, passphrase, force=force)
    if path.exists() and database.exists() and path.samefile(database):
        raise ConfigurationError(f"{path} is the database itself, and no backup.")
    settings.instance.mkdir(parents=True, exist_ok=True)
    with disk.temporary_folder(database.parent) as folder, alone_with(database):
        if not force and holds_anything(database):
            raise ConfigurationError(_HOLDS.format(database))
        manifest = unpacked(settings, path, passphrase, folder)
        versions = make_ready(settings, folder, path, now)
        kept = put_in_place(settings, database, folder, now)
    return RestoreResult(manifest, versions, kept)


def _restore_dump(
    settings: Settings, path: Path, now: datetime, passphrase: str | None, *, force: bool
) -> RestoreResult:
    """Restore a backup of PostgreSQL: into tables beside those there, which it then replaces."""
    url = checked_url(settings)
    with disk.temporary_folder(settings.instance) as folder, alone_on_server(settings):
        engine = server_engine(url)
        if holds_rows(engine, _OF_A_START) and not force:
            raise ConfigurationError(_HOLDS.format(redact_url(engine)))
        manifest = unpacked(settings, path, passphrase, folder)
        loaded = load_beside(url, folder / DUMP, manifest.namespace)
        try:
            versions = _end_and_check(settings, folder, path, now, loaded)
            schema = swap_in(url, now)
        finally:
            # Nothing is left of it but where something failed.
            drop_loaded(engine)
    Generation(settings.instance).change()
    kept = f"the schema {schema}, until DROP SCHEMA {schema} CASCADE removes it"
    return RestoreResult(manifest, versions, [kept] if schema else [])


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


def app_on_copy(
    settings: Settings, folder: Path, url: URL | None = None
) -> AbstractContextManager[Flask]:
    """Return an app, current meanwhile, on the unpacked database and keys in a folder.

    Or on the database that an address of PostgreSQL's leads to. It knows the types and the keys; it
    has no pages.
    """
    where = url.render_as_string(hide_password=False) if url else sqlite_url(folder / DATABASE)
    settings = replace(settings, database_url=where, instance_path=str(folder), demo=False)
    return current_core(settings)


def make_ready(settings: Settings, folder: Path, path: Path, now: datetime) -> int:
    """Check an unpacked backup and carry it forward; return its versions of resources.

    What was open when it was taken is ended. Raises InvalidBackup.
    """
    copy = folder / DATABASE
    faults = faults_of(copy)
    if not faults and schema_of(copy) is None:
        faults = ["it is not a fhirapp database"]
    if faults:
        raise InvalidBackup(f"{path} is damaged, nothing was changed ({faults[0]}).")
    versions = _end_and_check(settings, folder, path, now)
    with unopened(copy):
        # Its log is in the file now.
        pass
    return versions


def _end_and_check(
    settings: Settings, folder: Path, path: Path, now: datetime, url: URL | None = None
) -> int:
    """Carry a copy forward, end what was open in it, and check it; return its versions."""
    with app_on_copy(settings, folder, url):
        if url and schema_version(db.engine) is None:
            raise InvalidBackup(f"{path} holds no tables of fhirapp's; nothing was changed.")
        upgrade(db.engine)
        with writing() as connection:
            # Whoever kept a figure made from the data as it was finds it under no number again.
            set_state(connection, GENERATION, str(secrets.randbits(48)))
            end_all(connection, int(now.timestamp()))
            if url:
                # A dump has none of what the planner knows.
                connection.exec_driver_sql("ANALYZE")
        checked = check_database(db.engine, types(), Depth.STRUCTURE)
    if checked.faults:
        raise InvalidBackup(f"{path} is damaged, nothing was changed ({checked.faults[0]}).")
    return checked.versions


def put_in_place(settings: Settings, database: Path, folder: Path, now: datetime) -> list[Path]:
    """Swap files that are ready, in a folder beside the database, for those there; return the old.

    The database's lock is held alone meanwhile. Raises ConfigurationError.
    """
    try:
        with unopened(database):
            try:
                moves = _stage(settings, database, folder, now)
                kept = [move.kept for move in moves if move.place.exists()]
                swap(database, moves)
            except OSError:
                drop_staged(settings.instance, database)
                raise
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(
            f"The backup cannot be put in its place ({disk.reason_of(error)}); the next start "
            "completes what was begun, if anything."
        ) from None
    Generation(settings.instance).change()
    return kept


def _stage(settings: Settings, database: Path, folder: Path, now: datetime) -> list[Move]:
    """Put the unpacked files beside their places; return how they get there. Raises OSError."""
    staged = staged_for(database)
    (folder / DATABASE).replace(staged)
    disk.copy_owner(staged, database)
    disk.sync(staged)
    moves = [_move(database, now)]
    moves += _stage_trail(settings.instance / TRAIL_FILE, folder / TRAIL, now)
    for name in () if settings.demo else KEYS:
        place, new = settings.instance / name, folder / name
        if not new.exists() or (place.exists() and place.read_bytes() == new.read_bytes()):
            continue
        with disk.write_atomically(staged_for(place), like=place) as file:
            file.write(new.read_bytes())
        moves.append(_move(place, now))
    disk.sync_folder(database.parent)
    return moves


def _stage_trail(trail: Path, copy: Path, now: datetime) -> list[Move]:
    """Stage the backup's audit trail if none is here: the one that is here always stays.

    If that does not go on from the backup's, which is then of another server, the backup's is put
    beside it. Raises OSError.
    """
    if not copy.exists():
        return []
    if not trail.exists():
        disk.copy_into(copy, staged_for(trail))
        return [_move(trail, now)]
    if not _goes_on(trail, copy):
        disk.copy_into(copy, trail.with_name(f"audit.from-backup-{now:%Y%m%dT%H%M%SZ}.db"))
    return []


def _goes_on(trail: Path, copy: Path) -> bool:
    """Say whether a trail has the newest entry of a copy."""
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
