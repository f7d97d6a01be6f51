"""What the tasks do: take and try backups, export to files, import what was uploaded."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from fhirapp.config import ConfigurationError, Settings
from fhirapp.core import current_core
from fhirapp.db import with_patience
from fhirapp.definition import types
from fhirapp.disk import because, database_path, megabytes, need_space
from fhirapp.exchange.exports.export import ExportOptions, export_to, types_to_export
from fhirapp.exchange.imports.batches import tune_gc
from fhirapp.exchange.imports.importer import PATIENCE, import_paths
from fhirapp.exchange.imports.inputs import total_bytes
from fhirapp.exchange.imports.options import Options, dry_run_copy
from fhirapp.exchange.imports.report import Report, write_report
from fhirapp.jobs.files import GIVEN, MADE, WAITS, WORKS, Progress, Task
from fhirapp.jobs.uploads import LAID, lay_out
from fhirapp.ops.backups.backup import back_up, local_database
from fhirapp.ops.backups.drill import drill
from fhirapp.ops.backups.rotation import Naming, is_backup

# So many faults of a backup are told.
_TOLD = 100


def backups_folder(settings: Settings) -> Path:
    """Return the folder of the backups that are taken here."""
    return settings.instance / "backups"


def backups(settings: Settings) -> Sequence[Path]:
    """Return the backups that are there, whatever their names, newest first."""
    folder = backups_folder(settings)
    # One that is being taken has a name with a dot before it until it is whole.
    there = [one for one in folder.iterdir() if one.name[0] != "."] if folder.is_dir() else []
    found = filter(is_backup, there)
    return sorted(found, key=_taken_at, reverse=True)


def _taken_at(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, path.name
    except OSError:
        # Somebody deletes it.
        return 0, path.name


def cannot(settings: Settings) -> str:
    """Return why no backup can be taken here, and what to do instead; empty where one can."""
    try:
        local_database(settings, "pg_dump --format=custom --file=FILE")
    except ConfigurationError as error:
        return str(error)
    return ""


def work(settings: Settings, _task: Task, progress: Progress, passphrase: str) -> str:
    """Take a backup into the folder of backups, encrypted where there is a passphrase."""
    progress.phase(WORKS)
    folder = backups_folder(settings)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = database_path(settings)
    moment = datetime.now(UTC)
    naming = Naming.of(folder, database.stem if database else "fhirapp")
    taken = back_up(settings, naming.path(moment), moment, passphrase or None)
    progress.state.name = taken.path.name
    return f"Backed up, and read back: {megabytes(taken.size)}."


def work_drill(settings: Settings, task: Task, progress: Progress, passphrase: str) -> str:
    """Open a copy of a backup and read everything in it. Raises ConfigurationError."""
    progress.phase(WORKS)
    progress.state.name = task.asked["name"]
    drilled = drill(settings, backups_folder(settings) / task.asked["name"], passphrase or None)
    if drilled.faults:
        progress.state.said = drilled.faults[:_TOLD]
        raise ConfigurationError(f"This backup, taken {drilled.manifest.taken}, is not whole.")
    return f"It is whole: all of its {drilled.versions} versions were read."


# All of its files in one.
ARCHIVE = "export.zip"


def exporting_work(settings: Settings, task: Task, progress: Progress, _passphrase: str) -> str:
    """Export what was asked for, and pack it."""
    progress.phase(WORKS)
    names, since, history = (task.asked[name] for name in ("types", "since", "history"))
    with current_core(settings):
        wanted = ExportOptions(types_to_export(types(), names), since or None, history)
        made = task.folder / MADE
        manifest = export_to(
            made, wanted, types()["Binary"], request=_request(task), progress=progress.at
        )
    progress.state.counts = {
        one.url: {"resources": one.lines, "versions": one.versions}
        for one in (*manifest.output, *manifest.deleted)
    }
    progress.write()
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


def _request(task: Task) -> str:
    """Return the command that does the same, for the manifest."""
    parts = ["fhirapp export", *(f"--type {name}" for name in task.asked["types"])]
    if task.asked["since"]:
        parts.append(f"--since {task.asked['since']}")
    return " ".join(parts + ["--history"] * task.asked["history"])


# What was refused, in a file to be mended.
REJECTED = "rejected.ndjson"
# What an import is told as it was asked for.
_OPTIONS = ("source", "delete_missing", "force", "repair", "prefix", "provenance")
# What is said of the names of files, of so many.
_IMPORTING_TOLD = 20


def importing_work(settings: Settings, task: Task, progress: Progress, _passphrase: str) -> str:
    """Import what was given; a dry run does it in a copy of the database."""
    made = task.folder / MADE
    made.mkdir(mode=0o700, exist_ok=True)
    paths, said = lay_out(task.folder / GIVEN)
    progress.state.said = said[:_IMPORTING_TOLD]
    # Files are named as they were uploaded.
    os.chdir(task.folder / GIVEN / LAID)
    is_dry = bool(task.asked["dry_run"])
    try:
        with ExitStack() as stack:
            if is_dry:
                copy = stack.enter_context(dry_run_copy(settings))
                settings = replace(settings, **copy._asdict(), demo=False)
            stack.enter_context(with_patience(PATIENCE))
            stack.enter_context(current_core(settings))
            _import(settings, task, progress, paths)
    finally:
        os.chdir(task.folder)
        if progress.report is not None:
            _write(progress.report, made)
    if is_dry:
        progress.state.run = 0
        progress.report = None
    else:
        shutil.rmtree(task.folder / GIVEN, ignore_errors=True)
    return ""


def _import(settings: Settings, task: Task, progress: Progress, paths: list[Path]) -> None:
    options = Options(
        **{name: task.asked[name] for name in _OPTIONS},
        rejected=task.folder / MADE / REJECTED,
        who=task.who,
    )

    def begun(report: Report) -> None:
        progress.report = report
        progress.phase(WORKS, total_bytes(paths))

    tune_gc()
    import_paths(
        paths,
        types(),
        settings,
        options,
        progress.add,
        waits=lambda: progress.phase(WAITS),
        begun=begun,
    )
    progress.write()


def _write(report: Report, made: Path) -> None:
    """Write the report; what was refused lies beside it."""
    report.rejected_file = " ".join(sorted(one.name for one in made.glob("rejected.*")))
    for name in ("report.json", "report.html"):
        try:
            write_report(report, made / name)
        except ConfigurationError:
            # One that finds no room takes nothing from what was imported. No half of it stays.
            (made / name).unlink(missing_ok=True)
