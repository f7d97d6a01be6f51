"""A batch, published in one transaction: resources, deletions and histories, in their order.

A history has all versions of a resource, which are restored with their numbers and times;
features/exports/history.py says how one is written (decisions §5).
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from fhirapp.definition import Definition
from fhirapp.features.exports.history import history_of
from fhirapp.features.imports.records import ImportRecord
from fhirapp.store.prepare import DocumentTextReader, PreparedResource, prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change, RestoredVersion

# A batch ends at so many resources, or so many bytes of them.
MAX_RECORDS, MAX_BYTES = 1_000, 2_000_000
_CLAIMED = (
    "is what records of another source refer to, and may be another person there; import both "
    "under one name (--source)"
)


class Deletion(NamedTuple):
    """A resource to be deleted."""

    definition: Definition
    id: str


class ResourceHistory(NamedTuple):
    """The checked versions of one resource, oldest first."""

    definition: Definition
    id: str
    versions: list[RestoredVersion]


AdmittedResource = PreparedResource | Deletion | ResourceHistory
Ready = tuple[ImportRecord, AdmittedResource]
# (record, its type, its change, or why it was rejected)
Outcome = tuple[ImportRecord, str, Change | str]


def batches(records: Iterable[ImportRecord]) -> Iterator[list[ImportRecord]]:
    """Yield records in batches."""
    batch: list[ImportRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += record.size()
        if len(batch) >= MAX_RECORDS or size >= MAX_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def publish(
    publisher: Publisher,
    connection: Connection,
    ready: Sequence[Ready],
    *,
    hold_older: bool = True,
) -> list[Outcome]:
    """Publish a batch within the publisher's transaction.

    With hold_older, content that an earlier version had is not published: Change.OLDER.
    """
    outcomes: list[Outcome] = []
    held: set[tuple[str, str]] = set()
    for kind, run in groupby(ready, lambda pair: type(pair[1])):
        pairs = []
        for record, admitted in run:
            if _key(admitted) in held:
                # Records after a held one are held too.
                outcomes.append((record, admitted.definition.name, Change.OLDER))
            else:
                pairs.append((record, admitted))
        for group in [pairs] if kind is Deletion else _by_type(pairs):
            admitted_group: list[Any] = [admitted for _, admitted in group]
            changes: Sequence[Change | str]
            if kind is PreparedResource:
                changes = publisher.publish(admitted_group, hold_older=hold_older)
            elif kind is Deletion:
                changes = [
                    publisher.delete(*deletion, hold_older=hold_older)
                    for deletion in admitted_group
                ]
            else:
                changes = restore(publisher, connection, admitted_group)
            for (record, admitted), change in zip(group, changes, strict=True):
                outcomes.append((record, admitted.definition.name, change))
                if change is Change.OLDER:
                    held.add(_key(admitted))
    return outcomes


def _key(admitted: AdmittedResource) -> tuple[str, str]:
    return admitted.definition.name, admitted.id


def _by_type(pairs: Iterable[Ready]) -> list[list[Ready]]:
    """Group by type, what others refer to first: bytes before their documents."""
    groups: dict[str, list[Ready]] = {}
    for pair in pairs:
        groups.setdefault(pair[1].definition.name, []).append(pair)
    return sorted(groups.values(), key=lambda group: group[0][1].definition.rank)


def read_history(bundle: Any, definitions: Mapping[str, Definition]) -> ResourceHistory | None:
    """Return the versions in a history Bundle, None of a type that is not stored.

    Raises InvalidResource.
    """
    history = history_of(bundle)
    definition = definitions.get(history.type_name)
    if definition is None or definition.view:
        return None
    versions: list[RestoredVersion] = []
    patient_id = None
    for version in history.versions:
        if version.deleted:
            prepared = PreparedResource(definition, history.id, {"patient_id": patient_id}, b"")
        else:
            prepared = prepare(definition, version.resource)
            patient_id = prepared.columns["patient_id"]
        versions.append(
            RestoredVersion(
                prepared,
                version.version_id,
                version.last_updated,
                version.deleted,
                version.made_with,
            )
        )
    return ResourceHistory(definition, history.id, versions)


def with_words(history: ResourceHistory, notes: DocumentTextReader) -> ResourceHistory:
    """Return a history with the words of its documents."""
    live = [version.prepared for version in history.versions if not version.deleted]
    complete = iter(notes.read(live, frozenset()))
    return history._replace(
        versions=[
            version if version.deleted else version._replace(prepared=next(complete))
            for version in history.versions
        ]
    )


def restore(
    publisher: Publisher, connection: Connection, histories: Sequence[ResourceHistory]
) -> list[Change | str]:
    """Publish histories of one type; return the change of each, or why it does not fit.

    Existing versions are not changed: new ones must continue them without a gap.
    """
    definition = histories[0].definition
    versions = _stored_versions(connection, histories)
    claimed = publisher.claimed(definition, {history.id for history in histories} - versions.keys())
    outcomes: list[Change | str] = []
    accepted: list[RestoredVersion] = []
    for history in histories:
        stored = versions.setdefault(history.id, {})
        if history.id in claimed:
            outcomes.append(_CLAIMED)
            continue
        if misfit := _misfit(history, stored, publisher):
            outcomes.append(misfit)
            continue
        if stored and publisher.is_foreign(stored[max(stored)].source_id):
            publisher.shared.append(f"{definition.name}/{history.id}")
        new = [version for version in history.versions if version.version_id not in stored]
        changed = Change.CHANGED if stored else Change.NEW
        outcomes.append(changed if new else Change.SAME)
        for version in new:
            before = stored.get(version.version_id - 1)
            if version.deleted and before:
                # A deletion belongs to the patient of the version before it.
                columns = {"patient_id": before.patient_id}
                version = version._replace(prepared=replace(version.prepared, columns=columns))
            accepted.append(version)
            stored[version.version_id] = _StoredVersion(
                version.last_updated,
                version.prepared.columns["patient_id"],
                version.prepared.digest or None,
            )
    publisher.restore(accepted)
    return outcomes


class _StoredVersion(NamedTuple):
    """A version that is here."""

    last_updated: str
    patient_id: str | None
    digest: bytes | None
    source_id: int | None = None


def _stored_versions(
    connection: Connection, histories: Sequence[ResourceHistory]
) -> dict[str, dict[int, _StoredVersion]]:
    """Return the versions that are here of these resources, by id and number."""
    columns = histories[0].definition.table.c
    versions = select(
        columns.id, columns.version_id, *(columns[name] for name in _StoredVersion._fields)
    )
    stored: dict[str, dict[int, _StoredVersion]] = {}
    ids = [history.id for history in histories]
    for resource_id, number, *values in connection.execute(versions.where(columns.id.in_(ids))):
        stored.setdefault(resource_id, {})[number] = _StoredVersion(*values)
    return stored


def _misfit(
    history: ResourceHistory, stored: Mapping[int, _StoredVersion], publisher: Publisher
) -> str:
    """Return why a history does not continue what is here, "" where it does."""
    newest = max(stored, default=0)
    new = [version for version in history.versions if version.version_id not in stored]
    if new and stored:
        first, last = new[0], stored[newest]
        if publisher.is_foreign(last.source_id):
            return "is known from another source, as version 1 is here; give it other ids"
        if first.last_updated < last.last_updated:
            return f"continues with version {first.version_id}, dated before version {newest} here"
        # A deletion alone does not tell whose record it was.
        has_patient = len(new) == len(history.versions) and not first.deleted
        if has_patient and last.patient_id not in (None, first.prepared.columns["patient_id"]):
            return f"is another patient's than version {newest}, which is here"
    if history.versions[-1].last_updated > publisher.now:
        return "is dated in the future: the clock of its server or of this one is wrong"
    for version in history.versions:
        if existing := stored.get(version.version_id):
            content = (version.last_updated, version.prepared.digest or None)
            if (existing.last_updated, existing.digest) != content:
                return (
                    f"has another version {version.version_id} than this server, so these are two "
                    "histories; import the resource as it is now, without its history"
                )
        elif version.version_id != newest + 1:
            return (
                f"continues with version {version.version_id}, but {newest + 1} would be next; "
                "import those before it first"
            )
        else:
            newest = version.version_id
    return ""


def tune_gc() -> None:
    """Prepare an import process: no garbage collection within a batch, or of existing objects.

    The many objects of a batch would be traversed again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 2, 2)


def collect() -> None:
    """Free the cycles of the batch that ended, where tune_gc was called."""
    if gc.get_freeze_count():
        gc.collect()
