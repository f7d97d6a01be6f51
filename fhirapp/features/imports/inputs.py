"""The inputs of an import: files, folders, archives and standard input, in the order of import.

An input can be opened more than once. Every file of a folder or an archive is one: what holds no
records is told when its turn comes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from typing import BinaryIO, NamedTuple

import orjson

from fhirapp.config import ConfigurationError
from fhirapp.definition import Definition
from fhirapp.features.imports import skipped
from fhirapp.features.imports.archives import (
    CHUNK,
    Archives,
    Broken,
    OnRead,
    Opener,
    is_archive,
    unpacked,
)
from fhirapp.features.imports.content import (
    MARK,
    NO_RESOURCE,
    InputFormat,
    Unknown,
    claims_records,
    detect,
    office_file,
)
from fhirapp.features.imports.tables.files import ArchiveIndex, FolderFiles, MemberFiles, TableFiles
from fhirapp.fhir import json as fhir_json

STANDARD_INPUT = Path("-")
# The longest line, or entry of a Bundle: 200 MB of attachment, in base64.
LONGEST = 280_000_000
# How much of a long first line is looked at.
_LONG_HEAD = 8_388_608
_HEAD = 1_048_576
_LONGEST_MANIFEST = 20_000_000
_LINK = "is a link, which is not followed"
# The effectiveTime of a document's header, which comes before all others.
_EFFECTIVE = re.compile(
    rb"<(?:\w+:)?effectiveTime\b[^>]*?\bvalue\s*=\s*[\"']\s*"
    rb"(\d{4}-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d)?)?)?|\d{4,14})"
)
_NO_DIGIT = re.compile(rb"\D")
# Ranks behind those of types. Documents of C-CDA come late: they may refer to people in the others.
# Last is what may be skipped: the tables that may name it are read by then.
_MIXED, _OTHER, _CDA, _SKIPPED = 500, 1_000, 2_000, 3_000


class Input(NamedTuple):
    """An input: its name for people, its opener, and the files that a table in it can name."""

    name: str
    opens: Opener
    size: int
    files: TableFiles | None = None
    # The number of the folder that it came from: what a later one holds counts over an earlier.
    group: int = 0
    # The folder and the archive that it was found in; none where its path was given.
    found_in: tuple[str, ...] = ()
    # Its name within that.
    base: str = ""
    # What TableFiles calls the place of a table.
    location: Hashable = None

    def open(self, on_read: OnRead = lambda _size: None) -> BinaryIO:
        """Open it from its beginning. Raises Broken, SkippedInput."""
        try:
            return self.opens(on_read)
        except OSError as error:
            raise Broken(f"cannot be read: {error.strerror or error}") from None


class _File(NamedTuple):
    """A file at a path; fault says why it is not read."""

    path: Path
    name: str
    folder: Path | None = None
    fault: Exception | None = None


def path_text(path: Path) -> str:
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


def find_inputs(
    paths: Sequence[Path], spool: Path, archives: Archives, *, together: bool = False
) -> Iterator[Input]:
    """Yield the inputs at paths; each file once.

    A folder stands for the files in and below it. With together, files among the paths are like
    those of one folder. Standard input, or a pipe, is kept in the folder spool, to be read twice.
    Raises ConfigurationError for a path that is not there, or an empty folder.
    """
    for path in paths:
        if path != STANDARD_INPUT and not path.exists():
            raise ConfigurationError(f"There is no file or folder {path_text(path)}.")
    known: set[Hashable] = set()
    group, after_folder = 0, False
    for number, path in enumerate(paths):
        # A folder comes after what is named before it: of two exports the later one counts.
        group += number > 0 and (after_folder or path.is_dir())
        after_folder = path.is_dir()
        within = (path_text(path),) if after_folder else ("",) if together else ()
        for file in _files_at(path, spool / str(number)):
            if file.fault:
                yield _unread(file.name, file.fault, within, group)
                continue
            state = file.path.stat()
            location = (state.st_dev, state.st_ino)
            if location not in known:
                known.add(location)
                for found in _inputs_of(file, within, location, archives):
                    yield found._replace(group=group)


def _unread(name: str, fault: Exception, within: tuple[str, ...], group: int = 0) -> Input:
    """Return an input that raises why it is not read."""

    def opens(_on_read: OnRead) -> BinaryIO:
        raise fault

    return Input(name, opens, 0, group=group, found_in=within)


def _files_at(path: Path, kept: Path) -> Iterator[_File]:
    """Yield the files at a path. Raises ConfigurationError."""
    if path == STANDARD_INPUT:
        _keep(sys.stdin.buffer, kept)
        yield _File(kept, "standard input")
    elif path.is_fifo():
        with path.open("rb") as pipe:
            _keep(pipe, kept)
        yield _File(kept, path_text(path))
    elif not path.is_dir():
        reason = skipped.system_reason(path.name)
        yield _File(
            path, path_text(path), path.parent, skipped.SkippedInput(reason) if reason else None
        )
    else:
        files = sorted(_walk(path), key=lambda file: file.path)
        if not files:
            raise ConfigurationError(f"The folder {path_text(path)} is empty.")
        yield from files


def _walk(folder: Path) -> Iterator[_File]:
    """Yield the files in a folder and below it, without following links to folders."""
    unread: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=unread.append):
        for name in (*folders, *names):
            path = Path(place, name)
            if name in names or path.is_symlink():
                yield _File(path, path_text(path), path.parent, _fault_of(path, folder))
    for error in unread:
        path = Path(error.filename)
        yield _File(path, path_text(path), None, Broken(f"cannot be read: {error.strerror}"))


def _fault_of(path: Path, folder: Path) -> Exception | None:
    """Return why a file in a folder is not read, None where it is."""
    if reason := skipped.reason_within(str(path.relative_to(folder))):
        return skipped.SkippedInput(reason)
    if path.is_dir():
        return skipped.SkippedInput("is a link to a folder, which is not followed")
    if path.is_symlink() and not path.exists():
        return skipped.SkippedInput("is a link that leads nowhere")
    return None if path.is_file() else skipped.SkippedInput("is no file")


def _keep(stream: BinaryIO, path: Path) -> None:
    try:
        with path.open("wb") as file:
            copyfileobj(stream, file)
    except OSError as error:
        raise ConfigurationError(
            f"Standard input cannot be kept in {path_text(path.parent)} ({error.strerror}); "
            "nothing was imported."
        ) from None


def _inputs_of(
    file: _File, within: tuple[str, ...], location: Hashable, archives: Archives
) -> Iterator[Input]:
    """Yield a file, or each member of an archive; where it cannot be read, one that is Broken."""
    path, size = file.path, file.path.stat().st_size
    try:
        if not path.is_file():
            raise Broken("is no file")
        members = archives.members(path) if is_archive(path) else None
        if members is None:
            yield Input(
                file.name,
                lambda on_read: unpacked(path.open("rb"), on_read),
                size,
                FolderFiles(file.folder) if file.folder else None,
                found_in=within,
                base=path.name,
                location=location,
            )
            return
        with path.open("rb") as archive:
            office = office_file({member.name for member in members}, archive.read(CHUNK))
        if office:
            raise office
        if not members:
            raise Broken("is an empty archive")
    except (OSError, Broken) as error:
        fault = Broken(f"cannot be read: {error.strerror}") if isinstance(error, OSError) else error
        yield _unread(file.name, fault, within)._replace(size=size, location=location)
        return
    index = ArchiveIndex(members, location)
    for member in members:
        name = f"{file.name}!{_printable(member.name)}"
        inside = (*within, file.name)
        reason = _LINK if member.is_link else skipped.reason_within(member.name)
        if reason:
            yield _unread(name, skipped.SkippedInput(reason), inside)._replace(size=member.size)
            continue
        yield Input(
            name,
            member.opens,
            member.size,
            MemberFiles(index, member.name),
            found_in=inside,
            base=PurePosixPath(member.name.replace("\\", "/")).name,
            location=index.location(member.name),
        )


def kind_of(source: Input) -> tuple[InputFormat, str]:
    """Return what an input holds, of a table also its kind. Raises Broken, SkippedInput."""
    may_be_skipped = source.found_in and not claims_records(source.name)
    try:
        with source.open() as stream:
            head = _head(stream)
        kind, table = detect(head, source.name)
    except Unknown as error:
        if source.found_in and skipped.lists_package(source.base):
            raise skipped.SkippedInput(skipped.OF_THE_PACKAGE) from None
        if may_be_skipped and error.may_be_skipped:
            raise skipped.SkippedInput(*error.args) from None
        raise
    if source.found_in and source.base == skipped.MANIFEST and (reason := _manifest_reason(source)):
        raise skipped.SkippedInput(reason)
    return kind, table


def _manifest_reason(source: Input) -> str:
    """Return why a file of this name is skipped: an export's manifest, or that of an app."""
    with source.open() as stream:
        try:
            content = fhir_json.loads(stream.read(_LONGEST_MANIFEST))
        except ValueError:
            return ""
    if not isinstance(content, dict) or "resourceType" in content:
        return ""
    return skipped.OF_THE_EXPORT if isinstance(content.get("output"), list) else NO_RESOURCE


def _head(stream: BinaryIO) -> bytes:
    """Return the beginning of a text, with its whole first line unless that is too long."""
    head = stream.read(CHUNK)
    while head and not head.strip():
        head = stream.read(CHUNK)
    if b"\n" not in head:
        head += stream.readline(_LONG_HEAD)
    return head


def in_order(inputs: Iterable[Input], definitions: Mapping[str, Definition]) -> list[Input]:
    """Return the inputs, those with referenced types first: it saves deferring resources."""

    def key(source: Input) -> tuple[float, int, bytes]:
        rank = _rank(source, definitions)
        if rank < _CDA:
            return source.group, rank, b""
        # Of two C-CDA documents about the same the newer one is to count.
        return inf, rank, _made_at(source) if rank == _CDA else b""

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
        if kind is not InputFormat.LINES:
            return _CDA if kind is InputFormat.CDA else _MIXED
        with source.open() as stream:
            resource = orjson.loads(stream.readline(_HEAD).removeprefix(MARK))
    except (skipped.SkippedInput, Unknown):
        return _SKIPPED
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
