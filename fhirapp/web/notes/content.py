"""What a note's page frames and loads: safe HTML, pictures; and the file itself, to be saved.

Each of these answers allows no script, no form and nothing from elsewhere, and is in a sandbox: it
has no origin, so whatever it were, it could not ask ours for anything.
"""

from __future__ import annotations

import re
from hashlib import sha256

from flask import Response, render_template, request
from markupsafe import Markup

from fhirapp.resources.binary.filename import content_disposition
from fhirapp.text import Unreadable
from fhirapp.web.notes.attachments import Attachment, extractor, picture_type, way
from fhirapp.web.pages import PageError
from fhirapp.web.texts import _

_POLICY = (
    "sandbox; default-src 'none'; style-src 'self'; img-src data:; form-action 'none';"
    " base-uri 'none'; frame-ancestors 'self'"
)
_ANY = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")


def content(found: Attachment) -> Response:
    """Return what is shown of a document: HTML for a frame, or a picture. Raises PageError."""
    data = _bytes(found)
    if kind := picture_type(data):
        return _cached(data, kind, data)
    if way(found) != "frame":
        raise PageError(404, _("This document is not shown in a frame."))
    try:
        # It comes from nh3, with the elements and attributes of fhirapp/text/showing.py.
        html, told = Markup(extractor().html_of(data, found.content_type)), ""
    except Unreadable as error:
        html, told = Markup(""), str(error)
    body = render_template("notes/framed.html", title=found.title, html=html, told=told)
    return _answer(body.encode(), "text/html; charset=utf-8")


def page_picture(found: Attachment, number: int) -> Response:
    """Return the picture of a PDF's page. Raises PageError."""
    data = _bytes(found)
    if number < 1 or way(found) != "pdf":
        raise PageError(404, _("This document has no such page."))
    if _known(data, number):
        return _cached(data, "image/png", b"", number)
    try:
        return _cached(data, "image/png", extractor().page_of(data, number), number)
    except Unreadable as error:
        raise PageError(404, _("This page cannot be shown: %(why)s.", why=str(error))) from None


def file(found: Attachment, name: str) -> Response:
    """Return the file itself, to be saved. Raises PageError.

    Its type is in its name alone: what is served as a script could be one of our pages'.
    """
    essence = found.content_type.partition(";")[0].strip().lower()
    kind = essence if _MEDIA_TYPE.fullmatch(essence) else _ANY
    response = _answer(_bytes(found), _ANY)
    response.headers["Content-Disposition"] = content_disposition(name, kind)
    return response


def _bytes(found: Attachment) -> bytes:
    if found.data is None:
        raise PageError(404, found.problem)
    return found.data


def _etag(data: bytes, number: int) -> str:
    return f'"{sha256(data).hexdigest()[:32]}-{number}"'


def _known(data: bytes, number: int) -> bool:
    """Say whether the browser has it already."""
    return request.headers.get("If-None-Match") == _etag(data, number)


def _cached(data: bytes, kind: str, shown: bytes, number: int = 0) -> Response:
    """Return a picture that the browser keeps for its person, and asks about each time."""
    response = _answer(b"", kind, 304) if _known(data, number) else _answer(shown, kind)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["ETag"] = _etag(data, number)
    response.headers["Vary"] = "Cookie"
    return response


def _answer(body: bytes, kind: str, status: int = 200) -> Response:
    response = Response(body, status, content_type=kind)
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    return response
