"""Import: all records are staged, then published in batches, each in one transaction.

What is rejected is reported with its place, while the rest is published. An import that was killed
is simply run again: what is here already makes no new version.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from fhirapp.audit import events
from fhirapp.config import Settings
from fhirapp.db import Reader, db, writing
from fhirapp.db.locks import lock
from fhirapp.definition import Definition
from fhirapp.disk import temporary_folder
from fhirapp.features.imports import OUTCOMES, deletions, runs
from fhirapp.features.imports.admission import Admission
from fhirapp.features.imports.archives import Archives, OnRead
from fhirapp.features.imports.batches import Admitted, Batch, publish_contents
from fhirapp.features.imports.dangling import dangling, unreachable
from fhirapp.features.imports.histories import ResourceHistory, with_words
from fhirapp.features.imports.inputs import Input, find_inputs, in_order, path_text
from fhirapp.features.imports.intake import Intake
from fhirapp.features.imports.outputs import Rejects
from fhirapp.features.imports.patient_changes import PatientChanges
from fhirapp.features.imports.publication import Publication
from fhirapp.features.imports.reader import RecordReader
from fhirapp.features.imports.records import ImportRecord, PatientRejected, Rejected, Rejection
from fhirapp.features.imports.references import remove_prefix
from fhirapp.features.imports.report import Report
from fhirapp.features.imports.runs import Options
from fhirapp.features.imports.skipped import INCOMPLETE
from fhirapp.features.imports.sources import SourceRules, has_others
from fhirapp.features.imports.staging import Stage
from fhirapp.fhir.temporal import instant
from fhirapp.files import shared_files
from fhirapp.store.import_models import PATIENCE, TURN
from fhirapp.store.prepare import DocumentTextReader, PreparedResource, blob_ids, deletion
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change
from fhirapp.store.write import Rendering, rendering_in_force

# Values of one SELECT: SQLite takes 32,766.
_IDS = 10_000
_WITHOUT_RECORDS = "contains no importable file; see the skipped files"
_OWN_TIMES = (
    "histories keep their own times: an export --since the last one lacks them, so export all"
)


def import_paths(
    paths: Sequence[Path],
    definitions: Mapping[str, Definition],
    settings: Settings,
    options: Options | None = None,
    progress: OnRead = lambda _bytes: None,
    waits: Callable[[], None] = lambda: None,
    on_begin: Callable[[Report], None] = lambda _report: None,
) -> Report:
    """Import files, folders and archives; "-" is standard input.

    Imports into one database run one after the other, as each reports what it published: waits is
    called where this one has to wait. progress receives bytes of the inputs, half of them as they
    are read and half as they are published. on_begin receives the report, which grows meanwhile.
    Raises ConfigurationError for a path that is not there, and for deletions by a partial export.
    """
    settings.instance.mkdir(parents=True, exist_ok=True)
    bytes_read = 0

    def reading(count: int) -> None:
        """Half of the progress is the reading, half the publication."""
        nonlocal bytes_read
        bytes_read += count
        progress(count // 2)

    with (
        lock(settings, TURN, waits),
        temporary_folder(settings.instance) as spool,
        Archives() as archives,
        DocumentTextReader(definitions["Binary"], settings.ocr_languages) as notes,
    ):
        options = options or Options()
        found = find_inputs(paths, spool, archives, together=options.together)
        inputs = in_order(found, definitions)
        if options.delete_missing:
            deletions.refuse_partial_exports(paths, spool, archives)
        with Stage(spool) as stage:
            stage.need_room(sum(source.size for source in inputs))
            run = Import(definitions, settings, options, notes, stage)
            run.begin([path_text(path) for path in paths])
            on_begin(run.report)
            try:
                for source in inputs:
                    run.read(source, reading)
                run.publish(lambda share: progress(int(share * bytes_read / 2)))
            finally:
                run.report_rejections()
            run.finish()
    return run.report


class Import:
    """One run of an import: begin(), read() each input, publish(), finish()."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        settings: Settings,
        options: Options,
        notes: DocumentTextReader,
        stage: Stage,
    ) -> None:
        self.report = Report()
        self._definitions = definitions
        self._options = options
        self._rendering = Rendering.of(settings)
        self._notes = notes
        self._stage = stage
        self._reader = RecordReader(
            stage,
            options.prefix,
            self.report.remark,
            self.report.add_unread,
            changes=options.repair or bool(options.prefix),
        )
        self._intake = Intake(definitions, options, stage, self.report, self._reject)
        self._batch = Batch(self._publish_batch)
        self._settings = settings
        self._folder = settings.instance / "imports"

    def begin(self, inputs: Sequence[str]) -> None:
        """Record that the run begins."""
        with writing(patience=PATIENCE) as connection:
            self._run = runs.begin(connection, self._definitions, inputs, self._options, _now())
            source_id = self._run.source_id
            if source_id is not None and not has_others(connection, source_id):
                source_id = None
            self._rules = SourceRules(self._definitions, source_id, self._run.last_rows)
            self._admission = Admission(
                self._definitions,
                self._options,
                self._stage,
                self._batch,
                self.report,
                self._rules,
                PatientChanges.of(connection),
            )
        self.report.run = self._run.id

    def read(self, source: Input, progress: OnRead) -> None:
        """Stage the records of an input."""
        file = self.report.begin_file(source.name, self._stage.records)
        for record in self._reader.read(source, progress):
            file.records += 1
            self._intake.take(record)

    def publish(self, progress: Callable[[float], None]) -> None:
        """Publish everything that is staged, in batches; progress receives the share of each."""
        self._progress = progress
        self._stage.arrange()
        publication = Publication(
            self._definitions, self._stage, self._batch, self._admission, self.report, self._reject
        )
        try:
            publication.run()
        finally:
            self._batch.close()

    def finish(self) -> None:
        """Report what leads nowhere, and record that the run ended."""
        self._report_empty()
        self.report.unreadable.update(self._notes.unreadable)
        self.report.unread.update(self._notes.unread)
        self.report.unread_in.update(self._notes.unread_in)
        self.report.machine_read.update(self._notes.machine_read)
        with db.engine.connect() as connection:
            since = self._run.unreported
            for target, reason, count in dangling(connection, self._definitions, since):
                self.report.kept.add(target, reason, count)
            for name, reason, advice in unreachable(connection, self._definitions, since):
                self.report.unreachable.add(name, reason, counted_as=advice)
        if self._options.delete_missing:
            self._delete_missing()
        self.report.rejected_file = " ".join(self._kept_rejects(self._write_rejected()))
        with writing(patience=PATIENCE, much=True) as connection:
            if self._options.provenance:
                publisher = self._publisher(connection)
                runs.write_provenance(publisher, self._definitions, self._run)
            runs.end(connection, self._run, _now(), self.report.content()["changes"])
        events.record("import", what=self._result())

    def _result(self) -> str:
        """Return the result of the import in words, for the audit trail."""
        counts = Counter[str]()
        for _type_name, outcomes in self.report.rows():
            counts.update(outcomes)
        parts = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]]
        whose = [f"source {self._run.source}"] if self._run.source else []
        by = [f"by {self._options.who}"] if self._options.who else []
        return "; ".join([f"run {self._run.id}", *whose, *by, ", ".join(parts) or "no records"])

    def _report_empty(self) -> None:
        """Report the folders and archives in which no file holds records."""
        names = self._reader.without_records()
        for name in filter(None, names):
            self.report.add_rejected(name, [("", _WITHOUT_RECORDS)])
        if names == [""]:
            self.report.notes.append("Nothing was imported: no file holds records.")

    def _kept_rejects(self, paths: Sequence[Path]) -> Iterator[str]:
        """Yield where the files of rejected records lie: with FHIRAPP_FILES, where that says."""
        files = shared_files(self._settings)
        for path in paths:
            location = str(path)
            if self._settings.files and not self._options.rejected:
                # Where it cannot be put there now, it stays where it is.
                with suppress(OSError):
                    files.put(f"imports/{path.name}", path)
                    location = f"{files.place}/imports/{path.name}"
            yield location

    def _publish_batch(self, batch: Sequence[Admitted], snapshot: Reader) -> None:
        """Publish a batch in one transaction; only what is committed is reported."""
        contents = self._with_words(batch, snapshot)
        with writing(patience=PATIENCE, much=True) as connection:
            # For the source, by its rules.
            publisher = Publisher(
                connection,
                now=_now(),
                rendering=rendering_in_force(connection, self._rendering),
                source_id=self._run.source_id,
                decide=self._rules.decide,
            )
            changes = publish_contents(publisher, self._rules, contents)
            self._rules.record_shared(connection)
        for admitted, change in zip(batch, changes, strict=True):
            self._report_outcome(admitted, change)
        size = sum(len(admitted.record.content) for admitted in batch)
        self._progress(size / max(self._stage.size, 1))
        self._admission.note_published(content.definition.name for content in contents)

    def _with_words(
        self, batch: Sequence[Admitted], snapshot: Reader
    ) -> list[PreparedResource | ResourceHistory]:
        """Return resources with the words of their documents; stored ones have them already."""
        contents = [admitted.content for admitted in batch]
        resources = [content for content in contents if isinstance(content, PreparedResource)]
        read = iter(self._notes.read(resources, self._stored(blob_ids(resources), snapshot)))
        return [
            next(read)
            if isinstance(content, PreparedResource)
            else with_words(content, self._notes)
            for content in contents
        ]

    def _stored(self, ids: Sequence[str], snapshot: Reader) -> frozenset[str]:
        """Return which Binaries are stored already."""
        table = self._definitions["Binary"].sql_table
        stored: set[str] = set()
        for start in range(0, len(ids), _IDS):
            batch = ids[start : start + _IDS]
            marks = ", ".join("?" * len(batch))
            current = f"SELECT id FROM {table} WHERE is_current AND id IN ({marks})"
            stored.update(row[0] for row in snapshot.all(current, batch))
        return frozenset(stored)

    def _report_outcome(self, admitted: Admitted, change: Change | str) -> None:
        record, content = admitted.record, admitted.content
        name = content.definition.name
        is_history = isinstance(content, ResourceHistory)
        if isinstance(change, str):
            # A history is rejected as a whole.
            refused = Rejected(change, name if is_history else f"{name}.id")
            for rejected in (*self._stage.numbered(admitted.superseded), record):
                self._reject(rejected, refused, name)
            return
        self.report.count(name, change.value)
        if admitted.superseded:
            self.report.count(name, Change.SAME.value, len(admitted.superseded))
        if admitted.differ:
            self.report.twice.add(content.name, "the last counts")
        if is_history and change is not Change.SAME and any(self._run.last_rows.values()):
            self.report.remark("", _OWN_TIMES)
        self._admission.report_admitted(admitted)

    def _reject(self, record: ImportRecord, error: Rejected, type_name: str = "") -> None:
        """Keep a rejected record, until all are reported; type_name where its resource is gone."""
        # As it was without the prefix, so that it can be imported again.
        if self._options.prefix and record.number and record.type_name:
            with suppress(TypeError):
                remove_prefix(record.resource, self._options.prefix)
        if record.type_name in self._definitions:
            type_name = record.type_name or ""
        rejection = Rejection(
            record.place,
            type_name,
            error.faults,
            isinstance(error, PatientRejected),
            record.text if record.table_kind else record.rejected_line(),
            record.table_kind,
            record.heading,
        )
        self._stage.reject(record.number, rejection)
        self.report.file_of(record.number).rejected += 1

    def report_rejections(self) -> None:
        """Report rejected records, in the order in which they came."""
        for rejection in self._stage.rejections():
            self.report.add_rejection(rejection)

    def _write_rejected(self) -> Sequence[Path]:
        """Write the files of rejected records. Raises ConfigurationError."""
        path = self._options.rejected or self._folder / f"{self._run.id}.rejected.ndjson"
        with Rejects(path) as rejects:
            for rejection in self._stage.rejections():
                rejects.add(rejection)
        return rejects.paths

    def _delete_missing(self) -> None:
        """Delete what the source no longer holds."""
        source_id = self._run.source_id
        if self.report.rejected_lines:
            self.report.notes.append(
                "Nothing was deleted: the rejected records may be those that are missing. Correct "
                "them, and import everything again."
            )
            return
        if self.report.skipped_file_count[INCOMPLETE]:
            self.report.notes.append(
                "Nothing was deleted: what is missing may be in the incomplete files. Import "
                "everything again when they are complete."
            )
            return
        if self._reader.has_pages:
            self.report.notes.append(
                "Nothing was deleted: a Bundle is one page of a search, and what is missing may be"
                " on another. Import an export of all records."
            )
            return
        missing, total = deletions.count_missing(self._definitions, source_id, self._stage)
        is_most = missing == total or (missing > deletions.FEW and missing * 2 > total)
        if missing and is_most and not self._options.force:
            self.report.notes.append(
                f"Nothing was deleted: {missing} of the {total} resources of "
                f"{self._options.source!r} are missing. With --force they are deleted."
            )
            return
        for definition, ids in deletions.missing_pages(self._definitions, source_id, self._stage):
            with writing(patience=PATIENCE) as connection:
                publisher = self._publisher(connection)
                publisher.publish([deletion(definition, resource_id) for resource_id in ids])
            self.report.count(definition.name, Change.DELETED.value, len(ids))

    def _publisher(self, connection: Connection) -> Publisher:
        """Return a publisher without a source, by content alone."""
        # The time is taken within the transaction, so that it rises with the versions.
        return Publisher(
            connection, now=_now(), rendering=rendering_in_force(connection, self._rendering)
        )


def tune_gc() -> None:
    """Prepare an import process: garbage collection is rare, and passes over existing objects.

    The many objects of a batch would be traversed again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 2, 2)


def _now() -> str:
    return instant(datetime.now(UTC))
