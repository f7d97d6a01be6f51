"""Export: everything that is stored, as NDJSON that can be imported with the same digests.

The folder gets a file for each type that has records, `AllergyIntolerance.ndjson`, `Binary.ndjson`
with the bytes of attachments, and manifest.json in the format of Bulk Data, its urls relative. All
comes from one snapshot, so the files fit each other whatever is written meanwhile. A line is
- a resource as its source sent it (rows.py), or
- with history, a Bundle of all versions of a resource (features/exports/history.py).
Lines are in the order of ids. With since, only what was published then or later; what was deleted
then or later is in deleted.ndjson, a transaction Bundle on each line, or with history in the
Bundles. Views are not exported: they follow from their source.

Source: FHIR Bulk Data Access 2.0.0, Export, Response - Complete Status (manifest, deleted).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.audit.events import record_export
from fhirapp.config import ConfigurationError
from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.features.exports import history
from fhirapp.features.exports.folder import ExportFolder
from fhirapp.features.exports.rows import (
    ExportSelection,
    Row,
    SourceJson,
    VersionKey,
    all_versions,
    count,
    current_versions,
    deletions,
    keys,
    read,
    snapshot_at,
    version_numbers,
)
from fhirapp.fhir import json as fhir_json

# Called with the number of versions that are written, and of all.
Progress = Callable[[int, int], None]
# (version, its row, the version numbers of the Binaries that it was made with, by id)
_Version = tuple[VersionKey, Row, Mapping[str, int]]


class ExportOptions(NamedTuple):
    """What is exported: types, since an instant, with all versions, compressed."""

    types: Sequence[Definition]
    since: str | None = None
    history: bool = False
    compressed: bool = False

    @property
    def selection(self) -> ExportSelection:
        return (all_versions if self.history else current_versions)(self.since)


class ExportFile(NamedTuple):
    """A file: the type of its lines, how many lines and versions there are, its bytes."""

    type_name: str
    url: str
    lines: int
    versions: int
    size: int
    sha256: str

    def content(self) -> dict[str, Any]:
        """Return its entry in the manifest."""
        return {
            "type": self.type_name,
            "url": self.url,
            "count": self.lines,
            "sha256": self.sha256,
        }


@dataclass
class ExportManifest:
    """The files of an export, and the request that it was made for."""

    transaction_time: str
    request: str
    output: list[ExportFile] = field(default_factory=list)
    deleted: list[ExportFile] = field(default_factory=list)

    def content(self) -> dict[str, Any]:
        """Return manifest.json."""
        return {
            "transactionTime": self.transaction_time,
            "request": self.request,
            "requiresAccessToken": False,
            "output": [file.content() for file in self.output],
            "deleted": [file.content() for file in self.deleted],
            "error": [],
        }

    def table(self) -> str:
        """Return the counts as a table for the terminal."""
        head = f"{'file':<32}{'resources':>10}{'versions':>10}{'bytes':>14}"
        rows = [
            f"{file.url:<32}{file.lines:>10}{file.versions:>10}{file.size:>14}"
            for file in (*self.output, *self.deleted)
        ]
        return "\n".join([head, *rows])


def types_to_export(
    definitions: Mapping[str, Definition], names: Sequence[str]
) -> list[Definition]:
    """Return these types, or all; referenced types come first. Raises ConfigurationError."""
    stored = {name: definition for name, definition in definitions.items() if not definition.view}
    for name in names:
        view = definitions[name].view if name in definitions else None
        if view:
            raise ConfigurationError(f"{name} follows from {view.source}: export that.")
        if name not in stored:
            known = ", ".join(sorted(stored))
            raise ConfigurationError(f"{name} is not a type that is stored here; use {known}.")
    chosen = [stored[name] for name in stored if name in names or not names]
    return sorted(chosen, key=lambda definition: (definition.rank, definition.name))


def export_to(
    path: Path,
    options: ExportOptions,
    binary: Definition,
    *,
    request: str,
    progress: Progress = lambda _done, _total: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    user_id: str | None = None,
) -> ExportManifest:
    """Export to a new or empty folder, which is emptied again on failure.

    The audit trail names the patients, and user_id as the requester. Raises ConfigurationError, or
    OperationalError of sqlalchemy if the database stays locked.
    """
    with ExportFolder(path) as folder, snapshot_at(clock) as (snapshot, taken):
        manifest = ExportManifest(taken, request)
        run = _Export(folder, snapshot, options, binary, progress)
        manifest.output += run.output()
        if options.since is not None and not options.history:
            manifest.deleted += run.deletions(options.since)
        # Before the folder is whole: where the trail cannot be written, nothing is exported.
        record_export(run.patients(), request, user_id=user_id)
        folder.finish(manifest.content())
    return manifest


class _Export:
    """One run of an export."""

    def __init__(
        self,
        folder: ExportFolder,
        snapshot: Reader,
        options: ExportOptions,
        binary: Definition,
        progress: Progress,
    ) -> None:
        self._folder = folder
        self._snapshot = snapshot
        self._options = options
        self._binary = binary
        self._progress = progress
        self._totals = {
            definition.name: count(snapshot, definition, options.selection)
            for definition in options.types
        }
        self._done = 0

    def output(self) -> Iterator[ExportFile]:
        """Write the files of the types that have records."""
        for definition in self._options.types:
            versions = self._totals[definition.name]
            if versions:
                kind = "Bundle" if self._options.history else definition.name
                yield self._write(definition.name, kind, versions, self._lines(definition))

    def patients(self) -> set[str]:
        """Return the ids of the patients whose records are exported."""
        where = self._options.selection.where
        return {
            patient_id
            for definition in self._options.types
            for (patient_id,) in self._snapshot.all(
                f"SELECT DISTINCT patient_id FROM {definition.sql_table}"
                f" WHERE patient_id IS NOT NULL AND {where.sql}",
                where.values,
            )
        }

    def deletions(self, since: str) -> Iterator[ExportFile]:
        """Write the file of deletions, if there are any."""
        selection = deletions(since)
        total = sum(
            count(self._snapshot, definition, selection) for definition in self._options.types
        )
        if total:
            yield self._write("deleted", "Bundle", total, self._deletions(selection))

    def _write(
        self, name: str, kind: str, versions: int, lines: Iterator[Iterator[bytes]]
    ) -> ExportFile:
        compressed = self._options.compressed
        url = f"{name}.ndjson{'.gz' if compressed else ''}"
        file = self._folder.open(url, compressed=compressed)
        for pieces in lines:
            file.write_line(pieces)
        file.finish()
        return ExportFile(kind, url, file.lines, versions, file.size, file.sha256)

    def _lines(self, definition: Definition) -> Iterator[Iterator[bytes]]:
        """Yield the lines of a type, each in pieces, which are read before the next line is."""
        source = SourceJson(definition)
        versions = self._versions(definition, source)
        if not self._options.history:
            for key, row, _ in versions:
                if row is not None:
                    yield source.pieces(self._snapshot, key, row)
            return
        for resource_id, group in groupby(versions, lambda version: version[0].id):
            yield self._history(f"{definition.name}/{resource_id}", source, group)

    def _history(
        self, address: str, source: SourceJson, versions: Iterator[_Version]
    ) -> Iterator[bytes]:
        """Yield the pieces of a Bundle of versions."""
        before = history.BEFORE
        for key, row, made_with in versions:
            yield before
            before = b","
            pieces = None if row is None else source.pieces(self._snapshot, key, row)
            yield from history.entry(address, key.version_id, key.last_updated, pieces, made_with)
        yield history.AFTER

    def _versions(self, definition: Definition, source: SourceJson) -> Iterator[_Version]:
        snapshot = self._snapshot
        selected = keys(snapshot, definition, self._options.selection, source.size)
        for batch in read(snapshot, definition, source.columns, selected):
            self._done += len(batch)
            made_with = self._made_with(batch) if self._options.history else {}
            for key, row in batch:
                yield key, row, made_with.get(key.pk, {})
            self._progress(self._done, sum(self._totals.values()))

    def _made_with(
        self, batch: Sequence[tuple[VersionKey, Row]]
    ) -> Mapping[int, Mapping[str, int]]:
        """Return the version numbers of each row's Binaries, by row and Binary id."""
        attached: dict[int, dict[str, int]] = {
            key.pk: fhir_json.loads(row[2]) for key, row in batch if row and row[2]
        }
        binaries = sorted({pk for rows in attached.values() for pk in rows.values()})
        numbers = version_numbers(self._snapshot, self._binary, binaries)
        return {
            carrier: {binary_id: numbers[pk] for binary_id, pk in rows.items()}
            for carrier, rows in attached.items()
        }

    def _deletions(self, selection: ExportSelection) -> Iterator[Iterator[bytes]]:
        """Yield the deletions, each as a Bundle that repeats it elsewhere."""
        for definition in self._options.types:
            for key in keys(self._snapshot, definition, selection, "0"):
                request = {"method": "DELETE", "url": f"{definition.name}/{key.id}"}
                entry = {"request": request}
                bundle = {"resourceType": "Bundle", "type": "transaction", "entry": [entry]}
                yield iter((fhir_json.dumps(bundle),))
