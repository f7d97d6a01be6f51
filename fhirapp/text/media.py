"""Which reader a document needs: by its media type, or by how it starts."""

from __future__ import annotations

import codecs
import re
from typing import Literal, NamedTuple

from fhirapp.text.words import codec_of

# "xml-alone" leaves the files within a C-CDA unread.
Reader = Literal["plain", "html", "xml", "xml-alone", "json", "rtf", "pdf"]
# What shows a document, instead of reading its words.
Shower = Literal["show-html", "show-xml", "show-pdf"]


class Unreadable(ValueError):
    """A document whose words cannot be read; says why, without a word of it."""


class Unread(NamedTuple):
    """A file within a document whose words cannot be read: the title of its section, and why."""

    section: str
    reason: str


class Reading(NamedTuple):
    """The tidy text of a document, and what of it could not be read."""

    text: str
    unread: tuple[Unread, ...] = ()


class Kind(NamedTuple):
    """The reader of a document, and the codec of the charset that its media type names, or ""."""

    reader: Reader | Shower
    codec: str


_READERS: dict[str, Reader] = {
    "application/json": "json",
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/x-pdf": "pdf",
    "application/x-rtf": "rtf",
    "application/xhtml+xml": "html",
    "application/xml": "xml",
    "text/html": "html",
    "text/json": "json",
    "text/rtf": "rtf",
    "text/xml": "xml",
}
# RFC 6839: what a media type with such an end can be read as.
_FAMILIES: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (re.compile(r"(?:application|text)/.+\+xml"), "xml"),
    (re.compile(r"(?:application|text)/.+\+json"), "json"),
    (re.compile(r"text/.+"), "plain"),
)
# RFC 6838 §4.2
_NAME = "[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_MEDIA_TYPE = re.compile(f"{_NAME}/{_NAME}")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^"';\s]+)""", re.IGNORECASE)
# They say only that there are bytes.
_SAY_NOTHING = frozenset({"", "application/octet-stream", "binary/octet-stream"})

# No document of another kind begins with these, so they count for more than the media type: a
# .doc that is RTF is called application/msword.
_SIGNATURES: tuple[tuple[bytes, Reader], ...] = ((b"%PDF-", "pdf"), (b"{\\rtf", "rtf"))
_HTML = re.compile(
    rb"(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL
)
_XML = re.compile(rb"<\?xml\s|<(?:\w+:)?ClinicalDocument[\s>]")
_START = 1024


def kind_of(content_type: str, data: bytes) -> Kind:
    """Return what reads a document. Raises Unreadable where nothing does.

    content_type may be in any case, have parameters, be empty or not be a media type at all.
    """
    essence, _, parameters = content_type.partition(";")
    essence = essence.strip().lower()
    found = _CHARSET.search(parameters)
    codec = codec_of(found[1]) if found else ""
    start = data[:_START].removeprefix(codecs.BOM_UTF8).lstrip()
    for signature, reader in _SIGNATURES:
        if start.startswith(signature):
            return Kind(reader, codec)
    if essence in _READERS:
        return Kind(_READERS[essence], codec)
    for pattern, reader in _FAMILIES:
        if pattern.fullmatch(essence):
            return Kind(reader, codec)
    named = _MEDIA_TYPE.fullmatch(essence)
    if named and essence not in _SAY_NOTHING:
        raise Unreadable(f"{essence} is not read")
    return Kind(_guess(start, data), codec)


def _guess(start: bytes, data: bytes) -> Reader:
    """Return what reads a document of which nothing is said. Raises Unreadable."""
    if _HTML.match(start):
        return "html"
    if _XML.match(start):
        return "xml"
    if b"\0" not in data:
        try:
            data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return "plain"
    raise Unreadable("what has no media type is read only if it is text, PDF or RTF")
