"""The inputs of an import: files, folders, archives and standard input, in the order of import.

An input can be opened more than once. Its first bytes tell its kind; its name decides only what
they leave open.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from math import inf
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, NamedTuple

import orjson

from fhirapp.config import ConfigurationError
from fhirapp.definition import Definition
from fhirapp.exchange.imports import LINES, SUFFIXES
from fhirapp.exchange.imports.archives import (
    CHUNK,
    Archives,
    Broken,
    OnRead,
    Opener,
    is_archive,
    unpacked,
)
from fhirapp.exchange.tables import is_table

STANDARD_INPUT = Path("-")
# Describes the files of an export beside it.
MANIFEST = "manifest.json"
# The longest line, or entry of a Bundle: 200 MB of attachment, in base64.
LONGEST = 280_000_000
# The byte order mark that some editors put before a text.
MARK = b"\xef\xbb\xbf"
_OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
# How much of a long first line is looked at.
_LONG_HEAD = 8_388_608
_NO_RECORDS = f"holds no file that ends in {', '.join(SUFFIXES)}"
# The first element of XML, with its attributes; it may come after comments.
_ROOT = re.compile(rb"<[A-Za-z_][^>]*>")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_HEAD = 1_048_576
# The effectiveTime of a document's header, which comes before all others.
_EFFECTIVE = re.compile(
    rb"<(?:\w+:)?effectiveTime\b[^>]*?\bvalue\s*=\s*[\"']\s*"
    rb"(\d{4}-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d)?)?)?|\d{4,14})"
)
_NO_DIGIT = re.compile(rb"\D")
# Ranks behind those of types. Documents of C-CDA come last: they may refer to people in the others.
_MIXED, _OTHER, _CDA = 500, 1_000, 2_000


class Kind(Enum):
    """What an input holds."""

    LINES = "a resource on each line"
    DOCUMENT = "one JSON document"
    XML = "one FHIR XML document"
    CDA = "a C-CDA document"
    TABLE = "a table"
    EMPTY = "nothing"
    UNKNOWN = "something else"


class Input(NamedTuple):
    """An input: its name for people, its opener, and the folder with the files of its table."""

    name: str
    opens: Opener
    size: int
    folder: Path | None = None
    # The number of the folder that it came from: what a later one holds counts over an earlier.
    group: int = 0

    def open(self, on_read: OnRead = lambda _size: None) -> BinaryIO:
        """Open it from its beginning. Raises Broken."""
        try:
            return self.opens(on_read)
        except OSError as error:
            raise Broken(f"cannot be read: {error.strerror or error}") from None


def shown(path: Path) -> str:
    """Return a path as text; its bytes may be no text."""
    return _printable(str(path).encode(errors="surrogateescape").decode(errors="replace"))


def _printable(name: str) -> str:
    """Return a name without characters that control a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)


def total_bytes(paths: Sequence[Path]) -> int | None:
    """Return the size of all inputs on disk, None where it is not known."""
    if STANDARD_INPUT in paths:
        return None
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in files if file.is_file())


def find_inputs(paths: Sequence[Path], spool: Path, archives: Archives) -> Iterator[Input]:
    """Yield the inputs at paths; each file once.

    A folder stands for the files in and below it that look like records. Standard input, or a pipe,
    is kept in the folder spool, to be read twice. Raises ConfigurationError for a path that is not
    there.
    """
    for path in paths:
        if path != STANDARD_INPUT and not path.exists():
            raise ConfigurationError(f"There is no file or folder {shown(path)}.")
    known: set[tuple[int, int]] = set()
    group, after_folder = 0, False
    for number, path in enumerate(paths):
        # A folder comes after what is named before it: of two exports the later one counts.
        group += number > 0 and (after_folder or path.is_dir())
        after_folder = path.is_dir()
        for file, name, folder in _files_at(path, spool / str(number)):
            state = file.stat()
            if (state.st_dev, state.st_ino) not in known:
                known.add((state.st_dev, state.st_ino))
                for found in _inputs_of(file, name, folder, archives):
                    yield found._replace(group=group)


def _files_at(path: Path, kept: Path) -> Iterator[tuple[Path, str, Path | None]]:
    """Yield the files at a path: (file, name for people, its folder)."""
    if path == STANDARD_INPUT:
        _keep(sys.stdin.buffer, kept)
        yield kept, "standard input", None
    elif path.is_fifo():
        with path.open("rb") as pipe:
            _keep(pipe, kept)
        yield kept, shown(path), None
    elif not path.is_dir():
        yield path, shown(path), path.parent
    else:
        files = [file for file in path.rglob("*") if _is_record(file.name) and file.is_file()]
        if not files:
            raise ConfigurationError(f"The folder {shown(path)} {_NO_RECORDS}.")
        for file in sorted(files):
            yield file, shown(file), file.parent


def _is_record(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and name != MANIFEST


def _keep(stream: BinaryIO, path: Path) -> None:
    try:
        with path.open("wb") as file:
            copyfileobj(stream, file)
    except OSError as error:
        raise ConfigurationError(
            f"Standard input cannot be kept in {shown(path.parent)} ({error.strerror}); "
            "nothing was imported."
        ) from None


def _inputs_of(path: Path, name: str, folder: Path | None, archives: Archives) -> Iterator[Input]:
    """Yield a file, or each member of an archive; where it cannot be read, one that is Broken."""
    size = path.stat().st_size
    try:
        if not path.is_file():
            raise Broken("is no file")
        if not is_archive(path):
            yield Input(name, lambda on_read: unpacked(path.open("rb"), on_read), size, folder)
            return
        members = [
            (member, compressed, opens)
            for member, compressed, opens in archives.members(path)
            if _is_record(Path(member).name)
        ]
        if not members:
            raise Broken(_NO_RECORDS)
    except (OSError, Broken) as error:
        reason = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        yield Input(name, _failing(reason), size)
        return
    for member, compressed, opens in members:
        yield Input(f"{name}!{_printable(member)}", opens, compressed)


def _failing(reason: str) -> Opener:
    def opens(_on_read: OnRead) -> BinaryIO:
        raise Broken(reason)

    return opens


def kind_of(source: Input) -> tuple[Kind, str]:
    """Return what an input holds, of a table also its kind. Raises Broken."""
    with source.open() as stream:
        head = _head(stream)
    if table := is_table(head):
        return Kind.TABLE, table
    start = head.removeprefix(MARK).lstrip()
    if not start:
        return Kind.EMPTY, ""
    if _is_xml(start):
        return (Kind.XML if _is_fhir_xml(head) else Kind.CDA), ""
    if head.startswith(_OTHER_MARKS) or b"\0" in start[:4]:
        raise Broken("is not in UTF-8; save it as UTF-8")
    if source.name.lower().removesuffix(".gz").endswith(LINES) or _is_lines(start):
        return Kind.LINES, ""
    return (Kind.DOCUMENT if start[:1] in (b"{", b"[") else Kind.UNKNOWN), ""


def _head(stream: BinaryIO) -> bytes:
    """Return the beginning of a text, with its whole first line unless that is too long."""
    head = stream.read(CHUNK)
    while head and not head.strip():
        head = stream.read(CHUNK)
    if b"\n" not in head:
        head += stream.readline(_LONG_HEAD)
    return head


def _is_xml(start: bytes) -> bool:
    if start.startswith(_OTHER_MARKS[:2]):
        start = start[2:6]
    return start.replace(b"\0", b"")[:1] == b"<"


def _is_fhir_xml(head: bytes) -> bool:
    """Say whether the first element of an XML document is one of FHIR."""
    root = _ROOT.search(_COMMENT.sub(b"", head.replace(b"\0", b"")))
    is_cda = root is not None and b"ClinicalDocument" in root[0]
    return root is not None and b"http://hl7.org/fhir" in root[0] and not is_cda


def _is_lines(head: bytes) -> bool:
    """Say whether most lines are JSON objects; damaged ones do not hide the others."""
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()][:100] or [head]
    return 2 * sum(map(_is_object, lines)) > len(lines)


def _is_object(line: bytes) -> bool:
    try:
        return type(orjson.loads(line)) is dict
    except orjson.JSONDecodeError:
        return False


def in_order(inputs: Iterable[Input], definitions: Mapping[str, Definition]) -> list[Input]:
    """Return the inputs, those first whose type the others refer to.

    Resources that come too early all the same are deferred, which takes longer.
    """

    def key(source: Input) -> tuple[float, int, bytes]:
        rank = _rank(source, definitions)
        # Of two C-CDA documents about the same the newer one is to count.
        return (inf, rank, _made_at(source)) if rank == _CDA else (source.group, rank, b"")

    return sorted(inputs, key=key)


def _made_at(source: Input) -> bytes:
    """Return the time of a C-CDA document, as digits."""
    try:
        with source.open() as stream:
            time = _EFFECTIVE.search(stream.read(_HEAD))
    except Broken:
        time = None
    return _NO_DIGIT.sub(b"", time[1]).ljust(14, b"0") if time else b""


def _rank(source: Input, definitions: Mapping[str, Definition]) -> int:
    """Return the rank of the type of an input's first resource."""
    try:
        kind, _ = kind_of(source)
        if kind is not Kind.LINES:
            return _CDA if kind is Kind.CDA else _MIXED
        with source.open() as stream:
            resource = orjson.loads(stream.readline(_HEAD).removeprefix(MARK))
    except (Broken, orjson.JSONDecodeError):
        return _OTHER
    if type(resource) is not dict:
        return _OTHER
    type_name = resource.get("resourceType")
    if type_name == "Bundle":
        type_name = _type_in(resource)
    definition = definitions.get(str(type_name))
    return definition.rank if definition else _OTHER


def _type_in(bundle: Mapping[str, object]) -> str | None:
    """Return the type of a history's resource."""
    entries = bundle.get("entry")
    if bundle.get("type") != "history" or type(entries) is not list or not entries:
        return None
    first = entries[0]
    return str(first.get("fullUrl", "")).partition("/")[0] if type(first) is dict else None
