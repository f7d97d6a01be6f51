"""The content of a Binary, read from its row a span at a time, and its file name (RFC 6266).

Only the newest version is served; its row never changes.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from fhirapp.db import Reader
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import compact
from fhirapp.resources.binary.schema import TABLE, BinarySchema
from fhirapp.rest.response import Layout, in_xml
from fhirapp.rest.stream import Span

_TABLE = TABLE.name
_SECONDS = len("2026-01-31T12:00:00")
# A byte, and how indented JSON or XML holds it where nothing else can stand: text has no line ends,
# and what is nested has more spaces.
_BYTE = b"\0"
_MARKS = {False: b'\n  "data": "AA==', True: b'\n  <data value="AA=='}


class BinaryVersion(NamedTuple):
    """The newest version; before is when the one before it was published, None for the first."""

    pk: int
    id: str
    version_id: int
    last_updated: str
    deleted: bool
    before: str | None

    @property
    def last_modified(self) -> str | None:
        """When it was published; None where an HTTP date, in whole seconds, is not its alone."""
        shared = self.before is not None and self.before[:_SECONDS] == self.last_updated[:_SECONDS]
        return None if shared else self.last_updated


def newest_version(snapshot: Reader, resource_id: str) -> BinaryVersion | None:
    """Return the newest version of a Binary, deleted or not; None where there is none."""
    found = snapshot.all(
        f'SELECT pk, id, version_id, last_updated, deleted FROM "{_TABLE}" WHERE id = ?'
        " ORDER BY version_id DESC LIMIT 2",
        (resource_id,),
    )
    if not found:
        return None
    pk, resource_id, version_id, last_updated, deleted = found[0]
    before = found[1][3] if len(found) > 1 else None
    return BinaryVersion(pk, resource_id, version_id, last_updated, bool(deleted), before)


class StoredBytes(NamedTuple):
    """The bytes of a version, and their media type."""

    version: BinaryVersion
    content_type: str
    length: int

    @classmethod
    def of(cls, snapshot: Reader, version: BinaryVersion) -> StoredBytes:
        """Return the bytes of a version, which are not read yet."""
        ((content_type, length),) = snapshot.all(
            f'SELECT content_type, length(data) FROM "{_TABLE}" WHERE pk = ?', (version.pk,)
        )
        return cls(version, content_type, length or 0)

    def piece(self, snapshot: Reader, span: Span) -> bytes:
        """Return the bytes of a span. Raises LookupError.

        A database may be restored while bytes of it are sent: another version's must not follow.
        """
        if span.start >= span.stop:
            return b""
        version = self.version
        found = snapshot.first(
            f'SELECT id, version_id, last_updated, length(data) FROM "{_TABLE}" WHERE pk = ?',
            (version.pk,),
        )
        if found != (version.id, version.version_id, version.last_updated, self.length):
            raise LookupError(f"Binary/{version.id} was replaced while it was sent")
        return snapshot.slice(_TABLE, "data", version.pk, span.start, span.stop - span.start)


class StoredResource(NamedTuple):
    """FHIR JSON or XML: the base64 of stored bytes between what is before and after it."""

    head: bytes
    stored: StoredBytes
    tail: bytes

    @classmethod
    def of(
        cls, snapshot: Reader, stored: StoredBytes, schema: BinarySchema, layout: Layout
    ) -> StoredResource:
        """Return the resource that a version is, its data not read yet. Raises NotAcceptable."""
        version = stored.version
        ((meta, security_context, extra),) = snapshot.all(
            # As text: a driver that reads JSON itself would lose digits of decimals.
            "SELECT CAST(meta AS TEXT), CAST(security_context AS TEXT), CAST(extra AS TEXT)"
            f' FROM "{_TABLE}" WHERE pk = ?',
            (version.pk,),
        )
        resource = schema.dump(
            {
                "id": version.id,
                "version_id": version.version_id,
                "last_updated": version.last_updated,
                "content_type": stored.content_type,
                "meta": _loads(meta),
                "security_context": _loads(security_context),
                "extra": _loads(extra),
                "data": _BYTE if stored.length else None,
            }
        )
        text = fhir_json.dumps_indented(resource)
        if layout.is_xml:
            # Indented, for the mark; it has no text with line ends either.
            text = in_xml(fhir_json.loads(text), Layout(is_xml=True))
        head, mark, tail = text.partition(_MARKS[layout.is_xml])
        head += mark.removesuffix(b"AA==")
        if not layout.pretty:
            head, tail = compact(head), compact(tail)
        return cls(head, stored, tail)

    @property
    def length(self) -> int:
        return len(self.head) + self._text_length + len(self.tail)

    @property
    def _text_length(self) -> int:
        return (self.stored.length + 2) // 3 * 4

    def piece(self, snapshot: Reader, span: Span) -> bytes:
        """Return the bytes of a span of the text. Raises LookupError."""
        begin = len(self.head)
        end = begin + self._text_length
        before = self.head[span.start : span.stop]
        text = Span(max(span.start, begin) - begin, min(span.stop, end) - begin)
        after = self.tail[max(span.start - end, 0) : max(span.stop - end, 0)]
        return before + self._text(snapshot, text) + after

    def _text(self, snapshot: Reader, span: Span) -> bytes:
        """Return a span of the base64, in which four characters are three bytes."""
        first, last = span.start // 4, (span.stop + 3) // 4
        groups = Span(first * 3, min(last * 3, self.stored.length))
        text = base64.b64encode(self.stored.piece(snapshot, groups))
        return text[span.start - first * 4 : span.stop - first * 4]


def _loads(text: str | None) -> Any:
    return None if text is None else fhir_json.loads(text)


# Of documents alone: a name must not make the system of who opens the file run it.
_EXTENSIONS = {
    "application/dicom": "dcm",
    "application/fhir+json": "json",
    "application/fhir+xml": "xml",
    "application/json": "json",
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/xml": "xml",
    "application/zip": "zip",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/tiff": "tiff",
    "image/webp": "webp",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/rtf": "rtf",
    "text/xml": "xml",
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
}


def content_disposition(resource_id: str, content_type: str) -> str:
    """Return the header that has the bytes saved, not shown: attachment; filename="…".

    An id is of ASCII letters, digits, `-` and `.`, so it needs no escape and no filename*. It
    stands behind a word, so that no id can make a hidden file or a name that a system reserves.
    """
    essence = content_type.partition(";")[0].strip().lower()
    return f'attachment; filename="Binary-{resource_id}.{_EXTENSIONS.get(essence, "bin")}"'
