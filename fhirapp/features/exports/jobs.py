"""The jobs of exports: one that a page starts, and `$export`.

The data of a `$export` is of one instant, which is taken under the write lock. An export `_since`
that time continues exactly where this one ends, except for imported histories, whose versions keep
their original times.
"""

from __future__ import annotations

import errno
import logging
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from flask import current_app
from sqlalchemy import select
from werkzeug.test import create_environ

from fhirapp.audit import Unwritable
from fhirapp.audit.events import record_export
from fhirapp.auth.models import User
from fhirapp.auth.scopes import Access
from fhirapp.config import ConfigurationError, Settings, settings
from fhirapp.core import current_core
from fhirapp.db import Reader, db, writing
from fhirapp.definition import types
from fhirapp.disk import need_space, reason_of
from fhirapp.features.exports import files
from fhirapp.features.exports.export import (
    ExportOptions,
    command_of,
    export_to,
    snapshot_at,
    types_to_export,
)
from fhirapp.features.exports.files import DELETED, ERROR, OUTPUT, deletions_bundle
from fhirapp.features.exports.kickoff import GROUP, ExportRequest, members, still_registered
from fhirapp.features.exports.selection import ExportPart, PartSelector
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import compact
from fhirapp.fhir.outcome import FhirError, Forbidden, Throttled, issue, operation_outcome
from fhirapp.fhir.temporal import instant
from fhirapp.jobs import process, queue, worker
from fhirapp.jobs.process import MADE, Tracker
from fhirapp.jobs.queue import WORKS, Job
from fhirapp.rest.response import with_addresses
from fhirapp.rest.subset import subset

_log = logging.getLogger(__name__)

EXPORT, BULK_EXPORT = "export", "bulk-export"
# The archive of all files of an export that a page starts.
ARCHIVE = "export.zip"
# The most bulk exports of one client: in progress, and in all until deleted or expired.
IN_PROGRESS, KEPT = 2, 10
# Retry-After for a client that has too many.
WAIT_SECONDS = 60
# Files of a `$export` are removed this long after the expiry, so that a download in progress can
# finish.
GRACE_SECONDS = 3_600
# How long a `$export` waits for another writer, in seconds.
_PATIENCE = 600.0
# Deletions in one Bundle.
_DELETIONS_PER_BUNDLE = 100
# Errors of a full disk, quota or file system.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def export(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Export what a page requests, and pack it."""
    tracker.phase(WORKS)
    names, since, history = (job.request[name] for name in ("types", "since", "history"))
    with current_core(settings):
        made = tracker.folder / MADE
        manifest = export_to(
            made,
            ExportOptions(types_to_export(types(), names), since or None, history),
            types()["Binary"],
            request=command_of(names, since, history=history),
            progress=tracker.at,
            user_id=_user_id(job.owner),
        )
    tracker.progress.counts = {
        file.url: {"resources": file.lines, "versions": file.versions} for file in manifest.files
    }
    tracker.note()
    try:
        _pack(made)
    except (OSError, ConfigurationError) as error:
        (made / ARCHIVE).unlink(missing_ok=True)
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        return f"There is no archive of all files ({reason}); each can be fetched by itself."
    return ""


def _user_id(username: str) -> str | None:
    with db.engine.connect() as connection:
        return connection.scalar(select(User.id).where(User.username == username))


def _pack(made: Path) -> None:
    """Write an archive of all files, which an import takes as it is."""
    packed = sorted(made.iterdir())
    need_space(made, sum(file.stat().st_size for file in packed), "the archive")
    part = made / f".{ARCHIVE}.part"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=5) as archive:
        for file in packed:
            archive.write(file, file.name)
    part.replace(made / ARCHIVE)


def kept_until(job: Job) -> int:
    """Return when the files of an export that a page started expire, in seconds since 1970."""
    return _expiry(job.ended_at or job.created_at)


def _expiry(now: int) -> int:
    return now + settings().export_hours * 3_600


def sweep(now: int) -> None:
    """Remove expired exports, and the files of bulk exports that belong to none."""
    for job in queue.jobs(EXPORT):
        if not job.is_under_way and kept_until(job) < now:
            process.remove(job)
    for export_id in queue.delete_expired(BULK_EXPORT, now - GRACE_SECONDS):
        files.remove(export_id)
    files.remove_orphans(queue.all_ids())


def enqueue(export_id: str, client_id: str, now: int) -> None:
    """Queue a `$export`, whose request is in its folder. Raises Throttled for too many."""
    with writing() as connection:
        mine = partial(queue.count, connection, BULK_EXPORT, owner=client_id, unexpired=now)
        if mine(under_way=True) >= IN_PROGRESS:
            raise _throttled(
                f"{IN_PROGRESS} exports of this client are in progress; wait for one to finish."
            )
        if mine() >= KEPT:
            raise _throttled(
                f"{KEPT} exports of this client are kept; DELETE one that you have fetched."
            )
        queue.add(connection, export_id, BULK_EXPORT, client_id, now, expires_at=_expiry(now))
    worker.wake()


def _throttled(diagnostics: str) -> Throttled:
    return Throttled(diagnostics, headers={"Retry-After": str(WAIT_SECONDS)})


def cancel(export_id: str) -> None:
    """Delete a `$export` with its files, whether it is done or not."""
    queue.delete_job(export_id)
    files.remove(export_id)


def percent_of(job: Job) -> int:
    """Return how much of a `$export` is written."""
    return 100 * job.progress.done // (job.progress.total or 1)


def bulk_export(_settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Write all files of a `$export`, in its process. Raises ConfigurationError."""
    # Of an export that is cancelled, nothing stays.
    tracker.discard = partial(files.remove, job.id)
    try:
        _write(job, tracker)
    except (FhirError, Unwritable) as error:
        raise ConfigurationError(str(error)) from error
    except (OSError, ConfigurationError) as error:
        raise ConfigurationError(_reason_of(error)) from error
    tracker.expires_at = _expiry(int(time.time()))
    return ""


def _reason_of(error: OSError | ConfigurationError) -> str:
    """Return why files could not be written, as the client reads it."""
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return (
            "The export does not fit on the server's disk; export less, or ask its operator for "
            "room."
        )
    _log.warning("export: %s", error.strerror if isinstance(error, OSError) else error)
    return "The export's files could not be written; see the server's log."


def _write(job: Job, tracker: Tracker) -> None:
    """Write all files. Raises FhirError, OSError, Unwritable."""
    export_request = files.read_request(job.id)
    notes = [*export_request.notes]
    with (
        _base_address(export_request),
        snapshot_at(lambda: datetime.now(UTC), _PATIENCE) as (snapshot, transaction_time),
    ):
        registered = "SELECT scope FROM oauth_client WHERE client_id = ? AND NOT disabled"
        row = snapshot.first(registered, (job.owner,))
        access = still_registered(export_request.scope, str(row[0]) if row else "")
        if not access.scopes:
            raise Forbidden("The client was disabled or lost its scopes.")
        patients = _patients(snapshot, export_request, access, notes)
        selector = PartSelector(snapshot, export_request, access, patients)
        parts = [selector.part_of(types()[name]) for name in export_request.types]
    tracker.progress.total = sum(part.length for part in parts)
    subjects: set[str] = set()
    with files.attempt_at(job.id, job.attempts) as attempt:
        with _base_address(export_request):
            for part in parts:
                elements = dict(export_request.elements).get(part.definition.name, ())
                lines = _lines(part, elements, subjects, tracker)
                attempt.write(OUTPUT, part.definition.name, lines)
        deleted = (f"{part.definition.name}/{id_}" for part in parts for id_ in part.deleted)
        attempt.write(DELETED, "Bundle", _deletions(deleted))
        attempt.write(ERROR, "OperationOutcome", map(_note, notes))
        # Before it can be fetched: where the trail cannot be written, nothing is.
        record_export(subjects, f"bulk export {job.id}", client_id=job.owner)
        attempt.end(transaction_time, instant(datetime.now(UTC)))


def _base_address(export_request: ExportRequest) -> AbstractContextManager[object]:
    """Return a context whose URLs are on the base address of the kick-off.

    Without a configured address, on loopback, URLs depend on the Host of the request.
    """
    return current_app.request_context(create_environ("/", export_request.base_url))


def _lines(
    part: ExportPart, elements: Sequence[str], subjects: set[str], tracker: Tracker
) -> Iterator[bytes]:
    """Yield the rows of a part as lines; add the ids of their patients to subjects."""
    definition = part.definition
    for done, page in part.pages():
        for _, body, patient_id in page:
            if patient_id is not None:
                subjects.add(patient_id)
            shown = subset(definition, body, "false", elements)
            yield compact(with_addresses(shown, definition.attachments))
        tracker.add(done)


def _deletions(names: Iterator[str]) -> Iterator[bytes]:
    """Yield the Bundles that list deleted resources; names are Type/id."""
    while listed := list(islice(names, _DELETIONS_PER_BUNDLE)):
        yield deletions_bundle(listed)


def _note(note: tuple[str, str]) -> bytes:
    """Return the OperationOutcome about an ignored parameter."""
    name, reason = note
    content = issue("information", "informational", reason)
    if name:
        content = issue("warning", "not-supported", f"{name}: {reason}", name)
    return fhir_json.dumps(operation_outcome([content]))


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
        notes.append(("", "The group has no members who are patients on this server"))
    return patients
