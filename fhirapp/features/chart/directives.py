"""Notes that are pinned above the others: directives and warnings that are in force.

They are found by codes of LOINC, and notes without these by the words of type or description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.chart.allergies import VIA
from fhirapp.features.notes.elements import NoteItem, add_names, line
from fhirapp.fhir import words
from fhirapp.fhir.terminology import ADVANCE_DIRECTIVES, LOINC
from fhirapp.web.internal_client import read
from fhirapp.web.texts import _

# LOINC: advance healthcare directives, advance directive, do not resuscitate, living will, power of
# attorney, both of these, personal advance care plan, portable medical order, mental health advance
# directive. US Core 8.0.0, ADI DocumentReference; PACIO ADI.
_CODES = (
    *(ADVANCE_DIRECTIVES, "75320-2", "84095-9", "86533-7", "64298-3", "92664-2", "81334-5"),
    *("93037-0", "104144-1"),
)
_DIRECTIVE = re.compile(
    r"resuscitat|reanimation|\b(?:dnr|dnar|dnacpr|dni|polst|molst)\b|advance (?:health ?care )?"
    r"directive|advance care plan|living will|power of attorney|patientenverf",
    re.IGNORECASE,
)
_WARNING = re.compile(r"\b(?:alerts?|warnings?|safeguarding)\b", re.IGNORECASE)
# Newer ones first; a record with more has them in the list.
_MOST = 20


def directives_of(
    patient_id: str, token: OwnToken, notes: tuple[dict[str, Any], ...] = ()
) -> list[tuple[str, NoteItem]]:
    """Return advance directives and warnings, newest first, each after its label.

    notes are those already loaded. Raises PageError.
    """
    by_type = ",".join(f"{LOINC}|{code}" for code in _CODES)
    found = {
        note["id"]: note
        for name, value in (("type", by_type), ("category", f"{LOINC}|{ADVANCE_DIRECTIVES}"))
        for note in _search(patient_id, name, value, token)
    }
    labels = dict.fromkeys(found, _("Directive"))
    for note in notes:
        if note["id"] not in labels and (label := _label(note)):
            found[note["id"]], labels[note["id"]] = note, label
    add_names(list(found.values()), token, VIA)
    lines = [line(note) for note in found.values() if note.get("status") == "current"]
    lines.sort(key=lambda item: item.date, reverse=True)
    return [(labels[item.id], item) for item in lines if not item.status.is_past]


def _label(note: dict[str, Any]) -> str:
    """Return what a note is by its words; "" of any other note."""
    kind = words.concept(note.get("type"))
    if _DIRECTIVE.search(f"{kind} {note.get('description') or ''}"):
        return _("Directive")
    # Only the type counts: a description may merely mention a warning.
    return _("Warning") if _WARNING.search(kind) else ""


def _search(patient_id: str, name: str, value: str, token: OwnToken) -> Iterator[dict[str, Any]]:
    query = {
        "patient": patient_id,
        name: value,
        "status": "current",
        "_sort": "-date",
        "_count": _MOST,
        "_total": "none",
    }
    path = f"/fhir/DocumentReference?{urlencode(query, quote_via=quote)}"
    for entry in read(path, token, via=VIA).get("entry", ()):
        if entry["search"]["mode"] == "match":
            yield entry["resource"]
