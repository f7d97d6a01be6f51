"""Imports: upload, watch, report; and the list of all imports, those of the command line too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from flask import Response, request
from sqlalchemy import select

from fhirapp.config import ConfigurationError, RefusedCommand, settings
from fhirapp.db import db
from fhirapp.db.locks import is_locked
from fhirapp.features.imports import ID_PREFIX, LISTED, OUTCOMES
from fhirapp.features.imports.jobs import CHOICES, IMPORT, IMPORTS
from fhirapp.fhir.outcome import BodyTooLong
from fhirapp.fhir.temporal import moment_of
from fhirapp.files import shared_files
from fhirapp.jobs import process, queue, uploads
from fhirapp.jobs.queue import DONE, Job
from fhirapp.jobs.worker import sweep
from fhirapp.store.import_models import TURN, ImportRun, ImportSource
from fhirapp.web import pages
from fhirapp.web.admin import jobs
from fhirapp.web.admin.jobs import job_of, watched
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.texts import _

# The most imports that are listed.
_RUNS = 50


def _runs() -> list[dict[str, Any]]:
    """Return the imports, newest first: those of the pages, and those of the command line."""
    import_jobs = queue.jobs(*IMPORTS, limit=_RUNS)
    # Of a dry run it is a number in the copy.
    of_jobs = {job.progress.run for job in import_jobs if not job.request.get("dry_run")}
    listed = [
        *map(_run_of_job, import_jobs),
        *(run for run_id, run in _run_rows() if run_id not in of_jobs),
    ]
    return sorted(listed, key=lambda run: run["began_at"], reverse=True)[:_RUNS]


def _run_of_job(job: Job) -> dict[str, Any]:
    what = ": ".join(filter(None, [job.request.get("source"), files_of(job)]))
    if job.request.get("dry_run"):
        what = _("dry run: %(what)s", what=what)
    return {
        "began_at": job.created_at,
        "who": job.owner,
        "what": what,
        "phase": jobs.phase_of(job),
        "counts": _sum(job.progress.counts),
        "path": f"/admin/imports/{job.id}",
        "is_under_way": job.is_under_way,
        "is_done": job.state == DONE,
    }


def files_of(job: Job) -> str:
    """Return what an import was given: the first names, how many files, how large."""
    # One of an earlier release may say less.
    names, count = job.request.get("names", []), job.request.get("count", 0)
    more = _("%(count)s more", count=count - len(names)) if count > len(names) else ""
    size = job.request.get("size", 0)
    shown = ", ".join(filter(None, [*names, more]))
    return f"{shown} ({jobs.size_of(size)})" if size else shown


def _run_rows() -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what the database knows of imports, with their numbers."""
    named = select(ImportRun, ImportSource.name).outerjoin(
        ImportSource, ImportSource.id == ImportRun.source_id
    )
    newest = None
    for run, source in db.session.execute(named.order_by(ImportRun.id.desc()).limit(_RUNS)):
        newest = newest or run.id
        inputs = ", ".join(path.rsplit("/", 1)[-1] for path in run.inputs[:3])
        if is_done := run.outcome is not None:
            phase = _("done")
        elif run.ended_at is None and run.id == newest and is_locked(settings(), TURN):
            phase = _("running")
        else:
            phase = _("interrupted")
        yield (
            run.id,
            {
                "began_at": int(moment_of(run.began_at).timestamp()),
                "who": run.who,
                "what": ": ".join(filter(None, [source, inputs])) or _("standard input"),
                "phase": phase,
                "counts": _sum(run.outcome or {}),
                "is_done": is_done,
            },
        )


def _sum(counts: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    """Return the counts of each outcome, of all types together."""
    return {
        outcome: sum(of_type.get(outcome, 0) for of_type in counts.values()) for outcome in OUTCOMES
    }


blueprint = pages.blueprint_of("admin_imports", __name__)
# An import that is removed while it is shown.
blueprint.register_error_handler(FileNotFoundError, lambda _error: pages.error_page(404))
# More than a form brings without scripts, which send it in pieces.
blueprint.register_error_handler(
    BodyTooLong, lambda _error: jobs.too_long("import FILES", "/admin/imports")
)
# Files that are named where it is told what was imported.
_NAMED = 3


@blueprint.get("/admin/imports")
@watched
@pages.for_administrators
def every() -> Response:
    """List the imports, and ask for what to import; upload is one to go on with."""
    sweep(int(time.time()))
    return _form()


def _form(message: str = "", status: int = 200) -> Response:
    is_sent, filled = request.method == "POST", form_fields()
    upload_id = "" if is_sent else request.args.get("upload", "")
    upload_id = upload_id or filled.get("task", "")
    user_id, listed = pages.signed_in().user.id, _runs()
    upload = uploads.find(upload_id, user_id)
    return pages.page(
        "imports/imports.html",
        status,
        scripts=True,
        job_id=upload_id if upload or is_sent else queue.new_id(),
        upload=upload,
        unfinished=[other for other in uploads.of_user(user_id) if other.id != upload_id],
        typed=filled or {"provenance": "yes"},
        message=message,
        done=_("Upload removed.") if request.args.get("done") else "",
        runs=listed,
        is_under_way=any(run.get("is_under_way") for run in listed),
        sources=db.session.scalars(select(ImportSource.name).order_by(ImportSource.name)).all(),
        most=uploads.MOST_FILES,
    )


@blueprint.post("/admin/imports")
@keeps("task", "source", "prefix", "dry_run", *CHOICES)
@pages.for_administrators
@pages.form_action(_form, error=ConfigurationError)
def begin() -> Response:
    """Begin an import of what was uploaded in pieces before, or comes with this form."""
    job_id = jobs.job_field()
    if queue.find(job_id, IMPORT) is None:
        upload = jobs.take_upload(job_id)
        if upload is None or not upload.files:
            raise RefusedCommand("Choose files or a folder to import.")
        if not upload.is_whole:
            raise RefusedCommand(
                "The upload is incomplete. Choose the same files again to continue it."
            )
        options = {name: bool(request.form.get(name)) for name in (*CHOICES, "dry_run")}
        texts = {"source": pages.field("source", 200), "prefix": pages.field("prefix", 100)}
        if options["delete_missing"] and not texts["source"]:
            raise RefusedCommand(
                "Enter a source: records missing from the source can only be deleted if the "
                "source is named."
            )
        if not ID_PREFIX.fullmatch(texts["prefix"]):
            raise RefusedCommand(
                "A prefix for ids can have up to 20 letters, digits, dashes and dots."
            )
        names = [upload_file.name for upload_file in upload.files[:_NAMED]]
        what = {"count": len(upload.files), "names": names, "size": upload.size}
        jobs.begin(IMPORT, {**options, **texts, **what})
    return pages.see_other(f"/admin/imports/{job_id}")


@blueprint.get("/admin/imports/<job_id>")
@watched
@pages.for_administrators
def one(job_id: str) -> Response:
    """Show how far an import is, or its report."""
    job = job_of(job_id, *IMPORTS)
    report = _report(job)
    return pages.page(
        "imports/import.html",
        scripts=True,
        job=job,
        report=report,
        outcomes=OUTCOMES,
        # The most items of each list in a report.
        shown=100,
        has_rejected=any(file.base.startswith("rejected.") for file in process.made_files(job)),
        listed=LISTED,
        files_of=files_of,
        total=_sum(job.progress.counts),
        again=queue.new_id(),
        is_kept=uploads.is_kept(job.id),
    )


@blueprint.post("/admin/imports/<job_id>/stop")
@pages.for_administrators
def stop(job_id: str) -> Response:
    """Stop an import; what is committed stays."""
    jobs.end(job_of(job_id, *IMPORTS))
    return pages.see_other(f"/admin/imports/{job_id}")


@blueprint.post("/admin/imports/<job_id>/again")
@pages.for_administrators
def again(job_id: str) -> Response:
    """Import the same once more: after a dry run in earnest, or what did not come to its end."""
    job, new = job_of(job_id, IMPORT), jobs.job_field()
    if queue.find(new, IMPORT) is None:
        if job.is_under_way or not uploads.hand_over(job.id, new):
            raise pages.PageError(409, _("The files are no longer available. Upload them again."))
        try:
            jobs.begin(IMPORT, {**job.request, "dry_run": False})
        except pages.PageError:
            uploads.hand_over(new, job.id)
            raise
    return pages.see_other(f"/admin/imports/{new}")


@blueprint.get("/admin/imports/<job_id>/files/<name>")
@pages.for_administrators
def file(job_id: str, name: str) -> Response:
    """Send the report, or what was refused."""
    response = jobs.made_file(job_of(job_id, *IMPORTS), name)
    jobs.note("fetched a file of import %s", job_id)
    return response


def _report(job: Job) -> dict[str, Any] | None:
    """Return the report of an import that has ended, None where there is none."""
    if job.is_under_way:
        return None
    try:
        name = next(file.name for file in process.made_files(job) if file.base == "report.json")
        content: dict[str, Any] = json.loads(shared_files(settings()).read(name))
    except (StopIteration, FileNotFoundError, ValueError):
        return None
    return content
