"""Whether a patient who shares a number with one here can be that one: twins share some, too."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from fhirapp.exchange.ccda.oids import RFC_3986, SSN
from fhirapp.exchange.ccda.record import ranked

_KNOWN_GENDERS = frozenset({"male", "female", "other"})
_APART = re.compile(r"[^\w]+|_+")

_Given = Sequence[str]


def contradiction(coming: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return what of a Patient who is here tells that another is somebody else, as `has …`.

    Empty where nothing does: what one of them does not say tells nothing.
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
    found: dict[str, set[str]] = {}
    for system, value in ranked(patient.get("identifier", ())):
        written = value.replace("-", "").replace(" ", "") if system == SSN else value.strip()
        # Of names of any kind two are no two numbers of one kind.
        if system != RFC_3986:
            found.setdefault(system, set()).add(written.casefold())
    return found


def _may_be_called(coming: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Say whether one given name of each goes together; what is in two scripts tells nothing."""
    pairs = [
        (one, other)
        for one, other in product(_given_names(coming), _given_names(here))
        if _script(one) == _script(other)
    ]
    return not pairs or any(_goes_with(one, other) for one, other in pairs)


def _given_names(patient: Mapping[str, Any]) -> Iterator[_Given]:
    """Yield the words of the given names of each name, without case and accents."""
    for name in patient.get("name", ()):
        # Of one that is not known there may be an extension alone.
        written = " ".join(one for one in name.get("given", ()) if one)
        plain = "".join(
            one for one in unicodedata.normalize("NFKD", written) if not unicodedata.combining(one)
        )
        words = [one for one in _APART.split(plain.casefold()) if one]
        if words:
            yield words


def _script(given: _Given) -> str:
    return unicodedata.name(given[0][0], "").partition(" ")[0]


def _goes_with(one: _Given, other: _Given) -> bool:
    """Say whether two may be the given names of one person: some left out, or by their initials.

    What both have in the same place must agree: twins may differ in their second names only.
    """
    in_their_order = all(map(_is_short_for, one, other))
    return (
        in_their_order
        or set(one) <= set(other)
        or set(other) <= set(one)
        or "".join(one) == "".join(other)
    )


def _is_short_for(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return shorter == longer or (len(shorter) == 1 and longer.startswith(shorter))
