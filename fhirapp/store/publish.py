"""Publish versions: the one way to write, in one transaction.

Source: decisions §5: versions count 1, 2, 3…, never change, and the same content makes none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, Table, select, update

from fhirapp.definition import Definition, types
from fhirapp.search.reference import Reference
from fhirapp.store import prepare
from fhirapp.store.prepare import PreparedResource, binary_of
from fhirapp.store.version import Change, LatestVersion, RestoredVersion, Version, follow
from fhirapp.store.write import Rendering, Writer

# What may bring the bytes of attachments.
_TAKEN = (Change.NEW, Change.CHANGED, Change.SAME)


class ImportedRows:
    """The rows that one import wrote, by type: those of others may stand between them."""

    def __init__(self) -> None:
        # The first and the last number of each run of rows, in their order.
        self._runs: dict[str, list[tuple[int, int]]] = {}

    def add(self, type_name: str, rows: Collection[int]) -> None:
        """Note rows that follow each other, after all that were noted before."""
        if not rows:
            return
        runs = self._runs.setdefault(type_name, [])
        first = min(rows)
        if runs and runs[-1][1] + 1 == first:
            first = runs.pop()[0]
        runs.append((first, max(rows)))

    def has(self, type_name: str, row: int) -> bool:
        """Say whether the import wrote this row."""
        runs = self._runs.get(type_name, [])
        at = bisect_right(runs, row, key=lambda run: run[0])
        return at > 0 and row <= runs[at - 1][1]


class Publisher:
    """Writes versions within one transaction; binary is the type that takes the attachments.

    source_id, if given, is stored with what is published; else a resource keeps its own.
    imported_rows are the rows of the import so far; duplicates lists what it has more than once, as
    Type/id. With isolate_source other sources' ids may mean something else; shared then lists what
    two sources have alike.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        now: str,
        rendering: Rendering,
        binary: Definition,
        source_id: int | None = None,
        imported_rows: ImportedRows | None = None,
        unknown_patients: set[str] | None = None,
        isolate_source: bool = False,
    ) -> None:
        self.duplicates: list[str] = []
        self.shared: list[str] = []
        # Ids of patients that mean another patient here.
        self._unknown_ids = set() if unknown_patients is None else unknown_patients
        self.connection, self.rendering = connection, rendering
        self._writer = Writer(connection, now=now, rendering=rendering, binary=binary)
        self.now = now
        self._source_id = source_id
        self._imported_rows = ImportedRows() if imported_rows is None else imported_rows
        self._isolate_source = isolate_source and source_id is not None

    def publish(
        self, batch: Sequence[PreparedResource], *, hold_older: bool = False
    ) -> list[Change]:
        """Publish resources of one type; what comes of each, in order.

        A resource that stands twice in the batch becomes two versions, in order. With hold_older
        one is left out, each time it stands there, where an earlier version had its content: the
        source may still hold what came after.
        """
        if not batch:
            return []
        definition = batch[0].definition
        standing = self._writer.standing(definition, [prepared.id for prepared in batch])
        self._note_unknown_patients(batch)
        claimed = self.claimed(definition, {prepared.id for prepared in batch} - standing.keys())
        if any(prepared.blobs for prepared in batch):
            self._publish_blobs(
                prepared
                for prepared in batch
                if self._change(prepared, standing.get(prepared.id), claimed) in _TAKEN
            )
            # What carries them may have a new version by that.
            standing = self._writer.standing(definition, [prepared.id for prepared in batch])
        older = self._older_ids(definition, batch, standing) if hold_older else frozenset()
        pk = self._writer.begin(definition)
        versions: dict[int, Version] = {}
        replaced: dict[int, int] = {}
        moved: dict[str, int] = {}
        adopted: list[int] = []
        changes = []
        for prepared in batch:
            before = standing.get(prepared.id)
            change = Change.OLDER
            if prepared.id not in older:
                change = self._change(prepared, before, claimed)
            changes.append(change)
            self._note(prepared, before, change)
            if change is Change.SAME and self._source_id and before and before.source_id is None:
                adopted.append(before.pk)
            if change not in (Change.NEW, Change.CHANGED):
                continue
            if before and self._imported_rows.has(definition.name, before.pk):
                self.duplicates.append(f"{definition.name}/{prepared.id}")
            pk += 1
            self._imported_rows.add(definition.name, [pk])
            version_id = before.version_id + 1 if before else 1
            now = self._writer.after(before)
            source_id = self._source_id or (before.source_id if before else None)
            versions[pk] = Version(prepared, version_id, now, pk, source_id=source_id)
            follow(before, pk, versions, replaced)
            patient_id = prepared.columns["patient_id"]
            if before and before.patient_id not in (None, patient_id):
                moved[prepared.id] = version_id
            standing[prepared.id] = LatestVersion(
                pk, version_id, prepared.digest, now, patient_id, source_id=source_id
            )
        self._writer.replace(definition.table, replaced)
        self._adopt(definition.table, adopted)
        self._writer.write(definition, list(versions.values()))
        self._writer.close_to_patients(definition, moved)
        if definition is self._writer.binary:
            self._renew_carriers([version.prepared.id for version in versions.values()])
        return changes

    def restore(self, versions: Sequence[RestoredVersion]) -> None:
        """Write versions of one type as they were, in the order given: that of their row numbers.

        Where a resource has versions already, these follow them.
        """
        if not versions:
            return
        definition = versions[0].prepared.definition
        self._publish_blobs(version.prepared for version in versions)
        written = [
            Version(
                restored.prepared,
                restored.version_id,
                restored.last_updated,
                pk,
                restored.deleted,
                source_id=self._source_id,
                made_with=restored.made_with,
            )
            for pk, restored in enumerate(versions, self._writer.last_row(definition) + 1)
        ]
        self._imported_rows.add(definition.name, [version.pk for version in written])
        standing = self._writer.standing(definition, {version.prepared.id for version in versions})
        first = {version.prepared.id: version.pk for version in reversed(written)}
        self._writer.replace(
            definition.table, {before.pk: first[name] for name, before in standing.items()}
        )
        newest: dict[str, Version] = {}
        for version in sorted(written, key=lambda version: version.version_id):
            if before := newest.get(version.prepared.id):
                before.replaced_pk = version.pk
            newest[version.prepared.id] = version
        self._writer.write(definition, written)
        moved: dict[str, int] = {}
        patients = {name: before.patient_id for name, before in standing.items()}
        for version in sorted(written, key=lambda version: version.version_id):
            name, patient_id = version.prepared.id, version.prepared.columns["patient_id"]
            if patients.get(name) not in (None, patient_id):
                moved[name] = version.version_id
            patients[name] = patient_id
        self._writer.close_to_patients(definition, moved)

    def delete(
        self, definition: Definition, resource_id: str, *, hold_older: bool = False
    ) -> Change:
        """Publish a deletion; SAME where there is nothing to delete, FOREIGN where it may not.

        With hold_older OLDER where it was deleted once: what the source says next may be here.
        """
        before = self._writer.standing(definition, [resource_id]).get(resource_id)
        if before is None or before.deleted:
            return Change.SAME
        if self.is_foreign(before.source_id):
            return Change.FOREIGN
        if hold_older and None in self.digests(definition, [resource_id])[resource_id]:
            return Change.OLDER
        patient_id = self._writer.connection.execute(
            select(definition.table.c.patient_id).where(definition.table.c.pk == before.pk)
        ).scalar_one()
        prepared = PreparedResource(definition, resource_id, {"patient_id": patient_id}, b"")
        pk = self._writer.begin(definition)
        pk += 1
        self._writer.replace(definition.table, {before.pk: pk})
        now = self._writer.after(before)
        version_id, source_id = before.version_id + 1, before.source_id
        deletion = Version(prepared, version_id, now, pk, deleted=True, source_id=source_id)
        self._writer.write(definition, [deletion])
        if definition is self._writer.binary:
            self._renew_carriers([resource_id])
        return Change.DELETED

    def _renew_carriers(self, binary_ids: Sequence[str]) -> None:
        """Publish the resources anew whose attachments were stored, changed or deleted.

        Their content is the same; its size, hash, words and what is sent inline are not.
        """
        for definition in types().values():
            if not definition.attachments or definition.view:
                continue
            table, carried = definition.table, definition.tables.reference
            carriers = select(carried.c.pk).where(
                carried.c.param == prepare.CARRIES, carried.c.target_id.in_(binary_ids)
            )
            current = select(table).where(table.c.is_current, table.c.pk.in_(carriers))
            rows = [dict(row) for row in self._writer.connection.execute(current).mappings()]
            last_pk = self._writer.begin(definition)
            versions = []
            for pk, row in enumerate(rows, last_pk + 1):
                names = (*definition.columns.values(), "extra", "patient_id", "source_id")
                columns = {name: row[name] for name in names}
                prepared = PreparedResource(definition, row["id"], columns, row["digest"])
                before = LatestVersion(*(row[name] for name in LatestVersion.__dataclass_fields__))
                version_id, now = row["version_id"] + 1, self._writer.after(before)
                versions.append(Version(prepared, version_id, now, pk))
            pairs = zip(rows, versions, strict=True)
            self._writer.replace(table, {row["pk"]: version.pk for row, version in pairs})
            self._writer.write(definition, versions)

    def _change(
        self, prepared: PreparedResource, before: LatestVersion | None, claimed: Collection[str]
    ) -> Change:
        """Return what comes of a resource; before is its newest version.

        claimed has the ids that records of other sources refer to.
        """
        if before and not before.deleted and before.digest == prepared.digest:
            return Change.SAME
        if prepared.columns["patient_id"] in self._unknown_ids:
            return Change.FOREIGN
        if before is None:
            return Change.CLAIMED if prepared.id in claimed else Change.NEW
        is_anothers = before.patient_id not in (None, prepared.columns["patient_id"])
        if before.deleted:
            is_foreign = is_anothers and self.is_foreign(before.source_id)
            return Change.FOREIGN if is_foreign else Change.CHANGED
        if self.is_foreign(before.source_id):
            return Change.FOREIGN
        if is_anothers and self._imported_rows.has(prepared.definition.name, before.pk):
            return Change.MISFILED
        return Change.CHANGED

    def _note(
        self, prepared: PreparedResource, before: LatestVersion | None, change: Change
    ) -> None:
        """Note what was learnt of this source's ids."""
        definition = prepared.definition
        if change in (Change.FOREIGN, Change.CLAIMED) and definition.compartment == "id":
            self._unknown_ids.add(prepared.id)
        if change is Change.SAME and before and self.is_foreign(before.source_id):
            self.shared.append(f"{definition.name}/{prepared.id}")

    def is_foreign(self, known: int | None) -> bool:
        """Say whether a source is another one, where an id may mean another patient."""
        return bool(self._source_id and known and known != self._source_id)

    def claimed(self, definition: Definition, ids: Collection[str]) -> set[str]:
        """Return which of these ids of a type records of other sources refer to."""
        claimed: set[str] = set()
        if not (self._isolate_source and ids):
            return claimed
        for other in types().values():
            if other.view:
                continue
            columns, index = other.table.c, other.tables.reference.c
            params = [param.name for param in other.params if isinstance(param, Reference)]
            referred = (
                select(index.target_id)
                .distinct()
                .where(index.param.in_([*params, prepare.CARRIES]))
                .where(index.target_id.in_(sorted(ids)), index.target_type == definition.name)
                .where(columns.pk == index.pk, columns.is_current)
                .where(columns.source_id.is_not(None), columns.source_id != self._source_id)
            )
            claimed.update(self._writer.connection.execute(referred).scalars())
        return claimed

    def _note_unknown_patients(self, batch: Sequence[PreparedResource]) -> None:
        """Note which patients of these resources are not here, and records of others name them."""
        if not self._isolate_source:
            return
        patients = types()["Patient"]
        ids = {prepared.columns["patient_id"] for prepared in batch} - {None} - self._unknown_ids
        ids -= self._writer.standing(patients, ids).keys()
        if batch[0].definition is not patients:
            self._unknown_ids |= self.claimed(patients, ids)

    def _adopt(self, table: Table, rows: Sequence[int]) -> None:
        """Note the source of versions that came from nowhere that has a name."""
        if rows:
            adoption = update(table).where(table.c.pk.in_(rows)).values(source_id=self._source_id)
            self._writer.connection.execute(adoption)

    def _older_ids(
        self,
        definition: Definition,
        batch: Sequence[PreparedResource],
        standing: Mapping[str, LatestVersion],
    ) -> frozenset[str]:
        """Return the ids of resources that an earlier version of theirs stands for in the batch."""
        changed = {
            prepared.id: prepared.digest
            for prepared in reversed(batch)
            if (before := standing.get(prepared.id)) and before.digest != prepared.digest
        }
        if not changed:
            return frozenset()
        return frozenset(
            resource_id
            for resource_id, digests in self.digests(definition, changed).items()
            if changed[resource_id] in digests
        )

    def digests(self, definition: Definition, ids: Iterable[str]) -> dict[str, list[bytes | None]]:
        """Return what the versions of resources hold, oldest first; of a deletion None."""
        columns = definition.table.c
        versions = select(columns.id, columns.digest).where(columns.id.in_(sorted(ids)))
        digests: dict[str, list[bytes | None]] = {}
        for row in self._writer.connection.execute(versions.order_by(columns.version_id)):
            digests.setdefault(row.id, []).append(row.digest)
        return digests

    def _publish_blobs(self, batch: Iterable[PreparedResource]) -> None:
        """Publish the bytes that came with resources as Binaries, before the resources."""
        fresh = {
            blob.id: binary_of(self._writer.binary, blob, prepared.columns["patient_id"])
            for prepared in batch
            for blob in prepared.blobs
        }
        self.publish([*fresh.values()])
