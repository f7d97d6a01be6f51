"""The work of a schedule's run: what follows a backup, a watched folder's units, another server.

    FOLDER/lab.ndjson               a unit, taken once it is quiet
    FOLDER/.fhirapp/<job>/…         one that a run has taken; the next takes what a dead one left
    FOLDER/done/lab.ndjson          all of it is stored; its report lies beside it where files
                                    in it were skipped
    FOLDER/failed/lab.ndjson        something was rejected; its report lies beside it

Imports are idempotent, so a unit, or a pull, that broke off is simply taken again.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from fhirapp.config import ConfigurationError, Settings, with_parameters
from fhirapp.core import current_core
from fhirapp.db import with_patience, writing
from fhirapp.disk import naming_in, take
from fhirapp.features.backups.drill import drill
from fhirapp.features.backups.rotation import Naming, at_hand, place_of, prune, prune_kept
from fhirapp.features.imports.downloads import Downloads, import_downloads
from fhirapp.features.imports.inputs import shown, total_bytes
from fhirapp.features.imports.report import Report, write_report
from fhirapp.features.imports.runs import Options
from fhirapp.features.imports.watched import (
    DONE_FOLDER,
    FAILED_FOLDER,
    own_folder,
    state_of,
    waiting,
)
from fhirapp.features.pull.downloads import download_all
from fhirapp.fhir.temporal import moment_of
from fhirapp.jobs import schedule, table
from fhirapp.jobs.process import MADE, Tracker
from fhirapp.jobs.table import DONE, FAILED, WAITS, WORKS, Job, Progress
from fhirapp.ops.jobs import DRILL, FOLDER
from fhirapp.store.import_models import PATIENCE

_WORK = ".fhirapp"
REPORTS, REJECTED = ("report.json", "report.html"), "rejected.ndjson"
# In a work folder: what a living run holds, and what it makes of a unit.
_HELD, _MADE = ".held", ".made"
_SHOWN = 20
# Of a unit's name, so many bytes begin those of its reports.
_LONGEST_NAME = 150


def after_backup(
    settings: Settings, job: Job, naming: Naming, taken: Path, passphrase: str | None
) -> str:
    """Try a schedule's backup out, and remove the oldest; return a sentence on that.

    Nothing is removed where the new one is not whole. Raises ConfigurationError.
    """
    sentence, name, is_elsewhere = "", taken.name, bool(job.request.get("folder"))
    if job.request.get("drill"):
        with at_hand(settings, str(taken) if is_elsewhere else place_of(settings, name)) as path:
            drilled = drill(settings, path, passphrase)
        faults = drilled.faults[:_SHOWN]
        with current_core(settings):
            _note_drill(job, Progress(name=name, notes=faults), FAILED if faults else DONE)
        if faults:
            raise ConfigurationError(f"The backup {name} is not whole ({faults[0]}).")
        sentence = f" It is whole: {drilled.done}."
    if keep := job.request.get("keep"):
        stuck: Sequence[Path | str] = (
            prune(naming, keep, taken)[1]
            if is_elsewhere
            else prune_kept(settings, naming, keep, name)
        )
        if stuck:
            raise ConfigurationError(f"The old backup {stuck[0]} should be removed, but cannot be.")
    return sentence


def _note_drill(job: Job, progress: Progress, state: str) -> None:
    """Have the drill among those that the page of backups shows."""
    drill_id, now = table.new_id(), int(time.time())
    with writing() as connection:
        request = {"name": progress.name}
        table.add(connection, drill_id, DRILL, job.owner, now, request=request, runs=True)
    drilled = table.find(drill_id, DRILL)
    assert drilled is not None
    table.finish(drilled, state, now, progress=progress)


def pull(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Import what changed at another server since the last run that brought everything.

    Raises ConfigurationError; the next run then asks for the same again.
    """
    request = job.request

    def say(message: str) -> None:
        tracker.progress.notes = [message]
        tracker.note()

    tracker.phase(WORKS)
    address, key = request["address"], request.get("key")
    if request["since"]:
        address = with_parameters(address, [("_since", request["since"])])
    downloads = download_all(
        [address], settings, request.get("client_id"), key and Path(key), say, complete=False
    )
    tracker.progress.notes = []
    made = tracker.folder / MADE
    made.mkdir(mode=0o700, exist_ok=True)
    with with_patience(PATIENCE), current_core(settings):
        tracker.phase(WORKS, total_bytes(downloads.paths))
        report = _Importing(settings, job, tracker).run(downloads, made)
        # Asked anew, the server may have mended what was rejected.
        downloads.delete()
        if not report.complete:
            raise ConfigurationError(f"{_reason(report)} The next run asks for the same again.")
        time_there = next(iter(downloads.times), "")
        if not _is_moment(time_there):
            return "The server does not tell the time of its export: the next is of everything."
        schedule.remember_since(request["schedule"], job.id, time_there)
    return ""


def _is_moment(text: str) -> bool:
    try:
        return bool(moment_of(text))
    except ValueError:
        return False


def _reason(report: Report) -> str:
    """Return why a report is not complete, as a sentence."""
    if report.rejected_lines:
        first = report.rejected[0] if report.rejected else "see the report"
        return f"{report.rejected_lines} records were rejected ({first})."
    return report.notes[0]


class _Importing:
    """The imports of one run, whose counts add up."""

    def __init__(self, settings: Settings, job: Job, tracker: Tracker) -> None:
        self._settings, self._job, self._tracker = settings, job, tracker
        self._totals: dict[str, Counter[str]] = {}

    def run(self, downloads: Downloads, made: Path) -> Report:
        """Import paths; write the report, and what was rejected, into a folder."""
        job = self._job
        options = Options(
            source=job.request.get("source") or "",
            repair=bool(job.request.get("repair")),
            rejected=made / REJECTED,
            who=job.owner,
        )

        def begun(report: Report) -> None:
            self._tracker.counts = lambda: (report.run, self._sum(report))
            self._tracker.phase(WORKS)

        def waits() -> None:
            self._tracker.phase(WAITS)

        report = import_downloads(
            downloads, self._settings, options, self._tracker.add, waits, begun
        )
        counts = self._sum(report)
        self._totals = {name: Counter(of_type) for name, of_type in counts.items()}
        self._tracker.counts = lambda: (report.run, counts)
        _write(report, made)
        return report

    def _sum(self, report: Report) -> dict[str, dict[str, int]]:
        rows = {name: Counter(counts) for name, counts in report.rows()}
        return {
            name: dict(self._totals.get(name, Counter()) + rows.get(name, Counter()))
            for name in sorted({*self._totals, *rows})
        }


def _write(report: Report, made: Path) -> None:
    """Write a report; one that finds no room takes nothing from what was imported."""
    report.rejected_file = " ".join(sorted(path.name for path in made.glob("rejected.*")))
    for name in REPORTS:
        with suppress(ConfigurationError):
            write_report(report, made / name)


def take_folder(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Import each unit of a watched folder. Raises ConfigurationError where one has failed."""
    folder, notes = Path(job.request["folder"]), tracker.progress.notes
    with with_patience(PATIENCE), current_core(settings), _work_folder(folder, job.id) as work:
        units = [*waiting(folder, job.request["now"]), *_left(folder, job.id)]
        if not units:
            return "There was nothing to import."
        tracker.phase(WORKS, total_bytes([unit for unit in units if not unit.is_symlink()]))
        importing, failed = _Importing(settings, job, tracker), 0
        # Files are named as they lay there.
        os.chdir(work)
        try:
            for unit in units:
                fault, skipped = _take_unit(unit, folder, work, importing)
                failed += bool(fault)
                if fault or skipped:
                    del notes[_SHOWN:]
                    notes.append(f"{shown(Path(unit.name))}: {fault or _skipped(skipped)}")
        finally:
            os.chdir(tracker.folder)
            for left in {unit.parent for unit in units} - {folder}:
                _remove_empty(left)
    if failed:
        raise ConfigurationError(
            f"{failed} of {len(units)} were not fully imported; what failed is in "
            f"{folder / FAILED_FOLDER}, with a report."
        )
    return f"{len(units)} taken."


def _skipped(count: int) -> str:
    return f"Files without records were skipped: {count}. The report beside it names them."


@contextmanager
def _work_folder(folder: Path, job_id: str) -> Iterator[Path]:
    """Make the folder of a run, and hold it as long as this process lives."""
    if not folder.is_dir():
        raise ConfigurationError(f"There is no folder {folder}.")
    for name in (DONE_FOLDER, FAILED_FOLDER):
        own_folder(folder / name)
    work = own_folder(own_folder(folder / _WORK) / job_id)
    descriptor = os.open(work / _HELD, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        take(descriptor, alone=True)
        yield work
    finally:
        os.close(descriptor)
        _remove_empty(work)


def _remove_empty(work: Path) -> None:
    """Remove the folder of a run, unless a unit is in it."""
    shutil.rmtree(work / _MADE, ignore_errors=True)
    # Another run may be about to do so, too.
    with suppress(OSError):
        if {path.name for path in work.iterdir()} <= {_HELD}:
            (work / _HELD).unlink(missing_ok=True)
            work.rmdir()


def _left(folder: Path, job_id: str) -> list[Path]:
    """Return the units that runs had taken whose processes are gone.

    They come last, since one of them may be what ended the process.
    """
    works = [path for path in (folder / _WORK).iterdir() if table.is_id(path.name)]
    gone = [work for work in sorted(works) if work.name != job_id and _is_gone(work)]
    for work in gone:
        _remove_empty(work)
    return [
        unit for work in gone if work.is_dir() for unit in work.iterdir() if unit.name[0] != "."
    ]


def _is_gone(work: Path) -> bool:
    try:
        descriptor = os.open(work / _HELD, os.O_RDWR)
    except OSError:
        return False
    try:
        held = take(descriptor, alone=True)
    finally:
        os.close(descriptor)
    if held is None:
        # A file system without locks: then the table knows, if it is a run of this database.
        job = table.find(work.name, FOLDER)
        return job is not None and not job.is_under_way
    return held


def _take_unit(unit: Path, folder: Path, work: Path, importing: _Importing) -> tuple[str, int]:
    """Import a unit, and move it to where it belongs.

    Return why it failed, empty if it did not, and how many files in it were skipped.
    """
    taken, made = work / unit.name, work / _MADE
    if os.path.lexists(taken):
        return "another with this name could not be moved yet; it is imported after that one.", 0
    try:
        unit.rename(taken)
    except FileNotFoundError:
        # Another server has it.
        return "", 0
    try:
        before = state_of(taken)
        made.mkdir(mode=0o700, exist_ok=True)
        fault, skipped = _import_unit(taken, made, before, importing)
        if state_of(taken) != before:
            # Whoever writes it has not finished.
            _put_back(taken, folder)
            return "it changed while it was read, and is imported again.", 0
        if fault:
            _move(taken, folder / FAILED_FOLDER, made)
        else:
            _move(taken, folder / DONE_FOLDER, made if skipped else None)
    except BaseException:
        _put_back(taken, folder)
        raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return fault, skipped


def _import_unit(
    unit: Path, made: Path, found: Iterable[Path], importing: _Importing
) -> tuple[str, int]:
    """Import a unit and write its report; return what _take_unit does."""
    fault = next(filter(None, map(_not_to_be_read, found)), "")
    if not fault:
        # A name that an import takes for standard input.
        named = unit if unit.name == "-" else Path(unit.name)
        try:
            report = importing.run(Downloads(paths=[named]), made)
        except ConfigurationError as error:
            fault = str(error)
        else:
            fault = "" if report.complete else _reason(report)
            return fault, report.skipped_file_count.total()
    report = Report()
    report.add_rejected(shown(Path(unit.name)), [("", fault)])
    _write(report, made)
    return fault, 0


def _not_to_be_read(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"{shown(Path(path.name))} is a link, which is not followed."
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else f"{shown(path)} is no file."


def _put_back(taken: Path, folder: Path) -> None:
    """Put a unit back where it was; where that fails, the next run finds it in its work folder."""
    with suppress(OSError):
        if not os.path.lexists(folder / taken.name):
            taken.rename(folder / taken.name)


def _move(unit: Path, folder: Path, made: Path | None = None) -> None:
    """Move a unit into a folder, under another name where there is one; with its reports first."""
    with naming_in(folder):
        name, moment = unit.name, f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        if os.path.lexists(folder / name):
            name = f"{moment}-{name}"
        stem = os.fsencode(name)[:_LONGEST_NAME].decode(errors="ignore")
        for path in sorted(made.iterdir()) if made else ():
            # On another file system it cannot be renamed, and is copied.
            shutil.move(path, folder / f"{stem}.{path.name}")
        unit.rename(folder / name)
