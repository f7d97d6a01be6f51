"""Uploads in pieces: what static/upload.js sends, and asks for to go on where it was."""

from __future__ import annotations

import shutil

from flask import Response, jsonify, request
from werkzeug.exceptions import NotFound

from fhirapp.config import ConfigurationError, settings
from fhirapp.ops.tasks import folder as tasks
from fhirapp.ops.tasks import uploads
from fhirapp.ops.tasks.uploads import OutOfStep, Piece
from fhirapp.web.admin.running import note
from fhirapp.web.pages import blueprint_of, for_administrators, see_other, somebody
from fhirapp.web.texts import _
from fhirapp.web.typed import keeps

blueprint = blueprint_of("admin_uploads", __name__)


@blueprint.get("/admin/uploads/<upload_id>")
@for_administrators
def status(upload_id: str) -> Response:
    """Tell which files of an upload are here, and how much of each."""
    if not tasks.is_id(upload_id):
        raise NotFound
    found = uploads.find(settings(), upload_id, somebody().user.id)
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
        have = uploads.add(settings(), upload_id, somebody().user.id, one)
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
    if uploads.find(settings(), upload_id, somebody().user.id) is None:
        raise NotFound
    shutil.rmtree(uploads.folder_of(settings(), upload_id), ignore_errors=True)
    note("discarded upload %s", upload_id)
    return see_other("/admin/imports?done=discarded")


def _told(status_code: int, **values: object) -> Response:
    response = jsonify(values)
    response.status_code = status_code
    response.headers["Cache-Control"] = "no-store"
    return response
