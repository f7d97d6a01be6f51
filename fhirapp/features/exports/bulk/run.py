"""One export, from its kick-off to the removal of its files.

Its snapshot is taken under the write lock, so that no other transaction is writing: everything
committed is of the transaction time or before, and later writes have a later time. An export
`_since` that time therefore continues exactly where this one ends, except for imported histories,
whose versions keep their original times.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import islice

from flask import current_app
from werkzeug.test import create_environ

from fhirapp.audit import Unwritable
from fhirapp.audit.events import record_export
from fhirapp.auth.scopes import Access
from fhirapp.config import ConfigurationError, Settings, settings
from fhirapp.db import Reader, db, writing
from fhirapp.definition import types
from fhirapp.features.exports.bulk import files
from fhirapp.features.exports.bulk.files import DELETED, ERROR, OUTPUT, DiskFull, ExportAttempt
from fhirapp.features.exports.bulk.ndjson import ExportPart, marks_of, part_of
from fhirapp.features.exports.kickoff import (
    GROUP,
    ExportRequest,
    members,
    still_registered,
)
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import compact
from fhirapp.fhir.outcome import FhirError, Forbidden, Throttled, issue, operation_outcome
from fhirapp.fhir.temporal import instant
from fhirapp.jobs import queue, worker
from fhirapp.jobs.process import Tracker
from fhirapp.jobs.queue import Job
from fhirapp.rest.response import with_addresses
from fhirapp.rest.subset import subset

_log = logging.getLogger(__name__)

# How long an export waits for another writer, in seconds.
_PATIENCE = 600.0
# Deletions in one Bundle.
_DELETIONS_PER_BUNDLE = 100
# Errors of a full disk, quota or file system.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_FULL = "The export does not fit on the server's disk; export less, or ask its operator for room."
_UNWRITABLE = "The export's files could not be written; see the server's log."
_CLIENT_ENDED = "The client was disabled or lost its scopes."
_EMPTY_GROUP = "The group has no members who are patients on this server"


KIND = "bulk-export"
# The most exports of one client: in progress, and in all until deleted or expired.
IN_PROGRESS, KEPT = 2, 10
# Retry-After for a client that has too many.
WAIT_SECONDS = 60
# Files are removed this long after the expiry, so that a download in progress can finish.
GRACE_SECONDS = 3_600


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


def run(_settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Write all files of an export, in its process. Raises ConfigurationError."""
    # Of an export that is cancelled, nothing stays.
    tracker.discard = partial(files.remove, job.id)
    try:
        _Export(job, tracker).write()
    except BaseException as error:
        files.remove_attempt(job.id, job.attempts)
        if reason := _reason_of(error):
            raise ConfigurationError(reason) from error
        raise
    tracker.expires_at = _expiry(int(time.time()))
    return ""


def _reason_of(error: BaseException) -> str:
    """Return why an export failed, as its client reads it; empty for a mistake of ours."""
    if isinstance(error, FhirError):
        return error.diagnostics
    if isinstance(error, Unwritable):
        return str(error)
    if isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _NO_ROOM):
        return _FULL
    if isinstance(error, OSError | ConfigurationError):
        _log.warning("export: %s", error.strerror if isinstance(error, OSError) else error)
        return _UNWRITABLE
    return ""


@contextmanager
def _snapshot() -> Iterator[tuple[Reader, str]]:
    """Yield a snapshot, and the transaction time: later writes have a later time."""
    with ExitStack() as stack:
        with writing(patience=_PATIENCE):
            snapshot = stack.enter_context(closing(Reader(db.engine)))
            # A snapshot begins with its first read.
            snapshot.first("SELECT 1 FROM store_state LIMIT 1")
            transaction_time = instant(datetime.now(UTC))
            time.sleep(0.001)
        yield snapshot, transaction_time


def cancel(export_id: str) -> None:
    """Delete an export with its files, whether it is done or not."""
    queue.delete_job(export_id)
    files.remove(export_id)


def sweep(now: int) -> None:
    """Delete expired exports, and folders that belong to none."""
    for export_id in queue.delete_expired(KIND, now - GRACE_SECONDS):
        files.remove(export_id)
    files.remove_orphans(queue.all_ids())


class _Export:
    """An attempt at an export."""

    def __init__(self, job: Job, tracker: Tracker) -> None:
        self._job = job
        self._tracker = tracker
        # The patients whose records are written.
        self._patients: set[str] = set()

    def write(self) -> None:
        """Write all files. Raises FhirError, DiskFull, OSError, Unwritable."""
        with _snapshot() as (snapshot, transaction_time):
            export_request = files.read_request(self._job.id)
            access = still_registered(export_request.scope, _registered(snapshot, self._job.owner))
            if not access.scopes:
                raise Forbidden(_CLIENT_ENDED)
            notes = [*export_request.notes]
            with _base_address(export_request):
                patients = _patients(snapshot, export_request, access, notes)
                served, marks = types(), marks_of(snapshot, export_request.types)
                parts = [
                    part_of(snapshot, served[name], export_request, access, patients, mark)
                    for name, mark in marks.items()
                ]
        with files.attempt_at(self._job.id, self._job.attempts) as attempt:
            with _base_address(export_request):
                self._write_parts(attempt, parts, export_request)
            _write_notes(attempt, notes)
            # Before it can be fetched: where the trail cannot be written, nothing is.
            record_export(self._patients, f"bulk export {self._job.id}", client_id=self._job.owner)
            attempt.end(transaction_time, instant(datetime.now(UTC)))

    def _write_parts(
        self, attempt: ExportAttempt, parts: Sequence[ExportPart], export_request: ExportRequest
    ) -> None:
        total = sum(part.length for part in parts) or 1
        finished = 0
        for part in parts:
            definition = part.definition
            elements = dict(export_request.elements).get(definition.name, ())
            with attempt.lines(OUTPUT, definition.name) as write:
                for seen, page in part.pages():
                    for _, body, patient_id in page:
                        if patient_id is not None:
                            self._patients.add(patient_id)
                        shown = subset(definition, body, "false", elements)
                        write(compact(with_addresses(shown, definition.attachments)))
                    self._tracker.at(100 * (finished + seen) // total, 100)
            finished += part.length
        with attempt.lines(DELETED, "Bundle") as write:
            deleted = (f"{part.definition.name}/{id_}" for part in parts for id_ in part.deleted)
            while names := list(islice(deleted, _DELETIONS_PER_BUNDLE)):
                write(_deletions(names))


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
