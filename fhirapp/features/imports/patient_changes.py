"""What an administrator did with patients' records, which an import does not undo."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import Connection, select

from fhirapp.db import Reader
from fhirapp.definition import Definition, Visibility
from fhirapp.search.index import ReferenceRow
from fhirapp.store import merge
from fhirapp.store.import_models import CORRECTED, DELETED, ERASED, PatientChange, PatientMerge
from fhirapp.store.prepare import PreparedResource, elements_of, prepared_of


class PatientChanges:
    """What holds of which patients as an import begins."""

    def __init__(
        self,
        deleted: Collection[str] = (),
        corrected: Collection[tuple[str, bytes | None]] = (),
        merged: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        # The ids of patients, and with the digest what each said before; whom each was merged into.
        self._deleted = frozenset(deleted)
        self._corrected = frozenset(corrected)
        self.merged = merged

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
        merged = select(PatientChange.patient_id, PatientMerge.target_id).where(
            PatientMerge.change_id == PatientChange.id, holds
        )
        return cls(
            connection.execute(deleted).scalars().all(),
            [(row.patient_id, row.digest) for row in connection.execute(corrected)],
            {row.patient_id: row.target_id for row in connection.execute(merged)},
        )

    def merged_with(self, definition: Definition, prepared: PreparedResource) -> PreparedResource:
        """Return a resource that comes, changed as the merges changed those that are here.

        What is not found by a patient who was merged was not changed, and is not changed back.
        """
        if not self.merged or definition.visibility in (Visibility.TARGETS, Visibility.CARRIER):
            return prepared
        elements = elements_of(definition, prepared.columns)
        if definition.compartment == "id":
            for source, target in self.merged.items():
                if prepared.id == source:
                    merge.link(elements, target, is_replaced=True)
                elif prepared.id == target:
                    merge.link(elements, source, is_replaced=False)
        elif prepared.columns["patient_id"] in self.merged or any(
            isinstance(row, ReferenceRow)
            and row.target_type == "Patient"
            and row.target_id in self.merged
            for row in definition.params.rows(elements)
        ):
            merge.move(elements, self.merged)
        else:
            return prepared
        return prepared_of(definition, prepared.id, elements, prepared.blobs)

    def merged_patient(self, versions: Sequence[PreparedResource]) -> str:
        """Return which patient's record, which was merged, versions are of; "" where of none."""
        whose = {version.columns["patient_id"] for version in versions}
        return next(iter(sorted(whose & {*self.merged, *self.merged.values()} - {None})), "")

    def is_corrected(self, definition: Definition, prepared: PreparedResource) -> bool:
        """Say whether a patient comes as before an administrator corrected it."""
        if definition.compartment != "id":
            return False
        digest = prepared.digest
        if prepared.id in self.merged or prepared.id in self.merged.values():
            # What was corrected is known by what its source says, without what a merge adds.
            digest = merge.unlinked_digest(definition, prepared.columns)
        return (prepared.id, digest) in self._corrected

    def deleted_patient(
        self, definition: Definition, versions: Sequence[PreparedResource], snapshot: Reader
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
