"""The kind of records that an input's first bytes show, or what else it holds.

The name of an input decides only what its bytes leave open.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum

import orjson

from fhirapp.features.imports import LINES, SUFFIXES
from fhirapp.features.imports.archives import ZIP, Broken
from fhirapp.features.imports.tables import header_line, is_table

# The byte order mark that some editors put before a text.
MARK = b"\xef\xbb\xbf"
_OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
# The first element of XML, with its attributes; it may come after comments.
_ROOT = re.compile(rb"<(?:[\w.-]+:)?([A-Za-z_][\w.-]*)[^>]*>")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_HTML = re.compile(rb"<!doctype\s+html|<(?:html|head|body)[\s>]", re.IGNORECASE)
_HL7_VERSION_2 = re.compile(rb"\x0b?(?:MSH|FHS|BHS)[|^]")
_UNKNOWN = (
    "is in none of the formats that are imported: NDJSON, a resource or Bundle in JSON or XML, a "
    "C-CDA document, a table with the headings of a template, gzip and zip of these"
)
_OTHER_XML = (
    "is XML, but neither FHIR (http://hl7.org/fhir) nor a clinical document (ClinicalDocument of "
    "urn:hl7-org:v3)"
)
_SPREADSHEET = ("is a spreadsheet", "save each of its tables as CSV")
_OFFICE = (
    "is a document of an office program",
    "a table of documents can name it as its file",
)
NO_RESOURCE = "is JSON without a resource"
_TAR = ("is a tar archive", "unpack it, or pack its files into a zip")
_NESTED = ("is an archive within another", "unpack it, or import it by itself")
_COMPRESSED = ("is compressed in a way that is not read", "use gzip or zip")
_COMPRESSIONS = (b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
# The files of Word, Excel and PowerPoint of before 2007.
_OLE = b"\xd0\xcf\x11\xe0"
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
# The most lines that are looked at in one head.
_FIRST_LINES = 100


class InputFormat(Enum):
    """What an input holds."""

    LINES = "a resource on each line"
    DOCUMENT = "one JSON document"
    XML = "one FHIR XML document"
    CDA = "a C-CDA document"
    TABLE = "a table"


class Unknown(Broken):
    """Content of an unsupported format.

    may_be_skipped for files that often accompany records without containing any.
    """

    def __init__(
        self, reason: str = _UNKNOWN, remedy: str = "", *, may_be_skipped: bool = False
    ) -> None:
        super().__init__(reason, remedy)
        self.may_be_skipped = may_be_skipped


def claims_records(name: str) -> bool:
    """Say whether a file's name promises records."""
    return name.lower().endswith(SUFFIXES)


def detect(head: bytes, name: str) -> tuple[InputFormat, str]:
    """Return the format of content by its first bytes, for a table its kind. Raises Unknown.

    head contains the first line, unless that is very long.
    """
    if table := is_table(head):
        return InputFormat.TABLE, table
    start = head.removeprefix(MARK).lstrip()
    is_named_lines = name.lower().removesuffix(".gz").endswith(LINES)
    if not start:
        if is_named_lines:
            # An export has such a file for a type without resources.
            return InputFormat.LINES, ""
        raise Unknown("is empty")
    if _is_xml(start):
        return _xml_kind(head), ""
    if head.startswith(_OTHER_MARKS) or _is_wide_json(start):
        raise _below(head) or Unknown("is not in UTF-8", "save it as UTF-8")
    is_lines = _is_lines(start)
    if is_named_lines and not is_lines and _is_indented(start):
        raise Unknown("is indented JSON", "write each resource on one line, or name the file .json")
    if not (is_named_lines or is_lines or start[:1] in (b"{", b"[")):
        raise _unknown(head)
    if not claims_records(name) and b'"resourceType"' not in head:
        raise Unknown(NO_RESOURCE, may_be_skipped=True)
    return (InputFormat.LINES if is_named_lines or is_lines else InputFormat.DOCUMENT), ""


def _unknown(head: bytes) -> Unknown:
    """Return the error for content that is not JSON, XML or a table."""
    if head.startswith(ZIP):
        if office := office_file([], head):
            return office
        return Unknown(*_NESTED)
    if head[257:262] == b"ustar":
        return Unknown(*_TAR)
    if head.startswith(_COMPRESSIONS):
        return Unknown(*_COMPRESSED)
    if _HL7_VERSION_2.match(head):
        return Unknown("holds HL7 version 2 messages, which are not imported")
    if head.startswith(_OLE):
        is_workbook = b"W\0o\0r\0k\0b\0o\0o\0k\0" in head
        return _office(is_workbook)
    return _below(head) or Unknown(may_be_skipped=True)


def _below(head: bytes) -> Unknown | None:
    """Return the error for a table whose header is not on the first line."""
    line = header_line(head)
    if not line:
        return None
    return Unknown(f"has the headings of a table in line {line}", "remove the lines above it")


def _office(is_workbook: bool) -> Unknown:
    return Unknown(*(_SPREADSHEET if is_workbook else _OFFICE), may_be_skipped=True)


def office_file(names: Collection[str], head: bytes) -> Unknown | None:
    """Return the error for a zip archive that is an office file; names are its known files."""
    if b"mimetype" + _OPEN_DOCUMENT in head[:200]:
        return _office(_OPEN_DOCUMENT + b"spreadsheet" in head[:200])
    if "[Content_Types].xml" in names or b"[Content_Types].xml" in head[:200]:
        is_workbook = any(name.startswith("xl/") for name in names) or b"xl/" in head
        return _office(is_workbook)
    return None


def _is_xml(start: bytes) -> bool:
    if start.startswith(_OTHER_MARKS[:2]):
        start = start[2:6]
    return start.replace(b"\0", b"")[:1] == b"<"


def _xml_kind(head: bytes) -> InputFormat:
    """Return the kind of an XML document by its first element. Raises Unknown."""
    text = _COMMENT.sub(b"", head.replace(b"\0", b""))
    root = _ROOT.search(text)
    if root is not None and root[1] == b"ClinicalDocument":
        return InputFormat.CDA
    if root is not None and b"http://hl7.org/fhir" in root[0]:
        return InputFormat.XML
    html = _HTML.search(text)
    if html and (root is None or html.start() <= root.start()):
        raise Unknown(
            "is an HTML page, such as a sign-in page that was saved in place of the file",
            "get the file again",
            may_be_skipped=True,
        )
    if root is not None:
        raise Unknown(f"{_OTHER_XML}: it begins with {root[1][:64].decode()}", may_be_skipped=True)
    # It is refused with the reason, if none comes.
    return InputFormat.CDA


def _is_wide_json(start: bytes) -> bool:
    """Say whether JSON begins here in UTF-16 or UTF-32, without a mark."""
    return b"\0" in start[:4] and start[:4].strip(b"\0")[:1] in (b"{", b"[")


def _is_lines(start: bytes) -> bool:
    """Say whether most lines are JSON objects; damaged ones do not hide the others."""
    lines = _whole_lines(start) or [start]
    return 2 * sum(map(_is_object, lines)) > len(lines)


def _is_indented(start: bytes) -> bool:
    """Say whether this is JSON of several lines, of which few begin an object of their own."""
    lines = _whole_lines(start)
    is_json = start[:1] in (b"{", b"[") and len(lines) > 1
    return is_json and 2 * sum(line.startswith(b"{") for line in lines) <= len(lines)


def _whole_lines(start: bytes) -> list[bytes]:
    return [line for line in start.split(b"\n")[:-1] if line.strip()][:_FIRST_LINES]


def _is_object(line: bytes) -> bool:
    try:
        return type(orjson.loads(line)) is dict
    except orjson.JSONDecodeError:
        return False
