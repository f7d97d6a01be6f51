"""The job of a watched folder: each unit in it (a file or a folder) is imported.

    FOLDER/lab.ndjson               a unit, imported once it no longer changes
    FOLDER/.fhirapp/<job>/…         a unit that a run imports; if the run is killed, the next
                                    run imports it
    FOLDER/done/lab.ndjson          a unit that is stored completely; a report is beside it if
                                    files in it were skipped
    FOLDER/failed/lab.ndjson        a unit of which something was rejected, with its report

Imports are idempotent, so a unit whose import was interrupted is imported again.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from fhirapp.config import ConfigurationError, RefusedCommand, Settings
from fhirapp.core import current_core
from fhirapp.db import with_patience
from fhirapp.disk import database_path
from fhirapp.feature import N_
from fhirapp.features.imports.archives import Broken
from fhirapp.features.imports.downloads import Downloads
from fhirapp.features.imports.inputs import path_text, total_bytes
from fhirapp.features.imports.jobs import FOLDER, ScheduledImport, reason_of, write_reports
from fhirapp.features.imports.report import Report
from fhirapp.features.imports.watched import (
    DONE_FOLDER,
    FAILED_FOLDER,
    failed_units,
    own_folder,
    state_of,
    waiting,
)
from fhirapp.file_locks import directory_lock, lock
from fhirapp.jobs import queue
from fhirapp.jobs.kinds import FormField, ScheduleKind, check_folder
from fhirapp.jobs.process import Tracker
from fhirapp.jobs.queue import WORKS, Job
from fhirapp.jobs.schedules import Schedule
from fhirapp.store.import_models import PATIENCE

_T = TypeVar("_T")
_WORK = ".fhirapp"
# Names in a run's work folder: the file that the run locks, and the folder of a unit's reports.
_HELD, _MADE = ".held", ".made"
_SHOWN = 20
# Bytes of a unit's name with which the names of its reports begin.
_LONGEST_NAME = 150
# How long listing a folder on another machine may delay the start of other jobs.
_LOOK_SECONDS = 5.0
# The last thread that listed a folder, and when it began: no second thread lists a folder that
# does not answer.
_listing: dict[Path, tuple[Thread, float]] = {}


def take_folder(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Import each unit of a watched folder. Raises ConfigurationError if an import fails."""
    folder, notes = Path(job.request["folder"]), tracker.progress.notes
    with with_patience(PATIENCE), current_core(settings), _work_folder(folder, job.id) as work:
        units = [*waiting(folder, job.request["now"]), *_leftovers(folder, job.id)]
        if not units:
            return "There was nothing to import."
        tracker.phase(WORKS, total_bytes([unit for unit in units if not unit.is_symlink()]))
        importing, failed = ScheduledImport(settings, job, tracker), 0
        # Reports name files by their paths in the folder.
        os.chdir(work)
        try:
            for unit in units:
                fault, skipped = _take_unit(unit, folder, work, importing)
                failed += bool(fault)
                if fault or skipped:
                    del notes[_SHOWN:]
                    ignored = f"Files without records were skipped: {skipped}. "
                    note = fault or f"{ignored}The report beside it names them."
                    notes.append(f"{path_text(Path(unit.name))}: {note}")
        finally:
            os.chdir(tracker.folder)
            for leftover in {unit.parent for unit in units} - {folder}:
                _remove_empty(leftover)
    if failed:
        raise ConfigurationError(
            f"{failed} of {len(units)} were not fully imported; what failed is in "
            f"{folder / FAILED_FOLDER}, with a report."
        )
    return f"{len(units)} taken."


@contextmanager
def _work_folder(folder: Path, job_id: str) -> Iterator[Path]:
    """Create the work folder of a run, and lock it until the run or this process ends."""
    if not folder.is_dir():
        raise ConfigurationError(f"There is no folder {folder}.")
    for name in (DONE_FOLDER, FAILED_FOLDER):
        own_folder(folder / name)
    work = own_folder(own_folder(folder / _WORK) / job_id)
    try:
        with lock(work / _HELD, wait=False, create=True):
            yield work
    finally:
        _remove_empty(work)


def _remove_empty(work: Path) -> None:
    """Remove the work folder of a run, unless it contains a unit."""
    shutil.rmtree(work / _MADE, ignore_errors=True)
    # Another run may remove it at the same time.
    with suppress(OSError):
        if {path.name for path in work.iterdir()} <= {_HELD}:
            (work / _HELD).unlink(missing_ok=True)
            work.rmdir()


def _leftovers(folder: Path, job_id: str) -> list[Path]:
    """Return the units of runs whose processes have ended.

    They are imported last, since such a unit may be the reason why the process ended.
    """
    works = [path for path in (folder / _WORK).iterdir() if queue.is_id(path.name)]
    ended = [work for work in sorted(works) if work.name != job_id and _has_ended(work)]
    for work in ended:
        _remove_empty(work)
    return [
        unit for work in ended if work.is_dir() for unit in work.iterdir() if unit.name[0] != "."
    ]


def _has_ended(work: Path) -> bool:
    """Say whether the process of a run's work folder has ended."""
    try:
        with lock(work / _HELD, wait=False) as is_free:
            if is_free is not None:
                return is_free
    except OSError:
        return False
    # A file system without locks: the queue knows the runs of this database.
    job = queue.find(work.name, FOLDER)
    return job is not None and not job.is_under_way


def _take_unit(unit: Path, folder: Path, work: Path, importing: ScheduledImport) -> tuple[str, int]:
    """Import a unit, and move it to done/ or failed/.

    Return why it failed, empty if it did not, and how many files in it were skipped.
    """
    taken, made = work / unit.name, work / _MADE
    if os.path.lexists(taken):
        return "another with this name could not be moved yet; it is imported after that one.", 0
    try:
        unit.rename(taken)
    except FileNotFoundError:
        # Another server imports it.
        return "", 0
    try:
        before = state_of(taken)
        made.mkdir(mode=0o700, exist_ok=True)
        fault, skipped = _import_unit(taken, made, before, importing)
        if state_of(taken) != before:
            # It is still being written.
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
    unit: Path, made: Path, found: Iterable[Path], importing: ScheduledImport
) -> tuple[str, int]:
    """Import a unit and write its report; return what _take_unit does."""
    fault = next(filter(None, map(_not_to_be_read, found)), "")
    if not fault:
        # The name - means standard input.
        named = unit if unit.name == "-" else Path(unit.name)
        try:
            report = importing.run(Downloads(paths=[named]), made)
        except ConfigurationError as error:
            fault = str(error)
        else:
            fault = "" if report.complete else reason_of(report)
            return fault, report.skipped_file_count.total()
    report, name = Report(), path_text(Path(unit.name))
    report.begin_file(name)
    report.add_unread(Broken(fault))
    report.add_rejected(name, [("", fault)])
    write_reports(report, made)
    return fault, 0


def _not_to_be_read(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"{path_text(Path(path.name))} is a link, which is not followed."
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else f"{path_text(path)} is no file."


def _put_back(taken: Path, folder: Path) -> None:
    """Move a unit back into the folder; if that fails, the next run finds it in the work folder."""
    with suppress(OSError):
        if not os.path.lexists(folder / taken.name):
            taken.rename(folder / taken.name)


def _move(unit: Path, folder: Path, made: Path | None = None) -> None:
    """Move a unit and its reports into a folder, the reports first; a name in use is changed."""
    with directory_lock(folder):
        name, moment = unit.name, f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        if os.path.lexists(folder / name):
            name = f"{moment}-{name}"
        stem = os.fsencode(name)[:_LONGEST_NAME].decode(errors="ignore")
        for path in sorted(made.iterdir()) if made else ():
            # shutil.move() copies a report from another file system.
            shutil.move(path, folder / f"{stem}.{path.name}")
        unit.rename(folder / name)


def _check(settings: Settings, _name: str, options: Mapping[str, Any]) -> None:
    check_folder(options.get("folder") or "")
    folder = Path(options["folder"]).resolve()
    database = database_path(settings)
    for own in filter(None, [settings.folder, database and database.parent]):
        if folder.is_relative_to(own.resolve()) or own.resolve().is_relative_to(folder):
            raise RefusedCommand(
                "%(folder)s contains files of the server itself, or lies inside such a folder. "
                "Choose another folder.",
                folder=folder,
            )
    for path in (folder / DONE_FOLDER, folder / FAILED_FOLDER):
        if path.is_symlink() or not path.is_dir():
            raise RefusedCommand(
                "Create the folders %(done)s and %(failed)s in %(folder)s first. This makes sure "
                "that no other folder is emptied by mistake.",
                done=DONE_FOLDER,
                failed=FAILED_FOLDER,
                folder=folder,
            )
    for path in (folder, folder / DONE_FOLDER, folder / FAILED_FOLDER):
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise RefusedCommand(
                "The user account that runs the server needs read and write permission for "
                "%(folder)s.",
                folder=path,
            )


def _make_folders(options: Mapping[str, Any]) -> None:
    """Create done/ and failed/ in a folder to watch. Raises ConfigurationError."""
    if Path(options.get("folder", "")).is_dir():
        for own in (DONE_FOLDER, FAILED_FOLDER):
            own_folder(Path(options["folder"], own))


def _has_work(schedule: Schedule, now: int) -> bool:
    """Say whether a watched folder has units to import. Raises ConfigurationError."""
    folder = Path(schedule.options["folder"])

    def look() -> bool:
        try:
            works = folder / _WORK
            return bool(waiting(folder, now)) or (works.is_dir() and any(works.iterdir()))
        except OSError:
            return True

    return _within_time(folder, look)


def _count_failed(schedule: Schedule) -> int:
    """Return the number of units in a watched folder's failed/; 0 if it cannot be listed."""
    folder = Path(schedule.options["folder"])
    try:
        return _within_time(folder, lambda: len(failed_units(folder)))
    except (ConfigurationError, OSError):
        # The next run reports the error.
        return 0


def _within_time(folder: Path, look: Callable[[], _T]) -> _T:
    """Return the result of look(), or raise its error; it runs in a thread of its own.

    A folder on another machine that does not answer blocks that thread alone. Raises
    ConfigurationError then.
    """
    found: Future[_T] = Future()
    silent = ConfigurationError(f"The watched folder {folder} does not answer.")
    before, began = _listing.get(folder, (None, 0.0))
    if before and before.is_alive() and time.monotonic() - began > _LOOK_SECONDS:
        raise silent

    def work() -> None:
        try:
            found.set_result(look())
        except Exception as error:  # noqa: BLE001
            found.set_exception(error)

    thread = Thread(target=work, name="watched folder", daemon=True)
    _listing[folder] = thread, time.monotonic()
    thread.start()
    try:
        return found.result(timeout=_LOOK_SECONDS)
    except FutureTimeoutError:
        raise silent from None


SOURCE = FormField(N_("Source"), N_("A name for the system that the records come from."))
REPAIR = FormField(N_("Repair invalid records by fixed rules"), is_tick=True)
SCHEDULE = ScheduleKind(
    name=FOLDER,
    label=N_("Import from a folder"),
    fields={
        "folder": FormField(
            N_("Folder"),
            N_("Path on the server. It must contain the folders done and failed."),
            is_needed=True,
        ),
        "source": SOURCE,
        "repair": REPAIR,
    },
    job_path="/admin/imports/{job_id}",
    check=_check,
    make_folders=_make_folders,
    has_work=_has_work,
    # The page of an import shows these names of files.
    request=lambda run: {"names": [run.options["folder"]], "count": 1, "provenance": True},
    count_failed=_count_failed,
)
