"""Merges two records of one person into one, and undoes a merge.

Resources of the merged record get new versions that name the record that stays. The versions before
leave the patient's compartment (store/write.py): no token of one patient reads what was filed under
another. The merged record keeps its personal details, is marked as not in use, and links to the
record that stays. Later imports for it go to the record that stays, until the merge is undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection, RowMapping, insert, or_, select, update

from fhirapp.audit.events import record
from fhirapp.auth.links import lapse_of
from fhirapp.auth.models import PATIENT, User, UserPatient
from fhirapp.auth.tokens import revoke_of_patient
from fhirapp.auth.users import accounts
from fhirapp.config import RefusedCommand, Settings
from fhirapp.definition import Definition, Visibility, types
from fhirapp.feature import N_
from fhirapp.features.patients import deletion
from fhirapp.fhir.identity import contradiction
from fhirapp.store import merge
from fhirapp.store.import_models import MERGED, PatientChange, PatientMerge
from fhirapp.store.prepare import elements_of, prepared_of
from fhirapp.store.publish import Publisher

_DIFFERENCES = {
    "birthDate": N_(
        "The dates of birth differ: %(first)s and %(other)s. Correct the record that is wrong"
        " first; records of two people must not be merged."
    ),
    "gender": N_(
        "The sexes differ: %(first)s and %(other)s. Correct the record that is wrong first; records"
        " of two people must not be merged."
    ),
}
# Versions that are made at once.
_ROWS = 500
# Changes elements; False where there is nothing to change.
Move = Callable[[Any], bool]


class Merge(NamedTuple):
    """What a merge would move: how many resources of each type, and who sees the record."""

    counts: Mapping[str, int]
    # (user id, name) of those who see the record with an account of theirs.
    linked: list[tuple[str, str]]


def preview(connection: Connection, source: str, target: str) -> Merge:
    """Return what a merge would move. Raises RefusedCommand where they cannot be one person."""
    _check(connection, source, target)
    move = partial(merge.move, merged={source: target})
    counts = Counter(
        definition.name
        for definition in _movable()
        for _resource in _changed(connection, definition, source, move)
    )
    return Merge(counts, deletion.linked_accounts(connection, source))


def merge_patients(
    settings: Settings, source: str, target: str, reason: str, who: str, *, move_accounts: bool
) -> Mapping[str, int]:
    """Merge one record into another; return how many resources of each type were moved.

    With move_accounts those who saw the record that is merged see the one that stays; otherwise
    they see neither. Raises RefusedCommand.
    """
    reason = deletion.check_reason(reason)
    with deletion.changing(settings) as connection:
        _check(connection, source, target)
        publisher = deletion.publisher_of(connection, settings)
        counts = _move_all(publisher, source, partial(merge.move, merged={source: target}))
        _publish_patient(publisher, source, partial(merge.link, other=target, is_replaced=True))
        _publish_patient(publisher, target, partial(merge.link, other=source, is_replaced=False))
        links = select(UserPatient.user_id, UserPatient.is_self, UserPatient.related_person)
        of_source = connection.execute(links.where(UserPatient.patient_id == source)).all()
        rows = connection.execute(links.where(UserPatient.patient_id == target))
        of_target = {row.user_id: row.related_person for row in rows}
        moved = []
        for user_id, is_self, related in of_source:
            # A link to the one who stays that does not hold now makes room, until an undo.
            link = of_target.get(user_id)
            lapses = link is not None and bool(lapse_of(target, link))
            is_moved = move_accounts and (user_id not in of_target or lapses)
            accounts.unlink(connection, user_id, source)
            if is_moved:
                accounts.link(connection, user_id, target, is_self=is_self, related_person=related)
            moved.append([user_id, is_self, is_moved, related, link if is_moved else None])
        revoke_of_patient(connection, source)
        change_id = deletion.note(connection, MERGED, source, reason, who)
        row = {"change_id": change_id, "target_id": target, "accounts": moved}
        connection.execute(insert(PatientMerge), [row])
        what = ", ".join(f"{count} {name}" for name, count in counts.items())
        record("patients-merged", what=f"{reason} ({what or 'no records'})", named=[source, target])
    return counts


def undo_merge(settings: Settings, source: str, reason: str) -> Mapping[str, int]:
    """Make two records of one again: what was moved, also by imports since, goes back.

    Accounts see the record again that they saw, but those from which the one that stays, which they
    saw instead, was taken since. Apps that were started for the record that stays
    lose access, since they may hold the other's. Raises RefusedCommand.
    """
    reason = deletion.check_reason(reason)
    with deletion.changing(settings) as connection:
        of_it = select(PatientMerge.change_id, PatientMerge.target_id, PatientMerge.accounts).join(
            PatientChange, PatientChange.id == PatientMerge.change_id
        )
        of_it = of_it.where(PatientChange.patient_id == source, PatientChange.ended_at.is_(None))
        row = connection.execute(of_it).mappings().first()
        if row is None:
            raise RefusedCommand("This record is not merged into another one.")
        target = row["target_id"]
        publisher = deletion.publisher_of(connection, settings)
        back = partial(merge.move_back, source=source, target=target)
        counts = _move_all(publisher, target, back)
        _publish_patient(publisher, source, partial(merge.unlink, other=target))
        _publish_patient(publisher, target, partial(merge.unlink, other=source))
        users = {*connection.execute(select(User.id).where(User.role == PATIENT)).scalars()}
        # Merges before schema 0011 have no RelatedPersons.
        for user_id, is_self, is_moved, related, link in (
            [*moved, None, None][:5] for moved in row["accounts"]
        ):
            if user_id not in users:
                continue
            # From whom the record was taken since, it stays so.
            if is_moved and not accounts.unlink(connection, user_id, target):
                continue
            accounts.link(connection, user_id, source, is_self=is_self, related_person=related)
            if link is not None:
                accounts.link(connection, user_id, target, related_person=link)
        revoke_of_patient(connection, target)
        ended = update(PatientChange).where(PatientChange.id == row["change_id"])
        connection.execute(ended.values(ended_at=deletion.now()))
        record("merge-undone", what=reason, named=[source, target])
    return counts


def _check(connection: Connection, source: str, target: str) -> None:
    """Raise RefusedCommand where two records cannot be merged."""
    if source == target:
        raise RefusedCommand("Choose a different record: these are the same.")
    for patient_id in (source, target):
        if _current(connection, patient_id) is None:
            raise RefusedCommand("Unknown patient: %(id)s.", id=patient_id)
    # Several records may be merged into one, but none that has others in it.
    if deletion.is_merged(connection, source) or deletion.is_merged(
        connection, target, into_another=True
    ):
        raise RefusedCommand(
            "One of these records is already part of a merge. Undo that merge first."
        )
    # Names and numbers differ between two records of one person; that is how they came to be two.
    first, other = (_elements(connection, patient_id) for patient_id in (source, target))
    for name, message in _DIFFERENCES.items():
        if contradiction({name: first.get(name)}, other):
            raise RefusedCommand(message, first=first.get(name), other=other.get(name))


def _move_all(publisher: Publisher, holder: str, move: Move) -> Mapping[str, int]:
    """Publish what names a patient anew, with the references moved; return how many of each type.

    holder is the one whom it names so far.
    """
    counts: Counter[str] = Counter()
    for definition in _movable():
        moved = [*_changed(publisher.connection, definition, holder, move)]
        publisher.publish([prepared_of(definition, name, elements) for name, elements in moved])
        counts[definition.name] = len(moved)
    # Without the types of which nothing was moved.
    return +counts


def _changed(
    connection: Connection, definition: Definition, holder: str, move: Move
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the id and the elements of each current resource that a move changes, changed."""
    table, index = definition.table, definition.tables.reference.c
    names_it = select(index.pk).where(index.target_id == holder, index.target_type == "Patient")
    found = select(table.c.pk).where(
        table.c.is_current, or_(table.c.patient_id == holder, table.c.pk.in_(names_it))
    )
    rows = [*connection.execute(found.order_by(table.c.pk)).scalars()]
    for at in range(0, len(rows), _ROWS):
        batch = select(table).where(table.c.pk.in_(rows[at : at + _ROWS])).order_by(table.c.pk)
        for row in connection.execute(batch).mappings().all():
            elements = elements_of(definition, row)
            if move(elements):
                yield row["id"], elements


def _movable() -> list[Definition]:
    """Return the types whose resources a merge moves.

    Binaries name no patient; a Provenance is about its version.
    """
    return [
        definition
        for definition in types().values()
        if not definition.view
        and definition.compartment != "id"
        and definition.visibility not in (Visibility.TARGETS, Visibility.CARRIER)
    ]


def _publish_patient(
    publisher: Publisher, patient_id: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """Publish a Patient, changed; one who was deleted since stays so."""
    if _current(publisher.connection, patient_id) is not None:
        elements = _elements(publisher.connection, patient_id)
        change(elements)
        publisher.publish([prepared_of(types()["Patient"], patient_id, elements)])


def _elements(connection: Connection, patient_id: str) -> dict[str, Any]:
    return elements_of(types()["Patient"], _current(connection, patient_id) or {})


def _current(connection: Connection, patient_id: str) -> RowMapping | None:
    table = types()["Patient"].table
    query = select(table).where(table.c.id == patient_id, table.c.is_current)
    return connection.execute(query).mappings().first()
