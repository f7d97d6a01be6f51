"""The cells of a row, read as FHIR values; faults are gathered, each with its column.

patient_of makes the patient of a row: a reference, and the Patient where the row has a name. The
names that cells have for substances, reactions and documents are looked up.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote

from fhirapp.features.imports.tables.records import SIMILAR, ImportColumn
from fhirapp.fhir import datatypes, terminology
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.concepts import CONCEPTS, name_key
from fhirapp.fhir.elements import Check, InvalidElement
from fhirapp.fhir.temporal import check_date, normalise_date_time

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
_LINE_END = re.compile("[\r\n]")
_LIST = re.compile(r"[;\n]")
_ID = re.compile(datatypes.ID_PATTERN)
_REFERENCE = re.compile(rf"([A-Z][A-Za-z]+)/({datatypes.ID_PATTERN})")
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?\s?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_DAY_FIRST = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})", re.ASCII)
_RUN = re.compile(r"(\d{4})(\d\d)(\d\d)", re.ASCII)
_EXCEL = re.compile(r"[34]\d{4}(?:\.\d+)?", re.ASCII)
_MOST_ITEMS = 100
_LOST = "\ufffd"
# What a row says where nothing is known, and service.md 2.3: the reaction where it is not known.
NO_INFORMATION = {
    "system": terminology.NULL_FLAVOR,
    "code": "NI",
    "display": "NoInformation",
    "userSelected": False,
}
UNKNOWN_REACTION = CONCEPTS["reaction"]["unknown"]


class Cells:
    """The cells of one row by column, without the empty ones; faults and notes are gathered."""

    def __init__(self, columns: Sequence[ImportColumn | None], cells: Sequence[str]) -> None:
        self.faults: list[tuple[str, str]] = []
        self.notes: list[tuple[str, str]] = []
        # Elements that have a value though no cell states one.
        self.defaults: set[str] = set()
        self._cells: dict[str, str] = {}
        for place, cell in enumerate(cells):
            text = cell.strip()
            if not text:
                continue
            if place >= len(columns):
                self.fault("", f"has {len(cells)} cells, the header {len(columns)}")
                break
            column = columns[place]
            if column is not None:
                self._take(column, text)

    def _take(self, column: ImportColumn, text: str) -> None:
        control = _CONTROL.search(text)
        if control:
            self.fault(column.name, f"has a control character, U+{ord(control[0]):04X}")
        elif not column.lines and _LINE_END.search(text):
            self.fault(column.name, "has a line break: is a quote missing?")
        if _LOST in text:
            self.note(column.name, "has a damaged character, U+FFFD")
        self._cells[column.name] = text.replace("\r\n", "\n").replace("\r", "\n")

    def fault(self, column: str, message: str) -> None:
        """Note what is wrong with a column; of several faults the first, from which others come."""
        if all(column != known for known, _ in self.faults):
            self.faults.append((column, message))

    def note(self, column: str, message: str) -> None:
        self.notes.append((column, message))

    def __contains__(self, column: str) -> bool:
        return column in self._cells

    def raw(self, column: str) -> str:
        """Return the text of a cell, empty where it has none."""
        return self._cells.get(column, "")

    def items(self, column: str) -> list[str]:
        """Return the items of a cell that holds a list."""
        items = [item.strip() for item in _LIST.split(self.raw(column)) if item.strip()]
        if len(items) > _MOST_ITEMS:
            self.fault(column, f"has {len(items)} items; {_MOST_ITEMS} are read")
            return []
        return items

    def text(self, column: str) -> str | None:
        """Return words."""
        return self.checked(column, datatypes.string)

    def checked(self, column: str, check: Check) -> str | None:
        """Return what a datatype's check makes of a cell."""
        return self._checked(column, self.raw(column), check) if column in self else None

    def check_text(self, column: str, text: str) -> None:
        """Check a part of a cell as words."""
        self._checked(column, text, datatypes.string)

    def _checked(self, column: str, text: str, check: Check) -> str | None:
        try:
            checked: str = check(text)
        except InvalidElement as error:
            self.fault(column, error.message)
            return None
        return checked

    def identity(self, kind: str, keys: Sequence[str], *more: str) -> dict[str, Any]:
        """Return the row's own id; without one, what follows from the patient and other cells.

        An id of the source's that FHIR does not allow is kept as an identifier.
        """
        own = self.raw("id")
        if _ID.fullmatch(own):
            return {"id": own}
        # The same where one row makes the patient and another refers to it.
        patient = self.raw("patient_identifier") or self.raw("patient_id")
        if own:
            self.note("id", f"is kept as an identifier, as it is no id: {datatypes.ID_RULE}")
            identifier = [{"value": self.text("id")}]
            return {"id": digest(kind, patient, own), "identifier": identifier}
        return {"id": digest(kind, patient, *(self.words(key) for key in keys), *more)}

    def words(self, column: str) -> str:
        """Return the text of a cell, the same for any case and spaces."""
        return " ".join(unicodedata.normalize("NFC", self.raw(column)).casefold().split())

    def code(self, column: str, *codes: str) -> str | None:
        """Return one of some codes, in any case and with any space between its words."""
        return self._code(column, self.raw(column), codes) if column in self else None

    def codes(self, column: str, *codes: str) -> list[str]:
        """Return some of these codes, each once."""
        listed = [self._code(column, item, codes) for item in self.items(column)]
        return list(dict.fromkeys(filter(None, listed)))

    def _code(self, column: str, text: str, codes: Sequence[str]) -> str | None:
        code = re.sub(r"[\s_]+", "-", text).casefold()
        if code in codes:
            return code
        self.fault(column, f"is {text[:40]!r}; use {', '.join(codes)}")
        return None

    def date(self, column: str) -> str | None:
        """Return a date: YYYY, YYYY-MM or YYYY-MM-DD."""
        return self._moment(column, check_date)

    def date_time(self, column: str) -> str | None:
        """Return a date, or a time with its zone."""
        return self._moment(column, normalise_date_time)

    def _moment(self, column: str, parse: Callable[[str], str]) -> str | None:
        text = self.raw(column)
        if not text:
            return None
        time = _TIME.fullmatch(text)
        if time and not time[4]:
            self.fault(column, f"has no zone; write {time[1]}, or {time[1]}T{time[2]}:00+01:00")
            return None
        if time:
            # FHIR requires seconds; seconds that are not recorded are zero.
            text = f"{time[1]}T{time[2]}{time[3] or ':00'}{time[4]}"
        try:
            return parse(text)
        except ValueError as error:
            self.fault(column, _why_no_date(text) or str(error))
            return None

    def reference(self, column: str, *types: str) -> dict[str, Any] | None:
        """Return a reference to a resource of these types: an id, or `Type/id`."""
        text = self.raw(column)
        if not text:
            return None
        if _ID.fullmatch(text) and len(types) == 1:
            return {"reference": f"{types[0]}/{text}"}
        match = _REFERENCE.fullmatch(text)
        if match and match[1] in types:
            return {"reference": text}
        self.fault(column, f"is not an id: {datatypes.ID_RULE}; use {types[0]}/<id>")
        return None

    def persons(self, column: str, *types: str) -> list[dict[str, Any]]:
        """Return references to people or organizations: `Type/id`, or a name to be shown."""
        references = []
        for item in self.items(column):
            reference = _REFERENCE.fullmatch(item)
            if reference is None:
                name = self._checked(column, item, datatypes.string)
                references += [{"display": name}] if name else []
            elif reference[1] in types:
                references.append({"reference": item})
            else:
                self.fault(column, f"is a {reference[1]}; use {' or '.join(types)}")
        return references

    def person(self, column: str, *types: str) -> dict[str, Any] | None:
        """Return the reference to one person or organization."""
        persons = self.persons(column, *types)
        if len(persons) > 1:
            self.fault(column, "names several; one is kept")
        return persons[0] if persons else None

    def concept(self, column: str, kind: str, name: str) -> dict[str, Any]:
        """Return a CodeableConcept; of a name without a code, a note has the one probably meant."""
        concepts = CONCEPTS[kind]
        if known := concepts.get(name_key(name)):
            return {"coding": [known.coding()], "text": name}
        similar = get_close_matches(name_key(name)[:64], concepts, 1, SIMILAR)
        meant = f"; is {concepts[similar[0]].display} meant?" if similar else ""
        self.note(column, f"has no code here: {name[:60]!r} is kept as text{meant}")
        return {"text": name}

    def record_number(self, column: str) -> tuple[str, str] | None:
        """Return the system and the value of an identifier."""
        text = self.raw(column)
        if not text:
            return None
        system, bar, value = text.partition("|")
        if not (bar and system.strip() and value.strip()):
            self.fault(column, "is not system|value, such as http://clinic.example/mrn|10017")
            return None
        checked = self._checked(column, system.strip(), datatypes.uri)
        value = self._checked(column, value.strip(), datatypes.string) or ""
        return (checked, value) if checked and value else None


def _why_no_date(text: str) -> str:
    """Return what to write instead of a date in another form; it is never guessed."""
    if match := _DAY_FIRST.fullmatch(text):
        month, day = sorted((int(match[1]), int(match[2])))
        if day <= 12 and month != day:
            return "can be two days, as either number can be the month; write YYYY-MM-DD"
        return f"is not an accepted date; write {match[3]}-{month:02}-{day:02} if that is meant"
    if match := _RUN.fullmatch(text):
        return f"is not an accepted date; write {match[1]}-{match[2]}-{match[3]} if that is meant"
    if _EXCEL.fullmatch(text):
        return "looks like Excel's number for a day; format it as a date, YYYY-MM-DD"
    return ""


def digest(*parts: str) -> str:
    """Return an id that follows from these texts."""
    return hashlib.sha256(fhir_json.dumps(parts)).hexdigest()[:40]


def search_for(type_name: str, system: str, value: str) -> str:
    """Return the conditional reference to the resource that has an identifier."""
    escaped = [re.sub(r"([\\,|$])", r"\\\1", part) for part in (system, value)]
    return f"{type_name}?identifier={quote('|'.join(escaped), safe='|:/')}"


_NAMES = ("patient_family", "patient_given", "patient_birth_date", "patient_gender")
_GENDERS = {"m": "male", "f": "female"}


def patient_of(cells: Cells) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the reference to the patient, and the Patient in a list, empty where none is made.

    No Patient is made of a name alone: two people may share a name and a birthday.
    """
    number = cells.record_number("patient_identifier")
    patient_id = cells.checked("patient_id", datatypes.identity)
    if "patient_id" not in cells and "patient_identifier" not in cells:
        cells.fault("patient_id", "is required, or patient_identifier")
    identifier = {"system": number[0], "value": number[1]} if number else None
    made = [name for name in _NAMES if name in cells]
    if made and not patient_id and number:
        patient_id = digest("Patient", *number)
    reference: dict[str, Any] = {}
    if patient_id:
        reference["reference"] = f"Patient/{patient_id}"
        if identifier:
            reference["identifier"] = identifier
    elif number:
        reference["reference"] = search_for("Patient", *number)
    if not made or not patient_id:
        return reference, []
    return reference, [_patient(cells, patient_id, identifier)]


def _patient(cells: Cells, patient_id: str, identifier: dict[str, Any] | None) -> dict[str, Any]:
    patient: dict[str, Any] = {"resourceType": "Patient", "id": patient_id}
    if identifier:
        patient["identifier"] = [identifier]
    family, given_names = cells.text("patient_family"), cells.items("patient_given")
    for name in given_names:
        cells.check_text("patient_given", name)
    if not family and not given_names:
        cells.fault("patient_family", "is required to create a patient")
    whole = {"family": family, "given": given_names}
    patient["name"] = [{part: value for part, value in whole.items() if value}]
    gender = _GENDERS.get(cells.raw("patient_gender").casefold()) or cells.code(
        "patient_gender", "male", "female", "other", "unknown"
    )
    details = {"gender": gender, "birthDate": cells.date("patient_birth_date")}
    return patient | {name: value for name, value in details.items() if value}
