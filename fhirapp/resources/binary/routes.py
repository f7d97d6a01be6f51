"""What Binary declares of itself, and its read: the resource, or the bytes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from fhirapp.config import Marked
from fhirapp.db import reader
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir.outcome import Gone, NotFound
from fhirapp.resources.binary.content import (
    BinaryVersion,
    StoredBytes,
    StoredResource,
    content_disposition,
    newest_version,
)
from fhirapp.resources.binary.schema import TABLE, BinarySchema
from fhirapp.rest.access import has_visible_carrier, require
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.rest.recorder import note_served, patients_of
from fhirapp.rest.response import (
    FHIR_JSON,
    FORM_PARAMETERS,
    XML_TYPE,
    Layout,
    arguments,
    check_known,
    negotiate,
    prefers_resource,
    respond,
)
from fhirapp.rest.stream import Span, carry, check_preconditions, wanted_span
from fhirapp.store.prepare import sha1

_SCHEMA = BinarySchema()


def _size_and_hash(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    data = columns.get("data") or b""
    return {"size": len(data), "hash": sha1(data)}


def read(definition: Definition, resource_id: str) -> Response:
    """Return the bytes, or with an Accept of FHIR the resource. FHIR R4 binary §2.41.4.

    Raises NotFound, Gone, PreconditionFailed, RangeNotSatisfiable.
    """
    access = require(definition, "r", resource_id).access
    parameters = arguments()
    check_known(parameters, FORM_PARAMETERS)
    layout = negotiate(parameters) if prefers_resource() else None
    snapshot = reader()
    version = newest_version(snapshot, resource_id)
    if version is None or not has_visible_carrier(snapshot, access, resource_id):
        raise NotFound(f"Binary/{resource_id} is not known here.")
    if version.deleted:
        raise Gone(f"Binary/{resource_id} was deleted.")
    check_preconditions(version.version_id, version.last_updated)
    name = f"{definition.name}/{resource_id}/{version.version_id}"
    whose = patients_of({name}, snapshot)[name]
    note_served(definition.name, resource_id, version.version_id, whose)
    # Asked last: that it is here must not show in how long a refusal takes.
    stored = StoredBytes.of(snapshot, version)
    if layout is None:
        return _bytes(stored)
    response = _response(version, XML_TYPE if layout.is_xml else FHIR_JSON, layout)
    if response.status_code == 200:
        content = StoredResource.of(snapshot, stored, _SCHEMA, layout)
        carry(response, content, Span(0, content.length))
    return response


def _bytes(stored: StoredBytes) -> Response:
    """Return the bytes, or the range of them that is asked for. RFC 9110 §14."""
    response = _response(stored.version, stored.content_type, Layout())
    response.headers["Accept-Ranges"] = "bytes"
    # Never executable in a browser: a stored page must not run as this server's own.
    response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response.headers["Content-Disposition"] = content_disposition(
        stored.version.id, stored.content_type
    )
    if response.status_code == 200:
        span = wanted_span(stored.length, stored.version.last_modified)
        if span is not None:
            response.status_code = 206
            response.headers["Content-Range"] = span.content_range(stored.length)
        carry(response, stored, span or Span(0, stored.length))
    return response


def _response(version: BinaryVersion, content_type: str, layout: Layout) -> Response:
    """Return a 200 whose body is still to come, or a 304."""
    return respond(
        b"",
        layout,
        etag=f'W/"{version.version_id}"',
        last_modified=version.last_updated,
        content_type=content_type,
    )


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Binary",
        schema=_SCHEMA,
        table=TABLE,
        interactions=("read",),
        visibility=Visibility.CARRIER,
        stores_body=False,
        derive=_size_and_hash,
        doc="Content of attachments.",
        labels=Labels(
            singular=Marked("an attached file"),
            plural=Marked("attached files"),
            scope=Marked("files attached to notes"),
            sensitive=True,
        ),
        table_columns=(
            TableColumn(Marked("Format"), ("contentType",), Marked("format not recorded")),
            TableColumn(Marked("Belongs to"), ("securityContext",), Marked("not recorded")),
        ),
    ),
    read=read,
)
