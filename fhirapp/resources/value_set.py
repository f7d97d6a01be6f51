"""ValueSet: codes chosen for a purpose, which an operator imports. FHIR R4 valueset."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.config import Marked
from fhirapp.db import DomainVersioned
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir import narrative
from fhirapp.fhir.datatypes import (
    CodeableConcept,
    Coding,
    ContactDetail,
    Identifier,
    UsageContext,
    backbone,
    code,
    date,
    date_time,
    integer,
    markdown,
    one_of,
    string,
    uri,
)
from fhirapp.fhir.elements import boolean, choice, decimal, many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.string import String, Uri
from fhirapp.search.token import Token


class ValueSet(DomainVersioned):
    """A value set, a row for each version."""

    __tablename__ = "value_set"

    compose: Mapped[Any | None]
    expansion: Mapped[Any | None]
    url: Mapped[str | None]
    identifier: Mapped[Any | None]
    version: Mapped[str | None]
    name: Mapped[str | None]
    title: Mapped[str | None]
    status: Mapped[str | None]
    date: Mapped[str | None]
    publisher: Mapped[str | None]
    description: Mapped[str | None]
    jurisdiction: Mapped[Any | None]


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


class ValueSetSchema(DomainResourceSchema):
    """ValueSet."""

    resource_type = "ValueSet"
    narrative = (
        ("Title", "title", narrative.plain),
        ("Name", "name", narrative.plain),
        ("Status", "status", narrative.plain),
    )

    url = Element(uri, summary=True)
    identifier = Elements(Identifier, summary=True)
    version = Element(string, summary=True)
    name = Element(string, summary=True)
    title = Element(string, summary=True)
    status = Element(
        one_of("draft", "active", "retired", "unknown"),
        required=True,
        summary=True,
        modifier=True,
    )
    experimental = Element(boolean, summary=True)
    date = Element(date_time, summary=True)
    publisher = Element(string, summary=True)
    contact = Elements(ContactDetail, summary=True)
    description = Element(markdown)
    use_context = Elements(UsageContext, summary=True)
    jurisdiction = Elements(CodeableConcept, summary=True)
    purpose = Element(markdown)
    copyright = Element(markdown)
    immutable = Element(boolean, summary=True)
    compose = Element(Compose)
    expansion = Element(Expansion)


VALUE_SET = "http://hl7.org/fhir/SearchParameter/ValueSet-"
CONFORMANCE = "http://hl7.org/fhir/SearchParameter/conformance-"

# Of R4's, `code`, `context-quantity` and those of contexts with their type are not here.
PARAMS = Parameters(
    (
        *COMMON,
        Uri("url", ("url",), "Address that others name it by", CONFORMANCE + "url"),
        Token("version", ("version",), "Business version", CONFORMANCE + "version"),
        Token(
            "identifier",
            ("identifier",),
            "External identifier",
            CONFORMANCE + "identifier",
            of_identifier=True,
        ),
        String("name", ("name",), "Name for programs", CONFORMANCE + "name"),
        String("title", ("title",), "Name for people", CONFORMANCE + "title"),
        Token(
            "status",
            ("status",),
            "draft, active, retired or unknown",
            CONFORMANCE + "status",
            system="http://hl7.org/fhir/publication-status",
        ),
        Date("date", ("date",), "Date of publication", CONFORMANCE + "date"),
        String("publisher", ("publisher",), "Name of the publisher", CONFORMANCE + "publisher"),
        String("description", ("description",), "Description", CONFORMANCE + "description"),
        Token(
            "jurisdiction",
            ("jurisdiction",),
            "Intended jurisdiction",
            CONFORMANCE + "jurisdiction",
        ),
        Token(
            "context-type",
            ("useContext.code",),
            "Kind of context that it is meant for",
            CONFORMANCE + "context-type",
        ),
        Token(
            "context",
            ("useContext.valueCodeableConcept",),
            "Context that it is meant for",
            CONFORMANCE + "context",
        ),
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
