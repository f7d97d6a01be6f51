"""Restore a backup: check and upgrade a copy, then swap it with the database, which is kept.

All files, or all tables, are replaced or none, even if the process is killed. The command does both
steps at once; the page (prepared.py) waits for a confirmation between them. Access that was revoked
after the backup comes back, with a warning; sessions, tokens and running jobs end.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import URL, Connection, delete, func, inspect, select, update

from fhirapp.audit.store import TABLES
from fhirapp.auth import models
from fhirapp.auth.models import ADMINISTRATOR, Grant, User
from fhirapp.auth.tokens import revoke_grants
from fhirapp.config import ConfigurationError, Settings, sqlite_url
from fhirapp.core import current_core
from fhirapp.db import checked_url, db, quoted, writing
from fhirapp.db.generation import Generation
from fhirapp.db.sqlite_file import faults_of, opened, schema_of
from fhirapp.definition import types
from fhirapp.disk import database_path, temporary_folder
from fhirapp.feature import requeued_kinds
from fhirapp.features.backups.archive import DATABASE, DUMP, BackupManifest, InvalidBackup
from fhirapp.features.backups.backup import unpacked
from fhirapp.features.backups.file_swap import finish_swap, swap_database
from fhirapp.features.backups.schemas import drop_loaded, load_dump, swap_schemas
from fhirapp.jobs.queue import DONE, INTERRUPTED, RUNNING, JobRow
from fhirapp.server.check import Depth, check_database
from fhirapp.server.lock import closed_file, exclusive_use, server_engine
from fhirapp.store.migrate import redact_url, schema_version, upgrade
from fhirapp.store.version import GENERATION, set_state

# What an administrator must know after a restore.
NOTICE = (
    "Accounts, passwords, links to records, and clients with their secrets and keys are as they "
    "were then: what you have disabled, unlinked or changed since, do again. Everybody must sign "
    "in again, and apps must ask for consent and tokens again."
)
# Types of which a restore counts the records.
COUNTED = ("Patient", "AllergyIntolerance", "DocumentReference")
# Tables that a start fills by itself.
_FILLED_BY_START = (
    *("alembic_version", "store_state", "auth_setup_code", "server_secret"),
    *TABLES.tables,
)


@dataclass(frozen=True)
class PreparedCopy:
    """The content of a copy that is ready: its versions of resources, records, administrators.

    contents counts the records of COUNTED, "accounts" and "consents".
    """

    versions: int
    contents: Mapping[str, int]
    administrators: Sequence[str]


@dataclass(frozen=True)
class RestoreResult:
    """What was restored: the backup's manifest, and how many versions of resources.

    kept and trail are files, or schemas of PostgreSQL: with what was replaced, and with the
    backup's audit trail if another one is in use.
    """

    manifest: BackupManifest
    versions: int
    kept: Sequence[Path | str]
    trail: Path | str | None


def restore(
    settings: Settings, path: Path, now: datetime, passphrase: str | None, *, force: bool
) -> RestoreResult:
    """Restore a backup; with force also over a database that holds records or accounts.

    Nothing is changed before the whole backup was checked. Raises ConfigurationError.
    """
    database = database_path(settings)
    if database and path.exists() and database.exists() and path.samefile(database):
        raise ConfigurationError(f"{path} is the database itself, and no backup.")
    settings.instance.mkdir(parents=True, exist_ok=True)
    finish_swap(settings)
    with (
        temporary_folder(database.parent if database else settings.instance) as folder,
        exclusive_use(settings),
        ExitStack() as stack,
    ):
        if database is None:
            # Refuses tables of another program, and those that were not moved yet.
            schema_version(server_engine(checked_url(settings)))
            # Drops the loaded schema if the restore fails.
            stack.callback(drop_loaded, server_engine(checked_url(settings)))
        if not force and _holds_anything(settings):
            shown = database or redact_url(server_engine(checked_url(settings)))
            raise ConfigurationError(
                f"The database {shown} already holds records or accounts; --force replaces it, and "
                "keeps the old one beside it."
            )
        manifest = unpacked(settings, path, passphrase, folder)
        prepared = prepare(settings, path, folder, manifest, now)
        kept, trail = swap(settings, folder, now)
    return RestoreResult(manifest, prepared.versions, kept, trail)


def _holds_anything(settings: Settings) -> bool:
    """Return whether a database is more than the empty one that a start makes."""
    database = database_path(settings)
    if database is None:
        with server_engine(checked_url(settings)).connect() as session:
            return _has_rows(session.exec_driver_sql, inspect(session).get_table_names())
    if not database.exists() or database.stat().st_size == 0:
        return False
    try:
        with opened(database) as connection:
            tables = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%\\_words%'"
                " ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            ).fetchall()
            return _has_rows(connection.execute, (name for (name,) in tables))
    except sqlite3.Error:
        return True


def _has_rows(run: Callable[[str], Any], tables: Iterable[str]) -> bool:
    return any(
        name not in _FILLED_BY_START and run(f"SELECT 1 FROM {quoted(name)} LIMIT 1").fetchone()
        for name in tables
    )


def prepare(
    settings: Settings, path: Path, folder: Path, manifest: BackupManifest, now: datetime
) -> PreparedCopy:
    """Make an unpacked backup ready for the swap: check it, upgrade it, end what was open in it.

    The copy is a file in the folder; on PostgreSQL a schema beside the present one. path is the
    backup's, for error messages. Raises InvalidBackup, ConfigurationError.
    """
    url, copy = None, folder / DATABASE
    if manifest.is_dump:
        url = load_dump(checked_url(settings), folder / DUMP, manifest.namespace)
    else:
        _check_copy(path, faults_of(copy))
        _check_copy(path, [] if schema_of(copy) else ["it is not a fhirapp database"])
    with app_on_copy(settings, folder, url):
        if schema_version(db.engine) is None:
            _check_copy(path, ["it has no tables"])
        upgrade(db.engine)
        with db.engine.connect() as connection:
            # Before consents are revoked.
            counts, administrators = contents(connection), _administrators(connection)
        with writing() as connection:
            # Figures that were cached for the copy's generation do not match the new number.
            set_state(connection, GENERATION, str(secrets.randbits(48)))
            _end_access(connection, int(now.timestamp()))
            _end_jobs(connection, manifest)
            if manifest.is_dump:
                # A dump has no statistics for the planner.
                connection.exec_driver_sql("ANALYZE")
        checked = check_database(db.engine, types(), Depth.STRUCTURE)
    _check_copy(path, checked.faults)
    if not manifest.is_dump:
        with closed_file(copy):
            # Its log is in the file now.
            pass
    return PreparedCopy(checked.versions, counts, administrators)


def _check_copy(path: Path, faults: Sequence[str]) -> None:
    if faults:
        raise InvalidBackup(f"{path} is damaged, nothing was changed ({faults[0]}).")


def app_on_copy(
    settings: Settings, folder: Path, url: URL | None = None
) -> AbstractContextManager[Flask]:
    """Return an app, current meanwhile, on the unpacked database and keys in a folder.

    Or on the database of PostgreSQL at an address. It knows the types and the keys; it has no
    pages.
    """
    address = url.render_as_string(hide_password=False) if url else sqlite_url(folder / DATABASE)
    settings = replace(settings, database_url=address, instance_path=str(folder), demo=False)
    return current_core(settings)


def contents(connection: Connection) -> dict[str, int]:
    """Return how many records of the types COUNTED, accounts and consents there are."""
    tables = [(name, types()[name].table) for name in COUNTED]
    queries = {name: select(func.count()).where(table.c.is_current) for name, table in tables}
    queries["accounts"] = select(func.count(User.id))
    queries["consents"] = select(func.count(Grant.id)).where(Grant.revoked_at.is_(None))
    return {name: connection.execute(query).scalar() or 0 for name, query in queries.items()}


def _administrators(connection: Connection) -> list[str]:
    query = select(User.username).where(User.role == ADMINISTRATOR, User.disabled.is_(False))
    return [*connection.execute(query.order_by(User.username)).scalars()]


def _end_access(connection: Connection, now: int) -> None:
    """End all sessions, consents, tokens, codes, launches and setup codes; now is in seconds.

    Codes and refresh tokens end with their consent.
    """
    connection.execute(
        update(models.Session).where(models.Session.ended_at.is_(None)).values(ended_at=now)
    )
    revoke_grants(connection)
    connection.execute(update(models.AccessToken).values(revoked=True))
    for table in (models.Launch, models.ParkedRequest):
        connection.execute(update(table).where(table.used_at.is_(None)).values(used_at=now))
    connection.execute(delete(models.SetupCode))


def _end_jobs(connection: Connection, manifest: BackupManifest) -> None:
    """End the jobs that ran when the backup was taken: its own is done, others are interrupted.

    Jobs of kinds that are requeued run again.
    """
    running = update(JobRow).where(JobRow.state == RUNNING).values(lease_until=None)
    taken = int(datetime.fromisoformat(manifest.taken).timestamp())
    connection.execute(running.where(JobRow.id == manifest.job).values(state=DONE, ended_at=taken))
    connection.execute(
        running.where(JobRow.kind.not_in(requeued_kinds())).values(state=INTERRUPTED)
    )


def swap(
    settings: Settings, folder: Path, now: datetime
) -> tuple[Sequence[Path | str], Path | str | None]:
    """Put the prepared copy in the place of the database; return what is kept, as RestoreResult.

    The caller holds the exclusive lock of the database. Raises ConfigurationError.
    """
    swapped = (
        swap_schemas(checked_url(settings), now)
        if database_path(settings) is None
        else swap_database(settings, folder, now)
    )
    Generation(settings.instance).change()
    return swapped
