"""The documents of a note: their bytes, as the person may read them, and how each is shown."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from threading import Lock
from typing import Any, Literal, NamedTuple

from fhirapp.address import base_url
from fhirapp.auth.clients.pages import OwnToken
from fhirapp.store.attachments import sha1
from fhirapp.text import Extractor, Unreadable
from fhirapp.text.media import Reading, kind_of
from fhirapp.text.words import decode
from fhirapp.web.ask import ask
from fhirapp.web.notes.said import format_of, shortened
from fhirapp.web.texts import _

VIA = "notes"
MAX_BYTES = 20_000_000
# Of a note; who has more of them downloads the rest.
MAX_ATTACHMENTS = 20
_SHOWN_CHARACTERS = 1_000_000
_PICTURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))
_NO_TEXT = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))

Way = Literal["text", "frame", "pdf", "picture", "words", "download"]


class Attachment(NamedTuple):
    """An attachment of a note; number counts from 1.

    problem says why its bytes are not there, then data is None; remark what is odd about them.
    """

    number: int
    title: str
    content_type: str
    data: bytes | None
    problem: str = ""
    remark: str = ""

    @property
    def format(self) -> str:
        return format_of(self.content_type)


def attachment(note: Mapping[str, Any], number: int, token: OwnToken) -> Attachment | None:
    """Return an attachment of a note with its bytes, None where it has none of the number."""
    contents = note.get("content", ())
    if not 1 <= number <= len(contents):
        return None
    given = contents[number - 1].get("attachment") or {}
    plain = Attachment(
        number, shortened(str(given.get("title", ""))), str(given.get("contentType", "")), None
    )
    if int(given.get("size") or 0) > MAX_BYTES:
        return plain._replace(problem=_(_TOO_LARGE))
    if "data" in given:
        return _checked(_inline(plain, str(given["data"])), given)
    return _checked(_fetched(plain, str(given.get("url", "")), token), given)


_TOO_LARGE = _("It is larger than 20 MB, too large to be shown here; an app can fetch it.")


def _inline(plain: Attachment, data: str) -> Attachment:
    try:
        return plain._replace(data=base64.b64decode("".join(data.split()), validate=True))
    except (binascii.Error, ValueError):
        return plain._replace(problem=_("Its data is no valid base64, so it cannot be shown."))


def _fetched(plain: Attachment, url: str, token: OwnToken) -> Attachment:
    """Return an attachment with its bytes, from the address that it names, if that is ours."""
    if not url:
        return plain._replace(
            problem=_("The note names a document here, but neither its data nor its address.")
        )
    path = url.removeprefix(f"{base_url()}/fhir/")
    if not path.startswith("Binary/"):
        where = shortened(url)
        problem = _("It is kept elsewhere and is not loaded from there: %(where)s", where=where)
        return plain._replace(problem=problem)
    answer = ask(f"/fhir/{path}", token.secret, headers={"Accept": "*/*"}, via=VIA)
    if answer.status == 200 and len(answer.body) <= MAX_BYTES:
        return plain._replace(
            data=answer.body,
            content_type=plain.content_type or answer.headers.get("Content-Type", ""),
        )
    if answer.status == 200:
        return plain._replace(problem=_(_TOO_LARGE))
    if answer.status == 410:
        return plain._replace(problem=_("The document was deleted."))
    return plain._replace(problem=_("The document is not here (any more), or you may not read it."))


def _checked(found: Attachment, given: Mapping[str, Any]) -> Attachment:
    """Say so where the bytes are not those that the note was made with."""
    expected = given.get("hash")
    if found.data is None or not expected or sha1(found.data) == expected:
        return found
    return found._replace(
        remark=_(
            "The file was replaced after this version of the note was made. What you see is the"
            " file as it is now; the earlier bytes are no longer served."
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
    if kind.reader in ("json", "rtf"):
        return "words"
    return {"plain": "text", "html": "frame", "pdf": "pdf"}[kind.reader]  # type: ignore[return-value]


def picture_type(data: bytes) -> str:
    """Return the media type of a picture that a browser may show, by how it begins."""
    return next((one for start, one in _PICTURES if data.startswith(start)), "")


def plain_text(found: Attachment) -> tuple[str, bool]:
    """Return the characters of plain text with its lines, and whether that is not all of it."""
    data = found.data or b""
    text = decode(data, kind_of(found.content_type, data).codec)
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_NO_TEXT)
    return text[:_SHOWN_CHARACTERS], len(text) > _SHOWN_CHARACTERS


def read_words(found: Attachment) -> Reading:
    """Return the text of a document, as the search reads it. Raises Unreadable."""
    return extractor().read(found.data or b"", found.content_type)


def words(found: Attachment) -> str:
    """Return that text alone. Raises Unreadable."""
    return read_words(found).text


_made: dict[int, Extractor] = {}
_lock = Lock()


def extractor() -> Extractor:
    """Return this process's reader of documents: a process that is forked has another.

    Others wait for it meanwhile, so it takes less time than an import may.
    """
    with _lock:
        return _made.setdefault(os.getpid(), Extractor(seconds=5))
