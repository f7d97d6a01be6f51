"""The components of the OpenAPI document: parameters, schemas and answers that operations share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fhirapp import urls
from fhirapp.auth.oauth.discovery import endpoints
from fhirapp.definition import Definition, OperationParameter, types
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.rest.definitions import documentation, modifiers_of
from fhirapp.rest.response import FHIR_JSON, FHIR_XML
from fhirapp.search.parameter import Parameter
from fhirapp.search.query import COMMON, SUMMARIES, TOTALS
from fhirapp.search.reference import Reference

Node = dict[str, Any]


JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
STRING: Node = {"type": "string"}
NUMBER: Node = {"type": "integer", "minimum": 0}
_BOOLEAN: Node = {"type": "boolean"}
DATE: Node = {"type": "string", "examples": ["2024", "2024-03", "2024-03-01T09:00:00Z"]}
_ID: Node = {"type": "string", "pattern": f"^{ID_PATTERN}$"}
# How one value of each kind of search parameter is written.
_VALUES: Mapping[str, Node] = {
    "token": {"type": "string", "examples": ["code", "http://system.example|code"]},
    "date": {"type": "string", "examples": ["2024", "ge2024-01-01", "lt2025"]},
    "reference": {"type": "string", "examples": ["p1", "Patient/p1"]},
    "string": {"type": "string", "examples": ["word"]},
    "uri": {"type": "string", "examples": ["http://example.org/profile"]},
    "quantity": {"type": "string", "examples": ["gt30||min"]},
    "composite": {"type": "string", "examples": ["replaces$DocumentReference/d1"]},
}
# How a value of each type of an operation's parameters is written in a URL.
_TYPES: Mapping[str, Node] = {
    "id": _ID,
    "date": DATE,
    "dateTime": DATE,
    "instant": DATE,
    "boolean": _BOOLEAN,
    "integer": NUMBER,
    "Coding": _VALUES["token"],
}


def _parameter(place: str, name: str, doc: str, schema: Node, *, required: bool = False) -> Node:
    return {"name": name, "in": place, "description": doc, "required": required, "schema": schema}


def group(prefix: str, place: str, *described: tuple[str, str, Node]) -> Node:
    """Return parameters in a place by their names: the name of each, what it is, its schema."""
    return {f"{prefix}.{row[0]}": _parameter(place, *row) for row in described}


ID = {"path.id": _parameter("path", "id", "The resource's id", _ID, required=True)}
VERSION = {"path.vid": _parameter("path", "vid", "The version's number", STRING, required=True)}
FORM_PARAMETERS = group(
    "form",
    "query",
    ("_format", "json or xml, whatever Accept says", STRING),
    ("_pretty", "false: no indentation", _BOOLEAN),
)
CONDITIONS = group(
    "condition",
    "header",
    ("If-None-Match", "304 where one of these entity tags holds still", STRING),
    ("If-Modified-Since", "304 where nothing changed since", STRING),
)
PREFERENCES = group(
    "preference",
    "header",
    ("Prefer", "handling=strict: what is not known is refused, not ignored", STRING),
)
RANGES = group(
    "range",
    "header",
    ("Range", "The bytes that are wanted: bytes=0-1023", STRING),
    ("If-Range", "The whole instead, where it changed since", STRING),
    ("If-Match", "412 where none of these entity tags holds", STRING),
    ("If-Unmodified-Since", "412 where it changed since", STRING),
)
PAGES = group(
    "page",
    "query",
    ("_count", "Results on a page", NUMBER),
    ("_cursor", "Where the page begins: from a link to it", STRING),
)
CONTROLS = group(
    "search",
    "query",
    ("_sort", "Parameters to sort by, a minus before one for descending", STRING),
    ("_total", "How the total is found", {"type": "string", "enum": [*TOTALS]}),
    ("_summary", "Parts of resources", {"type": "string", "enum": [*SUMMARIES]}),
    ("_elements", "Elements of resources, separated by commas", STRING),
    ("_include", "Referenced resources to bring: Type:parameter", STRING),
    ("_revinclude", "Resources to bring that refer to the matches: Type:parameter", STRING),
    ("_explain", "Tell how the search was read", _BOOLEAN),
)
# Of a search of several types; what every type has is beside it.
SEVERAL = {
    **group("system", "query", ("_type", "Types to search, separated by commas", STRING)),
    **{
        name: node
        for name, node in CONTROLS.items()
        if node["name"] not in ("_sort", "_include", "_revinclude")
    },
}
SHAPING = FORM_PARAMETERS | CONDITIONS | PREFERENCES
HISTORY = {
    **group(
        "history",
        "query",
        ("_since", "Versions from this moment on", DATE),
        ("_at", "Versions that were current at some time of this period", DATE),
    ),
    **PAGES,
    **FORM_PARAMETERS,
    **CONDITIONS,
}
METADATA = group("metadata", "query", ("mode", "full, the only mode there is", STRING))


def search(definition: Definition) -> Node:
    """Return the parameters of a type's search: its own, and what shapes the answer."""
    own = {f"{definition.name}.{param.name}": _search_param(param) for param in definition.params}
    return {**own, **PAGES, **CONTROLS, **FORM_PARAMETERS}


def system_search() -> Node:
    """Return the parameters of a search of several types."""
    own = {f"system.{param.name}": _search_param(param) for param in COMMON}
    return {**own, **PAGES, **SEVERAL, **FORM_PARAMETERS}


def _search_param(parameter: Parameter) -> Node:
    taken = modifiers_of(parameter)
    if isinstance(parameter, Reference):
        taken += parameter.targets
    modifiers = f"Modifiers: {', '.join(f':{modifier}' for modifier in taken)}." if taken else ""
    doc = " ".join(
        filter(None, (f"{documentation(parameter)} ({parameter.kind}).", modifiers, parameter.spec))
    )
    # Repeated: all must hold.
    schema = {"type": "array", "items": _VALUES[parameter.kind]}
    return _parameter("query", parameter.name, doc, schema)


def operation_parameters(prefix: str, parameters: Iterable[OperationParameter]) -> Node:
    """Return the parameters of an operation that may stand in an address."""
    described = {}
    for parameter in parameters:
        if parameter.type == "Resource":
            continue
        schema = _TYPES.get(parameter.type, STRING)
        if parameter.repeats:
            schema = {"type": "array", "items": schema}
        doc = f"{parameter.doc} ({parameter.type})."
        described[f"{prefix}.{parameter.name}"] = _parameter(
            "query", parameter.name, doc, schema, required=parameter.required
        )
    return described


def form(parameters: Iterable[Node]) -> Node:
    """Return the content of a form with these parameters."""
    nodes = list(parameters)
    properties = {node["name"]: node["schema"] for node in nodes}
    required = [node["name"] for node in nodes if node["required"]]
    schema: Node = {"type": "object", "properties": properties}
    return {FORM: {"schema": {**schema, "required": required} if required else schema}}


def ref(kind: str, name: str) -> Node:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def content(schema: str, media_type: str = FHIR_JSON) -> Node:
    """Return the content that is JSON of a schema; FHIR is in XML too."""
    xml: Node = {FHIR_XML: {}} if media_type == FHIR_JSON else {}
    return {media_type: {"schema": ref("schemas", schema)}, **xml}


# What an answer may be instead of what was asked for: decisions §4. 304 has no body.
_INSTEAD = {
    304: "The client has it already",
    400: "A parameter is wrong, not supported or missing",
    401: "No access token, or one that is invalid or expired",
    403: "The token's scope does not cover it",
    404: "Unknown, or outside of what the token may see",
    405: "An entry of a transaction would write: this server only reads",
    406: "Neither FHIR JSON nor FHIR XML is acceptable, or XML cannot hold what is there",
    410: "Deleted",
    412: "Not the version that the client holds",
    413: "The body is too long",
    414: "The address is too long",
    415: "The body is of another type",
    416: "The range lies beyond the end",
    429: "Too many requests, or too many without a valid token",
    431: "The headers are too long",
    503: "The database is busy",
}
_TOLD_IN = {
    401: "WWW-Authenticate",
    403: "WWW-Authenticate",
    429: "Retry-After",
    503: "Retry-After",
}


def error_responses(*statuses: int) -> Node:
    """Return references to other answers, by status; those that anything may get among them."""
    return {str(status): ref("responses", str(status)) for status in sorted({*statuses, 414, 431})}


# What the answer to a request with a token may be instead.
GUARDED = (400, 401, 403, 406, 429, 503)


def responses(answer: str | Node, *statuses: int) -> Node:
    """Return the responses of an endpoint of FHIR: its answer, by schema or content, and errors."""
    success = {
        "description": "What was asked for",
        "headers": {"ETag": {"required": True, "schema": {"type": "string"}}},
        "content": content(answer) if isinstance(answer, str) else answer,
    }
    return {"200": success, **error_responses(*statuses)}


def _responses() -> Node:
    responses: Node = {}
    for status, description in _INSTEAD.items():
        described: Node = {"description": description}
        if header := _TOLD_IN.get(status):
            # A 403 that is about a patient, not the scope, has none; so none is promised.
            described["headers"] = {header: {"schema": STRING}}
        if status != 304:
            described["content"] = content("OperationOutcome")
        responses[str(status)] = described
    return responses


def with_article(name: str) -> str:
    """Return a type's name with its article."""
    return f"an {name}" if name[0] in "AEIO" else f"a {name}"


def _resource(name: str) -> Node:
    """Return the little that every resource has; its own elements are FHIR's to define."""
    return {
        "type": "object",
        "required": ["resourceType", "id", "meta"],
        "properties": {
            "resourceType": {"const": name},
            "id": _ID,
            "meta": {
                "type": "object",
                "required": ["versionId", "lastUpdated"],
                "properties": {"versionId": STRING, "lastUpdated": STRING},
            },
        },
        "externalDocs": {"url": f"http://hl7.org/fhir/R4/{name.lower()}.html"},
    }


def object_of(required: Mapping[str, Node], **optional: Node) -> Node:
    """Return the schema of an object."""
    return {"type": "object", "required": [*required], "properties": {**required, **optional}}


def _array(items: Node) -> Node:
    return {"type": "array", "minItems": 1, "items": items}


def _schemas(answers: Iterable[str]) -> Node:
    """Return the schemas of the types that are served, of other answers, and of Bundles."""
    const = {name: {"const": name} for name in ("Bundle", "OperationOutcome", "Parameters")}
    entry = object_of(
        {},
        fullUrl=STRING,
        resource=object_of({"resourceType": STRING}),
        search=object_of({"mode": {"enum": ["match", "include", "outcome"]}}),
        request=object_of({"method": STRING, "url": STRING}),
        response=object_of({"status": STRING}, etag=STRING, lastModified=STRING),
    )
    link = object_of({"relation": STRING, "url": STRING})
    issue = object_of(
        {"severity": STRING, "code": STRING, "diagnostics": STRING}, expression=_array(STRING)
    )
    kind = {"enum": ["searchset", "history"]}
    return {
        **{name: object_of({"resourceType": {"const": name}}) for name in answers},
        **{name: _resource(name) for name in sorted(types())},
        "Bundle": object_of(
            {"resourceType": const["Bundle"], "id": STRING, "type": kind, "link": _array(link)},
            total=NUMBER,
            entry=_array(entry),
        ),
        "DocumentBundle": object_of(
            {
                "resourceType": const["Bundle"],
                "id": STRING,
                "identifier": object_of({"system": STRING, "value": STRING}),
                "type": {"const": "document"},
                "timestamp": STRING,
                "entry": _array(entry),
            }
        ),
        "OperationOutcome": object_of(
            {"resourceType": const["OperationOutcome"], "issue": _array(issue)}
        ),
        "Parameters": object_of({"resourceType": const["Parameters"]}, parameter={"type": "array"}),
        "Token": object_of(
            {"access_token": STRING, "token_type": STRING, "expires_in": NUMBER, "scope": STRING}
        ),
        "OAuthError": object_of({"error": STRING}, error_description=STRING),
        "Object": object_of({}),
    }


def components(served: Iterable[Definition], parameters: Node, answers: Iterable[str]) -> Node:
    """Return the components of the types, with these parameters and types of answers."""
    scopes = {"system/*.rs": "to read and search every type"}
    user_scopes = {
        "launch/patient": "to know which patient the user chose",
        "patient/*.rs": "to read and search this patient's record",
        "user/*.rs": "to read and search what the user may see",
        "openid": "to know who the user is",
    }
    flow = {"tokenUrl": urls.token_url(), "scopes": scopes}
    return {
        "schemas": _schemas(answers),
        "parameters": parameters,
        "requestBodies": {
            definition.name: {"content": form(search(definition).values())}
            for definition in served
            if definition.searchable
        },
        "responses": _responses(),
        "securitySchemes": {
            "token": {
                "type": "oauth2",
                "flows": {
                    # First, for a person who looks at the documentation signs in with it.
                    "authorizationCode": {
                        "authorizationUrl": endpoints()["authorization_endpoint"],
                        "tokenUrl": urls.token_url(),
                        "refreshUrl": urls.token_url(),
                        "scopes": user_scopes,
                    },
                    "clientCredentials": flow,
                },
            },
            "secret": {"type": "http", "scheme": "basic"},
        },
    }
