"""The FHIR JSON of Binary, and its table. Source: FHIR R4 binary."""

from __future__ import annotations

import base64
from typing import Any

from marshmallow import missing
from sqlalchemy import DDL, Column, Integer, event

from fhirapp.db import Ascii
from fhirapp.db.versioned import versioned_table
from fhirapp.fhir import fields
from fhirapp.fhir.datatypes import bytes_of, media_type
from fhirapp.fhir.resource import ResourceSchema


class BytesElement(fields.Element):
    """base64Binary in JSON, bytes in the row."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        # No bytes, no member: FHIR JSON has no empty strings.
        return base64.b64encode(value).decode() if value else missing


class BinarySchema(ResourceSchema):
    """Binary."""

    resource_type = "Binary"

    content_type = fields.Element(media_type, required=True, summary=True)
    security_context = fields.Reference(summary=True)
    data = BytesElement(bytes_of)


TABLE = versioned_table(
    BinarySchema,
    Column("size", Integer),
    # SHA-1 in base64.
    Column("hash", Ascii),
    # The words of the document, as full text is indexed; none where it has or tells none.
    Column("words", Ascii),
)
# The whole text where a page of it was recognized (OCR): it may be wrong. The last column, as
# databases that were upgraded have it.
TABLE.append_column(Column("machine_read", Ascii))
# Not compressed: a piece of a large document is read without reading what comes before it.
_IN_PIECES = 'ALTER TABLE "binary" ALTER COLUMN data SET STORAGE EXTERNAL'
_create: DDL = DDL(_IN_PIECES)  # type: ignore[no-untyped-call]
event.listen(TABLE, "after_create", _create.execute_if(dialect="postgresql"))
