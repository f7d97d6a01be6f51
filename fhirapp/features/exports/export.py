"""Export: everything that is stored, as NDJSON that can be imported with the same digests.

The folder gets a file for each type that has records, `AllergyIntolerance.ndjson`, `Binary.ndjson`
with the bytes of attachments, and manifest.json in the format of Bulk Data, its urls relative. All
comes from one snapshot, so the files fit each other whatever is written meanwhile. A line is
- a resource as its source sent it, or
- with history, a Bundle of all versions of a resource (lines.py).
Lines are in the order of ids. With since, only what was published then or later; what was deleted
then or later is in deleted.ndjson, a transaction Bundle on each line, or with history in the
Bundles. Views are not exported: they follow from their source.

Rows are read a few at a time, by their size, so that memory does not grow with the export. The SQL
is the driver's own: with SQLAlchemy's statements, reading 20,000 allergies takes 0.16 s of CPU
instead of 0.12.

Source: FHIR Bulk Data Access 2.0.0, Export, Response - Complete Status (manifest, deleted).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.audit.events import record_export
from fhirapp.config import ConfigurationError
from fhirapp.db import Reader, db, writing
from fhirapp.definition import Definition
from fhirapp.features.exports import files
from fhirapp.features.exports.files import ExportFolder, ExportManifest, ManifestFile
from fhirapp.features.exports.lines import Row, SourceJson, VersionKey, bundle, entry
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import instant

# Called with the number of versions that are written, and of all.
Progress = Callable[[int, int], None]
# (version, its row, the version numbers of the Binaries that it was made with, by id)
_Version = tuple[VersionKey, Row, Mapping[str, int]]
# Keys, and bytes of rows, in memory at once.
_KEYS = 1_000
_BYTES = 4_194_304
# Conditions of versions: those that searches find, all with deletions, deletions that stand.
_CURRENT, _ALL = "is_current", "TRUE"
_DELETIONS = "deleted AND replaced_pk IS NULL"
# How many seconds an import is waited for; it lets others write between its transactions.
_PATIENCE = 60.0


class ExportOptions(NamedTuple):
    """What is exported: types, since an instant, with all versions, compressed."""

    types: Sequence[Definition]
    since: str | None = None
    history: bool = False
    compressed: bool = False


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


def command_of(
    names: Sequence[str], since: str | None, *, history: bool, compressed: bool = False
) -> str:
    """Return the command of an export without its folder: a manifest names nothing of a machine."""
    parts = ["fhirapp export", *(f"--type {name}" for name in names)]
    if since:
        parts.append(f"--since {since}")
    return " ".join(parts + ["--history"] * history + ["--gzip"] * compressed)


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
    with (
        files.export_folder(path, compressed=options.compressed) as folder,
        snapshot_at(clock, _PATIENCE) as (snapshot, transaction_time),
    ):
        writer = _Export(folder, snapshot, options, binary, progress)
        manifest = ExportManifest(transaction_time, [*writer.output(), *writer.deletions()])
        # Before the folder is whole: where the trail cannot be written, nothing is exported.
        record_export(writer.patients(), request, user_id=user_id)
        folder.finish(manifest.content(request))
    return manifest


@dataclass
class _Export:
    """An export that is being written."""

    folder: ExportFolder
    snapshot: Reader
    options: ExportOptions
    binary: Definition
    progress: Progress
    done: int = 0

    def __post_init__(self) -> None:
        self.selected = self._select(_ALL if self.options.history else _CURRENT)

    def _select(self, condition: str) -> list[SelectedVersions]:
        """Return the versions of each type for which a condition holds."""
        types, since = self.options.types, self.options.since
        return [SelectedVersions(self.snapshot, type_, condition, since) for type_ in types]

    def patients(self) -> set[str]:
        """Return the ids of the patients whose records are exported."""
        return {patient_id for selected in self.selected for patient_id in selected.patients()}

    def output(self) -> Iterator[ManifestFile]:
        """Write the files of the types that have records."""
        for selected in self.selected:
            if selected.count:
                name = selected.definition.name
                type_name = "Bundle" if self.options.history else name
                lines = self._lines(selected)
                yield self.folder.write(files.OUTPUT, name, type_name, selected.count, lines)

    def deletions(self) -> Iterator[ManifestFile]:
        """Write the file of deletions, if there are any."""
        if self.options.since is None or self.options.history:
            return
        deleted = self._select(_DELETIONS)
        if total := sum(selected.count for selected in deleted):
            lines = (
                [files.deletions_bundle([f"{selected.definition.name}/{key.id}"])]
                for selected in deleted
                for key in selected.keys("0")
            )
            yield self.folder.write(files.DELETED, "deleted", "Bundle", total, lines)

    def _lines(self, selected: SelectedVersions) -> Iterator[Iterator[bytes]]:
        """Yield the lines of a type, each in pieces, which are read before the next line is."""
        source = SourceJson(selected.definition)
        versions = self._versions(selected, source)
        if not self.options.history:
            for key, row, _ in versions:
                if row is not None:
                    yield source.pieces(self.snapshot, key, row)
            return
        for resource_id, group in groupby(versions, lambda version: version[0].id):
            address = f"{selected.definition.name}/{resource_id}"
            yield bundle(
                entry(
                    address,
                    key.version_id,
                    key.last_updated,
                    None if row is None else source.pieces(self.snapshot, key, row),
                    made_with,
                )
                for key, row, made_with in group
            )

    def _versions(self, selected: SelectedVersions, source: SourceJson) -> Iterator[_Version]:
        total = sum(selected.count for selected in self.selected)
        for batch in selected.read(source):
            self.done += len(batch)
            made_with = self._made_with(batch) if self.options.history else {}
            for key, row in batch:
                yield key, row, made_with.get(key.pk, {})
            self.progress(self.done, total)

    def _made_with(
        self, batch: Sequence[tuple[VersionKey, Row]]
    ) -> Mapping[int, Mapping[str, int]]:
        """Return the version numbers of each row's Binaries, by row and Binary id."""
        attached: dict[int, dict[str, int]] = {
            key.pk: fhir_json.loads(row[2]) for key, row in batch if row and row[2]
        }
        numbers: dict[int, int] = {}
        if binaries := sorted({pk for rows in attached.values() for pk in rows.values()}):
            sql = (
                f"SELECT pk, version_id FROM {self.binary.sql_table}"
                f" WHERE pk IN ({_marks(binaries)})"
            )
            numbers = dict(self.snapshot.all(sql, binaries))
        return {
            carrier: {binary_id: numbers[pk] for binary_id, pk in rows.items()}
            for carrier, rows in attached.items()
        }


@contextmanager
def snapshot_at(clock: Callable[[], datetime], patience: float) -> Iterator[tuple[Reader, str]]:
    """Open a snapshot and return its instant: later versions have a later time.

    It waits patience seconds for another writer. Raises OperationalError of sqlalchemy if that does
    not end.
    """
    # A writer takes its time with the write lock: while it is held here, nobody else has an earlier
    # time and will commit later.
    with writing(patience=patience):
        snapshot = Reader(db.engine)
        # The first read begins the snapshot.
        snapshot.generation()
        transaction_time = instant(clock())
        # Instants have milliseconds.
        time.sleep(0.001)
    try:
        yield snapshot, transaction_time
    finally:
        snapshot.close()


class SelectedVersions:
    """The versions of a type for which a condition holds, published at an instant or after.

    count is how many there are.
    """

    def __init__(
        self, snapshot: Reader, definition: Definition, condition: str, since: str | None
    ) -> None:
        self.definition = definition
        self._snapshot = snapshot
        self._where = condition if since is None else f"{condition} AND last_updated >= ?"
        self._values = () if since is None else (since,)
        # The columns that identify a version.
        self._order = ("id", "version_id") if condition == _ALL else ("id",)
        self.count = int(self._select("count(*)")[0][0])

    def _select(
        self, columns: str, more: str = "", values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        sql = f"SELECT {columns} FROM {self.definition.sql_table} WHERE {self._where}{more}"
        return self._snapshot.all(sql, (*self._values, *values))

    def patients(self) -> Iterator[str]:
        """Yield the ids of the patients whom the versions are about."""
        for (patient_id,) in self._select("DISTINCT patient_id", " AND patient_id IS NOT NULL"):
            yield patient_id

    def keys(self, size: str) -> Iterator[VersionKey]:
        """Yield the versions by id, newest first; size is the SQL of a row's size."""
        for _, versions in groupby(self._keys_in_order(size), lambda key: key.id):
            yield from reversed([*versions])

    def _keys_in_order(self, size: str) -> Iterator[VersionKey]:
        """Yield the versions in the order of their index."""
        columns = f"id, version_id, last_updated, deleted, pk, coalesce({size}, 0)"
        order = ", ".join(self._order)
        page = f" AND ({order}) > ({_marks(self._order)}) ORDER BY {order} LIMIT {_KEYS}"
        last: tuple[Any, ...] = ("", 0)[: len(self._order)]
        while rows := self._select(columns, page, last):
            yield from map(VersionKey._make, rows)
            last = rows[-1][: len(self._order)]

    def read(self, source: SourceJson) -> Iterator[list[tuple[VersionKey, Row]]]:
        """Yield the versions with their rows, as many at once as memory may hold."""
        columns = ", ".join(source.columns)
        for batch in _batches(self.keys(source.size)):
            rows: dict[int, Row] = {}
            if numbers := [key.pk for key in batch if not key.deleted]:
                selected = (
                    f"SELECT pk, {columns} FROM {self.definition.sql_table}"
                    f" WHERE pk IN ({_marks(numbers)})"
                )
                rows = {row[0]: row[1:] for row in self._snapshot.all(selected, numbers)}
            yield [(key, rows.get(key.pk)) for key in batch]


def _batches(keys: Iterable[VersionKey]) -> Iterator[list[VersionKey]]:
    batch: list[VersionKey] = []
    size = 0
    for key in keys:
        if batch and (len(batch) == _KEYS or size + key.size > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += key.size
    if batch:
        yield batch


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))
