"""Generate fhirapp/fhir/r4.txt, the elements of each FHIR R4 type, from HL7's definitions.

    python -m tests.tools.r4_elements

The definitions are in HL7's npm package hl7.fhir.r4.examples (CC0): run `npm ci` in tests/node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.support.node import NODE

EXAMPLES = NODE / "node_modules" / "hl7.fhir.r4.examples"
TABLE = ROOT / "fhirapp" / "fhir" / "r4.txt"
_FHIR_TYPE = "http://hl7.org/fhir/StructureDefinition/structuredefinition-fhir-type"
_BASES = ("Element", "BackboneElement")


def table(folder: Path) -> str:
    """Return a line for each type: its name, its base type, and its own elements in order.

    An element is name:type, name*:type if it repeats, name?:types if it is a choice.
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
        parent, _, name = element["path"].rpartition(".")
        types = [_type_code(type_) for type_ in element.get("type", ())]
        if types and types[0] in _BASES:
            members[element["path"]] = [types[0]]
            types = [element["path"]]
        elif not types:
            types = [element["contentReference"].removeprefix("#")]
        mark = "?" if name.endswith("[x]") else "*" if element["max"] != "1" else ""
        members[parent].append(f"{name.removesuffix('[x]')}{mark}:{'|'.join(types)}")
    yield from (f"{name} {' '.join(words)}" for name, words in members.items())


def _type_code(type_: Mapping[str, Any]) -> str:
    """Return the code of an element's type: the FHIR type in place of a FHIRPath type."""
    extensions = {
        extension["url"]: extension["valueUrl"]
        for extension in type_.get("extension", ())
        if "valueUrl" in extension
    }
    return str(extensions.get(_FHIR_TYPE, type_["code"]))


if __name__ == "__main__":
    TABLE.write_text(table(EXAMPLES))
