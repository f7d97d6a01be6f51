"""Elements of a Patient and an AllergyIntolerance in words, for the chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from fhirapp.fhir.words import concept, onset, reference, shortened, when
from fhirapp.web.labels import word
from fhirapp.web.people import age_of
from fhirapp.web.texts import _

Json = Mapping[str, Any]
# The most characters of a long text.
LONG = 10_000


def born(patient: Json, today: date) -> str:
    """Return when somebody was born, and how old they are, or were when they died."""
    birth = str(patient.get("birthDate") or "")
    if not birth:
        return _("date of birth not recorded")
    text, years = _("born %(day)s", day=when(birth)), age_of(patient, today)
    return f"{text} ({years})" if years else text


def died(patient: Json) -> str:
    """Return that somebody died, and when; empty of who is not known to have."""
    if value := patient.get("deceasedDateTime"):
        return _("died %(day)s", day=when(str(value)))
    return _("died, date not recorded") if patient.get("deceasedBoolean") else ""


def notes(values: Iterable[Json] | None) -> list[str]:
    """Return annotations in words: the text, and who wrote it when."""
    found = []
    for note in values or ():
        who = reference(note.get("authorReference")) or shortened(note.get("authorString") or "")
        author = ", ".join(filter(None, (who, when(note.get("time")))))
        text = shortened(note.get("text") or "", LONG) or _("no text")
        found.append(f"{text} ({author})" if author else text)
    return found


def codings(value: Json | None) -> list[str]:
    """Return the codes of a CodeableConcept, each with its system."""
    return [
        shortened(f"{code.get('display') or ''} {code.get('system') or ''}|{code['code']}").strip()
        for code in (value or {}).get("coding", ())
        if code.get("code")
    ]


def elements_of(allergy: Json) -> list[tuple[str, str, str]]:
    """Return label, FHIR's name and text of elements of an allergy; "" where none is recorded."""
    categories = [word(code) for code in allergy.get("category", ()) if code]
    return [
        (_("Clinical status"), "clinicalStatus", _status(allergy.get("clinicalStatus"))),
        (_("Verification"), "verificationStatus", _status(allergy.get("verificationStatus"))),
        (_("Criticality"), "criticality", word(allergy.get("criticality") or "")),
        (_("Type"), "type", word(allergy.get("type") or "")),
        (_("Category"), "category", ", ".join(categories)),
        (_("Onset"), "onset", onset(allergy)),
        (_("Last occurred"), "lastOccurrence", when(allergy.get("lastOccurrence"))),
        (_("Recorded"), "recordedDate", when(allergy.get("recordedDate"))),
        (_("Recorded by"), "recorder", reference(allergy.get("recorder"), allergy)),
        (_("Reported by"), "asserter", reference(allergy.get("asserter"), allergy)),
        (_("Visit"), "encounter", reference(allergy.get("encounter"), allergy)),
    ]


def _status(value: Json | None) -> str:
    value = value or {}
    codes = [coding["code"] for coding in value.get("coding", ()) if coding.get("code")]
    return ", ".join(map(word, codes)) or concept(value)
