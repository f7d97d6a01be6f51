"""/openapi.json: valid, complete, and true of what the server answers."""

from __future__ import annotations

import gzip
import re

import pytest
from flask import Flask
from openapi_spec_validator import OpenAPIV31SpecValidator
from werkzeug.routing import Rule

from fhirapp.auth.models import CLINICIAN
from fhirapp.definition import Definition
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.contract import (
    DELETED,
    SEARCHABLE,
    TYPES,
    addresses,
    example,
    fill,
    versions_held,
)
from tests.support.helpers import lasting
from tests.support.openapi import Described, path_of_rule
from tests.support.operations import DOCREF, EVERYTHING, FORM, parameters, post

# The roots of what is documented.
ROOTS = ("/fhir", "/api/", "/oauth/", "/health/", "/.well-known/", "/openapi.json")


@pytest.fixture(scope="module")
def described(app: Flask) -> Described:
    return Described(app)


@pytest.fixture(scope="module")
def app(make_app) -> Flask:
    """An app that holds resources of every type, and a deleted one."""
    app = make_app()
    fill(app)
    return app


@pytest.mark.campaign
def test_openapi_document_is_valid(described):
    OpenAPIV31SpecValidator(described.document).validate()


def test_openapi_needs_no_token_and_is_not_sent_again(http):
    response = http.get("/openapi.json")
    assert (response.status_code, response.content_type) == (200, "application/json")
    again = http.get("/openapi.json", headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    head = http.head("/openapi.json")
    assert (head.data, lasting(head)) == (b"", lasting(response))


def test_openapi_is_sent_in_gzip_where_accepted(http):
    plain = http.get("/openapi.json")
    accept = {"Accept-Encoding": "gzip, deflate, br"}
    packed = http.get("/openapi.json", headers=accept)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) < len(plain.data) / 10
    for response in (plain, packed):
        assert "Accept-Encoding" in response.headers["Vary"]
    known = {"If-None-Match": packed.headers["ETag"]}
    for headers in (known, known | accept):
        again = http.get("/openapi.json", headers=headers)
        assert (again.status_code, again.data) == (304, b"")


def is_page(app: Flask, rule: Rule) -> bool:
    """Return whether a rule is of a page, for people, or of what pages look like."""
    blueprint = app.blueprints.get(rule.endpoint.partition(".")[0])
    return blueprint is not None and bool(
        blueprint.template_folder or blueprint.name == "static_files"
    )


def test_every_route_is_described_and_nothing_else(app, described):
    """HEAD is implied by GET, as the document says; OPTIONS is every web server's own.

    A search's address with a slash at its end is the same search's: service.md's own are without.
    """
    routes = {
        (path_of_rule(rule.rule), method.lower())
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith(ROOTS) and not rule.rule.endswith("/") and not is_page(app, rule)
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    listed = {(path, method) for path, one in described.paths.items() for method in one}
    assert listed == routes
    with_head = set()
    for rule in app.url_map.iter_rules():
        if is_page(app, rule):
            continue
        assert rule.rule.startswith(ROOTS), "a root that is new: describe it, or say why not"
        if "HEAD" in (rule.methods or ()):
            with_head.add(path_of_rule(rule.rule))
    assert {path for path, method in listed if method == "get"} <= with_head
    assert "HEAD answers wherever GET does" in described.document["info"]["description"]


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_every_search_parameter_is_described(described, definition):
    for root in ("/fhir", "/api"):
        for tail in ("", "/_search"):
            path = f"{root}/{definition.name}{tail}"
            found = described.parameters(path, "get")
            body = described.resolved(described.paths[path]["post"]["requestBody"])
            form = body["content"][FORM]["schema"]["properties"]
            for parameter in definition.params:
                one = found[parameter.name]
                assert (one["in"], one["required"]) == ("query", False)
                led = r"(; chained to [A-Za-z, ]+)?" if parameter.kind == "reference" else ""
                said = rf"{re.escape(parameter.doc)}{led} \({parameter.kind}\)\."
                assert re.match(said, one["description"])
                assert parameter.spec in one["description"]
                assert one["schema"] == form[parameter.name]


def test_paths_without_a_token_are_described_as_such(described, http):
    for number, (path, methods) in enumerate(described.paths.items()):
        if "get" in methods and "{" not in path:
            # Failures are counted by address.
            peer = {"REMOTE_ADDR": f"192.0.2.{number % 250}"}
            response = http.get(path, environ_overrides=peer)
            is_open = methods["get"].get("security") == []
            assert (response.status_code == 401) != is_open, path
            described.assert_as_described("get", path, response)


FORMATS = ("?_format=xml", "?_format=json", "?_format=ttl")


@pytest.mark.parametrize("definition", TYPES)
def test_the_answers_of_every_type_are_as_described(app, fhir, described, definition: Definition):
    held = versions_held(app)
    row_id = example(definition, held)
    asked = [
        (f"{address}{query}", {"headers": headers})
        for address in addresses(definition, row_id)
        for query in ("", "?_pretty=false", "?_pretty=x", *FORMATS, "?_x=1")
        for headers in ({}, {"If-None-Match": "*"}, {"Prefer": "handling=strict"})
    ]
    asked += [(f"{definition.name}/{other}", {}) for other in ("nobody", "_x", "a%20b", DELETED)]
    asked += [(f"{definition.name}/{row_id}", {"headers": {"Accept": "text/html"}})]
    asked += [(f"{definition.name}/{row_id}?x={'x' * 9000}", {})]
    asked += [(f"{definition.name}/{row_id}", {"headers": {"X": "x" * 40_000}})]
    if definition.searchable:
        asked += [
            (f"{definition.name}?{query}", {}) for query in ("_count=0", "_count=x", "code=,")
        ]
        asked += [(f"/api/{definition.name}/_search", {})]
    seen = set()
    for address, options in asked:
        response = fhir.get(address, **options)
        path = described.path_of(address if address.startswith("/") else f"/fhir/{address}")
        assert path is not None
        described.assert_as_described("get", path, response)
        seen.add(response.status_code)
    assert {200, 304, 400, 404, 406, 414, 431} <= seen


OPERATIONS = [
    (f"/fhir/{DOCREF}", f"{DOCREF}?patient=p1", None, 200),
    (f"/fhir/{DOCREF}", DOCREF, None, 400),
    (f"/fhir/{DOCREF}", DOCREF, parameters(("patient", "valueId", "p1")), 200),
    (f"/fhir/{DOCREF}", DOCREF, parameters(), 400),
    ("/fhir/Patient/{id}/$everything", EVERYTHING, None, 200),
    ("/fhir/Patient/{id}/$everything", EVERYTHING, parameters(), 200),
    ("/fhir/Patient/{id}/$everything", "Patient/nobody/$everything", None, 404),
    ("/fhir/Patient/{id}/$everything", f"Patient/{DELETED}/$everything", None, 410),
    ("/fhir/Patient/{id}/$summary", "Patient/p1/$summary", None, 200),
    ("/fhir/Patient/{id}/$summary", "Patient/nobody/$summary", None, 404),
    ("/fhir/Patient/{id}/$summary", "Patient/p1/$summary?graph=x", None, 400),
    ("/fhir/Patient/$summary", "Patient/$summary?identifier=LGH-100237", None, 200),
    ("/fhir/Patient/$summary", "Patient/$summary?identifier=nobodys", None, 404),
]


def test_the_answers_of_operations_are_as_described(fhir, described):
    for path, address, body, status in OPERATIONS:
        method = "get" if body is None else "post"
        response = fhir.get(address) if body is None else post(fhir, address, body)
        assert response.status_code == status
        described.assert_as_described(method, path, response)


TOKEN_REQUESTS = [
    ({"grant_type": "client_credentials", "scope": "system/*.rs"}, ("demo-backend", "demo"), 200),
    ({"grant_type": "password"}, ("demo-backend", "demo"), 400),
    ({"grant_type": "client_credentials"}, ("demo-backend", "wrong"), 401),
    ({"grant_type": "x" * 2**20}, None, 413),
]  # fmt: skip


def test_the_answers_of_the_token_endpoint_are_as_described(http, described):
    for form, basic, status in TOKEN_REQUESTS:
        elsewhere = {"REMOTE_ADDR": "192.0.2.17"}
        response = http.post("/oauth/token", data=form, auth=basic, environ_overrides=elsewhere)
        assert response.status_code == status
        described.assert_as_described("post", "/oauth/token", response)


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_answers_about_a_user_are_as_described(app, described, method):
    flow = Flow(app, add_program(app), add_person(app, CLINICIAN))
    for scope, status in (("openid", 200), ("user/*.rs", 403), ("", 401)):
        token = flow.tokens(scope)["access_token"] if scope else "nonsense"
        headers = {"Authorization": f"Bearer {token}"}
        response = app.test_client().open("/oauth/userinfo", method=method, headers=headers)
        assert response.status_code == status
        described.assert_as_described(method, "/oauth/userinfo", response)
