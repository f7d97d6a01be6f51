"""A line of `fhirapp export`: a record as its source sent it, or with --history all its versions.

The record is without what is added when it is served. All versions are one Bundle, which an import
reads:

    {"resourceType": "Bundle", "type": "history", "entry": [
      {"fullUrl": "DocumentReference/d1",
       "request": {"method": "DELETE", "url": "DocumentReference/d1"},
       "response": {"status": "204 No Content", "etag": "W/\"2\"", "lastModified": "2026-…"}},
      {"link": [{"relation": "enclosure", "url": "Binary/b1/_history/3"}],
       "fullUrl": "DocumentReference/d1",
       "resource": {…, "meta": {"versionId": "1", "lastUpdated": "2026-…", …}, …},
       "request": {"method": "PUT", "url": "DocumentReference/d1"},
       "response": {"status": "201 Created", "etag": "W/\"1\"", "lastModified": "2026-…"}}]}

Newest first, request and response as history-instance answers them (FHIR R4 http §3.1.0.12;
decisions §5); the resource as an export writes it. fullUrl is relative, as is all in an export: it
does not change with the address of a server. enclosure links name the versions of Binaries that a
version was made with, one for each that there was: what is sent of an attachment follows from it,
and cannot be told by the times. Members stand in this order.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from orjson import Fragment
from sqlalchemy import JSON, Boolean, Column, LargeBinary

from fhirapp.db import Reader, quoted
from fhirapp.definition import Definition
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.resource import InvalidResource
from fhirapp.fhir.temporal import instant_of, interval, normalise_date_time

# The bytes of a Binary come with its row up to this size; those of a larger one in pieces.
SMALL = 1_048_576
# Base64 makes four characters of three bytes: a piece ends where its base64 does.
_PIECE = 3 * 1_048_576
_ENCLOSURE = "enclosure"
_ADDRESS = re.compile(rf"(?:.*/)?([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/({ID_PATTERN}))?")
# As far as its column holds.
_COUNTED = "[1-9][0-9]{0,8}"
_ETAG = re.compile(rf'(?:W/)?"?({_COUNTED})"?')
_NUMBER = re.compile(_COUNTED)


class VersionKey(NamedTuple):
    """A version, and the number and approximate size in bytes of its row."""

    id: str
    version_id: int
    last_updated: str
    deleted: bool
    pk: int
    size: int


# The columns of a version's row; None for a deletion, which has no content.
Row = tuple[Any, ...] | None


class SourceJson:
    """Writes the rows of one type as JSON.

    columns is the SQL of the columns, size that of the size. The first three columns are meta,
    extra, and the Binaries that the version was made with.
    """

    def __init__(self, definition: Definition) -> None:
        table = definition.table
        self._definition = definition
        elements = {
            name: table.c[definition.columns[name]]
            for name in definition.schema.elements
            if name in definition.columns and name not in ("id", "meta")
        }
        self._order = {name: place for place, name in enumerate(definition.schema.elements)}
        # The column of a Binary's bytes, which are only in `columns` where they are few.
        self._bytes = next(
            (item for item in elements.items() if isinstance(item[1].type, LargeBinary)), None
        )
        if self._bytes:
            del elements[self._bytes[0]]
        self._elements = [(name, _conversion(column)) for name, column in elements.items()]
        self.columns = [
            _as_text(table.c.meta),
            _as_text(table.c.extra),
            _as_text(table.c.attached) if "attached" in table.c else "NULL",
            *map(_as_text, elements.values()),
        ]
        self.size = "length(body)"
        if self._bytes:
            stored = quoted(self._bytes[1].name)
            small = f"CASE WHEN length({stored}) <= {SMALL} THEN"
            self.size = f"{small} length({stored}) END"
            self.columns += [f"{small} {stored} END", f"length({stored})"]

    def pieces(self, snapshot: Reader, key: VersionKey, row: tuple[Any, ...]) -> Iterator[bytes]:
        """Yield the JSON of a row: whole, or with the bytes of a large document in pieces."""
        text = fhir_json.dumps(self._content(key, row))
        # Without bytes there is no member: FHIR JSON has no empty strings.
        if self._bytes is None or not row[-1]:
            yield text
            return
        small, length = row[-2:]
        name, column = self._bytes
        # They come last in the schema.
        yield b'%s,"%s":"' % (text[:-1], name.encode())
        if small is not None:
            yield base64.b64encode(small)
        else:
            table = self._definition.table.name
            for start in range(0, length, _PIECE):
                yield base64.b64encode(snapshot.slice(table, column.name, key.pk, start, _PIECE))
        yield b'"}'

    def _content(self, key: VersionKey, row: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return a row's elements in the order of the specification."""
        meta, extra = row[:2]
        version = f'{{"versionId":"{key.version_id}","lastUpdated":"{key.last_updated}"'
        content: dict[str, Any] = {
            "resourceType": self._definition.name,
            "id": key.id,
            "meta": Fragment(f"{version},{meta[1:]}" if meta else version + "}"),
        }
        for (name, convert), value in zip(self._elements, row[3:], strict=False):
            if value is not None:
                content[name] = convert(value)
        if extra is None:
            return content
        content.update(fhir_json.loads(extra))
        ordered = sorted(content, key=lambda name: (self._order.get(name.lstrip("_"), -1), name))
        return {name: content[name] for name in ordered}


def _as_text(column: Column[Any]) -> str:
    """Return the SQL of a column; JSON as text, as drivers that parse it lose digits."""
    name = quoted(column.name)
    return f"CAST({name} AS TEXT)" if isinstance(column.type, JSON) else name


def _conversion(column: Column[Any]) -> Callable[[Any], Any]:
    """Return what converts a column's value to JSON content."""
    if isinstance(column.type, JSON):
        return Fragment
    if isinstance(column.type, Boolean):
        # SQLite has 0 and 1.
        return bool
    return lambda value: value


class ExportedVersion(NamedTuple):
    """A version of a resource: its JSON, None for a deletion; its number and time.

    made_with has the number of the version of each Binary that it was made with, by Binary id.
    """

    resource: dict[str, Any] | None
    version_id: int
    last_updated: str
    made_with: Mapping[str, int]

    @property
    def deleted(self) -> bool:
        return self.resource is None


class History(NamedTuple):
    """The versions of a resource, oldest first."""

    type_name: str
    id: str
    versions: list[ExportedVersion]


def bundle(entries: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the JSON of a Bundle of entries, each of which comes in pieces."""
    yield b'{"resourceType":"Bundle","type":"history","entry":['
    for number, pieces in enumerate(entries):
        if number:
            yield b","
        yield from pieces
    yield b"]}"


def entry(
    address: str,
    version_id: int,
    last_updated: str,
    resource: Iterable[bytes] | None,
    made_with: Mapping[str, int],
) -> Iterator[bytes]:
    """Yield the JSON of a version's entry; resource are the pieces of its JSON."""
    before: dict[str, Any] = {}
    if made_with:
        before["link"] = [
            {"relation": _ENCLOSURE, "url": f"Binary/{binary_id}/_history/{number}"}
            for binary_id, number in sorted(made_with.items())
        ]
    before["fullUrl"] = address
    start = fhir_json.dumps(before)[:-1]
    if resource is None:
        yield start
    else:
        yield start + b',"resource":'
        yield from resource
    deleted = resource is None
    # The first is an update as create (FHIR R4 http §3.1.0.4.1): the id is the source's own.
    status = "204 No Content" if deleted else "201 Created" if version_id == 1 else "200 OK"
    interaction = {
        "request": {"method": "DELETE" if deleted else "PUT", "url": address},
        "response": {
            "status": status,
            "etag": f'W/"{version_id}"',
            "lastModified": last_updated,
        },
    }
    yield b"," + fhir_json.dumps(interaction)[1:]


def history_of(bundle: Any) -> History:
    """Return the content of a history Bundle of one resource, from any server.

    Raises InvalidResource. The resources are not validated.
    """
    if type(bundle) is not dict or bundle.get("resourceType") != "Bundle":
        raise InvalidResource([("resourceType", "must be Bundle")])
    if bundle.get("type") != "history":
        raise InvalidResource([("Bundle.type", "must be history")])
    entries = bundle.get("entry")
    if type(entries) is not list or not entries:
        raise InvalidResource([("Bundle.entry", "must be a list of at least one version")])
    found = [_read_entry(f"Bundle.entry[{place}]", item) for place, item in enumerate(entries)]
    (type_name, resource_id), _ = found[0]
    for place, (name, _) in enumerate(found):
        if name != (type_name, resource_id):
            where = f"Bundle.entry[{place}]"
            problem = f"must be a version of {type_name}/{resource_id}, as the first entry is"
            raise InvalidResource([(where, problem)])
    versions = sorted((version for _, version in found), key=lambda version: version.version_id)
    for before, after in pairwise(versions):
        if before.version_id == after.version_id:
            problem = f"must hold each version once; {after.version_id} stands twice"
            raise InvalidResource([("Bundle.entry", problem)])
        if before.last_updated > after.last_updated:
            problem = f"version {after.version_id} must not be older than the one before it"
            raise InvalidResource([("Bundle.entry", problem)])
    return History(type_name, resource_id, versions)


def _read_entry(path: str, content: Any) -> tuple[tuple[str, str], ExportedVersion]:
    """Return (type, id) and the version of an entry. Raises InvalidResource."""
    if type(content) is not dict:
        raise InvalidResource([(path, "must be a JSON object")])
    resource, request, response = (
        _object(path, content, name) for name in ("resource", "request", "response")
    )
    deleted = request.get("method") == "DELETE"
    if deleted == bool(resource):
        problem = "must not stand with DELETE" if deleted else "is required but with DELETE"
        raise InvalidResource([(f"{path}.resource", problem)])
    meta = _object(f"{path}.resource", resource, "meta")
    if deleted:
        name = _address(f"{path}.request.url", request.get("url"), content.get("fullUrl"))
    else:
        name = (str(resource.get("resourceType")), str(resource.get("id")))
    number = _number(path, meta.get("versionId"), response.get("etag"))
    moment = _moment(path, meta.get("lastUpdated"), response.get("lastModified"))
    made_with = dict(_enclosures(f"{path}.link", content.get("link")))
    return name, ExportedVersion(None if deleted else resource, number, moment, made_with)


def _object(path: str, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object, an empty one where it is not there."""
    found = content.get(name, {})
    if type(found) is not dict:
        raise InvalidResource([(f"{path}.{name}", "must be a JSON object")])
    return found


def _address(path: str, *addresses: Any) -> tuple[str, str]:
    """Return (type, id) out of the first of these that names a resource."""
    for address in addresses:
        found = _ADDRESS.fullmatch(address) if type(address) is str else None
        if found:
            return found[1], found[2]
    raise InvalidResource([(path, "must be Type/id")])


def _number(path: str, version_id: Any, etag: Any) -> int:
    """Return the number of a version: meta.versionId, of a deletion that of the etag."""
    if version_id is not None:
        if type(version_id) is str and _NUMBER.fullmatch(version_id):
            return int(version_id)
        problem = "must be a whole number from 1 on: versions are counted here"
        raise InvalidResource([(f"{path}.resource.meta.versionId", problem)])
    found = _ETAG.fullmatch(etag) if type(etag) is str else None
    if found is None:
        raise InvalidResource([(f"{path}.response.etag", 'must be the version: W/"1"')])
    return int(found[1])


def _moment(path: str, last_updated: Any, last_modified: Any) -> str:
    """Return when a version was published, as this server writes it."""
    instant, where = last_updated, f"{path}.resource.meta.lastUpdated"
    if instant is None:
        instant, where = last_modified, f"{path}.response.lastModified"
    try:
        if type(instant) is not str or len(instant) <= 10:
            raise ValueError("must be an instant: YYYY-MM-DDThh:mm:ss with a zone")
        return instant_of(interval(normalise_date_time(instant)).low)
    except ValueError as error:
        raise InvalidResource([(where, str(error))]) from None


def _enclosures(path: str, links: Any) -> Iterator[tuple[str, int]]:
    """Yield the Binaries that a version was made with, each with the number of its version."""
    for link in links if type(links) is list else ():
        if type(link) is not dict or link.get("relation") != _ENCLOSURE:
            continue
        found = _ADDRESS.fullmatch(link["url"]) if type(link.get("url")) is str else None
        if found is None or found[1] != "Binary" or not _NUMBER.fullmatch(found[3] or ""):
            raise InvalidResource([(path, "must be Binary/id/_history/number")])
        yield found[2], int(found[3])
