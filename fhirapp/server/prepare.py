"""Make the database ready: its schema, the demo's data, bodies that fit the settings.

A database of an older release is copied before it is upgraded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from flask import Flask
from sqlalchemy.exc import DatabaseError

from fhirapp.audit.earlier import import_earlier
from fhirapp.auth.oauth import signing_keys
from fhirapp.auth.users import accounts
from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.db import SCHEMA, db, with_patience, writing
from fhirapp.db.locks import lock
from fhirapp.db.sqlite_file import copy_database, faults_of, schema_of
from fhirapp.definition import types
from fhirapp.disk import database_path, need_writable, reason_of, sync_folder, temporary_folder
from fhirapp.documents.ocr import why_unusable
from fhirapp.feature import features, imported
from fhirapp.files import UnusableFiles, check_before_fork, shared_files
from fhirapp.jobs.process import environment
from fhirapp.rest.recorder import patients_of_earlier
from fhirapp.server import live_settings
from fhirapp.server.integrity import check_before
from fhirapp.server.lock import in_use
from fhirapp.store import migrate
from fhirapp.store.migrate import redact_url, reindex, schema_version, upgrade
from fhirapp.store.own_schema import make_own_schema
from fhirapp.store.write import Rendering, is_outdated, rendering_in_force

# How long a start waits for others on PostgreSQL.
_START_SECONDS = 60


def copy_before_upgrade(database: Path, schema: str, now: datetime) -> Path | None:
    """Copy a database beside itself, named with its schema and the time; return the copy.

    None where another process has upgraded it meanwhile. Raises ConfigurationError: a database that
    cannot be copied is not upgraded.
    """
    name = f"{database.stem}.schema-{schema}.{now:%Y%m%dT%H%M%SZ}{database.suffix}"
    target = database.with_name(name)
    with temporary_folder(database.parent) as folder:
        copy = folder / name
        try:
            copy_database(database, copy)
            faults = faults_of(copy)
            if faults:
                raise ConfigurationError(
                    f"The database {database} is damaged and was not upgraded ({faults[0]}); "
                    "restore a backup."
                )
            if schema_of(copy) != schema:
                return None
            copy.replace(target)
            sync_folder(target.parent)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"The database {database} cannot be copied before the upgrade "
                f"({reason_of(error)}); nothing was changed."
            ) from None
    return target


def prepare(
    app: Flask, say: Callable[[str], None], *, serving: bool = False, is_restart: bool = False
) -> None:
    """Make the app's database ready; say tells what was done. Raises ConfigurationError.

    What an older release indexed is indexed anew. With serving, so are bodies that were made with
    other settings than the app's. A restart puts in its place what a restore has prepared.
    """
    if settings_of(app).demo and not _demo_data():
        raise ConfigurationError("This server has no demo: leave out --demo.")
    database = database_path(settings_of(app))
    for folder in {settings_of(app).instance, *([database.parent] if database else [])}:
        if folder.is_dir():
            need_writable(folder)
    after_ready = [
        imported(feature.recovery)(app, say, serving=serving, is_restart=is_restart)
        for feature in features()
        if feature.recovery
    ]
    if serving and settings_of(app).files:
        _check_files(settings_of(app), say)
    # Servers that start at once on PostgreSQL wait for the one that makes the tables.
    patience = nullcontext() if database else with_patience(_START_SECONDS)
    with in_use(settings_of(app)), app.app_context(), patience:
        if database is not None and serving:
            check_before(database)
        # Of several processes that start at once, one fills an empty database.
        with lock(settings_of(app), "start", lambda: None):
            _make_ready(app, say, serving=serving)
        live_settings.refresh(app)
        for call in after_ready:
            call()
        for sentence in import_earlier(app, patients_of_earlier):
            say(sentence)
        db.engine.dispose()


def _check_files(settings: Settings, say: Callable[[str], None]) -> None:
    """Check where files are shared. Records are served without them too, if that may pass."""
    files = shared_files(settings)
    try:
        if files.is_folder:
            files.check()
        else:
            check_before_fork(environment(settings))
    except UnusableFiles as error:
        if not error.passes:
            raise
        say(f"{error} Until this is fixed, exports, import reports and backups fail.")


def _make_ready(app: Flask, say: Callable[[str], None], *, serving: bool) -> None:
    settings = settings_of(app)
    rendering = Rendering.of(settings)
    _upgrade(settings, say)
    if settings.is_postgresql:
        # Another FHIRAPP_SECRET than the one that sealed them is refused now, not at a sign-in.
        signing_keys.prepare()
    try:
        if settings.demo:
            imported(_demo_data())(app, say)
        languages = settings.ocr_languages
        if languages and (why := why_unusable(languages)):
            say(f"FHIRAPP_OCR_LANGUAGES={languages}: {why}. Until then, scans are not read.")
        with writing() as connection:
            outdated = is_outdated(connection)
            stored = rendering_in_force(connection, rendering)
            if outdated:
                count = reindex(connection, types(), rendering if serving else stored)
                say(f"The search index was rebuilt by this release's rules: {count} versions.")
            elif serving and stored != rendering:
                count = reindex(connection, types(), rendering)
                say(f"The settings changed how resources look: {count} versions rebuilt.")
    except DatabaseError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise ConfigurationError(
            f"The database {redact_url(db.engine)} cannot be written ({reason}); "
            "give this user the right to write it and its folder."
        ) from None


def _upgrade(settings: Settings, say: Callable[[str], None]) -> None:
    """Bring the schema to this release's; an older database is copied first."""
    if settings.is_postgresql and (former := _make_own_schema()):
        say(f"The database's tables were moved from the schema {former} to {SCHEMA}.")
    schema = schema_version(db.engine)
    database = database_path(settings)
    kept = None
    if schema is not None and migrate.is_upgradable(schema):
        now = datetime.now(UTC)
        if database is not None:
            kept = copy_before_upgrade(database, schema, now)
        else:
            dump = next((feature.dump for feature in features() if feature.dump), "")
            if dump:
                kept = imported(dump)(settings, schema, now, say)
            else:
                say("The database is upgraded without a copy.")
    before = upgrade(db.engine)
    if schema is None and not settings.demo:
        say(f"A new, empty database was created: {redact_url(db.engine)}.")
    if before is not None and migrate.is_upgradable(before):
        copied = f"; the old one is kept in {kept}" if kept else ""
        say(f"The database was upgraded from schema {before} to {migrate.HEAD}{copied}.")


def _make_own_schema() -> str | None:
    try:
        return make_own_schema(db.engine)
    except DatabaseError as error:
        raise migrate.unusable(db.engine, error) from None


def _demo_data() -> str:
    """Return the reference of what fills the demo's database; empty without such a feature."""
    return next((feature.demo_data for feature in features() if feature.demo_data), "")


def first_setup_code(app: Flask) -> str | None:
    """Return the setup code of the first administrator, None once there is one.

    The starts of a day find the same.
    """
    with app.app_context():
        with writing() as connection:
            is_needed = not accounts.has_administrator(connection)
            code = accounts.first_setup_code(connection) if is_needed else None
        db.engine.dispose()
    return code
