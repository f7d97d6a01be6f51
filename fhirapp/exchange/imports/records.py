"""Inputs, read into units: one resource each, or one deletion, with the place where it stands.

What cannot be read is a unit too, so that it is reported in its place and the rest goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import orjson

from fhirapp.exchange import ccda, tables
from fhirapp.exchange.imports.archives import Broken, Told
from fhirapp.exchange.imports.bundles import (
    TYPES,
    InvalidEntry,
    WhenFound,
    identity,
    known_as,
    read_entry,
)
from fhirapp.exchange.imports.inputs import LONGEST, MARK, Input, Kind, is_fhir_xml, kind_of
from fhirapp.exchange.imports.json_stream import BrokenDocument, Piece, pieces
from fhirapp.exchange.imports.scratch import Scratch
from fhirapp.fhir import json as fhir_json

_LONGEST_CDA = 50_000_000
_BUNDLE = "Bundle"
# (path of the element, what was expected); the path is empty for the whole.
Faults = list[tuple[str, str]]


@dataclass
class Unit:
    """What an input holds at one place.

    A resource: text as it came, or resource where it was made of something else. A deletion:
    deletes is Type/id. What is refused already: faults. bundle is the number of its Bundle, own_id
    the id that it gets there, condition and when_found as in bundles.Entry.
    """

    place: str
    text: bytes = b""
    resource: Any = None
    deletes: str = ""
    faults: Faults = field(default_factory=list)
    bundle: int = 0
    own_id: str | None = None
    # Units of one document stand together: without its patient none is taken.
    whole: bool = False
    condition: str = ""
    when_found: WhenFound = WhenFound.IT_IS
    # The type of the Bundle that text is an entry of.
    entry_of: str = ""
    has_prefix: bool = False
    # A row of a table of this kind, to be mended there, under its heading.
    row_of: str = ""
    heading: bytes = b""
    # What a person should know of it: (where, what).
    remarks: Faults = field(default_factory=list)
    # It has the id that it has here.
    has_id: bool = False
    # It was put aside before.
    settled: bool = False
    # Its references are known not to lead to another source's records.
    is_apart: bool = False

    def size(self) -> int:
        """Return about how many bytes it takes."""
        if self.text and not self.row_of:
            return len(self.text)
        return len(_written(self.resource))

    def refused(self) -> bytes:
        """Return what was refused on one line: as it came, out of a Bundle as it was understood."""
        text = self.text
        if self.entry_of:
            if self.resource is not None:
                with suppress(TypeError, ValueError):
                    text = fhir_json.dumps({**fhir_json.loads(text), "resource": self.resource})
            kind = fhir_json.dumps(self.entry_of)
            text = b'{"resourceType":"Bundle","type":%s,"entry":[%s]}' % (kind, text)
        return text.strip().replace(b"\n", b" ").replace(b"\r", b" ")


class UnitReader:
    """Reads inputs; what Bundles need for their references goes into scratch.

    remark receives what a person should know of a table as a whole: (where, what).
    """

    def __init__(
        self, scratch: Scratch, prefix: str = "", remark: Callable[[str, str], None] | None = None
    ) -> None:
        self._scratch = scratch
        self._prefix = prefix
        self._remark = remark or (lambda _where, _what: None)

    def read(self, one: Input, told: Told) -> Iterator[Unit]:
        """Yield an input's units; told hears of the bytes that are read."""
        try:
            kind, detail = kind_of(one)
            if kind is Kind.LINES:
                yield from self._lines(one, told)
            elif kind is Kind.DOCUMENT:
                yield from self._document(one, told)
            elif kind is Kind.CDA:
                yield from self._cda(one, told)
            elif kind is Kind.TABLE:
                yield from self._table(one, detail, told)
            elif kind is Kind.UNKNOWN:
                message = (
                    "is none of what is imported: NDJSON, a resource or Bundle in JSON, a C-CDA "
                    "document, a table with the headings of a template, gzip and zip of these"
                )
                yield Unit(one.name, faults=[("", message)])
        except Broken as error:
            yield Unit(one.name, faults=[("", str(error))])

    def of_bundle(self, bundle: Mapping[str, Any], place: str) -> Iterator[Unit]:
        """Yield the units of a Bundle that is at hand."""
        found = bundle.get("entry", [])
        if type(found) is not list:
            yield Unit(place, faults=[("Bundle.entry", "must be a list")])
            return

        def entries() -> Iterator[tuple[str, bytes]]:
            for position, entry in enumerate(found):
                yield f"{place}, entry[{position}]", _written(entry)

        yield from self._entries(bundle.get("type"), place, entries)

    def _lines(self, one: Input, told: Told) -> Iterator[Unit]:
        with one.open(told) as stream:
            for number, line in enumerate(_bounded_lines(stream), 1):
                if line is None:
                    message = f"is longer than {LONGEST:,} bytes"
                    yield Unit(f"{one.name}:{number}", faults=[("", message)])
                elif line.strip():
                    yield Unit(f"{one.name}:{number}", line)

    def _document(self, one: Input, told: Told) -> Iterator[Unit]:
        """Yield a resource, what a Bundle holds, or the resources of a list."""
        try:
            if self._is_list(one):
                for piece in self._pieces(one, told):
                    yield Unit(f"{one.name}:{piece.line}", piece.text)
                return
            members = self._outline(one)
            if members.get("resourceType") != _BUNDLE or members.get("type") == "history":
                yield _whole(one, told)
            elif "entry" in members:
                yield Unit(f"{one.name}:1", faults=[("Bundle.entry", "must be a list")])
            else:
                bundle_type = members.get("type")
                yield from self._entries(bundle_type, one.name, lambda: self._placed(one, told))
        except BrokenDocument as error:
            yield Unit(f"{one.name}:{error.line}", faults=[("", f"{error}")])

    def _is_list(self, one: Input) -> bool:
        with one.open() as stream:
            start = stream.read(len(MARK)).removeprefix(MARK).lstrip()
            while not start and (more := stream.read(1)):
                start = more.lstrip()
        return start[:1] == b"["

    def _outline(self, one: Input) -> dict[str, Any]:
        """Return what kind of Bundle a document is; `entry` where that is no list."""
        members: dict[str, Any] = {}
        for piece in self._pieces(one, lambda _count: None):
            if piece.name in ("resourceType", "type", "entry"):
                members[piece.name] = _plain(piece.text)
            if members.get("resourceType", _BUNDLE) != _BUNDLE:
                break
        return members

    def _pieces(self, one: Input, told: Told) -> Iterator[Piece]:
        with one.open(told) as stream:
            if stream.read(len(MARK)) != MARK:
                stream.close()
                stream = one.open(told)
            yield from pieces(stream, LONGEST)

    def _placed(self, one: Input, told: Told) -> Iterator[tuple[str, bytes]]:
        """Yield each entry of a Bundle with its place."""
        position = 0
        for piece in self._pieces(one, told):
            if not piece.name:
                yield f"{one.name}:{piece.line}, entry[{position}]", piece.text
                position += 1

    def _entries(
        self, bundle_type: Any, place: str, entries: Callable[[], Iterator[tuple[str, bytes]]]
    ) -> Iterator[Unit]:
        """Yield a Bundle's units; entries is read twice: references may point forward."""
        if bundle_type not in TYPES:
            yield Unit(place, faults=[("Bundle.type", f"must be one of {', '.join(TYPES)}")])
            return
        number = self._scratch.new_bundle()
        for _, text in entries():
            self._note_address(number, text, bundle_type)
        for where, text in entries():
            try:
                entry = read_entry(fhir_json.loads(text), bundle_type)
            except InvalidEntry as error:
                yield Unit(where, text, faults=[(error.path, str(error))], entry_of=bundle_type)
                continue
            except ValueError as error:
                yield Unit(
                    where, text, faults=[("", f"is not JSON: {error}")], entry_of=bundle_type
                )
                continue
            if entry is None:
                continue
            if entry.resource is None:
                yield Unit(where, text, deletes=entry.target, entry_of=bundle_type)
                continue
            yield Unit(
                where,
                text,
                entry.resource,
                bundle=number,
                own_id=identity(entry),
                condition=entry.condition,
                when_found=entry.when_found,
                entry_of=bundle_type,
            )

    def _note_address(self, number: int, text: bytes, bundle_type: str) -> None:
        """Note where the address of an entry leads."""
        try:
            entry = read_entry(orjson.loads(text), bundle_type)
        except ValueError:
            # It is refused when its turn comes.
            return
        if entry is None or entry.resource is None or not entry.full_url:
            return
        own_id = identity(entry)
        if own_id is not None or entry.condition:
            target = f"{entry.resource.get('resourceType')}/{self._prefix}{own_id or ''}"
            # What is no Unicode is refused when its turn comes.
            with suppress(UnicodeEncodeError):
                self._scratch.add_address(number, entry.full_url, target, entry.condition)

    def _cda(self, one: Input, told: Told) -> Iterator[Unit]:
        with one.open(told) as stream:
            document = stream.read(_LONGEST_CDA + 1)
        if len(document) > _LONGEST_CDA:
            yield Unit(one.name, faults=[("", f"is longer than {_LONGEST_CDA:,} bytes")])
            return
        if is_fhir_xml(document):
            message = (
                "is FHIR in XML, which is not read: ask its source for FHIR in JSON "
                "(application/fhir+json)"
            )
            yield Unit(one.name, faults=[("", message)])
            return
        try:
            resources = ccda.resources_of(document, one.name)
        except ccda.UnreadableDocument as error:
            yield Unit(one.name, faults=[("", str(error))])
            return
        known_by = ccda.identities(resources)
        remarks = [(one.name, remark) for remark in ccda.remarks(resources)]
        # Of a person a document says little: the first that names them is enough.
        for unit in self._together(one.name, resources, WhenFound.SKIP, known_by):
            yield replace(unit, remarks=remarks)
            remarks = []

    def _together(
        self,
        place: str,
        resources: Sequence[dict[str, Any]],
        when_found: WhenFound,
        known_by: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    ) -> Iterator[Unit]:
        """Yield what was made of one document, or row: about people who may be known here.

        known_by has identifiers, (system, value), by Type/id; without it patients have their own.
        """
        number = self._scratch.new_bundle()
        for resource in resources:
            name = f"{resource['resourceType']}/{resource['id']}"
            identifiers = _own_identifiers(resource) if known_by is None else known_by.get(name, ())
            condition = known_as(resource["resourceType"], identifiers)
            if condition:
                target = name.replace("/", f"/{self._prefix}", 1)
                # References have their prefix by then.
                self._scratch.add_address(number, target, target, condition)
            yield Unit(
                place,
                resource=resource,
                bundle=number,
                whole=True,
                condition=condition,
                when_found=when_found,
            )

    def _table(self, one: Input, kind: str, told: Told) -> Iterator[Unit]:
        with one.open(told) as stream:
            rows = tables.rows_of(stream, kind, one.folder)
            heading = b""
            for row in rows:
                place = f"{one.name}:{row.number}"
                # The first is the heading.
                heading = heading or row.text
                shared: dict[str, Any] = {"row_of": kind, "heading": heading}
                if row.resources == []:
                    for column, note in row.notes:
                        self._remark(f"{place}: {column}" if column else place, note)
                if row.faults:
                    yield Unit(place, row.text, faults=[*row.faults], **shared)
                remarks = [*row.notes]
                for unit in self._together(place, row.resources or [], WhenFound.SKIP_OTHER):
                    yield replace(unit, text=row.text, remarks=remarks, **shared)
                    remarks = []


def _whole(one: Input, told: Told) -> Unit:
    """Return a document as one unit."""
    with one.open(told) as stream:
        text = stream.read(LONGEST + 1)
    if len(text) > LONGEST:
        return Unit(one.name, faults=[("", f"is longer than {LONGEST:,} bytes")])
    return Unit(f"{one.name}:1", text.removeprefix(MARK))


def _bounded_lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines, None for one that is too long to be held."""
    is_first = True
    while line := stream.readline(LONGEST + 1):
        if is_first:
            line = line.removeprefix(MARK)
            is_first = False
        if len(line) <= LONGEST or line.endswith(b"\n"):
            yield line
            continue
        while (rest := stream.readline(1_048_576)) and not rest.endswith(b"\n"):
            pass
        yield None


def _own_identifiers(resource: Mapping[str, Any]) -> list[tuple[str, str]]:
    if resource["resourceType"] != "Patient":
        return []
    return [
        (one["system"], one["value"])
        for one in resource.get("identifier", ())
        if "system" in one and "value" in one
    ]


def _written(entry: Any) -> bytes:
    """Return an entry's JSON, also of what is refused when its turn comes."""
    try:
        return fhir_json.dumps(entry)
    except TypeError:
        return json.dumps(entry, default=str).encode()


def _plain(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
