"""An allergy's versions, and what changed from one to the next, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.chart.allergies import VIA
from fhirapp.features.chart.elements import elements_of, notes
from fhirapp.features.notes.elements import add_names
from fhirapp.features.notes.note import encounter_in_words
from fhirapp.fhir.words import concept, reactions, reactions_in_words, reference, shortened, when
from fhirapp.web.internal_client import read
from fhirapp.web.texts import _

Json = Mapping[str, Any]
# The most versions of an entry that are listed.
MOST = 100
# Each is a request.
_MOST_ENCOUNTERS = 10


def versions_of(allergy_id: str, token: OwnToken) -> tuple[list[dict[str, Any]], bool]:
    """Return the versions, the newest first, and whether there are more. Raises PageError.

    A version has its number, its day, what was done in a sentence, and its changes.
    """
    path = f"/fhir/AllergyIntolerance/{allergy_id}/_history?_count={MOST}"
    bundle = read(path, token, via=VIA)
    entries = bundle.get("entry", ())
    _name_encounters(entries, token)
    add_names([entry.get("resource") for entry in entries], token, VIA)
    more = any(link["relation"] == "next" for link in bundle.get("link", ()))
    found = []
    for entry, before in zip_longest(entries, entries[1:]):
        response = entry.get("response") or {}
        number = str(response.get("etag", "")).removeprefix("W/").strip('"')
        did, changed = _change(entry, before, is_first=before is None and not more)
        day = when(response.get("lastModified"))
        found.append({"number": number, "day": day, "did": did, "changes": changed})
    return found, more


def _name_encounters(entries: Sequence[dict[str, Any]], token: OwnToken) -> None:
    """Name the encounters, of which a reference says nothing to a person."""
    named: dict[str, str] = {}
    for entry in entries:
        encounter = (entry.get("resource") or {}).get("encounter") or {}
        place = encounter.get("reference")
        if place and not encounter.get("display"):
            if place not in named and len(named) < _MOST_ENCOUNTERS:
                named[place] = encounter_in_words(encounter, token, via=VIA)
            encounter["display"] = named.get(place, place)


def _change(
    entry: Json, before: Json | None, *, is_first: bool
) -> tuple[str, list[tuple[str, str, str]]]:
    """Return what was done in a sentence, "" if the changes say it, and the changes."""
    if not entry.get("resource"):
        return _("Deleted."), []
    if before is None:
        return _("First version.") if is_first else "", []
    if not before.get("resource"):
        return _("Recorded again after deletion."), []
    changed = list(changes(before["resource"], entry["resource"]))
    return "" if changed else _("None of the details on this page changed."), changed


def changes(before: Json, after: Json) -> Iterator[tuple[str, str, str]]:
    """Yield label, former and new text of what differs, in the order in which a person reads it."""
    told = set(_NOT_TOLD)
    for (label, name, was), (_label, _name, now) in zip(
        _elements(before), _elements(after), strict=True
    ):
        names = _ONSETS if name == "onset" else (name,)
        told.update(names)
        if all(before.get(choice) == after.get(choice) for choice in names):
            continue
        if was == now:
            yield label, _("same wording"), _("recorded differently")
        else:
            yield label, was or _("not recorded"), now or _("not recorded")
    others = {*before, *after} - told
    if differing := sorted(name for name in others if before.get(name) != after.get(name)):
        yield _("other details"), "", shortened(", ".join(differing))


_ONSETS = ("onsetDateTime", "onsetAge", "onsetPeriod", "onsetRange", "onsetString")
_NOT_TOLD = ("id", "meta", "text", "resourceType")


def _elements(allergy: Json) -> list[tuple[str, str, str]]:
    """Return label, FHIR's name and text of each element whose changes are told in words."""
    reacted = reactions_in_words(reactions(allergy)) if allergy.get("reaction") else ""
    return [
        (_("Substance"), "code", concept(allergy.get("code"))),
        (_("Reactions"), "reaction", shortened(reacted)),
        *elements_of(allergy),
        (_("Notes"), "note", shortened("; ".join(notes(allergy.get("note"))))),
        (_("Patient"), "patient", reference(allergy.get("patient"), allergy)),
    ]
