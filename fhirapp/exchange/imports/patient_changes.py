"""What an administrator did with patients' records, which an import does not undo."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select

from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.exchange.models import CORRECTED, DELETED, ERASED, PatientChange
from fhirapp.store.prepare import Prepared


class PatientChanges:
    """What holds of which patients as an import begins."""

    def __init__(
        self, deleted: Collection[str] = (), corrected: Collection[tuple[str, bytes | None]] = ()
    ) -> None:
        # The ids of patients, and with the digest what each said before.
        self._deleted = frozenset(deleted)
        self._corrected = frozenset(corrected)

    @classmethod
    def of(cls, connection: Connection) -> PatientChanges:
        """Return what holds now."""
        holds = PatientChange.ended_at.is_(None)
        deleted = select(PatientChange.patient_id).where(
            PatientChange.kind.in_([DELETED, ERASED]), holds
        )
        corrected = select(PatientChange.patient_id, PatientChange.digest).where(
            PatientChange.kind == CORRECTED, holds
        )
        return cls(
            connection.execute(deleted).scalars().all(),
            [(row.patient_id, row.digest) for row in connection.execute(corrected)],
        )

    def is_corrected(self, definition: Definition, prepared: Prepared) -> bool:
        """Say whether a patient comes as before an administrator corrected it."""
        return definition.compartment == "id" and (prepared.id, prepared.digest) in self._corrected

    def deleted_patient(
        self, definition: Definition, versions: Sequence[Prepared], snapshot: Reader
    ) -> str:
        """Return whose record, which was deleted, a resource is of; "" where it is of none."""
        if not self._deleted:
            return ""
        whose = {prepared.columns["patient_id"] for prepared in versions}
        if None in whose:
            # Bytes, and where something comes from: they went with the record.
            for prepared in versions:
                newest = snapshot.first(
                    f"SELECT patient_id FROM {definition.sql_table} WHERE id = ? AND deleted"
                    " AND replaced_pk IS NULL",
                    (prepared.id,),
                )
                whose.add(newest[0] if newest else None)
        return next(iter(sorted(whose & self._deleted)), "")
