"""What fields suggest: the codes and ids that occur in what this person may see, and their last.

They are asked for as everything else is, once a minute for a token and a type, and only where
somebody begins to fill in the form.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from fhirapp.audit.read import entries
from fhirapp.definition import Definition
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token
from fhirapp.search.values import escape, values_at
from fhirapp.web.explore.address import NoAddressError, pair, read_address
from fhirapp.web.internal_client import ask

# Which page asks, for the audit trail: what a person sends themselves is "explore".
VIA, SENT_VIA = "suggestions", "explore"
_SECONDS = 60
_MOST_KEPT = 200
_LOOKED_AT = 100
_MOST_CODES, _MOST_RECENT, _LONGEST = 40, 8, 100


class Suggestion(NamedTuple):
    """A value to choose, as it is sent, and what it means."""

    value: str
    words: str = ""


Suggestions = Mapping[str, Sequence[Suggestion]]
_kept: dict[bytes, tuple[float, Suggestions]] = {}


def codes(definition: Definition, secret: str) -> Suggestions:
    """Return what occurs in the resources of a type that a token sees, by parameter."""
    key = blake2b(f"{definition.name} {secret}".encode(), digest_size=16).digest()
    now = time.monotonic()
    found = _kept.get(key)
    if found is None or now - found[0] > _SECONDS:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        found = _kept[key] = now, _occurring(definition, secret)
    return found[1]


def recent(definition: Definition, user_id: str) -> Suggestions:
    """Return what this person looked for last in searches of a type, by parameter."""
    found: dict[str, dict[str, None]] = {}
    for entry in entries(user_id=user_id, via=SENT_VIA, limit=50):
        try:
            address = read_address(entry.path)
        except NoAddressError:
            continue
        if address.searched is not definition:
            continue
        for piece in address.pieces:
            name, value = pair(piece) or ("", "")
            if name in definition.params.by_name and len(value) <= _LONGEST:
                found.setdefault(name, {})[value] = None
    return {
        name: [Suggestion(value) for value in [*values][:_MOST_RECENT]]
        for name, values in found.items()
    }


def _occurring(definition: Definition, secret: str) -> Suggestions:
    asked = f"/fhir/{definition.name}?_count={_LOOKED_AT}&_total=none"
    answer = ask(asked, secret, headers={"Accept": "application/fhir+json"}, via=VIA)
    if answer.status != 200:
        return {}
    matches = [
        entry["resource"]
        for entry in answer.json().get("entry", ())
        if entry["search"]["mode"] == "match"
    ]
    return {
        parameter.name: _of_parameter(definition, parameter, matches)
        for parameter in definition.params
        if isinstance(parameter, Token | Reference)
    }


def _of_parameter(
    definition: Definition, parameter: Parameter, matches: Sequence[Mapping[str, Any]]
) -> Sequence[Suggestion]:
    searched = [definition.params.by_name[name] for name in parameter.searches] or [parameter]
    # By code: its systems, and words.
    found: dict[str, tuple[set[str], str]] = {}
    for match in matches:
        for one in searched:
            for path in one.paths:
                for value in values_at(match, path):
                    for code, system, words in _named(value):
                        systems, _words = found.setdefault(code, (set(), words))
                        systems.add(system)
    suggestions = [
        # Where a code is one of several systems, it says which.
        Suggestion(f"{system}|{code}" if len(systems) > 1 and system else code, words)
        for code, (systems, words) in found.items()
        for system in sorted(systems)
    ]
    short = [one for one in suggestions if len(one.value) <= _LONGEST]
    return sorted(short, key=lambda one: (one.words or one.value).casefold())[:_MOST_CODES]


def _named(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the (code, system, words) of a value that is a code, a concept, a reference."""
    if isinstance(value, str):
        yield escape(value), "", ""
    elif isinstance(value, dict):
        target = value.get("reference")
        if isinstance(target, str) and not target.startswith("#"):
            yield escape(target), "", value.get("display", "")
        for one in value.get("coding", (value,)):
            code = one.get("code", one.get("value"))
            if isinstance(code, str):
                words = one.get("display") or value.get("text") or ""
                yield escape(code), escape(one.get("system", "")), words[:_LONGEST]
