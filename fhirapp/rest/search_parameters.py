"""What defines the search parameters that FHIR does not. FHIR R4 searchparameter.

service.md 4.1 and 4.2 have `code` and `status`; their canonical addresses are this server's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fhirapp.fhir.outcome import UnsupportedParameter
from fhirapp.rest.response import fhir_address
from fhirapp.search.parameter import Parameter
from fhirapp.store.definition import Definition, types

TYPE = "SearchParameter"

# Modifiers as a search writes them, and as FHIR R4's value set search-modifier-code does.
_MODIFIERS = {
    **{name: name for name in ("missing", "exact", "contains", "not", "text")},
    **{name: name for name in ("above", "below", "identifier")},
    "of-type": "ofType",
}


def definitions() -> Iterator[dict[str, Any]]:
    """Yield the SearchParameter of each parameter that FHIR does not define."""
    for definition in types().values():
        for parameter in definition.params:
            if not parameter.spec:
                yield _definition(definition, parameter)


def modifiers_of(parameter: Parameter) -> list[str]:
    """Return the modifiers that a parameter takes, besides the types of a reference's targets."""
    return [name for name in _MODIFIERS if _takes(parameter, name)]


def canonical(definition: Definition, parameter: Parameter) -> str:
    """Return the canonical address of a parameter's definition: FHIR's, or one of our own."""
    return parameter.spec or fhir_address(f"{TYPE}/{_id(definition, parameter)}")


def _definition(definition: Definition, parameter: Parameter) -> dict[str, Any]:
    paths = parameter.paths or tuple(
        path for name in parameter.searches for path in definition.params.by_name[name].paths
    )
    return {
        "resourceType": TYPE,
        "id": _id(definition, parameter),
        "url": canonical(definition, parameter),
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


def _id(definition: Definition, parameter: Parameter) -> str:
    return f"{definition.name}-{parameter.name}"
