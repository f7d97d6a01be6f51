"""Write versions into a type's tables: rows, rendered bodies, index rows, views, Binaries.

A version is rendered once, when it is published. decisions §5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple, cast

from sqlalchemy import (
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
from fhirapp.definition import Definition, View, types, views_of
from fhirapp.fhir import json as fhir_json
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.search.index import IndexRow, ReferenceRow
from fhirapp.search.words import words_of
from fhirapp.store.prepare import CARRIES, Document, complete, deletion, local_ids, prepare
from fhirapp.store.version import (
    INDEX,
    RENDERING,
    StoredVersion,
    Version,
    get_state,
    raise_generation,
    row_of,
    set_state,
    stored_versions,
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


def documents_of(
    connection: Connection, rendering: Rendering, rows: Iterable[Mapping[str, Any]]
) -> Documents:
    """Return the versions of Binaries that rows have as attachments.

    They have the bytes of those that are small enough to be sent inline.
    """
    wanted = {pk for row in rows for pk in (row.get("attached") or {}).values()}
    if not wanted:
        return {}
    table = types()["Binary"].table
    names = ("pk", "id", "size", "hash", "content_type", "words")
    small = case((table.c.size <= rendering.inline_max, table.c.data))
    versions = select(*(table.c[name] for name in names), small.label("data"))
    found = connection.execute(versions.where(table.c.pk.in_(sorted(wanted))))
    return {row.pk: Document._make(row) for row in found}


def index_of(
    connection: Connection,
    definition: Definition,
    rendering: Rendering,
    rows: Sequence[dict[str, Any]],
) -> IndexBatch:
    """Render rows, none a deletion; return what they are found by."""
    documents = documents_of(connection, rendering, rows)
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
    """Writes versions within one transaction."""

    def __init__(self, connection: Connection, rendering: Rendering) -> None:
        self._connection = connection
        self._rendering = rendering

    def latest(self, definition: Definition, ids: Iterable[str]) -> dict[str, StoredVersion]:
        """Return the newest version of each of these resources that has one, by id."""
        stored = stored_versions(self._connection, definition, ids)
        return {resource_id: versions[-1] for resource_id, versions in stored.items()}

    def last_updated(self, definition: Definition) -> str:
        """Return when the type was last changed, "" where it has no version."""
        newest = select(func.max(definition.table.c.last_updated))
        return self._connection.execute(newest).scalar() or ""

    def write(
        self,
        definition: Definition,
        versions: Sequence[Version],
        latest: Mapping[str, StoredVersion],
    ) -> None:
        """Write numbered versions of one type, with their views, in the order of their rows.

        latest has the version that was the newest of each resource before, by id.
        """
        if not versions:
            return
        last_pk = self._connection.execute(select(func.max(definition.table.c.pk))).scalar() or 0
        for pk, version in enumerate(versions, last_pk + 1):
            version.pk = pk
        moved = self._link(definition.table, versions, latest)
        self._attach(definition, versions)
        rows = [row_of(definition, version) for version in versions]
        live = [row for row in rows if not row["deleted"]]
        index = index_of(self._connection, definition, self._rendering, live)
        insert_rows(self._connection, definition.table, rows)
        index.write(self._connection)
        raise_generation(self._connection)
        for view in views_of(definition):
            self._write_view(view, versions, rows)
        self._close_to_patients(definition, moved)

    def _link(
        self, table: Table, versions: Iterable[Version], latest: Mapping[str, StoredVersion]
    ) -> dict[str, int]:
        """Note which version replaces which.

        Return the resources that now belong to another patient, by id, each with the number of the
        version with which it came to that one.
        """
        replaced: dict[int, int] = {}
        moved: dict[str, int] = {}
        newest: dict[str, StoredVersion | Version] = {**latest}
        for version in sorted(versions, key=attrgetter("version_id")):
            resource_id = version.prepared.id
            before = newest.get(resource_id)
            newest[resource_id] = version
            if before is None:
                continue
            if isinstance(before, Version):
                before.replaced_pk = version.pk
            else:
                replaced[before.pk] = version.pk
            if before.patient_id not in (None, version.patient_id):
                moved[resource_id] = version.version_id
        if replaced:
            self._connection.execute(
                update(table)
                .where(table.c.pk == bindparam("old_pk"))
                .values(is_current=False, replaced_pk=bindparam("new_pk")),
                [{"old_pk": old, "new_pk": new} for old, new in replaced.items()],
            )
        return moved

    def _close_to_patients(self, definition: Definition, moved: Mapping[str, int]) -> None:
        """Take resources that now belong to another patient out of the former one's reach.

        The versions before the one that moved them were filed wrongly: they belong to no
        compartment any more.
        """
        tables = [source.table for source in (definition, *views_of(definition))]
        for (resource_id, version_id), table in product(moved.items(), tables):
            self._connection.execute(
                update(table)
                .where(table.c.id == resource_id, table.c.version_id < version_id)
                .values(patient_id=None)
            )

    def _write_view(
        self, definition: Definition, sources: Sequence[Version], rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write the versions of a view that follow from versions of its source, and their rows.

        Each has its source's number and time. What is in the view no longer is a deletion there.
        """
        view = cast(View, definition.view)
        latest = self.latest(definition, [source.prepared.id for source in sources])
        present = {resource_id for resource_id, before in latest.items() if not before.deleted}
        versions = []
        for source, row in zip(sources, rows, strict=True):
            resource_id = source.prepared.id
            seen = None if source.deleted else view.make(fhir_json.loads(row["body"]))
            if seen is not None:
                prepared = prepare(definition, seen)
                present.add(resource_id)
            elif resource_id in present:
                prepared = deletion(definition, resource_id, source.patient_id)
                present.remove(resource_id)
            else:
                continue
            versions.append(Version(prepared, source.version_id, source.last_updated))
        self.write(definition, versions, latest)

    def _attach(self, definition: Definition, versions: Iterable[Version]) -> None:
        """Note the rows of the Binaries that versions point to."""
        if not definition.attachments or definition.view:
            return
        meant = [
            (version, [*local_ids(version.prepared.columns, definition.attachments)])
            for version in versions
        ]
        binary_ids = {binary_id for _, ids in meant for binary_id in ids}
        if not binary_ids:
            return
        columns = types()["Binary"].table.c
        query = select(columns.id, columns.version_id, columns.pk, columns.is_current)
        # By id and number; of the current version also without a number.
        pks: dict[tuple[str, int | None], int] = {}
        for row in self._connection.execute(query.where(columns.id.in_(sorted(binary_ids)))):
            pks[row.id, row.version_id] = row.pk
            if row.is_current:
                pks[row.id, None] = row.pk
        for version, ids in meant:
            numbers = version.made_with
            keys = [(name, None if numbers is None else numbers.get(name, 0)) for name in ids]
            version.attached = {key[0]: pks[key] for key in keys if key in pks}
