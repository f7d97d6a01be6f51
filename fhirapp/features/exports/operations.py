"""`$export` in the CapabilityStatement and in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Flask

from fhirapp.definition import Operation
from fhirapp.features.exports.kickoff import NDJSON, PARAMETERS, PATIENTS
from fhirapp.rest import openapi_parts as parts
from fhirapp.rest.endpoints import Declaration, Endpoint, declare
from fhirapp.rest.openapi_parts import JSON, STRING, Node, content, error_responses, object_of

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
        yield from _kick_off(type_name, operation)
    status = "/fhir/$export/{export}"
    yield _of_export(f"GET {status}", "Return the progress of an export", _EXPORT, _progress())
    deleted = {"202": {"description": "Deleted", "content": content("OperationOutcome")}}
    yield _of_export(f"DELETE {status}", "Cancel an export or delete it", _EXPORT, deleted)
    # NDJSON is not JSON, so it has no schema.
    lines: Node = {NDJSON: {}}
    file = {
        "200": {"description": "A resource on each line", "content": lines},
        "206": {"description": "The range of bytes", "content": lines},
        **error_responses(416),
    }
    ranges = {name: parts.RANGES[name] for name in ("range.Range", "range.If-Range")}
    request = f"GET {status}/{{file}}"
    yield _of_export(request, "Fetch a file of an export", _EXPORT | _FILE | ranges, file)


def _of_export(request: str, summary: str, parameters: Node, answers: Node) -> Endpoint:
    """Return an endpoint of one export."""
    responses = {**answers, **error_responses(401, 403, 404, 429, 503)}
    return Endpoint(request, _TAG, summary, parameters=parameters, responses=responses)


def _kick_off(type_name: str, operation: Operation) -> Iterator[Endpoint]:
    """Yield the endpoints of the operation of a type, or of the server by an empty name."""
    prefix = f"{type_name or 'system'}-{operation.name}"
    own = parts.operation_parameters(prefix, operation.parameters)
    by_url = {name: node for name, node in own.items() if node["name"] != PATIENTS.name}
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
    files = {"type": "array", "items": file}
    manifest = object_of(
        {
            "transactionTime": STRING,
            "request": STRING,
            "requiresAccessToken": {"const": True},
            "output": files,
            "deleted": files,
            "error": files,
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
EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/export",
    "Export everything that the client may read, as files.",
    PARAMETERS,
)
PATIENT_EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/patient-export",
    "Export the records of all patients, as files.",
    (*PARAMETERS, PATIENTS),
)
GROUP_EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/group-export",
    "Export the records of the patients of a group, as files.",
    (*PARAMETERS, PATIENTS),
    instance=True,
)


# By type; of the server by an empty name.
_OPERATIONS = {"": EXPORT, "Patient": PATIENT_EXPORT, "Group": GROUP_EXPORT}


def init_app(app: Flask) -> None:
    """Add the operations to the server's descriptions."""
    guide = (
        _GUIDE + "ImplementationGuide/hl7.fhir.uv.bulkdata",
        _GUIDE + "CapabilityStatement/bulk-data",
    )
    declare(app, Declaration([*_endpoints()], _OPERATIONS, guides=[guide]))
