"""read and vread: one resource, its current or a named version. FHIR R4 http §3.1.0.2, §3.1.0.3."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response

from fhirapp.db import Reader, reader
from fhirapp.definition import Definition
from fhirapp.fhir.outcome import Gone, InvalidParameter, NotFound
from fhirapp.rest import response
from fhirapp.rest.access import Reach, require
from fhirapp.rest.recorder import note_all_served
from fhirapp.rest.subset import check_subset, subset
from fhirapp.search.query import Controls, parse_controls
from fhirapp.search.values import Condition, all_of


class FoundVersion(NamedTuple):
    """A version as the database holds it; body is None for a deletion."""

    pk: int
    id: str
    version_id: int
    last_updated: str
    deleted: bool
    body: bytes | None
    patient_id: str | None


# FHIR R4 http §3.1.0.1.4: a read may ask for a part of the resource.
_PARTS = ("_summary", "_elements")
COLUMNS = ", ".join(f"h.{name}" for name in FoundVersion._fields)


def read(definition: Definition, resource_id: str) -> Response:
    """Return the current version. Raises NotFound, Gone."""
    reach = require(definition, "r", resource_id)
    shape = _wanted(definition)
    snapshot = reader()
    version = find_version(snapshot, reach, resource_id)
    return _respond(snapshot, definition, version, shape, f"{definition.name}/{resource_id}")


def vread(definition: Definition, resource_id: str, version_id: str) -> Response:
    """Return one version. Raises NotFound, Gone."""
    reach = require(definition, "r", resource_id)
    shape = _wanted(definition)
    snapshot, version = reader(), None
    if version_id.isascii() and version_id.isdecimal() and len(version_id) < 10:
        version = find_version(snapshot, reach, resource_id, int(version_id))
        # 01 is no version's id.
        if version is not None and str(version.version_id) != version_id:
            version = None
    name = f"{definition.name}/{resource_id}/_history/{version_id}"
    return _respond(snapshot, definition, version, shape, name)


def find_version(
    snapshot: Reader, reach: Reach, resource_id: str, version_id: int | None = None
) -> FoundVersion | None:
    """Return a version, by default the newest; None where there is none or it may not be seen."""
    table = reach.definition.sql_table
    parts = [Condition("h.id = ?", (resource_id,))]
    if version_id is None:
        newest = f"SELECT max(v.version_id) FROM {table} v WHERE v.id = ?"
        parts.append(Condition(f"h.version_id = ({newest})", (resource_id,)))
    else:
        parts.append(Condition("h.version_id = ?", (version_id,)))
    where = all_of([*parts, *reach.versions()])
    row = snapshot.first(f"SELECT {COLUMNS} FROM {table} h WHERE {where.sql}", where.values)
    return FoundVersion(*row) if row else None


def _wanted(definition: Definition) -> tuple[response.Layout, Controls | None]:
    """Return how the answer is wanted, and which part of the resource. Raises FhirError."""
    parameters = response.arguments()
    if not parameters:
        return response.negotiate(parameters), None
    response.check_known(parameters, (*response.FORM_PARAMETERS, *_PARTS))
    controls = parse_controls(
        [(name, value) for name, value in parameters if name in _PARTS], default=1, greatest=1
    )
    if controls.summary == "count":
        raise InvalidParameter("_summary", "count is of a search; use true, text, data or false")
    check_subset(definition, controls, strict=response.is_strict())
    return response.negotiate(parameters), controls


def _respond(
    snapshot: Reader,
    definition: Definition,
    version: FoundVersion | None,
    shape: tuple[response.Layout, Controls | None],
    name: str,
) -> Response:
    if version is None:
        # The same bytes whether it is unknown or another patient's (decisions §4).
        raise NotFound(f"{name} is not known here.")
    if version.deleted or version.body is None:
        raise Gone(f"{name} was deleted.")
    layout, controls = shape
    note_all_served(definition.name, [version])
    body = version.body
    if controls is not None:
        body = subset(definition, body, controls.summary, controls.elements)
    return response.respond(
        response.with_addresses(body, definition.attachments),
        layout,
        etag=f'W/"{version.version_id}"',
        last_modified=_last_modified(snapshot, definition, version),
    )


def _last_modified(snapshot: Reader, definition: Definition, version: FoundVersion) -> str | None:
    """Return when a version was published; None where the one before is of the same second.

    Last-Modified would not tell a copy of the one from the other (RFC 9110 §8.8.2.2).
    """
    before = None
    if version.version_id > 1:
        before = snapshot.first(
            f"SELECT last_updated FROM {definition.sql_table} WHERE id = ? AND version_id = ?",
            (version.id, version.version_id - 1),
        )
    seconds = len("2024-03-01T09:00:00")
    if before is not None and before[0][:seconds] == version.last_updated[:seconds]:
        return None
    return version.last_updated
