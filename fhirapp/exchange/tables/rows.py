"""The rows of a table, each as the resources it stands for; documents with their files.

A file is read by a path that stays in the table's folder. service.md 2.2.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, BinaryIO, NamedTuple

from fhirapp.exchange.tables import allergies
from fhirapp.exchange.tables.allergies import allergy
from fhirapp.exchange.tables.cells import Cells, patient_of
from fhirapp.exchange.tables.columns import ALLERGIES
from fhirapp.exchange.tables.records import (
    Line,
    Record,
    lines_of,
    read_header,
    records_of,
    start_of,
)
from fhirapp.fhir import datatypes

LARGEST = 64 * 1024 * 1024
# Where the system knows them: no link is followed at the last step, no pipe waited for.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)

_TYPES = {
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


class Unreachable(ValueError):
    """A document that is not read; str() says why."""


def media_type_of(name: str) -> str | None:
    """Return the media type that a file's ending stands for."""
    return _TYPES.get(PurePosixPath(name).suffix.casefold())


def read_beside(folder: Path | None, name: str) -> bytes:
    """Return the bytes of a file of the folder. Raises Unreachable."""
    if folder is None:
        raise Unreachable("cannot be read: the table does not come from a folder")
    path = _inside(folder, name)
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        raise Unreachable(f"cannot be read: {error.strerror}") from None
    try:
        return _content(descriptor)
    except OSError as error:
        raise Unreachable(f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        raise Unreachable("is not a file")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        # It may have grown since.
        content = b"" if about.st_size > LARGEST else file.read(LARGEST + 1)
    if max(about.st_size, len(content)) > LARGEST:
        raise Unreachable(f"is larger than {LARGEST} bytes")
    if not content:
        raise Unreachable("is empty")
    return content


def _inside(folder: Path, name: str) -> Path:
    """Return where a name leads, links resolved, if that is in the folder. Raises Unreachable."""
    windows = PureWindowsPath(name)
    # A table from Windows writes notes\visit.pdf.
    relative = PurePosixPath(windows.as_posix())
    if windows.drive or windows.root or relative.is_absolute() or ".." in relative.parts:
        raise Unreachable("must be a path in the table's own folder, without ..")
    try:
        home = folder.resolve(strict=True)
        path = (home / relative).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise Unreachable("is not there") from None
    if not path.is_relative_to(home):
        raise Unreachable("leads out of the table's folder")
    return path


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
    known = allergies.look_up(allergies.DOCUMENT_TYPES, name)
    if known is None:
        cells.note("type", allergies.not_known(allergies.DOCUMENT_TYPES, name))
        return {"text": name}
    return {"coding": [known.coding()], "text": name}


def _loinc(cells: Cells, code: str) -> dict[str, Any] | None:
    if not allergies.is_loinc(code):
        cells.fault(
            "type", f"is {code[:40]!r}: not a LOINC code, whose last digit checks the others"
        )
        return None
    known = allergies.DOCUMENT_CODES.get(code)
    if known is None:
        return {"coding": [{"system": allergies.LOINC, "code": code}]}
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


# The header stands in one of these.
_FIRST_LINES = 50


class Row(NamedTuple):
    """A row, which begins at line number; resources is None where it has faults.

    text is the row as it stood, its line end included; of a line that is too long its beginning.
    resources are in the order in which they point to each other. faults and notes are (column,
    message); the column is empty where they are about the whole row.
    """

    number: int
    text: bytes
    resources: list[dict[str, Any]] | None
    faults: list[tuple[str, str]]
    notes: list[tuple[str, str]]


def rows_of(file: BinaryIO, kind: str, folder: Path | None) -> Iterator[Row]:
    """Yield the rows of a table of a kind, first its header, with no resources.

    Rows without any content are left out. A header with faults has no resources but None, and no
    rows come after it. folder is where the table's files are, None where there is none.
    """
    lines = lines_of(file)
    first: list[Line] = []
    for line in lines:
        first.append(line)
        if len(first) == _FIRST_LINES or start_of(first):
            break
    start = start_of(first)
    if start is None:
        yield Row(1, b"", None, [("", "has no header")], [])
        return
    separator, skipped = start
    records = records_of(chain(first[skipped:], lines), separator, skipped + 1)
    before = b"".join(line.raw for line in first[:skipped])
    record = next(records)
    header = read_header(record, kind)
    notes = [("", record.note), *header.notes] if record.note else header.notes
    nothing = None if header.faults else list[dict[str, Any]]()
    yield Row(record.number, before + record.text, nothing, header.faults, notes)
    if header.faults:
        return
    for record in records:
        if record.fault:
            yield Row(record.number, record.text, None, [("", record.fault)], [])
        elif any(cell.strip() for cell in record.cells):
            yield _row(record, Cells(header.columns, record.cells), kind, folder)


def _row(record: Record, cells: Cells, kind: str, folder: Path | None) -> Row:
    if record.note:
        cells.note("", record.note)
    resources = allergy(cells) if kind == ALLERGIES else document(cells, folder)
    if cells.faults:
        return Row(record.number, record.text, None, cells.faults, cells.notes)
    return Row(record.number, record.text, resources, [], cells.notes)
