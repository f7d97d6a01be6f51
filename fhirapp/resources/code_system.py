"""CodeSystem: codes and how they are ordered, which an operator imports. FHIR R4 codesystem."""

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
    date_time,
    integer,
    one_of,
    string,
    unsigned,
    uri,
)
from fhirapp.fhir.elements import boolean, choice, decimal, many
from fhirapp.fhir.resource import CanonicalSchema, Element, Elements
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import CANONICAL, COMMON
from fhirapp.search.string import Uri
from fhirapp.search.token import Token


class CodeSystem(CanonicalVersioned):
    """A code system, a row for each version."""

    __tablename__ = "code_system"

    content: Mapped[str | None]
    supplements: Mapped[str | None]
    concept: Mapped[Any | None]


def _concept(value: Any) -> Any:
    return Concept(value)


Filter = backbone(
    required=("code", "operator", "value"),
    summary=None,
    code=code,
    description=string,
    operator=many(
        one_of(
            *("=", "is-a", "descendent-of", "is-not-a", "regex", "in", "not-in"),
            *("generalizes", "exists"),
        )
    ),
    value=string,
)
Property = backbone(
    required=("code", "type"),
    summary=None,
    code=code,
    uri=uri,
    description=string,
    type=one_of("code", "Coding", "string", "integer", "boolean", "dateTime", "decimal"),
)
Concept = backbone(
    required=("code",),
    code=code,
    display=string,
    definition=string,
    designation=many(backbone(required=("value",), language=code, use=Coding, value=string)),
    property=many(
        backbone(
            required=("code",),
            choices=("value",),
            summary=None,
            code=code,
            **choice(
                "value",
                Code=code,
                Coding=Coding,
                String=string,
                Integer=integer,
                Boolean=boolean,
                DateTime=date_time,
                Decimal=decimal,
            ),
        )
    ),
    concept=many(_concept),
)


class CodeSystemSchema(CanonicalSchema):
    """CodeSystem."""

    resource_type = "CodeSystem"

    case_sensitive = Element(boolean, summary=True)
    value_set = Element(uri, summary=True)
    hierarchy_meaning = Element(
        one_of("grouped-by", "is-a", "part-of", "classified-with"), summary=True
    )
    compositional = Element(boolean, summary=True)
    version_needed = Element(boolean, summary=True)
    content = Element(
        one_of("not-present", "example", "fragment", "complete", "supplement"),
        required=True,
        summary=True,
    )
    supplements = Element(uri, summary=True)
    count = Element(unsigned, summary=True)
    filter = Elements(Filter, summary=True)
    property = Elements(Property, summary=True)
    concept = Elements(Concept)


CODE_SYSTEM = "http://hl7.org/fhir/SearchParameter/CodeSystem-"

# Of R4's, `code`, `language`, `supplements`, `context-quantity` and those of contexts with their
# type are not here.
PARAMS = Parameters(
    (
        *COMMON,
        *CANONICAL,
        Uri(
            "system",
            ("url",),
            "Address that codes name the system by: the same as url",
            CODE_SYSTEM + "system",
            searches=("url",),
        ),
        Token(
            "content-mode",
            ("content",),
            "not-present, example, fragment, complete or supplement",
            CODE_SYSTEM + "content-mode",
            system="http://hl7.org/fhir/codesystem-content-mode",
        ),
    )
)


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="CodeSystem",
        model=CodeSystem,
        schema=CodeSystemSchema(),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        doc="Code systems: codes, and which of them are kinds of which.",
        labels=Labels(
            one=Marked("a code system"),
            plural=Marked("code systems"),
            scope=Marked("code systems"),
        ),
        table_columns=(
            TableColumn(Marked("Title"), ("title", "name"), Marked("title not recorded")),
            TableColumn(Marked("Address"), ("url",), Marked("address not recorded")),
            TableColumn(Marked("Version"), ("version",), Marked("version not recorded")),
            TableColumn(Marked("Content"), ("content",), Marked("content not recorded")),
        ),
    ),
)
