"""Repairs of resources that are not FHIR R4, by rule, each of them listed.

older.py converts what older versions of FHIR have; values in another form than R4's are converted
here by the type's schema, and empty ones are left out: FHIR JSON has no empty strings, lists or
objects, and no null.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from fhirapp.features.imports.repair.log import SPACES, Repair, RepairLog, listed
from fhirapp.features.imports.repair.older import first_moment, older_to_r4
from fhirapp.fhir import datatypes
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.elements import Check, Complex, Repeating, boolean, decimal
from fhirapp.fhir.resource import InvalidResource, ResourceSchema

__all__ = ["Repair", "repair", "repaired_id"]

_WHOLE = (datatypes.unsigned, datatypes.positive, datatypes.integer)
# Spaces in these may mean something, or are allowed.
_WITH_SPACES = (
    datatypes.string,
    datatypes.markdown,
    datatypes.base64_binary,
    datatypes.bytes_of,
)
# References to a datatype that is declared later, and that datatype.
_STANDS_FOR: Mapping[Check, Check] = {
    datatypes.Identifier.elements["assigner"]: datatypes.Reference,
    datatypes.Period.elements["extension"]: datatypes.EXTENSIONS,
}
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,9})", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?\s?(?:([Zz])|([+-]\d\d):?(\d\d))?",
    re.ASCII,
)


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
        _drop_empty(log, resource)
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
        _drop_empty(RepairLog("", ""), copy)
        if "id" not in copy:
            return _derived_id(copy)
    except RecursionError:
        raise InvalidResource([("", "is nested too deeply")]) from None
    return _primitive(RepairLog("", ""), copy["id"], datatypes.identity, "")


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
    older_to_r4(log, resource, schema.resource_type)
    elements = {name: element.check for name, element in schema.elements.items()}
    _elements(log, resource, elements, "")


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


def _elements(
    log: RepairLog, holder: dict[str, Any], elements: Mapping[str, Check], path: str
) -> None:
    for name in list(holder):
        check = elements.get(name.removeprefix("_"))
        if check is None:
            continue
        check = _STANDS_FOR.get(check, check)
        where = f"{path}{name}"
        if isinstance(check, Repeating) and type(holder[name]) is not list:
            listed = [holder[name]]
            log.did(where, "list", holder[name], listed)
            holder[name] = listed
        if name.startswith("_"):
            _beside(log, holder[name], where)
        else:
            holder[name] = _repaired(log, holder[name], check, where)


def _beside(log: RepairLog, value: Any, path: str) -> None:
    """Repair the extensions of a primitive, or of a list of them."""
    for item in value if type(value) is list else [value]:
        if type(item) is dict:
            _elements(log, item, datatypes.Period.elements, f"{path}.")


def _repaired(log: RepairLog, value: Any, check: Check, path: str) -> Any:
    if isinstance(check, Repeating):
        item = _STANDS_FOR.get(check.item, check.item)
        return [
            _repaired(log, content, item, f"{path}[{place}]") for place, content in enumerate(value)
        ]
    if type(value) is dict:
        inside = _complex(check, value)
        if inside is not None:
            older_to_r4(log, value, inside, f"{path}.")
            _elements(log, value, inside.elements, f"{path}.")
        return value
    if check not in datatypes.PRIMITIVES:
        return value
    return _primitive(log, value, check, path)


def _complex(check: Check, value: dict[str, Any]) -> Complex | None:
    if isinstance(check, Complex):
        return check
    # A CodeableConcept with a required binding hides in its check.
    if value.keys() <= datatypes.CodeableConcept.elements.keys():
        return datatypes.CodeableConcept
    return None


def _primitive(log: RepairLog, value: Any, check: Check, path: str) -> Any:
    if check is boolean or check is decimal or check in _WHOLE:
        read = _number(value, check)
        if read is not value:
            log.did(path, "number", value, read)
        return read
    if type(value) is int or type(value) is Decimal:
        log.did(path, "string", value, str(value))
        value = str(value)
    if type(value) is not str:
        return value
    if check not in _WITH_SPACES and value != value.strip(SPACES):
        log.did(path, "trim", value, value.strip(SPACES))
        value = value.strip(SPACES)
    if check is datatypes.date_time or check is datatypes.instant:
        time = _time_in_full(value)
        if time != value:
            log.did(path, "time", value, time)
        return first_moment(log, time, path) if check is datatypes.instant else time
    return value


def _number(value: Any, check: Check) -> Any:
    """Return a string that is a number or a boolean as one; any other value as it is."""
    if type(value) is not str:
        return value
    text = value.strip()
    if check is boolean:
        return _BOOLEANS.get(text, value)
    if check is decimal:
        return Decimal(text) if _DECIMAL.fullmatch(text) else value
    return int(text) if _INTEGER.fullmatch(text) else value


def _time_in_full(value: str) -> str:
    """Return a time with its seconds and its zone; any other value as it is."""
    parts = _TIME.fullmatch(value)
    if parts is None:
        return value
    day, hour, minute, second, fraction, utc, offset, minutes = parts.groups()
    second, fraction = second or "00", fraction or ""
    zone = "Z" if utc else f"{offset}:{minutes}" if offset else "+00:00"
    if hour == "24":
        if minute != "00" or second != "00" or fraction.strip(".0"):
            return value
        try:
            day, hour = (date.fromisoformat(day) + timedelta(days=1)).isoformat(), "00"
        except (ValueError, OverflowError):
            return value
    return f"{day}T{hour}:{minute}:{second}{fraction}{zone}"


def _drop_empty(log: RepairLog, holder: dict[str, Any], path: str = "") -> None:
    """Leave out what is empty, or becomes so, at any depth."""
    for name, value in list(holder.items()):
        if type(value) is dict:
            _drop_empty(log, value, f"{path}{name}.")
        elif type(value) is list:
            _list(log, holder, name, f"{path}{name}")
        if _is_empty(value):
            log.did(f"{path}{name}", "empty", holder.pop(name), None)


def _list(log: RepairLog, holder: dict[str, Any], name: str, path: str) -> None:
    """Clean the items of a list, and take out those that are empty, with their extensions.

    A primitive's list and that of its extensions, `given` and `_given`, lose the same places.
    """
    values = holder[name]
    for place, item in enumerate(values):
        if type(item) is dict:
            _drop_empty(log, item, f"{path}[{place}].")
    other = name[1:] if name.startswith("_") else f"_{name}"
    beside = holder.get(other)
    beside = beside if type(beside) is list else []
    for place in range(len(values) - 1, -1, -1):
        aligned = beside[place] if place < len(beside) else None
        if not _is_empty(values[place]):
            continue
        if _is_empty(aligned):
            log.did(f"{path}[{place}]", "empty", values.pop(place), None)
            if place < len(beside):
                del beside[place]
        elif values[place] is not None:
            log.did(f"{path}[{place}]", "empty", values[place], None)
            values[place] = None
    if name.startswith("_") and not any(values):
        values.clear()


def _is_empty(value: Any) -> bool:
    if type(value) is str:
        return not value.strip(SPACES)
    return value is None or value == {} or value == []
