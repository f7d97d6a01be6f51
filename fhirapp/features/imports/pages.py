"""Imports: upload, watch, report; and the list of all imports, those of the command line too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from flask import Response, request
from sqlalchemy import select

from fhirapp.config import ConfigurationError, settings
from fhirapp.db import db
from fhirapp.db.locks import is_locked
from fhirapp.features.imports import ID_PREFIX, LISTED, OUTCOMES
from fhirapp.features.imports.jobs import IMPORT, IMPORTS
from fhirapp.fhir.outcome import BodyTooLong
from fhirapp.fhir.temporal import moment_of
from fhirapp.files import shared_files
from fhirapp.jobs import process, queue, uploads
from fhirapp.jobs.queue import DONE, Job
from fhirapp.jobs.uploads import Upload
from fhirapp.jobs.worker import sweep
from fhirapp.store.import_models import TURN, ImportRun, ImportSource
from fhirapp.web import pages
from fhirapp.web.admin import jobs
from fhirapp.web.admin.jobs import job_of, watched
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.texts import _

# The most imports that are listed.
_RUNS = 50


class ImportRow(NamedTuple):
    """A line of the list: when in seconds since 1970, by whom, of what, what came of it."""

    began_at: int
    who: str
    what: str
    phase: str
    counts: Mapping[str, int]
    # The page of an import that was begun on a page.
    path: str = ""
    is_under_way: bool = False
    is_done: bool = False


def runs() -> list[ImportRow]:
    """Return the imports, newest first: those of the pages, and those of the command line."""
    import_jobs = queue.jobs(*IMPORTS, limit=_RUNS)
    # Of a dry run it is a number in the copy.
    of_jobs = {job.progress.run for job in import_jobs if not job.request.get("dry_run")}
    found = [
        *map(_run_of_job, import_jobs),
        *(run for run_id, run in _run_rows() if run_id not in of_jobs),
    ]
    return sorted(found, key=lambda run: run.began_at, reverse=True)[:_RUNS]


def _run_of_job(job: Job) -> ImportRow:
    what = ": ".join(filter(None, [job.request.get("source"), files_of(job)]))
    if job.request.get("dry_run"):
        what = _("dry run: %(what)s", what=what)
    return ImportRow(
        job.created_at,
        job.owner,
        what,
        jobs.phase_of(job),
        total_of(job),
        f"/admin/imports/{job.id}",
        job.is_under_way,
        job.state == DONE,
    )


def files_of(job: Job) -> str:
    """Return what an import was given: the first names, how many files, how large."""
    # One of an earlier release may say less.
    names, count = job.request.get("names", []), job.request.get("count", 0)
    more = _("%(count)s more", count=count - len(names)) if count > len(names) else ""
    size = job.request.get("size", 0)
    shown = ", ".join(filter(None, [*names, more]))
    return f"{shown} ({jobs.size_of(size)})" if size else shown


def _run_rows() -> Iterator[tuple[int, ImportRow]]:
    """Yield what the database knows of imports, with their numbers."""
    named = select(ImportRun, ImportSource.name).outerjoin(
        ImportSource, ImportSource.id == ImportRun.source_id
    )
    newest = None
    for run, source in db.session.execute(named.order_by(ImportRun.id.desc()).limit(_RUNS)):
        newest = newest or run.id
        inputs = ", ".join(path.rsplit("/", 1)[-1] for path in run.inputs[:3])
        if run.outcome is not None:
            phase = _("done")
        elif run.ended_at is None and run.id == newest and is_locked(settings(), TURN):
            phase = _("running")
        else:
            phase = _("interrupted")
        what = ": ".join(filter(None, [source, inputs])) or _("standard input")
        yield (
            run.id,
            ImportRow(
                int(moment_of(run.began_at).timestamp()),
                run.who,
                what,
                phase,
                _sum(run.outcome or {}),
                is_done=run.outcome is not None,
            ),
        )


def total_of(job: Job) -> Mapping[str, int]:
    """Return what came of an import: each outcome with its count, of all types."""
    return _sum(job.progress.counts)


def _sum(counts: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    """Return the counts of all types together."""
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
# The most items that are shown of each list in a report.
_SHOWN = 100
# The prefix of the names of files with rejected records.
REJECTED = "rejected."
# Files that are named where it is told what was imported.
_NAMED = 3
_LONGEST_SOURCE = 200
_CHOICES = ("delete_missing", "force", "repair", "provenance", "dry_run")
_TYPED = {"source": "", "prefix": "", "provenance": "yes"}


@blueprint.get("/admin/imports")
@watched
@pages.for_administrators
def every() -> Response:
    """List the imports, and ask for what to import; upload is one to go on with."""
    sweep(int(time.time()))
    kept = form_fields()
    return _form(request.args.get("upload") or kept.get("task", ""), kept=kept)


@blueprint.post("/admin/imports")
@keeps("task", "source", "prefix", *_CHOICES)
@pages.for_administrators
def begin() -> Response:
    """Begin an import of what was uploaded in pieces before, or comes with this form."""
    job_id = jobs.job_field()
    if queue.find(job_id, IMPORT) is not None:
        return pages.see_other(f"/admin/imports/{job_id}")
    options: dict[str, Any] = {name: bool(request.form.get(name)) for name in _CHOICES}
    source, prefix = pages.field("source", _LONGEST_SOURCE), pages.field("prefix", 100)
    try:
        found = jobs.take_upload(job_id)
    except ConfigurationError as error:
        return _form(job_id, str(error))
    message = _fault(found, source, prefix, delete_missing=options["delete_missing"])
    if message or found is None:
        return _form(job_id, message)
    what = {"names": [upload_file.name for upload_file in found.files[:_NAMED]], "size": found.size}
    options |= {"source": source, "prefix": prefix, "count": len(found.files), **what}
    jobs.begin(IMPORT, options)
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
        shown=_SHOWN,
        has_rejected=any(file.base.startswith(REJECTED) for file in process.made_files(job)),
        listed=LISTED,
        files_of=files_of,
        total=total_of(job),
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


def _form(
    upload_id: str,
    message: str = "",
    status: int = 400,
    kept: Mapping[str, str] = MappingProxyType({}),
) -> Response:
    upload = uploads.find(upload_id, pages.signed_in().user.id)
    filled = request.form if request.method == "POST" else kept or _TYPED
    mine = uploads.of_user(pages.signed_in().user.id)
    known = request.method == "POST" and queue.is_id(upload_id)
    found = runs()
    return pages.page(
        "imports/imports.html",
        status if message else 200,
        scripts=True,
        job_id=upload_id if upload or known else queue.new_id(),
        upload=upload,
        unfinished=[other for other in mine if other.id != upload_id],
        typed=filled,
        message=message,
        done=_("Upload removed.") if request.args.get("done") else "",
        runs=found,
        is_under_way=any(run.is_under_way for run in found),
        sources=db.session.scalars(select(ImportSource.name).order_by(ImportSource.name)).all(),
        most=uploads.MOST_FILES,
    )


def _fault(upload: Upload | None, source: str, prefix: str, *, delete_missing: bool) -> str:
    """Return what is wrong with what was asked for, empty where nothing is."""
    if upload is None or not upload.files:
        return _("Choose files or a folder to import.")
    if not upload.is_whole:
        return _("The upload is incomplete. Choose the same files again to continue it.")
    if delete_missing and not source:
        return _(
            "Enter a source: records missing from the source can only be deleted if the "
            "source is named."
        )
    if not ID_PREFIX.fullmatch(prefix):
        return _("A prefix for ids can have up to 20 letters, digits, dashes and dots.")
    return ""


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
