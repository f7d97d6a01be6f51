"""/fhir/OperationDefinition and /fhir/SearchParameter: what this server defines beyond FHIR.

/fhir/metadata links to each definition; like it, they need no token.
Source: FHIR R4 operationdefinition, searchparameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from flask import Blueprint, Flask, Response

from fhirapp.definition import Definition, Operation, OperationParameter, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import NotFound, UnsupportedParameter
from fhirapp.rest import response
from fhirapp.rest.include_parameters import included_types
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference

blueprint = Blueprint("definitions", __name__)


def init_app(app: Flask) -> None:
    """Serve the definitions."""
    app.register_blueprint(blueprint)


def operation_canonical(type_name: str, operation: Operation) -> str:
    """Return the canonical address of an operation's definition: a guide's, or one of our own."""
    return operation.definition or response.fhir_address(
        f"OperationDefinition/{type_name}-{operation.name}"
    )


def operation_definitions() -> Iterator[dict[str, Any]]:
    """Yield the OperationDefinition of each operation that no guide defines."""
    for definition in types().values():
        for operation in definition.operations:
            if not operation.definition:
                yield _operation_definition(definition.name, operation)


def _operation_definition(type_name: str, operation: Operation) -> dict[str, Any]:
    return {
        "resourceType": "OperationDefinition",
        "id": f"{type_name}-{operation.name}",
        "url": operation_canonical(type_name, operation),
        "name": f"{type_name}{operation.name.title().replace('-', '')}",
        "status": "active",
        "kind": "operation",
        "description": operation.doc,
        # By GET too: R4 lets only what changes nothing be asked so.
        "affectsState": False,
        "code": operation.name,
        "resource": [type_name],
        "system": False,
        "type": not operation.instance,
        "instance": operation.instance,
        "parameter": [
            *(_operation_parameter(parameter, "in") for parameter in operation.parameters),
            *(_operation_parameter(parameter, "out") for parameter in operation.returns),
        ],
    }


def _operation_parameter(parameter: OperationParameter, use: str) -> dict[str, Any]:
    content = {
        "name": parameter.name,
        "use": use,
        "min": int(parameter.required),
        "max": "*" if parameter.repeats else "1",
        "documentation": parameter.doc,
    }
    if parameter.parts:
        return content | {"part": [_operation_parameter(part, use) for part in parameter.parts]}
    return content | {"type": parameter.type}


# Modifiers as a search writes them, and their codes in FHIR R4's search-modifier-code.
_MODIFIERS = {
    **{name: name for name in ("missing", "exact", "contains", "not", "text")},
    **{name: name for name in ("in", "not-in", "above", "below", "identifier")},
    "of-type": "ofType",
}


def search_parameter_definitions() -> Iterator[dict[str, Any]]:
    """Yield the SearchParameter of each parameter that FHIR does not define."""
    for definition in types().values():
        for parameter in definition.params:
            if not parameter.spec:
                yield _search_parameter_definition(definition, parameter)


def modifiers_of(parameter: Parameter) -> list[str]:
    """Return the modifiers that a parameter takes, besides the types of a reference's targets."""
    return [name for name in _MODIFIERS if _takes(parameter, name)]


def documentation(parameter: Parameter) -> str:
    """Return what a parameter finds, and where a chain of it leads."""
    if not isinstance(parameter, Reference):
        return parameter.doc
    targets = (
        included_types().intersection(parameter.targets) if parameter.targets else ["any type"]
    )
    # As patient.name, or encounter:Encounter.class.
    chained = f"; chained to {', '.join(sorted(targets))}" if targets else ""
    return f"{parameter.doc}{chained}"


def search_parameter_canonical(definition: Definition, parameter: Parameter) -> str:
    """Return the canonical address of a parameter's definition: FHIR's, or one of our own."""
    return parameter.spec or response.fhir_address(
        f"SearchParameter/{definition.name}-{parameter.name}"
    )


def _search_parameter_definition(definition: Definition, parameter: Parameter) -> dict[str, Any]:
    paths = parameter.paths or tuple(
        path for name in parameter.searches for path in definition.params.by_name[name].paths
    )
    return {
        "resourceType": "SearchParameter",
        "id": f"{definition.name}-{parameter.name}",
        "url": search_parameter_canonical(definition, parameter),
        "name": f"{definition.name}{parameter.name.title().replace('-', '')}",
        "status": "active",
        "description": f"{parameter.doc}.",
        "code": parameter.name,
        "base": [definition.name],
        "type": parameter.kind,
        "expression": " | ".join(f"{definition.name}.{path}" for path in paths),
        "multipleOr": True,
        "multipleAnd": True,
        "modifier": [_MODIFIERS[name] for name in modifiers_of(parameter)],
    }


def _takes(parameter: Parameter, modifier: str) -> bool:
    try:
        parameter.check_modifier(modifier)
    except UnsupportedParameter:
        return False
    return True


class Definitions(NamedTuple):
    """The definitions of one type; doc describes the type."""

    type: str
    doc: str
    all: Callable[[], Iterable[dict[str, Any]]]

    def read(self, definition_id: str) -> Response:
        """Return a definition of this server's own. Raises NotFound."""
        parameters = response.arguments()
        response.check_known(parameters, response.FORM_PARAMETERS)
        layout = response.negotiate(parameters)
        for content in self.all():
            if content["id"] == definition_id:
                body = fhir_json.dumps_indented(content)
                return response.respond(body, layout, etag=response.document_etag(body))
        raise NotFound(f"{self.type}/{definition_id} is not known here.")


SERVED = (
    Definitions(
        "OperationDefinition",
        "Definitions of the operations that FHIR does not define.",
        operation_definitions,
    ),
    Definitions(
        "SearchParameter",
        "Definitions of the search parameters that FHIR does not define.",
        search_parameter_definitions,
    ),
)

for _definitions in SERVED:
    blueprint.add_url_rule(
        f"/fhir/{_definitions.type}/<definition_id>", _definitions.type, _definitions.read
    )
