"""The publication of staged records: groups in the order of their types, until none waits.

What others refer to comes first, so most references lead to what is here. A record that refers to
one that may still come waits for the next round; where no round publishes anything, references are
kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from fhirapp.definition import Definition
from fhirapp.features.imports.admission import Admission, Verdict
from fhirapp.features.imports.batches import Admitted, Batch, identifiers_in
from fhirapp.features.imports.histories import ResourceHistory
from fhirapp.features.imports.records import ImportRecord, Rejected
from fhirapp.features.imports.report import Report
from fhirapp.features.imports.staging import Group, Stage
from fhirapp.store.prepare import PreparedResource, deletion
from fhirapp.store.version import Change

# Types of one rank whose turn comes first: others of that rank refer to them.
_FIRST_TYPES = ("Organization", "Practitioner", "Patient")


class Publication:
    """Admits the groups of a stage, in batches."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        stage: Stage,
        batch: Batch,
        admission: Admission,
        report: Report,
        reject: Callable[[ImportRecord, Rejected], None],
    ) -> None:
        self._definitions = definitions
        self._stage = stage
        self._batch = batch
        self._admission = admission
        self._report = report
        self._reject = reject
        # The groups that wait, by type.
        self._waiting: defaultdict[str, list[int]] = defaultdict(list)

    def run(self) -> None:
        """Publish everything that is staged."""
        order = sorted(self._stage.types(), key=self._position)
        # First, so that no condition finds what is deleted; records before those they refer to.
        for type_name in reversed(order):
            for group in self._stage.deletions(type_name):
                self._delete(type_name, group)
        self._batch.publish()
        for position, type_name in enumerate(order):
            self._batch.expected = dict.fromkeys([*order[position:], *self._waiting])
            self._take_all(type_name, self._stage.groups(type_name))
        while self._waiting:
            self._take_waiting([name for name in order if name in self._waiting])
        self._batch.publish()

    def _position(self, type_name: str) -> tuple[int, int, str]:
        """Return the position of a type in the order of publication."""
        position = _FIRST_TYPES.index(type_name) if type_name in _FIRST_TYPES else len(_FIRST_TYPES)
        return self._definitions[type_name].rank, position, type_name

    def _take_waiting(self, order: Sequence[str]) -> None:
        """Take the waiting groups once more.

        If all of them still wait, they no longer wait for records that a condition may find; if all
        wait even then, they wait for no record.
        """
        groups = {type_name: [*numbers] for type_name, numbers in self._waiting.items()}
        identifiers = {type_name: self._identifiers(type_name) for type_name in order}
        for type_name in order:
            self._batch.expected = {name: identifiers[name] for name in self._waiting}
            self._take_groups(type_name)
        for expected in (dict.fromkeys(order, ()), {}):
            for type_name in order:
                if self._waiting != groups:
                    return
                self._batch.expected = expected
                self._take_groups(type_name)

    def _identifiers(self, type_name: str) -> set[str]:
        """Return the identifiers of the records of a type that wait."""
        return {
            identifier
            for number in self._waiting[type_name]
            for record in self._stage.group(type_name, number)
            if record.resource
            for path in ("", "entry.resource.")
            for identifier in identifiers_in(record.resource, path)
        }

    def _take_groups(self, type_name: str) -> None:
        numbers = self._waiting.pop(type_name)
        self._take_all(type_name, (self._stage.group(type_name, number) for number in numbers))

    def _take_all(self, type_name: str, groups: Iterable[Group]) -> None:
        definition = self._definitions[type_name]
        for group in groups:
            self._take(definition, group)

    def _delete(self, type_name: str, group: Group) -> None:
        """Admit a deletion; what came before it counts no more."""
        numbers = []
        for last in group:
            numbers.append(last.number)
        content = deletion(self._definitions[type_name], last.deletes.partition("/")[2])
        self._batch.add(Admitted(last, content, superseded=numbers[:-1]))

    def _take(self, definition: Definition, group: Group) -> None:
        """Admit a group: its histories, and the last content after them."""
        contents = _Contents()
        # The documents and rows that the patient was made from.
        containers: set[int] = set()
        is_waiting = False
        for record in group:
            if record.is_converted and definition.compartment == "id":
                containers.add(record.container)
            is_waiting = is_waiting or not self._add(record, definition, contents)
        if is_waiting:
            self._waiting[definition.name].append(record.group_number)
            # With their patient, all records of a document or a row wait.
            self._admission.waiting_containers |= containers
            return
        self._admission.waiting_containers -= containers
        for record, error in contents.rejections:
            self._reject(record, error)
        if contents.unchanged:
            self._report.count(definition.name, Change.SAME.value, contents.unchanged)
        for admitted in contents.admitted:
            self._batch.add(admitted)

    def _add(self, record: ImportRecord, definition: Definition, contents: _Contents) -> bool:
        """Admit a record of a group; say whether it need not wait."""
        if record.faults:
            contents.rejections.append((record, Rejected(faults=record.faults)))
        elif record.deletes:
            resource_id = record.deletes.partition("/")[2]
            contents.add(Admitted(record, deletion(definition, resource_id)))
        else:
            try:
                result = self._admission.admit(record, contents.newest)
            except Rejected as error:
                # Without its traceback, which would keep the whole group in memory.
                contents.rejections.append((record, type(error)(faults=error.faults)))
                return True
            if isinstance(result, Admitted):
                contents.add(result)
            contents.unchanged += result is Verdict.UNCHANGED
            return result is not Verdict.WAITS
        return True


class _Contents:
    """What comes of the records of one group."""

    def __init__(self) -> None:
        self.rejections: list[tuple[ImportRecord, Rejected]] = []
        self.unchanged = 0
        self._histories: list[Admitted] = []
        self._last: Admitted | None = None
        # Numbers of records.
        self._superseded: list[int] = []
        self._differ = False

    @property
    def newest(self) -> PreparedResource | None:
        """What the resource is after the records so far; None before the first."""
        last = self._last or (self._histories[-1] if self._histories else None)
        if last is None:
            return None
        content = last.content
        return content.versions[-1].prepared if isinstance(content, ResourceHistory) else content

    def add(self, admitted: Admitted) -> None:
        """Add what a record is published as; it supersedes the one before."""
        if self._last is not None:
            self._superseded.append(self._last.record.number)
            earlier, content = self._last.content, admitted.content
            if isinstance(earlier, PreparedResource) and isinstance(content, PreparedResource):
                are_resources = not (earlier.deleted or content.deleted)
                self._differ |= are_resources and earlier.digest != content.digest
            if admitted.record.table_kind:
                # A row adds to what was admitted before it.
                kept = dict.fromkeys([*self._last.kept, *admitted.kept])
                admitted = admitted._replace(kept=[*kept])
        if isinstance(admitted.content, ResourceHistory):
            self._histories.append(admitted)
            self._last = None
        else:
            self._last = admitted

    @property
    def admitted(self) -> list[Admitted]:
        """The histories, and the last content after them."""
        contents = [*self._histories, *([self._last] if self._last else [])]
        if contents:
            last = contents[-1]
            contents[-1] = last._replace(superseded=self._superseded, differ=self._differ)
        return contents
