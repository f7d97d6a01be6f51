"""`$export` over HTTP: kick-off, status, cancel, files; and how the server describes it.

Access is checked on each request: a client that was disabled or lost a scope cannot fetch its
earlier exports, and other clients get 404 even with the right URL.
Source: Bulk Data Access 2.0 §export.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Blueprint, Flask, Response, current_app, request
from werkzeug.http import http_date

from fhirapp.auth.protector import current_token, insufficient_scope, require_oauth
from fhirapp.auth.throttle import Failures
from fhirapp.db import forget_reader, reader
from fhirapp.definition import Operation, OperationParameter, types
from fhirapp.features.exports import files, jobs, kickoff
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import outcome
from fhirapp.fhir.temporal import moment_of
from fhirapp.jobs import queue
from fhirapp.jobs.queue import DONE, Job
from fhirapp.rest import openapi_parts as parts
from fhirapp.rest.access import check_id
from fhirapp.rest.blueprint import reject_reserved_ids
from fhirapp.rest.endpoints import Declaration, Endpoint, declare
from fhirapp.rest.internal import is_in_batch
from fhirapp.rest.openapi_parts import JSON, STRING, Node, content, error_responses, object_of
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
    return _kick_off(kickoff.SYSTEM)


@blueprint.route("/fhir/Patient/$export", methods=["GET", "POST"])
@require_oauth()
def export_patients() -> Response:
    """Export the records of all patients."""
    return _kick_off(kickoff.PATIENT)


@blueprint.route("/fhir/Group/<resource_id>/$export", methods=["GET", "POST"])
@reject_reserved_ids("Group")
@require_oauth()
def export_group(resource_id: str) -> Response:
    """Export the records of the patients of a group."""
    return _kick_off(kickoff.GROUP, resource_id)


def _kick_off(level: str, group: str = "") -> Response:
    """Check and queue an export. Raises FhirError."""
    if is_in_batch():
        raise outcome.InvalidParameter("url", "begins an export; ask for it by itself")
    access = kickoff.access_for_export()
    if is_strict() and _ASYNC not in _preferences():
        raise outcome.MissingParameter(
            "Prefer", f"must be {_ASYNC}: an export runs in the background"
        )
    snapshot = reader()
    if group:
        check_id(types()["Group"], group)
        kickoff.members(snapshot, access, group)
    export_request = kickoff.read_export_request(level, group, access, snapshot)
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
    content = outcome.operation_outcome([outcome.issue("information", "informational", message)])
    body, media = rendered(fhir_json.dumps_indented(content), layout_wanted())
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
        raise outcome.InternalError(job.summary or "The export was interrupted.")
    if job.state != DONE:
        headers = {
            "X-Progress": f"{jobs.percent_of(job)}% complete",
            "Retry-After": str(RETRY_SECONDS),
            "Cache-Control": "no-store",
        }
        response = Response(status=202, headers=headers)
        del response.headers["Content-Type"]
        return response
    with _not_found_without_files():
        manifest, _ = files.read_manifest(job.id, job.attempts)
    prefix = fhir_address(f"$export/{job.id}/")
    body = manifest.content(export_request.request, prefix, needs_token=True)
    headers = {
        "Content-Type": "application/json",
        "Expires": http_date(job.expires_at or 0),
        "Cache-Control": _CACHE,
    }
    return Response(fhir_json.dumps_indented(body), headers=headers)


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
        raise outcome.NotFound(_UNKNOWN)
    with _not_found_without_files():
        manifest, ended = files.read_manifest(job.id, job.attempts)
        if name not in [listed.url for listed in manifest.files]:
            raise outcome.NotFound(_UNKNOWN)
        stored = files.stored(job.id, job.attempts, name)
    headers = {
        "Content-Type": kickoff.NDJSON,
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


def _own(export_id: str) -> tuple[Job, kickoff.ExportRequest]:
    """Return an export of the requesting client, and its request.

    Raises Forbidden, or NotFound, which is the same for unknown exports and those
    of other clients.
    """
    access = kickoff.access_for_export()
    job = queue.find(export_id, jobs.BULK_EXPORT)
    if job is None or job.owner != current_token.client_id or (job.expires_at or 0) <= time.time():
        raise outcome.NotFound(_UNKNOWN)
    with _not_found_without_files():
        export_request = files.read_request(job.id)
    earlier = kickoff.still_registered(export_request.scope, export_request.scope)
    if not kickoff.covers(access, earlier, export_request.types):
        raise insufficient_scope(
            "The token's scope does not cover the content of the export.", export_request.scope
        )
    return job, export_request


@contextmanager
def _not_found_without_files() -> Iterator[None]:
    """Raise NotFound if a file of an export is missing."""
    try:
        yield
    except FileNotFoundError:
        raise outcome.NotFound(_UNKNOWN) from None


def _throttle(job: Job) -> None:
    """Limit how often a client polls. Raises Throttled."""
    polls: Failures = current_app.extensions.setdefault(_POLLS, Failures(POLLS))
    wait = polls.count(job.id)
    if wait:
        raise outcome.Throttled(
            "Too many status requests; wait for the time in Retry-After.",
            headers={"Retry-After": str(wait)},
        )


_TAG = "Export"


def _in_path(name: str, doc: str) -> Node:
    return {
        name: {"name": name, "in": "path", "description": doc, "required": True, "schema": STRING}
    }


_EXPORT = _in_path("export", "The export: the last part of its Content-Location")
_FILE = _in_path("file", "The name of a file, from the manifest")
_PREFER: Node = {
    "Prefer": {
        "name": "Prefer",
        "in": "header",
        "description": "respond-async; handling=strict: unknown parameters are refused; "
        "handling=lenient: unknown types and elements are left out and listed in the error file",
        "required": False,
        "schema": STRING,
    }
}


def _endpoints() -> Iterator[Endpoint]:
    for type_name, operation in _OPERATIONS.items():
        yield from _kick_off_endpoints(type_name, operation)
    path = "/fhir/$export/{export}"
    yield _of_export(f"GET {path}", "Return the progress of an export", _EXPORT, _progress())
    deleted = {"202": {"description": "Deleted", "content": content("OperationOutcome")}}
    yield _of_export(f"DELETE {path}", "Cancel an export or delete it", _EXPORT, deleted)
    # NDJSON is not JSON, so it has no schema.
    lines: Node = {kickoff.NDJSON: {}}
    answers = {
        "200": {"description": "A resource on each line", "content": lines},
        "206": {"description": "The range of bytes", "content": lines},
        **error_responses(416),
    }
    ranges = {name: parts.RANGES[name] for name in ("range.Range", "range.If-Range")}
    parameters = _EXPORT | _FILE | ranges
    yield _of_export(f"GET {path}/{{file}}", "Fetch a file of an export", parameters, answers)


def _of_export(request: str, summary: str, parameters: Node, answers: Node) -> Endpoint:
    """Return an endpoint of one export."""
    responses = {**answers, **error_responses(401, 403, 404, 429, 503)}
    return Endpoint(request, _TAG, summary, parameters=parameters, responses=responses)


def _kick_off_endpoints(type_name: str, operation: Operation) -> Iterator[Endpoint]:
    """Yield the endpoints of the operation of a type, or of the server by an empty name."""
    prefix = f"{type_name or 'system'}-{operation.name}"
    own = parts.operation_parameters(prefix, operation.parameters)
    by_url = {name: node for name, node in own.items() if node["name"] != kickoff.PATIENTS.name}
    place = parts.ID if operation.instance else {}
    statuses = (*parts.GUARDED, 404, 410) if operation.instance else parts.GUARDED
    accepted = {
        "description": "Accepted",
        "headers": {"Content-Location": {"schema": STRING}},
        "content": content("OperationOutcome"),
    }
    of_type = f"/{type_name}" if type_name else ""
    path = f"/fhir{of_type}{'/{id}' if operation.instance else ''}/${operation.name}"
    get = Endpoint(
        f"GET {path}",
        _TAG,
        operation.doc,
        parameters=place | by_url | _PREFER,
        responses={"202": accepted, **error_responses(*statuses)},
    )
    yield get
    yield get._replace(
        request=f"POST {path}",
        parameters=place | _PREFER,
        body={"content": {**parts.form(own.values()), **content("Parameters")}},
        responses={"202": accepted, **error_responses(413, 415, *statuses)},
    )


def _progress() -> Node:
    """Return the responses of an export in progress, done or failed."""
    file = object_of({"type": STRING, "url": STRING, "count": {"type": "integer"}})
    listed: Node = {"type": "array", "items": file}
    manifest = object_of(
        {
            "transactionTime": STRING,
            "request": STRING,
            "requiresAccessToken": {"const": True},
            **dict.fromkeys((files.OUTPUT, files.DELETED, files.ERROR), listed),
        }
    )
    progress = {
        name: {"required": True, "schema": STRING} for name in ("X-Progress", "Retry-After")
    }
    return {
        "200": {
            "description": "The manifest, with the URLs of the files",
            "headers": {"Expires": {"required": True, "schema": STRING}},
            "content": {JSON: {"schema": manifest}},
        },
        "202": {"description": "In progress", "headers": progress},
        "500": {"description": "The export failed", "content": content("OperationOutcome")},
    }


_GUIDE = "http://hl7.org/fhir/uv/bulkdata/"


def _operation(name: str, doc: str, *more: OperationParameter, instance: bool = False) -> Operation:
    definition = f"{_GUIDE}OperationDefinition/{name}"
    parameters = (*kickoff.PARAMETERS, *more)
    return Operation("export", definition, f"Export {doc}, as files.", parameters, instance)


# By type; of the server by an empty name.
_OPERATIONS = {
    "": _operation("export", "everything that the client may read"),
    "Patient": _operation("patient-export", "the records of all patients", kickoff.PATIENTS),
    "Group": _operation(
        "group-export", "the records of the patients of a group", kickoff.PATIENTS, instance=True
    ),
}


def init_app(app: Flask) -> None:
    """Serve `$export`, and describe it in the server's metadata."""
    app.register_blueprint(blueprint)
    guide = (
        _GUIDE + "ImplementationGuide/hl7.fhir.uv.bulkdata",
        _GUIDE + "CapabilityStatement/bulk-data",
    )
    declare(app, Declaration([*_endpoints()], _OPERATIONS, guides=[guide]))
