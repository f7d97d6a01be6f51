"""`$export` over HTTP: kick-off, status, cancel, files.

Access is checked on each request: a client that was disabled or lost a scope cannot fetch its
earlier exports, and other clients get 404 even with the right URL.
Source: Bulk Data Access 2.0 §export.
"""

from __future__ import annotations

import time

from flask import Blueprint, Response, current_app, request
from werkzeug.http import http_date

from fhirapp.auth.protector import current_token, insufficient_scope, require_oauth
from fhirapp.auth.throttle import Failures
from fhirapp.db import forget_reader, reader
from fhirapp.definition import types
from fhirapp.features.exports import files, jobs
from fhirapp.features.exports.files import ExportManifest
from fhirapp.features.exports.kickoff import (
    GROUP,
    NDJSON,
    PATIENT,
    SYSTEM,
    ExportRequest,
    access_for_export,
    covers,
    members,
    read_export_request,
    still_registered,
)
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import (
    InternalError,
    InvalidParameter,
    MissingParameter,
    NotFound,
    Throttled,
    issue,
    operation_outcome,
)
from fhirapp.fhir.temporal import moment_of
from fhirapp.jobs import queue
from fhirapp.jobs.queue import DONE, Job
from fhirapp.rest.access import check_id
from fhirapp.rest.blueprint import reject_reserved_ids
from fhirapp.rest.internal import is_in_batch
from fhirapp.rest.response import fhir_address, is_strict, layout_wanted, rendered
from fhirapp.rest.stream import Span, carry, wanted_span

blueprint = Blueprint("bulk", __name__)

# Status requests per export, minute and server process.
POLLS = 120
# Retry-After of the status.
RETRY_SECONDS = 2
_ASYNC = "respond-async"
_CACHE = "no-cache, private"
_POLLS = "fhirapp.bulk.polls"
_UNKNOWN = "There is no such export here."


@blueprint.route("/fhir/$export", methods=["GET", "POST"])
@require_oauth()
def export() -> Response:
    """Export everything that the client may read."""
    return _kick_off(SYSTEM)


@blueprint.route("/fhir/Patient/$export", methods=["GET", "POST"])
@require_oauth()
def export_patients() -> Response:
    """Export the records of all patients."""
    return _kick_off(PATIENT)


@blueprint.route("/fhir/Group/<resource_id>/$export", methods=["GET", "POST"])
@reject_reserved_ids("Group")
@require_oauth()
def export_group(resource_id: str) -> Response:
    """Export the records of the patients of a group."""
    return _kick_off(GROUP, resource_id)


def _kick_off(level: str, group: str = "") -> Response:
    """Check and queue an export. Raises FhirError."""
    if is_in_batch():
        raise InvalidParameter("url", "begins an export; ask for it by itself")
    access = access_for_export()
    if is_strict() and _ASYNC not in _preferences():
        raise MissingParameter("Prefer", f"must be {_ASYNC}: an export runs in the background")
    snapshot = reader()
    if group:
        check_id(types()["Group"], group)
        members(snapshot, access, group)
    export_request = read_export_request(level, group, access, snapshot)
    answer = _outcome("The export was accepted; GET its Content-Location for its progress.")
    if request.method == "HEAD":
        return answer
    # Random, since it is the last part of the status URL.
    export_id = queue.new_id()
    forget_reader()
    files.write_request(export_id, export_request)
    try:
        jobs.enqueue(export_id, current_token.client_id, int(time.time()))
    except BaseException:
        files.remove(export_id)
        raise
    answer.headers["Content-Location"] = fhir_address(f"$export/{export_id}")
    return answer


def _preferences() -> set[str]:
    """Return what the Prefer headers name. RFC 7240."""
    header = request.headers.get("Prefer", "").replace(";", ",")
    return {preference.strip().lower() for preference in header.split(",")}


def _outcome(message: str) -> Response:
    """Return 202 with an OperationOutcome."""
    outcome = operation_outcome([issue("information", "informational", message)])
    body, media = rendered(fhir_json.dumps_indented(outcome), layout_wanted())
    headers = {"Content-Type": media, "Cache-Control": "no-store"}
    return Response(body, status=202, headers=headers)


@blueprint.route("/fhir/$export/<export_id>", methods=["GET", "DELETE"])
@require_oauth()
def status(export_id: str) -> Response:
    """Return 202 with the progress, or 200 with the manifest once done; or cancel the export."""
    job, export_request = _own(export_id)
    if request.method == "DELETE":
        return _cancel(job)
    _throttle(job)
    if job.state != DONE and not job.is_under_way:
        raise InternalError(job.summary or "The export was interrupted.")
    if job.state != DONE:
        headers = {
            "X-Progress": f"{job.progress.done}% complete",
            "Retry-After": str(RETRY_SECONDS),
            "Cache-Control": "no-store",
        }
        response = Response(status=202, headers=headers)
        del response.headers["Content-Type"]
        return response
    manifest, _ = _read_manifest(job)
    prefix = fhir_address(f"$export/{job.id}/")
    content = manifest.content(export_request.request, prefix, needs_token=True)
    headers = {
        "Content-Type": "application/json",
        "Expires": http_date(job.expires_at or 0),
        "Cache-Control": _CACHE,
    }
    return Response(fhir_json.dumps_indented(content), headers=headers)


def _cancel(job: Job) -> Response:
    """Delete an export with its files, whether it is done or not."""
    forget_reader()
    jobs.cancel(job.id)
    return _outcome("The export was cancelled and its files were deleted.")


@blueprint.get("/fhir/$export/<export_id>/<name>")
@require_oauth()
def file(export_id: str, name: str) -> Response:
    """Send a file of an export, or the requested range of it. RFC 9110 §14."""
    job, _ = _own(export_id)
    if job.state != DONE:
        raise NotFound(_UNKNOWN)
    manifest, ended = _read_manifest(job)
    listed = manifest.find(name)
    if listed is None:
        raise NotFound(_UNKNOWN)
    try:
        stored = files.stored(job.id, job.attempts, listed)
    except FileNotFoundError:
        raise NotFound(_UNKNOWN) from None
    headers = {
        "Content-Type": NDJSON,
        "Accept-Ranges": "bytes",
        "Cache-Control": _CACHE,
        "Last-Modified": http_date(moment_of(ended)),
    }
    response = Response(headers=headers)
    span = wanted_span(stored.length, ended)
    if span is not None:
        response.status_code = 206
        response.headers["Content-Range"] = span.content_range(stored.length)
    carry(response, stored, span or Span(0, stored.length))
    return response


def _own(export_id: str) -> tuple[Job, ExportRequest]:
    """Return an export of the requesting client, and its request.

    Raises Forbidden, or NotFound, which is the same for unknown exports and those
    of other clients.
    """
    access = access_for_export()
    job = queue.find(export_id, jobs.BULK_EXPORT)
    if job is None or job.owner != current_token.client_id or (job.expires_at or 0) <= time.time():
        raise NotFound(_UNKNOWN)
    try:
        export_request = files.read_request(job.id)
    except FileNotFoundError:
        raise NotFound(_UNKNOWN) from None
    earlier = still_registered(export_request.scope, export_request.scope)
    if not covers(access, earlier, export_request.types):
        raise insufficient_scope(
            "The token's scope does not cover the content of the export.", export_request.scope
        )
    return job, export_request


def _read_manifest(job: Job) -> tuple[ExportManifest, str]:
    """Return the manifest of an export, and the instant of its end.

    Raises NotFound if its files are missing.
    """
    try:
        return files.read_manifest(job.id, job.attempts)
    except FileNotFoundError:
        raise NotFound(_UNKNOWN) from None


def _throttle(job: Job) -> None:
    """Limit how often a client polls. Raises Throttled."""
    polls: Failures = current_app.extensions.setdefault(_POLLS, Failures(POLLS))
    wait = polls.count(job.id)
    if wait:
        raise Throttled(
            "Too many status requests; wait for the time in Retry-After.",
            headers={"Retry-After": str(wait)},
        )
