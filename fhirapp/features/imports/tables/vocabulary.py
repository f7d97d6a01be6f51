"""What names in the cells of a table mean: substances, reactions, documents, and none known."""

from __future__ import annotations

import re
from difflib import get_close_matches

from fhirapp.features.imports.tables.columns import SIMILAR
from fhirapp.fhir.concepts import CONCEPTS, Concept, Concepts, name_key, system_of

__all__ = ["Concept", "Concepts", "system_of"]

# Names that may mean "none known", or "not asked".
_UNCLEAR = re.compile(
    r"(?:no|not|none|nil|n/?a|nka|nkda|nkfa|denie[sd]|denying|negative|without|never)\b.*"
    r"|[\W\d_]+"
)
_UNKNOWN = frozenset(("unknown", "not known", "no information", "unk"))

SUBSTANCES = CONCEPTS["substance"]
MANIFESTATIONS = CONCEPTS["reaction"]
DOCUMENT_TYPES = CONCEPTS["document"]
DOCUMENT_CODES = {concept.code: concept for concept in DOCUMENT_TYPES.values()}
# service.md 2.3: the reaction where it is not known.
UNKNOWN_REACTION = MANIFESTATIONS["unknown"]


def look_up(concepts: Concepts, name: str) -> Concept | None:
    """Return the concept of a name, whatever its case and spaces; None where it is unknown."""
    return concepts.get(name_key(name))


def without_code(concepts: Concepts, name: str) -> str:
    """Return the note on a name without a code, with the name that is probably meant."""
    similar = get_close_matches(name_key(name)[:64], concepts, 1, SIMILAR)
    meant = f"; is {concepts[similar[0]].display} meant?" if similar else ""
    return f"has no code here: {name[:60]!r} is kept as text{meant}"


def none_known_of(name: str) -> Concept | None:
    """Return the statement that no allergy (to drugs, to food) is known, where a name is that."""
    return CONCEPTS["none known"].get(name_key(name).strip("()."))


def is_unknown(name: str) -> bool:
    """Say whether a name means that nothing is known."""
    return name_key(name).strip("().") in _UNKNOWN


def is_unclear(name: str) -> bool:
    """Say whether a name may mean that there is no allergy, or that it is unknown."""
    if none_known_of(name) or is_unknown(name):
        return False
    return _UNCLEAR.fullmatch(name_key(name)) is not None


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
