"""/fhir/OperationDefinition, /fhir/SearchParameter: what defines what FHIR does not.

They are read one by one, under the addresses that /fhir/metadata names. No token is needed, as
there.

What defines the operations that FHIR does not. FHIR R4 operationdefinition.
What defines the search parameters that FHIR does not. FHIR R4 searchparameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from flask import Blueprint, Flask, Response

from fhirapp.definition import Definition, Operation, OperationParameter, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import NotFound, UnsupportedParameter
from fhirapp.rest.negotiation import FORMING, arguments, check_known, wanted_form
from fhirapp.rest.response import document_etag, fhir_address, respond
from fhirapp.search.parameter import Parameter

TYPE = "OperationDefinition"


def canonical(type_name: str, operation: Operation) -> str:
    """Return the canonical address of an operation's definition: a guide's, or one of our own."""
    return operation.definition or fhir_address(f"{TYPE}/{_id(type_name, operation)}")


def definitions() -> Iterator[dict[str, Any]]:
    """Yield the OperationDefinition of each operation that nobody else defined."""
    for definition in types().values():
        for operation in definition.operations:
            if not operation.definition:
                yield _definition(definition.name, operation)


def _definition(type_name: str, operation: Operation) -> dict[str, Any]:
    taken = [_parameter(one, "in") for one in operation.parameters]
    returned = [_parameter(one, "out") for one in operation.returns]
    return {
        "resourceType": TYPE,
        "id": _id(type_name, operation),
        "url": canonical(type_name, operation),
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
        "parameter": [*taken, *returned],
    }


def _parameter(parameter: OperationParameter, use: str) -> dict[str, Any]:
    content = {
        "name": parameter.name,
        "use": use,
        "min": int(parameter.required),
        "max": "*" if parameter.repeats else "1",
        "documentation": parameter.doc,
    }
    if parameter.parts:
        return content | {"part": [_parameter(one, use) for one in parameter.parts]}
    return content | {"type": parameter.type}


def _id(type_name: str, operation: Operation) -> str:
    return f"{type_name}-{operation.name}"


SEARCH_PARAMETERS_TYPE = "SearchParameter"

# Modifiers as a search writes them, and as FHIR R4's value set search-modifier-code does.
_MODIFIERS = {
    **{name: name for name in ("missing", "exact", "contains", "not", "text")},
    **{name: name for name in ("above", "below", "identifier")},
    "of-type": "ofType",
}


def search_parameters_definitions() -> Iterator[dict[str, Any]]:
    """Yield the SearchParameter of each parameter that FHIR does not define."""
    for definition in types().values():
        for parameter in definition.params:
            if not parameter.spec:
                yield _search_parameters_definition(definition, parameter)


def modifiers_of(parameter: Parameter) -> list[str]:
    """Return the modifiers that a parameter takes, besides the types of a reference's targets."""
    return [name for name in _MODIFIERS if _takes(parameter, name)]


def search_parameters_canonical(definition: Definition, parameter: Parameter) -> str:
    """Return the canonical address of a parameter's definition: FHIR's, or one of our own."""
    return parameter.spec or fhir_address(
        f"{SEARCH_PARAMETERS_TYPE}/{_search_parameters_id(definition, parameter)}"
    )


def _search_parameters_definition(definition: Definition, parameter: Parameter) -> dict[str, Any]:
    paths = parameter.paths or tuple(
        path for name in parameter.searches for path in definition.params.by_name[name].paths
    )
    return {
        "resourceType": SEARCH_PARAMETERS_TYPE,
        "id": _search_parameters_id(definition, parameter),
        "url": search_parameters_canonical(definition, parameter),
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


def _search_parameters_id(definition: Definition, parameter: Parameter) -> str:
    return f"{definition.name}-{parameter.name}"


blueprint = Blueprint("definitions", __name__)


class Definitions(NamedTuple):
    """The definitions of one type, and a sentence about them."""

    type: str
    doc: str
    all: Callable[[], Iterable[dict[str, Any]]]

    def read(self, definition_id: str) -> Response:
        """Return a definition of this server's own. Raises NotFound."""
        given = arguments()
        check_known(given, FORMING)
        form = wanted_form(given)
        for content in self.all():
            if content["id"] == definition_id:
                body = fhir_json.dumps_indented(content)
                return respond(body, form, etag=document_etag(body))
        raise NotFound(f"{self.type}/{definition_id} is not known here.")


SERVED = (
    Definitions(
        TYPE,
        "Definitions of the operations that FHIR does not define.",
        definitions,
    ),
    Definitions(
        SEARCH_PARAMETERS_TYPE,
        "Definitions of the search parameters that FHIR does not define.",
        search_parameters_definitions,
    ),
)

for _one in SERVED:
    blueprint.add_url_rule(f"/fhir/{_one.type}/<definition_id>", _one.type, _one.read)


def init_app(app: Flask) -> None:
    """Serve the definitions."""
    app.register_blueprint(blueprint)
