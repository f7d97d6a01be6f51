"""Elements in words, for the chart; an element without a value reads "not recorded"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def category(codes: Iterable[str] | None) -> str:
    return ", ".join(word(code) for code in codes or () if code)


def _status(name: str) -> Callable[[Json], str]:
    def text(allergy: Json) -> str:
        found = allergy.get(name) or {}
        codes = [coding["code"] for coding in found.get("coding", ()) if coding.get("code")]
        return ", ".join(map(word, codes)) or concept(found)

    return text


def _word(name: str) -> Callable[[Json], str]:
    return lambda allergy: word(str(allergy.get(name) or ""))


def _day(name: str) -> Callable[[Json], str]:
    return lambda allergy: when(allergy.get(name))


def _who(name: str) -> Callable[[Json], str]:
    return lambda allergy: reference(allergy.get(name), allergy)


# Of an allergy: its label, FHIR's name, and how it reads; "" where it is not recorded.
ELEMENTS: Sequence[tuple[str, str, Callable[[Json], str]]] = (
    (_("Clinical status"), "clinicalStatus", _status("clinicalStatus")),
    (_("Verification"), "verificationStatus", _status("verificationStatus")),
    (_("Criticality"), "criticality", _word("criticality")),
    (_("Type"), "type", _word("type")),
    (_("Category"), "category", lambda allergy: category(allergy.get("category"))),
    (_("Onset"), "onset", onset),
    (_("Last occurred"), "lastOccurrence", _day("lastOccurrence")),
    (_("Recorded"), "recordedDate", _day("recordedDate")),
    (_("Recorded by"), "recorder", _who("recorder")),
    (_("Reported by"), "asserter", _who("asserter")),
    (_("Visit"), "encounter", _who("encounter")),
)
