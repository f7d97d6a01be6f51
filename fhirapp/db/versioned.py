"""The tables of the resource types: their columns are derived from the marshmallow schemas."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
    text,
)

from fhirapp.db.base import Ascii, Json, RowNumber, db
from fhirapp.fhir.resource import ResourceSchema

# The type of a column by that of the element; what JSON writes as an object or a list is Json.
_TYPES: dict[type, Any] = {str: Ascii, bool: Boolean, int: Integer, bytes: LargeBinary}


def versioned_table(
    schema: type[ResourceSchema],
    *computed: Column[Any],
    name: str = "",
    first: tuple[str, ...] = (),
) -> Table:
    """Return the table of a resource type: a row for each version.

    Written in seed.sql: id, version_id, last_updated, deleted, extra and a column for each element
    that has one, named as FHIR names it, in snake_case. Computed by store/: the other columns, with
    those of computed. name is that of the type by default; first are elements before all others.
    """
    name = name or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", schema.resource_type).lower()
    elements = schema.columns_of_elements()
    ordered = sorted(elements, key=lambda element: element not in ("meta", "text", *first))
    current: dict[str, Any] = {
        "sqlite_where": text("is_current"),
        "postgresql_where": text("is_current"),
    }
    from_source = text("is_current AND source_id IS NOT NULL")
    replaced = text("replaced_pk IS NOT NULL")
    return db.Table(
        name,
        Column("pk", RowNumber, primary_key=True),
        Column("id", Ascii, nullable=False),
        Column("version_id", Integer, nullable=False),
        # An instant as it is served, so that its text sorts by time: 2024-03-01T09:00:00.000+00:00
        Column("last_updated", Ascii, nullable=False),
        # The version that search answers: the newest, unless that is a deletion.
        Column("is_current", Boolean, default=False, server_default=text("FALSE"), nullable=False),
        Column("deleted", Boolean, default=False, server_default=text("FALSE"), nullable=False),
        # The row of the next version, so that a page can be found as it was when paging began.
        Column("replaced_pk", RowNumber),
        # The patient compartment that the resource belongs to.
        Column("patient_id", Ascii),
        # Which import_source it came from, None where that has no name.
        Column("source_id", Integer),
        # In meta the source's profile, tag, security and source.
        *(Column(element, _TYPES.get(elements[element], Json)) for element in ordered),
        *computed,
        # R4 elements without a column of their own, by FHIR's names; extensions; contained
        # resources.
        Column("extra", Json),
        # Of the content, so that the same content makes no new version.
        Column("digest", LargeBinary),
        # The resource as it is served, indented, its own addresses relative.
        Column("body", LargeBinary),
        UniqueConstraint("id", "version_id", name=f"uq_{name}_version"),
        Index(f"ix_{name}_current", "id", unique=True, **current),
        Index(f"ix_{name}_newest", "last_updated", "id", **current),
        Index(f"ix_{name}_patient", "patient_id", "last_updated", "id", "is_current"),
        Index(
            f"ix_{name}_source",
            "source_id",
            sqlite_where=from_source,
            postgresql_where=from_source,
        ),
        Index(f"ix_{name}_history", "last_updated", "pk"),
        Index(
            f"ix_{name}_replaced", "replaced_pk", sqlite_where=replaced, postgresql_where=replaced
        ),
    )
