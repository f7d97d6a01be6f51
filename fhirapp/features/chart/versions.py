"""An allergy's versions, and what changed from one to the next, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.chart.allergies import VIA
from fhirapp.features.chart.elements import ELEMENTS, notes
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


class ElementChange(NamedTuple):
    """What changed: an element in words, what it was, if that can be told, and what it became."""

    what: str
    before: str
    after: str


class AllergyVersion(NamedTuple):
    """A version: its number, its day, what was done in a sentence, and what it changed."""

    number: str
    day: str
    did: str
    changes: Sequence[ElementChange] = ()


def versions_of(allergy_id: str, token: OwnToken) -> tuple[list[AllergyVersion], bool]:
    """Return the versions, the newest first, and whether there are more. Raises PageError."""
    path = f"/fhir/AllergyIntolerance/{allergy_id}/_history?_count={MOST}"
    bundle = read(path, token, via=VIA)
    entries = bundle.get("entry", ())
    _name_encounters(entries, token)
    add_names([entry.get("resource") for entry in entries], token, VIA)
    more = any(link["relation"] == "next" for link in bundle.get("link", ()))
    found = []
    for at, entry in enumerate(entries):
        before = entries[at + 1] if at + 1 < len(entries) else None
        is_first = before is None and not more
        found.append(_version(entry, before, is_first=is_first))
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


def _version(entry: Json, before: Json | None, *, is_first: bool) -> AllergyVersion:
    resource = entry.get("resource")
    response = entry.get("response") or {}
    number = str(response.get("etag", "")).removeprefix("W/").strip('"')
    day = when(str(response.get("lastModified", "")))
    if resource is None:
        return AllergyVersion(number, day, _("Deleted."))
    if before is None:
        return AllergyVersion(number, day, _("First version.") if is_first else "")
    earlier = before.get("resource")
    if earlier is None:
        return AllergyVersion(number, day, _("Recorded again after deletion."))
    changed = list(changes(earlier, resource))
    return AllergyVersion(
        number, day, "" if changed else _("None of the details on this page changed."), changed
    )


def changes(before: Json, after: Json) -> Iterator[ElementChange]:
    """Yield what differs between two versions, in the order in which a person reads them."""
    covered: set[str] = set()
    for what, element, text_of in _ELEMENTS:
        names = _CHOICES.get(element, (element,))
        covered.update(names)
        if all(before.get(name) == after.get(name) for name in names):
            continue
        was, became = (text_of(version) or _("not recorded") for version in (before, after))
        if was == became:
            was, became = _("same wording"), _("recorded differently")
        yield ElementChange(_(what), was, became)
    others = {*before, *after} - covered - _NOT_TOLD
    if any(before.get(name) != after.get(name) for name in others):
        differing = sorted(name for name in others if before.get(name) != after.get(name))
        yield ElementChange(_("other details"), "", shortened(", ".join(differing)))


def _reactions(allergy: Json) -> str:
    return shortened(reactions_in_words(reactions(allergy))) if allergy.get("reaction") else ""


_CHOICES = {
    "onset": ("onsetDateTime", "onsetAge", "onsetPeriod", "onsetRange", "onsetString"),
}
_NOT_TOLD = frozenset({"id", "meta", "text", "resourceType"})
_ELEMENTS: Sequence[tuple[str, str, Callable[[Json], str]]] = (
    (_("Substance"), "code", lambda allergy: concept(allergy.get("code"))),
    (_("Reactions"), "reaction", _reactions),
    *ELEMENTS,
    (_("Notes"), "note", lambda allergy: shortened("; ".join(notes(allergy.get("note"))))),
    (_("Patient"), "patient", lambda allergy: reference(allergy.get("patient"), allergy)),
)
