"""Publish versions: the one way to write, in one transaction.

Source: decisions §5: versions count 1, 2, 3…, never change, and the same content makes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import Connection, Table, bindparam, func, select, update

from fhirapp.db import insert_rows
from fhirapp.fhir.temporal import instant_of, interval
from fhirapp.store.definition import Definition
from fhirapp.store.prepare import Prepared, binary_of
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
        standing = self._standing(definition, [prepared.id for prepared in batch])
        pk = self._last_pk(definition)
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
            if before and before.pk in versions:
                versions[before.pk].replaced_pk = pk
            elif before:
                replaced[before.pk] = pk
            patient_id = prepared.columns["patient_id"]
            if before and before.patient_id not in (None, patient_id):
                moved.append(prepared.id)
            standing[prepared.id] = _Standing(pk, version_id, prepared.digest, now, patient_id)
            changes.append(Change.CHANGED if before else Change.NEW)
        self._replace(definition.table, replaced)
        self._write(definition, list(versions.values()))
        self._close_to_patients(definition, moved)
        return changes

    def restore(self, versions: Sequence[tuple[Prepared, int, str, bool]]) -> None:
        """Write versions of one type as they were: (resource, version id, last updated, deleted).

        In the order given, which is also the order of their row numbers. The table holds no other
        version of these resources.
        """
        if not versions:
            return
        definition = versions[0][0].definition
        written = [
            _Version(prepared, version_id, last_updated, pk, deleted)
            for pk, (prepared, version_id, last_updated, deleted) in enumerate(
                versions, self._last_pk(definition) + 1
            )
        ]
        newest: dict[str, _Version] = {}
        for version in sorted(written, key=lambda one: one.version_id):
            if before := newest.get(version.prepared.id):
                before.replaced_pk = version.pk
            newest[version.prepared.id] = version
        self._write(definition, written)

    def delete(self, definition: Definition, resource_id: str) -> bool:
        """Publish a deletion; False where there is nothing to delete."""
        before = self._standing(definition, [resource_id]).get(resource_id)
        if before is None or before.deleted:
            return False
        patient_id = self._connection.execute(
            select(definition.table.c.patient_id).where(definition.table.c.pk == before.pk)
        ).scalar_one()
        prepared = Prepared(definition, resource_id, {"patient_id": patient_id}, b"")
        pk = self._last_pk(definition) + 1
        self._replace(definition.table, {before.pk: pk})
        now = self._after(before)
        self._write(definition, [_Version(prepared, before.version_id + 1, now, pk, deleted=True)])
        return True

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
        table = definition.table
        for resource_id in moved:
            self._connection.execute(
                update(table)
                .where(table.c.id == resource_id)
                .where(~table.c.is_current)
                .values(patient_id=None)
            )

    def _last_pk(self, definition: Definition) -> int:
        return self._connection.execute(select(func.max(definition.table.c.pk))).scalar() or 0

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
        documents = self._write_blobs(definition, versions)
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

    def _write_blobs(self, definition: Definition, versions: Sequence[_Version]) -> Documents:
        """Write new attachments as Binaries; return what versions need of all of theirs."""
        if not definition.attachments:
            return Documents()
        fresh = {
            blob.id: (blob, version.prepared.columns["patient_id"])
            for version in versions
            for blob in version.prepared.blobs
        }
        known = set(self._standing(self._binary, fresh)) if fresh else set()
        self._write(
            self._binary,
            [
                _Version(binary_of(self._binary, blob, patient_id), 1, self._now, pk)
                for pk, (blob, patient_id) in enumerate(
                    (found for blob_id, found in fresh.items() if blob_id not in known),
                    self._last_pk(self._binary) + 1,
                )
            ],
        )
        small = self._rendering.inline_max
        columns = [version.prepared.columns for version in versions if not version.deleted]
        # Of a blob that was known before, the words were not read again.
        documents = read_documents(
            self._connection,
            self._binary,
            definition,
            columns,
            small,
            known=fresh.keys() - known,
        )
        for blob_id, (blob, _) in fresh.items():
            if blob.words:
                documents.words[blob_id] = blob.words
            if len(blob.data) <= small:
                documents.inline[blob_id] = blob.data
        return documents


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
    return row
