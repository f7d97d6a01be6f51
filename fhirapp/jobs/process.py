"""A job as a process of its own, which outlives the server process that started it.

The process works in a folder of its machine, work/<job> in the instance folder. The files that it
leaves there in made/ are stored where all servers reach them (fhirapp/files.py), in
tasks/<job>/made/; the job's row lists them once all are there. Files that a process could not
store, because it was killed or the storage fails, are stored later by the servers of its machine.

A thread of the process renews the job's lease and writes its progress, since the work may hold a
transaction for long. A passphrase reaches the process by a pipe alone, so such a job is never begun
again automatically. Jobs of the kinds that features declare as `requeued` wait in the queue, and
are begun again if their process was killed.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any

from flask import Flask, current_app
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from fhirapp.config import PREFIX, ConfigurationError, Settings, declared, settings, settings_of
from fhirapp.db import Busy, database_errors, writing
from fhirapp.disk import is_older, reason_of, refuse_failures
from fhirapp.feature import requeued_kinds
from fhirapp.file_locks import lock, lock_abandoned
from fhirapp.files import StoredFile, orphans, shared_files
from fhirapp.jobs import queue
from fhirapp.jobs.queue import DONE, FAILED, STOPPED, UPLOADING, Job, Progress, is_id

_log = logging.getLogger(__name__)

# The program of a job's process.
MODULE = "fhirapp.server.work"
# The most jobs of one kind that run at once: started by people, and taken from the queue.
MOST, MOST_QUEUED = 4, 2
JOBS_FOLDER, MADE = "tasks", "made"
# The folder of a job with the files that were uploaded for it.
UPLOADED = "laid"
# How often the process looks for a stop request, and writes its progress.
_LOOK_SECONDS, _WRITE_SECONDS = 0.5, 2.0
# How long the end of a job waits for another writer: it is recorded once.
_PATIENCE = 60.0
# A file that reserves room on the disk for recording the end.
_ROOM, _ROOM_BYTES = "room", 256 * 1024
_EXPECTED = (ConfigurationError, DBAPIError, sqlite3.Error, OSError, MemoryError)


def folder_of(job_id: str, instance: Path) -> Path:
    """Return the folder where a job works on this machine; of an empty id, that of all jobs."""
    return instance / "work" / job_id


def _made_in(job_id: str) -> str:
    return f"{JOBS_FOLDER}/{job_id}/{MADE}"


def made_files(job: Job) -> list[StoredFile]:
    """Return the stored files of a job, by name; none until all of them are stored."""
    if job.is_under_way or job.state == UPLOADING:
        return []
    folder = _made_in(job.id)
    if job.progress.made is not None:
        return [StoredFile(f"{folder}/{name}", size, 0) for name, size in job.progress.made]
    # Its process was killed, or was of an earlier release.
    return sorted(shared_files(settings()).list(folder))


def remove(job: Job) -> None:
    """Remove a job that is not under way, with its files."""
    queue.delete_job(job.id)
    _remove_files(job.id)


def _remove_files(job_id: str) -> None:
    """Remove the stored files of a job; remove_orphans() removes those that cannot be removed."""
    with suppress(OSError):
        shared_files(settings()).delete_folder(f"{JOBS_FOLDER}/{job_id}")


def remove_orphans(before: float) -> None:
    """Remove files that were stored before a moment and belong to no job."""
    known = queue.all_ids()
    store = shared_files(settings())
    for folder in orphans(store, JOBS_FOLDER, known, before):
        if is_id(folder.removeprefix(f"{JOBS_FOLDER}/")):
            store.delete_folder(folder)
    for path in folder_of("", settings().instance).glob("*"):
        if path.name not in known and is_id(path.name) and is_older(path, before):
            shutil.rmtree(path, ignore_errors=True)


def store_leftover_files() -> None:
    """Store the files of this machine's jobs whose processes have ended. Raises OSError."""
    for path in folder_of("", settings().instance).glob("*"):
        job = queue.find_any(path.name) if is_id(path.name) else None
        if job is None or job.is_under_way:
            continue
        # The lock is held until the folder is removed: two processes would list half of it each.
        with lock_abandoned(path) as is_ours:
            if is_ours:
                queue.record_stored_files(job.id, _store_files(job.id, path))
                shutil.rmtree(path, ignore_errors=True)


def _store_files(job_id: str, folder: Path) -> list[tuple[str, int]]:
    """Store the files that a job made; return their names and sizes. Raises OSError."""
    store, made = shared_files(settings()), folder / MADE
    if not made.is_dir():
        return []
    for path in sorted(made.iterdir()):
        if path.is_file() and not path.is_symlink() and path.name[0] != ".":
            store.put(f"{_made_in(job_id)}/{path.name}", path)
    # Another process may have stored some of them.
    return sorted((file.base, file.size) for file in store.list(_made_in(job_id)))


def start(
    job_id: str,
    kind: str,
    *,
    owner: str,
    request: Mapping[str, Any],
    now: int,
    passphrase: str = "",
    schedule: str | None = None,
    claim: Callable[[Connection], bool] = lambda _connection: True,
) -> bool:
    """Start a job; return whether this call did: a form may be submitted twice.

    claim says whether the job may be added, in the same transaction. A schedule has one job under
    way. Raises ConfigurationError.
    """
    if sys.platform == "win32" or not sys.executable:
        raise ConfigurationError("This server cannot start a process here; use the command line.")
    with writing() as connection:
        is_new = claim(connection) and queue.add(
            connection, job_id, kind, owner, now, request=request, runs=True, schedule=schedule
        )
        if is_new and queue.count(connection, kind, under_way=True) > MOST:
            # The transaction is rolled back.
            raise ConfigurationError(f"{MOST} of these are already running; wait for one to end.")
    if not is_new:
        return False
    job = queue.find(job_id, kind)
    assert job is not None
    try:
        launch(job, passphrase)
    except ConfigurationError as error:
        if schedule is None:
            queue.delete_job(job_id)
        else:
            queue.finish(job, FAILED, now, error=str(error))
        raise
    return True


def start_queued(now: int) -> bool:
    """Start the next queued job of a requeued kind; return whether there was one.

    Needs an app context.
    """
    for kind in requeued_kinds():
        if not queue.has_claimable(kind, now):
            continue
        with writing() as connection:
            is_full = queue.count(connection, kind, alive=now) >= MOST_QUEUED
            job = None if is_full else queue.claim(connection, kind, now)
        if job is not None:
            try:
                launch(job)
            except ConfigurationError as error:
                _log.warning("the job %s cannot start: %s", job.id, error)
                queue.requeue(job, counts=False)
                continue
            return True
    return False


def launch(job: Job, passphrase: str = "") -> None:
    """Start the process of a job. Raises ConfigurationError."""
    configured = settings()
    folder = folder_of(job.id, configured.instance)
    what = f"The folder {folder.parent} cannot be written"
    with refuse_failures(what, "; make room, and try again."):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Files of an attempt that was killed.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
    try:
        _spawn(configured, job, folder, passphrase)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ConfigurationError(f"No process can be started ({reason_of(error)}).") from None


def _spawn(settings: Settings, job: Job, folder: Path, passphrase: str) -> None:
    """Start the process, with the settings in its environment and the passphrase by a pipe."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, job.id, str(job.attempts)],
        cwd=folder,
        env=environment(settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # Signals of the server's terminal and the end of this process do not end it.
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(passphrase.encode())
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    Thread(target=await_end, args=(app, process.wait, job), daemon=True).start()


def await_end(app: Flask, wait: Callable[[], object], job: Job) -> None:
    """Wait for a job's process; queue or interrupt the job if its end was not recorded."""
    wait()
    with app.app_context(), suppress(Busy, OSError, *database_errors()):
        if job.kind in requeued_kinds():
            queue.requeue(job)
        else:
            queue.interrupt(job)
        store_leftover_files()


def environment(settings: Settings) -> dict[str, str]:
    """Return this process's environment, with the settings that are in force."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    for setting in declared():
        kept[PREFIX + setting.name.upper()] = str(getattr(settings, setting.name))
    kept[f"{PREFIX}INSTANCE_PATH"] = str(settings.folder)
    path = [str(Path(__file__).resolve().parents[2]), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}


class _Stopped(BaseException):
    """A user asked the job to stop, its row is gone, or the service stops."""


def run_job(
    app: Flask, job_id: str, attempt: int, kinds: Mapping[str, Callable[[Job, Tracker], str]]
) -> None:
    """Run an attempt at a job in this process, by the function of its kind.

    The function returns a note, or an empty text.
    """
    with app.app_context():
        job = queue.find(job_id, *kinds)
    if job is None or not job.is_under_way or job.attempts != attempt:
        # It was cancelled, or this process began so late that another one has the job.
        return
    signal.signal(signal.SIGTERM, _stop)
    with Tracker(app, job) as tracker:
        try:
            with app.app_context():
                note = kinds[job.kind](job, tracker)
            _ignore_stop()
        except _Stopped:
            if job.kind in requeued_kinds() and not tracker.is_stop_requested:
                # The machine or the service stops.
                with app.app_context():
                    queue.requeue(job, counts=False)
            else:
                tracker.end(STOPPED)
        except _EXPECTED as error:
            _ignore_stop()
            tracker.end(FAILED, error=_sentence(error))
        except Exception:
            _ignore_stop()
            tracker.end(FAILED, error="It failed because of an error in this server; see its log.")
            raise
        else:
            tracker.end(DONE, note=note)


def _stop(_number: int, _frame: FrameType | None) -> None:
    _ignore_stop()
    raise _Stopped


def _ignore_stop() -> None:
    """Ignore SIGTERM while the outcome is recorded."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _sentence(error: Exception) -> str:
    """Return why a job failed."""
    if isinstance(error, ConfigurationError):
        return str(error)
    if isinstance(error, DBAPIError | sqlite3.Error):
        cause = getattr(error, "orig", None) or error
        reason = str(cause).strip().splitlines()[0]
        return f"The database cannot be used ({reason}); what was done until then stays."
    if isinstance(error, OSError):
        return f"The disk cannot be used ({reason_of(error)}); what was done until then stays."
    return "There was not enough memory for it; what was done until then stays."


class Tracker:
    """Tracks the progress of a job; its thread writes that, and looks for stop requests."""

    def __init__(self, app: Flask, job: Job) -> None:
        self.job = job
        self.folder = folder_of(job.id, settings_of(app).instance)
        self.progress = Progress(pid=os.getpid())
        # The number of the run and the counts of an import that is working.
        self.counts: Callable[[], tuple[int, dict[str, dict[str, int]]]] | None = None
        # When its files expire, in seconds since 1970; None if they do not.
        self.expires_at = job.expires_at
        # Removes files that the job stored itself, if it was deleted before its end.
        self.discard: Callable[[], None] = lambda: None
        # Whether a user stopped or deleted the job, or another process has it.
        self.is_stop_requested = False
        self._app = app
        self._shown = replace(self.progress)
        self._noted = 0.0
        # No other process stores the files of the folder before this one has ended.
        self._locks = ExitStack()
        self._ended = Event()
        self._thread = Thread(target=self._renew_lease, name="lease", daemon=True)

    def __enter__(self) -> Tracker:
        self._locks.enter_context(lock(self.folder, wait=False))
        self._reserve_room()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._locks.close()

    def phase(self, phase: str, total: int | None = None) -> None:
        """Note the phase of the job, and how much there is to do."""
        self.progress.phase = phase
        self.progress.total = self.progress.total if total is None else total
        self.note()

    def add(self, done: int) -> None:
        """Note that more is done."""
        self.at(self.progress.done + done, self.progress.total)

    def at(self, done: int, total: int | None) -> None:
        """Note how much is done, of how much."""
        self.progress.done, self.progress.total = done, total
        if time.monotonic() - self._noted > _LOOK_SECONDS:
            self.note()

    def note(self) -> None:
        """Give the thread a copy of the progress, which no longer changes."""
        if self.counts is not None:
            self.progress.run, self.progress.counts = self.counts()
        self._shown = replace(self.progress, counts=dict(self.progress.counts))
        self._noted = time.monotonic()

    def end(self, outcome: str, *, note: str = "", error: str | None = None) -> None:
        """Store the files of the job and record its outcome; remove them if it was deleted."""
        (self.folder / _ROOM).unlink(missing_ok=True)
        self.progress.notes = [*filter(None, [note]), *self.progress.notes]
        with self._app.app_context():
            try:
                self.progress.made = _store_files(self.job.id, self.folder)
            except OSError as fault:
                place = shared_files(settings()).place
                self.progress.storage_error = f"{place}: {reason_of(fault)}"
            self.note()
            is_ours = queue.finish(
                self.job,
                outcome,
                int(time.time()),
                progress=self._shown,
                error=error,
                expires_at=self.expires_at,
                patience=_PATIENCE,
            )
            self._ended.set()
            is_deleted = queue.find_any(self.job.id) is None
            if is_deleted:
                self.discard()
                _remove_files(self.job.id)
        # If the lease was lost, the folder is another attempt's.
        if is_deleted or (is_ours and not self.progress.storage_error):
            shutil.rmtree(self.folder, ignore_errors=True)
        _log.info("%s %s of %s: %s", self.job.kind, self.job.id, self.job.owner, outcome)

    def _renew_lease(self) -> None:
        """Renew the lease, write the progress and obey stop requests until the job has ended."""
        written, shown = 0.0, None
        while not self._ended.wait(_LOOK_SECONDS):
            with self._app.app_context(), suppress(Busy, *database_errors()):
                self._check_stop_request(queue.stop_requests(self.job.id))
                if time.monotonic() - written > _WRITE_SECONDS and (
                    self._shown is not shown or time.monotonic() - written > queue.LEASE_SECONDS / 3
                ):
                    shown, written = self._shown, time.monotonic()
                    if not queue.renew(self.job, shown, int(time.time())):
                        self._check_stop_request(None)

    def _check_stop_request(self, requests: int | None) -> None:
        """Stop the job if a user asked for that or its row is gone; asked again, at once."""
        if requests is not None and requests > 1:
            os.killpg(os.getpid(), signal.SIGKILL)
        if requests != 0 and signal.getsignal(signal.SIGTERM) is _stop:
            self.is_stop_requested = True
            os.kill(os.getpid(), signal.SIGTERM)

    def _reserve_room(self) -> None:
        with suppress(OSError), (self.folder / _ROOM).open("wb") as file:
            file.write(bytes(_ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())
