"""The versions that an export writes, out of one snapshot: their places first, then their rows.

Rows are read a few at a time, by their size, so that memory does not grow with what is exported.

The JSON of a row as its source said it: what is stored, and nothing that is made to be served.
"""

from __future__ import annotations

import base64
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
from fhirapp.search.values import Condition
from fhirapp.store.version import generation

# So many places, and rows of so many bytes, are held at once.
_PLACES = 1_000
_BYTES = 4_194_304
# The bytes of a Binary come with its row up to this; those of a larger one are read in pieces.
SMALL = 1_048_576
# How long an import that writes is waited for: it lets others in between its transactions.
_PATIENCE_SECONDS = 60


class Place(NamedTuple):
    """A version, and where its row is; size is how much of it is read, about, in bytes."""

    id: str
    version_id: int
    last_updated: str
    deleted: bool
    pk: int
    size: int


# A version's columns as an export selects them; None for a deletion, which has nothing in it.
Row = tuple[Any, ...] | None


class Selection(NamedTuple):
    """Which versions of a type are written; the columns order together name one of them."""

    conditions: tuple[Condition, ...]
    order: tuple[str, ...]

    @property
    def where(self) -> Condition:
        values = tuple(value for one in self.conditions for value in one.values)
        return Condition(" AND ".join(one.sql for one in self.conditions) or "TRUE", values)


def current_versions(since: str | None) -> Selection:
    """Select what searches find, published at an instant or after."""
    return Selection((Condition("is_current"), *_since(since)), ("id",))


def all_versions(since: str | None) -> Selection:
    """Select every version and deletion, published at an instant or after."""
    return Selection(_since(since), ("id", "version_id"))


def deletions(since: str) -> Selection:
    """Select what was deleted at an instant or after, and is not there again."""
    return Selection((Condition("deleted AND replaced_pk IS NULL"), *_since(since)), ("id",))


def _since(since: str | None) -> tuple[Condition, ...]:
    return () if since is None else (Condition("last_updated >= ?", (since,)),)


@contextmanager
def snapshot_at(clock: Callable[[], datetime]) -> Iterator[tuple[Reader, str]]:
    """Open a snapshot and tell its instant: a version that is not in it is dated then or later.

    Raises sqlalchemy's OperationalError where another goes on writing.
    """
    # Whoever writes takes the time with the write lock: while we have it, nobody has one already
    # that is earlier, and will commit it later.
    with writing(patience=_PATIENCE_SECONDS):
        taken = instant(clock())
        snapshot = Reader(db.engine)
        # What is read first begins the snapshot.
        generation(snapshot)
    try:
        yield snapshot, taken
    finally:
        snapshot.close()


def count(snapshot: Reader, definition: Definition, selection: Selection) -> int:
    """Return how many versions are selected."""
    where = selection.where
    asked = f"SELECT count(*) FROM {definition.sql_table} WHERE {where.sql}"
    return int(snapshot.all(asked, where.values)[0][0])


def places(
    snapshot: Reader, definition: Definition, selection: Selection, size: str
) -> Iterator[Place]:
    """Yield the versions selected, by id, each resource's newest first; size is SQL."""
    walked = _walk(snapshot, definition, selection, size)
    for _, versions in groupby(walked, key=lambda place: place.id):
        yield from reversed([*versions])


def _walk(
    snapshot: Reader, definition: Definition, selection: Selection, size: str
) -> Iterator[Place]:
    """Yield the versions selected as their index has them."""
    where, order = selection.where, ", ".join(selection.order)
    marks = ", ".join("?" * len(selection.order))
    asked = (
        f"SELECT id, version_id, last_updated, deleted, pk, coalesce({size}, 0)"
        f" FROM {definition.sql_table} WHERE {where.sql} AND ({order}) > ({marks})"
        f" ORDER BY {order} LIMIT {_PLACES}"
    )
    last: tuple[Any, ...] = ("", 0)[: len(selection.order)]
    while found := snapshot.all(asked, (*where.values, *last)):
        yield from map(Place._make, found)
        last = found[-1][: len(selection.order)]


def read(
    snapshot: Reader, definition: Definition, columns: Sequence[str], wanted: Iterable[Place]
) -> Iterator[list[tuple[Place, Row]]]:
    """Yield versions with their rows, in the order given, as many at once as memory may hold."""
    for batch in _batches(wanted):
        rows: dict[int, Row] = {}
        numbers = [place.pk for place in batch if not place.deleted]
        if numbers:
            marks = ", ".join("?" * len(numbers))
            table = definition.sql_table
            asked = f"SELECT pk, {', '.join(columns)} FROM {table} WHERE pk IN ({marks})"
            rows = {row[0]: row[1:] for row in snapshot.all(asked, numbers)}
        yield [(place, rows.get(place.pk)) for place in batch]


def _batches(wanted: Iterable[Place]) -> Iterator[list[Place]]:
    batch: list[Place] = []
    size = 0
    for place in wanted:
        if batch and (len(batch) == _PLACES or size + place.size > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += place.size
    if batch:
        yield batch


# Of three bytes each four characters are made: a piece ends where its base64 does.
_PIECE = 3 * 1_048_576


class SourceJson:
    """Writes the rows of one type. columns and size are SQL: what a row is to have, and its size.

    The first three columns are meta, extra, and which Binaries the version was made with.
    """

    def __init__(self, definition: Definition) -> None:
        table = definition.table
        self._definition = definition
        named = {
            name: table.c[definition.columns[name]]
            for name in definition.schema.elements
            if name in definition.columns and name not in ("id", "meta")
        }
        self._order = {name: place for place, name in enumerate(definition.schema.elements)}
        # The column of a Binary's bytes, which are not in `columns` where they are many.
        self._bytes = next((one for one in named.items() if _is_bytes(one[1])), None)
        if self._bytes:
            del named[self._bytes[0]]
        self._elements = [(name, _conversion(column)) for name, column in named.items()]
        self.columns = [
            _as_text(table.c.meta),
            _as_text(table.c.extra),
            _as_text(table.c.attached) if "attached" in table.c else "NULL",
            *map(_as_text, named.values()),
        ]
        self.size = "length(body)"
        if self._bytes:
            stored = quoted(self._bytes[1].name)
            small = f"CASE WHEN length({stored}) <= {SMALL} THEN"
            self.size = f"{small} length({stored}) END"
            self.columns += [f"{small} {stored} END", f"length({stored})"]

    def pieces(self, snapshot: Reader, place: Place, row: tuple[Any, ...]) -> Iterator[bytes]:
        """Yield the JSON of a row: whole, or with the bytes of a large document in pieces."""
        text = fhir_json.dumps(self._content(place, row))
        if self._bytes is None:
            yield text
            return
        small, length = row[-2:]
        if not length:
            # No bytes, no member: FHIR JSON has no empty strings.
            yield text
            return
        name, column = self._bytes
        # They come last in the schema.
        yield b'%s,"%s":"' % (text[:-1], name.encode())
        if small is not None:
            yield base64.b64encode(small)
        else:
            table = self._definition.table.name
            for start in range(0, length, _PIECE):
                piece = snapshot.slice(table, column.name, place.pk, start, _PIECE)
                yield base64.b64encode(piece)
        yield b'"}'

    def _content(self, place: Place, row: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return what a row holds by FHIR's names, in the order of the specification."""
        meta, extra = row[:2]
        ours = f'{{"versionId":"{place.version_id}","lastUpdated":"{place.last_updated}"'
        content: dict[str, Any] = {
            "resourceType": self._definition.name,
            "id": place.id,
            "meta": Fragment(f"{ours},{meta[1:]}" if meta else ours + "}"),
        }
        for (name, convert), value in zip(self._elements, row[3:], strict=False):
            if value is not None:
                content[name] = convert(value)
        if extra is None:
            return content
        content.update(fhir_json.loads(extra))
        ranked = sorted(content, key=lambda name: (self._order.get(name.lstrip("_"), -1), name))
        return {name: content[name] for name in ranked}


def _as_text(column: Column[Any]) -> str:
    """Return a column as SQL selects it.

    JSON as its text: a driver that reads JSON itself would lose digits of decimals.
    """
    name = quoted(column.name)
    return f"CAST({name} AS TEXT)" if isinstance(column.type, JSON) else name


def _is_bytes(column: Column[Any]) -> bool:
    return isinstance(column.type, LargeBinary)


def _conversion(column: Column[Any]) -> Callable[[Any], Any]:
    """Return what makes of a column's value what JSON holds."""
    if isinstance(column.type, JSON):
        return Fragment
    if isinstance(column.type, Boolean):
        # SQLite has 0 and 1.
        return bool
    return _plain


def _plain(value: Any) -> Any:
    return value
