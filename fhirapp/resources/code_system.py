"""CodeSystem: codes and how they are ordered, which an operator imports. FHIR R4 codesystem."""

from __future__ import annotations

from typing import Any

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
    date_time,
    integer,
    one_of,
    string,
    unsigned,
    uri,
)
from fhirapp.fhir.elements import boolean, choice, decimal, many
from fhirapp.fhir.outcome import NotFound, UnknownTerminology, UnsupportedParameter
from fhirapp.fhir.resource import CanonicalSchema, Element, Elements
from fhirapp.rest.access import access_to
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.rest.code_systems import concepts_of
from fhirapp.rest.operation import parse_operation
from fhirapp.rest.response import negotiate
from fhirapp.rest.terminology import Look
from fhirapp.rest.terminology_operations import (
    answer,
    asked,
    codes_of,
    of_resource,
    validate_code_operation,
    validation,
)
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import CANONICAL, COMMON
from fhirapp.search.string import Uri
from fhirapp.search.token import Token
from fhirapp.search.values import unescape


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


VALIDATE_CODE = validate_code_operation(
    "CodeSystem",
    "a code system",
    OperationParameter("url", "uri", "Address of the code system", required=True),
    OperationParameter("version", "string", "Its version"),
)
SUBSUMES = Operation(
    "subsumes",
    "http://hl7.org/fhir/OperationDefinition/CodeSystem-subsumes",
    "Whether one code is the other, a kind of it, or neither.",
    (
        OperationParameter("codeA", "code", "The one code", required=True),
        OperationParameter("codeB", "code", "The other code", required=True),
        OperationParameter("system", "uri", "Address of the code system", required=True),
        OperationParameter("version", "string", "Its version"),
    ),
    answer="Parameters",
    is_paged=False,
    needs_record=True,
)


def validate_code(definition: Definition, resource_id: str | None = None) -> Response:
    """Return whether a code is in a code system. Raises FhirError."""
    access_to(definition, "r", resource_id)
    operation = parse_operation(of_resource(VALIDATE_CODE) if resource_id else VALIDATE_CODE)
    layout = negotiate(operation.parameters)
    look = Look(reader(), "url")
    held = asked(look, definition, resource_id, operation)
    concepts = concepts_of(held)
    codes = [code for _system, code in codes_of(operation, concepts.url)]
    found = next((concepts.code(one) for one in codes if one in concepts.by_code), None)
    if found is None and concepts.fault:
        # The code may be among those that are not here.
        raise UnsupportedParameter("url", concepts.fault)
    return validation(found, operation.value("display"), held.name, layout)


def subsumes(definition: Definition) -> Response:
    """Return which of two codes is a kind of the other. Raises FhirError."""
    access_to(definition, "r")
    operation = parse_operation(SUBSUMES)
    layout = negotiate(operation.parameters)
    one, other, system = (
        unescape(operation.values[name][0]) for name in ("codeA", "codeB", "system")
    )
    try:
        concepts = Look(reader(), "system").concepts(system, operation.value("version") or "")
    except UnknownTerminology as error:
        raise NotFound(error.diagnostics, parameter="system") from None
    for name, known in (("codeA", one), ("codeB", other)):
        if known not in concepts.by_code:
            raise UnknownTerminology(name, f"{system} has no such code")
    if concepts.disorder:
        raise UnsupportedParameter("system", concepts.disorder)
    outcome = "not-subsumed"
    if one == other:
        outcome = "equivalent"
    elif other in concepts.reach(one, concepts.children):
        outcome = "subsumes"
    elif one in concepts.reach(other, concepts.children):
        outcome = "subsumed-by"
    parts = [{"name": "outcome", "valueCode": outcome}]
    return answer({"resourceType": "Parameters", "parameter": parts}, layout)


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="CodeSystem",
        model=CodeSystem,
        schema=CodeSystemSchema(),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        operations=(VALIDATE_CODE, of_resource(VALIDATE_CODE), SUBSUMES),
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
    operations={VALIDATE_CODE.name: validate_code, SUBSUMES.name: subsumes},
)
