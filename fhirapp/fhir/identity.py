"""Who a patient is: the numbers that identify, and what speaks against two being one person.

An import knows a patient again so, and Patient/$match finds one so: twins can share a number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

RFC_3986 = "urn:ietf:rfc:3986"
SSN = "http://hl7.org/fhir/sid/us-ssn"
NPI = "http://hl7.org/fhir/sid/us-npi"
# NPIs are in most records, and identify best; an SSN is the number that is left out most often.
_FIRST, _LAST = NPI, SSN
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
    return {_FIRST: 0, _LAST: 2}.get(system_and_value[0], 1)


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

_Given = Sequence[str]


def contradiction(coming: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return why a Patient who comes cannot be the one who is here, as `has …`; "" where he can.

    An element that one of them lacks contradicts nothing.
    """
    born, known = coming.get("birthDate"), here.get("birthDate")
    if born and known and not (known.startswith(born) or born.startswith(known)):
        return "was born on another day than this patient"
    genders = {coming.get("gender"), here.get("gender")} & _KNOWN_GENDERS
    if len(genders) == 2:
        return "has another gender than this patient"
    if not _may_be_called(coming, here):
        return "has another given name than this patient"
    numbers, others = _numbers(coming), _numbers(here)
    for system in numbers.keys() & others.keys():
        if not numbers[system] & others[system]:
            return f"has another number of {system} than this patient"
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


def _may_be_called(coming: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Say whether one given name of each goes together; names in two scripts cannot be compared."""
    pairs = [
        (name, other)
        for name, other in product(_given_names(coming), _given_names(here))
        if _script(name) == _script(other)
    ]
    return not pairs or any(_goes_with(name, other) for name, other in pairs)


def _given_names(patient: Mapping[str, Any]) -> Iterator[_Given]:
    """Yield the words of the given names of each name, without case and accents."""
    for name in patient.get("name", ()):
        # A name that is not known may be null beside an extension.
        written = " ".join(part for part in name.get("given", ()) if part)
        plain = "".join(
            character
            for character in unicodedata.normalize("NFKD", written)
            if not unicodedata.combining(character)
        )
        words = [part for part in _APART.split(plain.casefold()) if part]
        if words:
            yield words


def _script(words: _Given) -> str:
    return unicodedata.name(words[0][0], "").partition(" ")[0]


def _goes_with(name: _Given, other: _Given) -> bool:
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
