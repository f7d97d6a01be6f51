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

from fhirapp.definition import Definition
from fhirapp.features.exports.history import history_of
from fhirapp.features.imports.records import OLDER, ImportRecord
from fhirapp.features.imports.sources import SourceRules
from fhirapp.store.prepare import DocumentTextReader, PreparedResource, deletion, prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change, StoredVersion, Version, stored_versions

# A batch ends at so many resources, or so many bytes of them.
MAX_RECORDS, MAX_BYTES = 1_000, 2_000_000
_RESOURCE, _DELETION, _HISTORY = "resource", "deletion", "history"
_CLAIMED = (
    "is what records of another source refer to, and may be another person there; import both "
    "under one name (--source)"
)


class ResourceHistory(NamedTuple):
    """The checked versions of one resource, oldest first."""

    definition: Definition
    id: str
    versions: list[Version]

    @property
    def name(self) -> str:
        return f"{self.definition.name}/{self.id}"


AdmittedResource = PreparedResource | ResourceHistory
Ready = tuple[ImportRecord, AdmittedResource]
# (record, its type, its change, or why it is not published)
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
    publisher: Publisher, rules: SourceRules, ready: Sequence[Ready], *, hold_older: bool = True
) -> list[Outcome]:
    """Publish a batch within the publisher's transaction, which decides by the rules.

    With hold_older, content that an earlier version had is not published: OLDER.
    """
    outcomes: list[Outcome] = []
    held: set[str] = set()
    for kind, run in groupby(ready, lambda pair: _kind(pair[1])):
        pairs = []
        for record, admitted in run:
            if admitted.name in held:
                # Records after a held one are held too.
                outcomes.append((record, admitted.definition.name, OLDER))
            else:
                pairs.append((record, admitted))
        for group in [[pair] for pair in pairs] if kind == _DELETION else _by_type(pairs):
            admitted_group: list[Any] = [admitted for _, admitted in group]
            if kind == _HISTORY:
                changes = restore(publisher, rules, admitted_group)
            else:
                latest = publisher.latest(admitted_group)
                rules.look_up(publisher.connection, admitted_group, latest, hold_older=hold_older)
                changes = publisher.publish(admitted_group, latest)
            for (record, admitted), change in zip(group, changes, strict=True):
                outcomes.append((record, admitted.definition.name, change))
                if change == OLDER:
                    held.add(admitted.name)
    return outcomes


def _kind(admitted: AdmittedResource) -> str:
    if isinstance(admitted, ResourceHistory):
        return _HISTORY
    return _DELETION if admitted.deleted else _RESOURCE


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
    versions: list[Version] = []
    for version in history.versions:
        if version.deleted:
            patient_id = versions[-1].patient_id if versions else None
            prepared = deletion(definition, history.id, patient_id)
        else:
            prepared = prepare(definition, version.resource)
        number, time = version.version_id, version.last_updated
        versions.append(Version(prepared, number, time, made_with=version.made_with))
    return ResourceHistory(definition, history.id, versions)


def with_words(history: ResourceHistory, notes: DocumentTextReader) -> ResourceHistory:
    """Return a history with the words of its documents."""
    read = notes.read([version.prepared for version in history.versions], frozenset())
    pairs = zip(history.versions, read, strict=True)
    return history._replace(
        versions=[replace(version, prepared=prepared) for version, prepared in pairs]
    )


def restore(
    publisher: Publisher, rules: SourceRules, histories: Sequence[ResourceHistory]
) -> list[Change | str]:
    """Publish histories of one type; return the change of each, or why it does not fit.

    Existing versions are not changed: new ones must continue them without a gap.
    """
    connection, definition = publisher.connection, histories[0].definition
    versions = stored_versions(connection, definition, [history.id for history in histories])
    coming = [version.prepared for history in histories for version in history.versions]
    rules.look_up(connection, coming, {name: stored[-1] for name, stored in versions.items()})
    outcomes: list[Change | str] = []
    accepted: list[Version] = []
    by_number: dict[str, dict[int, StoredVersion | Version]] = {
        history.id: {version.version_id: version for version in versions.get(history.id, ())}
        for history in histories
    }
    for history in histories:
        stored = by_number[history.id]
        if rules.is_claimed(history.name):
            outcomes.append(_CLAIMED)
            continue
        if misfit := _misfit(history, stored, rules, publisher.now):
            outcomes.append(misfit)
            continue
        if stored and rules.is_foreign(stored[max(stored)].source_id):
            rules.shared[definition.name].add(history.id)
        new = [version for version in history.versions if version.version_id not in stored]
        changed = Change.CHANGED if stored else Change.NEW
        outcomes.append(changed if new else Change.SAME)
        for version in new:
            before = stored.get(version.version_id - 1)
            if version.deleted and before:
                # A deletion belongs to the patient of the version before it.
                version.prepared = deletion(definition, history.id, before.patient_id)
            stored[version.version_id] = version
        if new:
            rules.note_published(history.name)
        accepted += new
    publisher.restore(accepted)
    return outcomes


def _misfit(
    history: ResourceHistory,
    stored: Mapping[int, StoredVersion | Version],
    rules: SourceRules,
    now: str,
) -> str:
    """Return why a history does not continue what is here, "" where it does."""
    newest = max(stored, default=0)
    new = [version for version in history.versions if version.version_id not in stored]
    if new and stored:
        first, last = new[0], stored[newest]
        if rules.is_foreign(last.source_id):
            return "is known from another source, as version 1 is here; give it other ids"
        if first.last_updated < last.last_updated:
            return f"continues with version {first.version_id}, dated before version {newest} here"
        # A deletion alone does not tell whose record it was.
        has_patient = len(new) == len(history.versions) and not first.deleted
        if has_patient and last.patient_id not in (None, first.patient_id):
            return f"is another patient's than version {newest}, which is here"
    if history.versions[-1].last_updated > now:
        return "is dated in the future: the clock of its server or of this one is wrong"
    for version in history.versions:
        if existing := stored.get(version.version_id):
            content = (version.last_updated, version.digest)
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
