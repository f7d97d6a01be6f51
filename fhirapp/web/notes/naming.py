"""Names for what a Reference only gives an address of: nobody is known by an id."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fhirapp.auth.clients.pages import OwnToken
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.web.ask import read
from fhirapp.web.notes.said import day_of, kind_of_note, person, shortened
from fhirapp.web.pages import PageError

# Each is a request.
_MOST = 12
_NAMED = re.compile(f"(?:Patient|Practitioner|Organization|DocumentReference)/{ID_PATTERN}")


def name(resources: Any, token: OwnToken, via: str) -> None:
    """Put displays where references of people, organizations and notes have none.

    In resources, or a list of them, as FHIR has them; as far as may be read.
    """
    names: dict[str, str] = {}
    for one in _unnamed(resources):
        address = one["reference"]
        if address not in names and len(names) < _MOST:
            names[address] = _name_of(address, token, via)
        if found := names.get(address):
            one["display"] = found


def _unnamed(held: Any) -> Iterator[dict[str, Any]]:
    if isinstance(held, list):
        for one in held:
            yield from _unnamed(one)
    elif isinstance(held, dict):
        address = held.get("reference")
        if isinstance(address, str) and not held.get("display") and _NAMED.fullmatch(address):
            yield held
        for key, one in held.items():
            if key not in _LEFT_OUT:
                yield from _unnamed(one)


# Told elsewhere, or about what is told itself.
_LEFT_OUT = frozenset({"contained", "patient", "relatesTo", "subject", "target"})


def _name_of(address: str, token: OwnToken, via: str) -> str:
    try:
        found = read(f"/fhir/{address}", token, via=via)
    except PageError:
        return ""
    if found["resourceType"] == "DocumentReference":
        return f"{kind_of_note(found)}, {day_of(found.get('date'))}"
    if isinstance(given := found.get("name"), str):
        return shortened(given)
    return person(found) if given else ""
