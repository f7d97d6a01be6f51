"""The JSON of a row as its source said it: what is stored, and nothing that is made to be served.

So without a generated narrative, without what stands for what is not said (decisions 2.11, 2.12,
2.19), without size, hash, contentType and data that follow from a Binary; with every profile that
the source claims. Beside it stand this server's versionId and lastUpdated, which no import takes
for content. A resource that was taken apart here is put together to the same digest.

The columns' JSON is written as it lies there: no decimal loses a digit, and nothing is parsed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orjson import Fragment
from sqlalchemy import JSON, Boolean, Column, LargeBinary

from fhirapp.db import Reader, quoted
from fhirapp.exchange.exporting.rows import SMALL, Place
from fhirapp.fhir import json as fhir_json
from fhirapp.store.definition import Definition

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
