"""A row of the table of documents, as a DocumentReference with its file in it. service.md 2.2."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from fhirapp.exchange.tables import codes
from fhirapp.exchange.tables.cells import Cells
from fhirapp.exchange.tables.files import Unreachable, media_type_of, read_beside
from fhirapp.exchange.tables.patients import patient_of
from fhirapp.fhir import datatypes

_PLAIN = "text/plain; charset=utf-8"
_UNKNOWN = "application/octet-stream"
_AUTHORS = (
    "Practitioner",
    "PractitionerRole",
    "Organization",
    "Device",
    "Patient",
    "RelatedPerson",
)


def document(cells: Cells, folder: Path | None) -> list[dict[str, Any]]:
    """Return the document of a row, after its patient where that is made; faults are in cells."""
    reference, patients = patient_of(cells)
    attachment = _attachment(cells, folder)
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
    entry: dict[str, Any] = {"resourceType": "DocumentReference", **_identity(cells)}
    entry.update({name: value for name, value in content.items() if value})
    return [*patients, entry]


def _identity(cells: Cells) -> dict[str, Any]:
    words = cells.raw("text").encode(errors="surrogatepass")
    more = (cells.raw("file"), hashlib.sha256(words).hexdigest())
    return cells.identity("DocumentReference", ("type", "date", "title"), *more)


def _type(cells: Cells) -> dict[str, Any] | None:
    name = cells.text("type")
    if not name:
        if "type" not in cells:
            cells.fault("type", "is required")
        return None
    if name[0].isdigit():
        return _loinc(cells, name)
    known = codes.look_up(codes.DOCUMENT_TYPES, name)
    if known is None:
        cells.note("type", codes.not_known(codes.DOCUMENT_TYPES, name))
        return {"text": name}
    return {"coding": [known.coding()], "text": name}


def _loinc(cells: Cells, code: str) -> dict[str, Any] | None:
    if not codes.is_loinc(code):
        cells.fault(
            "type", f"is {code[:40]!r}: not a LOINC code, whose last digit checks the others"
        )
        return None
    known = codes.DOCUMENT_CODES.get(code)
    if known is None:
        return {"coding": [{"system": codes.LOINC, "code": code}]}
    return {"coding": [known.coding()], "text": known.display}


def _attachment(cells: Cells, folder: Path | None) -> dict[str, Any] | None:
    if ("file" in cells) == ("text" in cells):
        there = "are both there; one of them is the document"
        cells.fault("file", f"and text {there}" if "file" in cells else "is required, or text")
        return None
    title = cells.text("title")
    attachment: dict[str, Any] = {}
    if "text" in cells:
        if "content_type" in cells:
            cells.fault("content_type", "is of the file; text is plain text")
        attachment["contentType"], content = _PLAIN, cells.raw("text").encode(errors="replace")
    else:
        name = cells.raw("file")
        try:
            content = read_beside(folder, name)
        except Unreachable as error:
            cells.fault("file", str(error))
            return None
        attachment["contentType"] = _content_type(cells, name)
    attachment["data"] = base64.b64encode(content).decode()
    return {**attachment, "title": title} if title else attachment


def _content_type(cells: Cells, name: str) -> str:
    if "content_type" in cells:
        return cells.checked("content_type", datatypes.media_type) or _UNKNOWN
    found = media_type_of(name)
    if found is None:
        cells.note("content_type", f"does not follow from the file's ending: {_UNKNOWN}")
    return found or _UNKNOWN


def _context(cells: Cells) -> dict[str, Any]:
    encounter = cells.reference("encounter", "Encounter")
    ends = {"start": cells.date_time("period_start"), "end": cells.date_time("period_end")}
    period = {name: value for name, value in ends.items() if value}
    found: dict[str, Any] = {"encounter": [encounter]} if encounter else {}
    return {**found, "period": period} if period else found
