"""The notes of one patient, for the chart: timeline, filters, and the list.

Notes that were replaced, and those entered in error, are folded. A superseded note that none here
replaces stands among the others: else nobody would read what it alone says. Where all notes are at
hand, up to READ_WHOLE, they are counted by type, status and author, and can be filtered by these; a
longer list is searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.notes.attachments import VIA
from fhirapp.features.notes.elements import (
    NoteItem,
    add_names,
    kind_of_note,
    line,
    local_id,
    status,
)
from fhirapp.features.notes.listing import PAGE, every, search
from fhirapp.features.notes.timeline import Dot, EncounterSpan, Timeline, timeline
from fhirapp.fhir import words
from fhirapp.fhir.document_date import date_of
from fhirapp.web.pages import PageError
from fhirapp.web.texts import _

# As many as one answer has are read at once; for more the picture comes after the page.
READ_WHOLE = 1_000
MOST_DRAWN = 10_000
_MOST_ENCOUNTERS = 1_000
# Of a filtered list, and of a filter's choices that are links.
_MOST_LINES, _MOST_LINKS = 100, 8
Json = dict[str, Any]


class FilterOption(NamedTuple):
    """A value of a filter: how many notes have it, and the address that turns it on or off."""

    value: str
    number: int
    address: str
    is_chosen: bool


def of_patient(patient_id: str, token: OwnToken, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the chart's section of notes, newest first. Raises PageError.

    chosen are the values of the filters: type, status, author. timeline is None where it is drawn
    after the page. lines are the first notes that hold, or those that were chosen; past those that
    no longer hold, by status, and past_counts how many they are where they are not listed here.
    next is the address of more lines, "" after the last. resources are the notes at hand as FHIR
    has them.
    """
    wanted = {name: value for name, value in chosen.items() if value and name in _FACETS}
    newest = [("patient", patient_id), ("_sort", "-date")]
    found = search([*newest, ("_count", str(PAGE))], token)
    notes, lines = found.resources, found.lines
    is_whole = found.total <= READ_WHOLE
    if PAGE < found.total <= READ_WHOLE:
        notes = tuple(every("DocumentReference", newest, token, READ_WHOLE))
        add_names(list(notes), token, VIA)
        lines = tuple(map(line, notes))
    section = {
        "patient_id": patient_id,
        "total": found.total,
        "timeline": timeline_of(patient_id, token, notes) if is_whole else None,
        "filters": _filters(patient_id, lines, wanted) if is_whole else {},
        "all_address": _address(patient_id, {}) if wanted else "",
        "resources": notes,
        "past": {},
        "past_counts": {},
        "next": "",
    }
    if is_whole and wanted:
        matching = _matching(lines, wanted)
        more = max(len(matching) - _MOST_LINES, 0)
        return section | {"lines": matching[:_MOST_LINES], "more": more}
    replaced = _replaced(notes)
    if found.total <= PAGE:
        superseded = [note for note in lines if _is_superseded(note) and note.id in replaced]
        in_error = [note for note in lines if note.status.is_error]
        holding = [note for note in lines if note not in superseded and note not in in_error]
        past = {"superseded": superseded, "entered-in-error": in_error}
        return section | {"lines": holding, "past": past}
    current = search([*newest, ("status", "current"), ("_count", str(PAGE))], token)
    following = {"patient": patient_id, "status": "current", "cursor": current.next}
    superseded_count = sum(note.get("status") == "superseded" for note in notes)
    if not is_whole:
        old = search([*newest, ("status", "superseded"), ("_count", str(READ_WHOLE))], token)
        replacing = [("patient", patient_id), ("relation", "replaces")]
        replaced = _replaced(every("DocumentReference", replacing, token, READ_WHOLE))
        lines, superseded_count = old.lines, old.total
    alone = [note for note in lines if _is_superseded(note) and note.id not in replaced]
    in_error_count = found.total - current.total - superseded_count
    return section | {
        "lines": sorted((*alone, *current.lines), key=lambda note: note.date, reverse=True),
        "past_counts": {"superseded": superseded_count, "entered-in-error": in_error_count},
        "next": f"/notes?{urlencode(following, quote_via=quote)}" if current.next else "",
    }


def _is_superseded(note: NoteItem) -> bool:
    return note.status.is_past and not note.status.is_error


def _replaced(notes: Iterable[Json]) -> set[str]:
    """Return the ids of the notes that others replace; one entered in error replaces none."""
    return {
        local_id(relation.get("target"), "DocumentReference")
        for note in notes
        if not status(note).is_error
        for relation in note.get("relatesTo", ())
        if relation.get("code") == "replaces"
    }


# By name: what of a note a filter looks at.
_FACETS: Mapping[str, Callable[[NoteItem], str]] = {
    "type": lambda note: note.kind,
    "status": lambda note: note.status.word,
    "author": lambda note: note.author,
}


def _matching(lines: Iterable[NoteItem], wanted: Mapping[str, str]) -> list[NoteItem]:
    return [
        note
        for note in lines
        if all(_FACETS[name](note) == value for name, value in wanted.items())
    ]


def _filters(
    patient_id: str, lines: Sequence[NoteItem], wanted: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return the filters that have a choice to make, counted under the other filters.

    links are the most frequent choices, others the rest; kept are the values of the other filters.
    """
    found = {}
    for name, value_of in _FACETS.items():
        kept = {key: value for key, value in wanted.items() if key != name}
        chosen = wanted.get(name, "")
        counts = Counter(value_of(note) for note in _matching(lines, kept))
        counts[chosen] += 0
        counts.pop("", None)
        choices = []
        for value, number in counts.most_common():
            address = _address(patient_id, kept if value == chosen else {**kept, name: value})
            choices.append(FilterOption(value, number, address, value == chosen))
        # One choice of all is none.
        if len(choices) > 1 or chosen or (name == "status" and choices):
            rest = [choice for choice in choices[_MOST_LINKS:] if not choice.is_chosen]
            links = [choice for choice in choices if choice not in rest]
            rest.sort(key=lambda choice: choice.value.casefold())
            found[name] = {"links": links, "others": rest, "kept": kept}
    return found


def _address(patient_id: str, wanted: Mapping[str, str]) -> str:
    query = f"?{urlencode(wanted, quote_via=quote)}" if wanted else ""
    return f"/patients/{quote(patient_id, safe='')}{query}#notes-heading"


def timeline_of(patient_id: str, token: OwnToken, notes: Iterable[Json] | None = None) -> Timeline:
    """Return the picture of notes: the newest MOST_DRAWN of a patient's unless they are given."""
    newest = [("patient", patient_id), ("_sort", "-date")]
    if notes is None:
        notes = every("DocumentReference", newest, token, MOST_DRAWN + 1)
    # One after the other: their documents come with them.
    dots = [_dot(note) for note in notes]
    encounters = _encounters(patient_id, token) if dots else ()
    drawn = timeline(patient_id, dots[:MOST_DRAWN], encounters)
    return drawn._replace(is_cut=len(dots) > MOST_DRAWN)


def _dot(note: Json) -> Dot:
    codings: list[Json] = (note.get("type") or {}).get("coding") or [{}]
    code = str(codings[0].get("code") or "")
    return Dot(note["id"], date_of(note), kind_of_note(note), code, status(note).is_past)


def _encounters(patient_id: str, token: OwnToken) -> list[EncounterSpan]:
    """Return the encounters, none where the token may not see them all."""
    parameters = [("patient", patient_id), ("_elements", "period,type")]
    try:
        encounters = [*every("Encounter", parameters, token, _MOST_ENCOUNTERS)]
    except PageError:
        return []
    spans = []
    for encounter in encounters:
        period = encounter.get("period") or {}
        start, end = str(period.get("start", "")), str(period.get("end", ""))
        spans.append(EncounterSpan(start, end, words.encounter(encounter) or _("Visit")))
    return spans
