"""Write versions into a type's tables: rows, indexes, views, and the Binaries that they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, cast

from sqlalchemy import Connection, Table, bindparam, func, select, update

from fhirapp.db import insert_rows
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import instant_of, interval
from fhirapp.store import attachments
from fhirapp.store.definition import Definition, View, views_of
from fhirapp.store.prepare import Prepared, prepare
from fhirapp.store.render import Documents, IndexBatch, Rendering, read_documents, render
from fhirapp.store.state import raise_generation
from fhirapp.store.version import Standing, Version, follow, row_of


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

    def standing(self, definition: Definition, ids: Iterable[str]) -> dict[str, Standing]:
        """Return the newest version of each of these resources that has one."""
        table = definition.table
        names = ("id", *Standing.__dataclass_fields__)
        newest = select(*(table.c[name] for name in names))
        rows = self.connection.execute(
            newest.where(table.c.id.in_(sorted(set(ids)))).order_by(table.c.version_id)
        )
        return {row.id: Standing(*row[1:]) for row in rows}

    def after(self, before: Standing | None) -> str:
        """Return when a version is published: now, but after the version that it follows."""
        if before is None or before.last_updated < self._now:
            return self._now
        return instant_of(interval(before.last_updated).high)

    def close_to_patients(self, definition: Definition, moved: Mapping[str, int]) -> None:
        """Take resources that now belong to another patient out of the former one's reach.

        moved has the version with which each came to its patient. The versions before it were
        filed wrongly: they belong to no compartment any more.
        """
        tables = [one.table for one in (definition, *views_of(definition))]
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

        Who asks for what changed since then must find it.
        """
        pk, newest = self._last(definition)
        self._now = max(self._now, newest)
        return pk

    def _last(self, definition: Definition) -> tuple[int, str]:
        columns = definition.table.c
        # Each for itself: SQLite finds one maximum at an index's end, for two it reads all rows.
        last = [
            select(func.max(one)).scalar_subquery() for one in (columns.pk, columns.last_updated)
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
            prepared = Prepared(definition, source.prepared.id, {"patient_id": patient_id}, b"")
            if seen is not None:
                prepared = prepare(definition, seen)
            number, now = source.version_id, source.last_updated
            versions[pk] = Version(prepared, number, now, pk, seen is None)
            follow(before, pk, versions, replaced)
            standing[prepared.id] = Standing(pk, number, None, now, patient_id, seen is None)
        self.replace(definition.table, replaced)
        return list(versions.values())

    def _attach(self, definition: Definition, versions: Sequence[Version]) -> Documents:
        """Note which Binaries, as they are now, versions point to; return these."""
        if not definition.attachments or definition.view:
            return {}
        meant: list[tuple[Version, list[str]]] = [
            (one, [*attachments.local_ids(one.prepared.columns, definition.attachments)])
            for one in versions
        ]
        wanted = {binary_id for _, ids in meant for binary_id in ids}
        if not wanted:
            return {}
        columns = self.binary.table.c
        asked = select(columns.id, columns.version_id, columns.pk, columns.is_current)
        current: dict[str, int] = {}
        numbered: dict[tuple[str, int], int] = {}
        for row in self.connection.execute(asked.where(columns.id.in_(sorted(wanted)))):
            numbered[row.id, row.version_id] = row.pk
            if row.is_current:
                current[row.id] = row.pk
        for version, ids in meant:
            made_with = version.made_with
            found = {
                one: current.get(one)
                if made_with is None
                else numbered.get((one, made_with.get(one, 0)))
                for one in ids
            }
            version.attached = {one: pk for one, pk in found.items() if pk is not None}
        rows = {pk for version in versions for pk in (version.attached or {}).values()}
        documents = read_documents(
            self.connection, self.binary, self._rendering.inline_max, columns.pk.in_(sorted(rows))
        )
        return {one.pk: one for one in documents}
