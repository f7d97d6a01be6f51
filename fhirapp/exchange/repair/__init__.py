"""Repairs of resources that are not FHIR R4, by rule, each of them listed.

log.py         the rules, what was repaired, and what cannot be
values.py      empty values, and values in another form than the schema's
clinical.py    fields of DSTU2 and STU3: AllergyIntolerance, DocumentReference, Encounter
supporting.py  fields of DSTU2 and STU3: Patient, Practitioner, Provenance, datatypes
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from fhirapp.exchange.repair import clinical, supporting
from fhirapp.exchange.repair.log import Log, Repair, listed
from fhirapp.exchange.repair.values import drop_empty, repair_values
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource, ResourceSchema

__all__ = ["Repair", "repair"]

_OLDER_FIELDS: Mapping[str, Callable[[Log, dict[str, Any]], None]] = {
    "AllergyIntolerance": clinical.bring_to_r4,
    "DocumentReference": clinical.document_reference_bring_to_r4,
    "Binary": lambda log, resource: log.rename(resource, "content", "data"),
    "Encounter": clinical.encounter_bring_to_r4,
    "Patient": supporting.patient,
    "Practitioner": supporting.practitioner,
    "Provenance": supporting.bring_to_r4,
}


def repair(
    resource: dict[str, Any],
    place: str,
    schema: ResourceSchema,
    contained: Mapping[str, ResourceSchema] | None = None,
) -> list[Repair]:
    """Repair a resource in place; return what was done, nothing where it was valid R4.

    place is where the resource stands, as file:line, schema that of its type, contained those of
    the types of contained resources that are repaired too. What no rule knows stays, for the schema
    to refuse. Raises InvalidResource where a rule would lose something; the resource is then
    repaired in part.
    """
    log = Log(place, schema.resource_type)
    try:
        drop_empty(log, resource)
        derived = "" if "id" in resource else _derived_id(resource)
        _repair(log, resource, schema)
        for number, one in enumerate(listed(resource.get("contained"))):
            type_name = one.get("resourceType") if type(one) is dict else None
            if type(type_name) is str and contained and type_name in contained:
                # A contained resource is not checked: what cannot be repaired stays as it is.
                inner = Log(place, f"{schema.resource_type}.contained[{number}]")
                _repair(inner, one, contained[type_name])
                log.repairs += inner.repairs
    except RecursionError:
        raise InvalidResource([(schema.resource_type, "is nested too deeply")]) from None
    if derived:
        resource["id"] = derived
        log.did("id", "id", None, derived)
    if log.faults:
        raise InvalidResource(log.faults)
    return log.repairs


def _repair(log: Log, resource: dict[str, Any], schema: ResourceSchema) -> None:
    older_fields = _OLDER_FIELDS.get(schema.resource_type)
    if older_fields:
        older_fields(log, resource)
    repair_values(log, resource, schema)


def _derived_id(resource: Mapping[str, Any]) -> str:
    """Return the id that follows from the first whole identifier, else from all but meta."""
    type_name = resource.get("resourceType")
    listed = resource.get("identifier")
    for identifier in listed if type(listed) is list else [listed]:
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
