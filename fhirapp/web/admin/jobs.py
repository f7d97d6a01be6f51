"""What the pages of imports, exports and backups share: their tasks, and uploads in pieces.

static/upload.js sends the pieces, and asks where an interrupted upload continues.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from flask import Response, jsonify, request, send_file
from werkzeug.exceptions import NotFound

from fhirapp.audit import write
from fhirapp.config import ConfigurationError, settings
from fhirapp.jobs import files as tasks
from fhirapp.jobs import uploads
from fhirapp.jobs.files import BEGINS, DONE, FAILED, KILLED, STOPPED, WAITS, WORKS, Task
from fhirapp.jobs.start import start, stop
from fhirapp.jobs.uploads import OutOfStep, Piece
from fhirapp.web.admin.audit_descriptions import VIA
from fhirapp.web.cookies import keeps
from fhirapp.web.pages import (
    PageError,
    blueprint_of,
    current_session,
    field,
    for_administrators,
    see_other,
    sign_in_address,
    signed_in,
)
from fhirapp.web.texts import _

_log = logging.getLogger(__name__)
View = TypeVar("View", bound=Callable[..., Any])


def phase_of(task: Task) -> str:
    """Return where a task is, in words."""
    if task.is_stopping:
        return _("is being stopped")
    return {
        BEGINS: _("begins"),
        WAITS: _("waits for another import to end"),
        WORKS: _("at work"),
        DONE: _("done"),
        FAILED: _("failed"),
        STOPPED: _("stopped"),
        KILLED: _("broken off"),
    }[task.state.phase]


def duration_of(task: Task) -> str:
    """Return how long a task has taken: 3 min 20 s; empty where nobody knows."""
    if not task.is_under_way and not task.state.ended_at:
        return ""
    return spell((task.state.ended_at or int(time.time())) - task.asked_at)


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
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def task_of(task_id: str, *kinds: str) -> Task:
    """Return a task of some kinds. Raises NotFound."""
    task = tasks.find(settings().instance, task_id)
    if task is None or task.kind not in kinds:
        raise NotFound
    return task


def begin(
    kind: str, asked: Mapping[str, Any], given: Path | None = None, passphrase: str = ""
) -> str:
    """Begin the task whose id the form has; return that. Twice is once. Raises PageError."""
    task_id = task_field()
    user = signed_in().user
    try:
        is_new = start(
            settings(),
            task_id,
            kind,
            who=user.username,
            now=int(time.time()),
            asked=asked,
            given=given,
            passphrase=passphrase,
        )
    except ConfigurationError as error:
        raise PageError(503, str(error), _("It was not started")) from None
    if is_new:
        note(f"began {kind} %s", task_id)
        write.note(user.id, VIA, urlencode({"task": task_id, **asked}, doseq=True))
    return task_id


def task_field() -> str:
    """Return the id that a form has for the task that it begins. Raises PageError."""
    task_id = field("task", 64)
    if not tasks.is_id(task_id):
        raise PageError(400, _("This form is not whole. Reload its page, and try again."))
    return task_id


def end(task: Task) -> None:
    """Tell a task to stop."""
    stop(task)
    note(f"stopped {task.kind} %s", task.id)


def note(what: str, *names: str) -> None:
    """Write into the log what an administrator did; names are of ours, never a file's."""
    _log.info(f"%s {what}", signed_in().user.username, *names)


def watched(view: View) -> View:
    """Send a page that looks again by itself to the sign-in, once nobody is signed in any more."""

    @wraps(view)
    def looked(*args: Any, **values: Any) -> Any:
        found = current_session()
        if request.headers.get("HX-Request") and (found is None or not found.complete):
            headers = {"HX-Redirect": sign_in_address(request.path), "Cache-Control": "no-store"}
            return Response(status=204, headers=headers)
        return view(*args, **values)

    return cast(View, looked)


def made_file(task: Task, name: str) -> Response:
    """Send a file that a task made. Raises NotFound."""
    path = next((one for one in task.files if one.name == name), None)
    if path is None:
        raise NotFound
    return sent(path, path.name)


def sent(path: Path, name: str) -> Response:
    """Send a file to be kept, whole or the part that is asked for. Raises NotFound."""
    write.note(signed_in().user.id, VIA)
    try:
        response = send_file(
            path, "application/octet-stream", as_attachment=True, download_name=name, etag=False
        )
    except OSError:
        raise NotFound from None
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


blueprint = blueprint_of("admin_uploads", __name__)


@blueprint.get("/admin/uploads/<upload_id>")
@for_administrators
def status(upload_id: str) -> Response:
    """Tell which files of an upload are here, and how much of each."""
    if not tasks.is_id(upload_id):
        raise NotFound
    found = uploads.find(settings(), upload_id, signed_in().user.id)
    return _told(200, files=[one._asdict() for one in found.files] if found else [])


@blueprint.post("/admin/uploads/<upload_id>/<int:number>")
@for_administrators
def piece(upload_id: str, number: int) -> Response:
    """Add a piece, the body as it is, to a file; tell how much of that is here."""
    if not tasks.is_id(upload_id):
        raise NotFound
    if tasks.find(settings().instance, upload_id) is not None:
        return _told(410, said=_("This upload is being imported already. Reload the page."))
    try:
        size, at, left = (request.args.get(name, -1, type=int) for name in ("size", "at", "left"))
        content = request.get_data()
        one = Piece(number, request.args.get("name", ""), size, at, left, content)
        have = uploads.add(settings(), upload_id, signed_in().user.id, one)
    except OutOfStep as error:
        return _told(409, have=error.have)
    except ConfigurationError as error:
        return _told(422, said=str(error))
    return _told(200, have=have)


@blueprint.post("/admin/uploads/<upload_id>/discard")
@keeps(page="/admin/imports")
@for_administrators
def discard(upload_id: str) -> Response:
    """Remove what was uploaded, and nothing was done with."""
    if uploads.find(settings(), upload_id, signed_in().user.id) is None:
        raise NotFound
    shutil.rmtree(uploads.folder_of(settings(), upload_id), ignore_errors=True)
    note("discarded upload %s", upload_id)
    return see_other("/admin/imports?done=discarded")


def _told(status_code: int, **values: object) -> Response:
    response = jsonify(values)
    response.status_code = status_code
    response.headers["Cache-Control"] = "no-store"
    return response
