"""ValueSet: codes chosen for a purpose, which an operator imports. FHIR R4 valueset."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

from flask import Response
from sqlalchemy.orm import Mapped

from fhirapp.config import Marked
from fhirapp.db import CanonicalVersioned, reader
from fhirapp.definition import (
    Definition,
    Labels,
    Operation,
    OperationParameter,
    TableColumn,
    Visibility,
)
from fhirapp.fhir.datatypes import (
    Coding,
    backbone,
    code,
    date,
    date_time,
    integer,
    one_of,
    string,
    uri,
)
from fhirapp.fhir.elements import boolean, choice, decimal, many
from fhirapp.fhir.resource import CanonicalSchema, Element
from fhirapp.fhir.temporal import instant
from fhirapp.rest.access import access_to
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.rest.operation import parse_operation
from fhirapp.rest.response import negotiate
from fhirapp.rest.terminology import MAX_CODES, Look
from fhirapp.rest.terminology_operations import (
    answer,
    asked,
    codes_of,
    of_resource,
    validate_code_operation,
    validation,
)
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import CANONICAL, COMMON, parse_count
from fhirapp.search.string import Uri, fold
from fhirapp.search.values import parse_boolean


class ValueSet(CanonicalVersioned):
    """A value set, a row for each version."""

    __tablename__ = "value_set"

    compose: Mapped[Any | None]
    expansion: Mapped[Any | None]


def _contains(value: Any) -> Any:
    return Contains(value)


Designation = backbone(required=("value",), language=code, use=Coding, value=string)
Include = backbone(
    summary=None,
    system=uri,
    version=string,
    concept=many(
        backbone(required=("code",), code=code, display=string, designation=many(Designation))
    ),
    filter=many(
        backbone(
            required=("property", "op", "value"),
            summary=None,
            property=code,
            op=one_of(
                *("=", "is-a", "descendent-of", "is-not-a", "regex", "in", "not-in"),
                *("generalizes", "exists"),
            ),
            value=string,
        )
    ),
    valueSet=many(uri),
)
Compose = backbone(
    required=("include",),
    lockedDate=date,
    inactive=boolean,
    include=many(Include),
    exclude=many(Include),
)
Contains = backbone(
    system=uri,
    abstract=boolean,
    inactive=boolean,
    version=string,
    code=code,
    display=string,
    designation=many(Designation),
    contains=many(_contains),
)
Expansion = backbone(
    required=("timestamp",),
    identifier=uri,
    timestamp=date_time,
    total=integer,
    offset=integer,
    parameter=many(
        backbone(
            required=("name",),
            choices=("value",),
            summary=None,
            name=string,
            **choice(
                "value",
                String=string,
                Boolean=boolean,
                Integer=integer,
                Decimal=decimal,
                Uri=uri,
                Code=code,
                DateTime=date_time,
            ),
        )
    ),
    contains=many(Contains),
)


class ValueSetSchema(CanonicalSchema):
    """ValueSet."""

    resource_type = "ValueSet"

    immutable = Element(boolean, summary=True)
    compose = Element(Compose)
    expansion = Element(Expansion)


VALUE_SET = "http://hl7.org/fhir/SearchParameter/ValueSet-"

# Of R4's, `code`, `context-quantity` and those of contexts with their type are not here.
PARAMS = Parameters(
    (
        *COMMON,
        *CANONICAL,
        Uri(
            "reference",
            ("compose.include.system",),
            "Code system that codes are taken from",
            VALUE_SET + "reference",
        ),
        Uri(
            "expansion",
            ("expansion.identifier",),
            "Identifier of the expansion it comes with",
            VALUE_SET + "expansion",
        ),
    )
)


# Of an operation of the type; in one of a resource its id is in the path.
_ADDRESS = (
    OperationParameter("url", "uri", "Address of the value set", required=True),
    OperationParameter("valueSetVersion", "string", "Its version"),
)
EXPAND = Operation(
    "expand",
    "http://hl7.org/fhir/OperationDefinition/ValueSet-expand",
    "The codes of a value set, all of them or none: what cannot be worked out whole is refused.",
    (
        *_ADDRESS,
        OperationParameter("filter", "string", "Part of a code or its display"),
        OperationParameter("offset", "integer", "How many codes to pass"),
        OperationParameter("count", "integer", "How many codes to return at most"),
        OperationParameter("activeOnly", "boolean", "Whether to leave inactive codes out"),
    ),
    answer="ExpandedValueSet",
    is_paged=False,
    needs_record=True,
)
VALIDATE_CODE = validate_code_operation(
    "ValueSet",
    "a value set",
    *_ADDRESS,
    OperationParameter("system", "uri", "The system of the code"),
)
OPERATIONS = (EXPAND, of_resource(EXPAND), VALIDATE_CODE, of_resource(VALIDATE_CODE))
# What an expansion repeats of its value set.
_REPEATED = ("id", "url", "version", "name", "title", "status", "experimental", "date", "publisher")
_MOST = 2_147_483_647


def expand(definition: Definition, resource_id: str | None = None) -> Response:
    """Return a value set with its expansion. Raises FhirError."""
    access_to(definition, "r", resource_id)
    operation = parse_operation(of_resource(EXPAND) if resource_id else EXPAND)
    layout = negotiate(operation.parameters)
    offset = parse_count(operation.value("offset"), 0, _MOST, "offset")
    count = parse_count(operation.value("count"), MAX_CODES, MAX_CODES, "count")
    is_active = parse_boolean("activeOnly", operation.value("activeOnly") or "false")
    sought = fold(operation.value("filter") or "")
    look = Look(reader(), "url")
    held = asked(look, definition, resource_id, operation)
    listed = [
        {
            **({"system": system} if system else {}),
            **({"abstract": True} if one.is_abstract else {}),
            **({"inactive": True} if one.is_inactive else {}),
            "code": code,
            **({"display": one.display} if one.display else {}),
        }
        for (system, code), one in look.expand(held).items()
        if sought in fold(f"{code} {one.display}") and not (is_active and one.is_inactive)
    ]
    expansion: dict[str, Any] = {"total": len(listed), "offset": offset}
    parameters = [
        {"name": name, kind: value}
        for name, kind, value in (
            ("filter", "valueString", operation.value("filter")),
            ("activeOnly", "valueBoolean", is_active or None),
        )
        if value
    ]
    if parameters:
        expansion["parameter"] = parameters
    if page := listed[offset : offset + count]:
        expansion["contains"] = page
    content = {name: held.content[name] for name in _REPEATED if name in held.content}
    content |= {name: held.content[name] for name in ("copyright",) if name in held.content}
    digest = blake2b(repr((held.body, content, expansion)).encode(), digest_size=16)
    made = {
        "identifier": UUID(bytes=digest.digest()).urn,
        "timestamp": instant(datetime.now(UTC)),
    }
    content = {"resourceType": "ValueSet", **content, "expansion": made | expansion}
    return answer(content, layout, f'W/"{digest.hexdigest()}"')


def validate_code(definition: Definition, resource_id: str | None = None) -> Response:
    """Return whether a code is in a value set. Raises FhirError."""
    access_to(definition, "r", resource_id)
    operation = parse_operation(of_resource(VALIDATE_CODE) if resource_id else VALIDATE_CODE)
    layout = negotiate(operation.parameters)
    codes = codes_of(operation)
    look = Look(reader(), "url")
    held = asked(look, definition, resource_id, operation)
    members = look.expand(held)
    found = next((members[one] for one in codes if one in members), None)
    return validation(found, operation.value("display"), held.name, layout)


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="ValueSet",
        model=ValueSet,
        schema=ValueSetSchema(),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        operations=OPERATIONS,
        doc="Value sets: codes chosen for a purpose, to search by.",
        labels=Labels(
            one=Marked("a value set"),
            plural=Marked("value sets"),
            scope=Marked("value sets"),
        ),
        table_columns=(
            TableColumn(Marked("Title"), ("title", "name"), Marked("title not recorded")),
            TableColumn(Marked("Address"), ("url",), Marked("address not recorded")),
            TableColumn(Marked("Version"), ("version",), Marked("version not recorded")),
            TableColumn(Marked("Status"), ("status",), Marked("status not recorded")),
        ),
    ),
    operations={EXPAND.name: expand, VALIDATE_CODE.name: validate_code},
)
