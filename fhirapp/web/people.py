"""Patients on pages: search by name, name and date of birth, linked records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from flask import has_request_context, request

from fhirapp.audit import events
from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.auth.links import links_of
from fhirapp.db import reader
from fhirapp.definition import types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import temporal
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.temporal import MONTHS
from fhirapp.fhir.words import current_name
from fhirapp.search.string import fold
from fhirapp.search.values import escape
from fhirapp.store.merge import merged_into
from fhirapp.web.internal_client import ask, read, token_of
from fhirapp.web.labels import full_name, sex
from fhirapp.web.pages import PageError, signed_in
from fhirapp.web.texts import _

SHOWN, SUGGESTED = 25, 10
# What can be typed into a search box, in characters.
LONGEST = 200
# Words of a typed name: further words distinguish no patients.
_MOST_WORDS = 8
# What tells patients apart, where they are suggested.
_ELEMENTS = "name,birthDate,gender,deceased,identifier,link"


class Person(NamedTuple):
    """A patient: name, and what distinguishes patients of the same name."""

    id: str
    name: str
    # As FHIR has it, perhaps only a year; empty where it is not recorded.
    born: str
    # The clinic's own number for them, empty where there is none.
    identifier: str
    # In words; the age, or that at death, is empty where it is not known.
    sex: str = ""
    age: str = ""


class NoDate(Exception):
    """A typed date does not exist."""


class Finder(NamedTuple):
    """A search box for patients: its text, the patients found, a message."""

    typed: str
    people: Sequence[Person]
    more: bool
    message: str


# As people write a day: 12.04.1958, 12/04/1958, and as pages show it: 12 April 1958, 12. Apr. 1958.
_DAY = re.compile(r"(?<![\w./-])(\d{1,2})([./])(\d{1,2})\2(\d{4})(?![\w./-])")
_ISO = re.compile(r"(?<![\w./-])\d{4}-\d\d(?:-\d\d)?(?![\w./-])")
_IN_WORDS = re.compile(r"(?<![\w./-])(\d{1,2})\.?\s+([^\W\d_]{3,})\.?\s+(\d{4})(?![\w./-])")


def finder(parameter: str, *, via: str, lists_all: bool = True, born: str = "") -> Finder:
    """Return what the search box finds whose text is a parameter of the page's address.

    With an empty text it finds the patients born then; without born the first of all patients, or
    none if lists_all is False. Raises PageError.
    """
    typed = request.args.get(parameter, "")[:LONGEST].strip()
    if not (typed or born or lists_all):
        return Finder(typed, [], False, "")
    try:
        people, more = find_people(typed, "" if typed else born, via=via)
    except NoDate:
        message = _("This date does not exist. Write a date as 12.04.1958 or 1958-04-12.")
        return Finder(typed, [], False, message)
    return Finder(typed, people, more, "")


def find_people(typed: str, born: str = "", *, via: str) -> tuple[list[Person], bool]:
    """Return the first patients who match what was typed, and whether there are more.

    It has words of a name, a record number, a date of birth, or several. Each word is the beginning
    of a part of a name; a comma separates too: Muster, Anna. A single word with a digit that no
    name has is a number, perhaps without its prefix. A year is one of birth where no name has it.
    born is a birth date as FHIR has it, perhaps a year. via names the page that asks. Raises
    NoDate, PageError.
    """
    name, days = _without_dates(typed)
    days |= {born} - {""}
    by_name, by_number, _by_id = _criteria(name)
    by_day = [("birthdate", day) for day in days]
    shaping = [("_sort", "family"), ("_count", str(SHOWN))]
    secret = token_of().secret
    matches, more = _search(by_name + by_day + shaping, secret, via, has_day=bool(days))
    if matches or not any(letter.isdigit() for letter in name):
        return matches, more
    if ids := _ids_by_number(name):
        by_number = [("_id", ",".join(ids))]
    if by_number:
        matches, more = _search(by_number + by_day + shaping, secret, via)
    years = [word for word in by_name if re.fullmatch(r"(?:19|20)\d\d", word[1])]
    others = [word for word in by_name if word not in years]
    by_year = [("birthdate", year) for _parameter, year in years]
    if years and not matches:
        return _search(others + by_year + by_day + shaping, secret, via)
    return matches, more


def _without_dates(typed: str) -> tuple[str, set[str]]:
    """Return what was typed without the dates in it, and these as FHIR has them. Raises NoDate.

    With slashes the month may come first: then a day is either of two, as values of a search.
    """
    days = set(_ISO.findall(typed))
    typed = _ISO.sub(" ", typed)
    for pattern in (_DAY, _IN_WORDS):
        for match in pattern.finditer(typed):
            if pattern is _IN_WORDS:
                months = [_month(match[2])]
                if not months[0]:
                    continue
                readings = [(match[3], months[0], int(match[1]))]
            else:
                first, second = int(match[1]), int(match[3])
                readings = [(match[4], second, first)]
                if match[2] == "/":
                    readings.append((match[4], first, second))
            found = {f"{year}-{month:02}-{day:02}" for year, month, day in readings}
            days.add(",".join(sorted(filter(_is_day, found))) or match[0])
            typed = typed.replace(match[0], " ")
    return typed, days


def _month(word: str) -> int:
    """Return the number of a month by the beginning of its name, 0 of another word."""
    wanted = fold(word)
    for number, month in enumerate(MONTHS, 1):
        if any(fold(name).startswith(wanted) for name in (month, _(month))):
            return number
    return 0


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _ids_by_number(typed: str) -> Sequence[str]:
    """Return the ids of patients by a number, in any case, with or without its prefix.

    A prefix is letters and zeros. The caller searches the ids with the user's token.
    """
    wanted, end = _plain_number(typed), _END.search(fold(typed))
    if end is None or len(end[0]) < 2:
        return ()
    patients = types()["Patient"]
    rows = reader().all(
        f"SELECT DISTINCT r.id, k.code FROM {patients.tables.token.name} k"
        f" JOIN {patients.sql_table} r ON r.pk = k.pk"
        " WHERE k.param = ? AND lower(k.code) LIKE ? AND r.is_current AND NOT r.deleted",
        ("identifier", f"%{end[0]}"),
    )
    numbers = ((row_id, _plain_number(code)) for row_id, code in rows)
    prefixes = {
        row_id: number.removesuffix(wanted)
        for row_id, number in numbers
        if number.endswith(wanted) and _PREFIX.fullmatch(number.removesuffix(wanted))
    }
    # One of all that has no prefix first.
    return sorted(prefixes, key=lambda row_id: (len(prefixes[row_id]), row_id))[:_MOST_IDS]


def _plain_number(text: str) -> str:
    return "".join(filter(str.isalnum, fold(text)))


_PREFIX = re.compile(r"[^\W\d_]*0*")
# The last digits or letters of a number: the index finds candidates by them.
_END = re.compile(r"\d+$|[^\W\d_]+$")
_MOST_IDS = 100


def suggest_people(typed: str, secret: str, *, via: str) -> Sequence[Person]:
    """Return a few patients whom a token sees, by the beginning of a name, a record number, an id.

    The newest of those who match: sorting all whose name begins with two letters takes long.
    """
    by_name, by_number, by_id = _criteria(typed)
    # Names seldom have digits, numbers and ids do; what is found first is enough.
    is_number = any(letter.isdigit() for letter in typed)
    ways = (by_id, by_number, by_name) if is_number else (by_name, by_id)
    return next(filter(None, (_few(criteria, secret, via) for criteria in ways if criteria)), ())


def people_of(
    ids: Sequence[str], secret: str, *, via: str, most: int = SUGGESTED
) -> Sequence[Person]:
    """Return those of these patients whom a token sees, a few at most."""
    return _few([("_id", ",".join(ids))], secret, via, most) if ids else ()


def _few(criteria: _Criteria, secret: str, via: str, most: int = SUGGESTED) -> Sequence[Person]:
    """Return the first of the patients who match; none where a token may not search them."""
    shaping = [("_count", str(most)), ("_total", "none"), ("_elements", _ELEMENTS)]
    try:
        return _search(criteria + shaping, secret, via)[0][:most]
    except PageError:
        return ()


_Criteria = list[tuple[str, str]]


def _criteria(typed: str) -> tuple[_Criteria, _Criteria, _Criteria]:
    """Return what searches by name, by record number and by id; a number and an id are one word."""
    words = typed.replace("\0", "").replace(",", " ").split()[:_MOST_WORDS]
    single = [escape(word) for word in words] if len(words) == 1 else []
    return (
        [("name", escape(word)) for word in words],
        [("identifier", word) for word in single],
        [("_id", word) for word in single],
    )


def _search(
    criteria: _Criteria, secret: str, via: str, *, has_day: bool = False
) -> tuple[list[Person], bool]:
    answer = ask(f"/fhir/Patient?{urlencode(criteria)}", secret, via=via)
    if answer.status == 400:
        if has_day:
            raise NoDate
        # No name is that long.
        return [], False
    if answer.status != 200:
        raise PageError(answer.status, _("Patient search is not available right now. Try again."))
    bundle = answer.json()
    entries = bundle.get("entry", ())
    patients = [entry["resource"] for entry in entries if entry["search"]["mode"] == "match"]
    if any(merged_into(patient) for patient in patients):
        patients = _survivors(patients, secret, via)
    # Those of one family by their given names.
    patients.sort(key=_sort_key)
    more = any(link["relation"] == "next" for link in bundle["link"])
    return [person_of(patient["id"], patient) for patient in patients], more


def _survivors(patients: Sequence[dict[str, Any]], secret: str, via: str) -> list[dict[str, Any]]:
    """Return patients, for those who were merged the ones who have their record now."""
    found = {patient["id"]: patient for patient in patients if not merged_into(patient)}
    targets = {target for patient in patients if (target := merged_into(patient))} - found.keys()
    if targets:
        query = urlencode({"_id": ",".join(sorted(targets))})
        answer = ask(f"/fhir/Patient?{query}", secret, via=via)
        bundle = answer.json() if answer.status == 200 else {}
        found |= {entry["resource"]["id"]: entry["resource"] for entry in bundle.get("entry", ())}
    return [*found.values()]


def people(ids: Iterable[str]) -> Sequence[Person]:
    """Return these patients, as far as there are records of them, in this order."""
    table = types()["Patient"].sql_table
    persons = []
    for patient_id in ids:
        row = reader().first(
            f"SELECT id, body FROM {table} WHERE id = ? AND is_current", (patient_id,)
        )
        if row is not None:
            persons.append(person_of(row[0], fhir_json.loads(row[1])))
    if persons:
        # Not read over FHIR, where the request would be logged: a name is a record too.
        shown_on = f"on the page {request.url_rule}" if has_request_context() else ""
        events.record("patients-found", named=[patient.id for patient in persons], what=shown_on)
    return persons


def person(patient_id: str) -> Person | None:
    """Return a patient, None where there is no record."""
    return next(iter(people([patient_id])), None)


def person_of(patient_id: str, patient: dict[str, Any]) -> Person:
    """Return the person of a Patient resource."""
    return Person(
        patient_id,
        full_name(patient),
        patient.get("birthDate", ""),
        number_of(patient).get("value", ""),
        sex(patient),
        _age(patient),
    )


def _age(patient: Mapping[str, Any]) -> str:
    """Return how old a patient is, or that they died."""
    age = age_of(patient, temporal.now().date())
    if not (patient.get("deceasedBoolean") or patient.get("deceasedDateTime")):
        return age
    return _("died at the age of %(age)s", age=age) if age else _("died")


def age_of(patient: Mapping[str, Any], today: date) -> str:
    """Return how old a patient is, or was at death; "" where that is not known."""
    birth = str(patient.get("birthDate") or "")
    died = temporal.day_of(str(patient.get("deceasedDateTime") or ""))
    until = died or today.isoformat()
    if not birth or (patient.get("deceasedBoolean") and not died):
        return ""
    years = int(until[:4]) - int(birth[:4])
    if years < 0 or until < birth[: len(until)]:
        return ""
    if len(birth) < 10 or len(until) < 10:
        return _("about %(years)s", years=years)
    years -= until[5:10] < birth[5:10]
    if years > 1:
        return str(years)
    days = (date.fromisoformat(until) - date.fromisoformat(birth)).days
    months = _("%(months)s months", months=days * 12 // 365)
    return _("%(days)s days", days=days) if days < 60 else months


def number_of(patient: dict[str, Any]) -> dict[str, Any]:
    """Return the identifier that is the medical record number (MR), else one without a type."""
    numbers: dict[bool, dict[str, Any]] = {}
    for identifier in patient.get("identifier", ()):
        codes = [coding.get("code") for coding in identifier.get("type", {}).get("coding", ())]
        if "value" in identifier and ("MR" in codes or not codes):
            numbers.setdefault("MR" in codes, identifier)
    return numbers.get(True) or numbers.get(False) or {}


def _sort_key(patient: dict[str, Any]) -> tuple[bool, str, str]:
    """Return the sort key of a patient: family name, given names; last without a family name."""
    name = current_name(patient.get("name", ())) or {}
    family, given = name.get("family", ""), " ".join(filter(None, name.get("given", ())))
    return not family, fold(family), fold(given or name.get("text", ""))


_ID = re.compile(ID_PATTERN)


def linked_records() -> list[Person]:
    """Return the records that are linked to the signed-in person, as far as they exist."""
    persons = []
    for link in links_of(signed_in().user.id):
        with suppress(PageError):
            patient, _token = record(link.patient_id)
            persons.append(person_of(link.patient_id, patient))
    return persons


def record(patient_id: str) -> tuple[dict[str, Any], OwnToken]:
    """Return a Patient, and the token that reads it.

    Raises PageError, the same for a record that does not exist and one that may not be seen.
    """
    if not _ID.fullmatch(patient_id):
        raise unknown()
    try:
        token = token_of(patient_id)
        return read(f"/fhir/Patient/{quote(patient_id)}", token, via="chart"), token
    except PageError as error:
        if error.status in (403, 404, 410):
            raise unknown() from None
        raise


def unknown() -> PageError:
    """Return the error for a record that does not exist, or may not be seen."""
    message = _("This record does not exist, or you don't have access to it.")
    return PageError(404, message, _("Record not found"))
