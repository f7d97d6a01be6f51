"""/openapi.json: the OpenAPI 3.1 document, made from the declarations.

No token is needed, as for /fhir/metadata, which says the same in FHIR's words. Its components are
in fhirapp/rest/openapi_parts.py.

The endpoints of the authorization server that programs use are in it too.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from flask import Blueprint, Flask, Response, current_app

from fhirapp import config, urls
from fhirapp.definition import Definition, Operation, types
from fhirapp.fhir import json as fhir_json
from fhirapp.rest import definitions
from fhirapp.rest import openapi_parts as parts
from fhirapp.rest.blueprint import ROOTS, is_of_patients
from fhirapp.rest.capability import software_version
from fhirapp.rest.openapi_parts import (
    JSON,
    Group,
    Node,
    PathDescriptions,
    content,
    error_responses,
    object_of,
    ref,
)
from fhirapp.rest.response import Layout, accepts_gzip, document_etag, respond

_FORM = "application/x-www-form-urlencoded"
_STRING: Node = {"type": "string"}
_DISCOVERY = (
    ("/.well-known/smart-configuration", "Tell how to get a token"),
    ("/fhir/.well-known/smart-configuration", "Tell how to get a token"),
    ("/.well-known/openid-configuration", "Tell OpenID Connect clients the same"),
    ("/fhir/.well-known/openid-configuration", "Tell OpenID Connect clients the same"),
    ("/.well-known/oauth-authorization-server", "Tell OAuth clients the same (RFC 8414)"),
    ("/oauth/jwks.json", "Give the keys to check id tokens with"),
)
_GRANTS = ["client_credentials", "authorization_code", "refresh_token"]
# How a client proves who it is in the body, where it does not by Basic.
_PROOF: Node = {
    "client_id": _STRING,
    "client_assertion_type": _STRING,
    "client_assertion": _STRING,
}
_REFUSED: Node = {"description": "Refused", "content": content("OAuthError", JSON)}


def oauth_paths() -> Node:
    """Return the paths; errors of the forms are OAuth's own (RFC 6749 §5.2)."""
    plain = {"description": "What was asked for", "content": content("Object", JSON)}
    paths: Node = {
        path: {
            "get": {
                "security": [],
                "tags": ["Authorization"],
                "summary": doc,
                "responses": {"200": plain, **error_responses()},
            }
        }
        for path, doc in _DISCOVERY
    }
    form = {"token": _STRING}
    hint = {"token_type_hint": _STRING, **_PROOF}
    token = object_of(
        {"grant_type": {"enum": _GRANTS}},
        scope=_STRING,
        code=_STRING,
        redirect_uri=_STRING,
        code_verifier=_STRING,
        refresh_token=_STRING,
        **_PROOF,
    )
    refused = {str(status): _REFUSED for status in (401, 403, 413, 429, 503)}
    paths["/oauth/userinfo"] = {
        method: {
            "tags": ["Authorization"],
            "summary": "Say who the user of an access token is",
            "responses": {"200": plain, **error_responses(), **refused},
        }
        for method in ("get", "post")
    }
    paths["/oauth/token"] = _form("Get an access token", token, "Token")
    paths["/oauth/introspect"] = _form("Say what a token is", object_of(form, **hint), "Object")
    paths["/oauth/revoke"] = _form("End a token", object_of(form, **hint), "Object")
    if config.settings().dynamic_registration:
        path = _form("Register a client, which an administrator approves", {}, "Object")
        post = path["post"] | {"security": [], "requestBody": {"content": content("Object", JSON)}}
        post["responses"]["201"] = post["responses"].pop("200")
        paths["/oauth/register"] = {"post": post}
    return paths


def _form(summary: str, body: Node, answer: str) -> Node:
    return {
        "post": {
            "tags": ["Authorization"],
            "summary": summary,
            # By a secret, or by what is in the body.
            "security": [{"secret": []}, {}],
            "requestBody": {"required": True, "content": {_FORM: {"schema": body}}},
            "responses": {
                "200": {"description": summary, "content": content(answer, JSON)},
                **{str(status): _REFUSED for status in (400, 401, 413, 414, 429, 431, 503)},
            },
        }
    }


blueprint = Blueprint("openapi", __name__)

_ABOUT = (
    "FHIR R4 for clinical notes and allergies, to read and search. HEAD answers wherever GET does,"
    " without the body; a slash after the name of a type changes nothing."
)
# What the answer to a request with a token may be instead.
_GUARDED = (400, 401, 403, 406, 429, 503)
_OPEN: Node = {"security": []}


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
_DESCRIBED = "fhirapp.openapi.described"


def init_app(app: Flask) -> None:
    """Serve /openapi.json."""
    app.register_blueprint(blueprint)
    # Anybody may ask for it, and it takes longer than a search.
    app.extensions[_EXTENSION] = lru_cache(maxsize=4)(_make)


def describe(app: Flask, described: Callable[[], PathDescriptions]) -> None:
    """Take up paths of what no type's folder declares."""
    app.extensions.setdefault(_DESCRIBED, []).append(described)


def _make(_base_url: str) -> _Document:
    """Make the document; the server's address is in it."""
    plain = fhir_json.dumps(document())
    return _Document(plain, gzip.compress(plain, mtime=0), document_etag(plain))


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the types that the app serves."""
    served = [definition for _, definition in sorted(types().items())]
    paths: Node = {}
    groups: list[Group] = [parts.system_search()]
    others: list[str] = []
    for definition in served:
        paths |= _interactions(definition)
        if definition.searchable:
            paths |= _search(definition)
            groups.append(parts.search(definition))
        for operation in definition.operations:
            paths |= _operation(definition, operation)
            groups.append(_own_parameters(definition, operation))
    for described in current_app.extensions.get(_DESCRIBED, []):
        further = described()
        paths |= further.paths
        groups += further.groups
        others += further.types
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
        "paths": _with_ids(paths | _system() | _definitions() | _others()),
        "components": parts.components(served, groups, others),
    }


def _with_ids(paths: Node) -> Node:
    """Return the paths with an operationId each, which programs name their functions by."""
    return {
        path: {
            method: {"operationId": _operation_id(method, path), **operation}
            for method, operation in methods.items()
        }
        for path, methods in paths.items()
    }


def _operation_id(method: str, path: str) -> str:
    """Return getPatientByIdEverything of GET /fhir/Patient/{id}/$everything."""
    words = re.findall(r"\{\w+\}|\w+|\*", re.sub(r"^/fhir/(?=[A-Z])", "", path))
    names = [f"By{word[1:-1].title()}" if word[0] == "{" else _word(word) for word in words]
    return method + "".join(names)


def _word(word: str) -> str:
    text = "record" if word == "*" else word.strip("_")
    return text[:1].upper() + text[1:]


def _interactions(definition: Definition) -> Node:
    """Return the paths of a type's interactions."""
    name = definition.name
    reading = ("path.id", *parts.FORM_PARAMETERS, *parts.CONDITIONS, *parts.PREFERENCES)
    history = (*parts.HISTORY, *parts.PAGES, *parts.FORM_PARAMETERS, *parts.CONDITIONS)
    possible = {
        "read": ("/{id}", f"Read {_a(name)}", name, reading, (404, 410)),
        "vread": (
            "/{id}/_history/{vid}",
            f"Read a version of {_a(name)}",
            name,
            ("path.vid", *reading),
            (404, 410),
        ),
        "history-instance": (
            "/{id}/_history",
            f"List the versions of {_a(name)}",
            "Bundle",
            ("path.id", *history),
            (404,),
        ),
        "history-type": ("/_history", f"List versions of every {name}", "Bundle", history, ()),
    }
    paths: Node = {}
    for interaction in definition.interactions:
        path, doc, answer, parameters, statuses = possible[interaction]
        described = get_operation(name, doc, content(answer), parameters, (*_GUARDED, *statuses))
        paths[f"/fhir/{name}{path}"] = {"get": described}
    if not definition.stores_body:
        _as_bytes(paths[f"/fhir/{name}/{{id}}"]["get"])
    return paths


def _a(name: str) -> str:
    """Return a type's name with its article."""
    return f"an {name}" if name[0] in "AEIO" else f"a {name}"


def _as_bytes(read: Node) -> None:
    """Tell of a read that its answer is bytes, unless FHIR JSON is asked for by name."""
    read["parameters"] += [ref("parameters", name) for name in parts.RANGES]
    read["responses"]["200"]["content"]["*/*"] = {}
    read["responses"]["206"] = {"description": "The range of bytes", "content": {"*/*": {}}}
    read["responses"] |= error_responses(412, 416)


def _search(definition: Definition) -> Node:
    """Return the paths of a type's search."""
    name = definition.name
    parameters = (*parts.search(definition), *parts.CONDITIONS, *parts.PREFERENCES)
    by_url = get_operation(name, f"Search {name}", content("Bundle"), parameters, _GUARDED)
    body = ref("requestBodies", name)
    by_form = _post(name, f"Search {name} by a form", body, parts.PREFERENCES, _GUARDED)
    paths: Node = {
        f"{root}/{name}{tail}": {"get": by_url, "post": by_form}
        for root in ROOTS
        for tail in ("", "/_search")
    }
    if is_of_patients(definition):
        record, doc = f"/fhir/Patient/{{id}}/{name}", f"Search {name} of a patient"
        statuses = (*_GUARDED, 404)
        paths[record] = {
            "get": get_operation(name, doc, content("Bundle"), ("path.id", *parameters), statuses)
        }
        by_form = _post(name, doc, body, ("path.id", *parts.PREFERENCES), statuses)
        paths[f"{record}/_search"] = {**paths[record], "post": by_form}
    return paths


def _own_parameters(definition: Definition, operation: Operation) -> Group:
    """Return the parameters of an operation by their names among the components."""
    prefix = f"{definition.name}-{operation.name}"
    return parts.operation_parameters(prefix, operation.parameters)


def _operation(definition: Definition, operation: Operation) -> Node:
    """Return the path of an operation."""
    name = definition.name
    own = _own_parameters(definition, operation)
    declared = {node["name"] for node in own.values()}
    pages: Node = {}
    if operation.is_paged:
        pages = {key: node for key, node in parts.PAGES.items() if node["name"] not in declared}
    groups = {**own, **pages, **parts.FORM_PARAMETERS}
    place = ("path.id",) if operation.instance else ()
    may_lack = operation.instance or operation.needs_record
    statuses = (*_GUARDED, 404, 410) if may_lack else _GUARDED
    body: Node = {"content": {**parts.form(groups.values()), **content("Parameters")}}
    by_url = (*place, *groups, *parts.CONDITIONS)
    path = f"/fhir/{name}{'/{id}' if operation.instance else ''}/${operation.name}"
    if operation.resource:
        # Nothing of a resource is in an address.
        body = {"required": True, "content": content("Parameters")}
        return {path: {"post": _post(name, operation.doc, body, groups, statuses)}}
    return {
        path: {
            "get": get_operation(name, operation.doc, content(operation.answer), by_url, statuses),
            "post": _post(name, operation.doc, body, place, statuses, operation.answer),
        }
    }


def get_operation(
    tag: str, summary: str, answer: Node, parameters: Iterable[str], statuses: Iterable[int]
) -> Node:
    """Return an operation by GET; parameters are names among the components."""
    return {
        "tags": [tag],
        "summary": summary,
        "parameters": [ref("parameters", name) for name in parameters],
        "responses": {"200": _success(answer), **error_responses(304, *statuses)},
    }


def _post(
    tag: str,
    summary: str,
    body: Node,
    parameters: Iterable[str],
    statuses: Iterable[int],
    answer: str = "Bundle",
) -> Node:
    """Return an operation that takes a body; answer is the type of what it answers."""
    return {
        "tags": [tag],
        "summary": summary,
        "parameters": [ref("parameters", name) for name in parameters],
        "requestBody": body,
        "responses": {"200": _success(content(answer)), **error_responses(413, 415, *statuses)},
    }


def _success(answer: Node) -> Node:
    headers = {"ETag": {"required": True, "schema": {"type": "string"}}}
    return {"description": "What was asked for", "headers": headers, "content": answer}


def _system() -> Node:
    """Return the paths of batches, and of searches and the history of several types."""
    body = {"required": True, "content": content("Bundle")}
    parameters = (*parts.FORM_PARAMETERS, *parts.PREFERENCES)
    summary = "Read and search several times at once: a Bundle of type batch or transaction"
    statuses = (*_GUARDED, 404, 405, 410)
    batch = _post("Batch", summary, body, parameters, statuses)
    searching = (*parts.system_search(), *parts.CONDITIONS, *parts.PREFERENCES)
    history = (*parts.HISTORY, *parts.PAGES, *parts.FORM_PARAMETERS, *parts.CONDITIONS)
    form = {"content": parts.form(parts.system_search().values())}
    search, record = "Search several types", "Search what is about a patient"

    def by_url(doc: str, place: Sequence[str] = ()) -> Node:
        statuses = (*_GUARDED, 404) if place else _GUARDED
        return get_operation("System", doc, content("Bundle"), (*place, *searching), statuses)

    def by_form(doc: str, place: Sequence[str] = ()) -> Node:
        statuses = (*_GUARDED, 404) if place else _GUARDED
        return _post("System", doc, form, (*place, *parts.PREFERENCES), statuses)

    place = ("path.id",)
    return {
        "/fhir": {"post": batch, "get": by_url(search)},
        "/fhir/_search": {"get": by_url(search), "post": by_form(search)},
        "/fhir/_history": {
            "get": get_operation(
                "System", "List versions of every type", content("Bundle"), history, _GUARDED
            )
        },
        "/fhir/Patient/{id}/*": {"get": by_url(record, place)},
        "/fhir/Patient/{id}/_search": {
            "get": by_url(record, place),
            "post": by_form(record, place),
        },
    }


def _definitions() -> Node:
    """Return the paths of what describes the server in FHIR's words."""
    shaping = (*parts.FORM_PARAMETERS, *parts.CONDITIONS, *parts.PREFERENCES)
    return {
        "/fhir/metadata": {
            "get": _OPEN
            | get_operation(
                "Definitions",
                "Read the CapabilityStatement",
                content("CapabilityStatement"),
                (*parts.METADATA, *shaping),
                (400, 406),
            )
        },
        **{
            f"/fhir/{definition.type}/{{id}}": {
                "get": _OPEN
                | get_operation(
                    "Definitions",
                    f"Read {_a(definition.type)}",
                    content(definition.type),
                    ("path.id", *shaping),
                    (400, 404, 406),
                )
            }
            for definition in definitions.SERVED
        },
        "/openapi.json": {
            "get": _OPEN
            | get_operation(
                "Definitions",
                "Read this document",
                content("Object", JSON),
                parts.CONDITIONS,
                (),
            )
        },
    }


def _others() -> Node:
    """Return the paths of the authorization server, and those for orchestrators."""
    plain = {"description": "What was asked for", "content": content("Object", JSON)}
    paths = {
        path: {"get": {**_OPEN, "tags": [tag], "summary": doc, "responses": {"200": plain}}}
        for path, tag, doc in (
            ("/health/live", "Health", "Say that the process answers"),
            ("/health/ready", "Health", "Say whether the database can be read"),
        )
    }
    for path in paths.values():
        path["get"]["responses"] |= error_responses()
    paths["/health/ready"]["get"]["responses"]["503"] = plain | {"description": "It cannot"}
    return paths | oauth_paths()
