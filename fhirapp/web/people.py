"""Patients on pages: search by name, the label with name and date of birth, linked records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.auth.clients.overview import links_of
from fhirapp.db import reader
from fhirapp.definition import types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.search.string import fold
from fhirapp.search.values import escape
from fhirapp.web.chart.allergies import VIA
from fhirapp.web.internal_client import ask, read, token_of
from fhirapp.web.pages import PageError, signed_in
from fhirapp.web.texts import _

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


class NoDate(Exception):
    """What was typed as a date of birth is none."""


def find_people(name: str, born: str = "", *, via: str) -> tuple[list[Person], bool]:
    """Return the first patients whom this name and date fit, and whether there are more.

    Each word is the beginning of a part of a name; a comma parts them too: Muster, Anna. Where no
    name has it, one with a digit is a record number. via is which page asks. Raises NoDate,
    PageError.
    """
    words = name.replace("\0", "").replace(",", " ").split()[:_MOST_WORDS]
    found, more = _find([("name", escape(word)) for word in words], born, via)
    if not found and len(words) == 1 and any(one.isdigit() for one in words[0]):
        return _find([("identifier", escape(words[0]))], born, via)
    return found, more


def _find(asked: list[tuple[str, str]], born: str, via: str) -> tuple[list[Person], bool]:
    if born:
        asked = [*asked, ("birthdate", born)]
    query = urlencode([*asked, ("_sort", "family"), ("_count", str(SHOWN))])
    answer = ask(f"/fhir/Patient?{query}", token_of().secret, via=via)
    if answer.status == 400:
        if born:
            raise NoDate
        # No name is that long.
        return [], False
    if answer.status != 200:
        raise PageError(answer.status, _("Patients cannot be searched now. Try again."))
    bundle = answer.json()
    found = [one["resource"] for one in bundle.get("entry", ()) if _is_match(one)]
    # Of one family by their given names.
    found.sort(key=_sorted_by)
    more = any(one["relation"] == "next" for one in bundle["link"])
    return [person_of(one["id"], one) for one in found], more


def _is_match(entry: dict[str, Any]) -> bool:
    return bool(entry.get("search", {}).get("mode") == "match")


def people(ids: Iterable[str]) -> Sequence[Person]:
    """Return these patients, as far as there are records of them, in this order."""
    table = types()["Patient"].sql_table
    found = []
    for patient_id in ids:
        row = reader().first(
            f"SELECT id, body FROM {table} WHERE id = ? AND is_current", (patient_id,)
        )
        if row is not None:
            found.append(person_of(row[0], fhir_json.loads(row[1])))
    return found


def person(patient_id: str) -> Person | None:
    """Return a patient, None where there is no record."""
    return next(iter(people([patient_id])), None)


def person_of(patient_id: str, patient: dict[str, Any]) -> Person:
    """Return whom a Patient tells of."""
    return Person(
        patient_id,
        _called(_name(patient)) or _("Name not known"),
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


def _name(patient: dict[str, Any]) -> dict[str, Any]:
    """Return the name that a patient is called by now, empty where nobody wrote one."""
    names = sorted(patient.get("name", ()), key=lambda one: _rank(_USES, one.get("use")))
    return next(filter(_called, names), {})


def _sorted_by(patient: dict[str, Any]) -> tuple[bool, str, str]:
    """Return what patients are sorted by: family name, given names; last who has none."""
    name = _name(patient)
    family, given = name.get("family", ""), " ".join(filter(None, name.get("given", ())))
    return not family, fold(family), fold(given or name.get("text", ""))


def _called(name: dict[str, Any]) -> str:
    parts = [*name.get("given", ()), name.get("family", "")]
    # Primitives without a value, only an extension, are null in their list.
    return name.get("text") or " ".join(filter(None, parts))


def _rank(order: Sequence[str | None], one: str | None) -> int:
    return order.index(one) if one in order else len(order)


_ID = re.compile(ID_PATTERN)


def linked() -> list[Person]:
    """Return the records that are linked to who signed in, as far as they are here."""
    found = []
    for link in links_of(signed_in().user.id):
        try:
            patient, _token = record(link.patient_id)
        except PageError:
            continue
        found.append(person_of(link.patient_id, patient))
    return found


def record(patient_id: str) -> tuple[dict[str, Any], OwnToken]:
    """Return a Patient, and the token that reads it.

    Raises PageError, which is the same for who is not here and for who may not be seen.
    """
    if not _ID.fullmatch(patient_id):
        raise unknown()
    try:
        token = token_of(patient_id)
        return read(f"/fhir/Patient/{quote(patient_id)}", token, via=VIA), token
    except PageError as error:
        if error.status in (403, 404, 410):
            raise unknown() from None
        raise


def unknown() -> PageError:
    """Return the error for what is not here, or may not be seen."""
    message = _("There is no such record, or you may not see it.")
    return PageError(404, message, _("No such record"))
