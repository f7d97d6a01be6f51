"""The rows of an export, out of one snapshot: which versions are selected, and each row as the JSON
that its source sent, without what is added when it is served.

Rows are read a few at a time, by their size, so that memory does not grow with the export. The SQL
is the driver's own: with SQLAlchemy's statements, reading 20,000 allergies takes 0.16 s of CPU
instead of 0.12.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from orjson import Fragment
from sqlalchemy import JSON, Boolean, Column, LargeBinary

from fhirapp.db import Reader, db, quoted, writing
from fhirapp.definition import Definition
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import instant

# Keys, and bytes of rows, in memory at once.
_KEYS = 1_000
_BYTES = 4_194_304
# The bytes of a Binary come with its row up to this size; those of a larger one in pieces.
SMALL = 1_048_576
# Base64 makes four characters of three bytes: a piece ends where its base64 does.
_PIECE = 3 * 1_048_576
# Conditions of versions: those that searches find, all with deletions, deletions that stand.
CURRENT_VERSIONS, ALL_VERSIONS = "is_current", "TRUE"
DELETIONS = "deleted AND replaced_pk IS NULL"


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


@contextmanager
def snapshot_at(clock: Callable[[], datetime], patience: float) -> Iterator[tuple[Reader, str]]:
    """Open a snapshot and return its instant: later versions have a later time.

    It waits patience seconds for another writer. Raises OperationalError of sqlalchemy if that does
    not end.
    """
    # A writer takes its time with the write lock: while it is held here, nobody else has an earlier
    # time and will commit later.
    with writing(patience=patience):
        snapshot = Reader(db.engine)
        # The first read begins the snapshot.
        snapshot.generation()
        taken = instant(clock())
        # Instants have milliseconds.
        time.sleep(0.001)
    try:
        yield snapshot, taken
    finally:
        snapshot.close()


class SelectedVersions:
    """The versions of a type for which a condition holds, published at an instant or after.

    count is how many there are.
    """

    def __init__(
        self, snapshot: Reader, definition: Definition, condition: str, since: str | None
    ) -> None:
        self.definition = definition
        self._snapshot = snapshot
        self._where = condition if since is None else f"{condition} AND last_updated >= ?"
        self._values = () if since is None else (since,)
        # The columns that identify a version.
        self._order = ("id", "version_id") if condition == ALL_VERSIONS else ("id",)
        self.count = int(self._select("count(*)")[0][0])

    def _select(
        self, columns: str, more: str = "", values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        sql = f"SELECT {columns} FROM {self.definition.sql_table} WHERE {self._where}{more}"
        return self._snapshot.all(sql, (*self._values, *values))

    def patients(self) -> Iterator[str]:
        """Yield the ids of the patients whom the versions are about."""
        for (patient_id,) in self._select("DISTINCT patient_id", " AND patient_id IS NOT NULL"):
            yield patient_id

    def keys(self, size: str) -> Iterator[VersionKey]:
        """Yield the versions by id, newest first; size is the SQL of a row's size."""
        for _, versions in groupby(self._keys_in_order(size), lambda key: key.id):
            yield from reversed([*versions])

    def _keys_in_order(self, size: str) -> Iterator[VersionKey]:
        """Yield the versions in the order of their index."""
        columns = f"id, version_id, last_updated, deleted, pk, coalesce({size}, 0)"
        order = ", ".join(self._order)
        page = f" AND ({order}) > ({_marks(self._order)}) ORDER BY {order} LIMIT {_KEYS}"
        last: tuple[Any, ...] = ("", 0)[: len(self._order)]
        while rows := self._select(columns, page, last):
            yield from map(VersionKey._make, rows)
            last = rows[-1][: len(self._order)]

    def read(self, source: SourceJson) -> Iterator[list[tuple[VersionKey, Row]]]:
        """Yield the versions with their rows, as many at once as memory may hold."""
        columns = ", ".join(source.columns)
        for batch in _batches(self.keys(source.size)):
            rows: dict[int, Row] = {}
            if numbers := [key.pk for key in batch if not key.deleted]:
                selected = (
                    f"SELECT pk, {columns} FROM {self.definition.sql_table}"
                    f" WHERE pk IN ({_marks(numbers)})"
                )
                rows = {row[0]: row[1:] for row in self._snapshot.all(selected, numbers)}
            yield [(key, rows.get(key.pk)) for key in batch]


def _batches(wanted: Iterable[VersionKey]) -> Iterator[list[VersionKey]]:
    batch: list[VersionKey] = []
    size = 0
    for key in wanted:
        if batch and (len(batch) == _KEYS or size + key.size > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += key.size
    if batch:
        yield batch


def version_numbers(
    snapshot: Reader, definition: Definition, rows: Sequence[int]
) -> Mapping[int, int]:
    """Return the version number of each of these rows."""
    if not rows:
        return {}
    numbers = f"SELECT pk, version_id FROM {definition.sql_table} WHERE pk IN ({_marks(rows)})"
    return dict(snapshot.all(numbers, rows))


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


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
