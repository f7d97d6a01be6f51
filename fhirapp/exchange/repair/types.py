"""Datatypes of DSTU2 and STU3, brought to R4, wherever they stand.

Source: HL7's maps, HumanName2to3 (of several family names it takes the first, here they stay
together: they are the name that is shown and found), Signature2to3 and Signature3to4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fhirapp.exchange.repair.log import Log
from fhirapp.fhir import datatypes
from fhirapp.fhir.elements import Check

_BASE_TYPE = "http://hl7.org/fhir/3.0/StructureDefinition/extension-BaseType"


def _human_name(log: Log, name: dict[str, Any], path: str) -> None:
    """Make one family name of DSTU2's list."""
    family, beside = name.get("family"), name.get("_family")
    if type(family) is not list and type(beside) is not list:
        return
    parts = family if type(family) is list else [family] if family is not None else []
    besides = [one for one in (beside if type(beside) is list else [beside]) if one]
    words = [one for one in parts if one is not None]
    if (
        len(besides) > 1
        or (besides and len(parts) > 1)
        or any(type(one) is not str for one in words)
    ):
        log.cannot(f"{path}family", "has several parts with extensions of their own; R4 has one")
        return
    name.pop("family", None)
    name.pop("_family", None)
    if words:
        name["family"] = " ".join(words)
    if besides:
        name["_family"] = besides[0]
    log.did(f"{path}family", "joined", family, name.get("family"))


def _signature(log: Log, signature: dict[str, Any], path: str) -> None:
    log.rename(signature, "contentType", "sigFormat", path)
    log.rename(signature, "blob", "data", path)
    for name in ("who", "onBehalfOf"):
        refer(log, signature, name, path)


def refer(log: Log, holder: dict[str, Any], name: str, path: str) -> None:
    """Make a Reference of who[x], onBehalfOf[x] or what[x], which STU3 has in several types."""
    log.rename(holder, f"{name}Reference", name, path)
    for kind, element in (("Uri", "reference"), ("Identifier", "identifier")):
        old = f"{name}{kind}"
        if old not in holder:
            continue
        if name in holder:
            log.cannot(f"{path}{old}", f"contradicts {name}, which it is in FHIR R4")
            continue
        found = {element: holder.pop(old)}
        if kind == "Uri":
            found["extension"] = [{"url": _BASE_TYPE, "valueString": "uri"}]
            if f"_{old}" in holder:
                found["_reference"] = holder.pop(f"_{old}")
        holder[name] = found
        log.did(f"{path}{old}", "renamed", old, f"{name}.{element}")


# By the check of the datatype.
OLDER_TYPES: Mapping[Check, Callable[[Log, dict[str, Any], str], None]] = {
    datatypes.HumanName: _human_name,
    datatypes.Signature: _signature,
}
