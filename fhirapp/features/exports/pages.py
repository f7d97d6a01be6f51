"""Exports: begun here and fetched here; and those that clients began with $export."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from flask import Response, request
from sqlalchemy import select
from werkzeug.exceptions import NotFound

from fhirapp.auth.models import Client
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.features.exports import jobs
from fhirapp.features.exports.jobs import ARCHIVE, BULK_EXPORT, EXPORT, kept_until
from fhirapp.fhir.temporal import instant_of, local_interval
from fhirapp.jobs import process, queue
from fhirapp.jobs.queue import DONE, FAILED, QUEUED, RUNNING, Job
from fhirapp.jobs.worker import sweep
from fhirapp.web.admin import jobs as admin_jobs
from fhirapp.web.admin.jobs import job_of, watched
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.pages import blueprint_of, error_page, field, for_administrators, page, see_other
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_exports", __name__)
# An export that is removed while it is shown.
blueprint.register_error_handler(FileNotFoundError, lambda _error: error_page(404))
# The most bulk exports of clients that are listed.
_LISTED = 100


@blueprint.get("/admin/exports")
@watched
@for_administrators
def every() -> Response:
    """List the exports, and ask for what to export."""
    sweep(int(time.time()))
    return _form()


@blueprint.post("/admin/exports")
@keeps("type", "since", "history")
@for_administrators
def begin() -> Response:
    """Begin an export."""
    names = [name for name in request.form.getlist("type") if name in _types()]
    since = field("since", 100)
    try:
        start_at = instant_of(local_interval(since).low) if since else ""
    except ValueError:
        return _form(
            _("Enter the date or time as 2026-05-03 or 2026-05-03T14:05:00Z, or leave it empty.")
        )
    history = bool(request.form.get("history"))
    options = {"types": names, "since": start_at, "history": history}
    return see_other(f"/admin/exports/{admin_jobs.begin(EXPORT, options)}")


@blueprint.get("/admin/exports/<job_id>")
@watched
@for_administrators
def one(job_id: str) -> Response:
    """Show how far an export is, or its files."""
    job = job_of(job_id, EXPORT)
    return page(
        "exports/export.html",
        scripts=True,
        job=job,
        archive=ARCHIVE,
        kept_until=kept_until(job),
    )


@blueprint.post("/admin/exports/<job_id>/stop")
@for_administrators
def stop(job_id: str) -> Response:
    """Stop an export: nothing of it stays."""
    admin_jobs.end(job_of(job_id, EXPORT))
    return see_other(f"/admin/exports/{job_id}")


@blueprint.post("/admin/exports/<job_id>/remove")
@for_administrators
def remove(job_id: str) -> Response:
    """Remove the files of an export before their time."""
    job = job_of(job_id, EXPORT)
    if not job.is_under_way:
        process.remove(job)
        admin_jobs.note("removed export %s", job_id)
    return see_other("/admin/exports?done=removed")


@blueprint.get("/admin/exports/<job_id>/files/<name>")
@for_administrators
def file(job_id: str, name: str) -> Response:
    """Send a file of an export."""
    job = job_of(job_id, EXPORT)
    if job.is_under_way or time.time() > kept_until(job):
        raise NotFound
    response = admin_jobs.made_file(job, name)
    admin_jobs.note("fetched a file of export %s", job_id)
    return response


@blueprint.post("/admin/exports/clients/<export_id>/cancel")
@for_administrators
def cancel(export_id: str) -> Response:
    """Cancel an export that a client began, and remove its files."""
    # Its id is a folder's name: only one that is known.
    if queue.find(export_id, BULK_EXPORT) is None:
        raise NotFound
    jobs.cancel(export_id)
    # Not the id, which would give access to its files.
    admin_jobs.note("cancelled an export that a client began")
    return see_other("/admin/exports?done=cancelled")


def _form(message: str = "") -> Response:
    done = {
        "cancelled": _("Export cancelled. Its files were removed."),
        "removed": _("The files of the export were removed."),
    }
    states = {QUEUED: _("waiting"), RUNNING: _("running"), DONE: _("done"), FAILED: _("failed")}
    listed, filled, now = queue.jobs(EXPORT), form_fields(), time.time()
    begun = queue.jobs(BULK_EXPORT, limit=_LISTED)
    return page(
        "exports/exports.html",
        400 if message else 200,
        scripts=True,
        job_id=queue.new_id(),
        types=_types(),
        chosen=filled.getlist("type"),
        since=filled.get("since", "")[:100],
        history=filled.get("history"),
        message=message,
        done=done.get(request.args.get("done", ""), ""),
        jobs=listed,
        begun=begun,
        clients=_client_names(begun),
        states=states,
        percent_of=jobs.percent_of,
        now=now,
        is_under_way=any(job.is_under_way for job in listed)
        or any(job.is_under_way and (job.expires_at or 0) > now for job in begun),
        kept_until=kept_until,
        hours=settings().export_hours,
    )


def _types() -> Sequence[str]:
    """Return the names of the types that are stored, and not made of others."""
    return sorted(name for name, definition in types().items() if not definition.view)


def _client_names(exports: Iterable[Job]) -> dict[str, str | None]:
    """Return the names of the clients that began these exports, by client id."""
    owners = {job.owner for job in exports}
    names = select(Client.client_id, Client.name).where(Client.client_id.in_(owners))
    return dict(db.session.execute(names).all())
