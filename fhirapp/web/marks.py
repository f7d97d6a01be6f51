"""Marks beside a patient's name: severe allergies, and possible duplicates of the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from fhirapp.clinical.summary import HOLDING, SummaryEntry, SummaryGroup, conclusion_of, entries_of
from fhirapp.db import reader
from fhirapp.definition import types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.identity import may_be_one
from fhirapp.fhir.words import in_words_of, shortened
from fhirapp.store.merge import merged_into
from fhirapp.web.internal_client import ask, cursor_of
from fhirapp.web.people import Person, people_of
from fhirapp.web.texts import _, language, translator

_OVER = (SummaryGroup.PAST, SummaryGroup.REFUTED, SummaryGroup.IN_ERROR)
_NAME = 80
# Of other records.
_MOST = 100


class AllergiesInBrief(NamedTuple):
    """Names of the severe allergies, and of all that may hold, and the conclusion of $summary."""

    severe: Sequence[str]
    holding: Sequence[str]
    conclusion: str


def allergies_in_brief(
    ids: Sequence[str], secret: str, *, via: str
) -> Mapping[str, AllergiesInBrief]:
    """Return the allergies of patients by their ids, as far as the token sees them.

    Empty where they cannot be read: who is not in it may have severe ones.
    """
    found: dict[str, list[dict[str, object]]] = {patient_id: [] for patient_id in ids}
    query = {"patient": ",".join(ids), "_count": "1000", "_total": "none"}
    cursor = "" if ids else None
    while cursor is not None:
        sent = query | ({"_cursor": cursor} if cursor else {})
        answer = ask(f"/fhir/AllergyIntolerance?{urlencode(sent)}", secret, via=via)
        if answer.status != 200:
            return {}
        bundle = answer.json()
        for entry in bundle.get("entry", ()):
            if entry["search"]["mode"] == "match":
                place = entry["resource"]["patient"]["reference"].split("/")
                if place[0] != "Patient" or place[1] not in found:
                    return {}
                found[place[1]].append(entry["resource"])
        cursor = cursor_of(bundle) or None
    with in_words_of(translator(), language()):
        return {patient_id: _brief(entries_of(each)) for patient_id, each in found.items()}


def _brief(entries: Sequence[SummaryEntry]) -> AllergiesInBrief:
    return AllergiesInBrief(
        [_name(entry) for entry in entries if entry.is_severe and entry.group not in _OVER],
        [_name(entry) for entry in entries if entry.is_allergy and entry.group in HOLDING],
        conclusion_of(entries).text,
    )


def _name(entry: SummaryEntry) -> str:
    by_criticality = [_("high criticality")] if entry.severe_by == "criticality" else []
    substance = entry.substance or _("Substance not recorded")
    return substance_with_codes(substance, ", ".join(entry.coded_as), *by_criticality)


def substance_with_codes(substance: str, coded_as: str, *more: str) -> str:
    """Return a substance for a list; in parentheses the display of its codes if that differs."""
    coded = [f"{_('coded as')} {shortened(coded_as, _NAME)}"] if coded_as else []
    name, remarks = shortened(substance, _NAME), ", ".join([*coded, *more])
    return f"{name} ({remarks})" if remarks else name


def duplicates_of(ids: Sequence[str], secret: str, *, via: str) -> Mapping[str, Sequence[Person]]:
    """Return the other records that may be of the same patients, as far as the token sees them.

    They name one another, or have the same name, birth date and gender.
    """
    others = _duplicate_ids(ids)
    wanted = sorted({other for found in others.values() for other in found})
    seen = {person.id: person for person in people_of(wanted, secret, via=via, most=_MOST)}
    return {
        patient_id: persons
        for patient_id, found in others.items()
        if (persons := [seen[other] for other in sorted(found) if other in seen])
    }


def _duplicate_ids(ids: Sequence[str]) -> Mapping[str, set[str]]:
    """Return the ids of possible duplicates by patient, without regard to the user's rights."""
    if not ids:
        return {}
    type_ = types()["Patient"]
    patient, marks = type_.sql_table, ", ".join("?" * len(ids))
    born, linked = type_.tables.date.name, type_.tables.reference.name
    current = "other.is_current AND NOT other.deleted"
    alike = reader().all(
        # In this order: SQLite would begin with the birth dates of all patients.
        f"SELECT mine.id, mine.body, other.id, other.body FROM {patient} mine"
        f" CROSS JOIN {born} d CROSS JOIN {born} e CROSS JOIN {patient} other"
        f" WHERE mine.is_current AND mine.id IN ({marks}) AND d.pk = mine.pk AND d.param = ?"
        " AND e.param = d.param AND e.low = d.low AND e.high = d.high"
        f" AND other.pk = e.pk AND other.pk <> mine.pk AND {current}",
        (*ids, "birthdate"),
    )
    naming = reader().all(
        f"SELECT other.id, other.body, mine.id, mine.body FROM {linked} k"
        f" JOIN {patient} mine ON mine.pk = k.pk AND mine.is_current AND NOT mine.deleted"
        f" JOIN {patient} other ON other.id = k.target_id AND {current}"
        f" WHERE k.param = ? AND k.target_type = ? AND (mine.id IN ({marks})"
        f" OR k.target_id IN ({marks}))",
        ("link", "Patient", *ids, *ids),
    )
    pairs = [(row, True) for row in alike] + [(row, False) for row in naming]
    found: dict[str, set[str]] = {}
    for (first, first_body, second, second_body), is_by_name in pairs:
        one, other = fhir_json.loads(first_body), fhir_json.loads(second_body)
        if merged_into(one) or merged_into(other) or (is_by_name and not may_be_one(one, other)):
            continue
        for here, there in ((first, second), (second, first)):
            if here in ids:
                found.setdefault(here, set()).add(there)
    return found
