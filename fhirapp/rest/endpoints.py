"""The catalogue of endpoints: all that programs may request, each declared once.

ResourceBlueprint makes the routes of a type from its endpoints (rest/blueprint.py); what is no type
is declared here, or by its feature. rest/capability.py and rest/openapi.py render the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from flask import current_app
from flask.sansio.app import App

from fhirapp import config
from fhirapp.definition import Operation
from fhirapp.rest import batch, definitions
from fhirapp.rest import openapi_parts as parts
from fhirapp.rest.openapi_parts import (
    CONDITIONS,
    FORM_PARAMETERS,
    ID,
    JSON,
    PREFERENCES,
    STRING,
    Node,
    content,
    error_responses,
)


class Endpoint(NamedTuple):
    """What programs may request: methods and a path, as OpenAPI writes it.

    answer is the name of its schema, or its content by media type. parameters are by name among
    the components, or by a name without a dot where no other endpoint has them; a function returns
    those that depend on all types. statuses are errors beside parts.GUARDED, which any endpoint
    with a token has. interactions are FHIR's codes. body is that of a POST; where it is a form, it
    has the parameters of the query. responses are those of endpoints that are not FHIR's. view
    names the view of a type.
    """

    request: str
    tag: str
    summary: str
    answer: str | Node = "Bundle"
    parameters: Node | Callable[[], Node] = {}
    statuses: Sequence[int] = ()
    interactions: Sequence[str] = ()
    body: Node | None = None
    is_form: bool = False
    security: Sequence[Node] | None = None
    responses: Node | None = None
    view: str = ""

    @property
    def methods(self) -> list[str]:
        return self.request.split()[:-1]

    @property
    def path(self) -> str:
        return self.request.split()[-1]


class Declaration(NamedTuple):
    """What a part of the server that is no type offers.

    operations are those of a type, or of the server by an empty name. resources are types without
    records as a CapabilityStatement lists them. guides are implementation guides, each with its
    CapabilityStatement.
    """

    endpoints: Sequence[Endpoint] = ()
    operations: Mapping[str, Operation] = {}
    resources: Sequence[Mapping[str, Any]] = ()
    guides: Sequence[tuple[str, str]] = ()


_DECLARED, _OF_TYPES = "fhirapp.declared", "fhirapp.endpoints"


def declare(app: App, declaration: Declaration) -> None:
    """Add a declaration to the catalogue."""
    app.extensions.setdefault(_DECLARED, []).append(declaration)


def declare_type(app: App, name: str, endpoints: Sequence[Endpoint]) -> None:
    """Add the endpoints of a type to the catalogue."""
    app.extensions.setdefault(_OF_TYPES, {})[name] = endpoints


def declared() -> list[Declaration]:
    """Return what parts that are no type declare."""
    found: list[Declaration] = current_app.extensions.get(_DECLARED, [])
    return found


def endpoints_of(type_name: str) -> Sequence[Endpoint]:
    """Return the endpoints of a type."""
    found: Sequence[Endpoint] = current_app.extensions[_OF_TYPES][type_name]
    return found


def catalogue() -> list[Endpoint]:
    """Return all endpoints: of types by their names, of features, and of the server."""
    return [
        *(
            endpoint
            for name in sorted(current_app.extensions[_OF_TYPES])
            for endpoint in endpoints_of(name)
        ),
        *(endpoint for declaration in declared() for endpoint in declaration.endpoints),
        *SYSTEM,
        *(_METADATA, *DEFINITIONS.values(), _OPENAPI),
        *_HEALTH,
        *_OAUTH,
        *([_REGISTRATION] if config.settings().dynamic_registration else ()),
    ]


def interactions_of(endpoints: Iterable[Endpoint]) -> list[dict[str, str]]:
    """Return the interactions of endpoints as a CapabilityStatement lists them."""
    codes = dict.fromkeys(code for endpoint in endpoints for code in endpoint.interactions)
    return [{"code": code} for code in codes]


_SEVERAL, _RECORD = "Search several types", "Search what is about a patient"
_SEARCH = parts.system_search() | CONDITIONS | PREFERENCES
_FORM: Node = {"content": parts.form(parts.system_search().values())}
# Batches, and searches and the history of several types.
SYSTEM = (
    Endpoint(
        "POST /fhir",
        "Batch",
        "Read and search several times at once: a Bundle of type batch or transaction",
        parameters=FORM_PARAMETERS | PREFERENCES,
        statuses=(404, 405, 410),
        interactions=batch.KINDS,
        body={"required": True, "content": content("Bundle")},
    ),
    Endpoint("GET /fhir", "System", _SEVERAL, "Bundle", _SEARCH, (), ("search-system",)),
    Endpoint("GET POST /fhir/_search", "System", _SEVERAL, "Bundle", _SEARCH, (), (), _FORM, True),
    Endpoint(
        "GET /fhir/_history",
        "System",
        "List versions of every type",
        parameters=parts.HISTORY,
        interactions=("history-system",),
    ),
    Endpoint("GET /fhir/Patient/{id}/*", "System", _RECORD, "Bundle", ID | _SEARCH, (404,)),
    Endpoint(
        "GET POST /fhir/Patient/{id}/_search",
        "System",
        _RECORD,
        parameters=ID | _SEARCH,
        statuses=(404,),
        body=_FORM,
        is_form=True,
    ),
)

# What describes the server in FHIR's words, to anybody.
_public = partial(Endpoint, tag="Definitions", security=())
DEFINITIONS = {
    served.type: _public(
        f"GET /fhir/{served.type}/{{id}}",
        summary=f"Read {parts.with_article(served.type)}",
        answer=served.type,
        parameters=ID | parts.SHAPING,
        statuses=(400, 404, 406),
        interactions=("read",),
    )
    for served in definitions.SERVED
}
_METADATA = _public(
    "GET /fhir/metadata",
    summary="Read the CapabilityStatement",
    answer="CapabilityStatement",
    parameters=parts.METADATA | parts.SHAPING,
    statuses=(400, 406),
)
_OPENAPI = _public(
    "GET /openapi.json",
    summary="Read this document",
    answer=content("Object", JSON),
    parameters=CONDITIONS,
)


_OBJECT: Node = {"description": "What was asked for", "content": content("Object", JSON)}


def _open(path: str, tag: str, summary: str, **responses: Node) -> Endpoint:
    """Return an endpoint that needs no token and answers an object that is no resource."""
    answers = {"200": _OBJECT, **error_responses(), **responses}
    return Endpoint(f"GET {path}", tag, summary, security=(), responses=answers)


_HEALTH = (
    _open("/health/live", "Health", "Say that the process answers"),
    _open(
        "/health/ready",
        "Health",
        "Say whether the database can be read",
        **{"503": _OBJECT | {"description": "It cannot"}},
    ),
)


_AUTHORIZATION = "Authorization"
# How a client proves who it is in the body, where it does not by Basic.
_PROOF = dict.fromkeys(("client_id", "client_assertion_type", "client_assertion"), STRING)
_CODE = dict.fromkeys(("scope", "code", "redirect_uri", "code_verifier", "refresh_token"), STRING)
_GRANTS: Node = {"enum": ["client_credentials", "authorization_code", "refresh_token"]}
_TOKEN_FORM = parts.object_of({"grant_type": _GRANTS}, **_CODE, **_PROOF)
_TOKEN_HINT = parts.object_of({"token": STRING}, token_type_hint=STRING, **_PROOF)


def _refused(*statuses: int) -> Node:
    """Return responses that are errors of OAuth (RFC 6749 §5.2)."""
    described = {"description": "Refused", "content": content("OAuthError", JSON)}
    return {str(status): described for status in statuses}


_REFUSED_FORM = _refused(400, 401, 413, 414, 429, 431, 503)


def _oauth(path: str, summary: str, form: Node, answer: str = "Object") -> Endpoint:
    """Return an endpoint of the authorization server that takes a form."""
    success: Node = {"description": summary, "content": content(answer, JSON)}
    return Endpoint(
        f"POST {path}",
        _AUTHORIZATION,
        summary,
        body={"required": True, "content": {parts.FORM: {"schema": form}}},
        # By a secret, or by what is in the body.
        security=({"secret": []}, {}),
        responses={"200": success, **_REFUSED_FORM},
    )


_OAUTH = (
    *(
        _open(path, _AUTHORIZATION, summary)
        for path, summary in (
            ("/.well-known/smart-configuration", "Tell how to get a token"),
            ("/fhir/.well-known/smart-configuration", "Tell how to get a token"),
            ("/.well-known/openid-configuration", "Tell OpenID Connect clients the same"),
            ("/fhir/.well-known/openid-configuration", "Tell OpenID Connect clients the same"),
            ("/.well-known/oauth-authorization-server", "Tell OAuth clients the same (RFC 8414)"),
            ("/oauth/jwks.json", "Give the keys to check id tokens with"),
        )
    ),
    Endpoint(
        "GET POST /oauth/userinfo",
        _AUTHORIZATION,
        "Say who the user of an access token is",
        responses={"200": _OBJECT, **error_responses(), **_refused(401, 403, 413, 429, 503)},
    ),
    _oauth("/oauth/token", "Get an access token", _TOKEN_FORM, "Token"),
    _oauth("/oauth/introspect", "Say what a token is", _TOKEN_HINT),
    _oauth("/oauth/revoke", "End a token", _TOKEN_HINT),
)
_REGISTER = "Register a client, which an administrator approves"
_REGISTRATION = Endpoint(
    "POST /oauth/register",
    _AUTHORIZATION,
    _REGISTER,
    body={"content": content("Object", JSON)},
    security=(),
    responses={
        **_REFUSED_FORM,
        "201": {"description": _REGISTER, "content": content("Object", JSON)},
    },
)
