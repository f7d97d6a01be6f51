"""`$export` over HTTP: kick-off, status, cancel, files.

Access is worked out anew at each request: a client that was disabled, or lost a scope, is refused
what it exported before; another client finds nothing, whatever address it knows. Source: Bulk Data
Access 2.0 §export.
"""

from __future__ import annotations

import time

from flask import Blueprint, Response, current_app, request
from werkzeug.http import http_date

from fhirapp.auth.protector import insufficient_scope
from fhirapp.auth.throttle import Failures
from fhirapp.db import forget_reader, reader
from fhirapp.definition import types
from fhirapp.exchange.bulk import files, jobs, run
from fhirapp.exchange.bulk.export_request import (
    GROUP,
    PATIENT,
    SYSTEM,
    Wanted,
    covers,
    exporter,
    members,
    registered_still,
)
from fhirapp.exchange.bulk.files import Manifest, StoredFile
from fhirapp.exchange.bulk.jobs import DONE, FAILED, Job
from fhirapp.exchange.bulk.kickoff import NDJSON, read_wanted
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import (
    InternalError,
    MissingParameter,
    NotFound,
    Throttled,
    issue,
    operation_outcome,
)
from fhirapp.fhir.temporal import moment_of
from fhirapp.rest.blueprint import check_id
from fhirapp.rest.negotiation import FHIR_JSON, is_strict
from fhirapp.rest.response import fhir_address
from fhirapp.rest.stream import Span, carry, wanted_span

blueprint = Blueprint("bulk", __name__)

# How often the status of one export may be asked for in a minute, of each process.
POLLS = 120
# What a client is asked to wait between two of them, in seconds.
RETRY_SECONDS = 2
_ASYNC = "respond-async"
_CACHE = "no-cache, private"
_POLLS = "fhirapp.bulk.polls"
_UNKNOWN = "There is no such export here."


@blueprint.route("/fhir/$export", methods=["GET", "POST"])
def export() -> Response:
    """Export everything that the client may see."""
    return _kick_off(SYSTEM)


@blueprint.route("/fhir/Patient/$export", methods=["GET", "POST"])
def export_patients() -> Response:
    """Export what belongs to patients."""
    return _kick_off(PATIENT)


@blueprint.route("/fhir/Group/<resource_id>/$export", methods=["GET", "POST"])
def export_group(resource_id: str) -> Response:
    """Export what belongs to the patients of a group."""
    return _kick_off(GROUP, resource_id)


def _kick_off(level: str, group: str = "") -> Response:
    """Take an export on. Raises FhirError: what cannot be done is told at once."""
    token, access = exporter()
    if is_strict() and _ASYNC not in _preferences():
        raise MissingParameter("Prefer", f"must say {_ASYNC}: an export takes its time")
    snapshot = reader()
    if group:
        check_id(types()["Group"], group)
        members(snapshot, access, group)
    wanted = read_wanted(level, group, access, snapshot)
    answer = _outcome("The export was taken on; ask at its Content-Location how far it is.")
    if request.method == "HEAD":
        return answer
    export_id = jobs.new_id()
    forget_reader()
    files.write_request(export_id, wanted)
    try:
        jobs.add(export_id, token.client_id, int(time.time()))
    except BaseException:
        files.remove(export_id)
        raise
    run.wake()
    answer.headers["Content-Location"] = fhir_address(f"$export/{export_id}")
    return answer


def _preferences() -> set[str]:
    """Return what the Prefer headers name. RFC 7240."""
    given = request.headers.get("Prefer", "").replace(";", ",")
    return {one.strip().lower() for one in given.split(",")}


def _outcome(told: str) -> Response:
    """Return a 202 that tells something."""
    body = fhir_json.dumps_indented(
        operation_outcome([issue("information", "informational", told)])
    )
    headers = {"Content-Type": FHIR_JSON, "Cache-Control": "no-store"}
    return Response(body, status=202, headers=headers)


@blueprint.route("/fhir/$export/<export_id>", methods=["GET", "DELETE"])
def status(export_id: str) -> Response:
    """Say how far an export is: 202, and once it is done 200 with its manifest; or cancel it."""
    job, wanted = _own(export_id)
    if request.method == "DELETE":
        return _cancel(job)
    _throttle(job)
    if job.state == FAILED:
        raise InternalError(job.error or "")
    if job.state != DONE:
        headers = {
            "X-Progress": f"{job.percent}% complete",
            "Retry-After": str(RETRY_SECONDS),
            "Cache-Control": "no-store",
        }
        response = Response(status=202, headers=headers)
        del response.headers["Content-Type"]
        return response
    headers = {
        "Content-Type": "application/json",
        "Expires": http_date(job.expires_at),
        "Cache-Control": _CACHE,
    }
    return Response(_manifest(job, wanted, _read_manifest(job)), headers=headers)


def _cancel(job: Job) -> Response:
    """Cancel an export, or forget one that was fetched: its files are removed."""
    forget_reader()
    jobs.forget(job.id)
    files.remove(job.id)
    return _outcome("The export was cancelled; what it wrote is removed.")


@blueprint.get("/fhir/$export/<export_id>/<name>")
def file(export_id: str, name: str) -> Response:
    """Send a file of an export, or the range of it that is asked for. RFC 9110 §14."""
    job, _ = _own(export_id)
    manifest = _read_manifest(job) if job.state == DONE else None
    written = None if manifest is None else manifest.find(name)
    if manifest is None or written is None:
        raise NotFound(_UNKNOWN)
    try:
        stored = StoredFile.of(job.id, job.attempts, written)
    except OSError:
        raise NotFound(_UNKNOWN) from None
    headers = {
        "Content-Type": NDJSON,
        "Accept-Ranges": "bytes",
        "Cache-Control": _CACHE,
        "Last-Modified": http_date(moment_of(manifest.ended)),
        "X-Content-Type-Options": "nosniff",
    }
    response = Response(headers=headers)
    span = wanted_span(stored.length, manifest.ended)
    if span is not None:
        response.status_code = 206
        response.headers["Content-Range"] = span.content_range(stored.length)
    carry(response, stored, span or Span(0, stored.length))
    return response


def _own(export_id: str) -> tuple[Job, Wanted]:
    """Return an export of the client that asks, and what it holds.

    Raises LoginRequired, Forbidden, or NotFound: the same for what is unknown and another's.
    """
    token, access = exporter()
    job = jobs.find(reader(), export_id)
    if job is None or job.client_id != token.client_id or job.expires_at <= time.time():
        raise NotFound(_UNKNOWN)
    try:
        wanted = files.read_request(job.id)
    except OSError:
        raise NotFound(_UNKNOWN) from None
    then = registered_still(wanted.scope, wanted.scope)
    if not covers(access, then, wanted.types):
        raise insufficient_scope(
            "The token's scope does not cover what was exported.", wanted.scope
        )
    return job, wanted


def _read_manifest(job: Job) -> Manifest:
    """Return what an export wrote. Raises NotFound where its files are not here."""
    try:
        return files.read_manifest(job.id, job.attempts)
    except OSError:
        raise NotFound(_UNKNOWN) from None


def _manifest(job: Job, wanted: Wanted, manifest: Manifest) -> bytes:
    """Return the manifest as it is served."""
    listed: dict[str, list[dict[str, object]]] = {
        kind: [] for kind in (files.OUTPUT, files.DELETED, files.ERROR)
    }
    for one in manifest.files:
        url = fhir_address(f"$export/{job.id}/{one.name}")
        listed[one.kind].append({"type": one.type, "url": url, "count": one.resources})
    content = {
        "transactionTime": manifest.transaction_time,
        "request": wanted.request,
        "requiresAccessToken": True,
        **listed,
    }
    return fhir_json.dumps_indented(content)


def _throttle(job: Job) -> None:
    """Refuse who asks all the time. Raises Throttled."""
    polls: Failures = current_app.extensions.setdefault(_POLLS, Failures(POLLS))
    wait = polls.count(job.id)
    if wait:
        raise Throttled(
            "The status is asked for too often; wait as long as Retry-After says.",
            headers={"Retry-After": str(wait)},
        )
