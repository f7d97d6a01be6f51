"""Instance folders to back up, backups of them, and their contents."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import create_engine, inspect, make_url

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.auth.oauth import signing_keys
from fhirapp.auth.users import second_factor
from fhirapp.config import Settings
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.environment import load_settings
from fhirapp.features.backups.archive import BackupManifest
from fhirapp.features.backups.backup import back_up, unpacked
from fhirapp.features.demo.seed import load_seed, seed_path
from fhirapp.server.prepare import prepare as make_ready
from fhirapp.store.write import Rendering
from tests.support.authorizing import add_person
from tests.support.helpers import damage_database

NOW = datetime(2026, 1, 5, 10, 15, tzinfo=UTC)


SECRET = "JBSWY3DPEHPK3PXP"


def settings_in(folder: Path, **overrides: Any) -> Settings:
    """Return the settings of an instance in a folder."""
    return load_settings({}, instance_path=str(folder), **overrides)


@contextmanager
def app_in(folder: Path, **overrides: Any) -> Iterator[Flask]:
    """Return an app on an instance, its database made ready; nothing stays open."""
    app = create_app(settings_in(folder, **overrides))
    make_ready(app, lambda _message: None)
    try:
        yield app
    finally:
        with app.app_context():
            db.engine.dispose()


def make_clinic(folder: Path) -> Path:
    """Make an instance with the seed's records, both keys, and what the server's key sealed."""
    with app_in(folder) as app:
        person = add_person(app, ADMINISTRATOR)
        with app.app_context():
            now = "2026-01-01T00:00:00.000+00:00"
            load_seed(seed_path(), types(), Rendering.of(settings_in(folder)), now)
            signing_keys.public_keys()
            with writing() as connection:
                second_factor.enable(connection, person, SECRET, 1)
    return folder


def copy_of(clinic: Path, target: Path) -> Path:
    """Return a copy of an instance that nobody has open."""
    shutil.copytree(clinic, target)
    return target


def contents(database: Path) -> dict[str, list[Any]]:
    """Return every row of every table of a SQLite file that nobody else has open."""
    with closing(sqlite3.connect(database)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"')))
            for name in names
            # What the index of words holds is compared by its shadow tables.
            if not name.endswith("_words")
        }


def rows_of(url: str) -> dict[str, list[str]]:
    """Return every row of every table of a database at an address."""
    address, arguments = make_url(url), {}
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
        # Tables of an earlier release are in public.
        arguments = {"options": "-c search_path=fhirapp,public"}
    engine = create_engine(address, connect_args=arguments)
    with engine.connect() as connection:
        found = {
            name: sorted(
                repr(dict(row))
                for row in connection.exec_driver_sql(f'SELECT * FROM "{name}"').mappings()
            )
            for name in inspect(connection).get_table_names()
        }
    engine.dispose()
    return found


def run_sql(clinic: Path, *statements: str) -> None:
    """Run statements in the database of an instance, which nobody has open."""
    with closing(sqlite3.connect(clinic / "fhirapp.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def taken(clinic: Path, target: Path, passphrase: str | None = None) -> Path:
    """Take a backup into a file."""
    return back_up(settings_in(clinic), target, NOW, passphrase).path


def inside(backup: Path, folder: Path, passphrase: str | None = None) -> BackupManifest:
    """Unpack a backup into a new folder."""
    folder.mkdir()
    return unpacked(settings_in(folder), backup, passphrase, folder)


def damage(clinic: Path) -> None:
    damage_database(clinic / "fhirapp.db")


def fake_client(folder: Path, version: str) -> Path:
    """Create PostgreSQL's programs, which only print their version; return the folder."""
    folder.mkdir()
    for name in ("pg_dump", "pg_restore", "psql"):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} (PostgreSQL) {version}"\n')
        (folder / name).chmod(0o755)
    return folder
