"""A restore from the page of backups: prepared by a job, completed by the server's restart.

The job prepares the copy (restore.py) and leaves it in a folder beside the database, so a
passphrase is used once and stored nowhere. A confirmed restore is a state of that folder: the
server ends its processes and starts again (server/serve.py), and swaps the files before it opens
any. Nothing that a request names becomes a path.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from flask import Flask, current_app
from sqlalchemy import Connection, func, select

from fhirapp import keys
from fhirapp.audit import Unwritable
from fhirapp.audit.events import record
from fhirapp.auth.models import Grant, User
from fhirapp.config import ConfigurationError, RefusedCommand, Settings, settings_of
from fhirapp.db import checked_url
from fhirapp.definition import types
from fhirapp.disk import (
    database_path,
    is_older,
    need_space,
    sibling,
    temporary_folder,
    write_atomically,
)
from fhirapp.features.backups.archive import DATABASE, KEYS, InvalidBackup
from fhirapp.features.backups.backup import unpacked
from fhirapp.features.backups.file_swap import drop_staged, finish_swap
from fhirapp.features.backups.restore import COUNTED, prepare, swap
from fhirapp.features.backups.schemas import drop_loaded
from fhirapp.features.backups.verification import verify_database_file
from fhirapp.server import RESTARTS
from fhirapp.server.lock import exclusive_use, in_use, server_engine
from fhirapp.store.import_models import DELETED, ERASED, PatientChange

PREPARED, CONFIRMED, DONE, FAILED = "prepared", "confirmed", "done", "failed"
# How long a prepared restore is kept that nobody confirms.
KEPT_SECONDS = 3_600
_STATE = "restore.json"
_INTERRUPTED = "The server ended before the backup was in its place. Nothing was changed."
_OF_DEMO = (
    "This is a backup of the demo, with passwords that everybody knows, so it is not restored from "
    "this page."
)
_OF_CLINIC = (
    "This is no backup of the demo. Everybody may sign in here and would read its records, so it "
    "is not restored from this page."
)
# The journal, and the log of a server that starts.
_LEAST_FREE = 4 * 1024 * 1024


@dataclass(frozen=True)
class PreparedRestore:
    """A prepared copy that waits beside the database, or its outcome; at is seconds since 1970."""

    # The id of the job that prepared it, and the name of the backup.
    id: str
    name: str
    taken: str
    fhirapp: str
    # As in PreparedCopy.
    versions: int
    contents: Mapping[str, int]
    administrators: Sequence[str]
    # The number of the file, which stays when the file is moved.
    inode: int
    state: str = PREPARED
    user_id: str = ""
    username: str = ""
    reason: str = ""
    error: str = ""
    kept: Sequence[str] = ()
    at: int = 0


def why_no_restart(settings: Settings) -> str:
    """Return why this server cannot restore by a restart, as a key of the page; else empty."""
    if database_path(settings) is None:
        return "postgresql"
    return "" if RESTARTS in current_app.extensions else "server"


def _folder(settings: Settings) -> Path:
    database = database_path(settings)
    assert database is not None
    return sibling(database, ".prepared")


def prepared(settings: Settings) -> PreparedRestore | None:
    """Return the restore that is prepared, or its outcome; None if there is none."""
    return _read(_folder(settings)) if database_path(settings) else None


def _read(folder: Path) -> PreparedRestore | None:
    try:
        return PreparedRestore(**json.loads((folder / _STATE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _note(settings: Settings, found: PreparedRestore) -> None:
    with write_atomically(_folder(settings) / _STATE) as file:
        file.write(json.dumps(asdict(found)).encode())


def prepare_restore(
    settings: Settings, path: Path, name: str, job_id: str, passphrase: str | None
) -> Sequence[str]:
    """Prepare a backup, and leave it beside the database; return the faults of a verification.

    They do not prevent the restore. Raises ConfigurationError.
    """
    target = _folder(settings)
    with temporary_folder(target.parent) as folder:
        manifest = unpacked(settings, path, passphrase, folder)
        # The demo's keys are its own, and in no backup.
        if (folder / KEYS[0]).exists() == settings.demo:
            raise InvalidBackup(_OF_CLINIC if settings.demo else _OF_DEMO)
        faults = verify_database_file(settings, path, folder, manifest).faults
        copy = prepare(settings, path, folder, manifest, datetime.now(UTC))
        found = PreparedRestore(
            *(job_id, name, manifest.taken, manifest.fhirapp),
            *(copy.versions, copy.contents, copy.administrators),
            inode=(folder / DATABASE).stat().st_ino,
        )
        # As a whole it gets its name below.
        (folder / _STATE).write_text(json.dumps(asdict(found)), encoding="utf-8")
        before = prepared(settings)
        if before is not None and before.state == CONFIRMED:
            raise ConfigurationError("Another restore is under way.")
        shutil.rmtree(target, ignore_errors=True)
        folder.replace(target)
    return faults


def changed_since(connection: Connection, taken: str) -> dict[str, int]:
    """Return how many of each kind changed or came after an instant; and records that went.

    "versions" are of all types, "gone" the patients whom an administrator deleted or erased.
    """
    changed: dict[str, int] = {}
    versions = 0
    for name, definition in types().items():
        columns = definition.table.c
        query = select(func.count(), func.count(columns.id.distinct()))
        count, records = connection.execute(query.where(columns.last_updated > taken)).one()
        versions += count
        if name in COUNTED:
            changed[name] = records
    seconds = int(datetime.fromisoformat(taken).timestamp())
    gone = select(func.count(PatientChange.patient_id.distinct())).where(
        PatientChange.kind.in_((DELETED, ERASED)),
        PatientChange.at > taken,
        PatientChange.ended_at.is_(None),
    )
    others = {
        "accounts": select(func.count(User.id)).where(User.created_at > seconds),
        "consents": select(func.count(Grant.id)).where(Grant.created_at > seconds),
        "gone": gone,
    }
    counted = {name: connection.execute(query).scalar() or 0 for name, query in others.items()}
    return {**changed, **counted, "versions": versions}


def remove_prepared(settings: Settings, now: float) -> None:
    """Remove a restore that was prepared long ago and that nobody confirmed."""
    if database_path(settings) is None:
        return
    folder = _folder(settings)
    found = _read(folder)
    if (found is not None and found.state != PREPARED) or not is_older(folder, now - KEPT_SECONDS):
        return
    with suppress(FileNotFoundError), temporary_folder(folder.parent) as beside_it:
        moved = folder.replace(beside_it / folder.name)
        # Somebody may have confirmed it since it was read.
        found = _read(moved)
        if found is not None and found.state != PREPARED:
            moved.replace(folder)


def confirm(settings: Settings, job_id: str, user: User, reason: str) -> None:
    """Have the server restart on the copy that a job prepared. Raises ConfigurationError.

    Its event is written first, to the trail, which no restore replaces on SQLite.
    """
    found, restarts = prepared(settings), current_app.extensions[RESTARTS]
    if found is None or (found.id, found.state) != (job_id, PREPARED):
        raise _no_longer_prepared()
    if restarts not in (os.getpid(), os.getppid()):
        raise RefusedCommand("The server is being stopped.")
    need_space(_folder(settings), _LEAST_FREE, "the restart")
    record("restore-confirmed", what=f"{found.name}, taken {found.taken}: {reason}")
    confirmed = replace(
        found, state=CONFIRMED, user_id=user.id, username=user.username, reason=reason,
        at=int(time.time()),
    )  # fmt: skip
    try:
        _note(settings, confirmed)
    except FileNotFoundError:
        # It was removed as too old meanwhile.
        raise _no_longer_prepared() from None
    os.kill(restarts, signal.SIGUSR1)


def _no_longer_prepared() -> RefusedCommand:
    return RefusedCommand("What was prepared is not there any more; prepare it again.")


def recover(
    app: Flask, say: Callable[[str], None], *, serving: bool, is_restart: bool
) -> Callable[[], None]:
    """Complete an interrupted restore, and the confirmed one that this restart is for.

    Returns what is to be called once the database is ready, with the app current. Raises
    ConfigurationError.
    """
    settings = settings_of(app)
    if finish_swap(settings):
        # The keys may be others than when the app was made.
        keys.init_app(app)
        say("An interrupted restore was completed.")
    outcome = _swap_confirmed(settings, is_restart=is_restart) if serving else None
    if outcome is not None:
        keys.init_app(app)
    # No restore runs meanwhile.
    with in_use(settings):
        if database := database_path(settings):
            drop_staged(settings.instance, database)
        else:
            drop_loaded(server_engine(checked_url(settings)))

    def finish() -> None:
        if outcome is not None:
            say(_record_outcome(app, outcome))

    return finish


def _swap_confirmed(settings: Settings, *, is_restart: bool) -> PreparedRestore | None:
    """Swap the files of a confirmed restore; return its outcome, None if none was confirmed.

    Only the restart that the confirmation led to does so; any other start serves the present
    database. Raises ConfigurationError where neither the old nor the new files are complete.
    """
    database = database_path(settings)
    found = prepared(settings)
    if database is None or found is None or found.state != CONFIRMED:
        return None
    kept: Sequence[Path | str] = ()
    error = _INTERRUPTED
    if is_restart:
        try:
            with exclusive_use(settings):
                kept, _ = swap(settings, _folder(settings), datetime.now(UTC))
        except ConfigurationError as failed:
            error = str(failed)
            finish_swap(settings)
    if database.exists() and database.stat().st_ino == found.inode:
        return replace(found, state=DONE, kept=[Path(path).name for path in kept])
    return replace(found, state=FAILED, error=error)


def _record_outcome(app: Flask, outcome: PreparedRestore) -> str:
    """Record the outcome of a restore in its folder and in the audit trail; return a sentence.

    The app is current.
    """
    settings, is_done = settings_of(app), outcome.state == DONE
    with suppress(Unwritable):
        record(
            "restored" if is_done else "restore-failed",
            user_id=outcome.user_id,
            what=f"{outcome.name}, taken {outcome.taken}, by {outcome.username}: "
            f"{outcome.reason if is_done else outcome.error}",
        )
    try:
        # First, as the disk may be full.
        for path in _folder(settings).iterdir():
            if path.name != _STATE:
                path.unlink()
        _note(settings, outcome)
    except OSError:
        shutil.rmtree(_folder(settings), ignore_errors=True)
    if is_done:
        return f"Restored {outcome.name} as of {outcome.taken}, for {outcome.username}."
    return f"{outcome.name} was not restored, and the old database is served: {outcome.error}"
