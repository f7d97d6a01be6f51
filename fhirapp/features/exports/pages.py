"""Exports: begun here and fetched here; and those that clients began with $export."""

from __future__ import annotations

import time
from collections.abc import Sequence

from flask import Response, request
from werkzeug.exceptions import NotFound

from fhirapp.auth.models import Client
from fhirapp.config import RefusedCommand, settings
from fhirapp.definition import types
from fhirapp.features.exports.jobs import ARCHIVE, BULK_EXPORT, EXPORT, kept_until, percent_of
from fhirapp.features.exports.jobs import cancel as cancel_export
from fhirapp.fhir.temporal import instant_of, local_interval
from fhirapp.jobs import process, queue
from fhirapp.jobs.worker import sweep
from fhirapp.web import pages
from fhirapp.web.admin import jobs
from fhirapp.web.admin.audit_descriptions import names_of
from fhirapp.web.admin.jobs import job_of, watched
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("admin_exports", __name__)
# An export that is removed while it is shown.
blueprint.register_error_handler(FileNotFoundError, lambda _error: pages.error_page(404))
# The most bulk exports of clients that are listed.
_LISTED = 100


@blueprint.get("/admin/exports")
@watched
@pages.for_administrators
def every() -> Response:
    """List the exports, and ask for what to export."""
    sweep(int(time.time()))
    return _form()


def _form(message: str = "", status: int = 200) -> Response:
    listed, filled, now = queue.jobs(EXPORT), form_fields(), time.time()
    begun = queue.jobs(BULK_EXPORT, limit=_LISTED)
    return pages.page(
        "exports/exports.html",
        status,
        scripts=True,
        job_id=queue.new_id(),
        types=_types(),
        chosen=filled.getlist("type"),
        since=filled.get("since", "")[:100],
        history=filled.get("history"),
        message=message,
        done=pages.done_message(
            {
                "cancelled": _("Export cancelled. Its files were removed."),
                "removed": _("The files of the export were removed."),
            }
        ),
        jobs=listed,
        begun=begun,
        clients=names_of(Client.client_id, Client.name, (job.owner for job in begun)),
        now=now,
        is_under_way=any(job.is_under_way for job in listed)
        or any(job.is_under_way and (job.expires_at or 0) > now for job in begun),
        kept_until=kept_until,
        percent_of=percent_of,
        hours=settings().export_hours,
    )


@blueprint.post("/admin/exports")
@keeps("type", "since", "history")
@pages.for_administrators
@pages.form_action(_form)
def begin() -> Response:
    """Begin an export."""
    names = [name for name in request.form.getlist("type") if name in _types()]
    since = pages.field("since", 100)
    try:
        start_at = instant_of(local_interval(since).low) if since else ""
    except ValueError:
        raise RefusedCommand(
            "Enter the date or time as 2026-05-03 or 2026-05-03T14:05:00Z, or leave it empty."
        ) from None
    history = bool(request.form.get("history"))
    options = {"types": names, "since": start_at, "history": history}
    return pages.see_other(f"/admin/exports/{jobs.begin(EXPORT, options)}")


@blueprint.get("/admin/exports/<job_id>")
@watched
@pages.for_administrators
def one(job_id: str) -> Response:
    """Show how far an export is, or its files."""
    job = job_of(job_id, EXPORT)
    return pages.page(
        "exports/export.html",
        scripts=True,
        job=job,
        archive=ARCHIVE,
        kept_until=kept_until(job),
    )


@blueprint.post("/admin/exports/<job_id>/stop")
@pages.for_administrators
def stop(job_id: str) -> Response:
    """Stop an export: nothing of it stays."""
    jobs.end(job_of(job_id, EXPORT))
    return pages.see_other(f"/admin/exports/{job_id}")


@blueprint.post("/admin/exports/<job_id>/remove")
@pages.for_administrators
def remove(job_id: str) -> Response:
    """Remove the files of an export before their time."""
    job = job_of(job_id, EXPORT)
    if not job.is_under_way:
        process.remove(job)
        jobs.note("removed export %s", job_id)
    return pages.see_other("/admin/exports?done=removed")


@blueprint.get("/admin/exports/<job_id>/files/<name>")
@pages.for_administrators
def file(job_id: str, name: str) -> Response:
    """Send a file of an export."""
    job = job_of(job_id, EXPORT)
    if job.is_under_way or time.time() > kept_until(job):
        raise NotFound
    response = jobs.made_file(job, name)
    jobs.note("fetched a file of export %s", job_id)
    return response


@blueprint.post("/admin/exports/clients/<export_id>/cancel")
@pages.for_administrators
def cancel(export_id: str) -> Response:
    """Cancel an export that a client began, and remove its files."""
    # Its id is a folder's name: only one that is known.
    if queue.find(export_id, BULK_EXPORT) is None:
        raise NotFound
    cancel_export(export_id)
    # Not the id, which would give access to its files.
    jobs.note("cancelled an export that a client began")
    return pages.see_other("/admin/exports?done=cancelled")


def _types() -> Sequence[str]:
    """Return the names of the types that are stored, and not made of others."""
    return sorted(name for name, definition in types().items() if not definition.view)
