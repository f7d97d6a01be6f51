"""Publish versions: the one way to write, in one transaction.

Source: decisions §5: versions count 1, 2, 3…, never change, and the same content makes none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any, cast

from sqlalchemy import Connection, Table, bindparam, func, select, update

from fhirapp.db import insert_rows
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import instant_of, interval
from fhirapp.store import attachments
from fhirapp.store.definition import Definition, View, types, views_of
from fhirapp.store.prepare import Prepared, binary_of, prepare
from fhirapp.store.render import Documents, IndexBatch, Rendering, read_documents, render
from fhirapp.store.state import raise_generation


class Change(Enum):
    """What publishing a resource came to."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"


@dataclass
class _Version:
    """A version on its way into the tables."""

    prepared: Prepared
    version_id: int
    last_updated: str
    pk: int
    deleted: bool = False
    # The row of the next version, where there is one.
    replaced_pk: int | None = None
    # The rows of the Binaries that its attachments point to, by Binary id.
    attached: Mapping[str, int] | None = None

    @property
    def is_current(self) -> bool:
        return self.replaced_pk is None and not self.deleted


@dataclass
class _Standing:
    """What a resource's newest version is, before a batch."""

    pk: int
    version_id: int
    digest: bytes | None
    last_updated: str
    patient_id: str | None
    deleted: bool = False


class Publisher:
    """Writes versions within one transaction; binary is the type that takes the attachments."""

    def __init__(
        self, connection: Connection, *, now: str, rendering: Rendering, binary: Definition
    ) -> None:
        self._connection = connection
        self._now = now
        self._rendering = rendering
        self._binary = binary

    def publish(self, batch: Sequence[Prepared]) -> list[Change]:
        """Publish resources of one type; what comes of each, in order.

        A resource that stands twice in the batch becomes two versions, in order.
        """
        if not batch:
            return []
        definition = batch[0].definition
        self._publish_blobs(batch)
        standing = self._standing(definition, [prepared.id for prepared in batch])
        pk, self._now = self._last(definition)
        versions: dict[int, _Version] = {}
        replaced: dict[int, int] = {}
        moved: list[str] = []
        changes = []
        for prepared in batch:
            before = standing.get(prepared.id)
            if before and not before.deleted and before.digest == prepared.digest:
                changes.append(Change.SAME)
                continue
            pk += 1
            version_id = before.version_id + 1 if before else 1
            now = self._after(before)
            versions[pk] = _Version(prepared, version_id, now, pk)
            _follow(before, pk, versions, replaced)
            patient_id = prepared.columns["patient_id"]
            if before and before.patient_id not in (None, patient_id):
                moved.append(prepared.id)
            standing[prepared.id] = _Standing(pk, version_id, prepared.digest, now, patient_id)
            changes.append(Change.CHANGED if before else Change.NEW)
        self._replace(definition.table, replaced)
        self._write(definition, list(versions.values()))
        self._close_to_patients(definition, moved)
        if definition is self._binary:
            self._renew_carriers([one.prepared.id for one in versions.values()])
        return changes

    def restore(self, versions: Sequence[tuple[Prepared, int, str, bool]]) -> None:
        """Write versions of one type as they were: (resource, version id, last updated, deleted).

        In the order given, which is also the order of their row numbers. The table holds no other
        version of these resources.
        """
        if not versions:
            return
        definition = versions[0][0].definition
        self._publish_blobs(prepared for prepared, _, _, _ in versions)
        written = [
            _Version(prepared, version_id, last_updated, pk, deleted)
            for pk, (prepared, version_id, last_updated, deleted) in enumerate(
                versions, self._last(definition)[0] + 1
            )
        ]
        newest: dict[str, _Version] = {}
        for version in sorted(written, key=lambda one: one.version_id):
            if before := newest.get(version.prepared.id):
                before.replaced_pk = version.pk
            newest[version.prepared.id] = version
        self._write(definition, written)
        patients = {(one.prepared.id, one.prepared.columns["patient_id"]) for one in written}
        moved = Counter(resource_id for resource_id, _ in patients)
        self._close_to_patients(definition, [one for one, count in moved.items() if count > 1])

    def delete(self, definition: Definition, resource_id: str) -> bool:
        """Publish a deletion; False where there is nothing to delete."""
        before = self._standing(definition, [resource_id]).get(resource_id)
        if before is None or before.deleted:
            return False
        patient_id = self._connection.execute(
            select(definition.table.c.patient_id).where(definition.table.c.pk == before.pk)
        ).scalar_one()
        prepared = Prepared(definition, resource_id, {"patient_id": patient_id}, b"")
        pk, self._now = self._last(definition)
        pk += 1
        self._replace(definition.table, {before.pk: pk})
        now = self._after(before)
        self._write(definition, [_Version(prepared, before.version_id + 1, now, pk, deleted=True)])
        if definition is self._binary:
            self._renew_carriers([resource_id])
        return True

    def _renew_carriers(self, binary_ids: Sequence[str]) -> None:
        """Publish the resources anew whose attachments were stored, changed or deleted.

        Their content is the same; its size, hash, words and what is sent inline are not.
        """
        for definition in types().values():
            if not definition.attachments or definition.view:
                continue
            table, carried = definition.table, definition.tables.reference
            carriers = select(carried.c.pk).where(
                carried.c.param == attachments.CARRIES, carried.c.target_id.in_(binary_ids)
            )
            found = select(table).where(table.c.is_current, table.c.pk.in_(carriers))
            rows = [dict(row) for row in self._connection.execute(found).mappings()]
            last_pk, self._now = self._last(definition)
            versions = []
            for pk, row in enumerate(rows, last_pk + 1):
                names = (*definition.columns.values(), "extra", "patient_id")
                columns = {name: row[name] for name in names}
                prepared = Prepared(definition, row["id"], columns, row["digest"])
                before = _Standing(*(row[name] for name in _Standing.__dataclass_fields__))
                version_id, now = row["version_id"] + 1, self._after(before)
                versions.append(_Version(prepared, version_id, now, pk))
            pairs = zip(rows, versions, strict=True)
            self._replace(table, {row["pk"]: version.pk for row, version in pairs})
            self._write(definition, versions)

    def _standing(self, definition: Definition, ids: Iterable[str]) -> dict[str, _Standing]:
        """Return the newest version of each of these resources that has one."""
        table = definition.table
        names = ("id", "pk", "version_id", "digest", "last_updated", "patient_id", "deleted")
        newest = select(*(table.c[name] for name in names))
        rows = self._connection.execute(
            newest.where(table.c.id.in_(sorted(set(ids)))).order_by(table.c.version_id)
        )
        return {row.id: _Standing(*row[1:]) for row in rows}

    def _after(self, before: _Standing | None) -> str:
        """Return when a version is published: now, but after the version that it follows."""
        if before is None or before.last_updated < self._now:
            return self._now
        return instant_of(interval(before.last_updated).high)

    def _close_to_patients(self, definition: Definition, moved: Sequence[str]) -> None:
        """Take resources that now belong to another patient out of the former one's reach.

        Their earlier versions were filed wrongly: they belong to no compartment any more.
        """
        tables = [one.table for one in (definition, *views_of(definition))]
        for resource_id, table in product(moved, tables):
            self._connection.execute(
                update(table)
                .where(table.c.id == resource_id)
                .where(table.c.replaced_pk.is_not(None))
                .values(patient_id=None)
            )

    def _last(self, definition: Definition) -> tuple[int, str]:
        """Return the type's last row number, and the time of what is published now.

        That is never before what is there: who asks for what changed since then must find it.
        """
        columns = definition.table.c
        asked = select(func.max(columns.pk), func.max(columns.last_updated))
        pk, newest = self._connection.execute(asked).one()
        return pk or 0, max(self._now, newest or "")

    def _replace(self, table: Table, successors: Mapping[int, int]) -> None:
        """Note of versions, by row number, which row has come after them."""
        if successors:
            self._connection.execute(
                update(table)
                .where(table.c.pk == bindparam("old_pk"))
                .values(is_current=False, replaced_pk=bindparam("new_pk")),
                [{"old_pk": old, "new_pk": new} for old, new in successors.items()],
            )

    def _write(self, definition: Definition, versions: Sequence[_Version]) -> None:
        if not versions:
            return
        documents = self._attach(definition, versions)
        rows: list[dict[str, Any]] = []
        index = IndexBatch(definition)
        for version in versions:
            row = _row(definition, version)
            rows.append(row)
            if not version.deleted:
                render(definition, row, self._rendering, documents, index)
        insert_rows(self._connection, definition.table, rows)
        index.write(self._connection)
        raise_generation(self._connection)
        for view in views_of(definition):
            self._write(view, self._seen_in(view, versions, rows))

    def _seen_in(
        self, definition: Definition, sources: Sequence[_Version], rows: Sequence[Mapping[str, Any]]
    ) -> list[_Version]:
        """Return the versions of a view that follow from versions of its source, and their rows.

        Each has its source's number and time. What is in the view no longer is a deletion there.
        """
        view = cast(View, definition.view)
        standing = self._standing(definition, [source.prepared.id for source in sources])
        pk = self._last(definition)[0]
        versions: dict[int, _Version] = {}
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
            versions[pk] = _Version(prepared, number, now, pk, seen is None)
            _follow(before, pk, versions, replaced)
            standing[prepared.id] = _Standing(pk, number, None, now, patient_id, seen is None)
        self._replace(definition.table, replaced)
        return list(versions.values())

    def _publish_blobs(self, batch: Iterable[Prepared]) -> None:
        """Publish the bytes that came with resources as Binaries, before the resources."""
        fresh = {
            blob.id: binary_of(self._binary, blob, prepared.columns["patient_id"])
            for prepared in batch
            for blob in prepared.blobs
        }
        self.publish([*fresh.values()])

    def _attach(self, definition: Definition, versions: Sequence[_Version]) -> Documents:
        """Note which Binaries, as they are now, versions point to; return these."""
        if not definition.attachments or definition.view:
            return {}
        wanted = {
            binary_id
            for version in versions
            for binary_id in attachments.local_ids(version.prepared.columns, definition.attachments)
        }
        if not wanted:
            return {}
        columns = self._binary.table.c
        current = {
            one.id: one
            for one in read_documents(
                self._connection,
                self._binary,
                self._rendering.inline_max,
                columns.is_current & columns.id.in_(sorted(wanted)),
            )
        }
        for version in versions:
            ids = attachments.local_ids(version.prepared.columns, definition.attachments)
            version.attached = {one: current[one].pk for one in ids if one in current}
        return {one.pk: one for one in current.values()}


def _follow(
    before: _Standing | None, pk: int, versions: Mapping[int, _Version], replaced: dict[int, int]
) -> None:
    """Note that a row comes after the one before, which is in this batch or in the table."""
    if before and before.pk in versions:
        versions[before.pk].replaced_pk = pk
    elif before:
        replaced[before.pk] = pk


def _row(definition: Definition, version: _Version) -> dict[str, Any]:
    """Return a version's row, every column named, the body still to be made."""
    row = dict.fromkeys(definition.table.columns.keys())
    row.update(version.prepared.columns)
    row.update(
        pk=version.pk,
        id=version.prepared.id,
        version_id=version.version_id,
        last_updated=version.last_updated,
        is_current=version.is_current,
        deleted=version.deleted,
        replaced_pk=version.replaced_pk,
        digest=version.prepared.digest or None,
    )
    if version.attached:
        row["attached"] = version.attached
    return row
