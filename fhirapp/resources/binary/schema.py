"""The FHIR JSON of Binary. Source: FHIR R4 binary."""

from __future__ import annotations

import base64
from typing import Any

from marshmallow import missing

from fhirapp.fhir.datatypes import Reference, bytes_of, media_type
from fhirapp.fhir.resource import Element, ResourceSchema, Source


class BytesElement(Element):
    """base64Binary in JSON, bytes in the row."""

    def served(self, value: Any, source: Source) -> Any:  # noqa: ARG002
        # No bytes, no member: FHIR JSON has no empty strings.
        return base64.b64encode(value).decode() if value else missing


class BinarySchema(ResourceSchema):
    """Binary."""

    resource_type = "Binary"

    content_type = Element(media_type, required=True, summary=True)
    security_context = Element(Reference, summary=True)
    data = BytesElement(bytes_of)
