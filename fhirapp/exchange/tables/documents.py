"""A row of the table of documents, as a DocumentReference with its file. service.md 2.2.

A file is read by a path that stays in the table's folder.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from fhirapp.exchange.tables.cells import Cells, patient_of
from fhirapp.exchange.tables.vocabulary import (
    DOCUMENT_CODES,
    DOCUMENT_TYPES,
    is_loinc,
    look_up,
    without_code,
)
from fhirapp.fhir import datatypes
from fhirapp.fhir.terminology import LOINC

LARGEST = 64 * 1024 * 1024
# Where the system knows them: no link is followed at the last step, no pipe waited for.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
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


def document(cells: Cells, folder: Path | None) -> list[dict[str, Any]]:
    """Return the document of a row, after its patient where that is made; faults are in cells.

    folder is where the table's files are, None where there is none.
    """
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
        known = look_up(DOCUMENT_TYPES, name)
        if known is None:
            cells.note("type", without_code(DOCUMENT_TYPES, name))
            return {"text": name}
        return {"coding": [known.coding()], "text": name}
    if not is_loinc(name):
        message = f"is {name[:40]!r}: not a LOINC code, whose last digit checks the others"
        cells.fault("type", message)
        return None
    if known := DOCUMENT_CODES.get(name):
        return {"coding": [known.coding()], "text": known.display}
    return {"coding": [{"system": LOINC, "code": name}]}


def _attachment(cells: Cells, folder: Path | None) -> dict[str, Any] | None:
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
            content = _read(folder, cells.raw("file"))
        except _Unreadable as error:
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
    context = {
        "encounter": [encounter] if encounter else None,
        "period": {name: value for name, value in ends.items() if value},
    }
    return {name: value for name, value in context.items() if value}


class _Unreadable(ValueError):
    """A file that is not read; str() says why."""


def _read(folder: Path | None, name: str) -> bytes:
    """Return the bytes of a file of the folder. Raises _Unreadable."""
    if folder is None:
        raise _Unreadable("cannot be read: the table does not come from a folder")
    path = _path(folder, name)
    try:
        descriptor = os.open(path, _FLAGS)
        try:
            return _content(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _Unreadable(f"cannot be read: {error.strerror}") from None


def _path(folder: Path, name: str) -> Path:
    """Return where a name leads, links resolved, if that is in the folder. Raises _Unreadable."""
    windows = PureWindowsPath(name)
    # A table from Windows writes notes\visit.pdf.
    relative = PurePosixPath(windows.as_posix())
    if windows.drive or windows.root or relative.is_absolute() or ".." in relative.parts:
        raise _Unreadable("must be a path in the table's own folder, without ..")
    try:
        home = folder.resolve(strict=True)
        path = (home / relative).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise _Unreadable("is not there") from None
    if not path.is_relative_to(home):
        raise _Unreadable("leads out of the table's folder")
    return path


def _content(descriptor: int) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _Unreadable("is not a file")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        # It may have grown since.
        content = b"" if status.st_size > LARGEST else file.read(LARGEST + 1)
    if max(status.st_size, len(content)) > LARGEST:
        raise _Unreadable(f"is larger than {LARGEST} bytes")
    if not content:
        raise _Unreadable("is empty")
    return content
