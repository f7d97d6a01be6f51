"""/openapi.json: the OpenAPI 3.1 document, made from the catalogue of endpoints.

No token is needed, as for /fhir/metadata, which says the same in FHIR's words. Its components are
in fhirapp/rest/openapi_parts.py.
"""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from typing import Any, NamedTuple

from flask import Blueprint, Flask, Response, current_app

from fhirapp import urls
from fhirapp.definition import types
from fhirapp.fhir import json as fhir_json
from fhirapp.rest import openapi_parts as parts
from fhirapp.rest.capability import software_version
from fhirapp.rest.endpoints import Endpoint, catalogue
from fhirapp.rest.openapi_parts import JSON, Node
from fhirapp.rest.response import Layout, accepts_gzip, document_etag, respond

blueprint = Blueprint("openapi", __name__)

_ABOUT = (
    "FHIR R4 for clinical notes and allergies, to read and search. HEAD answers wherever GET does,"
    " without the body; a slash after the name of a type changes nothing."
)


class _Document(NamedTuple):
    """The document as it is sent: as JSON and in gzip, which is a twentieth of it."""

    plain: bytes
    packed: bytes
    # Weak, so that it is of both.
    etag: str


@blueprint.get("/openapi.json")
def openapi() -> Response:
    """Return the OpenAPI document, in gzip to who accepts it."""
    made: _Document = current_app.extensions[_EXTENSION](urls.base_url())
    is_packed = accepts_gzip()
    body = made.packed if is_packed else made.plain
    response = respond(body, Layout(), etag=made.etag, content_type=JSON)
    response.vary.add("Accept-Encoding")
    if is_packed and response.status_code == 200:
        response.content_encoding = "gzip"
    return response


_EXTENSION = "fhirapp.openapi"


def init_app(app: Flask) -> None:
    """Serve /openapi.json."""
    app.register_blueprint(blueprint)
    # Anybody may ask for it, and it takes longer than a search.
    app.extensions[_EXTENSION] = lru_cache(maxsize=4)(_make)


def _make(_base_url: str) -> _Document:
    """Make the document; the server's address is in it."""
    plain = fhir_json.dumps(document())
    return _Document(plain, gzip.compress(plain, mtime=0), document_etag(plain))


def document() -> dict[str, Any]:
    """Return the OpenAPI document of what the app serves."""
    served = [definition for _, definition in sorted(types().items())]
    paths: Node = {}
    parameters: Node = {}
    answers: dict[str, None] = {}
    for endpoint in catalogue():
        own = endpoint.parameters() if callable(endpoint.parameters) else endpoint.parameters
        parameters |= {name: node for name, node in own.items() if _is_shared(name)}
        if isinstance(endpoint.answer, str):
            answers[endpoint.answer] = None
        path = paths.setdefault(endpoint.path, {})
        path |= {method.lower(): _operation(endpoint, method, own) for method in endpoint.methods}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fhirapp",
            "version": software_version(),
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": urls.base_url()}],
        "security": [{"token": []}],
        "tags": [{"name": definition.name, "description": definition.doc} for definition in served],
        "paths": paths,
        "components": parts.components(served, parameters, answers),
    }


def _is_shared(name: str) -> bool:
    """Say whether a parameter is one of the components."""
    return "." in name


def _operation(endpoint: Endpoint, method: str, parameters: Node) -> Node:
    """Return a method of an endpoint as OpenAPI describes it."""
    operation: Node = {"operationId": _operation_id(method.lower(), endpoint.path)}
    has_body = method == "POST" and endpoint.body is not None
    if has_body and endpoint.is_form:
        beside = parts.ID | parts.PREFERENCES
        parameters = {name: node for name, node in parameters.items() if name in beside}
    if endpoint.security is not None:
        operation["security"] = [*endpoint.security]
    operation |= {"tags": [endpoint.tag], "summary": endpoint.summary}
    if parameters or endpoint.responses is None:
        operation["parameters"] = [
            parts.ref("parameters", name) if _is_shared(name) else node
            for name, node in parameters.items()
        ]
    if has_body:
        operation["requestBody"] = endpoint.body
    usual = (413, 415) if has_body else (304,)
    guarded = parts.GUARDED if endpoint.security is None else ()
    responses = endpoint.responses
    if responses is None:
        responses = parts.responses(endpoint.answer, *usual, *guarded, *endpoint.statuses)
    return operation | {"responses": responses}


def _operation_id(method: str, path: str) -> str:
    """Return getPatientByIdEverything of GET /fhir/Patient/{id}/$everything.

    Programs name their functions by it.
    """
    words = re.findall(r"\{\w+\}|\w+|\*", re.sub(r"^/fhir/(?=[A-Z])", "", path))
    names = [f"By{word[1:-1].title()}" if word[0] == "{" else _word(word) for word in words]
    return method + "".join(names)


def _word(word: str) -> str:
    text = "record" if word == "*" else word.strip("_")
    return text[:1].upper() + text[1:]
