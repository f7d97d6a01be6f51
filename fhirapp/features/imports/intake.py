"""From a record as it came to the stage: its id here, its repair, its prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from fhirapp.definition import Definition
from fhirapp.features.exports.lines import history_of
from fhirapp.features.imports import bundles, staging
from fhirapp.features.imports.records import ImportRecord, Rejected, name_of
from fhirapp.features.imports.references import add_prefix
from fhirapp.features.imports.repair import repair
from fhirapp.features.imports.report import Repaired, Report
from fhirapp.features.imports.runs import Options
from fhirapp.features.imports.staging import Stage
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.prepare import prepare

Reject = Callable[[ImportRecord, Rejected], None]


class Intake:
    """Stages the records of one import; those that cannot be staged are rejected."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        options: Options,
        stage: Stage,
        report: Report,
        reject: Reject,
    ) -> None:
        self._definitions = definitions
        self._options = options
        self._stage = stage
        self._report = report
        self._reject = reject

    def take(self, record: ImportRecord) -> None:
        """Stage a record. Raises ConfigurationError where the disk is full."""
        try:
            self._take(record)
        except InvalidResource as error:
            self._reject(record, Rejected(faults=error.faults))
        except Rejected as error:
            self._reject(record, error)

    def _take(self, record: ImportRecord) -> None:
        if record.faults:
            raise Rejected(faults=record.faults)
        if record.deletes:
            type_name = record.deletes.partition("/")[0]
            if self._is_stored(type_name):
                name = record.deletes.replace("/", f"/{self._options.prefix}", 1)
                self._stage.add(staging.DELETION, name, record, None)
            return
        type_name = record.type_name or ""
        if not type_name:
            raise Rejected("is required; each line is a resource", "resourceType")
        if type_name == "Bundle":
            self._take_history(record)
        elif self._is_stored(type_name):
            self._take_resource(record, self._definitions[type_name])

    def _is_stored(self, type_name: str) -> bool:
        """Say whether a type is stored; one that is not is reported as skipped."""
        definition = self._definitions.get(type_name)
        if definition is None or definition.view:
            self._report.skipped[type_name] += 1
            return False
        return True

    def _take_history(self, record: ImportRecord) -> None:
        if self._options.prefix:
            raise Rejected("is a history, whose ids stay: import it without --id-prefix")
        history = history_of(record.resource)
        definition = self._definitions.get(history.type_name)
        if definition is None or definition.view:
            self._report.skipped["Bundle"] += 1
            return
        name = f"{history.type_name}/{history.id}"
        content = fhir_json.dumps(record.resource) if record.container else record.text
        self._stage.add(staging.HISTORY, name, record, content)

    def _take_resource(self, record: ImportRecord, definition: Definition) -> None:
        if not record.is_unicode():
            raise _unwritable(record, definition, "has text that is not Unicode")
        resource, prefix = record.resource, self._options.prefix
        came_as = resource.get("id")
        if record.entry_id is not None:
            resource["id"] = came_as = record.entry_id
        if self._options.repair:
            self._repair(record, definition)
        for place, text in record.remarks:
            self._report.remark(place, text)
        if record.container and not record.is_converted:
            self._add_addresses(record, came_as)
        if prefix:
            add_prefix(resource, prefix)
        is_unchanged = not (
            prefix or self._options.repair or record.container or record.is_converted
        )
        try:
            content = record.text if is_unchanged else fhir_json.dumps(resource)
        except TypeError:
            raise _unwritable(record, definition, "is nested too deeply") from None
        # Without an id it belongs to no group.
        name = name_of(resource) if resource.get("id") is not None else f"{record.type_name}/"
        self._stage.add(staging.RESOURCE, name, record, content)

    def _repair(self, record: ImportRecord, definition: Definition) -> None:
        schemas = {name: other.schema for name, other in self._definitions.items()}
        for repaired in repair(record.resource, record.place, definition.schema, schemas):
            before, after = str(repaired.before), str(repaired.after)
            self._report.repaired.add(
                Repaired(record.place, repaired.path, repaired.rule, before, after), repaired.rule
            )

    def _add_addresses(self, record: ImportRecord, came_as: Any) -> None:
        """Note where the fullUrl of an entry leads, and the id that it had before its repair."""
        resource, prefix = record.resource, self._options.prefix
        resource_id = resource.get("id")
        names = [record.full_url]
        if resource_id != came_as or record.condition:
            # Relative references mean the entry, whatever id it has here.
            names += [f"{record.type_name}/{came_as}"] if came_as else []
            names.append(bundles.relative_name(record.full_url))
        if resource_id is None and not record.condition:
            return
        target = f"{record.type_name}/{prefix}{resource_id or ''}"
        for name in filter(None, names):
            # Text that is no Unicode leads nowhere.
            with suppress(UnicodeEncodeError):
                self._stage.add_address(
                    record.container, bundles.prefixed(name, prefix), target, record.condition
                )


def _unwritable(record: ImportRecord, definition: Definition, reason: str) -> Rejected:
    """Return the error for a resource that no file holds. Raises InvalidResource."""
    # Its other faults are more to the point.
    prepare(definition, record.resource)
    return Rejected(reason)
