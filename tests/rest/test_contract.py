"""The contract of contract.py, run for every type that is served."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.definition import Definition, Visibility
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference
from tests.support.contract import (
    DELETED,
    NOBODYS,
    PARAMETERS,
    SEARCHABLE,
    SERVED,
    TYPES,
    WIDER,
    Held,
    addresses,
    answered,
    current,
    example,
    fill,
    owned,
    shown,
    spellings,
    targets,
    versions_held,
)
from tests.support.helpers import BASE_URL, FHIR_JSON, Fhir, assert_outcome, ids, lasting, token_for

# A Binary answers with its bytes unless FHIR JSON is asked for by name.
JSON = {"Accept": FHIR_JSON}
REPORT = "http://hl7.org/fhir/SearchParameter/DiagnosticReport"
GROUP = "http://hl7.org/fhir/SearchParameter/Group"
CONFORMANCE = "http://hl7.org/fhir/SearchParameter/conformance"
TERMINOLOGY = ("CodeSystem", "ConceptMap", "ValueSet")
NOT_HERE = "There is no such resource type or operation here."


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that has resources of every type, in place of the one that is seeded alone."""
    app = make_app()
    fill(app)
    return app


@pytest.fixture(scope="module")
def held(app: Flask) -> Held:
    """All that the app's database holds."""
    return versions_held(app)


@pytest.mark.parametrize("definition", TYPES)
def test_a_read_returns_the_newest_version(fhir, held, definition):
    row_id = example(definition, held)
    versions = held[definition.name][row_id]
    response = fhir.get(f"{definition.name}/{row_id}", headers=JSON)
    assert response.status_code == 200
    assert response.content_type == FHIR_JSON
    resource = response.get_json(force=True)
    assert (resource["resourceType"], resource["id"]) == (definition.name, row_id)
    assert resource["meta"]["versionId"] == str(len(versions))
    assert response.headers["ETag"] == f'W/"{len(versions)}"'
    assert "Last-Modified" in response.headers
    if definition.stores_body:
        assert resource == answered(definition, versions[-1])


@pytest.mark.parametrize("definition", TYPES)
def test_a_vread_returns_each_version(fhir, held, definition):
    row_id = example(definition, held)
    for number, version in enumerate(held[definition.name][row_id], 1):
        response = fhir.get(f"{definition.name}/{row_id}/_history/{number}", headers=JSON)
        if "vread" in definition.interactions:
            assert response.status_code == 200
            assert response.get_json(force=True) == answered(definition, version)
            assert response.headers["ETag"] == f'W/"{number}"'
        else:
            assert_outcome(response, 404, "not-supported", NOT_HERE)


@pytest.mark.parametrize("definition", TYPES)
def test_the_history_lists_the_versions_newest_first(fhir, held, definition):
    row_id = example(definition, held)
    path = f"{definition.name}/{row_id}"
    response = fhir.get(f"{path}/_history")
    if "history-instance" not in definition.interactions:
        assert_outcome(response, 404, "not-supported", NOT_HERE)
        return
    bundle = response.get_json(force=True)
    versions = held[definition.name][row_id]
    assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "history")
    assert bundle["total"] == len(versions)
    assert [entry["resource"] for entry in bundle["entry"]] == [
        answered(definition, version) for version in reversed(versions)
    ]
    assert [entry["response"]["etag"] for entry in bundle["entry"]] == [
        f'W/"{number}"' for number in range(len(versions), 0, -1)
    ]
    for entry in bundle["entry"]:
        assert entry["fullUrl"] == f"{BASE_URL}/fhir/{path}"
        assert entry["request"] == {"method": "PUT", "url": path}


@pytest.mark.parametrize("definition", TYPES)
def test_head_and_conditions_hold_at_every_address(fhir, held, definition):
    for path in addresses(definition, example(definition, held)):
        got = fhir.get(path, headers=JSON)
        head = fhir.request("HEAD", path, headers=JSON)
        assert (head.status_code, head.data) == (200, b"")
        assert lasting(head) == lasting(got)
        etag = got.headers["ETag"]
        assert etag.startswith('W/"')
        known = fhir.get(path, headers={**JSON, "If-None-Match": etag})
        assert (known.status_code, known.data) == (304, b"")
        assert known.headers["ETag"] == etag
        other = fhir.get(path, headers={**JSON, "If-None-Match": 'W/"another"'})
        assert (other.status_code, other.data) == (200, got.data)


@pytest.mark.parametrize("definition", TYPES)
def test_an_unknown_id_or_version_is_not_found(fhir, held, definition):
    name = definition.name
    unknown = [path for path in addresses(definition, "nobody") if path != name]
    if "vread" in definition.interactions:
        unknown.append(f"{name}/{example(definition, held)}/_history/99")
    for path in unknown:
        named = path.removesuffix("/_history")
        response = fhir.get(path, headers=JSON)
        assert_outcome(response, 404, "not-found", f"{named} is not known here.")


@pytest.mark.parametrize(
    "definition", [one for one in TYPES if one.values[0].visibility is not Visibility.CARRIER]
)
def test_what_was_deleted_is_gone_and_keeps_its_history(fhir, held, definition):
    path = f"{definition.name}/{DELETED}"
    assert_outcome(fhir.get(path), 410, "deleted", f"{path} was deleted.")
    deletion = f"{path}/_history/2"
    assert_outcome(fhir.get(deletion), 410, "deleted", f"{deletion} was deleted.")
    newest, first = fhir.read(f"{path}/_history")["entry"]
    assert newest["request"] == {"method": "DELETE", "url": path}
    assert "resource" not in newest
    assert first["resource"] == fhir.read(f"{path}/_history/1")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
@pytest.mark.parametrize("definition", TYPES)
def test_a_method_that_writes_is_refused_with_those_that_do_not(fhir, held, definition, method):
    for path in addresses(definition, example(definition, held)):
        searches = path == definition.name
        if searches and method == "POST":
            continue
        response = fhir.request(method, path)
        diagnostics = f"{method} is not supported here; this server only reads."
        assert_outcome(response, 405, "not-supported", diagnostics)
        allowed = ["GET", "HEAD", "OPTIONS", *(["POST"] if searches else [])]
        assert response.headers["Allow"] == ", ".join(allowed)


@pytest.mark.parametrize("definition", TYPES)
def test_nothing_answers_without_a_token(http, held, definition):
    # Failures are counted by address: each type has its own, so that none uses up another's.
    peer = {"REMOTE_ADDR": f"192.0.2.{list(SERVED).index(definition.name)}"}
    for path in addresses(definition, example(definition, held)):
        response = http.get(f"/fhir/{path}", environ_overrides=peer)
        needed = "An access token is needed: send Authorization: Bearer <token>."
        assert_outcome(response, 401, "login", needed)
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp"'


@pytest.mark.parametrize("definition", TYPES)
def test_scopes_on_every_other_type_do_not_reach_it(app, held, definition):
    name, row_id = definition.name, example(definition, held)
    reaching = {name}
    if definition.visibility is Visibility.CARRIER:
        reaching |= {one.name for one in SERVED.values() if one.attachments}
    if definition.visibility is Visibility.TARGETS:
        reaching |= {target for target, _ in targets(current(definition, held)[row_id])}
    scope = " ".join(f"system/{one}.rs" for one in SERVED if one not in reaching)
    fhir = Fhir(app, token_for(app, scope))
    for path in addresses(definition, row_id):
        response = fhir.get(path, headers=JSON)
        if definition.visibility is Visibility.ANY_SCOPE:
            assert response.status_code == 200
        elif definition.visibility is Visibility.TARGETS and path == name:
            assert row_id not in ids(response.get_json(force=True))
        elif definition.visibility is Visibility.TARGETS:
            unknown = path.removesuffix("/_history")
            assert_outcome(response, 404, "not-found", f"{unknown} is not known here.")
        else:
            wanted = "search" if path == name else "read"
            refusal = f"The token's scope does not cover {wanted} of {name}."
            assert_outcome(response, 403, "forbidden", refusal)
            assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]


@pytest.mark.parametrize("definition", TYPES)
def test_a_scope_without_the_permission_does_not_reach_it(app, held, definition):
    searching, reading = (Fhir(app, token_for(app, f"system/*.{one}")) for one in "sr")
    for path in addresses(definition, example(definition, held)):
        refused, wanted = (reading, "search") if path == definition.name else (searching, "read")
        response = refused.get(path, headers=JSON)
        refusal = f"The token's scope does not cover {wanted} of {definition.name}."
        assert_outcome(response, 403, "forbidden", refusal)


@pytest.mark.parametrize("definition", TYPES)
def test_a_patient_reads_their_own_alone(as_patient, held, definition):
    for patient in held["Patient"]:
        fhir, own = as_patient(patient), owned(held, patient)
        for row_id, versions in held[definition.name].items():
            path = f"{definition.name}/{row_id}"
            there = 410 if versions[-1] is None else 200
            expected = there if (definition.name, row_id) in own else 404
            assert fhir.get(path, headers=JSON).status_code == expected, (patient, path)


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_a_patient_finds_their_own_alone(as_patient, held, definition):
    there = current(definition, held)
    for patient in held["Patient"]:
        own = {row_id for name, row_id in owned(held, patient) if name == definition.name}
        assert set(as_patient(patient).ids(definition.name)) == own & there.keys()


@pytest.mark.parametrize("definition", TYPES)
def test_it_is_listed_in_the_capability_statement(http, definition):
    statement = http.get("/fhir/metadata").get_json(force=True)
    (listed,) = [one for one in statement["rest"][0]["resource"] if one["type"] == definition.name]
    interactions = [*definition.interactions, *(["search-type"] if definition.searchable else [])]
    assert [one["code"] for one in listed["interaction"]] == interactions
    assert listed["documentation"] == definition.doc != ""
    assert listed.get("supportedProfile", []) == list(definition.profiles)
    if not definition.searchable:
        assert "searchParam" not in listed


@pytest.mark.parametrize(("definition", "parameter"), PARAMETERS)
def test_each_parameter_is_listed_as_it_is_declared(http, definition, parameter):
    statement = http.get("/fhir/metadata").get_json(force=True)
    (listed,) = [
        parameters
        for one in statement["rest"][0]["resource"]
        if one["type"] == definition.name
        for parameters in one["searchParam"]
        if parameters["name"] == parameter.name
    ]
    assert listed == {
        "name": parameter.name,
        "definition": parameter.spec or own_definition(http, definition, parameter),
        "type": parameter.kind,
        "documentation": f"{parameter.doc}{chained(parameter)}",
    }
    assert parameter.doc


def chained(parameter: Parameter) -> str:
    """Return what is said of the types that a chain leads to."""
    if not isinstance(parameter, Reference):
        return ""
    carriers = {name for name, one in SERVED.items() if one.visibility is Visibility.CARRIER}
    named = sorted({*parameter.targets} & (SERVED.keys() - carriers))
    told = ", ".join(named) if parameter.targets else "any type"
    return f"; chained to {told}" if told else ""


def own_definition(http, definition: Definition, parameter: Parameter) -> str:
    """Return the address of a definition that this server serves, once it is known to fit."""
    path = f"/fhir/SearchParameter/{definition.name}-{parameter.name}"
    resource = http.get(path).get_json(force=True)
    assert resource["resourceType"] == "SearchParameter"
    assert resource["code"] == parameter.name
    assert resource["base"] == [definition.name]
    assert resource["type"] == parameter.kind
    assert resource["url"] == BASE_URL + path
    return resource["url"]


@cache
def published(shared: Path) -> dict[str, dict[str, Any]]:
    """Return the search parameters of FHIR R4 and US Core by their addresses.

    Some of R4's are told by those of US Core that derive from them.
    """
    found = {}
    with tarfile.open(shared / "data/us-core/us_core_610.tgz") as archive:
        for member in archive:
            if member.name.startswith("package/SearchParameter-"):
                one = json.loads(archive.extractfile(member).read())
                found |= {one["url"]: one, one.get("derivedFrom"): one}
    of_r4 = json.loads((shared / "data/r4/search-parameters.json").read_text())
    # Of those that DiagnosticReport alone has, it has none.
    of_r4 += [
        {"url": f"{REPORT}-{code}", "code": code, "type": kind, "base": ["DiagnosticReport"]}
        for code, kind in (
            ("issued", "date"),
            *((one, "reference") for one in ("based-on", "media", "performer", "result")),
            *((one, "reference") for one in ("results-interpreter", "subject")),
        )
    ]
    # Of Group's, it has none.
    of_r4 += [
        {"url": f"{GROUP}-{code}", "code": code, "type": kind, "base": ["Group"]}
        for code, kind in (
            *((one, "token") for one in ("actual", "characteristic", "code", "exclude")),
            *((one, "token") for one in ("identifier", "type", "value")),
            *((one, "reference") for one in ("managing-entity", "member")),
        )
    ]
    # Of those of terminology, it has none, and not all of RelatedPerson's:
    # https://hl7.org/fhir/R4/valueset.html#search and others.
    of_r4 += [
        {"url": f"{CONFORMANCE}-{code}", "code": code, "type": kind, "base": [*TERMINOLOGY]}
        for kind, codes in (
            (
                "token",
                ("context", "context-type", "identifier", "jurisdiction", "status", "version"),
            ),
            ("string", ("description", "name", "publisher", "title")),
            ("date", ("date",)),
            ("uri", ("url",)),
        )
        for code in codes
    ]
    of_r4 += [
        {
            "url": f"http://hl7.org/fhir/SearchParameter/{name}-{code}",
            "code": code,
            "type": kind,
            "base": [name],
        }
        for name, code, kind in (
            ("CodeSystem", "content-mode", "token"),
            ("CodeSystem", "system", "uri"),
            *(("ConceptMap", one, "uri") for one in ("source-system", "target-system")),
            *(("ValueSet", one, "uri") for one in ("expansion", "reference")),
            *(("RelatedPerson", one, "token") for one in ("active", "identifier", "relationship")),
            ("RelatedPerson", "name", "string"),
            ("RelatedPerson", "patient", "reference"),
        )
    ]
    return found | {one["url"]: one for one in of_r4}


@pytest.mark.parametrize(
    ("definition", "parameter"), [one for one in PARAMETERS if one.values[1].spec]
)
def test_a_parameter_that_names_its_definition_is_that_of_fhir_r4_or_us_core(
    shared, definition, parameter
):
    defined = published(shared)[parameter.spec]
    assert (defined["code"], defined["type"]) == (parameter.name, parameter.kind)
    assert {definition.name, "Resource", "DomainResource"} & set(defined["base"])


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_a_search_without_parameters_finds_all_by_get_and_by_post(fhir, held, definition):
    bundle = fhir.read(definition.name)
    assert set(ids(bundle)) == shown(definition, held).keys()
    assert bundle["total"] == len(bundle["entry"])
    for path in (definition.name, f"{definition.name}/_search", f"/api/{definition.name}"):
        assert fhir.post(path, {}).get_json(force=True) == bundle
        assert fhir.read(path) == bundle


@pytest.mark.parametrize(("definition", "parameter"), PARAMETERS)
def test_a_parameter_finds_what_has_the_value_and_nothing_else(fhir, held, definition, parameter):
    having: dict[str, set[str]] = {}
    for row_id, resource in shown(definition, held).items():
        for value in spellings(parameter, resource):
            having.setdefault(value, set()).add(row_id)
    assert having, "no resource of the seed has a value to search for"
    for value, expected in having.items():
        response = fhir.get(definition.name, query_string={parameter.name: value})
        found = set(ids(response.get_json(force=True)))
        assert found >= expected if parameter.kind in WIDER else found == expected, value


@pytest.mark.parametrize(("definition", "parameter"), PARAMETERS)
def test_a_parameter_finds_nothing_by_a_value_that_nothing_has(fhir, held, definition, parameter):
    values = {NOBODYS[parameter.kind]}
    if parameter.kind == "token":
        # A code that is there, of a system that is not.
        for resource in current(definition, held).values():
            there = spellings(parameter, resource)
            values |= {f"urn:nobodys|{code}" for code in there if "|" not in code}
    for value in values:
        bundle = fhir.get(definition.name, query_string={parameter.name: value}).get_json(True)
        assert bundle["total"] == 0, value
        # At most a warning that no resource can have the value.
        modes = {one["search"]["mode"] for one in bundle.get("entry", ())}
        assert modes <= {"outcome"}
