"""Patients as pages show them: found by name, told by name and date of birth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fhirapp.address import base_url
from fhirapp.db import reader
from fhirapp.fhir import json as fhir_json
from fhirapp.search.order import NEWEST_FIRST
from fhirapp.search.page import find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import parse_query, select
from fhirapp.store.definition import types

SHOWN = 25


class Person(NamedTuple):
    """A patient: how to call them, and what tells them from others of the same name."""

    id: str
    name: str
    # As FHIR has it, perhaps only a year; empty where nobody knows.
    born: str
    identifier: str


def find_people(name: str, born: str = "") -> tuple[list[Person], bool]:
    """Return the first patients with this name, and whether there are more; newest first.

    Each word is the beginning of a part of a name. Raises InvalidParameter for what is no date.
    """
    patients = types()["Patient"]
    asked = [("name", _escaped(word)) for word in name.split()]
    if born:
        asked.append(("birthdate", born))
    query = parse_query(patients.params, asked, Context(patients.tables, base_url()), strict=True)
    snapshot = reader()
    selection = select(patients.sql_table, query.conditions, snapshot.all)
    rows = find_page(snapshot.all, selection, NEWEST_FIRST, None, SHOWN + 1)
    return [_person(row[0], row[4]) for row in rows[:SHOWN]], len(rows) > SHOWN


def people(ids: Iterable[str]) -> Sequence[Person]:
    """Return these patients, as far as there are records of them, in this order."""
    table = types()["Patient"].sql_table
    found = []
    for patient_id in ids:
        row = reader().first(
            f"SELECT id, body FROM {table} WHERE id = ? AND is_current", (patient_id,)
        )
        if row is not None:
            found.append(_person(*row))
    return found


def person(patient_id: str) -> Person | None:
    """Return a patient, None where there is no record."""
    return next(iter(people([patient_id])), None)


def encounters_of(patient_id: str) -> Sequence[tuple[str, str]]:
    """Return the ids and days of a patient's newest visits."""
    table = types()["Encounter"].sql_table
    rows = reader().all(
        f"SELECT id, body FROM {table} WHERE patient_id = ? AND is_current"
        f" ORDER BY last_updated DESC LIMIT {SHOWN}",
        (patient_id,),
    )
    return [(row_id, _visit(fhir_json.loads(body))) for row_id, body in rows]


def _visit(encounter: dict[str, Any]) -> str:
    start = encounter.get("period", {}).get("start", "")[:10]
    kinds = encounter.get("type") or [{}]
    kind = kinds[0].get("text") or next(
        (one["display"] for one in kinds[0].get("coding", ()) if "display" in one), "Visit"
    )
    return f"{kind}, {start or 'day not known'}"


def _person(patient_id: str, body: bytes) -> Person:
    patient = fhir_json.loads(body)
    names = patient.get("name") or [{}]
    official = next((one for one in names if one.get("use") == "official"), names[0])
    parts = [*official.get("given", ()), official.get("family", "")]
    name = official.get("text") or " ".join(filter(None, parts)) or "Name not known"
    identifier = next((one["value"] for one in patient.get("identifier", ()) if "value" in one), "")
    return Person(patient_id, name, patient.get("birthDate", ""), identifier)


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace(",", "\\,").replace("$", "\\$").replace("|", "\\|")
