"""Verification of a backup: open a copy and compare every version with what it should be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Engine, select

from fhirapp.auth.models import User
from fhirapp.config import Settings
from fhirapp.db import checked_url, db
from fhirapp.db.sqlite_file import faults_of, schema_of
from fhirapp.definition import types
from fhirapp.disk import temporary_folder
from fhirapp.features.backups.archive import DATABASE, DUMP, KEYS, BackupManifest, InvalidBackup
from fhirapp.features.backups.backup import unpacked
from fhirapp.features.backups.restore import app_on_copy
from fhirapp.features.backups.schemas import read_dump, scratch_database
from fhirapp.keys import opened as unsealed
from fhirapp.server.check import Depth, Faults, check_database
from fhirapp.store.migrate import schema_version, upgrade

_OTHER_SCHEMA = "its database is not of the schema that the manifest says"


@dataclass(frozen=True)
class Verification:
    """Result of a verification: the manifest, how many versions, a sentence for each fault.

    versions is None where a dump of PostgreSQL's could only be read, and not be loaded.
    """

    manifest: BackupManifest
    versions: int | None
    faults: list[str]

    @property
    def done(self) -> str:
        """What was done with a backup without faults, to follow "verified: "."""
        if self.versions is not None:
            return f"all of its {self.versions} versions were read"
        return (
            "its checksums are right and its dump was read to the end. It was not loaded, since "
            "the database's user may make no other database (CREATEDB)"
        )


def verify_backup(settings: Settings, path: Path, passphrase: str | None) -> Verification:
    """Open a copy of a backup and read everything in it. Raises InvalidBackup, ConfigurationError.

    The server and its database are not touched; on PostgreSQL the copy is another database.
    """
    with temporary_folder(settings.instance) as folder:
        manifest = unpacked(settings, path, passphrase, folder)
        if not manifest.is_dump:
            return verify_database_file(settings, path, folder, manifest)
        url, dump = checked_url(settings), folder / DUMP
        with scratch_database(url, dump, manifest.namespace) as loaded:
            if loaded is None:
                read_dump(url, dump)
                return Verification(manifest, None, [])
            return _read_copy(settings, path, folder, manifest, loaded)


def verify_database_file(
    settings: Settings, path: Path, folder: Path, manifest: BackupManifest
) -> Verification:
    """Read everything in a backup of SQLite that is unpacked. Raises InvalidBackup."""
    broken = faults_of(folder / DATABASE)
    if not broken and schema_of(folder / DATABASE) != manifest.schema:
        broken = [_OTHER_SCHEMA]
    if broken:
        raise InvalidBackup(f"{path} is damaged ({broken[0]}).")
    return _read_copy(settings, path, folder, manifest)


def _read_copy(
    settings: Settings, path: Path, folder: Path, manifest: BackupManifest, url: URL | None = None
) -> Verification:
    """Carry a copy forward, and read it."""
    has_key = manifest.is_dump or (folder / KEYS[0]).exists()
    with app_on_copy(settings, folder, url):
        if url and schema_version(db.engine) != manifest.schema:
            raise InvalidBackup(f"{path} is damaged ({_OTHER_SCHEMA}).")
        upgrade(db.engine)
        checked = check_database(db.engine, types(), Depth.CONTENT, is_copy=True)
        sealed = _unopened_secrets(db.engine) if has_key else []
    return Verification(manifest, checked.versions, [*checked.faults, *sealed])


def _unopened_secrets(engine: Engine) -> list[str]:
    """Return a fault for each sealed secret that the backup's key does not open."""
    faults = Faults()
    with engine.connect() as connection:
        for username, sealed in connection.execute(select(User.username, User.totp_secret)):
            try:
                if sealed is not None:
                    unsealed(sealed)
            except ValueError:
                faults.add("has a second factor that the backup's key does not open", username)
    return faults.lines()
