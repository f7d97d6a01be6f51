"""Export: everything that is stored, as NDJSON that an import takes to the same digests.

DIR gets a file for each type that has something, `AllergyIntolerance.ndjson`, `Binary.ndjson` with
the bytes of attachments, and manifest.json in the shape of Bulk Data's, its urls relative. All is
out of one snapshot, so the files fit each other whatever is written meanwhile. A line is
- a resource as its source said it (elements.py), or
- with history a Bundle of all versions of a resource (history.py).
Lines are in the order of ids. With since, only what was published then or later; what was deleted
then or later stands in deleted.ndjson, a transaction Bundle on each line, with history in the
Bundles. Views are not written: they follow from their source.

Source: FHIR Bulk Data Access 2.0.0, Export, Response - Complete Status (manifest, deleted).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.config import ConfigurationError
from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.exchange import history
from fhirapp.exchange.exports.folder import Folder
from fhirapp.exchange.exports.rows import (
    Place,
    Row,
    Selection,
    SourceJson,
    all_versions,
    count,
    current_versions,
    deletions,
    places,
    read,
    snapshot_at,
)
from fhirapp.fhir import json as fhir_json

# Told how many versions are written, and how many there are in all.
Progress = Callable[[int, int], None]
_DELETED = "deleted"


class Wanted(NamedTuple):
    """What is exported: these types, since an instant, with all versions, compressed."""

    types: Sequence[Definition]
    since: str | None = None
    history: bool = False
    compressed: bool = False

    @property
    def selection(self) -> Selection:
        return (all_versions if self.history else current_versions)(self.since)


class Written(NamedTuple):
    """A file: the type of its lines, how many there are, of how many versions; its bytes."""

    type_name: str
    url: str
    lines: int
    versions: int
    size: int
    sha256: str

    def content(self) -> dict[str, Any]:
        """Return what the manifest says of it."""
        return {
            "type": self.type_name,
            "url": self.url,
            "count": self.lines,
            "sha256": self.sha256,
        }


@dataclass
class Manifest:
    """What was written; request is how it was asked for."""

    transaction_time: str
    request: str
    output: list[Written] = field(default_factory=list)
    deleted: list[Written] = field(default_factory=list)

    def content(self) -> dict[str, Any]:
        """Return manifest.json."""
        return {
            "transactionTime": self.transaction_time,
            "request": self.request,
            "requiresAccessToken": False,
            "output": [one.content() for one in self.output],
            "deleted": [one.content() for one in self.deleted],
            "error": [],
        }

    def table(self) -> str:
        """Return the counts as a table for the terminal."""
        head = f"{'file':<32}{'resources':>10}{'versions':>10}{'bytes':>14}"
        rows = [
            f"{one.url:<32}{one.lines:>10}{one.versions:>10}{one.size:>14}"
            for one in (*self.output, *self.deleted)
        ]
        return "\n".join([head, *rows])


def wanted_types(definitions: Mapping[str, Definition], names: Sequence[str]) -> list[Definition]:
    """Return these types, all where none is named, what others point to first.

    Raises ConfigurationError.
    """
    stored = {name: one for name, one in definitions.items() if not one.view}
    for name in names:
        view = definitions[name].view if name in definitions else None
        if view:
            raise ConfigurationError(f"{name} follows from {view.source}: export that.")
        if name not in stored:
            known = ", ".join(sorted(stored))
            raise ConfigurationError(f"{name} is not a type that is stored here; use {known}.")
    chosen = [one for name, one in stored.items() if name in names or not names]
    return sorted(chosen, key=lambda one: (one.rank, one.name))


def export_to(
    path: Path,
    wanted: Wanted,
    binary: Definition,
    *,
    request: str,
    progress: Progress = lambda _done, _total: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Manifest:
    """Export to a new or empty folder; where it fails nothing stays there.

    Raises ConfigurationError, or sqlalchemy's OperationalError where the database stays locked.
    """
    with Folder(path) as folder, snapshot_at(clock) as (snapshot, taken):
        manifest = Manifest(taken, request)
        run = _Export(folder, snapshot, wanted, binary, progress)
        manifest.output += run.output()
        if wanted.since is not None and not wanted.history:
            manifest.deleted += run.deletions(wanted.since)
        folder.finish(manifest.content())
    return manifest


class _Export:
    """One run: where it writes, what it reads from, how far it is."""

    def __init__(
        self,
        folder: Folder,
        snapshot: Reader,
        wanted: Wanted,
        binary: Definition,
        progress: Progress,
    ) -> None:
        self._folder = folder
        self._snapshot = snapshot
        self._wanted = wanted
        self._binary = binary
        self._progress = progress
        self._totals = {one.name: count(snapshot, one, wanted.selection) for one in wanted.types}
        self._done = 0

    def output(self) -> Iterator[Written]:
        """Write the files of the types that have something, and tell of each."""
        for definition in self._wanted.types:
            versions = self._totals[definition.name]
            if versions:
                kind = "Bundle" if self._wanted.history else definition.name
                yield self._write(definition.name, kind, versions, self._lines(definition))

    def deletions(self, since: str) -> Iterator[Written]:
        """Write what was deleted, if anything was, and tell of it."""
        selection = deletions(since)
        total = sum(count(self._snapshot, one, selection) for one in self._wanted.types)
        if total:
            yield self._write(_DELETED, "Bundle", total, self._deletions(selection))

    def _write(
        self, name: str, kind: str, versions: int, lines: Iterator[Iterator[bytes]]
    ) -> Written:
        compressed = self._wanted.compressed
        url = f"{name}.ndjson{'.gz' if compressed else ''}"
        file = self._folder.open(url, compressed=compressed)
        for pieces in lines:
            file.write_line(pieces)
        file.finish()
        return Written(kind, url, file.lines, versions, file.size, file.sha256)

    def _lines(self, definition: Definition) -> Iterator[Iterator[bytes]]:
        """Yield the lines of a type, each in pieces, which are read before the next line is."""
        source = SourceJson(definition)
        versions = self._versions(definition, source)
        if not self._wanted.history:
            for place, row, _ in versions:
                if row is not None:
                    yield source.pieces(self._snapshot, place, row)
            return
        for resource_id, together in groupby(versions, key=lambda version: version[0].id):
            yield self._history(f"{definition.name}/{resource_id}", source, together)

    def _history(
        self,
        address: str,
        source: SourceJson,
        versions: Iterator[tuple[Place, Row, Mapping[str, int]]],
    ) -> Iterator[bytes]:
        """Yield the pieces of a Bundle of versions."""
        before = history.BEFORE
        for place, row, made_with in versions:
            yield before
            before = b","
            pieces = None if row is None else source.pieces(self._snapshot, place, row)
            number, moment = place.version_id, place.last_updated
            yield from history.entry(address, number, moment, pieces, made_with)
        yield history.AFTER

    def _versions(
        self, definition: Definition, source: SourceJson
    ) -> Iterator[tuple[Place, Row, Mapping[str, int]]]:
        """Yield versions, their rows, and which versions of Binaries they were made with."""
        snapshot = self._snapshot
        found = places(snapshot, definition, self._wanted.selection, source.size)
        for batch in read(snapshot, definition, source.columns, found):
            self._done += len(batch)
            attached = self._attached(batch) if self._wanted.history else {}
            for place, row in batch:
                yield place, row, attached.get(place.pk, {})
            self._progress(self._done, sum(self._totals.values()))

    def _attached(self, batch: Sequence[tuple[Place, Row]]) -> Mapping[int, Mapping[str, int]]:
        """Return the version numbers of the Binaries of each row, by Binary id."""
        attached: dict[int, dict[str, int]] = {
            place.pk: fhir_json.loads(row[2]) for place, row in batch if row and row[2]
        }
        wanted = sorted({pk for rows in attached.values() for pk in rows.values()})
        if not wanted:
            return {}
        marks = ", ".join("?" * len(wanted))
        asked = f"SELECT pk, version_id FROM {self._binary.sql_table} WHERE pk IN ({marks})"
        number = dict(self._snapshot.all(asked, wanted))
        return {
            carrier: {binary_id: number[pk] for binary_id, pk in rows.items()}
            for carrier, rows in attached.items()
        }

    def _deletions(self, selection: Selection) -> Iterator[Iterator[bytes]]:
        """Yield the deletions, each as a Bundle that repeats it elsewhere."""
        for definition in self._wanted.types:
            for place in places(self._snapshot, definition, selection, "0"):
                request = {"method": "DELETE", "url": f"{definition.name}/{place.id}"}
                entry = {"request": request}
                bundle = {"resourceType": "Bundle", "type": "transaction", "entry": [entry]}
                yield iter((fhir_json.dumps(bundle),))
