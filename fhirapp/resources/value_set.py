"""ValueSet: codes chosen for a purpose, which an operator imports. FHIR R4 valueset."""

from __future__ import annotations

from typing import Any

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir import datatypes, fields, narrative
from fhirapp.fhir.elements import boolean, choice, decimal, many
from fhirapp.fhir.resource import DomainResourceSchema
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.string import String, Uri
from fhirapp.search.token import HL7, Identifier, Token


def _contains(value: Any) -> Any:
    return Contains(value)


Designation = datatypes.backbone(
    required=("value",), language=datatypes.code, use=datatypes.Coding, value=datatypes.string
)
Include = datatypes.backbone(
    summary=None,
    system=datatypes.uri,
    version=datatypes.string,
    concept=many(
        datatypes.backbone(
            required=("code",),
            code=datatypes.code,
            display=datatypes.string,
            designation=many(Designation),
        )
    ),
    filter=many(
        datatypes.backbone(
            required=("property", "op", "value"),
            summary=None,
            property=datatypes.code,
            op=datatypes.one_of(
                *("=", "is-a", "descendent-of", "is-not-a", "regex", "in", "not-in"),
                *("generalizes", "exists"),
            ),
            value=datatypes.string,
        )
    ),
    valueSet=many(datatypes.uri),
)
Compose = datatypes.backbone(
    required=("include",),
    lockedDate=datatypes.date,
    inactive=boolean,
    include=many(Include),
    exclude=many(Include),
)
Contains = datatypes.backbone(
    system=datatypes.uri,
    abstract=boolean,
    inactive=boolean,
    version=datatypes.string,
    code=datatypes.code,
    display=datatypes.string,
    designation=many(Designation),
    contains=many(_contains),
)
Expansion = datatypes.backbone(
    required=("timestamp",),
    identifier=datatypes.uri,
    timestamp=datatypes.date_time,
    total=datatypes.integer,
    offset=datatypes.integer,
    parameter=many(
        datatypes.backbone(
            required=("name",),
            choices=("value",),
            summary=None,
            name=datatypes.string,
            **choice(
                "value",
                String=datatypes.string,
                Boolean=boolean,
                Integer=datatypes.integer,
                Decimal=decimal,
                Uri=datatypes.uri,
                Code=datatypes.code,
                DateTime=datatypes.date_time,
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

    url = fields.Uri(summary=True)
    identifier = fields.List(fields.Identifier, summary=True)
    version = fields.String(summary=True)
    name = fields.String(summary=True)
    title = fields.String(summary=True)
    status = fields.Code(
        "draft",
        "active",
        "retired",
        "unknown",
        required=True,
        summary=True,
        modifier=True,
    )
    experimental = fields.Boolean(summary=True, column=False)
    date = fields.DateTime(summary=True)
    publisher = fields.String(summary=True)
    contact = fields.List(fields.ContactDetail, summary=True, column=False)
    description = fields.Markdown()
    use_context = fields.List(fields.UsageContext, summary=True, column=False)
    jurisdiction = fields.List(fields.CodeableConcept, summary=True)
    purpose = fields.Markdown(column=False)
    copyright = fields.Markdown(column=False)
    immutable = fields.Boolean(summary=True, column=False)
    compose = fields.Element(Compose)
    expansion = fields.Element(Expansion)


# R4 defines these once for all types of definitions.
_CONFORMANCE = dict.fromkeys(
    (
        *("url", "version", "identifier", "name", "title", "status", "date", "publisher"),
        *("description", "jurisdiction", "context-type", "context"),
    ),
    "conformance",
)
# Of R4's, `code`, `context-quantity` and those of contexts with their type are not here.
PARAMS = Parameters(
    "ValueSet",
    *COMMON,
    Uri("url", "url", "Address that others name it by"),
    Token("version", "version", "Business version"),
    Identifier("identifier", "identifier", "External identifier"),
    String("name", "name", "Name for programs"),
    String("title", "title", "Name for people"),
    Token("status", "status", "draft, active, retired or unknown",
          system=HL7 + "publication-status"),
    Date("date", "date", "Date of publication"),
    String("publisher", "publisher", "Name of the publisher"),
    String("description", "description", "Description"),
    Token("jurisdiction", "jurisdiction", "Intended jurisdiction"),
    Token("context-type", "useContext.code", "Kind of context that it is meant for"),
    Token("context", "useContext.valueCodeableConcept", "Context that it is meant for"),
    Uri("reference", "compose.include.system", "Code system that codes are taken from"),
    Uri("expansion", "expansion.identifier", "Identifier of the expansion it comes with"),
    shared=_CONFORMANCE,
)  # fmt: skip


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="ValueSet",
        schema=ValueSetSchema(),
        table=versioned_table(ValueSetSchema, first=("compose", "expansion")),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        doc="Value sets: codes chosen for a purpose, to search by.",
        labels=Labels(
            singular=Marked("a value set"),
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
