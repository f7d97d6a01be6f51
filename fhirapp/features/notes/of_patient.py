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


class NoteFilter(NamedTuple):
    """The choices of a filter: links are the most frequent, others the rest, alphabetically.

    kept are the values of the other filters.
    """

    links: Sequence[FilterOption]
    others: Sequence[FilterOption]
    kept: Mapping[str, str]


class NotesOfPatient(NamedTuple):
    """What the section shows; timeline is None where it is drawn after the page.

    lines are the first that hold, or those that were chosen; past those that no longer hold, by the
    status that says so, and past_counts how many they are where they are not listed here. next is
    the address of more lines, "" after the last. resources are the notes at hand, as FHIR has them.
    """

    patient_id: str
    total: int
    lines: tuple[NoteItem, ...]
    past: Mapping[str, Sequence[NoteItem]]
    past_counts: Mapping[str, int]
    more: int
    next: str
    timeline: Timeline | None
    filters: Mapping[str, NoteFilter]
    all_address: str
    resources: tuple[Json, ...]


def of_patient(
    patient_id: str, token: OwnToken, chosen: Mapping[str, str] | None = None
) -> NotesOfPatient:
    """Return the notes that the token may see, the newest first. Raises PageError.

    chosen are the values of the filters: type, status, author.
    """
    wanted = {name: value for name, value in (chosen or {}).items() if value and name in _FACETS}
    newest = [("patient", patient_id), ("_sort", "-date")]
    found = search([*newest, ("_count", str(PAGE))], token)
    whole: tuple[Json, ...] | None = found.resources
    if found.total > READ_WHOLE:
        whole = None
    elif found.total > PAGE:
        whole = tuple(every("DocumentReference", newest, token, READ_WHOLE))
        add_names(list(whole), token, VIA)
    lines = found.lines if whole is None or whole is found.resources else tuple(map(line, whole))
    replaced = _replaced(found.resources if whole is None else whole)
    superseded = [note for note in lines if _is_superseded(note) and note.id in replaced]
    in_error = [note for note in lines if note.status.is_error]
    holding = tuple(note for note in lines if note not in superseded and note not in in_error)
    result = NotesOfPatient(
        patient_id=patient_id,
        total=found.total,
        lines=holding,
        past={"superseded": superseded, "entered-in-error": in_error},
        past_counts={},
        more=0,
        next="",
        timeline=None if whole is None else timeline_of(patient_id, token, whole),
        filters={} if whole is None else _filters(patient_id, lines, wanted),
        all_address=_address(patient_id, {}) if wanted else "",
        resources=found.resources if whole is None else whole,
    )
    if whole is not None and wanted:
        matching = _matching(lines, wanted)
        return result._replace(
            lines=matching[:_MOST_LINES], past={}, more=max(len(matching) - _MOST_LINES, 0)
        )
    if whole is found.resources:
        return result
    current = search([*newest, ("status", "current"), ("_count", str(PAGE))], token)
    more = {"patient": patient_id, "status": "current", "cursor": current.next}
    if whole is None:
        old = search([*newest, ("status", "superseded"), ("_count", str(READ_WHOLE))], token)
        replacing = [("patient", patient_id), ("relation", "replaces")]
        replaced = _replaced(every("DocumentReference", replacing, token, READ_WHOLE))
        lines, superseded_count = old.lines, old.total
    else:
        superseded_count = sum(note.get("status") == "superseded" for note in whole)
    alone = [note for note in lines if _is_superseded(note) and note.id not in replaced]
    shown = sorted((*alone, *current.lines), key=lambda note: note.date, reverse=True)
    return result._replace(
        lines=tuple(shown),
        past={},
        past_counts={
            "superseded": superseded_count,
            "entered-in-error": found.total - current.total - superseded_count,
        },
        next=f"/notes?{urlencode(more, quote_via=quote)}" if current.next else "",
    )


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


def _matching(lines: Iterable[NoteItem], wanted: Mapping[str, str]) -> tuple[NoteItem, ...]:
    return tuple(
        note
        for note in lines
        if all(_FACETS[name](note) == value for name, value in wanted.items())
    )


def _filters(
    patient_id: str, lines: Sequence[NoteItem], wanted: Mapping[str, str]
) -> dict[str, NoteFilter]:
    """Return the filters that have a choice to make, counted under the other filters."""
    found = {}
    for name, value_of in _FACETS.items():
        others = {key: value for key, value in wanted.items() if key != name}
        chosen = wanted.get(name, "")
        counts = Counter(value_of(note) for note in _matching(lines, others))
        counts[chosen] += 0
        counts.pop("", None)
        choices = [
            FilterOption(
                value,
                number,
                _address(patient_id, others if value == chosen else {**others, name: value}),
                value == chosen,
            )
            for value, number in counts.most_common()
        ]
        rest = [choice for choice in choices[_MOST_LINKS:] if not choice.is_chosen]
        # One choice of all is none.
        if len(choices) > 1 or chosen or (name == "status" and choices):
            found[name] = NoteFilter(
                [choice for choice in choices if choice not in rest],
                sorted(rest, key=lambda choice: choice.value.casefold()),
                others,
            )
    return found


def _address(patient_id: str, wanted: Mapping[str, str]) -> str:
    query = f"?{urlencode(wanted, quote_via=quote)}" if wanted else ""
    return f"/patients/{quote(patient_id, safe='')}{query}#notes-heading"


def timeline_of(
    patient_id: str, token: OwnToken, notes: tuple[Json, ...] | None = None
) -> Timeline:
    """Return the picture of notes: the newest MOST_DRAWN of a patient's unless they are given."""
    if notes is None:
        newest = [("patient", patient_id), ("_sort", "-date")]
        # One after the other: their documents come with them.
        dots = [_dot(note) for note in every("DocumentReference", newest, token, MOST_DRAWN + 1)]
    else:
        dots = [_dot(note) for note in notes]
    encounters = _encounters(patient_id, token) if dots else ()
    drawn = timeline(patient_id, dots[:MOST_DRAWN], encounters)
    return drawn._replace(is_cut=len(dots) > MOST_DRAWN)


def _dot(note: Json) -> Dot:
    codings: list[Json] = (note.get("type") or {}).get("coding") or [{}]
    code = str(codings[0].get("code") or "")
    return Dot(note["id"], date_of(note), kind_of_note(note), code, status(note).is_past)


def _encounters(patient_id: str, token: OwnToken) -> list[EncounterSpan]:
    """Return the encounters, none where the token may not see them."""
    parameters = [("patient", patient_id), ("_elements", "period,type")]
    try:
        return [
            _encounter_span(encounter)
            for encounter in every("Encounter", parameters, token, _MOST_ENCOUNTERS)
        ]
    except PageError:
        return []


def _encounter_span(encounter: Json) -> EncounterSpan:
    period = encounter.get("period") or {}
    kind = words.encounter(encounter) or _("Visit")
    return EncounterSpan(str(period.get("start", "")), str(period.get("end", "")), kind)
