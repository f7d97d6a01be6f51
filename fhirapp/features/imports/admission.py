"""From a record to what is published: its id here, its references, its check.

A record that waits for a reference, or behind an earlier one of the same resource, is deferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fhirapp import urls
from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.features.imports.batches import AdmittedResource, ResourceHistory, read_history
from fhirapp.features.imports.bundles import OnMatch
from fhirapp.features.imports.known_records import KnownRecords
from fhirapp.features.imports.patient_changes import PatientChanges
from fhirapp.features.imports.records import (
    OLDER,
    REFERENCE,
    ImportRecord,
    PatientRejected,
    Rejected,
    Scratch,
    name_of,
)
from fhirapp.features.imports.references import (
    PublishFirst,
    Resolver,
    Unresolved,
    current,
    targets_of,
)
from fhirapp.features.imports.repair import repair
from fhirapp.features.imports.report import Repaired, Report
from fhirapp.features.imports.runs import Options
from fhirapp.features.imports.sources import ANOTHER_SOURCE, MISFILED, SourceRules
from fhirapp.features.imports.tables.update import is_other_allergy, merge_row
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.identity import contradiction
from fhirapp.fhir.resource import InvalidResource
from fhirapp.fhir.words import concept
from fhirapp.search.values import values_at
from fhirapp.store.prepare import PreparedResource, deletion, elements_of, prepare
from fhirapp.store.version import Change

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


class Admission:
    """Admits the records of one import."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        options: Options,
        scratch: Scratch,
        report: Report,
        rules: SourceRules,
        patient_changes: PatientChanges,
    ) -> None:
        self._definitions = definitions
        self._options = options
        self._scratch = scratch
        self._report = report
        own = urls.own_prefix()
        bases = frozenset([*options.bases, *([own] if own else [])])
        self._resolver = Resolver(
            definitions, scratch, bases, options.prefix, patient_changes.merged
        )
        self._rules = rules
        self._patient_changes = patient_changes
        # Types of what was admitted and is not published yet.
        self._unpublished: set[str] = set()
        self._known = KnownRecords()
        # Numbers of documents and rows whose patient is in doubt, or is deferred.
        self._disputed: set[int] = set()
        self._waiting: set[int] = set()
        # Names of what was deferred again in this round.
        self._deferred_again: set[str] = set()

    def deferred(self, reason: str, type_name: str = "") -> Iterator[ImportRecord]:
        """Yield what is deferred for a reason now; the records of one resource in their order.

        Of one type only where type_name has it.
        """
        self._deferred_again.clear()
        by_name = reason == OLDER
        for record in self._scratch.take_deferred(reason, by_name=by_name, type_name=type_name):
            # The id of a deletion stands in its entry as it came.
            record.has_prefix = bool(self._options.prefix and not record.deletes)
            yield record

    def defer(
        self, record: ImportRecord, reason: str, name: str = "", content: bytes = b""
    ) -> bool:
        """Keep a record for later; False for one that could never be published."""
        if not (content or record.deletes):
            try:
                content = fhir_json.dumps(record.resource)
            except TypeError:
                return False
        name = name or record.subject
        self._scratch.defer(reason, name, content, record)
        if record.was_deferred:
            self._deferred_again.add(name)
        return True

    def note_published(self) -> None:
        """Note that what was admitted is published."""
        self._unpublished.clear()
        self._known.note_published()
        self._resolver.note_published()

    def remove_prefix(self, record: ImportRecord) -> None:
        """Restore a record as it was without the prefix, so that it can be imported again."""
        record.has_prefix = False
        with suppress(TypeError):
            self._resolver.remove_prefix(record.resource)
            if not (record.bundle_type or record.table_kind):
                record.text = fhir_json.dumps(record.resource)

    def admit(
        self, record: ImportRecord, snapshot: Reader, *, final: bool
    ) -> AdmittedResource | None:
        """Return what a record is published as; None if it is skipped or deferred.

        If final, nothing is deferred. Raises Rejected, PublishFirst.
        """
        if record.faults:
            raise Rejected(faults=record.faults)
        if record.deletes:
            return self._deletion(record, final=final)
        type_name = record.type_name
        if type_name is None:
            raise Rejected("is required; each line is a resource", "resourceType")
        try:
            if type_name == "Bundle":
                return self._history(record, snapshot, final=final)
            definition = self._stored_type(type_name)
            if definition is None:
                return None
            return self._resource(record, definition, snapshot, final=final)
        except (InvalidResource, Rejected) as error:
            if record.grouped and type_name == "Patient":
                self._disputed.add(record.bundle)
            if isinstance(error, Rejected):
                raise
            raise Rejected(faults=error.faults) from None

    def _stored_type(self, type_name: str) -> Definition | None:
        """Return a type; a type that is not stored is reported as skipped."""
        definition = self._definitions.get(type_name)
        if definition is None or definition.view:
            self._report.skipped[type_name] += 1
            return None
        return definition

    def _deletion(self, record: ImportRecord, *, final: bool) -> PreparedResource | None:
        if not (record.was_deferred or record.is_identified):
            record.is_identified = True
            record.deletes = record.deletes.replace("/", f"/{self._options.prefix}", 1)
        if self._defer_behind(record, record.deletes, final=final):
            return None
        type_name, _, resource_id = record.deletes.partition("/")
        definition = self._stored_type(type_name)
        if definition is None:
            return None
        self._resolver.admit_deletion(record.deletes)
        self._known.admit(record.deletes, None)
        return deletion(definition, resource_id)

    def _history(
        self, record: ImportRecord, snapshot: Reader, *, final: bool
    ) -> ResourceHistory | None:
        if self._options.prefix:
            raise Rejected("is a history, whose ids stay: import it without --id-prefix")
        history = read_history(record.resource, self._definitions)
        if history is None:
            self._report.skipped["Bundle"] += 1
            return None
        versions = [version.prepared for version in history.versions]
        name = record.history_of = f"{history.definition.name}/{history.id}"
        if self._is_left_out(history.definition, name, versions, snapshot):
            return None
        if patient_id := self._patient_changes.merged_patient(versions):
            raise Rejected(f"Patient/{patient_id} {_MERGED}")
        targets = targets_of(record.resource) if self._rules.are_checked else ()
        if self._waits_for_source(record, targets, snapshot, final=final) and self.defer(
            record, REFERENCE, name
        ):
            return None
        if not final and self._lacks_bytes(history, snapshot):
            if "Binary" in self._unpublished:
                raise PublishFirst
            if self.defer(record, REFERENCE, name):
                return None
        self._unpublished.add(history.definition.name)
        self._note_seen(name, *versions)
        newest = history.versions[-1]
        self._known.admit(name, None if newest.deleted else newest.prepared)
        if not newest.deleted:
            elements = elements_of(history.definition, newest.prepared.columns)
            self._remark(record.place, history.definition, elements)
        return history

    def _is_left_out(
        self,
        definition: Definition,
        name: str,
        versions: Sequence[PreparedResource],
        snapshot: Reader,
    ) -> bool:
        """Say whether an administrator deleted the record of a resource, or corrected it."""
        if patient_id := self._patient_changes.deleted_patient(definition, versions, snapshot):
            self._report.remark(f"Patient/{patient_id}", _DELETED)
        elif len(versions) == 1 and self._patient_changes.is_corrected(definition, versions[0]):
            self._report.remark(name, _CORRECTED)
        else:
            return False
        self._report.count(definition.name, Change.SAME.value)
        self._note_seen(name, *versions)
        return True

    def _lacks_bytes(self, history: ResourceHistory, snapshot: Reader) -> bool:
        """Say whether versions were made with versions of Binaries that are not here yet."""
        binary = self._definitions["Binary"].sql_table
        version = f"SELECT 1 FROM {binary} WHERE id = ? AND version_id = ?"
        made_with = {pair for item in history.versions for pair in (item.made_with or {}).items()}
        return any(snapshot.first(version, pair) is None for pair in made_with)

    def _resource(
        self, record: ImportRecord, definition: Definition, snapshot: Reader, *, final: bool
    ) -> PreparedResource | None:
        resource = record.resource
        if not record.is_unicode():
            # Its other faults are more to the point.
            prepare(definition, resource)
            raise Rejected("has text that is not Unicode")
        if record.bundle in self._disputed:
            raise PatientRejected
        if not (record.was_deferred or record.is_identified):
            self._identify(record, definition)
        if self._waits_for_others(record, definition, final=final):
            return None
        if record.condition and not self._is_wanted(record, definition, snapshot, final=final):
            return None
        unresolved = self._resolve(record, snapshot, final=final)
        if unresolved is None:
            self._note_deferred(record, definition)
            return None
        prepared = self._prepared(record, definition, snapshot)
        if prepared is None:
            return None
        self._check_patient(prepared, resource, unresolved, snapshot)
        self._report_kept(prepared, unresolved)
        name = f"{definition.name}/{prepared.id}"
        if record.condition:
            self._resolver.admit(record.condition, name)
        self._known.admit(name, prepared)
        self._unpublished.add(definition.name)
        self._note_seen(name, prepared)
        self._remark(record.place, definition, resource)
        return prepared

    def _remark(self, place: str, definition: Definition, resource: Mapping[str, Any]) -> None:
        """Report what a type remarks on a valid resource that is taken."""
        for text in definition.remarks(resource):
            self._report.remark(place, text)

    def _waits_for_others(
        self, record: ImportRecord, definition: Definition, *, final: bool
    ) -> bool:
        """Defer a record behind an earlier one, or with the patient of its document or row."""
        if definition.compartment == "id":
            self._waiting.discard(record.bundle)
        elif record.bundle in self._waiting and not final and self.defer(record, REFERENCE):
            # Whose it is becomes known with the patient.
            return True
        if self._defer_behind(record, name_of(record.resource), final=final):
            self._note_deferred(record, definition)
            return True
        return False

    def _note_deferred(self, record: ImportRecord, definition: Definition) -> None:
        """Let the records of a document or row wait for their patient, who was deferred."""
        if record.grouped and definition.compartment == "id":
            self._waiting.add(record.bundle)

    def _prepared(
        self, record: ImportRecord, definition: Definition, snapshot: Reader
    ) -> PreparedResource | None:
        """Return what a record is stored as, None where it is left out. Raises Rejected."""
        resource = record.resource
        prepared = self._patient_changes.merged_with(definition, prepare(definition, resource))
        name = f"{definition.name}/{prepared.id}"
        if self._is_left_out(definition, name, [prepared], snapshot):
            return None
        if record.table_kind and not self._known.is_same(prepared, snapshot):
            resource = self._updated(record, prepared, snapshot)
            prepared = self._patient_changes.merged_with(definition, prepare(definition, resource))
            if self._is_left_out(definition, name, [prepared], snapshot):
                return None
        return prepared

    def _updated(
        self, record: ImportRecord, prepared: PreparedResource, snapshot: Reader
    ) -> dict[str, Any]:
        """Return the record that is here with what a row says. Raises Rejected."""
        definition, stated = prepared.definition, record.resource
        name = f"{definition.name}/{prepared.id}"
        # A row does not change another source's record: it is the same, or is rejected.
        is_foreign = self._rules.is_foreign_target(name, snapshot)
        stored = None if is_foreign else self._known.find(prepared, snapshot)
        if stored is None:
            return {**stated}
        if definition.compartment == "id" and (difference := contradiction(stated, stored)):
            self._disputed.add(record.bundle)
            raise Rejected(_other_person("has the id", name, difference, stated, stored, _REMEDY))
        if is_other_allergy(stored, stated):
            raise Rejected(
                f"is {concept(stated['code'])}, but this id has another allergy here,"
                f" {concept(stored.get('code', {})) or 'without a name'}; {_OTHER_ALLERGY}",
                "AllergyIntolerance.code",
            )
        return merge_row(stored, stated, record.defaults)

    def _identify(self, record: ImportRecord, definition: Definition) -> None:
        """Give a resource the id that it has here, and repair it where that is wanted."""
        record.is_identified = True
        if record.entry_id is not None:
            record.resource["id"] = record.entry_id
        if self._options.repair:
            schemas = {name: other.schema for name, other in self._definitions.items()}
            for mended in repair(record.resource, record.place, definition.schema, schemas):
                before, after = str(mended.before), str(mended.after)
                self._report.add_repair(
                    Repaired(record.place, mended.path, mended.rule, before, after)
                )
        for place, text in record.remarks:
            self._report.remark(place, text)
        if self._options.prefix:
            self._resolver.add_prefix(record.resource)
            record.has_prefix = True

    def _defer_behind(self, record: ImportRecord, name: str, *, final: bool) -> bool:
        """Defer a record behind an earlier one of its resource: an older one must not come last."""
        if record.is_older:
            return False
        if not record.was_deferred:
            reason = self._scratch.deferral(name)
        elif self._scratch.has_older_record(name):
            reason = OLDER
        else:
            reason = REFERENCE if name in self._deferred_again and not final else None
        return reason is not None and self.defer(record, reason)

    def _is_wanted(
        self, record: ImportRecord, definition: Definition, snapshot: Reader, *, final: bool
    ) -> bool:
        """Say whether a resource with a condition is published, and assign its id.

        False if another resource is used instead, or if it is deferred. Raises Rejected,
        PublishFirst.
        """
        own = name_of(record.resource)
        if admitted := self._resolver.find_admitted(record.condition):
            # Only what is published stands for another record.
            if record.on_match is OnMatch.SKIP or admitted != own:
                raise PublishFirst
            return True
        match = self._resolver.match(own, record.condition, snapshot, own_first=record.grouped)
        if isinstance(match, Unresolved) and self._resolver.is_current(own, snapshot):
            # It was created so, and its condition does not find it alone any more.
            self._check_own_id(record, definition, own, snapshot)
            match = own
        if isinstance(match, Unresolved):
            return self._is_created(record, definition, match, final=final)
        if record.on_match is OnMatch.UPDATE:
            record.resource["id"] = match.partition("/")[2]
        elif record.on_match is OnMatch.SKIP or match != own:
            if definition.compartment == "id" and record.grouped:
                self._check_same_patient(record, definition, match, snapshot)
            self._report.count(definition.name, Change.SAME.value)
            self._note_seen(match)
            return False
        return True

    def _is_created(
        self, record: ImportRecord, definition: Definition, unresolved: Unresolved, *, final: bool
    ) -> bool:
        """Say whether a resource whose condition finds none is created; False if it is deferred.

        Raises Rejected, or PublishFirst.
        """
        if not unresolved.may_come:
            self._dispute(record)
            raise Rejected(f"{record.condition}: {unresolved.reason}")
        if definition.name in self._unpublished:
            raise PublishFirst
        is_early = not (final or record.is_older) and self._scratch.has_older(definition.name)
        # One of those may be what the condition finds.
        if is_early and self.defer(record, REFERENCE):
            self._note_deferred(record, definition)
            return False
        return True

    def _dispute(self, record: ImportRecord) -> None:
        """Note that a record is rejected whose address others of its Bundle may have."""
        if record.grouped:
            self._disputed.add(record.bundle)
        else:
            self._resolver.reject(record.bundle, name_of(record.resource))

    def _check_own_id(
        self, record: ImportRecord, definition: Definition, own: str, snapshot: Reader
    ) -> None:
        """Reject a record whose id is that of another source's record, or of another patient."""
        if self._rules.is_foreign_target(own, snapshot):
            self._dispute(record)
            raise Rejected(f"{own} {ANOTHER_SOURCE}")
        if definition.compartment == "id":
            self._check_same_patient(record, definition, own, snapshot)

    def _check_same_patient(
        self, record: ImportRecord, definition: Definition, match: str, snapshot: Reader
    ) -> None:
        """Reject a patient who shares an identifier, or the id, with another person here.

        Twins may share numbers, and placeholder numbers belong to many people.
        """
        patient = fhir_json.loads(current(snapshot, definition, match.partition("/")[2], "body"))
        if difference := contradiction(record.resource, patient):
            self._dispute(record)
            shared = f"has {_shared_identifier(record.resource, patient)}"
            remedy = _REMEDY if record.table_kind else ""
            raise Rejected(
                _other_person(shared, match, difference, record.resource, patient, remedy)
            )

    def _resolve(
        self, record: ImportRecord, snapshot: Reader, *, final: bool
    ) -> list[Unresolved] | None:
        """Resolve a resource's references; return those that are kept, None where it is deferred.

        Raises Rejected.
        """
        are_checked = self._rules.are_checked
        # Only unchanged JSON shows by its text whether there is something to resolve.
        text = None if record.table_kind or self._options.repair else record.text
        # As it was before: ids that a condition finds are not those of the source.
        original = fhir_json.dumps(record.resource) if are_checked else b""
        try:
            unresolved, targets = self._resolver.resolve(
                text,
                record.resource,
                record.bundle,
                snapshot,
                grouped=record.grouped,
                final=final,
                with_targets=are_checked,
            )
            waits = self._waits_for_source(record, targets, snapshot, final=final)
        except PublishFirst:
            if are_checked:
                record.resource = fhir_json.loads(original)
            raise
        if waits and self.defer(record, REFERENCE, content=original):
            return None
        may_come = not final and any(reference.may_come for reference in unresolved)
        if may_come and self.defer(record, REFERENCE):
            return None
        return unresolved

    def _waits_for_source(
        self, record: ImportRecord, targets: Iterable[str], snapshot: Reader, *, final: bool
    ) -> bool:
        """Say whether a record refers to what is another source's so far. Raises Rejected."""
        # What was made from a document has ids of our own.
        if (record.grouped and not record.table_kind) or record.references_checked:
            return False
        foreign = self._rules.first_foreign(targets, snapshot)
        if not foreign:
            record.references_checked = True
            return False
        if foreign.partition("/")[0] in self._unpublished:
            raise PublishFirst
        if final:
            raise Rejected(f"{foreign} {ANOTHER_SOURCE}")
        return True

    def _check_patient(
        self,
        prepared: PreparedResource,
        resource: Mapping[str, Any],
        unresolved: Sequence[Unresolved],
        snapshot: Reader,
    ) -> None:
        """Reject a resource that came as another patient's in this import.

        Reject it too if it would lose its patient here because the reference cannot be resolved.
        """
        definition, patient_id = prepared.definition, prepared.patient_id
        if patient_id is not None:
            if self._scratch.first_patient(prepared.name, patient_id) != patient_id:
                raise Rejected(MISFILED, f"{definition.name}.id")
            return
        patients = values_at(resource, f"{definition.compartment}.reference")
        for kept in unresolved:
            if kept.reference in patients:
                if current(snapshot, definition, prepared.id, "patient_id") is not None:
                    raise Rejected(f"{kept.reference}: {kept.reason}; {_LOSES_PATIENT}")
                return

    def _report_kept(self, prepared: PreparedResource, unresolved: Sequence[Unresolved]) -> None:
        for kept in unresolved:
            self._report.add_kept(kept.reference, kept.reason)
        for blob in prepared.blobs:
            if blob.address:
                definition = prepared.definition
                url = f"{definition.name}.{definition.attachments}.url"
                self._report.remark(url, _URL_BESIDE_DATA)

    def _note_seen(self, name: str, *versions: PreparedResource) -> None:
        """Note that the source holds a resource, Type/id, and its bytes."""
        if self._options.delete_missing:
            type_name, _, resource_id = name.partition("/")
            blobs = {("Binary", blob.id) for version in versions for blob in version.blobs}
            self._scratch.add_seen([(type_name, resource_id), *blobs])


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
