"""The documents of a note: their bytes as the viewer may read them, and how each is shown.

HTML, Word and OpenDocument are framed after cleaning; pictures are of PDF pages; every file can be
downloaded.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from flask import Response, render_template, request
from markupsafe import Markup
from sqlalchemy import select

from fhirapp import urls
from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.documents import Unreadable
from fhirapp.documents.extractor import shared_extractor
from fhirapp.documents.media import ExtractedText, decode, kind_of
from fhirapp.features.notes import elements
from fhirapp.fhir import words
from fhirapp.resources.binary.content import content_disposition
from fhirapp.store.prepare import sha1
from fhirapp.web.internal_client import ask
from fhirapp.web.labels import format_of
from fhirapp.web.pages import PageError
from fhirapp.web.texts import _

VIA = "notes"
MAX_BYTES = 20_000_000
# Of a note; who has more of them downloads the rest.
MAX_ATTACHMENTS = 20
_SHOWN_CHARACTERS = 1_000_000
_PICTURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))
_NO_TEXT = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))

Way = Literal["text", "frame", "pdf", "picture", "words", "download"]
_WAYS: dict[str, Way] = {
    "docx": "frame",
    "html": "frame",
    "odt": "frame",
    "json": "words",
    "pdf": "pdf",
    "plain": "text",
    "rtf": "words",
}


class Attachment(NamedTuple):
    """An attachment of a note; number counts from 1.

    problem says why its bytes are not there, then data is None; remark what is odd about them.
    binary_id is of the Binary that has them, where they are stored here.
    """

    number: int
    title: str
    content_type: str
    data: bytes | None
    problem: str = ""
    remark: str = ""
    binary_id: str = ""

    @property
    def format(self) -> str:
        return format_of(self.content_type)

    @property
    def size(self) -> str:
        return elements.size(len(self.data or b""))


def attachment(note: Mapping[str, Any], number: int, token: OwnToken) -> Attachment | None:
    """Return an attachment of a note with its bytes, None where it has none of the number."""
    contents = note.get("content", ())
    if not 1 <= number <= len(contents):
        return None
    element = contents[number - 1].get("attachment") or {}
    title, content_type = words.shortened(str(element.get("title", ""))), element.get("contentType")
    url = str(element.get("url", ""))
    binary_id = url.rpartition("/Binary/")[2]
    plain = Attachment(number, title, str(content_type or ""), None, binary_id=binary_id)
    if int(element.get("size") or 0) > MAX_BYTES:
        return plain._replace(problem=_(_TOO_LARGE))
    found = _inline(plain, str(element["data"])) if "data" in element else _fetch(plain, url, token)
    return _check_hash(found, element)


_TOO_LARGE = _("Larger than 20 MB, too large to show here. An app can download it.")


def _inline(plain: Attachment, data: str) -> Attachment:
    try:
        return plain._replace(data=base64.b64decode("".join(data.split()), validate=True))
    except (binascii.Error, ValueError):
        return plain._replace(problem=_("Its data is not valid base64, so it cannot be shown."))


def _fetch(plain: Attachment, url: str, token: OwnToken) -> Attachment:
    """Return an attachment with its bytes, from the address that it names, if that is ours."""
    path = url.removeprefix(f"{urls.base_url()}/fhir/")
    if not url:
        problem = _("The note refers to a document, but contains neither its data nor its address.")
        return plain._replace(problem=problem)
    if not path.startswith("Binary/"):
        where = words.shortened(url)
        problem = _("Stored on another server, and not loaded from there: %(where)s", where=where)
        return plain._replace(problem=problem)
    answer = ask(f"/fhir/{path}", token.secret, headers={"Accept": "*/*"}, via=VIA)
    if answer.status == 200 and len(answer.body) <= MAX_BYTES:
        content_type = plain.content_type or answer.headers.get("Content-Type", "")
        return plain._replace(data=answer.body, content_type=content_type)
    problems = {200: _(_TOO_LARGE), 410: _("The document was deleted.")}
    other = _("The document is not available, or you don't have access to it.")
    return plain._replace(problem=problems.get(answer.status, other))


def _check_hash(found: Attachment, element: Mapping[str, Any]) -> Attachment:
    """Say so where the bytes are not those that the note was made with."""
    expected = element.get("hash")
    if found.data is None or not expected or sha1(found.data) == expected:
        return found
    return found._replace(
        remark=_(
            "The file was replaced after this version of the note was created. You see the "
            "current file; the earlier file is no longer available."
        )
    )


def way(found: Attachment) -> Way:
    """Return how a document is shown."""
    data = found.data or b""
    if picture_type(data):
        return "picture"
    try:
        kind = kind_of(found.content_type, data)
    except Unreadable:
        return "download"
    if kind.reader == "xml":
        return "frame" if b"ClinicalDocument" in data[:4096].replace(b"\0", b"") else "words"
    return _WAYS[kind.reader]


def picture_type(data: bytes) -> str:
    """Return the media type of a picture that a browser may show, by how it begins."""
    return next((media_type for start, media_type in _PICTURES if data.startswith(start)), "")


def plain_text(found: Attachment) -> tuple[str, bool]:
    """Return the characters of plain text with its lines, and whether that is not all of it."""
    data = found.data or b""
    text = decode(data, kind_of(found.content_type, data).codec)
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_NO_TEXT)
    return text[:_SHOWN_CHARACTERS], len(text) > _SHOWN_CHARACTERS


def read_words(found: Attachment) -> ExtractedText:
    """Return the text of a document, as the search reads it. Raises Unreadable."""
    if text := machine_read(found):
        return ExtractedText(text, machine_read=True)
    return shared_extractor().read(found.data or b"", found.content_type)


# Beside each text of which this is true.
MACHINE_READ = _("Machine-read (OCR): may be wrong or incomplete. Compare it with the scan.")


def machine_read(found: Attachment) -> str:
    """Return the OCR text of a document, "" for none. Who may read the bytes may read it."""
    row = types()["Binary"].table.c
    same = (row.id == found.binary_id, row.hash == sha1(found.data or b""))
    read = select(row.machine_read).where(*same, row.machine_read.is_not(None)).limit(1)
    return db.session.scalar(read) or ""


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
        return _picture(kind, data, 0, lambda: data)
    if way(found) != "frame":
        raise PageError(404, _("This document cannot be shown in a frame."))
    try:
        # nh3 sanitized it, with the elements and attributes of fhirapp/documents/markup.py.
        html, reason = Markup(shared_extractor().html_of(data, found.content_type)), ""
    except Unreadable as error:
        html, reason = Markup(""), str(error)
    body = render_template("notes/framed.html", title=found.title, html=html, reason=reason)
    return _answer(body.encode(), "text/html; charset=utf-8")


def page_picture(found: Attachment, number: int) -> Response:
    """Return the picture of a PDF's page. Raises PageError."""
    data = _bytes(found)
    if number < 1 or way(found) != "pdf":
        raise PageError(404, _("This document does not have that page."))
    try:
        return _picture("image/png", data, number, lambda: shared_extractor().page_of(data, number))
    except Unreadable as error:
        raise PageError(404, _("This page cannot be shown: %(why)s.", why=str(error))) from None


def file(found: Attachment, name: str) -> Response:
    """Return the file itself, to be saved. Raises PageError.

    Only its name has its type: a file served as a script could be one of our pages'.
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


def _picture(kind: str, data: bytes, number: int, draw: Callable[[], bytes]) -> Response:
    """Return a picture that the browser keeps for its person, and asks about each time."""
    etag = f"{sha256(data).hexdigest()[:32]}-{number}"
    is_known = request.if_none_match.contains(etag)
    response = _answer(b"" if is_known else draw(), kind, 304 if is_known else 200)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Cookie"
    response.set_etag(etag)
    return response


def _answer(body: bytes, kind: str, status: int = 200) -> Response:
    headers = {
        "Content-Security-Policy": _POLICY,
        "X-Frame-Options": "SAMEORIGIN",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    return Response(body, status, headers, content_type=kind)
