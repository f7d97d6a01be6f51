"""The task that imports what was uploaded."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fhirapp.config import ConfigurationError, Settings
from fhirapp.core import current_core
from fhirapp.db import with_patience
from fhirapp.exchange.importing.garbage import collect_young
from fhirapp.exchange.importing.importer import PATIENCE, import_paths
from fhirapp.exchange.importing.inputs import total_bytes
from fhirapp.exchange.importing.options import Options
from fhirapp.exchange.importing.report import Report
from fhirapp.exchange.importing.report_page import write_report
from fhirapp.exchange.importing.trial import trial_copy
from fhirapp.ops.tasks.folder import GIVEN, MADE, WAITS, WORKS, Task
from fhirapp.ops.tasks.names import LAID, lay_out
from fhirapp.ops.tasks.progress import Progress
from fhirapp.store.definition import types

# What was refused, in a file to be mended.
REJECTED = "rejected.ndjson"
# What an import is told as it was asked for.
_OPTIONS = ("source", "delete_missing", "force", "repair", "prefix", "provenance")
# What is said of the names of files, of so many.
_TOLD = 20


def work(settings: Settings, task: Task, progress: Progress, _passphrase: str) -> str:
    """Import what was given; a dry run does it in a copy of the database."""
    made = task.folder / MADE
    made.mkdir(mode=0o700, exist_ok=True)
    paths, said = lay_out(task.folder / GIVEN)
    progress.state.said = said[:_TOLD]
    # Files are named as they were uploaded.
    os.chdir(task.folder / GIVEN / LAID)
    is_dry = bool(task.asked["dry_run"])
    try:
        with ExitStack() as stack:
            if is_dry:
                copy = stack.enter_context(trial_copy(settings))
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

    collect_young()
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
