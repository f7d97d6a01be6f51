"""Bodies too large for memory: read from the database a piece at a time, while they are sent.

The server's file wrapper takes the file and frees the thread, so that a slow client holds neither
a thread nor a connection of the database: each piece is read in a snapshot of its own, which
versions allow, because they never change. What a body that is being sent holds is one piece.

Range requests and the conditions that guard them. RFC 9110 §13.1, §14.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from io import SEEK_SET
from tempfile import TemporaryFile
from typing import IO, NamedTuple, Protocol, cast

from flask import Response, request
from sqlalchemy import Engine
from werkzeug.http import http_date, parse_etags
from werkzeug.wsgi import wrap_file

from fhirapp.config import settings
from fhirapp.db import Reader, db, reader
from fhirapp.fhir.outcome import PreconditionFailed, RangeNotSatisfiable
from fhirapp.fhir.temporal import moment_of
from fhirapp.files import Files, pieces

# Below the least limit that Python can be told to put on int().
_NUMBER = "([0-9]{0,600})"
_RANGE = re.compile(f"{_NUMBER}-{_NUMBER}")


class Span(NamedTuple):
    """The bytes [start, stop)."""

    start: int
    stop: int

    def content_range(self, length: int) -> str:
        """Return the Content-Range of this part of so many bytes."""
        return f"bytes {self.start}-{self.stop - 1}/{length}"


def check_preconditions(version_id: int, last_modified: str) -> None:
    """Keep If-Match, or else If-Unmodified-Since. Raises PreconditionFailed. RFC 9110 §13.2.2.

    last_modified is an instant. If-Match may name our weak entity tag, as it does everywhere in
    FHIR (R4 http §3.1.0.5): it stands for a version, and a version never changes.
    """
    header = request.headers.get("If-Match", "").strip()
    if header:
        holds = parse_etags(header).contains_weak(str(version_id))
    else:
        since = _unmodified_since()
        holds = since is None or moment_of(last_modified).replace(microsecond=0) <= since
    if not holds:
        raise PreconditionFailed("The version that the request names is not the current one.")


def _unmodified_since() -> datetime | None:
    try:
        return request.if_unmodified_since
    except OverflowError:
        # RFC 9110 §13.1.4: what is no date is ignored.
        return None


def wanted_span(length: int, last_modified: str | None) -> Span | None:
    """Return the part of so many bytes that the request asks for; None where it gets the whole.

    last_modified is an instant, None if other versions may share it. Raises RangeNotSatisfiable.
    """
    header = request.headers.get("Range")
    # RFC 9110 §14.2: of GET only.
    if header is None or request.method != "GET" or not _if_range_holds(last_modified):
        return None
    return parse_range(header, length)


def _if_range_holds(last_modified: str | None) -> bool:
    """Say whether there is no If-Range, or one that names the current version. RFC 9110 §13.1.5.

    By date only: entity tags are compared strongly here, and service.md 9 makes ours weak.
    """
    header = request.headers.get("If-Range")
    if header is None:
        return True
    return last_modified is not None and header == http_date(moment_of(last_modified))


def parse_range(header: str, length: int) -> Span | None:
    """Return the span that a Range header names, None where it is ignored. RFC 9110 §14.1, §14.2.

    Ignored are other units, what cannot be read, several ranges, and any of nothing: the answer is
    the whole. Raises RangeNotSatisfiable. (Werkzeug's parser takes a suffix that is longer than the
    whole for unsatisfiable.)
    """
    unit, _, ranges = header.partition("=")
    parts = list(filter(None, (part.strip(" \t") for part in ranges.split(","))))
    match = _RANGE.fullmatch(parts[0]) if len(parts) == 1 else None
    if unit.lower() != "bytes" or match is None or not length:
        return None
    first, last = (int(number) if number else None for number in match.groups())
    if first is None:
        if last is None:
            return None
        span = Span(max(length - last, 0), length)
    elif last is not None and last < first:
        return None
    else:
        span = Span(first, length if last is None else min(last + 1, length))
    if span.start >= span.stop:
        raise RangeNotSatisfiable(
            f"There are {length} bytes; ask for a range of those.",
            headers={"Content-Range": f"bytes */{length}"},
        )
    return span


# In bytes. SQLite follows a chain of pages to where a piece begins: small pieces cost more of that.
PIECE = 512 * 1024
# Of a file in a store: up to so many bytes are fetched before they are sent.
_LONGEST_FETCHED = 300 * 1024 * 1024


class Content(Protocol):
    """Bytes of a known length that can be read anywhere."""

    @property
    def length(self) -> int:
        """How many bytes there are."""

    def piece(self, snapshot: Reader, span: Span) -> bytes:
        """Return the bytes of a span. Raises LookupError where they are no longer there."""


class StoredContent(NamedTuple):
    """A file that servers share."""

    files: Files
    name: str
    length: int

    @classmethod
    def of(cls, files: Files, name: str) -> StoredContent:
        """Return a file by its name. Raises OSError if it is missing."""
        return cls(files, name, files.stat(name).size)

    @property
    def is_remote(self) -> bool:
        return not self.files.is_folder

    def piece(self, snapshot: Reader, span: Span) -> bytes:  # noqa: ARG002
        """Return the bytes of a span. Raises LookupError if the file was removed meanwhile."""
        try:
            return self.files.read(self.name, span.start, span.stop)
        except FileNotFoundError:
            raise LookupError(f"{self.name} was removed while it was sent") from None

    def fetched(self, span: Span) -> Iterable[bytes]:
        """Return a span, a long one as it is read, a shorter one as a file of this machine.

        The server's file wrapper reads while no other connection is served, so it waits for no
        store; and a file frees the thread of a slow client.
        """
        content = pieces(self.files, self.name, span.start, span.stop)
        if span.stop - span.start > _LONGEST_FETCHED:
            return content
        file = TemporaryFile(dir=settings().instance)  # noqa: SIM115
        file.writelines(content)
        file.seek(0)
        return wrap_file(request.environ, cast("IO[bytes]", file), PIECE)


def carry(response: Response, content: Content, span: Span) -> None:
    """Give a response its body: a small one at once, a large one as it is sent. Raises OSError."""
    length = span.stop - span.start
    if length <= PIECE and request.method != "HEAD":
        response.data = content.piece(reader(), span)
        return
    if request.method != "HEAD" and isinstance(content, StoredContent) and content.is_remote:
        response.response = content.fetched(span)
    else:
        file = cast("IO[bytes]", ContentFile(db.engine, content, span))
        response.response = wrap_file(request.environ, file, PIECE)
    response.direct_passthrough = True
    response.content_length = length


class ContentFile:
    """A span of a content as the file that a WSGI server's file wrapper reads. PEP 3333.

    The server may read it from another thread than the request's, after the request is over.
    """

    def __init__(self, engine: Engine, content: Content, span: Span) -> None:
        self._engine = engine
        self._content = content
        self._span = span
        self._position = span.start
        # The piece at hand and where it begins.
        self._piece = b""
        self._start = span.start

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position - self._span.start

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._position = offset + (self._span.start, self._position, self._span.stop)[whence]
        return self.tell()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes: at most size, and no more than the piece at hand has.

        At the end, and only there, none. A server asks for as much as the connection might take
        and sends what it does take: the rest is asked for again, and must not be read again.
        """
        place = self._position - self._start
        if not 0 <= place < len(self._piece):
            self._piece = self._read_piece()
            self._start, place = self._position, 0
        piece = self._piece[place : place + size if size >= 0 else None]
        self._position += len(piece)
        return piece

    def _read_piece(self) -> bytes:
        span = Span(self._position, min(self._position + PIECE, self._span.stop))
        if span.start >= span.stop:
            return b""
        with closing(Reader(self._engine)) as snapshot:
            return self._content.piece(snapshot, span)

    def close(self) -> None:
        self._piece = b""
