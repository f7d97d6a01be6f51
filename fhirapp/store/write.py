"""Write versions into a type's tables: rows, rendered bodies, index rows, views, Binaries.

A version is rendered once, when it is published. decisions §5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    bindparam,
    case,
    delete,
    func,
    select,
    update,
)

from fhirapp.config import Settings
from fhirapp.db import insert_many, insert_rows
from fhirapp.definition import Definition, View, views_of
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import instant_of, interval
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.search.index import IndexRow, ReferenceRow
from fhirapp.search.words import words_of
from fhirapp.store.prepare import CARRIES, Document, PreparedResource, complete, local_ids, prepare
from fhirapp.store.version import (
    INDEX,
    RENDERING,
    LatestVersion,
    Version,
    follow,
    get_state,
    raise_generation,
    row_of,
    set_state,
)

# Raise it with each change of how bodies, index rows or words are made: a start then makes them
# anew.
RULES = "6"


class Rendering(NamedTuple):
    """The settings that a stored body depends on."""

    inline_max: int
    empty_content: str

    @classmethod
    def of(cls, settings: Settings) -> Rendering:
        return cls(settings.inline_max, settings.empty_content)


def stored_rendering(connection: Connection) -> Rendering | None:
    """Return the settings that the stored bodies were made with, None in a new database."""
    state = get_state(connection, RENDERING)
    return None if state is None else Rendering(*fhir_json.loads(state))


def rendering_in_force(connection: Connection, configured: Rendering) -> Rendering:
    """Return the settings that bodies are made with, in a new database the configured ones.

    All bodies are made with the same ones; a start with other settings makes them all anew.
    """
    stored = stored_rendering(connection)
    if stored is None:
        remember_rendering(connection, configured)
    return stored or configured


def remember_rendering(connection: Connection, rendering: Rendering) -> None:
    """Record the settings and rules that all bodies and index rows are made with."""
    set_state(connection, RENDERING, fhir_json.text(list(rendering)))
    set_state(connection, INDEX, RULES)


def is_outdated(connection: Connection) -> bool:
    """Say whether there are index rows and words that an older release made by other rules."""
    return stored_rendering(connection) is not None and get_state(connection, INDEX) != RULES


# By the row of the Binary.
Documents = Mapping[int, Document]


class IndexBatch:
    """The index rows of many versions of one type, written together."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        # By their kind, each as (values…, pk).
        self.rows: defaultdict[type[IndexRow], list[tuple[Any, ...]]] = defaultdict(list)
        self.words: list[tuple[int, str, str]] = []

    def add(self, row: Mapping[str, Any], resource: Mapping[str, Any], words: list[str]) -> None:
        """Take up a version: its row, the resource it is, the words of its documents."""
        definition, pk = self._definition, row["pk"]
        index_rows = definition.params.rows(definition.schema.searched(resource))
        if definition.attachments:
            for blob_id in local_ids(row, definition.attachments):
                index_rows.add(ReferenceRow(CARRIES, blob_id, "Binary"))
        for index_row in index_rows:
            self.rows[type(index_row)].append((*index_row, pk))
        if definition.has_words:
            self.words.append((pk, *words_of(resource, words)))

    def write(self, connection: Connection) -> None:
        """Insert everything."""
        tables = self._definition.tables
        for kind, rows in self.rows.items():
            insert_many(connection, tables.of(kind), (*kind._fields, "pk"), rows)
        if self.words:
            full_text().write(connection, words_table(tables), self.words)


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
        complete(source, definition.attachments, attached)
    blobs = {
        document.id: document.data for document in attached.values() if document.data is not None
    }
    resource = definition.schema.dump(
        {**source, "blobs": blobs, "empty_content": rendering.empty_content}
    )
    if "body" in row and definition.stores_body:
        row["body"] = fhir_json.dumps_indented(resource)
    index.add(row, resource, [document.words for document in attached.values() if document.words])


def read_documents(
    connection: Connection, binary: Definition, inline_max: int, which: ColumnElement[bool]
) -> list[Document]:
    """Return versions of Binaries; the bytes of those that are small enough to be sent inline."""
    table = binary.table
    names = ("pk", "id", "size", "hash", "content_type", "words")
    small = case((table.c.size <= inline_max, table.c.data))
    versions = select(*(table.c[name] for name in names), small.label("data")).where(which)
    return [Document._make(row) for row in connection.execute(versions)]


def documents_of(
    connection: Connection,
    binary: Definition,
    rendering: Rendering,
    rows: Iterable[Mapping[str, Any]],
) -> Documents:
    """Return the versions of Binaries that stored rows have as attachments."""
    wanted = {pk for row in rows for pk in (row.get("attached") or {}).values()}
    which = binary.table.c.pk.in_(sorted(wanted))
    read = read_documents(connection, binary, rendering.inline_max, which) if wanted else []
    return {document.pk: document for document in read}


def index_of(
    connection: Connection,
    definition: Definition,
    binary: Definition,
    rendering: Rendering,
    rows: Sequence[dict[str, Any]],
) -> IndexBatch:
    """Render rows that are stored, none a deletion, anew; return what they are found by."""
    documents = documents_of(connection, binary, rendering, rows)
    index = IndexBatch(definition)
    for row in rows:
        render(definition, row, rendering, documents, index)
    return index


def clear_index(connection: Connection, definition: Definition) -> None:
    """Forget what the type's versions are found by."""
    for table in definition.tables:
        connection.execute(delete(table))
    if definition.has_words:
        full_text().clear(connection, words_table(definition.tables))


class Writer:
    """Writes versions within one transaction; binary is the type that takes the attachments.

    now is when, at the earliest: see begin.
    """

    def __init__(
        self, connection: Connection, *, now: str, rendering: Rendering, binary: Definition
    ) -> None:
        self.connection = connection
        self.binary = binary
        self._now = now
        self._rendering = rendering

    def standing(self, definition: Definition, ids: Iterable[str]) -> dict[str, LatestVersion]:
        """Return the newest version of each of these resources that has one."""
        table = definition.table
        names = ("id", *LatestVersion.__dataclass_fields__)
        newest = select(*(table.c[name] for name in names))
        rows = self.connection.execute(
            newest.where(table.c.id.in_(sorted(set(ids)))).order_by(table.c.version_id)
        )
        return {row.id: LatestVersion(*row[1:]) for row in rows}

    def after(self, before: LatestVersion | None) -> str:
        """Return when a version is published: now, but after the version that it follows."""
        if before is None or before.last_updated < self._now:
            return self._now
        return instant_of(interval(before.last_updated).high)

    def close_to_patients(self, definition: Definition, moved: Mapping[str, int]) -> None:
        """Take resources that now belong to another patient out of the former one's reach.

        moved has the version with which each came to its patient. The versions before it were
        filed wrongly: they belong to no compartment any more.
        """
        tables = [source.table for source in (definition, *views_of(definition))]
        for (resource_id, version_id), table in product(moved.items(), tables):
            self.connection.execute(
                update(table)
                .where(table.c.id == resource_id, table.c.version_id < version_id)
                .values(patient_id=None)
            )

    def last_row(self, definition: Definition) -> int:
        """Return the type's last row number."""
        return self._last(definition)[0]

    def begin(self, definition: Definition) -> int:
        """Return the type's last row number, and publish nothing before what the type has already.

        A client that asks for changes since then must get them.
        """
        pk, newest = self._last(definition)
        self._now = max(self._now, newest)
        return pk

    def _last(self, definition: Definition) -> tuple[int, str]:
        columns = definition.table.c
        # Each for itself: SQLite finds one maximum at an index's end, for two it reads all rows.
        last = [
            select(func.max(column)).scalar_subquery()
            for column in (columns.pk, columns.last_updated)
        ]
        pk, newest = self.connection.execute(select(*last)).one()
        return pk or 0, newest or ""

    def replace(self, table: Table, successors: Mapping[int, int]) -> None:
        """Note of versions, by row number, which row has come after them."""
        if successors:
            self.connection.execute(
                update(table)
                .where(table.c.pk == bindparam("old_pk"))
                .values(is_current=False, replaced_pk=bindparam("new_pk")),
                [{"old_pk": old, "new_pk": new} for old, new in successors.items()],
            )

    def write(self, definition: Definition, versions: Sequence[Version]) -> None:
        if not versions:
            return
        documents = self._attach(definition, versions)
        rows: list[dict[str, Any]] = []
        index = IndexBatch(definition)
        for version in versions:
            row = row_of(definition, version)
            rows.append(row)
            if not version.deleted:
                render(definition, row, self._rendering, documents, index)
        insert_rows(self.connection, definition.table, rows)
        index.write(self.connection)
        raise_generation(self.connection)
        for view in views_of(definition):
            self.write(view, self._seen_in(view, versions, rows))

    def _seen_in(
        self, definition: Definition, sources: Sequence[Version], rows: Sequence[Mapping[str, Any]]
    ) -> list[Version]:
        """Return the versions of a view that follow from versions of its source, and their rows.

        Each has its source's number and time. What is in the view no longer is a deletion there.
        """
        view = cast(View, definition.view)
        standing = self.standing(definition, [source.prepared.id for source in sources])
        pk = self.last_row(definition)
        versions: dict[int, Version] = {}
        replaced: dict[int, int] = {}
        for source, row in zip(sources, rows, strict=True):
            seen = None if source.deleted else view.make(fhir_json.loads(row["body"]))
            before = standing.get(source.prepared.id)
            if seen is None and (before is None or before.deleted):
                continue
            pk += 1
            patient_id = source.prepared.columns["patient_id"]
            prepared = PreparedResource(
                definition, source.prepared.id, {"patient_id": patient_id}, b""
            )
            if seen is not None:
                prepared = prepare(definition, seen)
            number, now = source.version_id, source.last_updated
            versions[pk] = Version(prepared, number, now, pk, seen is None)
            follow(before, pk, versions, replaced)
            standing[prepared.id] = LatestVersion(pk, number, None, now, patient_id, seen is None)
        self.replace(definition.table, replaced)
        return list(versions.values())

    def _attach(self, definition: Definition, versions: Sequence[Version]) -> Documents:
        """Note which Binaries, as they are now, versions point to; return these."""
        if not definition.attachments or definition.view:
            return {}
        meant: list[tuple[Version, list[str]]] = [
            (version, [*local_ids(version.prepared.columns, definition.attachments)])
            for version in versions
        ]
        binary_ids = {binary_id for _, ids in meant for binary_id in ids}
        if not binary_ids:
            return {}
        columns = self.binary.table.c
        query = select(columns.id, columns.version_id, columns.pk, columns.is_current)
        current: dict[str, int] = {}
        numbered: dict[tuple[str, int], int] = {}
        for row in self.connection.execute(query.where(columns.id.in_(sorted(binary_ids)))):
            numbered[row.id, row.version_id] = row.pk
            if row.is_current:
                current[row.id] = row.pk
        for version, ids in meant:
            made_with = version.made_with
            pks = {
                binary_id: current.get(binary_id)
                if made_with is None
                else numbered.get((binary_id, made_with.get(binary_id, 0)))
                for binary_id in ids
            }
            version.attached = {binary_id: pk for binary_id, pk in pks.items() if pk is not None}
        rows = {pk for version in versions for pk in (version.attached or {}).values()}
        documents = read_documents(
            self.connection, self.binary, self._rendering.inline_max, columns.pk.in_(sorted(rows))
        )
        return {document.pk: document for document in documents}
