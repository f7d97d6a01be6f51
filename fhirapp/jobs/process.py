"""A job as a process of its own, which outlives the server process that started it.

It works in a folder of its machine, work/<job> in the instance folder, and what it leaves there in
made/ is put where all servers reach it (fhirapp/files.py): tasks/<job>/made/. The job's row lists
that and says that the job has ended once it is there. What a process could not put there, because
it was killed or nothing can be stored now, its machine's servers put there later.

The process renews the job's lease and writes its progress from a thread, since the work may hold a
transaction for long. A passphrase reaches it by a pipe alone, so such a job is never begun again by
itself. Jobs of the kinds that features name as `requeued` wait in the queue for their turn, and are
begun again when their process was killed.
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
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any

from flask import Flask, current_app
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from fhirapp.config import PREFIX, ConfigurationError, Settings, declared, settings, settings_of
from fhirapp.db import Busy, Reader, database_errors, db, writing
from fhirapp.disk import is_older, reason_of
from fhirapp.feature import requeued_kinds
from fhirapp.file_locks import lock, lock_abandoned
from fhirapp.files import StoredFile, orphans, shared_files
from fhirapp.jobs import queue
from fhirapp.jobs.queue import DONE, FAILED, STOPPED, Job, Progress, is_id

_log = logging.getLogger(__name__)

# The program of a job's process.
MODULE = "fhirapp.server.work"
# Jobs of one kind that run at once: those that people start, and those that wait for their turn.
MOST, MOST_QUEUED = 4, 2
JOBS_FOLDER, MADE = "tasks", "made"
# The folder of a job with what was uploaded for it.
UPLOADED = "laid"
# How often the process looks whether it shall stop, and writes its progress.
_LOOK_SECONDS, _WRITE_SECONDS = 0.5, 2.0
# How long the end of a job waits for another writer: it is told once.
_PATIENCE = 60.0
_NOT_KEPT = (
    "What it made cannot be kept in %s (%s); it stays on the server where it ran, and is kept "
    "as soon as that goes."
)
# A file whose room is kept for the end: where the disk is full by then, the table says so.
_ROOM, _ROOM_BYTES = "room", 256 * 1024
_EXPECTED = (ConfigurationError, DBAPIError, sqlite3.Error, OSError, MemoryError)


def folders(instance: Path) -> Path:
    """Return the folder where this machine's jobs work."""
    return instance / "work"


def folder_of(job_id: str, instance: Path) -> Path:
    """Return the folder where a job works on this machine."""
    return folders(instance) / job_id


def _made_in(job_id: str) -> str:
    return f"{JOBS_FOLDER}/{job_id}/{MADE}"


def made_files(job: Job) -> list[StoredFile]:
    """Return what a job made and can be fetched, by name."""
    folder = _made_in(job.id)
    if job.progress.made is not None:
        return [StoredFile(f"{folder}/{name}", size, 0) for name, size in job.progress.made]
    # One that was killed, or of an earlier release.
    return sorted(shared_files(settings()).list(folder))


def remove(job: Job) -> None:
    """Remove a job that has ended, with all that it made; what stays has no row, and goes later."""
    queue.delete_job(job.id)
    with suppress(OSError):
        shared_files(settings()).delete_folder(f"{JOBS_FOLDER}/{job.id}")


def remove_orphans(before: float) -> None:
    """Remove what no job made, and was put where it is before a moment."""
    known = queue.all_ids()
    store = shared_files(settings())
    for folder in orphans(store, JOBS_FOLDER, known, before):
        if is_id(folder.removeprefix(f"{JOBS_FOLDER}/")):
            store.delete_folder(folder)
    for path in folders(settings().instance).glob("*"):
        if path.name not in known and is_id(path.name) and is_older(path, before):
            shutil.rmtree(path, ignore_errors=True)


def keep_left() -> None:
    """Keep what processes of this machine made that are gone. Raises OSError."""
    for path in folders(settings().instance).glob("*"):
        job = queue.find_any(path.name) if is_id(path.name) else None
        if job is None or job.is_under_way:
            continue
        # Held meanwhile: else what one has put there, another would miss.
        with lock_abandoned(path) as is_ours:
            if is_ours:
                queue.note_made(job.id, _keep(job.id, path))
                shutil.rmtree(path, ignore_errors=True)


def _keep(job_id: str, folder: Path) -> list[tuple[str, int]]:
    """Put what a job made where all servers reach it; return names and sizes. Raises OSError."""
    store, made = shared_files(settings()), folder / MADE
    if not made.is_dir():
        return []
    for path in sorted(made.iterdir()):
        if path.is_file() and not path.is_symlink() and path.name[0] != ".":
            store.put(f"{_made_in(job_id)}/{path.name}", path)
    # Another process may have put some of it there.
    return sorted((file.base, file.size) for file in store.list(_made_in(job_id)))


def start(
    job_id: str,
    kind: str,
    *,
    owner: str,
    request: Mapping[str, Any],
    passphrase: str = "",
    claim: Callable[[Connection], bool] = lambda _connection: True,
) -> bool:
    """Start a job; return whether this call did: a form may be submitted twice.

    claim says whether it is ours to start, in the transaction that adds it. Raises
    ConfigurationError.
    """
    if sys.platform == "win32" or not sys.executable:
        raise ConfigurationError("This server cannot start a process here; use the command line.")
    with writing() as connection:
        is_ours = claim(connection)
        is_full = is_ours and queue.count(connection, kind, under_way=True) >= MOST
        is_new = (is_ours and not is_full) and queue.add(
            connection, job_id, kind, owner, int(time.time()), request=request, runs=True
        )
    if is_full and queue.find(job_id, kind) is None:
        raise ConfigurationError(f"{MOST} of these are already running; wait for one to end.")
    if not is_new:
        return False
    job = queue.find(job_id, kind)
    assert job is not None
    try:
        launch(job, passphrase)
    except ConfigurationError:
        queue.delete_job(job_id)
        raise
    return True


def start_queued(now: int) -> bool:
    """Start the next job of a kind that is begun again when its process is killed, if any.

    Return whether there was one. Needs an app context.
    """
    for kind in requeued_kinds():
        with closing(Reader(db.engine)) as snapshot:
            if not queue.has_claimable(snapshot, kind, now):
                continue
        with writing() as connection:
            is_full = queue.count_running(connection, kind, now) >= MOST_QUEUED
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
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Files of an attempt that was killed.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ConfigurationError(
            f"The folder {folder.parent} cannot be written ({reason_of(error)}); make room, and "
            "try again."
        ) from None
    try:
        _spawn(configured, job, folder, passphrase)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ConfigurationError(f"No process can be started ({reason_of(error)}).") from None


def _spawn(settings: Settings, job: Job, folder: Path, passphrase: str) -> None:
    """Start the process. What it needs to know it is given: a passphrase by a pipe alone."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, job.id, str(job.attempts)],
        cwd=folder,
        env=environment(settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # Neither a key at the server's terminal nor the end of this process ends it.
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(passphrase.encode())
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    Thread(target=await_end, args=(app, process.wait, job), daemon=True).start()


def await_end(app: Flask, wait: Callable[[], object], job: Job) -> None:
    """Wait for a job's process; queue or interrupt the job if it did not say how it ended."""
    wait()
    with app.app_context(), suppress(Busy, OSError, *database_errors()):
        if job.kind in requeued_kinds():
            queue.requeue(job)
        else:
            queue.interrupt(job)
        keep_left()


def environment(settings: Settings) -> dict[str, str]:
    """Return this process's environment, with the settings that are in force."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    for setting in declared():
        kept[PREFIX + setting.name.upper()] = str(getattr(settings, setting.name))
    kept[f"{PREFIX}INSTANCE_PATH"] = str(settings.folder)
    path = [str(Path(__file__).resolve().parents[2]), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}


class _Stopped(BaseException):
    """A user asked the job to stop, or its row is gone."""


def perform(
    app: Flask, job_id: str, attempt: int, kinds: Mapping[str, Callable[[Job, Tracker], str]]
) -> None:
    """Run an attempt at a job in this process; its function returns a note, or an empty text."""
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
            tracker.end(FAILED, _sentence(error))
        except Exception:
            _ignore_stop()
            tracker.end(FAILED, "It failed because of an error in this server; see its log.")
            raise
        else:
            tracker.end(DONE, note)


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
    """Notes how far a job is; a thread of it writes that, and looks whether the job shall stop."""

    def __init__(self, app: Flask, job: Job) -> None:
        self.job = job
        self.folder = folder_of(job.id, settings_of(app).instance)
        self.progress = Progress(pid=os.getpid())
        # What an import that is at work has counted so far, and the number of its run.
        self.counts: Callable[[], tuple[int, dict[str, dict[str, int]]]] | None = None
        # When its files expire, in seconds since 1970; None if they do not.
        self.expires_at = job.expires_at
        # Whether a user stopped or deleted the job, or another process has it.
        self.is_stop_requested = False
        self._app = app
        self._shown = replace(self.progress)
        self._noted = 0.0
        # No other process stores the files of the folder before this one has ended.
        self._locks = ExitStack()
        self._ended = Event()
        self._thread = Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> Tracker:
        self._locks.enter_context(lock(self.folder, wait=False))
        self._keep_room()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()

    def phase(self, phase: str, total: int | None = None) -> None:
        """Note that the job came so far, and how much there is to do."""
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
        """Give the thread that writes how far the job is a state that no longer changes."""
        if self.counts is not None:
            self.progress.run, self.progress.counts = self.counts()
        self._shown = replace(self.progress, counts=dict(self.progress.counts))
        self._noted = time.monotonic()

    def end(self, state: str, *notes: str) -> None:
        """Keep what the job made, and write how it ended."""
        (self.folder / _ROOM).unlink(missing_ok=True)
        is_kept = True
        with self._app.app_context():
            try:
                self.progress.made = _keep(self.job.id, self.folder)
            except OSError as error:
                is_kept, self.progress.ends, state = False, state, FAILED
                notes = (_NOT_KEPT % (shared_files(settings()).place, reason_of(error)), *notes)
            self.progress.notes = [*filter(None, notes), *self.progress.notes]
            self.note()
            is_ours = queue.finish(
                self.job,
                state,
                int(time.time()),
                progress=self._shown,
                expires_at=self.expires_at,
                patience=_PATIENCE,
            )
            self._ended.set()
            is_gone = queue.find_any(self.job.id) is None
        # Another attempt has the folder where this one's lease was lost.
        if is_gone or (is_kept and is_ours):
            shutil.rmtree(self.folder, ignore_errors=True)
        _log.info("%s %s of %s: %s", self.job.kind, self.job.id, self.job.owner, state)

    def _keep(self) -> None:
        written, shown = 0.0, None
        while not self._ended.wait(_LOOK_SECONDS):
            with self._app.app_context(), suppress(Busy, *database_errors()):
                self._obey(queue.stop_requests(self.job.id))
                if time.monotonic() - written > _WRITE_SECONDS and (
                    self._shown is not shown or time.monotonic() - written > queue.LEASE_SECONDS / 3
                ):
                    shown, written = self._shown, time.monotonic()
                    if not queue.renew(self.job, shown, int(time.time())):
                        self._obey(None)

    def _obey(self, requests: int | None) -> None:
        """Stop where a user asked for that, or the job was deleted; asked again, at once."""
        if requests is not None and requests > 1:
            os.killpg(os.getpid(), signal.SIGKILL)
        if requests != 0 and signal.getsignal(signal.SIGTERM) is _stop:
            self.is_stop_requested = True
            os.kill(os.getpid(), signal.SIGTERM)

    def _keep_room(self) -> None:
        with suppress(OSError), (self.folder / _ROOM).open("wb") as file:
            file.write(bytes(_ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())
