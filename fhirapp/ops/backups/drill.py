"""The restore drill: open a copy of a backup and read every version of every resource.

What is read is held against what the schema makes of the columns, as when it was published.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, select

from fhirapp.auth.keys import opened as unsealed
from fhirapp.auth.models.user import User
from fhirapp.config import Settings
from fhirapp.db import db
from fhirapp.disk.scratch import scratch
from fhirapp.ops.backups.archive import DATABASE, KEYS, InvalidBackup, Manifest
from fhirapp.ops.backups.backup import unpacked
from fhirapp.ops.backups.reading import read_everything
from fhirapp.ops.backups.restore import app_on_copy
from fhirapp.ops.backups.snapshot import faults_of, schema_of
from fhirapp.ops.check import check_database
from fhirapp.ops.faults import Faults
from fhirapp.store.definition import types
from fhirapp.store.migrate import upgrade
from fhirapp.store.render import Rendering


@dataclass(frozen=True)
class Drilled:
    """What a drill read: the backup's manifest, how many versions, a sentence for each fault."""

    manifest: Manifest
    versions: int
    faults: list[str]


def drill(settings: Settings, path: Path, passphrase: str | None) -> Drilled:
    """Open a copy of a backup and read everything in it. Raises InvalidBackup, ConfigurationError.

    The server and its database are not touched.
    """
    with scratch(settings.instance) as folder:
        manifest = unpacked(path, passphrase, folder)
        found = faults_of(folder / DATABASE)
        if not found and schema_of(folder / DATABASE) != manifest.schema:
            found = ["its database is not of the schema that the manifest says"]
        if found:
            raise InvalidBackup(f"{path} is damaged ({found[0]}).")
        has_key = (folder / KEYS[0]).exists()
        with app_on_copy(settings, folder):
            upgrade(db.engine)
            checked = check_database(db.engine, types(), quick=False)
            faults = Faults()
            faults.extend(checked.faults)
            read_everything(faults, db.engine, types(), Rendering.of(settings))
            if has_key:
                _open_sealed(faults, db.engine)
    return Drilled(manifest, checked.versions, faults.lines())


def _open_sealed(faults: Faults, engine: Engine) -> None:
    """Open what the database holds sealed with the key of the backup."""
    with engine.connect() as connection:
        for username, sealed in connection.execute(select(User.username, User.totp_secret)):
            if sealed is None:
                continue
            try:
                unsealed(sealed)
            except ValueError:
                faults.add("has a second factor that the backup's key does not open", username)
