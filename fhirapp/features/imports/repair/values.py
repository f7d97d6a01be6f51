"""Values in another form than R4's, converted by the type's schema; empty values are left out.

FHIR JSON has no empty strings, lists or objects, and no null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from fhirapp.features.imports.repair.log import SPACES, RepairLog
from fhirapp.features.imports.repair.older_datatypes import OLDER_TYPES, first_moment
from fhirapp.fhir import datatypes
from fhirapp.fhir.elements import Check, Complex, Repeating, boolean, decimal
from fhirapp.fhir.resource import ResourceSchema

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


def repair_values(log: RepairLog, resource: dict[str, Any], schema: ResourceSchema) -> None:
    """Bring the values of all elements that the schema knows into R4's form."""
    elements = {name: element.check for name, element in schema.elements.items()}
    _elements(log, resource, elements, "")


def repaired_value(value: Any, check: Check) -> Any:
    """Return a value of a datatype in R4's form; one that cannot be repaired as it is."""
    return _primitive(RepairLog("", ""), value, check, "")


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
            if older_type := OLDER_TYPES.get(inside):
                older_type(log, value, f"{path}.")
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


def drop_empty(log: RepairLog, resource: dict[str, Any]) -> None:
    """Leave out what is empty, or becomes so, at any depth."""
    _object(log, resource, "")


def _object(log: RepairLog, holder: dict[str, Any], path: str) -> None:
    for name, value in list(holder.items()):
        if type(value) is dict:
            _object(log, value, f"{path}{name}.")
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
            _object(log, item, f"{path}[{place}].")
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
