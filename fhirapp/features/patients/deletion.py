"""What an administrator does with a patient's record: delete or erase it, correct whose it is.

Each needs a reason, which the audit trail keeps, and is one transaction. Meanwhile nothing is
imported; afterwards no import brings back what was deleted, until an administrator lets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import ColumnElement, Connection, insert, or_, select, update

from fhirapp.audit.events import LONGEST_REASON, SHORTEST_REASON, record
from fhirapp.auth.models import User, UserPatient
from fhirapp.auth.tokens import revoke_of_patient
from fhirapp.auth.users import accounts
from fhirapp.config import RefusedCommand, Settings
from fhirapp.db import writing
from fhirapp.db.locks import lock
from fhirapp.definition import types
from fhirapp.fhir.resource import InvalidResource
from fhirapp.fhir.temporal import instant
from fhirapp.store import merge, removal
from fhirapp.store.import_models import (
    CORRECTED,
    DELETED,
    ERASED,
    PATIENCE,
    TURN,
    PatientChange,
    PatientMerge,
)
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change
from fhirapp.store.write import Rendering, rendering_in_force


class Belongings(NamedTuple):
    """What goes with a patient: how many of each type, what names the patient, whose accounts."""

    counts: Mapping[str, int]
    naming: Mapping[str, int]
    # (user id, name) of those who see the record with an account of theirs.
    linked: list[tuple[str, str]]


def belongings(connection: Connection, patient_id: str) -> Belongings:
    """Return what the deletion of a record takes away, and what of it was deleted before."""
    gone = removal.belongings(connection, patient_id, deleted=True)
    counts = {name: len(ids) for name, ids in gone.items()}
    return Belongings(
        counts,
        removal.count_references(connection, patient_id, gone),
        linked_accounts(connection, patient_id),
    )


def delete_patient(
    settings: Settings, patient_id: str, reason: str, who: str, *, erase: bool
) -> Mapping[str, int]:
    """Delete a patient's record; with erase also the content of all versions.

    Return the number of resources by type. Raises RefusedCommand.
    """
    reason = check_reason(reason)
    with changing(settings) as connection:
        gone = removal.belongings(connection, patient_id, deleted=erase)
        if "Patient" not in gone:
            raise RefusedCommand("Unknown patient: %(id)s.", id=patient_id)
        if is_merged(connection, patient_id):
            raise RefusedCommand("This record is part of a merge. Undo the merge first.")
        publisher = publisher_of(connection, settings)
        counts: Mapping[str, int] = removal.delete_all(publisher, gone, patient_id)
        if erase:
            counts = Counter({name: len(ids) for name, ids in gone.items()})
            removal.erase_all(connection, gone, publisher.rendering)
        for user_id, _name in linked_accounts(connection, patient_id):
            accounts.unlink(connection, user_id, patient_id)
        revoke_of_patient(connection, patient_id)
        _end(connection, PatientChange.patient_id == patient_id)
        note(connection, ERASED if erase else DELETED, patient_id, reason, who)
        what = ", ".join(f"{count} {name}" for name, count in counts.items())
        event = "patient-erased" if erase else "patient-deleted"
        record(event, what=f"{reason} ({what})", named=[patient_id])
    if erase:
        removal.purge_words()
    return counts


def correct_patient(
    settings: Settings,
    resource: Mapping[str, Any],
    changed: Sequence[str],
    reason: str,
    who: str,
) -> bool:
    """Publish a patient's details as they were corrected; False where that changes nothing.

    resource has the version that was corrected; changed names the elements, for the trail. What the
    source said before is not taken from it again. Raises RefusedCommand.
    """
    reason = check_reason(reason)
    definition = types()["Patient"]
    try:
        prepared = prepare(definition, resource)
    except InvalidResource as error:
        place, fault = error.faults[0]
        raise RefusedCommand("%(place)s %(fault)s.", place=place, fault=fault) from None
    with changing(settings) as connection:
        table = definition.table
        found = select(table).where(table.c.id == prepared.id, table.c.is_current)
        before = connection.execute(found).mappings().first()
        if before is None or str(before["version_id"]) != resource["meta"]["versionId"]:
            raise RefusedCommand(
                "The record has been changed in the meantime. Check it and try again."
            )
        publisher = publisher_of(connection, settings)
        if publisher.publish([prepared]) != [Change.CHANGED]:
            return False
        digest = merge.unlinked_digest(definition, before)
        note(connection, CORRECTED, prepared.id, reason, who, digest)
        what = f"{reason} ({', '.join(changed)})"
        record("patient-corrected", what=what, named=[prepared.id])
    return True


def admit_again(patient_id: str) -> None:
    """Let imports bring a record again that was deleted. Raises RefusedCommand."""
    with writing() as connection:
        of_it = (PatientChange.patient_id == patient_id, PatientChange.kind.in_([DELETED, ERASED]))
        if not _end(connection, *of_it):
            raise RefusedCommand("Re-import of this record is already allowed.")
        record("patient-admitted", named=[patient_id])


@contextmanager
def changing(settings: Settings) -> Iterator[Connection]:
    """Open the writing transaction while nothing is imported. Raises RefusedCommand."""

    def refuse() -> NoReturn:
        raise RefusedCommand("An import is running. Try again when it has finished.")

    with lock(settings, TURN, refuse), writing(patience=PATIENCE) as connection:
        yield connection


def publisher_of(connection: Connection, settings: Settings) -> Publisher:
    """Return what publishes the versions of this transaction."""
    rendering = rendering_in_force(connection, Rendering.of(settings))
    return Publisher(connection, now=now(), rendering=rendering)


def check_reason(reason: str) -> str:
    """Return a reason on one line. Raises RefusedCommand."""
    reason = " ".join(reason.split())
    if not SHORTEST_REASON <= len(reason) <= LONGEST_REASON:
        raise RefusedCommand(
            "Enter a reason of %(least)s to %(most)s characters. It is kept in the audit trail.",
            least=SHORTEST_REASON,
            most=LONGEST_REASON,
        )
    return reason


def is_merged(connection: Connection, patient_id: str, *, into_another: bool = False) -> bool:
    """Say whether a patient was merged into another or, unless into_another, another into it."""
    was_merged = PatientChange.patient_id == patient_id
    query = select(PatientMerge.change_id).join_from(
        PatientMerge, PatientChange, PatientChange.id == PatientMerge.change_id
    )
    part = was_merged if into_another else or_(was_merged, PatientMerge.target_id == patient_id)
    return (
        connection.execute(query.where(part, PatientChange.ended_at.is_(None))).first() is not None
    )


def linked_accounts(connection: Connection, patient_id: str) -> list[tuple[str, str]]:
    """Return the (user id, name) of those whose account sees a record."""
    query = (
        select(User.id, User.name)
        .join(UserPatient, UserPatient.user_id == User.id)
        .where(UserPatient.patient_id == patient_id)
        .order_by(User.name)
    )
    return [(user_id, name) for user_id, name in connection.execute(query)]


def note(
    connection: Connection,
    kind: str,
    patient_id: str,
    reason: str,
    who: str,
    digest: bytes | None = None,
) -> int:
    """Keep what was done with a record; return the number of that."""
    row = {"kind": kind, "patient_id": patient_id, "reason": reason, "who": who, "at": now()}
    noted = insert(PatientChange).values(**row, digest=digest).returning(PatientChange.id)
    return int(connection.execute(noted).scalar_one())


def _end(connection: Connection, *conditions: ColumnElement[bool]) -> bool:
    """End what holds of a record; False where nothing did."""
    holding = update(PatientChange).where(PatientChange.ended_at.is_(None), *conditions)
    return connection.execute(holding.values(ended_at=now())).rowcount > 0


def now() -> str:
    """Return the instant, as it is served."""
    return instant(datetime.now(UTC))
