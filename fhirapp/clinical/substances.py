"""Whether the names and codes of one allergy are those of two different substances.

Only names and codes of fhirapp.fhir.concepts are compared: of others nothing here tells whether
they are a brand, a synonym or another language's word for the same substance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from fhirapp.fhir.concepts import CONCEPTS, Concept
from fhirapp.search.string import fold

_BY_NAME = {fold(name): concept for name, concept in CONCEPTS["substance"].items()}
_BY_CODE = {(concept.system, concept.code): concept for concept in _BY_NAME.values()}
# The longest first: "penicillin V" before "penicillin".
_NAMES = re.compile(
    rf"\b(?:{'|'.join(re.escape(name) for name in sorted(_BY_NAME, key=len, reverse=True))})\b"
)
# Names of several substances: one of these is not another one.
_GROUPS = frozenset(
    {
        *("Nut", "Tree nut", "Fish", "Shellfish", "Pollen", "Grass pollen", "Tree pollen"),
        *("Animal dander", "Mold", "House dust", "Citrus fruit", "Penicillin", "Contrast media"),
        *("Product containing sulfonamide", "Adhesive agent", "Perfume"),
    }
)
_WORD = re.compile(r"\w{3,}")
# Words that names of different substances share.
_GENERIC = frozenset(
    {
        *("venom", "sting", "stings", "dander", "nut", "nuts", "pollen", "milk", "fruit"),
        *("vaccine", "acid", "product", "substance", "allergy"),
    }
)
# Of two that are not the same, and not different either: wheat has gluten.
_WITHIN = frozenset({"wheat", "gluten"})


class _Named(NamedTuple):
    """A name of a substance, and which concepts it means."""

    name: str
    concepts: frozenset[Concept]


def two_substances(about: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return two names in a CodeableConcept that are of different substances, None without any."""
    for first, other in combinations(_names(about), 2):
        if not (first.concepts & other.concepts or _are_alike(first.name, other.name)):
            return first.name, other.name
    return None


def _names(about: Mapping[str, Any]) -> Iterator[_Named]:
    """Yield the names of a substance that are known, and are not those of a group."""
    codings = about.get("coding", ())
    texts = (about.get("text"), *(coding.get("display") for coding in codings))
    names = [(text, _mentioned(text)) for text in texts]
    names += [
        (concept.display, frozenset({concept}))
        for coding in codings
        if (concept := _BY_CODE.get((coding.get("system", ""), coding.get("code", ""))))
    ]
    for name, concepts in names:
        if name and concepts and not any(concept.display in _GROUPS for concept in concepts):
            yield _Named(name, concepts)


def _mentioned(text: str | None) -> frozenset[Concept]:
    """Return the substances that a text mentions."""
    return frozenset(_BY_NAME[name] for name in _NAMES.findall(fold(text or "")))


def _are_alike(name: str, other: str) -> bool:
    """Say whether a word of one name is part of a word of the other: "nut" and "peanut"."""
    first, second = (set(_WORD.findall(fold(text))) - _GENERIC for text in (name, other))
    if not (first and second) or (first & _WITHIN and second & _WITHIN):
        return True
    return any(word in beside or beside in word for word in first for beside in second)
