"""What defines the operations that FHIR does not. FHIR R4 operationdefinition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fhirapp.rest.response import fhir_address
from fhirapp.store.definition import Operation, OperationParameter, types

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
