"""Inputs, read into records: NDJSON, resources and Bundles in JSON or XML, C-CDA, tables.

What cannot be read becomes a record with faults, so that it is reported in its place while the rest
goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import orjson

from fhirapp.features.imports import bundles, ccda, tables
from fhirapp.features.imports.archives import Broken, OnRead
from fhirapp.features.imports.content import MARK, InputFormat, Unknown
from fhirapp.features.imports.inputs import LONGEST, Input, kind_of
from fhirapp.features.imports.records import ImportRecord, dumps, name_of
from fhirapp.features.imports.skipped import SkippedInput, UnreadInput
from fhirapp.features.imports.staging import Stage
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import xml_reader

_LONGEST_CDA = 50_000_000
_ONE_PAGE = "is one page of a search, and the next page is another file; import that too"
_Split = Callable[[Input, OnRead], Iterator[bundles.BundlePiece]]


class RecordReader:
    """Reads inputs; the addresses of what documents and rows are about go to the stage.

    remark receives remarks on a table as a whole: (place, text); unread receives why an input is
    not read, or not to its end. changes says whether resources are changed before they are staged.
    """

    def __init__(
        self,
        stage: Stage,
        prefix: str = "",
        remark: Callable[[str, str], None] = lambda _place, _text: None,
        unread: Callable[[UnreadInput], None] = lambda _error: None,
        *,
        changes: bool = True,
    ) -> None:
        self._stage = stage
        self._prefix = prefix
        self._remark = remark
        self._unread = unread
        self._changes = changes
        # A Bundle was one page of several.
        self.has_pages = False
        # The locations of the files named in tables.
        self._named: set[Hashable] = set()
        # The folders and archives of files that were skipped, and of others.
        self._of_skipped: set[str] = set()
        self._of_others: set[str] = set()

    def without_records(self) -> list[str]:
        """Return the folders and archives in which all files were skipped; "" is the import."""
        return sorted(self._of_skipped - self._of_others)

    def read(self, source: Input, on_read: OnRead) -> Iterator[ImportRecord]:
        """Yield an input's records with their JSON parsed, in place of a Bundle its entries."""
        return self._parsed(self._unparsed(source, on_read))

    def _parsed(self, records: Iterable[ImportRecord]) -> Iterator[ImportRecord]:
        for record in records:
            parsed = record
            if not (record.faults or record.deletes) and record.resource is None:
                try:
                    parsed = record._replace(resource=self._loads(record.text))
                except ValueError as error:
                    parsed = record._replace(faults=[("", f"is not JSON: {error}")])
            if parsed.type_name == "Bundle" and parsed.resource.get("type") != "history":
                yield from self._parsed(self._bundle(parsed.resource, parsed.place))
            else:
                yield parsed

    def _loads(self, text: bytes) -> Any:
        """Return JSON; numbers may lose digits where the resource is staged as it came."""
        if not self._changes:
            resource = _loads_quickly(text)
            if type(resource) is dict and resource.get("resourceType") != "Bundle":
                return resource
        return fhir_json.loads(text)

    def _unparsed(self, source: Input, on_read: OnRead) -> Iterator[ImportRecord]:
        try:
            kind, table_kind = kind_of(source)
            self._of_others.update(("", *source.found_in))
            if kind is InputFormat.LINES:
                yield from self._lines(source, on_read)
            elif kind is InputFormat.DOCUMENT:
                yield from self._document(source, on_read, _pieces, bytes)
            elif kind is InputFormat.XML:
                yield from self._document(source, on_read, _xml_pieces, _json_of)
            elif kind is InputFormat.CDA:
                yield from self._cda(source, on_read)
            elif kind is InputFormat.TABLE:
                yield from self._table(source, table_kind, on_read)
        except SkippedInput as error:
            on_read(source.size)
            if source.location not in self._named:
                self._of_skipped.update(("", *source.found_in))
                self._unread(error)
        except Broken as error:
            self._of_others.update(("", *source.found_in))
            if not (isinstance(error, Unknown) and source.location in self._named):
                self._unread(error)
                place = f"{source.name}:{error.line}" if error.line else source.name
                yield _faulty(place, str(error))

    def _bundle(self, bundle: Mapping[str, Any], place: str) -> Iterator[ImportRecord]:
        """Yield the records of a parsed Bundle."""
        entries = bundle.get("entry", [])
        if type(entries) is not list:
            yield _faulty(place, "must be a list", "Bundle.entry")
            return

        self._note_page(bundle, place)
        located = (
            (f"{place}, entry[{position}]", dumps(entry)) for position, entry in enumerate(entries)
        )
        yield from self._entries(bundle.get("type"), place, located)

    def _lines(self, source: Input, on_read: OnRead) -> Iterator[ImportRecord]:
        with source.open(on_read) as stream:
            for number, line in enumerate(_bounded_lines(stream), 1):
                if line is None:
                    yield _faulty(f"{source.name}:{number}", f"is longer than {LONGEST:,} bytes")
                elif line.strip():
                    yield ImportRecord(f"{source.name}:{number}", line)

    def _document(
        self, source: Input, on_read: OnRead, split: _Split, json_of: Callable[[bytes], bytes]
    ) -> Iterator[ImportRecord]:
        """Yield a resource, the entries of a Bundle, or the resources of a list."""
        if _is_list(source):
            for piece in split(source, on_read):
                yield ImportRecord(f"{source.name}:{piece.line}", piece.text)
            return
        members = _outline(split(source, lambda _size: None))
        if members.get("resourceType") != "Bundle" or members.get("type") == "history":
            yield _whole(source, on_read, json_of)
        elif "entry" in members:
            yield _faulty(f"{source.name}:1", "must be a list", "Bundle.entry")
        else:
            self._note_page(members, source.name)
            entries = _located_entries(source.name, split(source, on_read))
            yield from self._entries(members.get("type"), source.name, entries)

    def _note_page(self, bundle: Mapping[str, Any], place: str) -> None:
        """Tell of a Bundle that is one page of several."""
        links = bundle.get("link")
        if type(links) is list and any(
            type(link) is dict and link.get("relation") == "next" for link in links
        ):
            self.has_pages = True
            self._remark(place, _ONE_PAGE)

    def _entries(
        self, bundle_type: Any, place: str, located: Iterable[tuple[str, bytes]]
    ) -> Iterator[ImportRecord]:
        """Yield a Bundle's records; located has its entries, each with its place."""
        if bundle_type not in bundles.BUNDLE_TYPES:
            yield _faulty(place, f"must be one of {', '.join(bundles.BUNDLE_TYPES)}", "Bundle.type")
            return
        number = self._stage.new_container()
        for where, text in located:
            record = ImportRecord(where, text, bundle_type=bundle_type)
            try:
                entry = bundles.read_entry(fhir_json.loads(text), bundle_type)
            except bundles.InvalidEntry as error:
                yield record._replace(faults=[(error.path, str(error))])
            except ValueError as error:
                yield record._replace(faults=[("", f"is not JSON: {error}")])
            else:
                if entry is None:
                    continue
                if entry.resource is None:
                    yield record._replace(deletes=entry.target)
                    continue
                yield record._replace(
                    resource=entry.resource,
                    container=number,
                    entry_id=bundles.entry_id(entry),
                    full_url=entry.full_url,
                    condition=entry.condition,
                    on_match=entry.on_match,
                )

    def _cda(self, source: Input, on_read: OnRead) -> Iterator[ImportRecord]:
        with source.open(on_read) as stream:
            document = stream.read(_LONGEST_CDA + 1)
        if len(document) > _LONGEST_CDA:
            raise Broken(f"is longer than {_LONGEST_CDA:,} bytes")
        found: list[str] = []
        try:
            resources = ccda.resources_of(document, found.append)
        except ccda.UnreadableDocument as error:
            raise Broken(str(error)) from None
        identifiers = ccda.identities(resources)
        remarks = [(source.name, remark) for remark in found]
        # A document has few details of a person: those of the first document are kept.
        for record in self._group(source.name, resources, bundles.OnMatch.SKIP, identifiers):
            yield record._replace(remarks=remarks)
            remarks = []

    def _table(self, source: Input, kind: str, on_read: OnRead) -> Iterator[ImportRecord]:
        with source.open(on_read) as stream:
            heading = b""
            for row in tables.rows_of(stream, kind, source.files):
                place = f"{source.name}:{row.number}"
                # The first row is the heading.
                heading = heading or row.text
                base = ImportRecord(place, row.text, table_kind=kind, heading=heading)
                if row.resources == []:
                    for column, note in row.notes:
                        self._remark(f"{place}: {column}" if column else place, note)
                if row.faults:
                    yield base._replace(faults=[*row.faults])
                remarks = [*row.notes]
                resources = row.resources or []
                identifiers = {name_of(patient): _identifiers(patient) for patient in resources}
                for record in self._group(
                    place, resources, bundles.OnMatch.SKIP_OTHER, identifiers
                ):
                    yield record._replace(
                        text=row.text,
                        remarks=remarks,
                        table_kind=kind,
                        heading=heading,
                        defaults=row.defaults,
                    )
                    remarks = []
        if source.files:
            self._named |= source.files.named

    def _group(
        self,
        place: str,
        resources: Sequence[dict[str, Any]],
        on_match: bundles.OnMatch,
        identifiers: Mapping[str, Iterable[tuple[str, str]]],
    ) -> Iterator[ImportRecord]:
        """Yield the resources made from one document or row, about people who may be known here.

        identifiers has, by Type/id, the (system, value) that a resource may be known by.
        """
        number = self._stage.new_container()
        for resource in resources:
            name = name_of(resource)
            condition = bundles.identifier_condition(
                resource["resourceType"], identifiers.get(name, ())
            )
            if condition:
                target = name.replace("/", f"/{self._prefix}", 1)
                # References have their prefix by then.
                self._stage.add_address(number, target, target, condition)
            yield ImportRecord(
                place,
                resource=resource,
                container=number,
                is_converted=True,
                condition=condition,
                on_match=on_match,
            )


def _loads_quickly(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _faulty(place: str, message: str, path: str = "") -> ImportRecord:
    return ImportRecord(place, faults=[(path, message)])


def _identifiers(resource: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (system, value) of a patient's identifiers, none of another resource's."""
    if resource["resourceType"] != "Patient":
        return []
    return [
        (identifier["system"], identifier["value"])
        for identifier in resource.get("identifier", ())
        if "system" in identifier and "value" in identifier
    ]


def _bounded_lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines, None for one that is too long for memory."""
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


def _whole(source: Input, on_read: OnRead, json_of: Callable[[bytes], bytes]) -> ImportRecord:
    """Return a document as one record. Raises Broken."""
    with source.open(on_read) as stream:
        text = stream.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise Broken(f"is longer than {LONGEST:,} bytes")
    return ImportRecord(f"{source.name}:1", json_of(text.removeprefix(MARK)))


def _json_of(document: bytes) -> bytes:
    """Return FHIR XML in JSON. Raises BrokenDocument."""
    try:
        return dumps(xml_reader.loads(document))
    except xml_reader.InvalidXml as error:
        raise bundles.BrokenDocument(str(error), error.line) from None


def _is_list(source: Input) -> bool:
    with source.open() as stream:
        start = stream.read(len(MARK)).removeprefix(MARK).lstrip()
        while not start and (more := stream.read(1)):
            start = more.lstrip()
    return start[:1] == b"["


def _outline(pieces: Iterable[bundles.BundlePiece]) -> dict[str, Any]:
    """Return the type of a document, of a Bundle also kind and links; `entry` only if no list."""
    members: dict[str, Any] = {}
    for piece in pieces:
        if piece.name in ("resourceType", "type", "entry", "link"):
            try:
                members[piece.name] = orjson.loads(piece.text)
            except orjson.JSONDecodeError:
                members[piece.name] = None
        if members.get("resourceType", "Bundle") != "Bundle":
            break
    return members


def _located_entries(
    name: str, pieces: Iterable[bundles.BundlePiece]
) -> Iterator[tuple[str, bytes]]:
    """Yield each entry of a Bundle, in an input of this name, with its place."""
    position = 0
    for piece in pieces:
        if not piece.name:
            yield f"{name}:{piece.line}, entry[{position}]", piece.text
            position += 1


def _pieces(source: Input, on_read: OnRead) -> Iterator[bundles.BundlePiece]:
    with source.open(on_read) as stream:
        if stream.read(len(MARK)) != MARK:
            stream.close()
            stream = source.open(on_read)
        yield from bundles.pieces(stream, LONGEST)


def _xml_pieces(source: Input, on_read: OnRead) -> Iterator[bundles.BundlePiece]:
    """Yield the pieces of FHIR XML, in JSON. Raises BrokenDocument."""
    with source.open(on_read) as stream:
        try:
            for name, content, line in xml_reader.pieces(stream, LONGEST):
                yield bundles.BundlePiece(name, dumps(content), line)
        except xml_reader.InvalidXml as error:
            raise bundles.BrokenDocument(str(error), error.line) from None
