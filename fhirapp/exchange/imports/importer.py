"""Import: units in batches, each published in one transaction.

What is refused is reported with its place, and the rest is published all the same. An import that
was killed is begun again: what is there already makes no new version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from sqlalchemy import Connection

from fhirapp.config import Settings
from fhirapp.db import Reader, db, writing
from fhirapp.definition import Definition
from fhirapp.disk import scratch as scratch_folder
from fhirapp.disk import turn
from fhirapp.exchange.imports import runs, sources
from fhirapp.exchange.imports.admission import (
    OLDER,
    REFERENCE,
    Admission,
    Deletion,
    Follower,
    PublishFirst,
    Refused,
    subject_of,
    type_of,
)
from fhirapp.exchange.imports.archives import Archives
from fhirapp.exchange.imports.batches import Ready, batches, publish
from fhirapp.exchange.imports.histories import Past, with_words
from fhirapp.exchange.imports.inputs import Input, find_inputs, in_order, shown
from fhirapp.exchange.imports.records import Unit
from fhirapp.exchange.imports.references import dangling, unreachable
from fhirapp.exchange.imports.report import Rejects, Report
from fhirapp.exchange.imports.runs import Options, collect
from fhirapp.exchange.imports.scratch import Scratch
from fhirapp.exchange.imports.sources import refuse_narrowed
from fhirapp.fhir.temporal import instant
from fhirapp.store.migrate import rendering_in_force
from fhirapp.store.prepare import Notes, Prepared, blob_ids
from fhirapp.store.publish import Brought, Publisher
from fhirapp.store.version import Change
from fhirapp.store.write import Rendering

# Values of one SELECT: SQLite takes 32,766.
_AT_ONCE = 10_000
# How long an import waits for another writer.
PATIENCE = 60
_REFUSALS: Mapping[Change | str, str] = {
    Change.FOREIGN: (
        "is known from another source, with other content; give the ids of one of them a prefix "
        "(--id-prefix), or import both under one name (--source)"
    ),
    Change.CLAIMED: (
        "is what records of another source refer to, and may be somebody else's there; give its "
        "ids a prefix (--id-prefix), or import both under one name (--source)"
    ),
    Change.MISFILED: (
        "stands for a record of another patient in this import already; each record needs an id "
        "of its own"
    ),
}

_OWN_TIMES = (
    "histories keep their own times: an export --since the last one does not have them, export all"
)

# Told the bytes of the inputs that are read.
Progress = Callable[[int], None]


def import_paths(
    paths: Sequence[Path],
    definitions: Mapping[str, Definition],
    settings: Settings,
    options: Options | None = None,
    progress: Progress = lambda _bytes: None,
    waits: Callable[[], None] = lambda: None,
    begun: Callable[[Report], None] = lambda _report: None,
) -> Report:
    """Import files, folders and archives; "-" is standard input.

    Imports of one instance folder take turns: each tells what it brought. waits is called where
    this one begins when another has ended; begun is given the report that grows meanwhile. Raises
    ConfigurationError for what is not there, and where an export of a part would delete the rest.
    """
    settings.instance.mkdir(parents=True, exist_ok=True)
    with (
        turn(settings.instance / "import.lock", waits),
        scratch_folder(settings.instance) as spool,
        Archives() as archives,
        Scratch() as scratch,
        Notes(definitions["Binary"]) as notes,
    ):
        options = options or Options()
        inputs = in_order(find_inputs(paths, spool, archives), definitions)
        if options.delete_missing:
            refuse_narrowed(paths, spool, archives)
        run = Import(definitions, settings, options, notes, scratch)
        run.begin([shown(path) for path in paths])
        begun(run.report)
        for one in inputs:
            run.take(one, progress)
        run.finish()
    return run.report


class Import:
    """One run: what it published, and what waits for what it points to."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        settings: Settings,
        options: Options,
        notes: Notes,
        scratch: Scratch,
    ) -> None:
        self.report = Report()
        self._definitions = definitions
        self._options = options
        self._rendering = Rendering.of(settings)
        self._notes = notes
        self._scratch = scratch
        self._admission = Admission(definitions, options, scratch, self.report)
        self._folder = settings.instance / "imports"
        self._rejects = Rejects(self._folder)
        self._run = runs.Run(0, None, {}, {})
        self._strangers: set[str] = set()
        self._brought = Brought()
        # There are other sources, whose ids may mean something else.
        self._is_apart = False

    def begin(self, inputs: Sequence[str]) -> None:
        """Note that a run begins."""
        with writing(patience=PATIENCE) as connection:
            self._run = runs.begin(connection, self._definitions, inputs, self._options, _now())
            source_id = self._run.source_id
            self._is_apart = source_id is not None and sources.has_others(connection, source_id)
        if source_id is not None and self._is_apart:
            self._admission.apart.begin(source_id)
        self.report.run = self._run.id
        path = self._folder / f"{self._run.id}.rejected.ndjson"
        self._rejects = Rejects(self._options.rejected or path)

    def take(self, one: Input, progress: Progress) -> None:
        """Publish an input, in batches."""
        self._publish_all(self._admission.parsed(self._admission.reader.read(one, progress)))

    def finish(self) -> None:
        """Publish what waited; references that still cannot be resolved are kept as they are."""
        before = -1
        while (waiting := self._scratch.waiting(REFERENCE)) not in (0, before):
            before = waiting
            self._publish_all(self._admission.again(REFERENCE))
        self._publish_all(self._admission.again(REFERENCE), final=True)
        self._publish_older()
        self.report.unreadable.update(self._notes.unreadable)
        self.report.unread.update(self._notes.unread)
        with db.engine.connect() as connection:
            since = self._run.untold
            for target, why, times in dangling(connection, self._definitions, since):
                self.report.keep(target, why, times)
            for lost in unreachable(connection, self._definitions, since):
                self.report.lose(*lost)
        if self._options.delete_missing:
            self._delete_missing()
        self._rejects.close()
        self.report.rejected_file = " ".join(map(str, self._rejects.paths))
        with writing(patience=PATIENCE, much=True) as connection:
            if self._options.provenance:
                publisher = self._publisher(connection, None)
                runs.write_provenance(publisher, connection, self._definitions, self._run, _now())
            runs.end(connection, self._run, _now(), self.report.content()["changes"])

    def _publish_all(self, units: Iterable[Unit], *, final: bool = False) -> None:
        """Publish units, batch by batch; of each nothing stays in memory."""
        for batch in batches(units):
            self._publish(batch, final=final)
            batch.clear()
            collect()

    def _publish(self, units: Sequence[Unit], *, final: bool = False) -> None:
        """Publish a batch; in two or more, where something in it asks for what stands before it."""
        while units:
            ready, units = self._ready(units, final=final)
            self._write(ready)
            self._admission.published()

    def _ready(self, units: Sequence[Unit], *, final: bool) -> tuple[list[Ready], Sequence[Unit]]:
        """Return what can be published at once, and the units that come after that."""
        snapshot = Reader(db.engine)
        try:
            ready, rest = self._admitted(units, snapshot, final=final)
            return self._with_words(ready, snapshot), rest
        finally:
            snapshot.close()

    def _write(self, ready: Sequence[Ready]) -> None:
        if not ready:
            return
        with writing(patience=PATIENCE, much=True) as connection:
            publisher = self._publisher(connection, self._run.source_id)
            outcomes = publish(publisher, connection, ready)
            self._note_shared(publisher, connection)
        # Only what is committed is told.
        self.report.came_twice(publisher.twice)
        for unit, type_name, outcome in outcomes:
            self._tell(unit, type_name, outcome)

    def _admitted(
        self, units: Sequence[Unit], snapshot: Reader, *, final: bool
    ) -> tuple[list[Ready], Sequence[Unit]]:
        ready: list[Ready] = []
        for place, unit in enumerate(units):
            try:
                one = self._admission.admit(unit, snapshot, final=final)
            except Refused as refused:
                self._reject(unit, refused.faults, follows=isinstance(refused, Follower))
                continue
            except PublishFirst:
                return ready, units[place:]
            if one is not None:
                ready.append((unit, one))
        return ready, ()

    def _tell(self, unit: Unit, type_name: str, outcome: Change | str) -> None:
        """Report what came of a unit."""
        if outcome is Change.OLDER:
            self._admission.put_aside(unit, OLDER)
        elif outcome in _REFUSALS:
            self._reject(unit, [(f"{type_name}.id", _REFUSALS[outcome])])
        elif isinstance(outcome, Change):
            self.report.count(type_name, outcome.value)
            is_past = type_of(unit.resource) == "Bundle"
            if is_past and outcome is not Change.SAME and any(self._run.last_rows.values()):
                self.report.remark("", _OWN_TIMES)
        else:
            self._reject(unit, [(type_name, outcome)])

    def _publisher(self, connection: Connection, source_id: int | None) -> Publisher:
        # The time is taken while nobody else writes, so that it rises with the versions.
        return Publisher(
            connection,
            now=_now(),
            rendering=rendering_in_force(connection, self._rendering),
            binary=self._definitions["Binary"],
            source_id=source_id,
            brought=self._brought,
            strangers=self._strangers if source_id else None,
            is_apart=self._is_apart,
        )

    def _note_shared(self, publisher: Publisher, connection: Connection) -> None:
        if self._run.source_id is not None:
            sources.note_shared(connection, self._run.source_id, publisher.shared)

    def _with_words(self, ready: Sequence[Ready], snapshot: Reader) -> list[Ready]:
        """Return resources with the words of their documents; of stored ones they are known."""
        resources = [one for _, one in ready if isinstance(one, Prepared)]
        read = iter(self._notes.read(resources, self._known(blob_ids(resources), snapshot)))
        complete: list[Ready] = []
        for unit, one in ready:
            if isinstance(one, Prepared):
                complete.append((unit, next(read)))
            elif isinstance(one, Past):
                complete.append((unit, with_words(one, self._notes)))
            else:
                complete.append((unit, one))
        return complete

    def _known(self, ids: Sequence[str], snapshot: Reader) -> frozenset[str]:
        """Return which documents are stored already: their words need not be read again."""
        table = self._definitions["Binary"].sql_table
        known: set[str] = set()
        for at in range(0, len(ids), _AT_ONCE):
            batch = ids[at : at + _AT_ONCE]
            marks = ", ".join("?" * len(batch))
            asked = f"SELECT id FROM {table} WHERE is_current AND id IN ({marks})"
            known.update(row[0] for row in snapshot.all(asked, batch))
        return frozenset(known)

    def _publish_older(self) -> None:
        """Publish content that earlier versions had, where the source has not gone on from it.

        Of what the source holds of a resource, in order, the first may be its last versions here.
        """
        for _, group in groupby(self._admission.again(OLDER), subject_of):
            ready, _ = self._ready([*group], final=True)
            # The same twice in a row is one version.
            once = [
                (unit, one)
                for place, (unit, one) in enumerate(ready)
                if place == 0 or _digest(one) != _digest(ready[place - 1][1])
            ]
            held = [one for _, one in once if isinstance(one, Prepared | Deletion)]
            if not held:
                continue
            definition, resource_id = held[0].definition, held[0].id
            with writing(patience=PATIENCE) as connection:
                publisher = self._publisher(connection, self._run.source_id)
                stored = publisher.digests(definition, [resource_id])[resource_id]
                there = _overlap(stored, [*map(_digest, held)])
                outcomes = publish(publisher, connection, once[there:], hold_older=False)
                self._note_shared(publisher, connection)
            same = there + len(ready) - len(once)
            self.report.count(definition.name, Change.SAME.value, same)
            for unit, type_name, outcome in outcomes:
                self._tell(unit, type_name, outcome)

    def _delete_missing(self) -> None:
        """Delete what the source holds no more."""
        source_id = self._run.source_id
        if self.report.rejected_lines:
            self.report.notes.append(
                "Nothing was deleted: what was rejected may be what is missing. Mend it, and "
                "import all of it again."
            )
            return
        gone, held = sources.count(self._definitions, source_id, self._scratch)
        is_most = gone == held or (gone > sources.FEW and gone * 2 > held)
        if gone and is_most and not self._options.force:
            self.report.notes.append(
                f"Nothing was deleted: {gone} of the {held} resources of "
                f"{self._options.source!r} did not come. With --force they are deleted."
            )
            return
        for definition, ids in sources.pages(self._definitions, source_id, self._scratch):
            with writing(patience=PATIENCE) as connection:
                publisher = self._publisher(connection, self._run.source_id)
                changes = [publisher.delete(definition, one) for one in ids]
            self.report.count(definition.name, "deleted", changes.count(Change.DELETED))

    def _reject(
        self, unit: Unit, faults: Sequence[tuple[str, str]], *, follows: bool = False
    ) -> None:
        """Report a refusal, and keep what was refused."""
        if unit.has_prefix:
            self._admission.take_prefix_off(unit)
        type_name = type_of(unit.resource) or ""
        known = type_name if type_name in self._definitions else ""
        if follows:
            self.report.follow(unit.place, known)
        else:
            self.report.reject(unit.place, [*faults], known)
        self._rejects.add(unit)


def _digest(one: object) -> bytes | None:
    return one.digest if isinstance(one, Prepared) else None


def _overlap(stored: Sequence[bytes | None], wanted: Sequence[bytes | None]) -> int:
    """Return how many of the first wanted contents are the last stored ones, in their order."""
    for count in range(min(len(stored), len(wanted)), 0, -1):
        if list(stored[-count:]) == list(wanted[:count]):
            return count
    return 0


def _now() -> str:
    return instant(datetime.now(UTC))
