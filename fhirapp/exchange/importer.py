"""Import NDJSON: batches of lines, each published in one transaction.

A line that is refused is reported with its place, and the others are published all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from fhirapp.config import Settings
from fhirapp.db import Reader, db, writing
from fhirapp.exchange.references import Resolver
from fhirapp.exchange.report import Report
from fhirapp.exchange.sources import Line, find_files, read_lines
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource
from fhirapp.fhir.temporal import instant
from fhirapp.store.definition import Definition
from fhirapp.store.notes import Notes, blob_ids
from fhirapp.store.prepare import Prepared, prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.reindex import rendering_in_force
from fhirapp.store.render import Rendering

BATCH = 1_000
# Values of one SELECT: SQLite takes 32,766.
_AT_ONCE = 10_000

# Told the bytes of each batch that is done.
Progress = Callable[[int], None]


def import_paths(
    paths: Sequence[Path],
    definitions: Mapping[str, Definition],
    settings: Settings,
    progress: Progress = lambda _bytes: None,
) -> Report:
    """Import NDJSON files and folders of them. Raises ConfigurationError for any other path."""
    with Notes(definitions["Binary"]) as notes:
        run = Import(definitions, Rendering.of(settings), notes, progress)
        for path in find_files(paths, definitions):
            run.take(read_lines(path))
        run.finish()
    run.report.unreadable.update(notes.unreadable)
    return run.report


def total_bytes(paths: Sequence[Path], definitions: Mapping[str, Definition]) -> int:
    """Return how much there is to read. Raises ConfigurationError."""
    return sum(path.stat().st_size for path in find_files(paths, definitions))


class Import:
    """One run: what it published, and the lines that wait for what they point to."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        rendering: Rendering,
        notes: Notes,
        progress: Progress,
    ) -> None:
        self.report = Report()
        self._definitions = definitions
        self._rendering = rendering
        self._notes = notes
        self._progress = progress
        self._resolver = Resolver(definitions)
        self._waiting: list[Line] = []
        # What waits: later lines of the same resource wait too, lest an older one comes last.
        self._waiting_for: set[tuple[str, Any]] = set()

    def take(self, lines: Iterable[Line]) -> None:
        """Publish lines, in batches."""
        for batch in _batches(lines, BATCH):
            self._publish(batch, final=False)

    def finish(self) -> None:
        """Publish what waited; references that still cannot be resolved are kept as they are."""
        waiting, self._waiting = self._waiting, []
        self._waiting_for.clear()
        for batch in _batches(waiting, BATCH):
            self._publish(batch, final=True)

    def _publish(self, lines: Sequence[Line], *, final: bool) -> None:
        snapshot = Reader(db.engine)
        try:
            ready = [
                prepared
                for line in lines
                if (prepared := self._prepare(line, snapshot, final=final)) is not None
            ]
            ready = self._notes.read(ready, self._known(blob_ids(ready), snapshot))
        finally:
            snapshot.close()
        with writing() as connection:
            # The time is taken while nobody else writes, so that it rises with the versions.
            publisher = Publisher(
                connection,
                now=instant(datetime.now(UTC)),
                rendering=rendering_in_force(connection, self._rendering),
                binary=self._definitions["Binary"],
            )
            for group in _by_type(ready):
                for prepared, change in zip(group, publisher.publish(group), strict=True):
                    self.report.count(prepared.definition.name, change)
        if not final:
            self._progress(sum(len(line.text) for line in lines))

    def _known(self, ids: Sequence[str], snapshot: Reader) -> frozenset[str]:
        """Return which documents are stored already: their words need not be read again."""
        table = self._definitions["Binary"].sql_table
        known: set[str] = set()
        for batch in _batches(ids, _AT_ONCE):
            marks = ", ".join("?" * len(batch))
            asked = f"SELECT id FROM {table} WHERE is_current AND id IN ({marks})"
            known.update(row[0] for row in snapshot.all(asked, batch))
        return frozenset(known)

    def _prepare(self, line: Line, snapshot: Reader, *, final: bool) -> Prepared | None:
        """Return what a line holds; None where it is refused, skipped, or has to wait."""
        try:
            resource = fhir_json.loads(line.text)
        except ValueError as error:
            self.report.reject(line.place, [f"is not JSON: {error}"])
            return None
        type_name = resource.get("resourceType") if type(resource) is dict else None
        if type(type_name) is not str:
            self.report.reject(line.place, ["resourceType: is required; each line is a resource"])
            return None
        definition = self._definitions.get(type_name)
        if definition is None or definition.view:
            self.report.skipped[type_name] += 1
            return None
        unresolved = self._resolver.resolve(line.text, resource, snapshot)
        name = (type_name, str(resource.get("id")))
        if not final and (name in self._waiting_for or any(one.may_come for one in unresolved)):
            self._waiting.append(line)
            self._waiting_for.add(name)
            return None
        for one in unresolved:
            self.report.keep(one.reference, one.reason)
        try:
            return prepare(definition, resource)
        except InvalidResource as error:
            faults = [f"{path}: {message}" for path, message in error.faults]
            self.report.reject(line.place, faults)
            return None


def _by_type(ready: Sequence[Prepared]) -> Iterator[list[Prepared]]:
    """Group what is ready by type, what others point to first: bytes before their documents."""
    groups: dict[str, list[Prepared]] = {}
    for prepared in ready:
        groups.setdefault(prepared.definition.name, []).append(prepared)
    yield from sorted(groups.values(), key=lambda group: group[0].definition.rank)


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
