"""The table of Binary."""

from __future__ import annotations

from typing import Any

from sqlalchemy import DDL, event
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Versioned


class Binary(Versioned):
    """Bytes with a media type; size and hash (SHA-1, base64) follow from data.

    words are those of the document, as full text is indexed; none where it has or tells none.
    machine_read is its whole text where a page of it was recognized (OCR): it may be wrong.
    """

    __tablename__ = "binary"

    content_type: Mapped[str | None]
    security_context: Mapped[Any | None]
    data: Mapped[bytes | None]
    size: Mapped[int | None]
    hash: Mapped[str | None]
    words: Mapped[str | None]
    # The last column, as databases that were upgraded have it.
    machine_read: Mapped[str | None] = mapped_column(sort_order=1000)


# Not compressed: a piece of a large document is read without reading what comes before it.
_IN_PIECES = 'ALTER TABLE "binary" ALTER COLUMN data SET STORAGE EXTERNAL'
_create: DDL = DDL(_IN_PIECES)  # type: ignore[no-untyped-call]
event.listen(Binary.__table__, "after_create", _create.execute_if(dialect="postgresql"))
