"""Histories: all versions of a resource, restored with their numbers and times.

features/exports/lines.py says how one is written (decisions §5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fhirapp.definition import Definition
from fhirapp.features.exports.lines import history_of
from fhirapp.features.imports.sources import SourceRules
from fhirapp.store.prepare import DocumentTextReader, deletion, prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change, StoredVersion, Version, stored_versions

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


def read_history(bundle: Any, definitions: Mapping[str, Definition]) -> ResourceHistory:
    """Return the versions in a history Bundle of a stored type. Raises InvalidResource."""
    history = history_of(bundle)
    definition = definitions[history.type_name]
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
