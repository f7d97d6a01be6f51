"""Repairs of resources that are not FHIR R4, by rule, each of them listed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from fhirapp.features.imports.repair.log import Repair, RepairLog, listed
from fhirapp.features.imports.repair.older_resources import bring_to_r4
from fhirapp.features.imports.repair.values import drop_empty, repair_values, repaired_value
from fhirapp.fhir import datatypes
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource, ResourceSchema

__all__ = ["Repair", "repair", "repaired_id"]


def repair(
    resource: dict[str, Any],
    place: str,
    schema: ResourceSchema,
    contained: Mapping[str, ResourceSchema] | None = None,
) -> list[Repair]:
    """Repair a resource in place; return what was done, nothing where it was valid R4.

    place is that of the resource, as file:line; schema is that of its type, contained has those of
    the types of contained resources that are repaired too. What no rule covers is left to the
    schema to refuse. Raises InvalidResource where a rule would lose something; the resource is then
    repaired in part.
    """
    log = RepairLog(place, schema.resource_type)
    try:
        drop_empty(log, resource)
        derived = "" if "id" in resource else _derived_id(resource)
        _repair(log, resource, schema)
        for number, inner in enumerate(listed(resource.get("contained"))):
            type_name = inner.get("resourceType") if type(inner) is dict else None
            if type(type_name) is str and contained and type_name in contained:
                # A contained resource is not checked: what cannot be repaired stays as it is.
                inner_log = RepairLog(place, f"{schema.resource_type}.contained[{number}]")
                before = inner.get("id")
                _repair(inner_log, inner, contained[type_name])
                log.repairs += inner_log.repairs
                _follow(log, resource, before, inner.get("id"))
    except RecursionError:
        raise InvalidResource([(schema.resource_type, "is nested too deeply")]) from None
    if derived:
        resource["id"] = derived
        log.did("id", "id", None, derived)
    if log.faults:
        raise InvalidResource(log.faults)
    return log.repairs


def repaired_id(resource: Mapping[str, Any]) -> Any:
    """Return the id that a resource has when it is repaired. Raises InvalidResource."""
    try:
        copy = deepcopy({**resource})
        drop_empty(RepairLog("", ""), copy)
        if "id" not in copy:
            return _derived_id(copy)
    except RecursionError:
        raise InvalidResource([("", "is nested too deeply")]) from None
    return repaired_value(copy["id"], datatypes.identity)


def _follow(log: RepairLog, resource: dict[str, Any], before: Any, after: Any) -> None:
    """Change references to a contained resource whose id was repaired."""
    if before == after or type(before) is not str:
        return
    for holder, path in _references(resource, ""):
        if holder["reference"] == f"#{before}":
            holder["reference"] = f"#{after}"
            log.did(path, "trim", f"#{before}", f"#{after}")


def _references(value: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield what holds a reference, with the path of that."""
    if type(value) is dict:
        if type(value.get("reference")) is str:
            yield value, f"{path}reference"
        for name, content in value.items():
            for place, item in enumerate(listed(content)):
                at = f"[{place}]" if type(content) is list else ""
                yield from _references(item, f"{path}{name}{at}.")


def _repair(log: RepairLog, resource: dict[str, Any], schema: ResourceSchema) -> None:
    bring_to_r4(log, resource, schema.resource_type)
    repair_values(log, resource, schema)


def _derived_id(resource: Mapping[str, Any]) -> str:
    """Return the id that follows from the first whole identifier, else from all but meta."""
    type_name = resource.get("resourceType")
    for identifier in listed(resource.get("identifier")):
        if type(identifier) is not dict:
            continue
        system, value = identifier.get("system"), identifier.get("value")
        if type(system) is str and type(value) is str and system and value:
            return _digest([type_name, system, value])
    left_out = ("id", "meta")
    return _digest({name: value for name, value in resource.items() if name not in left_out})


def _digest(content: Any) -> str:
    try:
        return hashlib.sha256(fhir_json.canonical(content)).hexdigest()[:40]
    except TypeError:
        raise InvalidResource([("id", "cannot follow from what is nested too deeply")]) from None
