"""The jobs of imports: of uploads, and what those of watched folders and pulls share."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from fhirapp.config import ConfigurationError, Settings
from fhirapp.core import current_core
from fhirapp.db import with_patience
from fhirapp.features.imports.downloads import Downloads, import_downloads
from fhirapp.features.imports.inputs import total_bytes
from fhirapp.features.imports.report import Report, write_report
from fhirapp.features.imports.runs import Options, dry_run_copy
from fhirapp.jobs import uploads
from fhirapp.jobs.process import MADE, UPLOADED, Tracker
from fhirapp.jobs.queue import WAITS, WORKS, Job
from fhirapp.store.import_models import PATIENCE

IMPORT, FOLDER, PULL = "import", "folder", "pull"
# All kinds of imports.
IMPORTS = (IMPORT, FOLDER, PULL)
REPORTS, REJECTED = ("report.json", "report.html"), "rejected.ndjson"
# So many notes on the names of uploaded files are shown.
_SHOWN_NAMES = 20
# The options of an import that are ticked in its form.
CHOICES = ("delete_missing", "force", "repair", "provenance")


def import_uploaded(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Import what was uploaded; a dry run does it in a copy of the database."""
    made = tracker.folder / MADE
    made.mkdir(mode=0o700, exist_ok=True)
    laid = tracker.folder / UPLOADED
    paths, notes = uploads.lay_out(job.id, laid)
    tracker.progress.notes = notes[:_SHOWN_NAMES]
    is_dry = bool(job.request["dry_run"])
    reports: list[Report] = []

    def on_begin(report: Report) -> None:
        reports.append(report)
        tracker.counts = lambda: (
            0 if is_dry else report.run,
            {name: dict(counts) for name, counts in report.rows()},
        )
        tracker.phase(WORKS, total_bytes(paths))

    options = Options(
        **{name: job.request[name] for name in ("source", "prefix", *CHOICES)},
        rejected=made / REJECTED,
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
            waits = partial(tracker.phase, WAITS)
            import_downloads(Downloads(paths), settings, options, tracker.add, waits, on_begin)
    finally:
        os.chdir(tracker.folder)
        tracker.note()
        for report in reports:
            write_reports(report, made)
    if not is_dry:
        uploads.remove(job.id)
    return ""


def write_reports(report: Report, made: Path) -> None:
    """Write the report in its formats; what was rejected lies beside it."""
    report.rejected_file = " ".join(sorted(path.name for path in made.glob("rejected.*")))
    for name in REPORTS:
        try:
            write_report(report, made / name)
        except ConfigurationError:
            # One that finds no room takes nothing from what was imported. No half of it stays.
            (made / name).unlink(missing_ok=True)


def reason_of(report: Report) -> str:
    """Return why a report is not complete, as a sentence."""
    if report.rejected_lines:
        first = report.rejected[0] if report.rejected else "see the report"
        return f"{report.rejected_lines} records were rejected ({first})."
    return report.notes[0]


class ScheduledImport:
    """The imports of one run, whose counts add up."""

    def __init__(self, settings: Settings, job: Job, tracker: Tracker) -> None:
        self._settings, self._job, self._tracker = settings, job, tracker
        self._totals: dict[str, Counter[str]] = {}

    def run(self, downloads: Downloads, made: Path) -> Report:
        """Import paths; write the report, and what was rejected, into a folder."""
        job = self._job
        options = Options(
            source=job.request.get("source") or "",
            repair=bool(job.request.get("repair")),
            rejected=made / REJECTED,
            who=job.owner,
        )

        def on_begin(report: Report) -> None:
            self._tracker.counts = lambda: (report.run, self._sum(report))
            self._tracker.phase(WORKS)

        tracker, waits = self._tracker, partial(self._tracker.phase, WAITS)
        report = import_downloads(downloads, self._settings, options, tracker.add, waits, on_begin)
        counts = self._sum(report)
        self._totals = {name: Counter(of_type) for name, of_type in counts.items()}
        self._tracker.counts = lambda: (report.run, counts)
        write_reports(report, made)
        return report

    def _sum(self, report: Report) -> dict[str, dict[str, int]]:
        rows = {name: Counter(counts) for name, counts in report.rows()}
        return {
            name: dict(self._totals.get(name, Counter()) + rows.get(name, Counter()))
            for name in sorted({*self._totals, *rows})
        }
