"""A row of the table of documents, as a DocumentReference with its file. service.md 2.2."""

from __future__ import annotations

import base64
import hashlib
from pathlib import PurePosixPath
from typing import Any

from fhirapp.features.imports.tables import vocabulary
from fhirapp.features.imports.tables.cells import Cells, patient_of
from fhirapp.features.imports.tables.files import TableFiles, UnreadableFile
from fhirapp.fhir import datatypes
from fhirapp.fhir.temporal import comparable_period, interval
from fhirapp.fhir.terminology import LOINC

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
_UNKNOWN = "application/octet-stream"
_AUTHORS = (
    *("Practitioner", "PractitionerRole", "Organization"),
    *("Device", "Patient", "RelatedPerson"),
)


def document(cells: Cells, files: TableFiles | None) -> list[dict[str, Any]]:
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
        "type": _type(cells),
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


def _type(cells: Cells) -> dict[str, Any] | None:
    name = cells.text("type")
    if not name:
        if "type" not in cells:
            cells.fault("type", "is required")
        return None
    if not name[0].isdigit():
        known = vocabulary.look_up(vocabulary.DOCUMENT_TYPES, name)
        if known is None:
            cells.note("type", vocabulary.without_code(vocabulary.DOCUMENT_TYPES, name))
            return {"text": name}
        return {"coding": [known.coding()], "text": name}
    if not vocabulary.is_loinc(name):
        message = f"is {name[:40]!r}: not a LOINC code, whose last digit checks the others"
        cells.fault("type", message)
        return None
    if known := vocabulary.DOCUMENT_CODES.get(name):
        return {"coding": [known.coding()], "text": known.display}
    return {"coding": [{"system": LOINC, "code": name}]}


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
        return cells.checked("content_type", datatypes.media_type) or _UNKNOWN
    ending = PurePosixPath(cells.raw("file")).suffix.casefold()
    if ending not in _MEDIA_TYPES:
        cells.note("content_type", f"does not follow from the file's ending: {_UNKNOWN}")
    return _MEDIA_TYPES.get(ending, _UNKNOWN)


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
