"""Writes fhirapp/fhir/r4.txt, the elements of every type of FHIR R4, from HL7's definitions.

    python -m tests.support.r4_elements

The definitions are in HL7's package hl7.fhir.r4.examples (CC0), one of those of tests/node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.node import NODE
from tests.support.shell import ROOT

EXAMPLES = NODE / "node_modules" / "hl7.fhir.r4.examples"
TABLE = ROOT / "fhirapp" / "fhir" / "r4.txt"
_FHIR_TYPE = "http://hl7.org/fhir/StructureDefinition/structuredefinition-fhir-type"
_BASES = ("Element", "BackboneElement")


def table(folder: Path) -> str:
    """Return a line for each type: its name, what it extends, and its own elements in order.

    An element is name:type, name*:type where it repeats, name?:types where it is a choice.
    """
    lines = [line for path in folder.glob("StructureDefinition-*.json") for line in _lines(path)]
    return "".join(f"{line}\n" for line in sorted(lines))


def _lines(path: Path) -> Iterator[str]:
    definition = json.loads(path.read_bytes())
    if definition["kind"] not in ("resource", "complex-type") or (
        definition.get("derivation") == "constraint"
    ):
        return
    base = definition.get("baseDefinition", "").rpartition("/")[2]
    members: dict[str, list[str]] = {definition["type"]: [base]}
    for element in definition["differential"]["element"][1:]:
        place, _, name = element["path"].rpartition(".")
        types = [_type_of(one) for one in element.get("type", ())]
        if types and types[0] in _BASES:
            members[element["path"]] = [types[0]]
            types = [element["path"]]
        elif not types:
            types = [element["contentReference"].removeprefix("#")]
        mark = "?" if name.endswith("[x]") else "*" if element["max"] != "1" else ""
        members[place].append(f"{name.removesuffix('[x]')}{mark}:{'|'.join(types)}")
    yield from (f"{name} {' '.join(words)}" for name, words in members.items())


def _type_of(one: Mapping[str, Any]) -> str:
    """Return an element's type; of those that FHIRPath defines, the one that FHIR has for it."""
    named = {
        more["url"]: more["valueUrl"] for more in one.get("extension", ()) if "valueUrl" in more
    }
    return str(named.get(_FHIR_TYPE, one["code"]))


if __name__ == "__main__":
    TABLE.write_text(table(EXAMPLES))
