"""Bodies too large for memory: read from the database a piece at a time, while they are sent.

The server's file wrapper takes the file and frees the thread, so that a slow client holds neither
a thread nor a connection of the database: each piece is read in a snapshot of its own, which
versions allow, because they never change. What a body that is being sent holds is one piece.
"""

from __future__ import annotations

from contextlib import closing
from io import SEEK_SET
from typing import IO, Protocol, cast

from flask import Response, request
from sqlalchemy import Engine
from werkzeug.wsgi import wrap_file

from fhirapp.db import Reader, db, reader
from fhirapp.rest.ranges import Span

# In bytes. SQLite follows a chain of pages to where a piece begins: small pieces cost more of that.
PIECE = 512 * 1024


class Content(Protocol):
    """Bytes of a known length that can be read anywhere."""

    @property
    def length(self) -> int:
        """How many bytes there are."""

    def piece(self, snapshot: Reader, span: Span) -> bytes:
        """Return the bytes of a span. Raises LookupError where they are no longer there."""


def carry(response: Response, content: Content, span: Span) -> None:
    """Give a response its body: a small one at once, a large one as it is sent."""
    length = span.stop - span.start
    if length <= PIECE and request.method != "HEAD":
        response.data = content.piece(reader(), span)
        return
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
        found = self._piece[place : place + size if size >= 0 else None]
        self._position += len(found)
        return found

    def _read_piece(self) -> bytes:
        span = Span(self._position, min(self._position + PIECE, self._span.stop))
        if span.start >= span.stop:
            return b""
        with closing(Reader(self._engine)) as snapshot:
            return self._content.piece(snapshot, span)

    def close(self) -> None:
        self._piece = b""
