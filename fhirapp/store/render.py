"""Render a version once: its body, as it is served, and its index rows. decisions §5.

Versions are immutable, so what is made here is made again only by store/reindex.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, select

from fhirapp.config import Settings
from fhirapp.db import insert_many
from fhirapp.fhir import json as fhir_json
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.search.index import IndexRow, ReferenceRow
from fhirapp.search.words import words_of
from fhirapp.store import attachments
from fhirapp.store.definition import Definition


class Rendering(NamedTuple):
    """The settings that a stored body depends on."""

    inline_max: int
    empty_content: str

    @classmethod
    def of(cls, settings: Settings) -> Rendering:
        return cls(settings.inline_max, settings.empty_content)


@dataclass
class Documents:
    """What versions need of their attached documents, by hash: small bytes, and words."""

    inline: dict[str, bytes] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


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
    resource = definition.schema.dump_resource(
        {**row, "blobs": documents.inline, "empty_content": rendering.empty_content}
    )
    if "body" in row and definition.stores_body:
        row["body"] = fhir_json.dumps_indented(resource)
    words = []
    if definition.attachments:
        hashes = dict.fromkeys(attachments.local_hashes(row, definition.attachments))
        words = [documents.words[one] for one in hashes if one in documents.words]
    index.add(row, resource, words)


def read_documents(
    connection: Connection,
    binary: Definition,
    definition: Definition,
    columns: Iterable[Mapping[str, Any]],
    inline_max: int,
    known: Iterable[str] = (),
    *,
    past: bool = False,
) -> Documents:
    """Complete the attachments that point to stored Binaries; return what is needed of these.

    With past the columns are those of versions that were published before: they stay as they are,
    and earlier versions of the Binaries count too.
    """
    path = definition.attachments
    wanted = {blob_id for one in columns for blob_id in attachments.local_ids(one, path)} - set(
        known
    )
    documents = Documents()
    if not wanted:
        return documents
    table = binary.table
    facts = {}
    names = ("id", "size", "hash", "content_type", "pk", "words")
    found = select(*(table.c[name] for name in names))
    counts = ~table.c.deleted if past else table.c.is_current
    for row in connection.execute(found.where(table.c.id.in_(sorted(wanted)), counts)):
        facts[row.id] = (row.size, row.hash, row.content_type)
        if row.words:
            documents.words[row.hash] = row.words
        if row.size <= inline_max:
            data = select(table.c.data).where(table.c.pk == row.pk)
            documents.inline[row.hash] = connection.execute(data).scalar_one()
    if not past:
        for one in columns:
            attachments.complete(one, path, facts)
    return documents


def clear_index(connection: Connection, definition: Definition) -> None:
    """Forget what the type's versions are found by."""
    for table in definition.tables:
        connection.execute(delete(table))
    if definition.has_words:
        full_text().clear(connection, words_table(definition.tables))
