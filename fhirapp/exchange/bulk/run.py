"""Run one export, from its claim to its end.

The claim holds the write lock, so that no other transaction is writing: everything committed is of
the transaction time or before, and later writes have a later time. An export `_since` that time
therefore continues exactly where this one ends, except for imported histories, whose versions keep
their original times.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from flask import current_app
from werkzeug.test import create_environ

from fhirapp.auth.scopes import Access
from fhirapp.db import Reader, db, is_busy, writing
from fhirapp.definition import types
from fhirapp.exchange.bulk import files, jobs
from fhirapp.exchange.bulk.export_request import GROUP, ExportRequest, members, still_registered
from fhirapp.exchange.bulk.files import DELETED, ERROR, OUTPUT, Attempt, DiskFull
from fhirapp.exchange.bulk.jobs import Job
from fhirapp.exchange.bulk.ndjson import Part, marks_of, part_of
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import compact
from fhirapp.fhir.outcome import FhirError, Forbidden, issue, operation_outcome
from fhirapp.fhir.temporal import instant
from fhirapp.rest.response import subset, with_addresses

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
_EMPTY_GROUP = "The group has no members who are patients on this server"


class LeaseLost(Exception):
    """The export was cancelled, or another worker has it."""


class ServerStopping(Exception):
    """The server stops."""


class Pace(NamedTuple):
    """The worker's clock in seconds since 1970, its pauses, and its signal to stop.

    pause receives the seconds of work since the previous pause.
    """

    clock: Callable[[], float] = time.time
    pause: Callable[[float], None] = lambda _worked: None
    is_stopping: Callable[[], bool] = lambda: False


WITHOUT_PAUSES = Pace()


def run_next(pace: Pace = WITHOUT_PAUSES) -> bool:
    """Run the next queued export; return whether one ended. Needs an app context."""
    with closing(Reader(db.engine)) as snapshot:
        if not jobs.has_claimable(snapshot, int(pace.clock())):
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
    """An export that this worker claimed, with its transaction time and a snapshot of that time."""

    job: Job
    snapshot: Reader
    transaction_time: str


def _claim(pace: Pace) -> _Claimed | None:
    """Claim an export; None if there is none."""
    snapshot = None
    try:
        with writing() as connection:
            job = jobs.claim(connection, int(pace.clock()))
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
    if not jobs.release(job):
        _clean_up(job)


def _fail(job: Job, error: str, pace: Pace) -> None:
    """Mark an export as failed, and remove the attempt's files."""
    files.remove_attempt(job.id, job.attempts)
    if not jobs.fail(job, error, int(pace.clock())):
        _clean_up(job)


def _clean_up(job: Job) -> None:
    """Remove the files of a lost attempt, or all files if the export was cancelled."""
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
        self._renewed_at = pace.clock()
        self._paused_at = time.monotonic()

    def write(self, claimed: _Claimed) -> None:
        """Write all files. Raises LeaseLost, ServerStopping, FhirError, DiskFull, OSError."""
        with closing(claimed.snapshot) as snapshot:
            export_request = files.read_request(self._job.id)
            access = still_registered(
                export_request.scope, _registered(snapshot, self._job.client_id)
            )
            if not access.scopes:
                raise Forbidden(_CLIENT_ENDED)
            attempt = Attempt(self._job.id, self._job.attempts)
            notes = [*export_request.notes]
            with _base_address(export_request):
                patients = _patients(snapshot, export_request, access, notes)
                parts = self._parts(snapshot, export_request, access, patients)
        with _base_address(export_request):
            self._write_parts(attempt, parts, export_request)
        _write_notes(attempt, notes)
        ended = instant(datetime.fromtimestamp(self._pace.clock(), UTC))
        attempt.end(claimed.transaction_time, ended)
        if not jobs.finish(self._job, int(self._pace.clock())):
            raise LeaseLost

    def _parts(
        self,
        snapshot: Reader,
        export_request: ExportRequest,
        access: Access,
        patients: Sequence[str] | None,
    ) -> list[Part]:
        marks = marks_of(snapshot, export_request.types)
        served = types()
        return [
            part_of(snapshot, served[name], export_request, access, patients, mark, self._pause)
            for name, mark in marks.items()
        ]

    def _write_parts(
        self, attempt: Attempt, parts: Sequence[Part], export_request: ExportRequest
    ) -> None:
        total = sum(part.length for part in parts) or 1
        finished = 0
        for part in parts:
            definition = part.definition
            elements = export_request.elements_of(definition.name)
            with attempt.lines(OUTPUT, definition.name) as write:
                for seen, page in part.pages():
                    for _, body in page:
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
            is_ours = jobs.renew(self._job, self._percent, int(clock))
        except Exception as error:
            if not is_busy(error):
                raise
            # Another transaction writes for long: the lease is still valid for a while.
            is_ours = clock - self._renewed_at < jobs.LEASE_SECONDS - _MARGIN_SECONDS
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


def _write_notes(attempt: Attempt, notes: Sequence[tuple[str, str]]) -> None:
    """Write an OperationOutcome for each ignored parameter."""
    with attempt.lines(ERROR, "OperationOutcome") as write:
        for name, reason in notes:
            note = (
                issue("warning", "not-supported", f"{name}: {reason}", name)
                if name
                else issue("information", "informational", reason)
            )
            write(fhir_json.dumps(operation_outcome([note])))
