"""Names looked up to codes, and words that say that there is no allergy, or that nobody knows.

A name is looked up whole or not at all; what is not known stays text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from fhirapp.exchange.tables.vocabulary import ALLERGENS, DOCUMENTS, DRUGS, REACTIONS
from fhirapp.fhir import systems

RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
LOINC = "http://loinc.org"


class Concept(NamedTuple):
    """A code of a system, and how it is displayed."""

    system: str
    code: str
    display: str

    def coding(self) -> dict[str, Any]:
        return {"system": self.system, "code": self.code, "display": self.display}


# How alike a name must be to one that is known, to be taken for a slip of the pen.
_ALIKE = 0.8
UNKNOWN_REACTION = Concept(systems.SNOMED_CT, "261665006", "Unknown")


def _key(name: str) -> str:
    return " ".join(name.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold().split())


def _table(system: str, lines: str) -> dict[str, Concept]:
    found: dict[str, Concept] = {}
    for line in lines.strip().splitlines():
        named, _, others = line.partition(" | ")
        code, display = named.split(" ", 1)
        concept = Concept(system, code, display)
        for name in (display, *filter(None, others.split(", "))):
            found[_key(name)] = concept
    return found


SUBSTANCES = _table(systems.SNOMED_CT, ALLERGENS) | _table(RXNORM, DRUGS)
MANIFESTATIONS = _table(systems.SNOMED_CT, REACTIONS)
DOCUMENT_TYPES = _table(LOINC, DOCUMENTS)
DOCUMENT_CODES = {concept.code: concept for concept in DOCUMENT_TYPES.values()}

_NO_DRUGS = Concept(systems.SNOMED_CT, systems.NO_KNOWN_DRUG_ALLERGY, "No known drug allergy")
_NO_ALLERGY = Concept(systems.SNOMED_CT, "716186003", "No known allergy")
_NO_FOOD = Concept(systems.SNOMED_CT, "429625007", "No known food allergy")
_NONE_KNOWN = {
    **dict.fromkeys(("nkda", "no known drug allergy", "no known drug allergies"), _NO_DRUGS),
    **dict.fromkeys(
        ("no known medication allergies", "no known medication allergy"),
        _NO_DRUGS,
    ),
    **dict.fromkeys(("nka", "no known allergy", "no known allergies"), _NO_ALLERGY),
    **dict.fromkeys(("nkfa", "no known food allergy", "no known food allergies"), _NO_FOOD),
}
# What may mean "none", or that nobody asked: no known drug allergy, but in other words.
_UNCLEAR = re.compile(
    r"(?:no|not|none|nil|n/?a|nka|nkda|nkfa|denie[sd]|denying|negative|without|never)\b.*"
    r"|[\W\d_]+"
)
_UNKNOWN = frozenset(("unknown", "not known", "no information", "unk"))

_SYSTEMS = {
    "snomed ct": systems.SNOMED_CT,
    "snomed": systems.SNOMED_CT,
    "snomedct": systems.SNOMED_CT,
    "sct": systems.SNOMED_CT,
    "rxnorm": RXNORM,
    "unii": "http://fdasis.nlm.nih.gov",
    "cvx": "http://hl7.org/fhir/sid/cvx",
    "loinc": LOINC,
}


def look_up(table: Mapping[str, Concept], name: str) -> Concept | None:
    """Return what a name stands for, whatever its case and spaces; None where it is not known."""
    return table.get(_key(name))


def not_known(table: Mapping[str, Concept], name: str) -> str:
    """Return what is said of a name without a code, with the one that is probably meant."""
    alike = get_close_matches(_key(name)[:64], table, 1, _ALIKE)
    meant = f"; is {table[alike[0]].display} meant?" if alike else ""
    return f"has no code here: {name[:60]!r} is kept as text{meant}"


def none_known_of(name: str) -> Concept | None:
    """Return the statement that no allergy (to drugs, to food) is known, where a name is that."""
    return _NONE_KNOWN.get(_key(name).strip("()."))


def is_unknown(name: str) -> bool:
    """Return whether a name says that nothing is known."""
    return _key(name).strip("().") in _UNKNOWN


def is_unclear(name: str) -> bool:
    """Return whether a name may mean that there is no allergy, or that nobody asked."""
    if none_known_of(name) or is_unknown(name):
        return False
    return _UNCLEAR.fullmatch(_key(name)) is not None


def system_of(name: str) -> str:
    """Return the address of a code system that is named, or the name where it is none of ours."""
    return _SYSTEMS.get(_key(name), name)


def is_loinc(code: str) -> bool:
    """Return whether a code is LOINC's: digits, and the check digit that follows from them."""
    digits, dash, check = code.partition("-")
    if not (dash and digits.isdecimal() and digits.isascii() and len(digits) <= 7):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 if place % 2 else 2)
        total += value // 10 + value % 10
    return check == str(-total % 10)
