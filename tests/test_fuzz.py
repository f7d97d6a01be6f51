"""20,000 requests that nobody would send: none breaks the server, each refusal says why.

Most begin as valid requests of every kind that the app serves, found in its declarations and in
/openapi.json, so that a type, a parameter or an operation that is new is asked too; tests/fuzz.py
changes them. The others are schemathesis's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import orjson
import pytest
import schemathesis
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fhirapp.db import db
from fhirapp.rest.include import includable
from fhirapp.rest.search_parameters import modifiers_of
from fhirapp.search.values import values_at
from tests.conftest import token_for
from tests.contract import (
    SERVED,
    Held,
    addresses,
    example,
    fill,
    shown,
    spellings,
    versions_held,
)
from tests.fuzz import Answer, Request, asking, mutated, send
from tests.helpers import BASE_URL, FHIR_JSON, Fhir, link
from tests.openapi import Described
from tests.operations import FORM, parameters

# How many requests each seed makes; those of PostgreSQL cost more and prove less.
SEEDS = range(10)
OF_A_SEED = {"sqlite": 1_950, "postgresql": 200}
OF_SCHEMATHESIS = {"sqlite": 250, "postgresql": 40}
assert len(SEEDS) * OF_A_SEED["sqlite"] + 2 * OF_SCHEMATHESIS["sqlite"] >= 20_000

PATIENT = "p1"
# Whose tokens ask, and how often: a refusal for its scope says little of what it refuses.
SCOPES = {
    "system/*.rs": 12,
    "patient/*.rs": 6,
    "patient/Patient.r patient/Provenance.rs": 1,
    "patient/AllergyIntolerance.rs?clinical-status=active": 1,
    "system/DocumentReference.r": 1,
}


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app with resources of every type, and small pages, so that most have a next one."""
    app = make_app(page_size=3, page_max=20)
    fill(app)
    return app


@pytest.fixture(scope="module")
def described(app: Flask) -> Described:
    return Described(app)


@pytest.fixture(scope="module")
def tokens(app: Flask) -> dict[str, str]:
    """A token of each scope."""
    return {
        scope: token_for(app, scope, patient=PATIENT if "patient/" in scope else None)
        for scope in SCOPES
    }


def database(app: Flask) -> str:
    with app.app_context():
        return db.engine.dialect.name


@pytest.fixture(scope="module")
def valid(app: Flask, described: Described) -> list[Request]:
    """Requests of every kind, all of them as a client would send them."""
    held, fhir = versions_held(app), Fhir(app, token_for(app, "system/*.rs"))
    requests = [
        *map(_get, _plain(described)),
        _get("/fhir/SearchParameter/AllergyIntolerance-status"),
        asking("POST", "/oauth/token", body="grant_type=client_credentials&scope=system/*.rs",
               media=FORM).with_headers(Authorization="Basic ZGVtby1iYWNrZW5kOmRlbW8="),
    ]  # fmt: skip
    for definition in SERVED.values():
        instances = addresses(definition, example(definition, held))
        requests += [_get(f"/fhir/{address}") for address in instances]
        requests += [_get(f"/fhir/{address}?_pretty=false&_format=json") for address in instances]
        requests += _operations(definition)
        if definition.searchable:
            with app.app_context():
                requests += _searches(definition, held)
        if "history-type" in definition.interactions:
            query = "_since=2024-01-01&_at=2025&_count=2"
            requests.append(asking("GET", f"/fhir/{definition.name}/_history", query))
    requests += [
        _get(f"/fhir/Binary/{row_id}").with_headers(Range="bytes=0-9", Accept="*/*")
        for row_id in sorted(held["Binary"])[:3]
    ]
    return [*requests, *_further(fhir, requests)]


def _plain(described: Described) -> Iterator[str]:
    """Yield the addresses that can be asked for as they are."""
    for path, methods in described.paths.items():
        if "get" in methods:
            parameters = described.parameters(path, "get").values()
            if not any(one["required"] for one in parameters):
                yield path


def _get(address: str) -> Request:
    path, _, query = address.partition("?")
    return asking("GET", path, query)


def _searches(definition: Any, held: Held) -> Iterator[Request]:
    """Yield searches by every parameter, with every modifier, in every form."""
    name = definition.name
    there = list(shown(definition, held).values())
    for parameter in definition.params:
        found = sorted({one for row in there for one in spellings(parameter, row)})[:2] or ["x"]
        for value in found:
            yield asking("GET", f"/fhir/{name}", f"{parameter.name}={value}&_count=2")
        for modifier in modifiers_of(parameter):
            value = _MODIFIED.get(modifier, found[0])
            yield asking("GET", f"/fhir/{name}", f"{parameter.name}:{modifier}={value}")
        for target in getattr(parameter, "targets", ()):
            yield asking("GET", f"/fhir/{name}", f"{parameter.name}:{target}=x")
        if parameter.sortable:
            yield asking("GET", f"/fhir/{name}", f"_sort=-{parameter.name},_id")
    for query in (
        "_lastUpdated=ge2024-01-01&_lastUpdated=lt2030&_total=none",
        "_revinclude=Provenance:target&_summary=true&_explain=true&_pretty=false",
        "_elements=id,meta&_format=json&unknown=x&_contained=true",
        *(f"_include={value}&_include:iterate={value}" for value in includable(definition)),
    ):
        yield asking("GET", f"/fhir/{name}", query)
        for path in (f"/fhir/{name}", f"/api/{name}"):
            yield asking("POST", path, body=query, media=FORM)
            yield asking("POST", f"{path}/_search", body=query, media=FORM)
    strict = f"_id={','.join(sorted(held[name])[:3])}&_count=0"
    yield asking("GET", f"/api/{name}", strict).with_headers(Prefer="handling=strict")


# Values for modifiers that do not take what the parameter takes without them.
_MODIFIED = {
    "missing": "true",
    "of-type": "system|code|value",
    "text": "word",
    "contains": "word",
    "above": "http://x.example/a/b",
    "below": "http://x.example/a",
}
_VALUES = {
    "id": ("valueId", PATIENT),
    "date": ("valueDate", "2024-01-01"),
    "dateTime": ("valueDateTime", "2024-01-01T00:00:00Z"),
    "instant": ("valueInstant", "2024-01-01T00:00:00Z"),
    "Coding": ("valueCoding", {"system": "http://loinc.org", "code": "18842-5"}),
    "boolean": ("valueBoolean", False),
    "canonical": ("valueCanonical", "http://x.example/profile"),
    "code": ("valueCode", "Patient,AllergyIntolerance"),
    "integer": ("valueInteger", 2),
}


def _operations(definition: Any) -> Iterator[Request]:
    """Yield a type's operations, by GET and by POST, with the parameters that they must have."""
    for operation in definition.operations:
        place = f"/{PATIENT}" if operation.instance else ""
        path = f"/fhir/{definition.name}{place}/${operation.name}"
        required = [one for one in operation.parameters if one.required]
        for listed in (required, operation.parameters):
            # An end before the start would be refused.
            values = [(one.name, *_VALUES[one.type]) for one in listed if one.name != "end"]
            query = "&".join(
                f"{name}={value['system']}|{value['code']}"
                if isinstance(value, dict)
                else f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                for name, _, value in values
            )
            body = json.dumps(parameters(*values))
            yield asking("GET", path, query)
            yield asking("POST", path, body=query, media=FORM)
            yield asking("POST", path, body=body, media=FHIR_JSON)


def _further(fhir: Fhir, requests: list[Request]) -> Iterator[Request]:
    """Yield what the next and the previous links of some of these lead to."""
    for request in requests[::4]:
        if request.method == "GET" and request.address.startswith("/fhir/"):
            address = f"{request.path.decode()}?{request.query.decode()}"
            response = fhir.get(address)
            if response.content_type == FHIR_JSON and b'"Bundle"' in response.data:
                following = link(response.get_json(force=True), "next")
                if following:
                    yield _get(following)


def test_the_valid_requests_are_answered_and_reach_everything(app, valid, tokens, described):
    reached = set()
    for request in valid:
        answer = send(app, _with_token(request, tokens["system/*.rs"]))
        assert answer.status in (200, 206), (request, answer)
        check(described, request, answer)
        reached.add((described.path_of(request.address), request.method.lower()))
    assert {(path, method) for path, one in described.paths.items() for method in one} <= reached


@pytest.mark.parametrize("seed", SEEDS)
def test_no_request_breaks_the_server(app, valid, tokens, described, seed):
    chance = Random(seed)
    own = {tokens[scope] for scope in SCOPES if "system/" not in scope}
    kinds = by_kind(described, valid)
    made = 0
    while made < OF_A_SEED[database(app)]:
        (scope,) = chance.choices([*SCOPES], [*SCOPES.values()])
        begun = chance.choice(chance.choice(kinds))
        request = mutated(chance, _with_token(begun, tokens[scope]), valid)
        # Failures are counted by address.
        address = f"10.{seed}.{made >> 8}.{made & 255}"
        answer = send(app, request, address)
        made += 1
        check(described, request, answer)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in own:
            check_own(request, answer)
        # RFC 9110 §14.2: of a Range, only GET takes notice.
        if request.method == "GET" and "Range" not in request.headers and chance.random() < 0.25:
            head = send(app, Request("HEAD", *_rest(request)), address)
            made += 1
            assert (head.status, head.headers) == (answer.status, answer.headers), request
            assert head.body == b"", request


def by_kind(described: Described, requests: list[Request]) -> list[list[Request]]:
    """Return the requests sorted out by what they ask for: most of all are searches."""
    kinds: dict[tuple[str | None, str], list[Request]] = {}
    for one in requests:
        kinds.setdefault((described.path_of(one.address), one.method), []).append(one)
    return list(kinds.values())


def _with_token(request: Request, token: str) -> Request:
    if "Authorization" in request.headers:
        return request
    return request.with_headers(Authorization=f"Bearer {token}")


def _rest(request: Request) -> tuple[Any, ...]:
    return (request.path, request.query, request.headers, request.body)


def check(described: Described, request: Request, answer: Answer) -> None:
    """Assert what holds of every answer."""
    told = (request, answer.status, answer.body[:500])
    assert answer.status < 500, told
    assert answer.body == b"" or request.method != "HEAD", told
    if answer.status >= 400:
        check_refusal(request, answer)
    elif answer.status == 304:
        assert answer.body == b"", told
        assert answer.header("ETag"), told
    elif answer.body and "json" in (answer.header("Content-Type") or ""):
        check_content(request, answer)
    # A Host that can be none is refused before anything knows what was asked for.
    known = None if "Host" in request.headers else described.path_of(request.address)
    method = "get" if request.method == "HEAD" else request.method.lower()
    if known and method in described.paths[known] and request.method in ("GET", "HEAD", "POST"):
        assert str(answer.status) in described.paths[known][method]["responses"], told


def check_refusal(request: Request, answer: Answer) -> None:
    """Assert that a refusal under /fhir and /api is an OperationOutcome that says why."""
    told = (request, answer)
    if not request.address.startswith(("/fhir/", "/api/")):
        if answer.header("Content-Type") == "application/json":
            assert orjson.loads(answer.body)["error"], told
        return
    assert answer.header("Content-Type") == FHIR_JSON, told
    assert answer.header("Cache-Control") == "no-store", told
    if request.method == "HEAD":
        return
    outcome = orjson.loads(answer.body)
    assert outcome["resourceType"] == "OperationOutcome", told
    (issue,) = outcome["issue"]
    assert (issue["severity"], bool(issue["code"])) == ("error", True), told
    assert issue["diagnostics"], told
    assert answer.status != 400 or issue["expression"][0].startswith("http."), told


def check_content(request: Request, answer: Answer) -> None:
    """Assert that an answer is JSON and, where it is a Bundle, one that holds together."""
    content = orjson.loads(answer.body)
    told = (request, answer.status, answer.body[:500])
    if not request.address.startswith(("/fhir/", "/api/")) or ".well-known" in request.address:
        return
    assert content["resourceType"], told
    if content["resourceType"] != "Bundle":
        assert content.get("id"), told
        return
    assert content["type"] in ("searchset", "history"), told
    assert content["link"][0]["relation"] == "self", told
    assert all(one["url"].startswith(f"{BASE_URL}/") for one in content["link"]), told
    assert content.get("entry") != [], told
    names = set()
    for entry in content.get("entry", ()):
        if entry.get("search", {}).get("mode") == "outcome":
            assert entry["resource"]["resourceType"] == "OperationOutcome", told
            continue
        assert entry["fullUrl"].startswith(f"{BASE_URL}/fhir/"), told
        if "resource" in entry:
            resource = entry["resource"]
            name = (resource["resourceType"], resource["id"], resource["meta"]["versionId"])
            assert name not in names, told
            names.add(name)


def check_own(request: Request, answer: Answer) -> None:
    """Assert that a patient's token is shown no other patient's resource."""
    if answer.status != 200 or answer.header("Content-Type") != FHIR_JSON or not answer.body:
        return
    content = orjson.loads(answer.body)
    entries = content.get("entry", ()) if content["resourceType"] == "Bundle" else ()
    for resource in (content, *(one["resource"] for one in entries if "resource" in one)):
        definition = SERVED.get(resource["resourceType"])
        if definition and definition.compartment:
            at = definition.compartment
            held = [resource["id"]] if at == "id" else values_at(resource, f"{at}.reference")
            elements = request.query + request.body
            # `_elements` may leave out whose it is.
            assert held in ([PATIENT], [f"Patient/{PATIENT}"]) or (
                held == [] and (b"_elements" in elements or b"_summary" in elements)
            ), (request, resource)


CHECKS = [
    *(not_a_server_error, status_code_conformance, content_type_conformance),
    *(response_headers_conformance, response_schema_conformance),
]


@pytest.mark.parametrize("mode", [*schemathesis.GenerationMode], ids=lambda mode: mode.value)
def test_answers_are_as_openapi_describes_them(app, tokens, described, mode):
    schema = schemathesis.openapi.from_wsgi("/openapi.json", app)
    held = versions_held(app)
    cases = []
    for found in schema.get_all_operations():
        operation = found.ok()
        cases.append(operation.as_strategy(generation_mode=mode))
        # An id that is made up finds nothing: half of the cases have one that is here.
        name = operation.path.split("/")[2]
        if "{id}" in operation.path and name in SERVED:
            row_id = example(SERVED[name], held)
            there = {"id": row_id, "vid": "1"} if "{vid}" in operation.path else {"id": row_id}
            cases.append(operation.as_strategy(generation_mode=mode, path_parameters=there))

    @settings(
        deadline=None,
        derandomize=True,
        max_examples=OF_SCHEMATHESIS[database(app)],
        suppress_health_check=[*HealthCheck],
    )
    @given(case=st.one_of(cases))
    def ask(case: schemathesis.Case) -> None:
        headers = {}
        if not case.path.startswith("/oauth"):
            headers["Authorization"] = f"Bearer {tokens['system/*.rs']}"
        response = case.call(headers=headers)
        case.validate_response(response, checks=CHECKS)

    ask()
