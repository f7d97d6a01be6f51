"""Names of substances, reactions and documents, and their codes: concepts.csv.

A wrong code can hurt a patient, so the file has only codes that have their names in these sources:
SNOMED CT: MyHealth@EU's value sets of allergens and reactions, HL7's US Core examples and Synthea.
RxNorm, by ingredient: CPIC's table of drugs, and Synthea.
LOINC: FHIR R4's value set c80-doc-typecodes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.exchange.tables.columns import SIMILAR
from fhirapp.fhir.terminology import LOINC, SNOMED_CT

_SYSTEMS = {
    "snomed ct": SNOMED_CT,
    "snomed": SNOMED_CT,
    "snomedct": SNOMED_CT,
    "sct": SNOMED_CT,
    "rxnorm": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "unii": "http://fdasis.nlm.nih.gov",
    "cvx": "http://hl7.org/fhir/sid/cvx",
    "loinc": LOINC,
}
# Names that may mean "none known", or "not asked".
_UNCLEAR = re.compile(
    r"(?:no|not|none|nil|n/?a|nka|nkda|nkfa|denie[sd]|denying|negative|without|never)\b.*"
    r"|[\W\d_]+"
)
_UNKNOWN = frozenset(("unknown", "not known", "no information", "unk"))


class Concept(NamedTuple):
    """A code of a system, and how it is displayed."""

    system: str
    code: str
    display: str

    def coding(self) -> dict[str, Any]:
        return self._asdict()


Concepts = Mapping[str, Concept]


def _key(name: str) -> str:
    return " ".join(name.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold().split())


def system_of(name: str) -> str:
    """Return the address of a code system; a name that is not known here is returned as it is."""
    return _SYSTEMS.get(_key(name), name)


def _concepts() -> dict[str, dict[str, Concept]]:
    """Return the concepts by kind, then by each of their names."""
    kinds: dict[str, dict[str, Concept]] = {}
    with Path(__file__).with_name("concepts.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            concept = Concept(system_of(row["system"]), row["code"], row["display"])
            names = (concept.display, *filter(None, row["also"].split("; ")))
            kinds.setdefault(row["kind"], {}).update({_key(name): concept for name in names})
    return kinds


_KINDS = _concepts()
SUBSTANCES = _KINDS["substance"]
MANIFESTATIONS = _KINDS["reaction"]
DOCUMENT_TYPES = _KINDS["document"]
DOCUMENT_CODES = {concept.code: concept for concept in DOCUMENT_TYPES.values()}
# service.md 2.3: the reaction where it is not known.
UNKNOWN_REACTION = MANIFESTATIONS["unknown"]


def look_up(concepts: Concepts, name: str) -> Concept | None:
    """Return the concept of a name, whatever its case and spaces; None where it is unknown."""
    return concepts.get(_key(name))


def without_code(concepts: Concepts, name: str) -> str:
    """Return the note on a name without a code, with the name that is probably meant."""
    similar = get_close_matches(_key(name)[:64], concepts, 1, SIMILAR)
    meant = f"; is {concepts[similar[0]].display} meant?" if similar else ""
    return f"has no code here: {name[:60]!r} is kept as text{meant}"


def none_known_of(name: str) -> Concept | None:
    """Return the statement that no allergy (to drugs, to food) is known, where a name is that."""
    return _KINDS["none known"].get(_key(name).strip("()."))


def is_unknown(name: str) -> bool:
    """Say whether a name means that nothing is known."""
    return _key(name).strip("().") in _UNKNOWN


def is_unclear(name: str) -> bool:
    """Say whether a name may mean that there is no allergy, or that it is unknown."""
    if none_known_of(name) or is_unknown(name):
        return False
    return _UNCLEAR.fullmatch(_key(name)) is not None


def is_loinc(code: str) -> bool:
    """Say whether a code is LOINC's: digits, and the check digit that follows from them."""
    digits, dash, check = code.partition("-")
    if not (dash and digits.isdecimal() and digits.isascii() and len(digits) <= 7):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 if place % 2 else 2)
        total += value // 10 + value % 10
    return check == str(-total % 10)
