"""Hostile requests: none breaks the server, and each refusal says why.

Most begin as valid requests of every kind that the app serves, found in its declarations and in
/openapi.json; tests/support/fuzz.py changes them. The others are schemathesis's. There are 2,100
with one seed, and 20,000 with FHIRAPP_TEST_LONG=1.
"""

from __future__ import annotations

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
from fhirapp.fhir import xml_reader
from fhirapp.search.values import values_at
from tests.support.contract import SERVED, example, fill, versions_held
from tests.support.effort import sample
from tests.support.fuzz import Answer, Request, mutated, send
from tests.support.helpers import BASE_URL, FHIR_JSON, FHIR_XML, token_for
from tests.support.openapi import Described
from tests.support.valid_requests import PATIENT, by_kind, valid_requests

# How many requests each seed makes; those of PostgreSQL cost more and prove less.
SEEDS = range(sample(1, 10))
OF_A_SEED = {"sqlite": 1_950, "postgresql": 200}
OF_SCHEMATHESIS = {"sqlite": sample(120, 250), "postgresql": 40}
assert len(SEEDS) * OF_A_SEED["sqlite"] + 2 * OF_SCHEMATHESIS["sqlite"] >= sample(2_100, 20_000)

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
    return valid_requests(app, described)


def test_the_valid_requests_are_answered_and_reach_everything(app, valid, tokens, described):
    reached = set()
    for request in valid:
        answer = send(app, _with_token(request, tokens["system/*.rs"]))
        assert answer.status in (200, 202, 206), (request, answer)
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
        # RFC 9110 §14.2: of a Range, only GET takes notice. An export goes on between the two.
        is_lasting = "Range" not in request.headers and "$export" not in request.address
        # A wrong method is named.
        is_lasting = is_lasting and answer.status != 405
        # The one is an event of the trail by then.
        is_lasting = is_lasting and "AuditEvent" not in request.address
        if request.method == "GET" and is_lasting and chance.random() < 0.25:
            head = send(app, Request("HEAD", *_rest(request)), address)
            made += 1
            assert (head.status, _lasting(head)) == (answer.status, _lasting(answer)), request
            assert head.body == b"", request


def _with_token(request: Request, token: str) -> Request:
    if "Authorization" in request.headers:
        return request
    return request.with_headers(Authorization=f"Bearer {token}")


def _lasting(answer: Answer) -> list[tuple[str, str]]:
    """Return the headers but those that name the request, and who visits a page anew."""
    return [pair for pair in answer.headers if pair[0] not in ("X-Request-Id", "Set-Cookie")]


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
    elif answer.body and (answer.header("Content-Type") or "").endswith(
        ("/json", "+json", FHIR_XML)
    ):
        check_content(request, answer)
    # A Host that can be none is refused before anything knows what was asked for.
    known = None if "Host" in request.headers else described.path_of(request.address)
    method = "get" if request.method == "HEAD" else request.method.lower()
    if known and method in described.paths[known] and request.method in ("GET", "HEAD", "POST"):
        assert str(answer.status) in described.paths[known][method]["responses"], told


def content_of(answer: Answer) -> Any:
    """Return what an answer holds, in JSON or FHIR XML."""
    is_xml = answer.header("Content-Type") == FHIR_XML
    return xml_reader.loads(answer.body) if is_xml else orjson.loads(answer.body)


def check_refusal(request: Request, answer: Answer) -> None:
    """Assert that a refusal under /fhir and /api is an OperationOutcome that says why."""
    told = (request, answer)
    if not request.address.startswith(("/fhir/", "/api/")):
        if answer.header("Content-Type") == "application/json" and request.method != "HEAD":
            assert orjson.loads(answer.body)["error"], told
        return
    assert answer.header("Content-Type") in (FHIR_JSON, FHIR_XML), told
    assert answer.header("Cache-Control") == "no-store", told
    if request.method == "HEAD":
        return
    outcome = content_of(answer)
    assert outcome["resourceType"] == "OperationOutcome", told
    (issue,) = outcome["issue"]
    assert (issue["severity"], bool(issue["code"])) == ("error", True), told
    assert issue["diagnostics"], told
    assert answer.status != 400 or issue["expression"][0].startswith("http."), told


def check_content(request: Request, answer: Answer) -> None:
    """Assert that an answer is JSON and, where it is a Bundle, one that holds together."""
    content = content_of(answer)
    told = (request, answer.status, answer.body[:500])
    if not request.address.startswith(("/fhir/", "/api/")) or ".well-known" in request.address:
        return
    if "$export" in request.address:
        # The manifest is no resource.
        assert content.get("requiresAccessToken") or content["resourceType"], told
        return
    assert content["resourceType"], told
    if content["resourceType"] == "Parameters":
        # What an operation answers is no record, and has no id.
        assert all(one["name"] for one in content["parameter"]), told
        return
    if content["resourceType"] != "Bundle":
        assert content.get("id"), told
        return
    if content["type"] == "document":
        held = [entry["resource"]["resourceType"] for entry in content["entry"]]
        assert held[:2] == ["Composition", "Patient"], told
    elif content["type"] in ("batch-response", "transaction-response"):
        for entry in content.get("entry", ()):
            assert entry["response"]["status"][0] in "234", told
            assert "resource" in entry or entry["response"].keys() > {"status"}, told
    else:
        check_found(content, told)


def check_found(content: dict[str, Any], told: object) -> None:
    """Assert that a Bundle of what was found holds together."""
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
            # An event of the trail has no versions.
            version = resource["meta"].get("versionId")
            assert version or resource["resourceType"] == "AuditEvent", told
            name = (resource["resourceType"], resource["id"], version)
            assert name not in names, told
            names.add(name)


def check_own(request: Request, answer: Answer) -> None:
    """Assert that a patient's token is shown no other patient's resource."""
    is_fhir = answer.header("Content-Type") in (FHIR_JSON, FHIR_XML)
    if answer.status != 200 or not is_fhir or not answer.body:
        return
    content = content_of(answer)
    if content["resourceType"] == "Parameters":
        whose = values_at(content, "parameter.valueReference.reference")
        assert whose == [f"Patient/{PATIENT}"], (request, whose)
        return
    for resource in _resources(content):
        definition = SERVED.get(resource["resourceType"])
        if definition and definition.compartment:
            at = definition.compartment
            held = [resource["id"]] if at == "id" else values_at(resource, f"{at}.reference")
            elements = request.query + request.body
            # `_elements` may leave out whose it is.
            assert held in ([PATIENT], [f"Patient/{PATIENT}"]) or (
                held == [] and (b"_elements" in elements or b"_summary" in elements)
            ), (request, resource)


def _resources(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a resource and, of a Bundle, those within."""
    yield content
    if content["resourceType"] == "Bundle":
        for entry in content.get("entry", ()):
            if "resource" in entry:
                yield from _resources(entry["resource"])


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
        name = f"{operation.path}/".split("/")[2]
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
