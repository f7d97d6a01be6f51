"""Datatypes of DSTU2 and STU3, converted to R4. Source: HL7's maps between the versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fhirapp.features.imports.repair.log import RepairLog, listed
from fhirapp.fhir import datatypes
from fhirapp.fhir.elements import Check

Resource = dict[str, Any]

_BASE_TYPE = "http://hl7.org/fhir/3.0/StructureDefinition/extension-BaseType"
_PARTIAL = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


def first_moment(log: RepairLog, value: str, path: str) -> str:
    """Return the first moment of a date, in UTC; an instant is returned as it is."""
    parts = _PARTIAL.fullmatch(value)
    if parts is None:
        return value
    moment = f"{parts[1]}-{parts[2] or '01'}-{parts[3] or '01'}T00:00:00+00:00"
    log.did(path, "instant", value, moment)
    return moment


def members(holder: Resource, name: str, path: str = "") -> Iterator[tuple[Resource, str]]:
    """Yield the members of an element that are objects, each with the path of its elements."""
    for place, member in enumerate(listed(holder.get(name))):
        if type(member) is dict:
            yield member, f"{path}{name}[{place}]."


def concepts(log: RepairLog, value: Any, path: str) -> Any:
    """Make CodeableConcepts of Codings, in a list or alone."""
    if type(value) is not list:
        return concept(log, value, path)
    return [concept(log, item, f"{path}[{place}]") for place, item in enumerate(value)]


def concept(log: RepairLog, value: Any, path: str) -> Any:
    """Make a CodeableConcept of a Coding."""
    if type(value) is not dict:
        return value
    names = {name.removeprefix("_") for name in value}
    if names <= datatypes.CodeableConcept.elements.keys():
        return value
    if names - datatypes.Coding.elements.keys():
        return value
    converted = {"coding": [value]}
    log.did(path, "code", value, converted)
    return converted


def refer(log: RepairLog, holder: Resource, name: str, path: str) -> None:
    """Make a Reference of who[x], onBehalfOf[x] or what[x], which STU3 has in several types."""
    log.rename(holder, f"{name}Reference", name, path)
    for kind, element in (("Uri", "reference"), ("Identifier", "identifier")):
        old = f"{name}{kind}"
        if old not in holder:
            continue
        if name in holder:
            log.cannot(f"{path}{old}", f"contradicts {name}, its name in FHIR R4")
            continue
        reference = {element: holder.pop(old)}
        if kind == "Uri":
            reference["extension"] = [{"url": _BASE_TYPE, "valueString": "uri"}]
            if f"_{old}" in holder:
                reference["_reference"] = holder.pop(f"_{old}")
        holder[name] = reference
        log.did(f"{path}{old}", "renamed", old, f"{name}.{element}")


def _human_name(log: RepairLog, name: Resource, path: str) -> None:
    """Make one family name of DSTU2's list."""
    family, beside = name.get("family"), name.get("_family")
    if type(family) is not list and type(beside) is not list:
        return
    parts = listed(family)
    extensions = [item for item in listed(beside) if item]
    words = [part for part in parts if part is not None]
    is_ambiguous = len(extensions) > 1 or (extensions and len(parts) > 1)
    if is_ambiguous or any(type(word) is not str for word in words):
        log.cannot(f"{path}family", "has several parts with extensions of their own; R4 has one")
        return
    name.pop("family", None)
    name.pop("_family", None)
    if words:
        name["family"] = " ".join(words)
    if extensions:
        name["_family"] = extensions[0]
    log.did(f"{path}family", "joined", family, name.get("family"))


def _signature(log: RepairLog, signature: Resource, path: str) -> None:
    log.rename(signature, "contentType", "sigFormat", path)
    log.rename(signature, "blob", "data", path)
    for name in ("who", "onBehalfOf"):
        refer(log, signature, name, path)


# Of datatypes, by their check; called with the path of the value's elements.
OLDER_TYPES: Mapping[Check, Callable[[RepairLog, Resource, str], None]] = {
    datatypes.HumanName: _human_name,
    datatypes.Signature: _signature,
}
