"""Patients and their visits as pages show them: found by name, told by name and date of birth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fhirapp.address import base_url
from fhirapp.db import reader
from fhirapp.fhir import json as fhir_json
from fhirapp.search.order import NEWEST_FIRST, parse_sort
from fhirapp.search.page import find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import parse_query, select
from fhirapp.store.definition import types
from fhirapp.web.dates import partial

SHOWN = 25
# Of what is typed as a name: more tell nobody apart.
_MOST_WORDS = 8
# The names that a person is called by first; FHIR R4 name-use.
_USES = ("official", "usual", None, "nickname", "temp", "anonymous", "maiden", "old")


class Person(NamedTuple):
    """A patient: how to call them, and what tells them from others of the same name."""

    id: str
    name: str
    # As FHIR has it, perhaps only a year; empty where nobody knows.
    born: str
    # The clinic's own number for them, empty where there is none.
    identifier: str


def find_people(name: str, born: str = "") -> tuple[list[Person], bool]:
    """Return the first patients with this name, and whether there are more; newest first.

    Each word is the beginning of a part of a name. Raises InvalidParameter where born is no date.
    """
    patients = types()["Patient"]
    words = name.replace("\0", "").split()[:_MOST_WORDS]
    asked = [("name", _escaped(word)) for word in words]
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


class Dated(NamedTuple):
    """An encounter or a document, and what tells it from others: its kind and its day."""

    id: str
    words: str


def encounters_of(patient_id: str) -> Sequence[Dated]:
    """Return a patient's latest visits, the latest first."""
    return [Dated(one["id"], _visit(one)) for one in _latest("Encounter", patient_id)]


def documents_of(patient_id: str) -> Sequence[Dated]:
    """Return a patient's latest documents, the latest first."""
    return [Dated(one["id"], _document(one)) for one in _latest("DocumentReference", patient_id)]


def _latest(type_name: str, patient_id: str) -> Sequence[dict[str, Any]]:
    definition = types()[type_name]
    context = Context(definition.tables, base_url())
    asked = [("patient", f"Patient/{patient_id}")]
    query = parse_query(definition.params, asked, context, strict=True)
    snapshot = reader()
    selection = select(definition.sql_table, query.conditions, snapshot.all)
    latest = parse_sort("-date", definition.params, context)
    rows = find_page(snapshot.all, selection, latest, None, SHOWN)
    return [fhir_json.loads(row[4]) for row in rows]


def _visit(encounter: dict[str, Any]) -> str:
    day = encounter.get("period", {}).get("start", "")[:10]
    said = (_concept(one) for one in encounter.get("type", ()))
    kind = next(filter(None, said), "") or encounter.get("class", {}).get("display") or "Visit"
    return f"{kind}, {partial(day) if day else 'day not known'}"


def _document(document: dict[str, Any]) -> str:
    day = document.get("date", "")[:10]
    kind = _concept(document.get("type", {})) or "Document"
    return f"{kind}, {partial(day) if day else 'day not known'}"


def _concept(concept: dict[str, Any]) -> str:
    """Return how a CodeableConcept is written for people, empty where nobody wrote it so."""
    shown = (one.get("display", "") for one in concept.get("coding", ()))
    text: str = concept.get("text") or next(filter(None, shown), "")
    return text


def _person(patient_id: str, body: bytes) -> Person:
    patient = fhir_json.loads(body)
    names = sorted(patient.get("name", ()), key=lambda one: _rank(_USES, one.get("use")))
    said = (_called(one) for one in names)
    return Person(
        patient_id,
        next(filter(None, said), "") or "Name not known",
        patient.get("birthDate", ""),
        _record_number(patient.get("identifier", ())),
    )


def _record_number(identifiers: Iterable[dict[str, Any]]) -> str:
    """Return the clinic's own number; what says that it is another, a tax number say, is not it."""
    numbers: dict[bool, str] = {}
    for one in identifiers:
        codes = [coding.get("code") for coding in one.get("type", {}).get("coding", ())]
        if "value" in one and ("MR" in codes or not codes):
            numbers.setdefault("MR" in codes, one["value"])
    return numbers.get(True) or numbers.get(False) or ""


def _called(name: dict[str, Any]) -> str:
    parts = [*name.get("given", ()), name.get("family", "")]
    # Primitives without a value, only an extension, are null in their list.
    return name.get("text") or " ".join(filter(None, parts))


def _rank(order: Sequence[str | None], one: str | None) -> int:
    return order.index(one) if one in order else len(order)


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace(",", "\\,").replace("$", "\\$").replace("|", "\\|")
