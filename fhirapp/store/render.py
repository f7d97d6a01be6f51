"""Render a version once: its body, as it is served, and its index rows. decisions §5.

Versions are immutable, so what is made here is made again only by store/reindex.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, delete, select

from fhirapp.config import Settings
from fhirapp.db import insert_many
from fhirapp.fhir import json as fhir_json
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.search.index import IndexRow, ReferenceRow
from fhirapp.search.words import words_of
from fhirapp.store import attachments
from fhirapp.store.attachments import Document
from fhirapp.store.definition import Definition


class Rendering(NamedTuple):
    """The settings that a stored body depends on."""

    inline_max: int
    empty_content: str

    @classmethod
    def of(cls, settings: Settings) -> Rendering:
        return cls(settings.inline_max, settings.empty_content)


# By the row of the Binary.
Documents = Mapping[int, Document]


class IndexBatch:
    """The index rows of many versions of one type, written together."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        # By their kind, each as (values…, pk).
        self._rows: defaultdict[type[IndexRow], list[tuple[Any, ...]]] = defaultdict(list)
        self._words: list[tuple[int, str, str]] = []

    def add(self, row: Mapping[str, Any], resource: Mapping[str, Any], words: list[str]) -> None:
        """Take up a version: its row, the resource it is, the words of its documents."""
        definition, pk = self._definition, row["pk"]
        found = definition.params.rows(resource)
        if definition.attachments:
            for blob_id in attachments.local_ids(row, definition.attachments):
                found.add(ReferenceRow(attachments.CARRIES, blob_id, "Binary"))
        for one in found:
            self._rows[type(one)].append((*one, pk))
        if definition.has_words:
            self._words.append((pk, *words_of(resource, words)))

    def write(self, connection: Connection) -> None:
        """Insert everything."""
        tables = self._definition.tables
        for kind, rows in self._rows.items():
            insert_many(connection, tables.of(kind), (*kind._fields, "pk"), rows)
        if self._words:
            full_text().write(connection, words_table(tables), self._words)


def render(
    definition: Definition,
    row: dict[str, Any],
    rendering: Rendering,
    documents: Documents,
    index: IndexBatch,
) -> None:
    """Put the body into a row, and what it is found by into the index."""
    attached = {binary_id: documents[pk] for binary_id, pk in (row.get("attached") or {}).items()}
    source = row
    if attached:
        # What the source said of its attachments stays in the row; the body tells what is here.
        element = definition.attachments.partition(".")[0]
        source = {**row, element: deepcopy(row[element])}
        attachments.complete(source, definition.attachments, attached)
    blobs = {one.id: one.data for one in attached.values() if one.data is not None}
    resource = definition.schema.dump_resource(
        {**source, "blobs": blobs, "empty_content": rendering.empty_content}
    )
    if "body" in row and definition.stores_body:
        row["body"] = fhir_json.dumps_indented(resource)
    index.add(row, resource, [one.words for one in attached.values() if one.words])


def read_documents(
    connection: Connection, binary: Definition, inline_max: int, which: ColumnElement[bool]
) -> list[Document]:
    """Return versions of Binaries; the bytes of those that are small enough to be sent inline."""
    table = binary.table
    names = ("pk", "id", "size", "hash", "content_type", "words")
    small = case((table.c.size <= inline_max, table.c.data))
    found = select(*(table.c[name] for name in names), small.label("data")).where(which)
    return [Document._make(row) for row in connection.execute(found)]


def clear_index(connection: Connection, definition: Definition) -> None:
    """Forget what the type's versions are found by."""
    for table in definition.tables:
        connection.execute(delete(table))
    if definition.has_words:
        full_text().clear(connection, words_table(definition.tables))
