"""What an import is given: files, folders, archives, standard input; each input can be opened anew.

What an input is, its first bytes say: a name tells only what they leave open.

The order in which inputs are imported: what others point to comes first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from math import inf
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, NamedTuple

import orjson

from fhirapp.config import ConfigurationError
from fhirapp.definition import Definition
from fhirapp.exchange.imports.archives import (
    CHUNK,
    Archives,
    Broken,
    Opens,
    Told,
    is_archive,
    unpacked,
)
from fhirapp.exchange.tables import is_table

STANDARD_INPUT = Path("-")
# What tells of an export's files beside them.
MANIFEST = "manifest.json"
# The longest line, or entry of a Bundle: 200 MB of attachment, in base64.
LONGEST = 280_000_000
# What some editors begin a text with.
MARK = b"\xef\xbb\xbf"
# How much of a long first line is looked at.
_LONG_HEAD = 8_388_608
# What texts of other encodings begin with.
_OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
# The first element of XML, with its attributes.
_ROOT = re.compile(rb"<[A-Za-z_][^>]*>")
_LINES = (".ndjson", ".jsonl")
# What else a folder is searched for; other files in it may be what a table names.
SUFFIXES = (*_LINES, ".json", ".gz", ".zip", ".xml", ".csv", ".tsv")
_SHOWN_SUFFIXES = ", ".join(SUFFIXES)


class Kind(Enum):
    """What an input holds."""

    LINES = "a resource on each line"
    DOCUMENT = "one JSON document"
    CDA = "a C-CDA document"
    TABLE = "a table"
    EMPTY = "nothing"
    UNKNOWN = "something else"


class Input(NamedTuple):
    """An input: how a person finds it, how it is opened, the folder its table's files lie in."""

    name: str
    opens: Opens
    size: int
    folder: Path | None = None
    # Its place among the folders that were given: what a later one says comes later.
    given: int = 0

    def open(self, told: Told = lambda _count: None) -> BinaryIO:
        """Open it from its beginning; told hears what is read of the disk. Raises Broken."""
        try:
            return self.opens(told)
        except OSError as error:
            raise Broken(f"cannot be read: {error.strerror or error}") from None


def shown(path: Path) -> str:
    """Return a path as text: its bytes may be none."""
    return _printable(str(path).encode(errors="surrogateescape").decode(errors="replace"))


def _printable(name: str) -> str:
    """Return a name without what a terminal would obey."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in name)


def find_inputs(paths: Sequence[Path], spool: Path, archives: Archives) -> Iterator[Input]:
    """Yield the inputs that paths stand for; each file once.

    A folder stands for what lies in it and below and looks like records. Standard input, and a
    pipe, is kept in the folder spool, to be read twice. Raises ConfigurationError for a path
    that is not there.
    """
    # What a folder holds comes after what is named before it: of two exports the later one counts.
    groups = [0]
    for before, path in pairwise(paths):
        groups.append(groups[-1] + (before.is_dir() or path.is_dir()))
    for number, one in _numbered(paths, spool, archives):
        yield one._replace(given=groups[number])


def _numbered(
    paths: Sequence[Path], spool: Path, archives: Archives
) -> Iterator[tuple[int, Input]]:
    """Yield the inputs, each with the number of its path."""
    for path in paths:
        if path != STANDARD_INPUT and not path.exists():
            raise ConfigurationError(f"There is no file or folder {shown(path)}.")
    known: set[tuple[int, int]] = set()
    for number, path in enumerate(paths):
        if path == STANDARD_INPUT:
            kept = _kept(sys.stdin.buffer, spool / str(number))
            yield from ((number, one) for one in _inputs_of(kept, "standard input", None, archives))
            continue
        if path.is_fifo():
            with path.open("rb") as pipe:
                kept = _kept(pipe, spool / str(number))
            yield from ((number, one) for one in _inputs_of(kept, shown(path), None, archives))
            continue
        for file in _in_folder(path) if path.is_dir() else [path]:
            state = file.stat()
            if (state.st_dev, state.st_ino) not in known:
                known.add((state.st_dev, state.st_ino))
                for one in _inputs_of(file, shown(file), file.parent, archives):
                    yield number, one


def total_bytes(paths: Sequence[Path]) -> int | None:
    """Return how much there is to read, as it lies on disk; None where that is not known."""
    if STANDARD_INPUT in paths:
        return None
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in files if file.is_file())


def _in_folder(folder: Path) -> list[Path]:
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.name.lower().endswith(SUFFIXES) and path.name != MANIFEST and path.is_file()
    )
    if not found:
        raise ConfigurationError(
            f"The folder {shown(folder)} holds no file that ends in {_SHOWN_SUFFIXES}."
        )
    return found


def _kept(stream: BinaryIO, path: Path) -> Path:
    try:
        with path.open("wb") as file:
            copyfileobj(stream, file)
    except OSError as error:
        raise ConfigurationError(
            f"What comes by a pipe cannot be kept in {shown(path.parent)} ({error.strerror}); "
            "nothing was imported."
        ) from None
    return path


def _inputs_of(path: Path, name: str, folder: Path | None, archives: Archives) -> Iterator[Input]:
    """Yield a file; of an archive each member."""
    size = path.stat().st_size
    try:
        if not path.is_file():
            raise Broken("is no file")
        if not is_archive(path):
            yield Input(name, lambda told: unpacked(path.open("rb"), told), size, folder)
            return
        found = [
            (member, size, opens)
            for member, size, opens in archives.members(path)
            if member.lower().endswith(SUFFIXES) and Path(member).name != MANIFEST
        ]
        if not found:
            raise Broken(f"holds no file that ends in {_SHOWN_SUFFIXES}")
    except (OSError, Broken) as error:
        reason = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        yield Input(name, _failing(reason), size)
        return
    for member, size, opens in found:
        yield Input(f"{name}!{_printable(member)}", opens, size)


def _failing(reason: str) -> Opens:
    def opens(_told: Told) -> BinaryIO:
        raise Broken(reason)

    return opens


def kind_of(one: Input) -> tuple[Kind, str]:
    """Return what an input holds, of a table also which. Raises Broken."""
    with one.open() as stream:
        head = _head(stream)
    if table := is_table(head):
        return Kind.TABLE, table
    start = head.removeprefix(MARK).lstrip()
    if not start:
        return Kind.EMPTY, ""
    if _is_xml(start):
        return Kind.CDA, ""
    if head.startswith(_OTHER_MARKS) or b"\0" in start[:4]:
        raise Broken("is in another encoding than UTF-8; save it in that")
    if one.name.lower().removesuffix(".gz").endswith(_LINES) or _is_lines(start):
        return Kind.LINES, ""
    return (Kind.DOCUMENT if start[:1] in (b"{", b"[") else Kind.UNKNOWN), ""


def _head(stream: BinaryIO) -> bytes:
    """Return how a text begins, its first line whole where it is not too long."""
    head = stream.read(CHUNK)
    while head and not head.strip():
        head = stream.read(CHUNK)
    if b"\n" not in head:
        head += stream.readline(_LONG_HEAD)
    return head


def _is_xml(start: bytes) -> bool:
    if start.startswith(_OTHER_MARKS[:2]):
        return start[2:6].replace(b"\0", b"")[:1] == b"<"
    return start.replace(b"\0", b"")[:1] == b"<"


def is_fhir_xml(document: bytes) -> bool:
    """Say whether the first element of an XML document is of FHIR."""
    root = _ROOT.search(document[:CHUNK].replace(b"\0", b""))
    return root is not None and b"http://hl7.org/fhir" in root[0]


def _is_lines(head: bytes) -> bool:
    """Say whether objects stand on lines of their own. Damaged ones do not hide the others."""
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()][:100] or [head]
    return 2 * sum(map(_is_object, lines)) > len(lines)


def _is_object(line: bytes) -> bool:
    try:
        return type(orjson.loads(line)) is dict
    except orjson.JSONDecodeError:
        return False


_HEAD = 1_048_576
# Of the header: it comes before any other.
_EFFECTIVE = re.compile(rb'<(?:\w+:)?effectiveTime\b[^>]*?\bvalue\s*=\s*["\'](\d{4,14})')
# Documents of C-CDA come after all others, whose people they may mean.
_MIXED, _OTHER, _CDA = 500, 1_000, 2_000


def in_order(inputs: Iterable[Input], definitions: Mapping[str, Definition]) -> list[Input]:
    """Return the inputs, those first whose type the others point to.

    What is in the wrong order all the same waits; that takes longer.
    """

    def place(one: Input) -> tuple[float, int, bytes]:
        rank = _rank(one, definitions)
        return (inf, rank, _made(one)) if rank == _CDA else (one.given, rank, b"")

    return sorted(inputs, key=place)


def _made(one: Input) -> bytes:
    """Return when a C-CDA document was made: of two about the same, the newer one is to count."""
    try:
        with one.open() as stream:
            found = _EFFECTIVE.search(stream.read(_HEAD))
    except Broken:
        found = None
    return found[1].ljust(14, b"0") if found else b""


def _rank(one: Input, definitions: Mapping[str, Definition]) -> int:
    """Return the rank of the type that an input's first resource has."""
    try:
        kind, _ = kind_of(one)
        if kind is Kind.CDA:
            return _CDA
        if kind is not Kind.LINES:
            return _MIXED
        with one.open() as stream:
            line = stream.readline(_HEAD)
        resource = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (Broken, orjson.JSONDecodeError):
        return _OTHER
    type_name = resource.get("resourceType") if type(resource) is dict else None
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
