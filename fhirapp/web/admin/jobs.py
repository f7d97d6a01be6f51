"""What the pages of imports, exports and backups share: their jobs, and uploads in pieces.

static/upload.js sends the pieces, and asks where an interrupted upload continues.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from flask import Response, abort, current_app, request
from werkzeug.exceptions import NotFound

from fhirapp.config import ConfigurationError, settings
from fhirapp.db import forget_reader
from fhirapp.files import shared_files
from fhirapp.jobs import process, queue, uploads
from fhirapp.jobs.process import made_files
from fhirapp.jobs.queue import Job
from fhirapp.jobs.uploads import OutOfStep, Upload, UploadChunk
from fhirapp.rest import recorder
from fhirapp.rest.stream import Span, StoredContent, carry, wanted_span
from fhirapp.web import pages
from fhirapp.web.admin.audit_descriptions import VIA
from fhirapp.web.cookies import keeps
from fhirapp.web.texts import _, numeral

_log = logging.getLogger(__name__)
View = TypeVar("View", bound=Callable[..., Any])
# Of a file that is sent.
_HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Referrer-Policy": "no-referrer",
}


def too_long(command: str, form: str) -> Response:
    """Return the page for an upload too large for its form, and the command that takes it."""
    text = _(
        "Without JavaScript, you can upload at most 1 MB in total. Allow JavaScript for this site, "
        "or copy the files to the server and run there: %(command)s",
        command=f"fhirapp {command}",
    )
    return pages.error_page(413, text, _("Too large for this form"), form)


def phase_of(job: Job) -> str:
    """Return where a job is, in words."""
    if job.is_stopping:
        return _("stopping")
    return {
        queue.BEGINS: _("starting"),
        queue.WAITS: _("waiting for another import"),
        queue.WORKS: _("running"),
        queue.UPLOADING: _("storing files"),
        queue.DONE: _("done"),
        queue.FAILED: _("failed"),
        queue.STOPPED: _("stopped"),
        queue.INTERRUPTED: _("interrupted"),
    }[job.progress.phase if job.is_under_way else job.state]


def duration_of(job: Job) -> str:
    """Return how long a job has taken: 3 min 20 s; empty where nobody knows."""
    if not job.is_under_way and not job.ended_at:
        return ""
    return spell((job.ended_at or int(time.time())) - job.created_at)


def spell(seconds: int) -> str:
    """Return a number of seconds as people say it."""
    minutes, rest = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return _("%(hours)s h %(minutes)s min", hours=hours, minutes=minutes)
    if minutes:
        return _("%(minutes)s min %(seconds)s s", minutes=minutes, seconds=rest)
    return _("%(seconds)s s", seconds=rest)


def size_of(count: float) -> str:
    """Return a number of bytes as people read it."""
    for unit in (_("bytes"), "kB", "MB"):
        if count < 1000:
            return f"{numeral(count, 0 if unit == _('bytes') else 1)} {unit}"
        count /= 1000
    return f"{numeral(count, 1)} GB"


def job_of(job_id: str, *kinds: str) -> Job:
    """Return a job of some kinds. Raises NotFound."""
    return queue.find(job_id, *kinds) or abort(404)


def begin(kind: str, options: Mapping[str, Any], passphrase: str = "") -> str:
    """Begin the job whose id the form has; return that. Twice is once. Raises PageError."""
    job_id = job_field()
    user = pages.signed_in().user
    try:
        is_new = process.start(
            job_id,
            kind,
            owner=user.username,
            request=options,
            now=int(time.time()),
            passphrase=passphrase,
        )
    except ConfigurationError as error:
        raise pages.PageError(503, str(error), _("Not started")) from None
    if is_new:
        note(f"began {kind} %s", job_id)
        recorder.note(user.id, VIA, urlencode({"task": job_id, **options}, doseq=True))
    return job_id


def job_field() -> str:
    """Return the id that a form has for the job that it begins. Raises PageError."""
    job_id = pages.field("task", 64)
    if not queue.is_id(job_id):
        raise pages.PageError(400, _("The form is incomplete. Reload the page and try again."))
    return job_id


def end(job: Job) -> None:
    """Ask a job to stop; asked again, it ends at once."""
    forget_reader()
    queue.request_stop(job.id)
    note(f"stopped {job.kind} %s", job.id)


def note(what: str, *names: str) -> None:
    """Write into the log what an administrator did; names are of ours, never a file's."""
    _log.info(f"%s {what}", pages.signed_in().user.username, *names)


def watched(view: View) -> View:
    """Send a page that looks again by itself to the sign-in, once nobody is signed in any more."""

    @wraps(view)
    def looked(*args: Any, **values: Any) -> Any:
        found = pages.current_session()
        if request.headers.get("HX-Request") and (found is None or not found.complete):
            back = pages.sign_in_address(request.path)
            return Response(status=204, headers={"HX-Redirect": back, "Cache-Control": "no-store"})
        return view(*args, **values)

    return cast(View, looked)


def made_file(job: Job, name: str) -> Response:
    """Send a file that a job made. Raises NotFound."""
    for file in made_files(job):
        if file.base == name:
            return sent(file.name)
    raise NotFound


def sent(name: str) -> Response:
    """Send a file to be kept, whole or the part that is asked for. Raises NotFound, OSError."""
    try:
        content = StoredContent.of(shared_files(settings()), name)
    except FileNotFoundError:
        raise NotFound from None
    recorder.note(pages.signed_in().user.id, VIA)
    response = Response(content_type="application/octet-stream", headers=_HEADERS)
    response.headers.set("Content-Disposition", "attachment", filename=name.rpartition("/")[2])
    span = wanted_span(content.length, None)
    if span is not None:
        response.status_code = 206
        response.headers["Content-Range"] = span.content_range(content.length)
    carry(response, content, span or Span(0, content.length))
    return response


def take_upload(upload_id: str) -> Upload | None:
    """Return the upload of a form, with files that the form itself brings; None for no files.

    A browser without scripts sends files in the form. Otherwise the form has a summary of what was
    uploaded. Raises ConfigurationError where this server has other files.
    """
    user_id, summary = pages.signed_in().user.id, request.form.get("uploaded")
    if summary:
        before = uploads.find(upload_id, user_id)
        if before is None or before.summary != summary:
            raise ConfigurationError(uploads.ELSEWHERE)
    chosen = [file for file in request.files.getlist("files") if file.filename]
    for number, sent in enumerate(chosen):
        content = sent.read()
        chunk = UploadChunk(number, sent.filename or "", len(content), 0, len(content), content)
        try:
            uploads.add(upload_id, user_id, chunk)
        except OutOfStep:
            # The form was sent twice.
            continue
    return uploads.find(upload_id, user_id)


blueprint = pages.blueprint_of("admin_uploads", __name__)


@blueprint.get("/admin/uploads/<upload_id>")
@pages.for_administrators
def status(upload_id: str) -> Response:
    """Tell which files of an upload are here, and how much of each."""
    if not queue.is_id(upload_id):
        raise NotFound
    found = uploads.find(upload_id, pages.signed_in().user.id)
    return _answer(200, files=[file._asdict() for file in found.files] if found else [])


@blueprint.post("/admin/uploads/<upload_id>/<int:number>")
@pages.for_administrators
def piece(upload_id: str, number: int) -> Response:
    """Add a piece, the body as it is, to a file; tell how much of that is here."""
    if not queue.is_id(upload_id):
        raise NotFound
    if queue.find_any(upload_id) is not None:
        return _answer(410, said=_("This upload is already being imported. Reload the page."))
    try:
        size, at, left = (request.args.get(name, -1, type=int) for name in ("size", "at", "left"))
        content = request.get_data()
        chunk = UploadChunk(number, request.args.get("name", ""), size, at, left, content)
        have = uploads.add(upload_id, pages.signed_in().user.id, chunk)
    except OutOfStep as error:
        return _answer(409, have=error.have)
    except ConfigurationError as error:
        return _answer(422, said=str(error))
    return _answer(200, have=have)


@blueprint.post("/admin/uploads/<upload_id>/discard")
@keeps(page="/admin/imports")
@pages.for_administrators
def discard(upload_id: str) -> Response:
    """Remove what was uploaded, and nothing was done with."""
    if uploads.find(upload_id, pages.signed_in().user.id) is None:
        raise NotFound
    uploads.remove(upload_id)
    note("discarded upload %s", upload_id)
    return pages.see_other("/admin/imports?done=discarded")


def _answer(status_code: int, **values: object) -> Response:
    return current_app.make_response((values, status_code, {"Cache-Control": "no-store"}))
