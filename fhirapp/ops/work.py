"""What the process of a job does: `python -m fhirapp.ops.work JOB`."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from fhirapp.config import ConfigurationError, Settings, load_settings
from fhirapp.core import core_app, current_core
from fhirapp.db import with_patience
from fhirapp.definition import types
from fhirapp.disk import because, megabytes, need_space
from fhirapp.features.backups.archive import InvalidBackup
from fhirapp.features.backups.backup import back_up
from fhirapp.features.backups.drill import drill
from fhirapp.features.backups.prepared import prepare_restore
from fhirapp.features.backups.rotation import (
    Naming,
    at_hand,
    is_backup,
    keep_backup,
    place_of,
    stem_of,
    time_in_name,
)
from fhirapp.features.exports.export import ExportOptions, export_to, types_to_export
from fhirapp.features.imports import uploads
from fhirapp.features.imports.batches import tune_gc
from fhirapp.features.imports.importer import import_paths
from fhirapp.features.imports.inputs import total_bytes
from fhirapp.features.imports.report import Report, write_report
from fhirapp.features.imports.runs import Options, dry_run_copy
from fhirapp.jobs import process
from fhirapp.jobs.process import MADE, Tracker
from fhirapp.jobs.table import WAITS, WORKS, Job
from fhirapp.ops import health, scheduled
from fhirapp.ops.jobs import ARCHIVE, BACKUP, DRILL, EXPORT, FOLDER, IMPORT, PULL, RESTORE
from fhirapp.ops.lock import in_use
from fhirapp.store.import_models import PATIENCE

# The folder where an import finds what was uploaded.
_LAID = "laid"
# So many faults of a backup are shown, and notes on the names of uploaded files.
_SHOWN_FAULTS, _SHOWN_NAMES = 100, 20
# The options of an import that its form has too.
_OPTIONS = ("source", "delete_missing", "force", "repair", "prefix", "provenance")


def main(job_id: str) -> None:
    """Do a job in this process, which was started for it; a passphrase comes on standard input."""
    # Records are what only this user may read.
    os.umask(0o077)
    if hasattr(os, "sched_setaffinity"):
        # The server's processes have a core each.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    settings = load_settings()
    health.configure(settings)
    passphrase = sys.stdin.buffer.read().decode()
    kinds: Mapping[str, Callable[[Job, Tracker], str]] = {
        kind: partial(_do, work, settings, passphrase) for kind, work in _WORK.items()
    }
    with in_use(settings):
        process.perform(core_app(settings), job_id, kinds)


_Work = Callable[[Settings, Job, Tracker, str], str]


def _do(work: _Work, settings: Settings, passphrase: str, job: Job, tracker: Tracker) -> str:
    return work(settings, job, tracker, passphrase)


def _take_backup(settings: Settings, job: Job, tracker: Tracker, passphrase: str) -> str:
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
    naming = Naming(folder.resolve(), job.request.get("schedule") or stem_of(settings))
    taken = back_up(settings, naming.path(moment), moment, passphrase or None)
    if not elsewhere:
        keep_backup(settings, taken.path)
    tracker.progress.name = taken.path.name
    after = scheduled.after_backup(settings, job, naming, taken.path, passphrase or None)
    return f"Backed up, and read back: {megabytes(taken.size)}.{after}"


def _keep_uploaded(settings: Settings, job: Job, tracker: Tracker, moment: datetime) -> str:
    """Keep an uploaded backup with the others; no schedule's naming takes it for its own."""
    with current_core(settings):
        uploads.lay_out(job.id, tracker.folder / _LAID)
        path = next(one for one in (tracker.folder / _LAID).rglob("*") if one.is_file())
        uploads.remove(job.id)
    if not is_backup(path):
        raise InvalidBackup("What was uploaded is not a backup.")
    stem = "".join(one for one in path.stem if one.isascii() and (one.isalnum() or one in "-_"))
    named = path.rename(path.with_name(f"uploaded-{time_in_name(moment)}-{stem[:80]}.backup"))
    keep_backup(settings, named)
    tracker.progress.name = named.name
    return ""


def _prepare_restore(settings: Settings, job: Job, tracker: Tracker, passphrase: str) -> str:
    """Check a backup, and have it wait beside the database. Raises ConfigurationError."""
    tracker.phase(WORKS)
    name = tracker.progress.name = job.request["name"]
    with at_hand(settings, place_of(settings, name)) as path:
        faults = prepare_restore(settings, path, name, job.id, passphrase or None)
    tracker.progress.notes = list(faults[:_SHOWN_FAULTS])
    return ""


def _drill(settings: Settings, job: Job, tracker: Tracker, passphrase: str) -> str:
    """Open a copy of a backup and read everything in it. Raises ConfigurationError."""
    tracker.phase(WORKS)
    tracker.progress.name = job.request["name"]
    with at_hand(settings, place_of(settings, job.request["name"])) as path:
        drilled = drill(settings, path, passphrase or None)
    if drilled.faults:
        tracker.progress.notes = drilled.faults[:_SHOWN_FAULTS]
        raise ConfigurationError(f"This backup, taken {drilled.manifest.taken}, is not whole.")
    return f"It is whole: {drilled.done}."


def _export(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Export what was asked for, and pack it."""
    tracker.phase(WORKS)
    names, since, history = (job.request[name] for name in ("types", "since", "history"))
    with current_core(settings):
        wanted = ExportOptions(types_to_export(types(), names), since or None, history)
        made = tracker.folder / MADE
        manifest = export_to(
            made,
            wanted,
            types()["Binary"],
            request=_request(job),
            progress=tracker.at,
            user_id=job.owner,
        )
    tracker.progress.counts = {
        one.url: {"resources": one.lines, "versions": one.versions}
        for one in (*manifest.output, *manifest.deleted)
    }
    tracker.note()
    try:
        _pack(made)
    except (OSError, ConfigurationError) as error:
        (made / ARCHIVE).unlink(missing_ok=True)
        reason = because(error) if isinstance(error, OSError) else str(error)
        return f"There is no archive of all files ({reason}); each can be fetched by itself."
    return ""


def _pack(made: Path) -> None:
    """Write an archive of all files, which an import takes as it is."""
    files = sorted(made.iterdir())
    need_space(made, sum(one.stat().st_size for one in files), "the archive")
    part = made / f".{ARCHIVE}.part"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=5) as archive:
        for one in files:
            archive.write(one, one.name)
    part.replace(made / ARCHIVE)


def _request(job: Job) -> str:
    """Return the command that does the same, for the manifest."""
    parts = ["fhirapp export", *(f"--type {name}" for name in job.request["types"])]
    if job.request["since"]:
        parts.append(f"--since {job.request['since']}")
    return " ".join(parts + ["--history"] * job.request["history"])


def _import(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Import what was uploaded; a dry run does it in a copy of the database."""
    made = tracker.folder / MADE
    made.mkdir(mode=0o700, exist_ok=True)
    laid = tracker.folder / _LAID
    paths, notes = uploads.lay_out(job.id, laid)
    tracker.progress.notes = notes[:_SHOWN_NAMES]
    is_dry = bool(job.request["dry_run"])
    reports: list[Report] = []

    def begun(report: Report) -> None:
        reports.append(report)
        tracker.counts = lambda: (
            0 if is_dry else report.run,
            {name: dict(counts) for name, counts in report.rows()},
        )
        tracker.phase(WORKS, total_bytes(paths))

    options = Options(
        **{name: job.request[name] for name in _OPTIONS},
        rejected=made / scheduled.REJECTED,
        together=len(paths) > 1,
        who=job.owner,
    )
    # Files are named as they were uploaded.
    os.chdir(laid)
    try:
        with ExitStack() as stack:
            if is_dry:
                copy = stack.enter_context(dry_run_copy(settings))
                settings = replace(settings, **copy._asdict(), demo=False)
            stack.enter_context(with_patience(PATIENCE))
            stack.enter_context(current_core(settings))
            tune_gc()
            import_paths(
                paths,
                types(),
                settings,
                options,
                tracker.add,
                waits=lambda: tracker.phase(WAITS),
                begun=begun,
            )
    finally:
        os.chdir(tracker.folder)
        tracker.note()
        for report in reports:
            _write_report(report, made)
    if not is_dry:
        uploads.remove(job.id)
    return ""


def _write_report(report: Report, made: Path) -> None:
    """Write the report; what was rejected lies beside it."""
    report.rejected_file = " ".join(sorted(path.name for path in made.glob("rejected.*")))
    for name in ("report.json", "report.html"):
        try:
            write_report(report, made / name)
        except ConfigurationError:
            # One that finds no room takes nothing from what was imported. No half of it stays.
            (made / name).unlink(missing_ok=True)


_WORK: Mapping[str, _Work] = {
    IMPORT: _import,
    EXPORT: _export,
    BACKUP: _take_backup,
    DRILL: _drill,
    RESTORE: _prepare_restore,
    FOLDER: scheduled.take_folder,
    PULL: scheduled.pull,
}

if __name__ == "__main__":
    main(sys.argv[1])
