"""From a unit to what is published: its id here, its references, its check.

What waits for a reference, or behind an earlier resource that waits, is put aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from fhirapp.address import own_prefix
from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.exchange.ccda import contradiction
from fhirapp.exchange.imports.bundles import WhenFound
from fhirapp.exchange.imports.histories import Past, read_past
from fhirapp.exchange.imports.records import Unit, UnitReader
from fhirapp.exchange.imports.references import Resolver, Unresolved, targets_of
from fhirapp.exchange.imports.report import Mended, Report
from fhirapp.exchange.imports.runs import Options
from fhirapp.exchange.imports.scratch import Aside, Scratch
from fhirapp.exchange.imports.sources import ANOTHERS, Apart
from fhirapp.exchange.repair import repair
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource
from fhirapp.search.values import values_at
from fhirapp.store.prepare import Prepared, prepare
from fhirapp.store.version import Change

# Why something was put aside: for a reference, or because an earlier version had its content.
REFERENCE, OLDER = "reference", "older"
MISFILED = (
    "stands for a record of another patient in this import already; each record needs an id of its "
    "own"
)

BESIDE_DATA = "stands beside data, which is stored; the url is kept in an extension"
_LEAVES = "the record is a patient's here, and would be nobody's"


class Deletion(NamedTuple):
    """A resource that the source says is deleted."""

    definition: Definition
    id: str


Admitted = Prepared | Deletion | Past


class Refused(Exception):
    """A unit that is not imported; faults are (element path, what was expected)."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__(faults)
        self.faults = faults


class Follower(Refused):
    """A unit that is refused because its patient is."""


class PublishFirst(Exception):
    """What a unit asks for may be among those that were admitted and are not published yet."""


class Admission:
    """Admits the units of one import."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        options: Options,
        scratch: Scratch,
        report: Report,
    ) -> None:
        self._definitions = definitions
        self._options = options
        self._scratch = scratch
        self._report = report
        own = own_prefix()
        bases = frozenset([*options.bases, *([own] if own else [])])
        self._resolver = Resolver(definitions, scratch, bases, options.prefix)
        self.apart = Apart(definitions)
        self.reader = UnitReader(scratch, options.prefix, report.remark)
        # Types of what was admitted and is not published yet.
        self._unpublished: set[str] = set()
        # Numbers of documents of which it is not clear whom they are about.
        self._spoilt: set[int] = set()
        # Names of what was put aside again in this round.
        self._waiting: set[str] = set()

    def parsed(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Yield units whose JSON is parsed; a Bundle becomes what it holds."""
        for unit in units:
            if not (unit.faults or unit.deletes) and unit.resource is None:
                try:
                    unit.resource = fhir_json.loads(unit.text)
                except ValueError as error:
                    unit.faults.append(("", f"is not JSON: {error}"))
            resource: Any = unit.resource
            if type_of(resource) == "Bundle" and resource.get("type") != "history":
                yield from self.parsed(self.reader.of_bundle(resource, unit.place))
            else:
                yield unit

    def admit(self, unit: Unit, snapshot: Reader, *, final: bool) -> Admitted | None:
        """Return what a unit asks for; None where that is nothing, or has to wait.

        What is final waits no longer. Raises Refused.
        """
        if unit.faults:
            raise Refused(unit.faults)
        if unit.deletes:
            return self._deletion(unit, final=final)
        type_name = type_of(unit.resource)
        if type_name is None:
            raise Refused([("resourceType", "is required; each line is a resource")])
        try:
            if type_name == "Bundle":
                return self._past(unit, snapshot, final=final)
            definition = self._definitions.get(type_name)
            if definition is None or definition.view:
                self._report.skipped[type_name] += 1
                return None
            return self._resource(unit, definition, snapshot, final=final)
        except InvalidResource as error:
            raise Refused(error.faults) from None

    def published(self) -> None:
        """Note that what was admitted is published."""
        self._unpublished.clear()

    def put_aside(self, unit: Unit, why: str, name: str = "", content: bytes = b"") -> bool:
        """Keep a unit for later; False where it is none that could be published ever."""
        if not (content or unit.deletes):
            try:
                content = fhir_json.dumps(unit.resource)
            except TypeError:
                return False
        name = name or subject_of(unit)
        is_apart = unit.whole or unit.is_apart
        self._scratch.put_aside(
            why,
            Aside(
                name,
                unit.place,
                content,
                unit.bundle,
                unit.condition,
                unit.when_found.value,
                is_apart,
            ),
        )
        if unit.settled:
            self._waiting.add(name)
        return True

    def take_prefix_off(self, unit: Unit) -> None:
        """Make a unit's resource what it was without the prefix, so that it can get it again."""
        unit.has_prefix = False
        with suppress(TypeError):
            self._resolver.take_prefix_off(unit.resource)
            if not unit.entry_of:
                unit.text = fhir_json.dumps(unit.resource)

    def again(self, why: str) -> Iterator[Unit]:
        """Yield what was put aside so far; what comes for one resource in its order."""
        self._waiting.clear()
        for one in self._scratch.take_aside(why, by_name=why == OLDER):
            yield replace(taken_up(one), has_prefix=bool(self._options.prefix))

    def _resource(
        self, unit: Unit, definition: Definition, snapshot: Reader, *, final: bool
    ) -> Prepared | None:
        resource = unit.resource
        # JSON in UTF-8 holds other text by an escape alone.
        may_be_none = bool(unit.row_of or unit.whole or b"\\u" in unit.text)
        if may_be_none and not _is_text(resource, unit.condition):
            prepare(definition, resource)
            raise Refused([("", "has text that is no Unicode")])
        if unit.bundle in self._spoilt:
            raise Follower([])
        if not (unit.settled or unit.has_id):
            self._settle(unit, definition)
        # What waits holds up what comes after it, lest an older one comes last.
        why = None if final else self._waits_behind(name_of(resource), settled=unit.settled)
        if why and self.put_aside(unit, why):
            return None
        if unit.condition and not self._is_meant(unit, definition, snapshot):
            return None
        unresolved = self._resolved(unit, snapshot, final=final)
        if unresolved is None:
            return None
        prepared = prepare(definition, resource)
        self._check_patient(prepared, resource, unresolved, snapshot)
        self._report_kept(prepared, unresolved)
        if unit.condition:
            self._resolver.remember(unit.condition, f"{definition.name}/{prepared.id}")
        self._unpublished.add(definition.name)
        self._saw(f"{definition.name}/{prepared.id}", prepared)
        return prepared

    def _report_kept(self, prepared: Prepared, unresolved: Sequence[Unresolved]) -> None:
        """Report what is stored otherwise than a reader would expect."""
        definition = prepared.definition
        for one in unresolved:
            self._report.keep(one.reference, one.reason)
        for blob in prepared.blobs:
            if blob.address:
                self._report.remark(f"{definition.name}.{definition.attachments}.url", BESIDE_DATA)

    def _check_patient(
        self,
        prepared: Prepared,
        resource: Mapping[str, Any],
        unresolved: Sequence[Unresolved],
        snapshot: Reader,
    ) -> None:
        """Refuse what came as another patient's before, also where that was here already.

        And what would leave its patient, because it cannot be told any more who that is.
        """
        definition = prepared.definition
        name, patient_id = f"{definition.name}/{prepared.id}", prepared.columns["patient_id"]
        if patient_id is not None:
            if self._scratch.file(name, patient_id) != patient_id:
                raise Refused([(f"{definition.name}.id", MISFILED)])
            return
        patients = values_at(resource, f"{definition.compartment}.reference")
        of_patient = [one for one in unresolved if one.reference in patients]
        if of_patient:
            asked = f"SELECT patient_id FROM {definition.sql_table} WHERE id = ? AND is_current"
            row = snapshot.first(asked, (prepared.id,))
            if row is not None and row[0] is not None:
                raise Refused(
                    [("", f"{of_patient[0].reference}: {of_patient[0].reason}; {_LEAVES}")]
                )

    def _resolved(self, unit: Unit, snapshot: Reader, *, final: bool) -> list[Unresolved] | None:
        """Make a resource's references lead here; return what cannot, None where it has to wait.

        Raises Refused.
        """
        # Only JSON as it came tells by its text whether there is something to resolve.
        text = None if unit.row_of or self._options.repair else unit.text
        # As it is before its references lead here: what a condition finds is nobody's id.
        original = fhir_json.dumps(unit.resource) if self.apart.is_on else b""
        unresolved, targets = self._resolver.resolve(
            text,
            unit.resource,
            unit.bundle,
            snapshot,
            final=final,
            with_targets=self.apart.is_on,
        )
        try:
            waits = self._waits_apart(unit, targets, snapshot, final=final)
        except PublishFirst:
            unit.resource = fhir_json.loads(original)
            raise
        if waits and self.put_aside(unit, REFERENCE, content=original):
            return None
        may_come = not final and any(one.may_come for one in unresolved)
        if may_come and self.put_aside(unit, REFERENCE):
            return None
        return unresolved

    def _waits_apart(
        self, unit: Unit, targets: Iterable[str], snapshot: Reader, *, final: bool
    ) -> bool:
        """Say whether a unit refers to what is another source's as yet. Raises Refused."""
        # What was made of a document or a row has ids of ours.
        if unit.whole or unit.is_apart:
            return False
        stranger = self.apart.stranger(targets, snapshot)
        if not stranger:
            unit.is_apart = True
            return False
        if stranger.partition("/")[0] in self._unpublished:
            raise PublishFirst
        if final:
            raise Refused([("", f"{stranger} {ANOTHERS}")])
        return True

    def _saw(self, name: str, *versions: Prepared) -> None:
        """Note that the source holds a resource, Type/id, and its bytes."""
        if self._options.delete_missing:
            type_name, _, resource_id = name.partition("/")
            blobs = {("Binary", blob.id) for one in versions for blob in one.blobs}
            self._scratch.saw([(type_name, resource_id), *blobs])

    def _settle(self, unit: Unit, definition: Definition) -> None:
        """Give a resource the id that it has here; repair it where that is asked for."""
        unit.has_id = True
        if unit.own_id is not None:
            unit.resource["id"] = unit.own_id
        if self._options.repair:
            schemas = {name: one.schema for name, one in self._definitions.items()}
            for one in repair(unit.resource, unit.place, definition.schema, schemas):
                mended = Mended(unit.place, one.path, one.rule, str(one.before), str(one.after))
                self._report.mend(mended)
        for where, what in unit.remarks:
            self._report.remark(where, what)
        if self._options.prefix:
            self._resolver.put_prefix(unit.resource)
            unit.has_prefix = True

    def _waits_behind(self, name: str, *, settled: bool) -> str | None:
        if settled:
            return REFERENCE if name in self._waiting else None
        return self._scratch.waits(name)

    def _is_meant(self, unit: Unit, definition: Definition, snapshot: Reader) -> bool:
        """Say whether a resource that comes with a condition is to be published, and as which."""
        own = name_of(unit.resource)
        found = self._resolver.meant(own, unit.condition, snapshot)
        if isinstance(found, Unresolved):
            if not found.may_come:
                if unit.whole:
                    self._spoilt.add(unit.bundle)
                raise Refused([("", f"{unit.condition}: {found.reason}")])
            if definition.name in self._unpublished:
                raise PublishFirst
            return True
        if unit.when_found is WhenFound.IT_IS:
            unit.resource["id"] = found.partition("/")[2]
        elif unit.when_found is WhenFound.SKIP or found != own:
            if unit.whole and definition.compartment == "id":
                self._check_same(unit, definition, found, snapshot)
            self._report.count(definition.name, Change.SAME.value)
            self._saw(found)
            return False
        return True

    def _check_same(self, unit: Unit, definition: Definition, found: str, snapshot: Reader) -> None:
        """Refuse a document whose patient has a number of somebody here, and is somebody else.

        Twins share numbers, and placeholders for those that nobody knew belong to many people.
        """
        asked = f"SELECT body FROM {definition.sql_table} WHERE id = ? AND is_current"
        row = snapshot.first(asked, (found.partition("/")[2],))
        if row is None and definition.name in self._unpublished:
            raise PublishFirst
        known = fhir_json.loads(row[0]) if row else {}
        if row and (why := contradiction(unit.resource, known)):
            self._spoilt.add(unit.bundle)
            number = _shared_number(unit.resource, known)
            born, here = (one.get("birthDate", "not recorded") for one in (unit.resource, known))
            raise Refused(
                [("", f"has {number} of {found}, who {why}: birth date {born}, there {here}")]
            )

    def _lacks_bytes(self, past: Past, snapshot: Reader) -> bool:
        """Say whether versions were made with Binaries that are not here yet."""
        table = self._definitions["Binary"].sql_table
        asked = f"SELECT 1 FROM {table} WHERE id = ? AND version_id = ?"
        return any(snapshot.first(asked, pair) is None for pair in _binaries(past))

    def _deletion(self, unit: Unit, *, final: bool) -> Deletion | None:
        if not (unit.settled or unit.has_id):
            unit.has_id = True
            unit.deletes = unit.deletes.replace("/", f"/{self._options.prefix}", 1)
        why = None if final else self._waits_behind(unit.deletes, settled=unit.settled)
        if why and self.put_aside(unit, why):
            return None
        type_name, _, resource_id = unit.deletes.partition("/")
        definition = self._definitions.get(type_name)
        if definition is None or definition.view:
            self._report.skipped[type_name] += 1
            return None
        return Deletion(definition, resource_id)

    def _past(self, unit: Unit, snapshot: Reader, *, final: bool) -> Past | None:
        if self._options.prefix:
            raise Refused([("", "is a history, which keeps its ids: none takes --id-prefix")])
        past = read_past(unit.resource, self._definitions)
        if past is None:
            self._report.skipped["Bundle"] += 1
            return None
        name = f"{past.definition.name}/{past.id}"
        targets = targets_of(unit.resource) if self.apart.is_on else ()
        if self._waits_apart(unit, targets, snapshot, final=final) and self.put_aside(
            unit, REFERENCE, name
        ):
            return None
        if not final and self._lacks_bytes(past, snapshot):
            if "Binary" in self._unpublished:
                raise PublishFirst
            if self.put_aside(unit, REFERENCE, name):
                return None
        self._unpublished.add(past.definition.name)
        self._saw(name, *(one.prepared for one in past.versions))
        return past


def _binaries(past: Past) -> set[tuple[str, int]]:
    """Return (id, number) of the versions of Binaries that versions were made with."""
    return {pair for one in past.versions for pair in (one.made_with or {}).items()}


def type_of(resource: Any) -> str | None:
    """Return the type that a resource says it has, None where it says none."""
    found = resource.get("resourceType") if type(resource) is dict else None
    return found if type(found) is str else None


def taken_up(one: Aside) -> Unit:
    """Return what was put aside as the unit that it was."""
    if not one.content:
        return Unit(one.place, deletes=one.name, settled=True)
    return Unit(
        one.place,
        one.content,
        fhir_json.loads(one.content),
        bundle=one.bundle,
        condition=one.condition,
        when_found=WhenFound(one.when_found),
        settled=True,
        is_apart=bool(one.is_apart),
    )


def _is_text(*content: Any) -> bool:
    """Say whether all text is Unicode: neither a database nor a file takes other."""
    try:
        fhir_json.dumps(content)
    except TypeError:
        return False
    return True


def _shared_number(*patients: Mapping[str, Any]) -> str:
    """Return the first identifier that two patients have both, however it is written."""
    one, other = (
        {
            (given.get("system"), str(given.get("value")).replace("-", "").casefold()): given
            for given in patient.get("identifier", ())
        }
        for patient in patients
    )
    shared = [given for key, given in one.items() if key in other]
    return (
        f"the number {shared[0].get('system')}|{shared[0].get('value')}" if shared else "a number"
    )


def subject_of(unit: Unit) -> str:
    """Return Type/id of what a unit is about."""
    return unit.deletes or name_of(unit.resource)


def name_of(resource: Mapping[str, Any]) -> str:
    """Return Type/id."""
    return f"{resource['resourceType']}/{resource.get('id')}"
