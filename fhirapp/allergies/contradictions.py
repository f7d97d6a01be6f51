"""What does not fit together among a patient's allergies, for somebody to look at twice.

Two entries are about the same where they share a code, system and all, or their words, but for case
and accents. Nothing here says which of them is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fhirapp.allergies.assertion import About
from fhirapp.allergies.summary import HOLDING, Entry, Group
from fhirapp.fhir.terminology import listed

# A category that R4 has for what is given as a medicine.
_AS_MEDICINE = frozenset({"medication", "biologic"})
_CATEGORIES: Mapping[About, frozenset[str]] = {
    About.DRUG: _AS_MEDICINE,
    About.FOOD: frozenset({"food"}),
    About.ENVIRONMENT: frozenset({"environment"}),
}


class Finding(NamedTuple):
    """What does not fit: its code, a sentence, and the entries that it names."""

    code: str
    text: str
    sources: Sequence[str]


def other_records(patient: Mapping[str, Any]) -> Sequence[Finding]:
    """Return that a patient has other records, whose allergies are not among these ones."""
    found = []
    for one in patient.get("link", ()):
        name = (one.get("other") or {}).get("reference") or ""
        if name.startswith("Patient/"):
            is_over = one.get("type") == "replaced-by"
            text = "This record was replaced by another" if is_over else "There is another record"
            text += " of the same person, whose allergies are not listed here."
            found.append(Finding("other-record", text, [name]))
    return found


def findings_of(entries: Sequence[Entry]) -> Sequence[Finding]:
    """Return what does not fit: what may hurt first."""
    allergies = [one for one in entries if one.is_allergy]
    holding = [one for one in entries if one.may_be_allergy]
    return [
        *_none_known(entries, holding),
        *_unclear(entries),
        *_about_the_same(allergies),
    ]


def _none_known(entries: Iterable[Entry], holding: Sequence[Entry]) -> Iterator[Finding]:
    """Yield each statement that none is known with the allergies that may hold beside it."""
    for one in entries:
        if one.group is not Group.NONE_KNOWN:
            continue
        against = [other for other in holding if _contradicts(one, other)]
        if not against:
            continue
        names = listed([_with_category(other, one.said.about) for other in against])
        said = f", recorded on {one.recorded}," if len(one.recorded.split()) == 3 else ""
        if not said and one.recorded:
            said = f", recorded in {one.recorded},"
        status = "is still active" if one.clinical_status else "is not said to be over"
        text = f"“{one.name}”{said} {status} beside {names}."
        yield Finding("none-known-beside-allergy", text, _references([one, *against]))


def _contradicts(none_known: Entry, allergy: Entry) -> bool:
    about = none_known.said.about
    if about is About.ANY:
        return True
    if about is About.OTHER:
        # Several kinds at once, or one substance.
        return none_known.said.is_mixed or bool(none_known.keys & allergy.keys)
    return not allergy.categories or bool(_CATEGORIES[about] & set(allergy.categories))


def _with_category(allergy: Entry, about: About) -> str:
    """Return an allergy's name; where it may be of another category than is denied, that too."""
    if about in _CATEGORIES and not allergy.categories:
        return f"{allergy.name} (its category is not recorded)"
    return allergy.name


def _unclear(entries: Iterable[Entry]) -> Iterator[Finding]:
    """Yield the entries that contradict themselves, or cannot be understood whole."""
    for one in entries:
        for fault in one.faults:
            yield Finding("entry-unclear", f"“{one.name}” {fault}.", [one.reference])


def _about_the_same(allergies: Sequence[Entry]) -> Iterator[Finding]:
    """Yield what is recorded more than once, or once as holding and once as not."""
    by_key: dict[str, list[Entry]] = {}
    for one in allergies:
        for key in one.keys:
            by_key.setdefault(key, []).append(one)
    shared = [found for _, found in sorted(by_key.items()) if len(found) > 1]
    refuted, past, twice = [], [], []
    for found in shared:
        holds = [one for one in found if one.group in HOLDING]
        over = [one for one in found if one.group is Group.PAST]
        denied = [one for one in found if one.group is Group.REFUTED]
        if holds and denied:
            refuted.append([*holds, *denied])
        if holds and over:
            past.append([*holds, *over])
        twice += [one for one in (holds, over) if len(one) > 1]
    for code, sets, ending in (
        ("refuted-beside-active", refuted, "both as refuted and as holding"),
        ("past-beside-active", past, "both as over and as holding"),
        ("duplicate", twice, "more than once"),
    ):
        for same in _largest(sets):
            names = listed([f"{one.name} ({_stated(one)})" for one in same])
            yield Finding(code, f"Recorded {ending}: {names}.", _references(same))


def _largest(sets: Sequence[Sequence[Entry]]) -> Iterator[Sequence[Entry]]:
    """Yield the sets that are part of no other, each once."""
    kept: dict[str, list[frozenset[str]]] = {}
    for one in sorted(sets, key=len, reverse=True):
        names = frozenset(_references(one))
        first = one[0].reference
        if any(names <= other for other in kept.get(first, ())):
            continue
        for name in names:
            kept.setdefault(name, []).append(names)
        yield one


def _stated(entry: Entry) -> str:
    """Return how an entry stands, and since when it is recorded."""
    status = entry.clinical_status or "status not recorded"
    if entry.group is Group.REFUTED:
        status = "refuted"
    elif entry.verification_status == "unconfirmed":
        status += ", not confirmed"
    return f"{status}, recorded {entry.recorded}" if entry.recorded else status


def _references(entries: Iterable[Entry]) -> list[str]:
    return [one.reference for one in entries]
