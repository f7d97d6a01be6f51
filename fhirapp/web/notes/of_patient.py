"""The notes of one patient, as the chart shows them: a timeline and a list.

The chart links /static/notes.css and includes `notes/_of_patient.html`, which gets this as `notes`.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

from fhirapp.auth.clients.pages import OwnToken
from fhirapp.web.notes.listing import PAGE, every, search
from fhirapp.web.notes.said import Line, concept, kind_of_note, status
from fhirapp.web.notes.timeline import Dot, Timeline, Visit, timeline
from fhirapp.web.pages import PageError

# As many as one answer has are drawn at once; for more the picture comes after the page.
_AT_ONCE = 1_000
MOST_DRAWN = 10_000
_MOST_VISITS = 1_000


class NotesOfPatient(NamedTuple):
    """What the section shows; timeline is None where it is drawn after the page, or asked for.

    next is the cursor of the next lines, "" after the last.
    """

    patient_id: str
    total: int
    lines: tuple[Line, ...]
    next: str
    timeline: Timeline | None


def of_patient(patient_id: str, token: OwnToken) -> NotesOfPatient:
    """Return the notes that the token may see, the newest first. Raises PageError."""
    asked = [("patient", patient_id), ("_sort", "-date"), ("_count", str(PAGE))]
    found = search(asked, token)
    drawn = None
    if found.total <= _AT_ONCE:
        notes = found.resources if found.total <= PAGE else None
        drawn = timeline_of(patient_id, token, notes)
    return NotesOfPatient(patient_id, found.total, found.lines, found.next, drawn)


def timeline_of(
    patient_id: str, token: OwnToken, notes: tuple[dict[str, Any], ...] | None = None
) -> Timeline:
    """Return the picture of notes: the newest MOST_DRAWN of a patient's unless they are given."""
    if notes is None:
        newest = [("patient", patient_id), ("_sort", "-date")]
        # One after the other: their documents come with them.
        dots = [_dot(one) for one in every("DocumentReference", newest, token, MOST_DRAWN + 1)]
    else:
        dots = [_dot(one) for one in notes]
    visits = _visits(patient_id, token) if dots else ()
    drawn = timeline(patient_id, dots[:MOST_DRAWN], visits)
    return drawn._replace(is_cut=len(dots) > MOST_DRAWN)


def _dot(note: dict[str, Any]) -> Dot:
    codings: list[dict[str, Any]] = (note.get("type") or {}).get("coding") or [{}]
    code = str(codings[0].get("code") or "")
    return Dot(
        note["id"], str(note.get("date", "")), kind_of_note(note), code, status(note).is_past
    )


def _visits(patient_id: str, token: OwnToken) -> list[Visit]:
    """Return the encounters, none where the token may not see them."""
    asked = [("patient", patient_id), ("_elements", "period,type")]
    try:
        return [_visit(one) for one in every("Encounter", asked, token, _MOST_VISITS)]
    except PageError:
        return []


def _visit(encounter: dict[str, Any]) -> Visit:
    period = encounter.get("period") or {}
    coded = encounter.get("class") or {}
    words = chain(map(concept, encounter.get("type", ())), (str(coded.get("display", "")), "Visit"))
    return Visit(
        str(period.get("start", "")), str(period.get("end", "")), next(filter(None, words))
    )
