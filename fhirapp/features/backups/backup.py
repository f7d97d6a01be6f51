"""Take a backup while the server runs: a snapshot of the database, read back before it is kept."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fhirapp import disk
from fhirapp.audit.store import NAME as TRAIL_FILE
from fhirapp.config import ConfigurationError, Settings
from fhirapp.db.sqlite_file import copy_database, faults_of, schema_of
from fhirapp.features.backups import archive
from fhirapp.features.backups.rotation import is_backup
from fhirapp.features.backups.schemas import dump_tables, why_no_dump
from fhirapp.fhir.temporal import instant
from fhirapp.keys import derived_key
from fhirapp.store.migrate import check_schema


@dataclass(frozen=True)
class Taken:
    """A backup that was taken: its file, its manifest, its size in bytes."""

    path: Path
    manifest: archive.BackupManifest
    size: int


class MissingPassphrase(ConfigurationError):
    """A backup is encrypted, and no passphrase was given."""


def why_no_backup(settings: Settings) -> str:
    """Return why no backup can be taken here, and what to do instead; else empty."""
    return why_no_dump(settings) if disk.database_path(settings) is None else ""


def back_up(
    settings: Settings, path: Path, taken: datetime, passphrase: str | None, *, job: str = ""
) -> Taken:
    """Take a backup of the settings' database into a file, in place of an older backup there.

    Encrypted where there is a passphrase; job is the id of the job that takes it. Raises
    ConfigurationError, and leaves the file then as it was.
    """
    database = disk.database_path(settings)
    _check_place(path, database, settings.instance)
    with disk.temporary_folder(database.parent if database else settings.instance) as folder:
        others = {}
        if database:
            paths, schema = _copied(settings, database, folder)
        else:
            paths = {archive.DUMP: folder / archive.DUMP}
            with disk.refuse_failures(f"The database cannot be dumped into {folder.parent}"):
                schema, namespace = dump_tables(settings, folder)
            others = {"namespace": namespace, "secret": fingerprint(settings)}
        files = [archive.BackupFile.of(name, file) for name, file in paths.items()]
        manifest = archive.BackupManifest.new(instant(taken), schema, files, job=job, **others)
        what = f"The backup {path} cannot be written"
        with disk.refuse_failures(what, "; nothing was left there."):
            _write(path, manifest, paths, passphrase, folder)
    return Taken(path, manifest, path.stat().st_size)


def _copied(settings: Settings, database: Path, folder: Path) -> tuple[dict[str, Path], str]:
    """Copy SQLite's database, its audit trail and the keys; return them, and the schema's number.

    The trail is copied last, so it has an entry for each change in the copied database.
    """
    keys = {} if settings.demo else _copied_keys(settings.instance, folder)
    copies = {archive.DATABASE: folder / archive.DATABASE}
    copy_database(database, copies[archive.DATABASE])
    if (settings.instance / TRAIL_FILE).exists():
        copies[archive.TRAIL] = folder / archive.TRAIL
        copy_database(settings.instance / TRAIL_FILE, copies[archive.TRAIL])
    return {**copies, **keys}, _checked(copies[archive.DATABASE], database)


def fingerprint(settings: Settings) -> str:
    """Return a fingerprint of FHIRAPP_SECRET, from which the secret cannot be derived."""
    key = derived_key(settings.secret)
    return hashlib.blake2b(key=key, person=b"backup", digest_size=16).hexdigest()


def check_fits(settings: Settings, path: Path, manifest: archive.BackupManifest) -> None:
    """Check that a backup is of the settings' kind of database, and opens with their secret.

    Raises ConfigurationError.
    """
    kinds = ("SQLite", "PostgreSQL")
    is_postgresql = disk.database_path(settings) is None
    if manifest.is_dump != is_postgresql:
        raise ConfigurationError(
            f"{path} is a backup of {kinds[manifest.is_dump]}, and the database here is "
            f"{kinds[is_postgresql]}: restore it where FHIRAPP_DATABASE_URL names its kind, and "
            "take the records over with `fhirapp export` and `fhirapp import`."
        )
    if manifest.is_dump and not hmac.compare_digest(manifest.secret, fingerprint(settings)):
        raise ConfigurationError(
            f"{path} was taken with another FHIRAPP_SECRET, which the keys in it are sealed with: "
            "set that one. Nothing was changed."
        )


def _check_place(path: Path, database: Path | None, instance: Path) -> None:
    if database and (not database.is_file() or database.stat().st_size == 0):
        raise ConfigurationError(f"There is no database {database} to back up.")
    if not path.parent.is_dir():
        raise ConfigurationError(f"There is no folder {path.parent}.")
    own = [*([database] if database else []), *(instance / name for name in archive.KEYS)]
    if path.exists() and any(file.exists() and path.samefile(file) for file in own):
        raise ConfigurationError(f"{path} is the server's own file; name another for the backup.")
    if path.exists() and not (stat.S_ISREG(path.stat().st_mode) and is_backup(path)):
        raise ConfigurationError(f"{path} exists and is not a backup; name another file.")


def _copied_keys(instance: Path, folder: Path) -> dict[str, Path]:
    """Copy the keys, so that none changes between its checksum and its content.

    Raises ConfigurationError where the server's own key is missing.
    """
    if not (instance / archive.KEYS[0]).exists():
        raise ConfigurationError(
            f"The key {instance / archive.KEYS[0]} is missing, without which what the database has "
            "sealed cannot be opened; name the server's folder in FHIRAPP_INSTANCE_PATH."
        )
    copies = {}
    for name in archive.KEYS:
        if (instance / name).exists():
            copies[name] = folder / name
            what = f"The key {instance / name} cannot be copied"
            with disk.refuse_failures(what, "; run this as the server's own user."):
                copies[name].write_bytes((instance / name).read_bytes())
    return copies


def _checked(copy: Path, database: Path) -> str:
    """Check a copy; return the number of its schema. Raises ConfigurationError."""
    if faults := faults_of(copy):
        raise ConfigurationError(
            f"The database {database} is damaged, no backup was taken ({faults[0]}); "
            "see `fhirapp db check`."
        )
    schema = schema_of(copy)
    if schema is None:
        raise ConfigurationError(f"The database {database} is not a fhirapp database.")
    check_schema(str(database), schema)
    return schema


def _write(
    path: Path,
    manifest: archive.BackupManifest,
    paths: dict[str, Path],
    passphrase: str | None,
    folder: Path,
) -> None:
    """Write the backup's file and read it back before it takes its place."""
    with ExitStack() as stack:
        file = stack.enter_context(disk.write_atomically(path))
        if passphrase is None:
            archive.pack(file, manifest, paths)
        else:
            with (folder / "plain").open("w+b") as plain:
                archive.pack(plain, manifest, paths)
                plain.seek(0)
                archive.seal(plain, file, passphrase)
            (folder / "plain").unlink()
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            # So that reading it back reads the disk, and no cache.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        if passphrase is None:
            again = file
        else:
            again = stack.enter_context((folder / "again").open("w+b"))
            archive.unseal(file, str(path), again, passphrase)
            again.seek(0)
        if archive.unpack(again, str(path), None) != manifest:
            raise archive.InvalidBackup(f"{path} could not be read back as it was written.")


def unpacked(
    settings: Settings, path: Path, passphrase: str | None, folder: Path
) -> archive.BackupManifest:
    """Read the files of a backup that fits the settings into a folder, decrypted if need be.

    Raises InvalidBackup, ConfigurationError.
    """
    if not path.is_file():
        raise ConfigurationError(f"There is no file {path}.")
    with ExitStack() as stack:
        with disk.refuse_failures(f"{path} cannot be read"):
            file: BinaryIO = stack.enter_context(path.open("rb"))
            is_sealed = file.read(len(archive.BEGIN)) == archive.BEGIN
            file.seek(0)
            if is_sealed and passphrase is None:
                raise MissingPassphrase(f"{path} is encrypted; name a file in --passphrase-file.")
            if is_sealed and passphrase is not None:
                disk.need_space(folder, path.stat().st_size, "the decrypted backup")
                stack.callback((folder / "plain").unlink)
                plain = stack.enter_context((folder / "plain").open("w+b"))
                archive.unseal(file, str(path), plain, passphrase)
                plain.seek(0)
                file = plain
        with disk.refuse_failures(f"{path} cannot be unpacked"):
            return archive.unpack(file, str(path), folder, partial(check_fits, settings, path))


def dump_before_upgrade(
    settings: Settings, schema: str, now: datetime, say: Callable[[str], None]
) -> Path | None:
    """Back up a PostgreSQL database into the instance folder; None, with a message, if none can be.

    Raises ConfigurationError: a database that cannot be copied is not upgraded.
    """
    if why := why_no_backup(settings):
        say(f"The database is upgraded without a copy. {why}")
        return None
    path = settings.instance / f"fhirapp.schema-{schema}.{now:%Y%m%dT%H%M%SZ}.backup"
    return back_up(settings, path, now, None).path
