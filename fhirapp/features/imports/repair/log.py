"""What was repaired in a resource, and what cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fhirapp.fhir import json as fhir_json

RULES: Mapping[str, str] = {
    "empty": "Empty strings, lists and objects, and null, are left out.",
    "list": "A single value where R4 has a list becomes a list of one.",
    "number": "A number or a boolean written as a string becomes one.",
    "string": "A number where R4 has a string becomes its digits.",
    "trim": "Spaces around a code, an id, an address or a date are removed.",
    "time": "A time without a zone is in UTC, without seconds at second 0; 24:00 is 00:00 of the "
    "next day.",
    "instant": "A date where R4 has an instant is its first moment, in UTC.",
    "id": "A missing id follows from the first identifier that has a system and a value, else from "
    "the content without meta. References in the same Bundle follow an id that is changed.",
    "renamed": "A field of DSTU2 or STU3 gets R4's name.",
    "code": "A code of DSTU2 or STU3 becomes R4's, by HL7's maps between the versions.",
    "joined": "The parts of a family name, which DSTU2 has as a list, become one with spaces.",
    "extension": "What R4 has no place for becomes HL7's extension for that field of that version.",
    "absent": "What R4 requires and an older version does not gets the extension "
    "data-absent-reason, unknown.",
}
# What FHIR takes for white space; a no-break space is a character like any other.
SPACES = " \t\n\r\f\v"
# The most characters that are shown of a value.
_SHOWN = 60


class Repair(NamedTuple):
    """A repair: the element's path, the name of the rule, and the values before and after.

    before is None for what was added, after for what was left out; of what was renamed they are
    the names. place is the resource's.
    """

    path: str
    rule: str
    before: Any
    after: Any
    place: str = ""

    def __str__(self) -> str:
        """Return a line for a report."""
        place = f"{self.place}: " if self.place else ""
        before, after = _shown(self.before), _shown(self.after)
        return f"{place}{self.path}: {self.rule}: {before} became {after}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = fhir_json.text(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def listed(value: Any) -> list[Any]:
    """Return the items of a list; a single value as a list of one, nothing as an empty one."""
    if type(value) is list:
        return value
    return [] if value is None else [value]


class RepairLog:
    """Gathers repairs and faults; paths are below the resource."""

    def __init__(self, place: str, type_name: str) -> None:
        self.repairs: list[Repair] = []
        self.faults: list[tuple[str, str]] = []
        self._place = place
        self._type_name = type_name

    def did(self, path: str, rule: str, before: Any, after: Any) -> None:
        """Note a repair."""
        whole = f"{self._type_name}.{path}"
        self.repairs.append(Repair(whole, rule, before, after, self._place))

    def cannot(self, path: str, message: str) -> None:
        """Note what cannot be repaired without losing something."""
        self.faults.append((f"{self._type_name}.{path}", message))
