"""Import: records in batches, each published in one transaction.

What is rejected is reported with its place, while the rest is published. An import that was killed
is simply run again: what is here already makes no new version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from sqlalchemy import Connection

from fhirapp.config import Settings
from fhirapp.db import Reader, db, writing
from fhirapp.db.locks import lock
from fhirapp.definition import Definition
from fhirapp.disk import temporary_folder as scratch_folder
from fhirapp.features.imports import batches, deletions, runs
from fhirapp.features.imports.admission import Admission
from fhirapp.features.imports.archives import Archives, OnRead
from fhirapp.features.imports.dangling import dangling, unreachable
from fhirapp.features.imports.inputs import Input, find_inputs, in_order, path_text
from fhirapp.features.imports.patient_changes import PatientChanges
from fhirapp.features.imports.reader import RecordReader
from fhirapp.features.imports.records import (
    OLDER,
    REFERENCE,
    ImportRecord,
    PatientRejected,
    Rejected,
    Scratch,
)
from fhirapp.features.imports.references import PublishFirst
from fhirapp.features.imports.report import Rejects, Report
from fhirapp.features.imports.runs import Options
from fhirapp.features.imports.skipped import INCOMPLETE
from fhirapp.features.imports.sources import SourceRules, has_others
from fhirapp.fhir.temporal import instant
from fhirapp.files import shared_files
from fhirapp.store.import_models import PATIENCE, TURN
from fhirapp.store.prepare import DocumentTextReader, PreparedResource, blob_ids, deletion
from fhirapp.store.publish import Decide, Publisher, by_content
from fhirapp.store.version import Change, stored_versions
from fhirapp.store.write import Rendering, rendering_in_force

# Values of one SELECT: SQLite takes 32,766.
_IDS = 10_000
_WITHOUT_RECORDS = "contains no importable file; see the skipped files"
# Types of one rank whose turn comes first: others of that rank refer to them.
_FIRST_TYPES = ("Organization", "Practitioner", "Patient")
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
    called where this one has to wait. on_begin receives the report, which grows meanwhile. Raises
    ConfigurationError for a path that is not there, and for deletions by a partial export.
    """
    settings.instance.mkdir(parents=True, exist_ok=True)
    with (
        lock(settings, TURN, waits),
        scratch_folder(settings.instance) as spool,
        Archives() as archives,
        Scratch() as scratch,
        DocumentTextReader(definitions["Binary"], settings.ocr_languages) as notes,
    ):
        options = options or Options()
        found = find_inputs(paths, spool, archives, together=options.together)
        inputs = in_order(found, definitions)
        if options.delete_missing:
            deletions.refuse_partial_exports(paths, spool, archives)
        run = Import(definitions, settings, options, notes, scratch)
        run.begin([path_text(path) for path in paths])
        on_begin(run.report)
        for source in inputs:
            run.take(source, progress)
        run.finish()
    return run.report


class Import:
    """One run of an import."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        settings: Settings,
        options: Options,
        notes: DocumentTextReader,
        scratch: Scratch,
    ) -> None:
        self.report = Report()
        self._definitions = definitions
        self._options = options
        self._rendering = Rendering.of(settings)
        self._notes = notes
        self._scratch = scratch
        self._reader = RecordReader(
            scratch,
            options.prefix,
            self.report.remark,
            self.report.add_skipped_file,
            repairs=options.repair,
        )
        self._settings = settings
        self._folder = settings.instance / "imports"

    def begin(self, inputs: Sequence[str]) -> None:
        """Record that the run begins."""
        with writing(patience=PATIENCE) as connection:
            self._run = runs.begin(connection, self._definitions, inputs, self._options, _now())
            source_id = self._run.source_id
            if source_id is not None and not has_others(connection, source_id):
                source_id = None
            self._rules = SourceRules(self._definitions, self._scratch, source_id)
            self._admission = Admission(
                self._definitions,
                self._options,
                self._scratch,
                self.report,
                self._rules,
                PatientChanges.of(connection),
            )
        self.report.run = self._run.id
        path = self._folder / f"{self._run.id}.rejected.ndjson"
        self._rejects = Rejects(self._options.rejected or path)

    def take(self, source: Input, progress: OnRead) -> None:
        """Publish an input, in batches."""
        self._publish_all(self._reader.read(source, progress))

    def finish(self) -> None:
        """Publish what was deferred, report what leads nowhere, and record that the run ended."""
        self._report_empty()
        self._publish_deferred()
        self.report.unreadable.update(self._notes.unreadable)
        self.report.unread.update(self._notes.unread)
        self.report.unread_in.update(self._notes.unread_in)
        self.report.machine_read.update(self._notes.machine_read)
        with db.engine.connect() as connection:
            since = self._run.unreported
            for target, reason, count in dangling(connection, self._definitions, since):
                self.report.add_kept(target, reason, count)
            for name, reason, advice in unreachable(connection, self._definitions, since):
                self.report.add_unreachable(name, reason, advice)
        if self._options.delete_missing:
            self._delete_missing()
        self._rejects.close()
        self.report.rejected_file = " ".join(self._kept_rejects())
        with writing(patience=PATIENCE, much=True) as connection:
            if self._options.provenance:
                publisher = self._publisher(connection)
                runs.write_provenance(publisher, self._definitions, self._run)
            runs.end(connection, self._run, _now(), self.report.content()["changes"])

    def _report_empty(self) -> None:
        """Report the folders and archives in which no file holds records."""
        names = self._reader.without_records()
        for name in filter(None, names):
            self.report.add_rejected(name, [("", _WITHOUT_RECORDS)])
        if names == [""]:
            self.report.notes.append("Nothing was imported: no file holds records.")

    def _publish_deferred(self) -> None:
        """Publish deferred records, referenced ones first.

        References that cannot be resolved by then are kept.
        """
        self._publish_waiting()
        while types := self._scratch.deferred_types():
            type_name = min(types, key=self._turn)
            self._publish_older(type_name)
            self._publish_waiting()
            self._publish_all(self._admission.deferred(REFERENCE, type_name), final=True)
            self._publish_waiting()

    def _turn(self, type_name: str) -> tuple[int, int, str]:
        """Return the position of a type in the order in which deferred records are published."""
        definition = self._definitions.get(type_name)
        position = _FIRST_TYPES.index(type_name) if type_name in _FIRST_TYPES else len(_FIRST_TYPES)
        return (definition.rank if definition else 0, position, type_name)

    def _publish_waiting(self) -> None:
        """Publish what waited for a reference, until what is left waits for what is not here."""
        before = -1
        while (waiting := self._scratch.count_deferred(REFERENCE)) not in (0, before):
            before = waiting
            self._publish_all(self._admission.deferred(REFERENCE))

    def _kept_rejects(self) -> Iterator[str]:
        """Yield where the files of rejected records lie: with FHIRAPP_FILES, where that says."""
        files = shared_files(self._settings)
        for path in self._rejects.paths:
            location = str(path)
            if self._settings.files and not self._options.rejected:
                # Where it cannot be put there now, it stays where it is.
                with suppress(OSError):
                    files.put(f"imports/{path.name}", path)
                    location = f"{files.place}/imports/{path.name}"
            yield location

    def _publish_all(self, records: Iterable[ImportRecord], *, final: bool = False) -> None:
        """Publish records, batch by batch; nothing of them stays in memory."""
        for batch in batches.batches(records):
            self._publish(batch, final=final)
            batch.clear()
            batches.collect()

    def _publish(self, records: Sequence[ImportRecord], *, final: bool) -> None:
        """Publish a batch; in several, where a record depends on what comes before it."""
        while records:
            ready, records = self._ready(records, final=final)
            if ready:
                with self._publishing() as publisher:
                    outcomes = batches.publish(publisher, self._rules, ready)
                # Only what is committed is reported.
                self._report_outcomes(outcomes)
            self._admission.note_published()

    def _ready(
        self, records: Sequence[ImportRecord], *, final: bool
    ) -> tuple[list[batches.Ready], Sequence[ImportRecord]]:
        """Return what can be published at once, and the records that come after that."""
        ready: list[batches.Ready] = []
        rest: Sequence[ImportRecord] = ()
        snapshot = Reader(db.engine)
        try:
            for position, record in enumerate(records):
                try:
                    admitted = self._admission.admit(record, snapshot, final=final)
                except Rejected as error:
                    self._reject(record, error.faults, follows=isinstance(error, PatientRejected))
                except PublishFirst:
                    rest = records[position:]
                    break
                else:
                    if admitted is not None:
                        ready.append((record, admitted))
            return self._with_words(ready, snapshot), rest
        finally:
            snapshot.close()

    def _with_words(self, ready: Sequence[batches.Ready], snapshot: Reader) -> list[batches.Ready]:
        """Return resources with the words of their documents; stored ones have them already."""
        resources = [admitted for _, admitted in ready if isinstance(admitted, PreparedResource)]
        read = iter(self._notes.read(resources, self._stored(blob_ids(resources), snapshot)))

        def complete(admitted: batches.AdmittedResource) -> batches.AdmittedResource:
            if isinstance(admitted, PreparedResource):
                return next(read)
            return batches.with_words(admitted, self._notes)

        return [(record, complete(admitted)) for record, admitted in ready]

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

    @contextmanager
    def _publishing(self) -> Iterator[Publisher]:
        """Open a transaction that publishes for the source, by its rules."""
        with writing(patience=PATIENCE, much=True) as connection:
            yield self._publisher(connection, self._run.source_id, self._rules.decide)
            self._rules.record_shared(connection)

    def _publisher(
        self, connection: Connection, source_id: int | None = None, decide: Decide = by_content
    ) -> Publisher:
        # The time is taken within the transaction, so that it rises with the versions.
        return Publisher(
            connection,
            now=_now(),
            rendering=rendering_in_force(connection, self._rendering),
            source_id=source_id,
            decide=decide,
        )

    def _report_outcomes(self, outcomes: Iterable[batches.Outcome]) -> None:
        self.report.add_twice(self._rules.duplicates)
        self._rules.duplicates.clear()
        for record, type_name, outcome in outcomes:
            if outcome == OLDER:
                self._admission.defer(record, OLDER)
            elif isinstance(outcome, Change):
                self.report.count(type_name, outcome.value)
                is_new_history = record.type_name == "Bundle" and outcome is not Change.SAME
                if is_new_history and any(self._run.last_rows.values()):
                    self.report.remark("", _OWN_TIMES)
            else:
                # A history is rejected as a whole.
                path = type_name if record.history_of else f"{type_name}.id"
                self._reject(record, [(path, outcome)])

    def _reject(
        self, record: ImportRecord, faults: Sequence[tuple[str, str]], *, follows: bool = False
    ) -> None:
        """Report a rejected record, and keep it; follows where its patient was rejected."""
        if record.has_prefix:
            self._admission.remove_prefix(record)
        type_name = record.type_name if record.type_name in self._definitions else None
        if follows:
            self.report.add_follower(record.place, type_name or "")
        else:
            self.report.add_rejected(record.place, faults, type_name or "")
        self._rejects.add(record)

    def _publish_older(self, type_name: str) -> None:
        """Publish content that earlier versions had, where the source has not gone on from it.

        What the source holds of a resource, in order, may begin with its last versions here.
        """
        older = self._admission.deferred(OLDER, type_name)
        for _, group in groupby(older, lambda record: record.subject):
            rest: Sequence[ImportRecord] = [*group]
            while rest:
                ready, rest = self._ready(rest, final=True)
                # A condition may have found different resources for them.
                by_id: dict[str, list[batches.Ready]] = {}
                for record, admitted in ready:
                    by_id.setdefault(admitted.id, []).append((record, admitted))
                for of_resource in by_id.values():
                    self._publish_in_order(of_resource)
                self._admission.note_published()

    def _publish_in_order(self, ready: Sequence[batches.Ready]) -> None:
        """Publish the records of one resource, without those that are its last versions here."""
        definition, resource_id = ready[0][1].definition, ready[0][1].id
        # A history holds the versions itself, also those that came before it.
        histories = [
            position
            for position, (_, admitted) in enumerate(ready)
            if isinstance(admitted, batches.ResourceHistory)
        ]
        after = ready[histories[-1] + 1 :] if histories else ready
        # The same content twice in a row is one version.
        once = [
            (record, admitted)
            for position, (record, admitted) in enumerate(after)
            if position == 0 or _digest(admitted) != _digest(after[position - 1][1])
        ]
        with self._publishing() as publisher:
            outcomes = batches.publish(
                publisher,
                self._rules,
                [ready[position] for position in histories],
                hold_older=False,
            )
            stored = stored_versions(publisher.connection, definition, [resource_id])
            digests = [version.digest for version in stored.get(resource_id, ())]
            overlap = _overlap(digests, [_digest(admitted) for _, admitted in once])
            outcomes += batches.publish(publisher, self._rules, once[overlap:], hold_older=False)
        same = len(ready) - len(outcomes)
        self.report.count(definition.name, Change.SAME.value, same)
        self._report_outcomes(outcomes)

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
        missing, total = deletions.count_missing(self._definitions, source_id, self._scratch)
        is_most = missing == total or (missing > deletions.FEW and missing * 2 > total)
        if missing and is_most and not self._options.force:
            self.report.notes.append(
                f"Nothing was deleted: {missing} of the {total} resources of "
                f"{self._options.source!r} are missing. With --force they are deleted."
            )
            return
        for definition, ids in deletions.missing_pages(self._definitions, source_id, self._scratch):
            with writing(patience=PATIENCE) as connection:
                publisher = self._publisher(connection)
                for resource_id in ids:
                    publisher.publish([deletion(definition, resource_id)])
            self.report.count(definition.name, Change.DELETED.value, len(ids))


def _digest(admitted: batches.AdmittedResource) -> bytes | None:
    return admitted.digest if isinstance(admitted, PreparedResource) else None


def _overlap(stored: Sequence[bytes | None], wanted: Sequence[bytes | None]) -> int:
    """Return how many of the first wanted contents are the last stored ones, in their order."""
    for count in range(min(len(stored), len(wanted)), 0, -1):
        if list(stored[-count:]) == list(wanted[:count]):
            return count
    return 0


def _now() -> str:
    return instant(datetime.now(UTC))
