"""ValueSet: codes chosen for a purpose, which an operator imports. FHIR R4 valueset."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.config import Marked
from fhirapp.db import CanonicalVersioned
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
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
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import CANONICAL, COMMON
from fhirapp.search.string import Uri


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


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="ValueSet",
        model=ValueSet,
        schema=ValueSetSchema(),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
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
)
