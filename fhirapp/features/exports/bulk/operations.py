"""`$export` in the CapabilityStatement and in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Flask

from fhirapp.definition import Operation, OperationParameter
from fhirapp.rest import capability
from fhirapp.rest import openapi_parts as parts
from fhirapp.rest.openapi import describe
from fhirapp.rest.openapi_parts import (
    Group,
    Node,
    PathDescriptions,
    content,
    error_responses,
    object_of,
    ref,
)

_TAG = "Export"
_STRING: Node = {"type": "string"}
_JSON = "application/json"
_NDJSON = "application/fhir+ndjson"
_KICKED_OFF = (400, 401, 403, 406, 429, 503)
_OWN = (401, 403, 404, 429, 503)


def _in_path(name: str, doc: str) -> Node:
    return {"name": name, "in": "path", "description": doc, "required": True, "schema": _STRING}


_EXPORT = _in_path("export", "The export: the last part of its Content-Location")
_FILE = _in_path("file", "The name of a file, from the manifest")
_PREFER: Node = {
    "name": "Prefer",
    "in": "header",
    "description": "respond-async; handling=strict: unknown parameters are refused; "
    "handling=lenient: unknown types and elements are left out and listed in the error file",
    "required": False,
    "schema": _STRING,
}


def _api_paths(offered: Mapping[str, Operation]) -> PathDescriptions:
    """Return the OpenAPI paths, with the parameters of the operations as components."""
    groups: list[Group] = []
    paths: Node = {}
    for type_name, operation in offered.items():
        prefix = f"{type_name or 'system'}-{operation.name}"
        own = parts.operation_parameters(prefix, operation.parameters)
        groups.append(own)
        place = "/{id}" if operation.instance else ""
        path = f"/fhir{f'/{type_name}' if type_name else ''}{place}/${operation.name}"
        paths[path] = _kick_off(operation, own)
    status_path = "/fhir/$export/{export}"
    paths[status_path] = {"get": _status(), "delete": _cancel()}
    paths[f"{status_path}/{{file}}"] = {"get": _fetch()}
    return PathDescriptions(paths, groups)


def _kick_off(operation: Operation, own: Group) -> Node:
    place = [ref("parameters", "path.id")] if operation.instance else []
    statuses = (*_KICKED_OFF, 404, 410) if operation.instance else _KICKED_OFF
    headers = {"Content-Location": {"schema": _STRING}}
    accepted = {
        "description": "Accepted",
        "headers": headers,
        "content": content("OperationOutcome"),
    }
    by_url = [ref("parameters", key) for key, node in own.items() if node["name"] != "patient"]
    body = {"content": {**parts.form(own.values()), **content("Parameters")}}
    common = {"tags": [_TAG], "summary": operation.doc}
    return {
        "get": {
            **common,
            "parameters": [*place, *by_url, _PREFER],
            "responses": {"202": accepted, **error_responses(*statuses)},
        },
        "post": {
            **common,
            "parameters": [*place, _PREFER],
            "requestBody": body,
            "responses": {"202": accepted, **error_responses(413, 415, *statuses)},
        },
    }


def _status() -> Node:
    file = object_of({"type": _STRING, "url": _STRING, "count": {"type": "integer"}})
    files = {"type": "array", "items": file}
    manifest = object_of(
        {
            "transactionTime": _STRING,
            "request": _STRING,
            "requiresAccessToken": {"const": True},
            "output": files,
            "deleted": files,
            "error": files,
        }
    )
    progress = {
        name: {"required": True, "schema": _STRING} for name in ("X-Progress", "Retry-After")
    }
    done = {
        "description": "The manifest, with the URLs of the files",
        "headers": {"Expires": {"required": True, "schema": _STRING}},
        "content": {_JSON: {"schema": manifest}},
    }
    failed = {"description": "The export failed", "content": content("OperationOutcome")}
    return {
        "tags": [_TAG],
        "summary": "Return the progress of an export",
        "parameters": [_EXPORT],
        "responses": {
            "200": done,
            "202": {"description": "In progress", "headers": progress},
            "500": failed,
            **error_responses(*_OWN),
        },
    }


def _cancel() -> Node:
    return {
        "tags": [_TAG],
        "summary": "Cancel an export or delete it",
        "parameters": [_EXPORT],
        "responses": {
            "202": {"description": "Deleted", "content": content("OperationOutcome")},
            **error_responses(*_OWN),
        },
    }


def _fetch() -> Node:
    # NDJSON is not JSON, so it has no schema.
    lines: Node = {_NDJSON: {}}
    return {
        "tags": [_TAG],
        "summary": "Fetch a file of an export",
        "parameters": [
            _EXPORT,
            _FILE,
            *(ref("parameters", f"range.{name}") for name in ("Range", "If-Range")),
        ],
        "responses": {
            "200": {"description": "A resource on each line", "content": lines},
            "206": {"description": "The range of bytes", "content": lines},
            **error_responses(416, *_OWN),
        },
    }


_GUIDE = "http://hl7.org/fhir/uv/bulkdata/"
_COMMON = (
    OperationParameter(
        "_outputFormat", "string", "application/fhir+ndjson, application/ndjson or ndjson"
    ),
    OperationParameter("_since", "instant", "Resources changed or deleted after this time"),
    OperationParameter("_until", "instant", "Resources last changed at or before this time"),
    OperationParameter("_type", "string", "Types to export, separated by commas", repeats=True),
    OperationParameter(
        "_elements",
        "string",
        "Elements to export, separated by commas: `identifier`, `Patient.name`",
        repeats=True,
    ),
    OperationParameter(
        "_typeFilter",
        "string",
        "Searches, separated by commas; a resource must match one of those of its type: "
        "`AllergyIntolerance?clinical-status=active`",
        repeats=True,
    ),
    OperationParameter(
        "includeAssociatedData",
        "code",
        "Ignored: Provenance is exported if it is among the types",
        repeats=True,
    ),
)
_PATIENTS = OperationParameter(
    "patient", "Reference", "By POST only: the patients to export", repeats=True
)

EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/export",
    "Export everything that the client may read, as files.",
    _COMMON,
)
PATIENT_EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/patient-export",
    "Export the records of all patients, as files.",
    (*_COMMON, _PATIENTS),
)
GROUP_EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/group-export",
    "Export the records of the patients of a group, as files.",
    (*_COMMON, _PATIENTS),
    instance=True,
)


def init_app(app: Flask) -> None:
    """Add the three operations to the server's descriptions."""
    offered = {"": EXPORT, "Patient": PATIENT_EXPORT, "Group": GROUP_EXPORT}
    for type_name, operation in offered.items():
        capability.offer(app, operation, type_name)
    guide = _GUIDE + "ImplementationGuide/hl7.fhir.uv.bulkdata"
    capability.follow(app, guide, _GUIDE + "CapabilityStatement/bulk-data")
    describe(app, lambda: _api_paths(offered))
