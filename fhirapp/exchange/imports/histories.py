"""Histories, brought back as they were: numbers and times of their versions included.

Source: history.py says how one is written; decisions §5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from fhirapp.definition import Definition
from fhirapp.exchange.history import history_of
from fhirapp.store.prepare import Notes, Prepared, prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change, Restored

_CLAIMED = (
    "is what records of another source refer to, and may be somebody else's there; import both "
    "under one name (--source)"
)


class Past(NamedTuple):
    """The versions of one resource, oldest first, checked."""

    definition: Definition
    id: str
    versions: list[Restored]


class Standing(NamedTuple):
    """A version that is here: its time, patient and source, what its content comes to."""

    last_updated: str
    patient_id: str | None
    digest: bytes | None
    source_id: int | None = None


def read_past(bundle: Any, definitions: Mapping[str, Definition]) -> Past | None:
    """Return the versions that a history Bundle holds, None of a type that is not stored.

    Raises InvalidResource.
    """
    found = history_of(bundle)
    definition = definitions.get(found.type_name)
    if definition is None or definition.view:
        return None
    versions: list[Restored] = []
    patient_id = None
    for one in found.versions:
        if one.resource is None:
            prepared = Prepared(definition, found.id, {"patient_id": patient_id}, b"")
        else:
            prepared = prepare(definition, one.resource)
            patient_id = prepared.columns["patient_id"]
        deleted = one.resource is None
        versions.append(
            Restored(prepared, one.version_id, one.last_updated, deleted, one.made_with)
        )
    return Past(definition, found.id, versions)


def with_words(past: Past, notes: Notes) -> Past:
    """Return it with the words of its documents."""
    live = [one.prepared for one in past.versions if not one.deleted]
    read = iter(notes.read(live, frozenset()))
    return past._replace(
        versions=[
            one if one.deleted else one._replace(prepared=next(read)) for one in past.versions
        ]
    )


def restore(
    publisher: Publisher, connection: Connection, pasts: Sequence[Past]
) -> list[Change | str]:
    """Publish histories of one type; what came of each, or why it does not fit what is here.

    Versions that are here are left alone: those that come must continue them without a gap.
    """
    here = _standing(connection, pasts)
    claimed = publisher.claimed(pasts[0].definition, {one.id for one in pasts} - here.keys())
    outcomes: list[Change | str] = []
    wanted: list[Restored] = []
    for past in pasts:
        stored = here.setdefault(past.id, {})
        misfit = _CLAIMED if past.id in claimed else _misfit(past, stored, publisher)
        if misfit:
            outcomes.append(misfit)
            continue
        if stored and publisher.is_foreign(stored[max(stored)].source_id):
            publisher.shared.append(f"{past.definition.name}/{past.id}")
        fresh = [one for one in past.versions if one.version_id not in stored]
        changed = Change.CHANGED if stored else Change.NEW
        outcomes.append(changed if fresh else Change.SAME)
        for one in fresh:
            wanted.append(_filed(one, stored))
            patient_id = wanted[-1].prepared.columns["patient_id"]
            stored[one.version_id] = Standing(
                one.last_updated, patient_id, one.prepared.digest or None
            )
    publisher.restore(wanted)
    return outcomes


def _standing(connection: Connection, pasts: Sequence[Past]) -> dict[str, dict[int, Standing]]:
    """Return the versions that are here of these resources, by id and number."""
    columns = pasts[0].definition.table.c
    asked = select(columns.id, columns.version_id, *(columns[name] for name in Standing._fields))
    found: dict[str, dict[int, Standing]] = {}
    for row in connection.execute(asked.where(columns.id.in_([one.id for one in pasts]))):
        versions = found.setdefault(row.id, {})
        versions[row.version_id] = Standing(*row[2:])
    return found


def _misfit(past: Past, stored: Mapping[int, Standing], publisher: Publisher) -> str:
    """Return why a history does not continue what is here; nothing where it does."""
    newest = max(stored, default=0)
    first = next((one for one in past.versions if one.version_id not in stored), None)
    if first is not None and stored:
        held = stored[newest]
        if publisher.is_foreign(held.source_id):
            return "is known from another source, as version 1 is here; give it other ids"
        if first.last_updated < held.last_updated:
            return f"goes on, with version {first.version_id}, before the version {newest} here"
        overlaps = any(one.version_id in stored for one in past.versions)
        # A deletion alone does not say whose record it was.
        patients = (None, first.prepared.columns["patient_id"])
        if not (overlaps or first.deleted) and held.patient_id not in patients:
            return f"is another patient's than version {newest}, which is here"
    if past.versions[-1].last_updated > publisher.now:
        return "was changed in the future: the clock of its server is wrong, or ours is"
    for one in past.versions:
        if one.version_id in stored:
            here = stored[one.version_id]
            if (here.last_updated, here.digest) != (one.last_updated, one.prepared.digest or None):
                return (
                    f"has another version {one.version_id} than this server: these are two "
                    "histories; import the resource as it is now, without its history"
                )
        elif one.version_id != newest + 1:
            return (
                f"goes on with version {one.version_id} where {newest + 1} would be next; import "
                "what came before"
            )
        else:
            newest = one.version_id
    return ""


def _filed(one: Restored, stored: Mapping[int, Standing]) -> Restored:
    """Return a version; a deletion belongs to the patient that the version before it does."""
    before = stored.get(one.version_id - 1)
    if not one.deleted or before is None:
        return one
    columns = {"patient_id": before.patient_id}
    return one._replace(prepared=replace(one.prepared, columns=columns))
