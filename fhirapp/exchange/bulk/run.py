"""One export, from its claim to its end.

The claim takes the lock to write, so that nobody's writing is under way: all that is committed is
of the instant or before, and all that comes later has a later time. So the next export since that
instant finds what this one has not, and nothing falls between the two but histories that are
imported: their versions keep the times that they had.

The thread in which a server process works on exports, one at a time.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import islice
from threading import Event, Thread
from typing import NamedTuple

from flask import Flask, current_app
from werkzeug.test import create_environ

from fhirapp.auth.access import Access
from fhirapp.db import Busy, Reader, database_errors, db, is_busy, writing
from fhirapp.db.reader import generation
from fhirapp.definition import types
from fhirapp.exchange.bulk import files, jobs
from fhirapp.exchange.bulk.export_request import GROUP, Wanted, members, registered_still
from fhirapp.exchange.bulk.files import DELETED, ERROR, OUTPUT, Attempt, DiskFull
from fhirapp.exchange.bulk.jobs import Job
from fhirapp.exchange.bulk.ndjson import Part, marks_of, part_of
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.bundle import compact
from fhirapp.fhir.outcome import FhirError, Forbidden, issue, operation_outcome
from fhirapp.fhir.temporal import instant
from fhirapp.rest.response import with_addresses
from fhirapp.rest.subset import subset

_log = logging.getLogger(__name__)

# How often a lease is renewed; how long before its end an attempt is given up that could not be.
_RENEW_SECONDS, _MARGIN_SECONDS = 5, 5
# Deletions in one Bundle.
_BUNDLED = 100
# Attempts to write of which the disk, or a quota, says that there is no room.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_FULL = "The export did not fit on the server's disk; ask for less, or its operator for room."
_UNWRITABLE = "The export's files could not be written; the server's log says more."
_BUG = "Something went wrong in the export; the server's log says more."
_CLIENT_ENDED = "The client was disabled, or its scopes were taken away."
_NOBODY = "The group has no members that are patients here"


class Lost(Exception):
    """The export was cancelled, or is another worker's now."""


class Stopped(Exception):
    """The server stops."""


class Pace(NamedTuple):
    """How a worker goes about it: the clock in seconds since 1970, its rests, and when it stops.

    rest is told how many seconds were worked since the last one.
    """

    clock: Callable[[], float] = time.time
    rest: Callable[[float], None] = lambda _worked: None
    is_stopping: Callable[[], bool] = lambda: False


# Without rests, until the end.
AT_ONCE = Pace()


def work(pace: Pace = AT_ONCE) -> bool:
    """Do one export, if one waits; say whether one came to an end. Within an app's context."""
    with closing(Reader(db.engine)) as before:
        if not jobs.waits(before, int(pace.clock())):
            return False
    claimed = _claim(pace)
    if claimed is None:
        return False
    job = claimed.job
    try:
        _Run(job, pace).write(claimed)
    except Lost:
        _clean_up(job)
    except Stopped:
        _release(job)
        return False
    except FhirError as error:
        _fail(job, error.diagnostics, pace)
    except DiskFull:
        _fail(job, _FULL, pace)
    except OSError as error:
        _log.warning("export: %s", error.strerror)
        _fail(job, _FULL if error.errno in _NO_ROOM else _UNWRITABLE, pace)
    except Exception as error:  # noqa: BLE001
        if is_busy(error):
            _release(job)
            return False
        _log.error("export failed", exc_info=error)
        _fail(job, _BUG, pace)
    return True


class _Claimed(NamedTuple):
    """An export that is this worker's, with a snapshot of its instant, and the instant."""

    job: Job
    snapshot: Reader
    transaction_time: str


def _claim(pace: Pace) -> _Claimed | None:
    """Claim an export; None where there is none."""
    snapshot = None
    try:
        with writing() as connection:
            job = jobs.claim(connection, int(pace.clock()))
            if job is None:
                return None
            snapshot = Reader(db.engine)
            # A snapshot begins with what is read first.
            snapshot.first("SELECT 1 FROM store_state LIMIT 1")
            transaction_time = instant(datetime.now(UTC))
            # Whoever writes next has a later time.
            time.sleep(0.001)
    except BaseException:
        if snapshot is not None:
            snapshot.close()
        raise
    return _Claimed(job, snapshot, transaction_time)


def _release(job: Job) -> None:
    """Remove what an attempt wrote, and let another worker begin anew."""
    files.remove_attempt(job.id, job.attempts)
    if not jobs.release(job):
        _clean_up(job)


def _fail(job: Job, error: str, pace: Pace) -> None:
    """End an export that cannot be done; what it wrote is removed."""
    files.remove_attempt(job.id, job.attempts)
    if not jobs.fail(job, error, int(pace.clock())):
        _clean_up(job)


def _clean_up(job: Job) -> None:
    """Remove what an attempt wrote that is not this worker's any more; all, if it was cancelled."""
    files.remove_attempt(job.id, job.attempts)
    with closing(Reader(db.engine)) as snapshot:
        if jobs.find(snapshot, job.id) is None:
            files.remove(job.id)


class _Run:
    """An attempt at an export."""

    def __init__(self, job: Job, pace: Pace) -> None:
        self._job = job
        self._pace = pace
        self._percent = 0
        self._renewed = pace.clock()
        self._rested = time.monotonic()

    def write(self, claimed: _Claimed) -> None:
        """Write everything. Raises Lost, Stopped, FhirError, DiskFull, OSError."""
        with closing(claimed.snapshot) as snapshot:
            wanted = files.read_request(self._job.id)
            access = registered_still(wanted.scope, _registered(snapshot, self._job.client_id))
            if not access.scopes:
                raise Forbidden(_CLIENT_ENDED)
            attempt = Attempt(self._job.id, self._job.attempts)
            notes = [*wanted.notes]
            with _addressed(wanted):
                patients = _patients(snapshot, wanted, access, notes)
                parts = self._parts(snapshot, wanted, access, patients)
        with _addressed(wanted):
            self._write_parts(attempt, parts, wanted)
        _write_notes(attempt, notes)
        ended = instant(datetime.fromtimestamp(self._pace.clock(), UTC))
        attempt.end(claimed.transaction_time, ended)
        if not jobs.finish(self._job, int(self._pace.clock())):
            raise Lost

    def _parts(
        self,
        snapshot: Reader,
        wanted: Wanted,
        access: Access,
        patients: Sequence[str] | None,
    ) -> list[Part]:
        marks = marks_of(snapshot, wanted.types)
        served = types()
        return [
            part_of(snapshot, served[name], wanted, access, patients, mark, self._breathe)
            for name, mark in marks.items()
        ]

    def _write_parts(self, attempt: Attempt, parts: Sequence[Part], wanted: Wanted) -> None:
        whole = sum(part.length for part in parts) or 1
        before = 0
        for part in parts:
            definition = part.definition
            elements = wanted.elements_of(definition.name)
            with attempt.lines(OUTPUT, definition.name) as write:
                for seen, page in part.pages():
                    for _, body in page:
                        shown = subset(definition, body, "false", elements)
                        write(compact(with_addresses(shown, definition.attachments)))
                    self._percent = 100 * (before + seen) // whole
                    self._breathe()
            before += part.length
        with attempt.lines(DELETED, "Bundle") as write:
            gone = (f"{one.definition.name}/{row_id}" for one in parts for row_id in one.deleted)
            while some := list(islice(gone, _BUNDLED)):
                write(_deletions(some))

    def _breathe(self) -> None:
        """Let others have their turn, and keep the lease. Raises Lost, Stopped."""
        if self._pace.is_stopping():
            raise Stopped
        now = time.monotonic()
        self._pace.rest(now - self._rested)
        self._rested = time.monotonic()
        clock = self._pace.clock()
        if clock - self._renewed < _RENEW_SECONDS:
            return
        try:
            is_ours = jobs.renew(self._job, self._percent, int(clock))
        except Exception as error:
            if not is_busy(error):
                raise
            # Somebody writes for long: the lease holds a while yet.
            is_ours = clock - self._renewed < jobs.LEASE_SECONDS - _MARGIN_SECONDS
        else:
            self._renewed = clock
        if not is_ours:
            raise Lost


@contextmanager
def _addressed(wanted: Wanted) -> Iterator[None]:
    """Have addresses made as those under which the export was asked for."""
    # On loopback, where none is configured, the request's Host tells them.
    with current_app.request_context(create_environ("/", wanted.base_url)):
        yield


def _registered(snapshot: Reader, client_id: str) -> str:
    """Return the scopes that a client is registered for now."""
    asked = "SELECT scope FROM oauth_client WHERE client_id = ? AND NOT disabled"
    found = snapshot.first(asked, (client_id,))
    return "" if found is None else str(found[0])


def _patients(
    snapshot: Reader, wanted: Wanted, access: Access, notes: list[tuple[str, str]]
) -> tuple[str, ...] | None:
    """Return whose records are wanted, None for all. Raises NotFound, Gone."""
    if wanted.level != GROUP:
        return wanted.patients
    found = members(snapshot, access, wanted.group)
    if wanted.patients is not None:
        found = tuple(one for one in found if one in wanted.patients)
    if not found:
        notes.append(("", _NOBODY))
    return found


def _deletions(names: Sequence[str]) -> bytes:
    """Return the Bundle that tells what was deleted; names are Type/id."""
    entries = [{"request": {"method": "DELETE", "url": name}} for name in names]
    return fhir_json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries})


def _write_notes(attempt: Attempt, notes: Sequence[tuple[str, str]]) -> None:
    """Write an OperationOutcome for each parameter that was not followed."""
    with attempt.lines(ERROR, "OperationOutcome") as write:
        for name, reason in notes:
            told = (
                issue("warning", "not-supported", f"{name}: {reason}", name)
                if name
                else issue("information", "informational", reason)
            )
            write(fhir_json.dumps(operation_outcome([told])))


_EXTENSION = "fhirapp.bulk"
# How soon an export that another process took on is seen, in seconds; how often it is looked for
# those whose worker was killed, and for those that expired.
_POLL_SECONDS, _LOOK_SECONDS, _SWEEP_SECONDS = 0.5, 5.0, 60.0
# How long the end of a server waits for a page to be written; whoever waits longer is left to die,
# and the export is claimed anew once the lease is over.
_END_SECONDS = 1.0
# The longest rest: what takes longer than a page waits for the database, not for us.
_REST_SECONDS = 0.05


def init_app(app: Flask) -> None:
    """Give the app what wakes its worker, should it have one."""
    app.extensions[_EXTENSION] = Event()


def wake() -> None:
    """Tell this process's worker that there is an export."""
    awake: Event = current_app.extensions[_EXTENSION]
    awake.set()


@contextmanager
def exporting(app: Flask) -> Iterator[None]:
    """Work on exports meanwhile; what is under way at the end is begun anew by another process."""
    worker = Worker(app)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


class Worker(Thread):
    """Looks for exports and does them, until it is stopped."""

    def __init__(self, app: Flask) -> None:
        super().__init__(name="exports", daemon=True)
        self._app = app
        self._awake: Event = app.extensions[_EXTENSION]
        self._stopping = False
        self._looked = self._swept = 0.0
        self._seen = b""

    def stop(self) -> None:
        """Stop after the page at hand."""
        self._stopping = True
        self._awake.set()
        self.join(_END_SECONDS)

    def run(self) -> None:
        pace = Pace(time.time, self._rest, lambda: self._stopping)
        with self._app.app_context():
            passing: tuple[type[Exception], ...] = (OSError, Busy, *database_errors())
        while not self._stopping:
            self._awake.clear()
            with self._app.app_context():
                try:
                    self._turn(pace)
                except passing as error:
                    _log.warning("exports wait: %s", type(error).__name__)
            self._awake.wait(_POLL_SECONDS)

    def _turn(self, pace: Pace) -> None:
        """Do what waits, if something was written since the last look, or that is long ago."""
        now = time.monotonic()
        seen = generation().now()
        if seen != self._seen or now - self._looked > _LOOK_SECONDS:
            self._seen, self._looked = seen, now
            while not self._stopping and work(pace):
                pass
        if now - self._swept > _SWEEP_SECONDS:
            self._swept = now
            sweep(int(pace.clock()))

    def _rest(self, worked: float) -> None:
        time.sleep(min(worked, _REST_SECONDS))


def sweep(now: int) -> None:
    """Forget the exports that expired, and remove the files that belong to none."""
    with closing(Reader(db.engine)) as snapshot:
        expired = jobs.forget_expired(snapshot, now)
    for export_id in expired:
        files.remove(export_id)
    with closing(Reader(db.engine)) as snapshot:
        for name in files.orphans(jobs.known(snapshot)):
            files.remove(name)
