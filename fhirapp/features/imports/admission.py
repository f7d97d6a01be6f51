"""From a staged record to what is published: its references, its condition, its check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from fhirapp import urls
from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.features.imports.batches import Admitted, Batch
from fhirapp.features.imports.bundles import OnMatch
from fhirapp.features.imports.histories import ResourceHistory, read_history
from fhirapp.features.imports.known_records import KnownRecords, resource_of
from fhirapp.features.imports.patient_changes import PatientChanges
from fhirapp.features.imports.records import ImportRecord, PatientRejected, Rejected, name_of
from fhirapp.features.imports.references import Resolver, Unresolved, current, targets_of
from fhirapp.features.imports.report import Report
from fhirapp.features.imports.runs import Options
from fhirapp.features.imports.sources import ANOTHER_SOURCE, MISFILED, SourceRules
from fhirapp.features.imports.staging import Stage
from fhirapp.features.imports.tables.update import is_other_allergy, merge_row
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.identity import contradiction
from fhirapp.fhir.resource import InvalidResource
from fhirapp.fhir.words import concept
from fhirapp.search.values import values_at
from fhirapp.store.prepare import PreparedResource, prepare

_URL_BESIDE_DATA = "came with data, which is stored; the url is kept in an extension"
_DELETED = (
    "was deleted here by an administrator, so nothing of that record is imported; delete it at its"
    " source too, or allow its re-import (Administer, Patients)"
)
_CORRECTED = "was corrected here, which is kept; correct it at its source too"
_MERGED = (
    "was merged with another record here: import its resources as they are now, without their"
    " history, or undo the merge first"
)
_REMEDY = (
    "give another person another id or number; for the same person correct the row, or the record "
    "here (Administer, Patients)"
)
_OTHER_ALLERGY = "give this one another id, or first set the other one to entered-in-error"
_LOSES_PATIENT = "the record has a patient here, and would lose it"


class Verdict(Enum):
    """What comes of a record that is not admitted, and not rejected either."""

    # It waits for a record that may still come.
    WAITS = "waits"
    # Nothing is published for it: another record stands for it, or an administrator's change.
    UNCHANGED = "unchanged"


class Admission:
    """Admits the records of one import."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        options: Options,
        stage: Stage,
        batch: Batch,
        report: Report,
        rules: SourceRules,
        patient_changes: PatientChanges,
    ) -> None:
        self._definitions = definitions
        self._options = options
        self._stage = stage
        self._batch = batch
        self._report = report
        own = urls.own_prefix()
        bases = frozenset([*options.bases, *([own] if own else [])])
        self._resolver = Resolver(
            definitions, stage, batch, bases, options.prefix, patient_changes.merged
        )
        self._rules = rules
        self._patient_changes = patient_changes
        self._known = KnownRecords()
        # Numbers of documents and rows whose patient is in doubt.
        self._disputed: set[int] = set()
        # Numbers of documents and rows whose patient waits for another record.
        self.waiting_containers: set[int] = set()

    def admit(self, record: ImportRecord, previous: PreparedResource | None) -> Admitted | Verdict:
        """Return what is published for a record.

        previous is what was admitted last of the same resource. Raises Rejected.
        """
        type_name = record.type_name or ""
        try:
            if type_name == "Bundle":
                return self._history(record)
            return self._resource(record, self._definitions[type_name], previous)
        except (InvalidResource, Rejected) as error:
            if record.is_converted and type_name == "Patient":
                self._disputed.add(record.container)
            if isinstance(error, Rejected):
                raise
            raise Rejected(faults=error.faults) from None

    def _history(self, record: ImportRecord) -> Admitted | Verdict:
        history = read_history(record.resource, self._definitions)
        versions = [version.prepared for version in history.versions]
        if self._is_left_out(history.definition, history.name, versions):
            return Verdict.UNCHANGED
        if patient_id := self._patient_changes.merged_patient(versions):
            raise Rejected(f"Patient/{patient_id} {_MERGED}")
        targets = targets_of(record.resource) if self._rules.are_checked else ()
        if (foreign := self._foreign(record, targets)) and self._waits_for(foreign):
            return Verdict.WAITS
        if self._batch.may_come("Binary") and self._lacks_bytes(history):
            return Verdict.WAITS
        self._note_present(history.name)
        return Admitted(record, history)

    def _is_left_out(
        self, definition: Definition, name: str, versions: Sequence[PreparedResource]
    ) -> bool:
        """Say whether an administrator deleted the record of a resource, or corrected it."""
        snapshot = self._batch.snapshot
        if patient_id := self._patient_changes.deleted_patient(definition, versions, snapshot):
            self._report.remark(f"Patient/{patient_id}", _DELETED)
        elif len(versions) == 1 and self._patient_changes.is_corrected(definition, versions[0]):
            self._report.remark(name, _CORRECTED)
        else:
            return False
        self._note_present(name)
        return True

    def _lacks_bytes(self, history: ResourceHistory) -> bool:
        """Say whether versions were made with versions of Binaries that are not here yet."""
        snapshot = self._batch.snapshot_with_type("Binary")
        binary = self._definitions["Binary"].sql_table
        version = f"SELECT 1 FROM {binary} WHERE id = ? AND version_id = ?"
        made_with = {pair for item in history.versions for pair in (item.made_with or {}).items()}
        return any(snapshot.first(version, pair) is None for pair in made_with)

    def _resource(
        self, record: ImportRecord, definition: Definition, previous: PreparedResource | None
    ) -> Admitted | Verdict:
        if record.container in self._disputed:
            raise PatientRejected
        if (
            record.is_converted
            and record.container in self.waiting_containers
            and definition.compartment != "id"
            and self._batch.may_come("Patient")
        ):
            # Whose it is becomes known with the patient.
            return Verdict.WAITS
        if record.condition:
            verdict = self._meet_condition(record, definition, previous)
            if verdict is not None:
                return verdict
            if self._stage.is_deleted_after(name_of(record.resource), record.number):
                return Verdict.UNCHANGED
        # As it was before: ids that a condition finds are not those of the source.
        unresolved, targets = self._resolver.resolve(record, with_targets=self._rules.are_checked)
        if (
            (foreign := self._foreign(record, targets))
            and not self._is_known(record, definition, previous)
            and self._waits_for(foreign)
        ):
            return Verdict.WAITS
        if any(self._batch.may_come(reference.awaited) for reference in unresolved):
            return Verdict.WAITS
        prepared = self._prepared(record, definition, previous)
        if prepared is None:
            return Verdict.UNCHANGED
        self._check_patient(prepared, record.resource, unresolved, previous)
        self._note_present(prepared.name)
        return Admitted(record, prepared, [(kept.reference, kept.reason) for kept in unresolved])

    def _prepared(
        self, record: ImportRecord, definition: Definition, previous: PreparedResource | None
    ) -> PreparedResource | None:
        """Return what a record is stored as, None where it is left out. Raises Rejected."""
        prepared = self._merged_with(definition, record.resource)
        if self._is_left_out(definition, prepared.name, [prepared]):
            return None
        if record.table_kind:
            snapshot = self._batch.snapshot_with(prepared.name)
            if not self._known.is_same(prepared, previous, snapshot):
                updated = self._updated(record, prepared, previous, snapshot)
                prepared = self._merged_with(definition, updated)
                if self._is_left_out(definition, prepared.name, [prepared]):
                    return None
        return prepared

    def _merged_with(self, definition: Definition, resource: Any) -> PreparedResource:
        return self._patient_changes.merged_with(definition, prepare(definition, resource))

    def _updated(
        self,
        record: ImportRecord,
        prepared: PreparedResource,
        previous: PreparedResource | None,
        snapshot: Reader,
    ) -> dict[str, Any]:
        """Return the record that is here with what a row says. Raises Rejected."""
        definition, stated, name = prepared.definition, record.resource, prepared.name
        # A row does not change another source's record: it is the same, or is rejected.
        is_foreign = previous is None and self._rules.is_foreign_target(name, snapshot)
        stored = None if is_foreign else self._known.find(prepared, previous, snapshot)
        if stored is None:
            return {**stated}
        if definition.compartment == "id" and (difference := contradiction(stated, stored)):
            self._disputed.add(record.container)
            raise Rejected(_other_person("has the id", name, difference, stated, stored, _REMEDY))
        if is_other_allergy(stored, stated):
            raise Rejected(
                f"is {concept(stated['code'])}, but this id has another allergy here,"
                f" {concept(stored.get('code', {})) or 'without a name'}; {_OTHER_ALLERGY}",
                "AllergyIntolerance.code",
            )
        return merge_row(stored, stated, record.defaults)

    def _meet_condition(
        self, record: ImportRecord, definition: Definition, previous: PreparedResource | None
    ) -> Verdict | None:
        """Give a resource the id of what its condition finds; None where it is published.

        Raises Rejected.
        """
        own = name_of(record.resource)
        if previous is not None and previous.deleted:
            # It was put after its deletion.
            return None
        if previous is not None:
            # The first of its group was created, or is here.
            match: str | Unresolved = previous.name
        else:
            match = self._resolver.match(own, record.condition, own_first=record.is_converted)
        if isinstance(match, Unresolved) and self._resolver.is_current(own):
            # It was created so, and its condition does not find it alone any more.
            self._check_own_id(record, definition, own)
            match = own
        if isinstance(match, Unresolved):
            if match.awaited:
                return None
            self._dispute(record)
            raise Rejected(f"{record.condition}: {match.reason}")
        if record.on_match is OnMatch.UPDATE:
            record.resource["id"] = match.partition("/")[2]
        elif record.on_match is OnMatch.SKIP or match != own:
            if definition.compartment == "id" and record.is_converted:
                self._check_same_patient(record, definition, match, previous)
            self._note_present(match)
            return Verdict.UNCHANGED
        return None

    def _dispute(self, record: ImportRecord) -> None:
        """Note that a record is rejected whose address others of its Bundle may have."""
        if record.is_converted:
            self._disputed.add(record.container)
        else:
            self._resolver.reject(record.container, name_of(record.resource))

    def _check_own_id(self, record: ImportRecord, definition: Definition, own: str) -> None:
        """Reject a record whose id is that of another source's record, or of another patient."""
        if self._rules.is_foreign_target(own, self._batch.snapshot):
            self._dispute(record)
            raise Rejected(f"{own} {ANOTHER_SOURCE}")
        if definition.compartment == "id":
            self._check_same_patient(record, definition, own, None)

    def _check_same_patient(
        self,
        record: ImportRecord,
        definition: Definition,
        match: str,
        previous: PreparedResource | None,
    ) -> None:
        """Reject a patient who shares an identifier, or the id, with another person here.

        Twins may share numbers, and placeholder numbers belong to many people.
        """
        if previous is not None and previous.name == match:
            patient = resource_of(previous)
        else:
            snapshot = self._batch.snapshot_with(match)
            patient = fhir_json.loads(
                current(snapshot, definition, match.partition("/")[2], "body")
            )
        if difference := contradiction(record.resource, patient):
            self._dispute(record)
            shared = f"has {_shared_identifier(record.resource, patient)}"
            remedy = _REMEDY if record.table_kind else ""
            raise Rejected(
                _other_person(shared, match, difference, record.resource, patient, remedy)
            )

    def _foreign(self, record: ImportRecord, targets: Sequence[str]) -> str:
        """Return Type/id that a record refers to and only another source has yet; "" if none."""
        if not record.has_source_ids:
            return ""
        foreign = self._rules.first_foreign(targets, self._batch.snapshot)
        if foreign:
            # This source may have sent it with the same content.
            snapshot = self._batch.snapshot_with_type(foreign.partition("/")[0])
            foreign = self._rules.first_foreign(targets, snapshot)
        return foreign

    def _is_known(
        self, record: ImportRecord, definition: Definition, previous: PreparedResource | None
    ) -> bool:
        """Say whether a Patient, or a resource without a patient, is stored with this content.

        Two such resources that refer to each other need not wait for each other.
        """
        if definition.compartment not in ("", "id"):
            return False
        prepared = self._merged_with(definition, record.resource)
        return self._known.is_same(prepared, previous, self._batch.snapshot)

    def _waits_for(self, foreign: str) -> bool:
        """Say whether a resource, Type/id, may still come from this source too. Raises Rejected."""
        if self._batch.may_come(foreign.partition("/")[0]) and self._stage.has(foreign):
            return True
        raise Rejected(f"{foreign} {ANOTHER_SOURCE}")

    def _check_patient(
        self,
        prepared: PreparedResource,
        resource: Mapping[str, Any],
        unresolved: Sequence[Unresolved],
        previous: PreparedResource | None,
    ) -> None:
        """Reject a resource that came as another patient's in this import.

        Reject it too if it would lose its patient here because the reference cannot be resolved.
        """
        definition, patient_id = prepared.definition, prepared.patient_id
        if patient_id is not None:
            if previous is not None and previous.patient_id not in (None, patient_id):
                raise Rejected(MISFILED, f"{definition.name}.id")
            return
        patients = values_at(resource, f"{definition.compartment}.reference")
        for kept in unresolved:
            if kept.reference in patients:
                known = previous.patient_id if previous else None
                snapshot = self._batch.snapshot_with(prepared.name)
                if known or current(snapshot, definition, prepared.id, "patient_id"):
                    raise Rejected(f"{kept.reference}: {kept.reason}; {_LOSES_PATIENT}")
                return

    def note_published(self, type_names: Iterable[str]) -> None:
        """Note that resources of these types were published: conditions may find them now."""
        self._resolver.forget(type_names)

    def report_admitted(self, admitted: Admitted) -> None:
        """Report what is remarkable in a record that is published."""
        content = admitted.content
        for reference, reason in admitted.kept:
            self._report.kept.add(reference, reason)
        definition, resource = content.definition, admitted.record.resource
        if isinstance(content, ResourceHistory):
            newest = content.versions[-1].prepared
            resource = None if newest.deleted else resource_of(newest)
        else:
            for blob in content.blobs:
                if blob.address:
                    url = f"{definition.name}.{definition.attachments}.url"
                    self._report.remark(url, _URL_BESIDE_DATA)
        for text in definition.remarks(resource) if resource else ():
            self._report.remark(admitted.record.place, text)

    def _note_present(self, name: str) -> None:
        """Note that the source holds a resource, Type/id."""
        if self._options.delete_missing:
            self._stage.add_present(name)


def _other_person(
    shared: str,
    name: str,
    difference: str,
    coming: Mapping[str, Any],
    known: Mapping[str, Any],
    remedy: str = "",
) -> str:
    """Return why a patient who comes is not the one, Type/id, who is here."""
    born, born_here = (patient.get("birthDate", "not recorded") for patient in (coming, known))
    message = f"{shared} of {name}, who {difference}: birth date {born}, there {born_here}"
    return f"{message}; {remedy}" if remedy else message


def _shared_identifier(resource: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the first identifier that two patients share, however it is written, or the id."""

    def key(identifier: Mapping[str, Any]) -> tuple[Any, str]:
        value = str(identifier.get("value")).replace("-", "").casefold()
        return identifier.get("system"), value

    keys = {key(identifier) for identifier in known.get("identifier", ())}
    for identifier in resource.get("identifier", ()):
        if key(identifier) in keys:
            return f"the number {identifier.get('system')}|{identifier.get('value')}"
    return "the id"
