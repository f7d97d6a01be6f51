"""CSV of clinics without FHIR: a table of allergies, or of documents, a row for each.

records.py reads the lines and the header, cells.py the cells; here a row becomes resources, the
patient before the allergy (service.md 2.3; decisions 2.19) or the document (service.md 2.2).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from fhirapp.features.imports.tables.cells import (
    NO_INFORMATION,
    UNKNOWN_REACTION,
    Cells,
    patient_of,
)
from fhirapp.features.imports.tables.files import TableFiles, UnreadableFile
from fhirapp.features.imports.tables.records import (
    ALLERGIES,
    KINDS,
    TableLine,
    header_line,
    is_table,
    lines_of,
    read_header,
    records_of,
    start_of,
    template,
)
from fhirapp.fhir import datatypes, terminology
from fhirapp.fhir.concepts import CONCEPTS, Concept, name_key, system_of
from fhirapp.fhir.temporal import comparable_period, interval

__all__ = ["KINDS", "TableRow", "header_line", "is_table", "rows_of", "template"]

# The header is one of these.
_FIRST_LINES = 50


class TableRow(NamedTuple):
    """A row, which begins at line number; resources is None where it has faults.

    text is the row as it was written, its line end included; of a line that is too long its
    beginning. resources are in the order in which they refer to each other. faults and notes are
    (column, message); the column is empty where they are about the whole row. defaults names the
    elements that have a value though no cell states one.
    """

    number: int
    text: bytes
    resources: list[dict[str, Any]] | None
    faults: list[tuple[str, str]]
    notes: list[tuple[str, str]]
    defaults: frozenset[str] = frozenset()


def rows_of(file: BinaryIO, kind: str, files: TableFiles | None) -> Iterator[TableRow]:
    """Yield the rows of a table of a kind, first its header, with no resources.

    Rows without any content are left out. A header with faults has no resources but None, and no
    rows come after it. files are those beside the table, None where there are none.
    """
    lines = lines_of(file)
    first: list[TableLine] = []
    start = None
    for line in lines:
        first.append(line)
        start = start_of(first)
        if start or len(first) == _FIRST_LINES:
            break
    if start is None:
        yield TableRow(1, b"", None, [("", "has no header")], [])
        return
    separator, skipped = start
    records = records_of(chain(first[skipped:], lines), separator, skipped + 1)
    before = b"".join(line.raw for line in first[:skipped])
    record = next(records)
    header = read_header(record, kind)
    notes = [("", record.note), *header.notes] if record.note else header.notes
    nothing = None if header.faults else list[dict[str, Any]]()
    yield TableRow(record.number, before + record.text, nothing, header.faults, notes)
    if header.faults:
        return
    for record in records:
        if record.fault:
            yield TableRow(record.number, record.text, None, [("", record.fault)], [])
            continue
        if not any(cell.strip() for cell in record.cells):
            continue
        cells = Cells(header.columns, record.cells)
        if record.note:
            cells.note("", record.note)
        resources = _allergy(cells) if kind == ALLERGIES else _document(cells, files)
        kept = None if cells.faults else resources
        defaults = frozenset(cells.defaults)
        yield TableRow(record.number, record.text, kept, cells.faults, cells.notes, defaults)


# Allergies. service.md 2.3; decisions 2.19.

# Names that may mean "none known", or "not asked".
_UNCLEAR = re.compile(
    r"(?:no|not|none|nil|n/?a|nka|nkda|nkfa|denie[sd]|denying|negative|without|never)\b.*"
    r"|[\W\d_]+"
)
_UNKNOWN = frozenset(("unknown", "not known", "no information", "unk"))
# What distinguishes an entry from the others of a patient.
_KEYS = ("substance", "substance_code", "reaction", "onset", "recorded_date")
# A statement that no allergy is known has none of these.
_OF_AN_ALLERGY = ("reaction", "severity", "onset", "type", "category")


def _allergy(cells: Cells) -> list[dict[str, Any]]:
    """Return the entry of a row, after its patient where that is made; faults are in cells."""
    reference, patients = patient_of(cells)
    code = _code(cells)
    none_known = _none_known(cells.raw("substance"))
    note = cells.text("note")
    content: dict[str, Any] = {
        **_statuses(cells),
        "type": cells.code("type", "allergy", "intolerance"),
        "category": cells.codes("category", "food", "medication", "environment", "biologic"),
        "criticality": _criticality(cells, none_known),
        "code": code,
        "patient": reference,
        "encounter": cells.reference("encounter", "Encounter"),
        "onsetDateTime": cells.date_time("onset"),
        "recordedDate": cells.date_time("recorded_date"),
        "recorder": cells.person(
            "recorder", "Practitioner", "PractitionerRole", "Patient", "RelatedPerson"
        ),
        "note": [{"text": note}] if note else None,
        "reaction": _reactions(cells),
    }
    entry: dict[str, Any] = {
        "resourceType": "AllergyIntolerance",
        **cells.identity("AllergyIntolerance", _KEYS),
    }
    entry.update({name: value for name, value in content.items() if value})
    return [*patients, entry]


def _code(cells: Cells) -> dict[str, Any] | None:
    """Return the substance, or the statement that there is none known, or no information."""
    name = cells.text("substance")
    if not name:
        if "substance" not in cells:
            cells.fault("substance", "is required; where nothing is known, write unknown")
        return None
    if _is_unclear(name):
        cells.fault(
            "substance",
            f"is {name!r}, which may mean none, or not asked; write no known allergies, "
            "no known drug allergies or unknown",
        )
        return None
    own = _own_coding(cells)
    if none_known := _none_known(name):
        _check_none_known(cells, none_known, own)
        return {"coding": [none_known.coding()], "text": name}
    if _is_unknown(name):
        if not own:
            cells.note(
                "substance", "is unknown: taken as no information, which does not mean no allergy"
            )
        return {"coding": [own or NO_INFORMATION], "text": name}
    if own:
        known = CONCEPTS["substance"].get(name_key(name))
        if known and known.system == own["system"] and known.code != own["code"]:
            cells.note("substance_code", f"is kept, but {known.display} is {known.code} here")
        return {"coding": [own], "text": name}
    return cells.concept("substance", "substance", name)


def _none_known(name: str) -> Concept | None:
    """Return the statement that no allergy (to drugs, to food) is known, where a name is that."""
    return CONCEPTS["none known"].get(name_key(name).strip("()."))


def _is_unknown(name: str) -> bool:
    """Say whether a name means that nothing is known."""
    return name_key(name).strip("().") in _UNKNOWN


def _is_unclear(name: str) -> bool:
    """Say whether a name may mean that there is no allergy, or that it is unknown."""
    is_clear = _none_known(name) or _is_unknown(name)
    return not is_clear and _UNCLEAR.fullmatch(name_key(name)) is not None


def _own_coding(cells: Cells) -> dict[str, Any] | None:
    """Return the coding that the source itself has."""
    if "substance_code" not in cells:
        return None
    if "substance_system" not in cells:
        cells.fault("substance_system", "is required with substance_code")
        return None
    system = system_of(cells.raw("substance_system"))
    if ":" not in system:
        cells.fault("substance_system", "is not a known code system; write its address")
        return None
    code = cells.checked("substance_code", datatypes.code)
    return {"system": system, "code": code} if code else None


def _check_none_known(cells: Cells, none_known: Concept, own: dict[str, Any] | None) -> None:
    if own and (own["system"], own["code"]) != none_known[:2]:
        cells.fault("substance_code", f"contradicts the substance: {none_known.display}")
    for column in _OF_AN_ALLERGY:
        if column in cells:
            cells.fault(column, f"contradicts the substance: {none_known.display}")


def _statuses(cells: Cells) -> dict[str, Any]:
    verification = cells.code(
        "verification_status", "unconfirmed", "confirmed", "refuted", "entered-in-error"
    )
    clinical = cells.code("clinical_status", "active", "inactive", "resolved")
    if verification == "entered-in-error":
        # FHIR R4 ait-2
        if clinical:
            cells.fault("clinical_status", "must be empty for what was entered in error")
    elif "clinical_status" not in cells:
        # FHIR R4 ait-1 wants one. An app that asks for the active allergies must not miss any.
        clinical = "inactive" if verification == "refuted" else "active"
        if verification != "refuted":
            cells.defaults.add("clinicalStatus")
    return {
        "clinicalStatus": _coded(terminology.ALLERGY_CLINICAL, clinical),
        "verificationStatus": _coded(terminology.ALLERGY_VERIFICATION, verification),
    }


def _coded(system: str, code: str | None) -> dict[str, Any] | None:
    return {"coding": [{"system": system, "code": code}]} if code else None


def _criticality(cells: Cells, none_known: Concept | None) -> str | None:
    criticality = cells.code("criticality", "low", "high", "unable-to-assess")
    # service.md 2.3: of "no known drug allergies" it cannot be assessed.
    if none_known is None:
        return criticality
    if criticality and criticality != "unable-to-assess":
        cells.fault("criticality", f"must be unable-to-assess: {none_known.display}")
    return "unable-to-assess"


def _reactions(cells: Cells) -> list[dict[str, Any]]:
    severity = cells.code("severity", "mild", "moderate", "severe")
    manifestations = [_manifestation(cells, name) for name in cells.items("reaction")]
    if not manifestations and severity:
        manifestations = [{"coding": [UNKNOWN_REACTION.coding()]}]
    if not manifestations:
        return []
    return [{"manifestation": manifestations, **({"severity": severity} if severity else {})}]


def _manifestation(cells: Cells, name: str) -> dict[str, Any]:
    cells.check_text("reaction", name)
    if _is_unknown(name):
        return {"coding": [UNKNOWN_REACTION.coding()], "text": name}
    return cells.concept("reaction", "reaction", name)


# Documents. service.md 2.2.

_MEDIA_TYPES = {
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".text": "text/plain",
    ".md": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".rtf": "application/rtf",
    ".xml": "text/xml",
    ".json": "application/json",
    ".csv": "text/csv",
    ".doc": "application/msword",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".xls": "application/vnd.ms-excel",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".gif": "image/gif",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".dcm": "application/dicom",
    ".zip": "application/zip",
}
_PLAIN = "text/plain; charset=utf-8"
_ANY = "application/octet-stream"
_DOCUMENT_CODES = {concept.code: concept for concept in CONCEPTS["document"].values()}
_AUTHORS = (
    *("Practitioner", "PractitionerRole", "Organization"),
    *("Device", "Patient", "RelatedPerson"),
)


def _document(cells: Cells, files: TableFiles | None) -> list[dict[str, Any]]:
    """Return the document of a row, after its patient where that is made; faults are in cells.

    files are those beside the table, None where there are none.
    """
    reference, patients = patient_of(cells)
    if "status" not in cells:
        cells.defaults.add("status")
    attachment = _attachment(cells, files)
    content: dict[str, Any] = {
        "status": cells.code("status", "current", "superseded", "entered-in-error") or "current",
        "docStatus": cells.code(
            "doc_status", "preliminary", "final", "amended", "entered-in-error"
        ),
        "type": _document_type(cells),
        "subject": reference,
        "date": cells.date_time("date"),
        "author": cells.persons("author", *_AUTHORS),
        "custodian": cells.person("custodian", "Organization"),
        "description": cells.text("description"),
        "content": [{"attachment": attachment}] if attachment else None,
        "context": _context(cells),
    }
    words = hashlib.sha256(cells.raw("text").encode(errors="surrogatepass")).hexdigest()
    entry: dict[str, Any] = {
        "resourceType": "DocumentReference",
        **cells.identity("DocumentReference", ("type", "date", "title"), cells.raw("file"), words),
    }
    entry.update({name: value for name, value in content.items() if value})
    return [*patients, entry]


def _document_type(cells: Cells) -> dict[str, Any] | None:
    name = cells.text("type")
    if not name:
        if "type" not in cells:
            cells.fault("type", "is required")
        return None
    if not name[0].isdigit():
        return cells.concept("type", "document", name)
    if not is_loinc(name):
        message = f"is {name[:40]!r}: not a LOINC code, whose last digit checks the others"
        cells.fault("type", message)
        return None
    if known := _DOCUMENT_CODES.get(name):
        return {"coding": [known.coding()], "text": known.display}
    return {"coding": [{"system": terminology.LOINC, "code": name}]}


def is_loinc(code: str) -> bool:
    """Say whether a code is LOINC's: digits, and the check digit that follows from them."""
    digits, dash, check = code.partition("-")
    if not (dash and digits.isdecimal() and digits.isascii() and len(digits) <= 7):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 if place % 2 else 2)
        total += value // 10 + value % 10
    return check == str(-total % 10)


def _attachment(cells: Cells, files: TableFiles | None) -> dict[str, Any] | None:
    if "file" in cells and "text" in cells:
        cells.fault("file", "and text are both given; leave one out")
        return None
    title = cells.text("title")
    if "text" in cells:
        if "content_type" in cells:
            cells.fault("content_type", "goes with file only; text is plain text")
        media_type, content = _PLAIN, cells.raw("text").encode(errors="replace")
    elif "file" in cells:
        try:
            content = _read(files, cells.raw("file"))
        except UnreadableFile as error:
            cells.fault("file", str(error))
            return None
        media_type = _media_type(cells)
    else:
        cells.fault("file", "is required, or text")
        return None
    attachment = {"contentType": media_type, "data": base64.b64encode(content).decode()}
    return {**attachment, "title": title} if title else attachment


def _media_type(cells: Cells) -> str:
    if "content_type" in cells:
        return cells.checked("content_type", datatypes.media_type) or _ANY
    ending = PurePosixPath(cells.raw("file")).suffix.casefold()
    if ending not in _MEDIA_TYPES:
        cells.note("content_type", f"does not follow from the file's ending: {_ANY}")
    return _MEDIA_TYPES.get(ending, _ANY)


def _context(cells: Cells) -> dict[str, Any]:
    encounter = cells.reference("encounter", "Encounter")
    ends = {"start": cells.date_time("period_start"), "end": cells.date_time("period_end")}
    start, end = ends.values()
    if start and end and interval(end).high <= interval(start).low:
        cells.fault("period_end", "is before period_start")
    context = {
        "encounter": [encounter] if encounter else None,
        "period": comparable_period({name: value for name, value in ends.items() if value}),
    }
    return {name: value for name, value in context.items() if value}


def _read(files: TableFiles | None, name: str) -> bytes:
    """Return the bytes of a file beside the table. Raises UnreadableFile."""
    if files is None:
        raise UnreadableFile("cannot be read: the table does not come from a folder")
    return files.read(name)
