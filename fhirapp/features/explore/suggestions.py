"""What the form's fields suggest: patients by name, codes that occur, what a person sent last.

Each is searched over FHIR with the token of the request, so that nobody is offered what they may
not see; and each search is in the audit trail, so nothing is read before somebody looks for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from fhirapp.audit.entries import entries
from fhirapp.definition import Definition
from fhirapp.features.explore.address import (
    SENT_VIA,
    Address,
    NoAddressError,
    pair,
    piece,
    read_address,
)
from fhirapp.features.explore.explanation import Correction
from fhirapp.features.explore.form import FieldOption, read_form
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.search import impossible_values
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token
from fhirapp.search.values import escape, values_at
from fhirapp.web.internal_client import ask
from fhirapp.web.pages import current_session
from fhirapp.web.people import Person, people_of, suggest_people
from fhirapp.web.texts import _
from fhirapp.web.times import partial

# The audit trail's name for the searches, and how often that for codes is sent.
_VIA = "suggestions"
_SECONDS, _MOST_KEPT = 60, 200
_MOST_SEARCHED, _MOST_CODES, _MOST_RECENT, _LONGEST = 100, 40, 8, 100
# Too many names begin with a given letter.
_LEAST_TYPED = 2
# Patients of a name that was sent as if it were an id.
_MOST_MEANT = 3
_ID = re.compile(ID_PATTERN)

Suggestions = Mapping[str, Sequence[FieldOption]]
_kept: dict[bytes, tuple[float, Suggestions]] = {}


def occurring_codes(definition: Definition, secret: str) -> Suggestions:
    """Return the codes and ids in the resources of a type that a token sees, by parameter.

    The server is asked once a minute for a token and a type.
    """
    key = blake2b(f"{definition.name} {secret}".encode(), digest_size=16).digest()
    now = time.monotonic()
    kept = _kept.get(key)
    if kept is None or now - kept[0] > _SECONDS:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        kept = _kept[key] = now, _search_codes(definition, secret)
    return kept[1]


def merge_options(*groups: Sequence[FieldOption]) -> Sequence[FieldOption]:
    """Return suggestions of several kinds, each value once, with the words that a group has."""
    words: dict[str, str] = {}
    for value, meaning in (choice for group in groups for choice in group):
        words[value] = words.get(value) or meaning
    return [FieldOption(*option) for option in words.items()]


def patients(typed: str, recent: Sequence[FieldOption], secret: str) -> Sequence[FieldOption]:
    """Return the suggested patients: matches of the typed text, or else the recent ones.

    Empty for too little text, and without recent patients.
    """
    typed = typed.strip()[:_LONGEST].removeprefix("Patient/")
    if not typed:
        ids = [choice.value.removeprefix("Patient/") for choice in recent]
        people = people_of([id_ for id_ in ids if _ID.fullmatch(id_)], secret, via=_VIA)
    elif len(typed) >= _LEAST_TYPED:
        people = suggest_people(typed, secret, via=_VIA)
    else:
        people = ()
    return [FieldOption(person.id, _describe(person)) for person in people]


def patients_meant(address: Address, secret: str) -> Iterator[Correction]:
    """Yield the searches by id that were perhaps meant where a search has a patient's name."""
    fields = {field.name for field in read_form(address).fields() if field.finds_patients}
    for number, text in enumerate(address.pieces):
        name, value = pair(text) or ("", "")
        # With a digit it is an id, and there is nobody of that id with a match.
        if name not in fields or any(letter.isdigit() for letter in value):
            continue
        people = patients(value, (), secret)
        if value not in {person.value for person in people}:
            for person in people[:_MOST_MEANT]:
                right = piece(name, person.value)
                pieces = (*address.pieces[:number], right, *address.pieces[number + 1 :])
                yield Correction([right], address._replace(pieces=pieces), person.words)
        return


def _describe(person: Person) -> str:
    if not person.born:
        return person.name
    return _("%(name)s, born %(day)s", name=person.name, day=partial(person.born))


def recent_values(definition: Definition) -> Suggestions:
    """Return what the signed-in person searched for last in a type, by parameter."""
    session = current_session()
    if session is None or not session.complete:
        return {}
    recent: dict[str, dict[str, None]] = {}
    for entry in entries(user_id=session.user.id, via=SENT_VIA, limit=50):
        try:
            address = read_address(entry.path)
        except NoAddressError:
            continue
        for text in address.pieces if address.searched is definition else ():
            name, value = pair(text) or ("", "")
            is_known = name in definition.params.by_name and len(value) <= _LONGEST
            if is_known and not _is_impossible(definition, name, value):
                recent.setdefault(name, {})[value] = None
    return {name: [*map(FieldOption, values)][:_MOST_RECENT] for name, values in recent.items()}


def _is_impossible(definition: Definition, name: str, value: str) -> bool:
    """Return whether a value is misspelled, so that it found nothing."""
    with suppress(InvalidParameter):
        return any(impossible_values(definition, [(name, value)]))
    return True


def _search_codes(definition: Definition, secret: str) -> Suggestions:
    path = f"/fhir/{definition.name}?_count={_MOST_SEARCHED}&_total=none"
    answer = ask(path, secret, headers={"Accept": "application/fhir+json"}, via=_VIA)
    if answer.status != 200:
        return {}
    matches = [
        entry["resource"]
        for entry in answer.json().get("entry", ())
        if entry["search"]["mode"] == "match"
    ]
    return {
        parameter.name: _codes_in(matches, definition, parameter)
        for parameter in definition.params
        if isinstance(parameter, Token | Reference)
    }


def _codes_in(
    matches: Sequence[Mapping[str, Any]], definition: Definition, parameter: Parameter
) -> Sequence[FieldOption]:
    searched = [definition.params.by_name[name] for name in parameter.searches] or [parameter]
    paths = [path for component in searched for path in component.paths]
    # By code: its systems, and words.
    codes: dict[str, tuple[set[str], str]] = {}
    for match in matches:
        for path in paths:
            for value in values_at(match, path):
                for code, system, words in _codes_of(value):
                    codes.setdefault(code, (set(), words))[0].add(system)
    choices = [
        # A code of several systems is suggested with each.
        FieldOption(f"{system}|{code}" if len(systems) > 1 and system else code, words)
        for code, (systems, words) in codes.items()
        for system in sorted(systems)
    ]
    short = [choice for choice in choices if len(choice.value) <= _LONGEST]
    return sorted(short, key=lambda choice: (choice.words or choice.value).casefold())[:_MOST_CODES]


def _codes_of(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the (code, system, words) of a code, a concept, a reference."""
    if isinstance(value, str):
        yield escape(value), "", ""
    elif isinstance(value, dict):
        target = value.get("reference")
        if isinstance(target, str) and not target.startswith("#"):
            yield escape(target), "", value.get("display", "")
        for coding in value.get("coding", (value,)):
            code = coding.get("code", coding.get("value"))
            if isinstance(code, str):
                words = coding.get("display") or value.get("text") or ""
                yield escape(code), escape(coding.get("system", "")), words[:_LONGEST]
