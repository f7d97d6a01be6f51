"""The jobs of backups: taken, also by a schedule, tested, and prepared to be restored."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import current_app

from fhirapp.config import ConfigurationError, RefusedCommand, Settings, settings_of
from fhirapp.core import current_core
from fhirapp.db import writing
from fhirapp.disk import human_size
from fhirapp.feature import N_
from fhirapp.features.backups import rotation
from fhirapp.features.backups.archive import InvalidBackup
from fhirapp.features.backups.backup import back_up, why_no_backup
from fhirapp.features.backups.passphrase import VARIABLE, read_passphrase
from fhirapp.features.backups.prepared import prepare_restore as prepare
from fhirapp.features.backups.prepared import remove_prepared
from fhirapp.features.backups.verification import verify_backup
from fhirapp.jobs import queue, uploads
from fhirapp.jobs.kinds import FormField, ScheduleKind, check_folder
from fhirapp.jobs.process import UPLOADED, Tracker
from fhirapp.jobs.queue import DONE, FAILED, WORKS, Job, Progress
from fhirapp.jobs.schedules import Schedule

BACKUP, VERIFICATION, RESTORE = "backup", "drill", "restore"
# So many faults of a backup are shown; of one that a schedule has tested, fewer.
_SHOWN_FAULTS, _SHOWN = 100, 20


def take_backup(settings: Settings, job: Job, tracker: Tracker, passphrase: str) -> str:
    """Take a backup and keep it with the others, encrypted where there is a passphrase.

    That of a schedule may go to a folder of this machine.
    """
    tracker.phase(WORKS)
    moment = datetime.now(UTC)
    if "uploaded" in job.request:
        return _keep_uploaded(settings, job, tracker, moment)
    elsewhere = job.request.get("folder")
    # A folder below: the job's own is held.
    folder = Path(elsewhere or tracker.folder / "taken")
    if not elsewhere:
        folder.mkdir(mode=0o700)
    elif not folder.is_dir():
        # Else it would be the name of a file.
        raise ConfigurationError(f"There is no folder {folder}; mount it, or make it.")
    # A schedule's own name: it removes no other's backups.
    naming = rotation.Naming(
        folder.resolve(), job.request.get("schedule") or rotation.stem_of(settings)
    )
    taken = back_up(settings, naming.path(moment), moment, passphrase or None, job=job.id)
    if not elsewhere:
        rotation.keep_backup(settings, taken.path)
    tracker.progress.name = taken.path.name
    after = _after_backup(settings, job, naming, taken.path, passphrase or None)
    return f"Backed up and read back: {human_size(taken.size)}.{after}"


def _keep_uploaded(settings: Settings, job: Job, tracker: Tracker, moment: datetime) -> str:
    """Keep an uploaded backup with the others; no schedule's naming takes it for its own."""
    with current_core(settings):
        uploads.lay_out(job.id, tracker.folder / UPLOADED)
        path = next(path for path in (tracker.folder / UPLOADED).rglob("*") if path.is_file())
        uploads.remove(job.id)
    if not rotation.is_backup(path):
        raise InvalidBackup("What was uploaded is not a backup.")
    stem = "".join(
        letter for letter in path.stem if letter.isascii() and (letter.isalnum() or letter in "-_")
    )
    named = path.rename(
        path.with_name(f"uploaded-{rotation.time_in_name(moment)}-{stem[:80]}.backup")
    )
    rotation.keep_backup(settings, named)
    tracker.progress.name = named.name
    return ""


def prepare_restore(settings: Settings, job: Job, tracker: Tracker, passphrase: str) -> str:
    """Check a backup, and have it wait beside the database. Raises ConfigurationError."""
    tracker.phase(WORKS)
    name = tracker.progress.name = job.request["name"]
    with rotation.at_hand(settings, rotation.place_of(settings, name)) as path:
        faults = prepare(settings, path, name, job.id, passphrase or None)
    tracker.progress.notes = list(faults[:_SHOWN_FAULTS])
    return ""


def verify(settings: Settings, job: Job, tracker: Tracker, passphrase: str) -> str:
    """Open a copy of a backup and read everything in it. Raises ConfigurationError."""
    tracker.phase(WORKS)
    tracker.progress.name = job.request["name"]
    with rotation.at_hand(settings, rotation.place_of(settings, job.request["name"])) as path:
        verification = verify_backup(settings, path, passphrase or None)
    if verification.faults:
        tracker.progress.notes = verification.faults[:_SHOWN_FAULTS]
        raise ConfigurationError(
            f"The backup, taken {verification.manifest.taken}, failed verification."
        )
    return f"Verified: {verification.done}."


def _after_backup(
    settings: Settings, job: Job, naming: rotation.Naming, taken: Path, passphrase: str | None
) -> str:
    """Verify a schedule's backup, and remove the oldest; return a sentence on that.

    Nothing is removed where the new one fails. Raises ConfigurationError.
    """
    sentence, name, is_elsewhere = "", taken.name, bool(job.request.get("folder"))
    if job.request.get("drill"):
        with rotation.at_hand(
            settings, str(taken) if is_elsewhere else rotation.place_of(settings, name)
        ) as path:
            verification = verify_backup(settings, path, passphrase)
        faults = verification.faults[:_SHOWN]
        with current_core(settings):
            _record_verification(job, Progress(name=name, notes=faults), FAILED if faults else DONE)
        if faults:
            raise ConfigurationError(f"The backup {name} failed verification ({faults[0]}).")
        sentence = f" Verified: {verification.done}."
    if keep := job.request.get("keep"):
        stuck: Sequence[Path | str] = (
            rotation.prune(naming, keep, taken)[1]
            if is_elsewhere
            else rotation.prune_kept(settings, naming, keep, name)
        )
        if stuck:
            raise ConfigurationError(f"The old backup {stuck[0]} should be removed, but cannot be.")
    return sentence


def _record_verification(job: Job, progress: Progress, state: str) -> None:
    """Record the verification as a job, which the page of backups lists."""
    job_id, now, request = queue.new_id(), int(time.time()), {"name": progress.name}
    with writing() as connection:
        queue.add(connection, job_id, VERIFICATION, job.owner, now, request=request, runs=True)
    recorded = queue.find(job_id, VERIFICATION)
    assert recorded is not None
    queue.finish(recorded, state, now, progress=progress)


def _check(settings: Settings, name: str, options: Mapping[str, Any]) -> None:
    if name == rotation.stem_of(settings):
        raise RefusedCommand(
            "Manual backups are also named %(name)s, so this schedule would remove them. Choose "
            "another name, such as nightly.",
            name=name,
        )
    if why := why_no_backup(settings):
        raise ConfigurationError(why)
    if folder := options.get("folder"):
        check_folder(folder)
    if file := options.get("passphrase_file"):
        read_passphrase(Path(file))


def _passphrase(schedule: Schedule) -> str:
    """Return the passphrase of a backup, which is stored nowhere. Raises ConfigurationError."""
    if file := schedule.options.get("passphrase_file"):
        return read_passphrase(Path(file))
    found = os.environ.get(VARIABLE, "")
    if schedule.options.get("encrypt") and not found:
        raise ConfigurationError(
            f"There is no passphrase: set {VARIABLE} for the server, or name a file that has it."
        )
    return found


def sweep(now: int) -> None:
    """Remove what was prepared to be restored, and nobody confirmed."""
    remove_prepared(settings_of(current_app), now)


SCHEDULE = ScheduleKind(
    name=BACKUP,
    label=N_("Backup"),
    fields={
        "folder": FormField(
            N_("Folder"), N_("Path on the server. Leave empty for the folder of the Backups page.")
        ),
        "keep": FormField(
            N_("Backups to keep"),
            N_("Older backups of this schedule are removed."),
            "14",
            is_count=True,
        ),
        "passphrase_file": FormField(
            N_("Passphrase file"),
            N_(
                "Path on the server. Leave empty to use FHIRAPP_BACKUP_PASSPHRASE, or for no "
                "encryption."
            ),
        ),
        "encrypt": FormField(N_("Require encryption"), is_tick=True),
        "drill": FormField(
            N_("Verify each backup"),
            N_("Reads every version of every record in it."),
            "yes",
            is_tick=True,
        ),
    },
    check=_check,
    passphrase=_passphrase,
    job_path="/admin/backups",
)
