"""Who a patient is: the numbers that identify, and what speaks against two being one person.

An import knows a patient again so, and Patient/$match finds one so: twins can share a number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from fhirapp.fhir.folding import fold

RFC_3986 = "urn:ietf:rfc:3986"
SSN = "http://hl7.org/fhir/sid/us-ssn"
NPI = "http://hl7.org/fhir/sid/us-npi"
# Numbers that the SSA never issued, and those of advertisements.
_NO_SSN = re.compile(
    r"(?:000|666|9[0-9]{2})[0-9]{6}|[0-9]{3}00[0-9]{4}|[0-9]{5}0000|([0-9])\1{8}"
    r"|123456789|987654321|078051120|219099999|(?![0-9]{9}).*"
)


def key(identified: dict[str, Any]) -> tuple[str, str] | None:
    """Return the system and the value of an Identifier that has both."""
    system, value = identified.get("system"), identified.get("value")
    return (system, value) if system and value else None


def ranked(identified: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the system and value of each Identifier that has both, the best one first."""
    keys = (known for known in map(key, identified) if known and not _is_placeholder(known))
    return sorted(keys, key=_rank)


def _is_placeholder(known: tuple[str, str]) -> bool:
    """Say whether a number is a placeholder, which many patients share."""
    system, value = known
    digits = value.replace("-", "").replace(" ", "")
    return system == SSN and _NO_SSN.fullmatch(digits) is not None


def _rank(system_and_value: tuple[str, str]) -> int:
    """Return the order of identifiers; among equals, that of the document."""
    # NPIs are in most records, and identify best; an SSN is the number that is left out most often.
    return {NPI: 0, SSN: 2}.get(system_and_value[0], 1)


def known_by(identified: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the system and value of each number that identifies, as it may be stored.

    The one that distinguishes best comes first. An SSN may be stored with its hyphens or without.
    """
    return [*dict.fromkeys(form for known in ranked(identified) for form in _forms(known))]


def _forms(known: tuple[str, str]) -> list[tuple[str, str]]:
    system, value = known
    digits = value.replace("-", "")
    if system != SSN or len(digits) != 9:
        return [known]
    return [known, (system, digits), (system, f"{digits[:3]}-{digits[3:5]}-{digits[5:]}")]


_KNOWN_GENDERS = frozenset({"male", "female", "other"})
_APART = re.compile(r"[^\w]+|_+")

_GivenNames = Sequence[str]


def contradiction(coming: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return why a Patient who comes cannot be the one who is here, as `has …`; "" where he can.

    An element that one of them lacks contradicts nothing.
    """
    if reason := _other_person(coming, here):
        return reason
    numbers, others = _numbers(coming), _numbers(here)
    for system in numbers.keys() & others.keys():
        if not numbers[system] & others[system]:
            return f"has another number of {system} than this patient"
    return ""


def may_be_one(patient: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two records may be of one person: family and given names, birth date, gender.

    Their numbers may differ: whoever was recorded twice has two.
    """
    families, others = (
        {fold(name["family"]) for name in each.get("name", ()) if name.get("family")}
        for each in (patient, other)
    )
    return bool(families & others) and not _other_person(patient, other)


def _other_person(coming: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    born, known = coming.get("birthDate"), here.get("birthDate")
    if born and known and not (known.startswith(born) or born.startswith(known)):
        return "was born on another day than this patient"
    genders = {coming.get("gender"), here.get("gender")} & _KNOWN_GENDERS
    if len(genders) == 2:
        return "has another gender than this patient"
    if not may_be_called(coming, here):
        return "has another given name than this patient"
    return ""


def _numbers(patient: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the numbers of a patient by their system."""
    numbers: dict[str, set[str]] = {}
    for system, value in ranked(patient.get("identifier", ())):
        written = value.replace("-", "").replace(" ", "") if system == SSN else value.strip()
        # Two URIs need not be numbers of the same kind.
        if system != RFC_3986:
            numbers.setdefault(system, set()).add(written.casefold())
    return numbers


def may_be_called(coming: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Say whether one given name of each goes together; names in two scripts cannot be compared.

    Where one of them has only whole names, one of their words must be a given name of the other.
    """
    pairs = [
        (name, other)
        for name, other in product(_given_names(coming), _given_names(here))
        if _script(name) == _script(other)
    ]
    if pairs:
        return any(_goes_with(name, other) for name, other in pairs)
    mixed = [
        (name, words)
        for patient, other in ((coming, here), (here, coming))
        for name, words in product(_given_names(patient), _whole_names(other))
        if _script(name) == _script(words)
    ]
    return not mixed or any(
        _is_short_for(part, word) for name, words in mixed for part, word in product(name, words)
    )


def adds_nothing(name: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether a name adds nothing to another: its family name, and none but its given names.

    Initials, and fewer given names in any spelling, say less.
    """
    family, given = _spelled(name.get("family")), _spelled(" ".join(_given_of(name)))
    if not ("family" in other or "given" in other):
        written = " ".join([name.get("family") or "", *_given_of(name)])
        return {*_words(written)} <= {*_words(other.get("text") or "")}
    known = _spelled(" ".join(_given_of(other)))
    is_less = len(given) < len(known)
    return (not family or family == _spelled(other.get("family"))) and all(
        any(_says_less(part, full) or (is_less and _words(part) == _words(full)) for full in known)
        for part in given
    )


def _spelled(text: str | None) -> list[str]:
    return unicodedata.normalize("NFC", text or "").split()


def _says_less(part: str, full: str) -> bool:
    """Say whether a given name is another one, or its initial."""
    initial = part.removesuffix(".")
    return part == full or (len(initial) == 1 and full.startswith(initial))


def _given_of(name: Mapping[str, Any]) -> Iterator[str]:
    # A name that is not known may be null beside an extension.
    return (part for part in name.get("given", ()) if part)


def _given_names(patient: Mapping[str, Any]) -> Iterator[_GivenNames]:
    """Yield the words of the given names of each name, without case and accents."""
    for name in patient.get("name", ()):
        words = _words(" ".join(_given_of(name)))
        if words:
            yield words


def _whole_names(patient: Mapping[str, Any]) -> Iterator[_GivenNames]:
    """Yield the words of each name that is one text, and has no parts."""
    for name in patient.get("name", ()):
        if "given" not in name and "family" not in name:
            words = _words(name.get("text") or "")
            if words:
                yield words


def _words(text: str) -> list[str]:
    """Return the words of a name, without case and accents."""
    return [part for part in _APART.split(fold(text)) if part]


def _script(words: _GivenNames) -> str:
    return unicodedata.name(words[0][0], "").partition(" ")[0]


def _goes_with(name: _GivenNames, other: _GivenNames) -> bool:
    """Say whether two may be the given names of one person: some left out, or by their initials.

    What both have in the same place must agree: twins may differ in their second names only.
    """
    in_their_order = all(map(_is_short_for, name, other))
    return (
        in_their_order
        or set(name) <= set(other)
        or set(other) <= set(name)
        or "".join(name) == "".join(other)
    )


def _is_short_for(name: str, other: str) -> bool:
    shorter, longer = sorted((name, other), key=len)
    return shorter == longer or (len(shorter) == 1 and longer.startswith(shorter))
