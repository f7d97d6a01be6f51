"""The job of an export that a page starts."""

from __future__ import annotations

import zipfile
from pathlib import Path

from flask import current_app

from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.core import current_core
from fhirapp.definition import types
from fhirapp.disk import need_space, reason_of
from fhirapp.features.exports.export import ExportOptions, export_to, types_to_export
from fhirapp.jobs import process, queue
from fhirapp.jobs.process import MADE, Tracker
from fhirapp.jobs.queue import WORKS, Job

EXPORT = "export"
# The archive of all files of an export.
ARCHIVE = "export.zip"


def export(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Export what was asked for, and pack it."""
    tracker.phase(WORKS)
    names, since, history = (job.request[name] for name in ("types", "since", "history"))
    with current_core(settings):
        options = ExportOptions(types_to_export(types(), names), since or None, history)
        made = tracker.folder / MADE
        manifest = export_to(
            made,
            options,
            types()["Binary"],
            request=_request(job),
            progress=tracker.at,
            user_id=job.owner,
        )
    tracker.progress.counts = {
        file.url: {"resources": file.lines, "versions": file.versions}
        for file in (*manifest.output, *manifest.deleted)
    }
    tracker.note()
    try:
        _pack(made)
    except (OSError, ConfigurationError) as error:
        (made / ARCHIVE).unlink(missing_ok=True)
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        return f"There is no archive of all files ({reason}); each can be fetched by itself."
    return ""


def _pack(made: Path) -> None:
    """Write an archive of all files, which an import takes as it is."""
    files = sorted(made.iterdir())
    need_space(made, sum(file.stat().st_size for file in files), "the archive")
    part = made / f".{ARCHIVE}.part"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=5) as archive:
        for file in files:
            archive.write(file, file.name)
    part.replace(made / ARCHIVE)


def _request(job: Job) -> str:
    """Return the command that does the same, for the manifest."""
    parts = ["fhirapp export", *(f"--type {name}" for name in job.request["types"])]
    if job.request["since"]:
        parts.append(f"--since {job.request['since']}")
    return " ".join(parts + ["--history"] * job.request["history"])


def sweep(now: int) -> None:
    """Remove exports that have expired."""
    hours = settings_of(current_app).export_hours
    for job in queue.jobs(EXPORT):
        since = job.ended_at or job.created_at
        if not job.is_under_way and since + hours * 3_600 < now:
            process.remove(job)
