"""One export, from its kick-off to the removal of its files.

The claim holds the write lock, so that no other transaction is writing: everything committed is of
the transaction time or before, and later writes have a later time. An export `_since` that time
therefore continues exactly where this one ends, except for imported histories, whose versions keep
their original times.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from flask import current_app
from werkzeug.test import create_environ

from fhirapp.auth.scopes import Access
from fhirapp.config import ConfigurationError, settings
from fhirapp.db import Reader, db, is_busy, writing
from fhirapp.definition import types
from fhirapp.features.exports.bulk import files
from fhirapp.features.exports.bulk.export_request import (
    GROUP,
    ExportRequest,
    members,
    still_registered,
)
from fhirapp.features.exports.bulk.files import DELETED, ERROR, OUTPUT, DiskFull, ExportAttempt
from fhirapp.features.exports.bulk.ndjson import ExportPart, marks_of, part_of
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import compact
from fhirapp.fhir.outcome import FhirError, Forbidden, Throttled, issue, operation_outcome
from fhirapp.fhir.temporal import instant
from fhirapp.jobs import queue, worker
from fhirapp.jobs.queue import DONE, FAILED, LEASE_SECONDS, Job, Progress
from fhirapp.jobs.worker import WITHOUT_PAUSES, Pace
from fhirapp.rest.response import with_addresses
from fhirapp.rest.subset import subset
from fhirapp.trail import Unwritable
from fhirapp.trail.events import record_export

_log = logging.getLogger(__name__)

# How often the lease is renewed; how long before its end an attempt that cannot renew it gives up.
_RENEW_SECONDS, _MARGIN_SECONDS = 5, 5
# Deletions in one Bundle.
_DELETIONS_PER_BUNDLE = 100
# Errors of a full disk, quota or file system.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_FULL = "The export does not fit on the server's disk; export less, or ask its operator for room."
_UNWRITABLE = "The export's files could not be written; see the server's log."
_BUG = "The export failed because of an error in the server; see its log."
_CLIENT_ENDED = "The client was disabled or lost its scopes."
_NEVER_FINISHED = "The export was started several times, but never finished."
_EMPTY_GROUP = "The group has no members who are patients on this server"


KIND = "bulk-export"
# The most exports of one client: in progress, and in all until deleted or expired.
IN_PROGRESS, KEPT = 2, 10
# Retry-After for a client that has too many.
WAIT_SECONDS = 60
# Files are removed this long after the expiry, so that a download in progress can finish.
GRACE_SECONDS = 3_600


class LeaseLost(Exception):
    """The export was cancelled, or another worker has it."""


class ServerStopping(Exception):
    """The server stops."""


def enqueue(export_id: str, client_id: str, now: int) -> None:
    """Queue an export, whose request is in its folder. Raises Throttled for a client's too many."""
    with writing() as connection:
        mine = partial(queue.count, connection, KIND, owner=client_id, unexpired=now)
        if mine(under_way=True) >= IN_PROGRESS:
            raise _throttled(
                f"{IN_PROGRESS} exports of this client are in progress; wait for one to finish."
            )
        if mine() >= KEPT:
            raise _throttled(
                f"{KEPT} exports of this client are kept; DELETE one that you have fetched."
            )
        queue.add(connection, export_id, KIND, client_id, now, expires_at=_expiry(now))
    worker.wake()


def _throttled(diagnostics: str) -> Throttled:
    return Throttled(diagnostics, headers={"Retry-After": str(WAIT_SECONDS)})


def _expiry(now: int) -> int:
    return now + settings().export_hours * 3_600


def run_next(pace: Pace = WITHOUT_PAUSES) -> bool:
    """Run the next queued export; return whether one ended. Needs an app context."""
    with closing(Reader(db.engine)) as snapshot:
        if not queue.has_claimable(snapshot, KIND, int(pace.clock())):
            return False
    claimed = _claim(pace)
    if claimed is None:
        return False
    job = claimed.job
    try:
        _Run(job, pace).write(claimed)
    except LeaseLost:
        _clean_up(job)
    except ServerStopping:
        _release(job)
        return False
    except (FhirError, Unwritable) as error:
        _fail(job, error.diagnostics if isinstance(error, FhirError) else str(error), pace)
    except DiskFull:
        _fail(job, _FULL, pace)
    except (OSError, ConfigurationError) as error:
        _log.warning("export: %s", error.strerror if isinstance(error, OSError) else error)
        is_full = isinstance(error, OSError) and error.errno in _NO_ROOM
        _fail(job, _FULL if is_full else _UNWRITABLE, pace)
    except Exception as error:  # noqa: BLE001
        if is_busy(error):
            _release(job)
            return False
        _log.error("export failed", exc_info=error)
        _fail(job, _BUG, pace)
    return True


class _Claimed(NamedTuple):
    """An export that this worker claimed, with its transaction time and a snapshot of that time."""

    job: Job
    snapshot: Reader
    transaction_time: str


def _claim(pace: Pace) -> _Claimed | None:
    """Claim an export; None if there is none."""
    snapshot = None
    try:
        with writing() as connection:
            now = int(pace.clock())
            job = queue.claim(
                connection, KIND, now, expires_at=_expiry(now), gave_up=_NEVER_FINISHED
            )
            if job is None:
                return None
            snapshot = Reader(db.engine)
            # A snapshot begins with its first read.
            snapshot.first("SELECT 1 FROM store_state LIMIT 1")
            transaction_time = instant(datetime.now(UTC))
            # The next writer gets a later time.
            time.sleep(0.001)
    except BaseException:
        if snapshot is not None:
            snapshot.close()
        raise
    return _Claimed(job, snapshot, transaction_time)


def _release(job: Job) -> None:
    """Remove the attempt's files, and let another worker start again."""
    files.remove_attempt(job.id, job.attempts)
    if not queue.release(job):
        _clean_up(job)


def _fail(job: Job, error: str, pace: Pace) -> None:
    """Mark an export as failed, and remove the attempt's files."""
    files.remove_attempt(job.id, job.attempts)
    now = int(pace.clock())
    if not queue.finish(job, FAILED, now, error=error, expires_at=_expiry(now)):
        _clean_up(job)


def _clean_up(job: Job) -> None:
    """Remove the files of a lost attempt, or all files if the export was cancelled."""
    files.remove_attempt(job.id, job.attempts)
    if queue.find(job.id, KIND) is None:
        files.remove(job.id)


def cancel(export_id: str) -> None:
    """Delete an export with its files, whether it is done or not."""
    queue.delete_job(export_id)
    files.remove(export_id)


def sweep(now: int) -> None:
    """Delete expired exports, and folders that belong to none."""
    with closing(Reader(db.engine)) as snapshot:
        expired = queue.delete_expired(snapshot, KIND, now - GRACE_SECONDS)
    for export_id in expired:
        files.remove(export_id)
    files.remove_orphans(queue.all_ids())


class _Run:
    """An attempt at an export."""

    def __init__(self, job: Job, pace: Pace) -> None:
        self._job = job
        self._pace = pace
        self._percent = 0
        # The patients whose records are written.
        self._held: set[str] = set()
        self._renewed_at = pace.clock()
        self._paused_at = time.monotonic()

    def write(self, claimed: _Claimed) -> None:
        """Write all files. Raises LeaseLost, ServerStopping, FhirError, DiskFull, OSError."""
        with closing(claimed.snapshot) as snapshot:
            export_request = files.read_request(self._job.id)
            access = still_registered(export_request.scope, _registered(snapshot, self._job.owner))
            if not access.scopes:
                raise Forbidden(_CLIENT_ENDED)
            notes = [*export_request.notes]
            with _base_address(export_request):
                patients = _patients(snapshot, export_request, access, notes)
                parts = self._parts(snapshot, export_request, access, patients)
        with files.attempt_at(self._job.id, self._job.attempts) as attempt:
            with _base_address(export_request):
                self._write_parts(attempt, parts, export_request)
            _write_notes(attempt, notes)
            # Before it can be fetched: where the trail cannot be written, nothing is.
            record_export(self._held, f"bulk export {self._job.id}", client_id=self._job.owner)
            ended = instant(datetime.fromtimestamp(self._pace.clock(), UTC))
            attempt.end(claimed.transaction_time, ended)
        now = int(self._pace.clock())
        if not queue.finish(self._job, DONE, now, expires_at=_expiry(now)):
            raise LeaseLost

    def _parts(
        self,
        snapshot: Reader,
        export_request: ExportRequest,
        access: Access,
        patients: Sequence[str] | None,
    ) -> list[ExportPart]:
        marks = marks_of(snapshot, export_request.types)
        served = types()
        return [
            part_of(snapshot, served[name], export_request, access, patients, mark, self._pause)
            for name, mark in marks.items()
        ]

    def _write_parts(
        self, attempt: ExportAttempt, parts: Sequence[ExportPart], export_request: ExportRequest
    ) -> None:
        total = sum(part.length for part in parts) or 1
        finished = 0
        for part in parts:
            definition = part.definition
            elements = export_request.elements_of(definition.name)
            with attempt.lines(OUTPUT, definition.name) as write:
                for seen, page in part.pages():
                    for _, body, patient_id in page:
                        if patient_id is not None:
                            self._held.add(patient_id)
                        shown = subset(definition, body, "false", elements)
                        write(compact(with_addresses(shown, definition.attachments)))
                    self._percent = 100 * (finished + seen) // total
                    self._pause()
            finished += part.length
        with attempt.lines(DELETED, "Bundle") as write:
            deleted = (f"{part.definition.name}/{id_}" for part in parts for id_ in part.deleted)
            while names := list(islice(deleted, _DELETIONS_PER_BUNDLE)):
                write(_deletions(names))

    def _pause(self) -> None:
        """Let other threads run, and renew the lease. Raises LeaseLost, ServerStopping."""
        if self._pace.is_stopping():
            raise ServerStopping
        now = time.monotonic()
        self._pace.pause(now - self._paused_at)
        self._paused_at = time.monotonic()
        clock = self._pace.clock()
        if clock - self._renewed_at < _RENEW_SECONDS:
            return
        try:
            progress = Progress(done=self._percent, total=100)
            is_ours = queue.renew(self._job, progress, int(clock))
        except Exception as error:
            if not is_busy(error):
                raise
            # Another transaction writes for long: the lease is still valid for a while.
            is_ours = clock - self._renewed_at < LEASE_SECONDS - _MARGIN_SECONDS
        else:
            self._renewed_at = clock
        if not is_ours:
            raise LeaseLost


@contextmanager
def _base_address(export_request: ExportRequest) -> Iterator[None]:
    """Build URLs on the base address of the kick-off.

    Without a configured address, on loopback, URLs depend on the Host of the request.
    """
    with current_app.request_context(create_environ("/", export_request.base_url)):
        yield


def _registered(snapshot: Reader, client_id: str) -> str:
    """Return the scopes that a client is registered for; none if it is disabled."""
    registration = "SELECT scope FROM oauth_client WHERE client_id = ? AND NOT disabled"
    row = snapshot.first(registration, (client_id,))
    return "" if row is None else str(row[0])


def _patients(
    snapshot: Reader, export_request: ExportRequest, access: Access, notes: list[tuple[str, str]]
) -> tuple[str, ...] | None:
    """Return the ids of the patients to export, None for all. Raises NotFound, Gone."""
    if export_request.level != GROUP:
        return export_request.patients
    patients = members(snapshot, access, export_request.group)
    if export_request.patients is not None:
        patients = tuple(patient for patient in patients if patient in export_request.patients)
    if not patients:
        notes.append(("", _EMPTY_GROUP))
    return patients


def _deletions(names: Sequence[str]) -> bytes:
    """Return the Bundle that lists deleted resources; names are Type/id."""
    entries = [{"request": {"method": "DELETE", "url": name}} for name in names]
    return fhir_json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries})


def _write_notes(attempt: ExportAttempt, notes: Sequence[tuple[str, str]]) -> None:
    """Write an OperationOutcome for each ignored parameter."""
    with attempt.lines(ERROR, "OperationOutcome") as write:
        for name, reason in notes:
            note = (
                issue("warning", "not-supported", f"{name}: {reason}", name)
                if name
                else issue("information", "informational", reason)
            )
            write(fhir_json.dumps(operation_outcome([note])))
