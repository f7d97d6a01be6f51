"""Publish versions: the one way to write, in one transaction.

Versions count 1, 2, 3…; their content never changes. Unchanged content makes none, unless an
attachment changed. Source: decisions §5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlalchemy import Connection, Table, select, update

from fhirapp.definition import Definition, types
from fhirapp.fhir.temporal import instant_of, interval
from fhirapp.store.prepare import CARRIES, PreparedResource, binary_of, deletion
from fhirapp.store.version import Change, StoredVersion, Version
from fhirapp.store.write import Rendering, Writer

# Says what comes of a resource, given its newest version, which may be of the same batch: its
# change, or why it is not published.
Decide = Callable[[PreparedResource, StoredVersion | Version | None], Change | str]

# Changes after which the attachments of the resource are published.
_WITH_ATTACHMENTS = (Change.NEW, Change.CHANGED, Change.SAME)
_WRITTEN = (Change.NEW, Change.CHANGED, Change.DELETED)


def by_content(prepared: PreparedResource, latest: StoredVersion | Version | None) -> Change:
    """Return what comes of a resource by its content alone."""
    if latest is None:
        return Change.SAME if prepared.deleted else Change.NEW
    if (prepared.deleted, prepared.digest) == (latest.deleted, latest.digest):
        return Change.SAME
    return Change.DELETED if prepared.deleted else Change.CHANGED


class Publisher:
    """Writes batches of versions within one transaction, not before the instant now.

    decide is called once for each resource of a batch, in their order, and for the Binaries that
    their attachments become. source_id, if given, is stored with resources that are published, and
    with unchanged ones that have none; else a resource keeps its own.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        now: str,
        rendering: Rendering,
        source_id: int | None = None,
        decide: Decide = by_content,
    ) -> None:
        self.connection, self.rendering, self.now = connection, rendering, now
        self._writer = Writer(connection, rendering)
        self._source_id = source_id
        self._decide = decide
        self._earliest = now

    def latest(self, batch: Sequence[PreparedResource]) -> Mapping[str, StoredVersion]:
        """Return the newest version of each resource of one type that has one, by id."""
        return self._writer.latest(batch[0].definition, [prepared.id for prepared in batch])

    def publish(
        self,
        batch: Sequence[PreparedResource],
        latest: Mapping[str, StoredVersion] | None = None,
    ) -> list[Change | str]:
        """Publish resources and deletions of one type; what comes of each, in order.

        A resource that stands twice in the batch becomes two versions, in order. latest is given
        where the caller has asked for it already.
        """
        if not batch:
            return []
        definition = batch[0].definition
        if latest is None:
            latest = self.latest(batch)
        changes, versions = self._decide_all(batch, latest)
        decided = [*zip(batch, changes, strict=True)]
        if self._publish_attachments(
            prepared for prepared, change in decided if change in _WITH_ATTACHMENTS
        ):
            # What carries them may have a new version by that.
            latest = self.latest(batch)
        self._adopt(definition.table, decided, latest)
        self._append(definition, versions, latest)
        return changes

    def restore(self, versions: Sequence[Version]) -> None:
        """Write versions of one type as they were, in the order given: that of their row numbers.

        Where a resource has versions already, these follow them.
        """
        if not versions:
            return
        definition = versions[0].prepared.definition
        self._publish_attachments(version.prepared for version in versions)
        for version in versions:
            version.source_id = self._source_id
        latest = self.latest([version.prepared for version in versions])
        self._writer.write(definition, versions, latest)

    def _decide_all(
        self, batch: Sequence[PreparedResource], latest: Mapping[str, StoredVersion]
    ) -> tuple[list[Change | str], list[Version]]:
        """Return what comes of each resource, and the versions to be written."""
        changes: list[Change | str] = []
        versions: list[Version] = []
        newest: dict[str, StoredVersion | Version] = {**latest}
        for prepared in batch:
            before = newest.get(prepared.id)
            change = self._decide(prepared, before)
            changes.append(change)
            if change in _WRITTEN:
                version = self._version_after(before, prepared)
                versions.append(version)
                newest[prepared.id] = version
        return changes, versions

    def _version_after(
        self, before: StoredVersion | Version | None, prepared: PreparedResource
    ) -> Version:
        """Return the version that follows a resource's newest one, still to be numbered."""
        if before is None:
            return Version(prepared, source_id=self._source_id)
        if prepared.deleted:
            # It belongs to the patient and to the source of the version before it.
            prepared = deletion(prepared.definition, prepared.id, before.patient_id)
            return Version(prepared, source_id=before.source_id)
        return Version(prepared, source_id=self._source_id or before.source_id)

    def _adopt(
        self,
        table: Table,
        decided: Sequence[tuple[PreparedResource, Change | str]],
        latest: Mapping[str, StoredVersion],
    ) -> None:
        """Store the source with resources that are unchanged and have none; not with deletions."""
        if self._source_id is None:
            return
        # A resource that stands twice may be changed after it was unchanged.
        first = {prepared.id: change for prepared, change in reversed(decided)}
        rows = [
            version.pk
            for resource_id, version in latest.items()
            if first[resource_id] is Change.SAME
            and version.source_id is None
            and not version.deleted
        ]
        if rows:
            adoption = update(table).where(table.c.pk.in_(rows)).values(source_id=self._source_id)
            self.connection.execute(adoption)

    def _append(
        self,
        definition: Definition,
        versions: Sequence[Version],
        latest: Mapping[str, StoredVersion],
    ) -> None:
        """Number versions, each after the newest of its resource, and write them.

        None is published before what the type has already: a client that asks for changes since
        then must get them.
        """
        if not versions:
            return
        self._earliest = max(self._earliest, self._writer.last_updated(definition))
        newest: dict[str, StoredVersion | Version] = {**latest}
        for version in versions:
            before = newest.get(version.prepared.id)
            version.version_id = before.version_id + 1 if before else 1
            version.last_updated = self._earliest
            if before and before.last_updated >= self._earliest:
                version.last_updated = instant_of(interval(before.last_updated).high)
            newest[version.prepared.id] = version
        self._writer.write(definition, versions, latest)
        if definition is types()["Binary"]:
            self._renew_carriers([version.prepared.id for version in versions])

    def _publish_attachments(self, resources: Iterable[PreparedResource]) -> bool:
        """Publish the bytes that came with resources as Binaries; False where there are none."""
        binaries = {
            blob.id: binary_of(types()["Binary"], blob, prepared.patient_id)
            for prepared in resources
            for blob in prepared.blobs
        }
        self.publish([*binaries.values()])
        return bool(binaries)

    def _renew_carriers(self, binary_ids: Sequence[str]) -> None:
        """Publish the resources anew whose attachments were stored, changed or deleted.

        Their content is the same; its size, hash, words and what is sent inline are not.
        """
        for definition in types().values():
            if not definition.attachments or definition.view:
                continue
            table, index = definition.table, definition.tables.reference
            carriers = select(index.c.pk).where(
                index.c.param == CARRIES, index.c.target_id.in_(binary_ids)
            )
            current = select(table).where(table.c.is_current, table.c.pk.in_(carriers))
            rows = self.connection.execute(current).mappings().all()
            names = (*definition.columns.values(), "extra", "patient_id")
            versions = [
                Version(
                    PreparedResource(
                        definition, row["id"], {name: row[name] for name in names}, row["digest"]
                    ),
                    source_id=row["source_id"],
                )
                for row in rows
            ]
            latest = {
                row["id"]: StoredVersion(*(row[name] for name in StoredVersion._fields))
                for row in rows
            }
            self._append(definition, versions, latest)
