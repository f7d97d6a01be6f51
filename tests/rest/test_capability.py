"""/fhir/metadata: the server says what it does, and nothing that it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.definition import types
from tests.support.contract import (
    NOBODYS,
    PARAMETERS_LEFT_OUT,
    SEARCHABLE,
    SERVED,
    current,
    fill,
    versions_held,
)
from tests.support.expected import STRICT
from tests.support.helpers import BASE_URL, FHIR_JSON
from tests.support.operations import post

CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"


@pytest.fixture
def statement(http):
    """The CapabilityStatement, asked for without a token."""
    response = http.get("/fhir/metadata")
    assert response.status_code == 200
    assert response.content_type == FHIR_JSON
    return response.get_json(force=True)


def test_capability_statement_describes_the_server(statement):
    assert statement["resourceType"] == "CapabilityStatement"
    assert statement["status"] == "active"
    assert statement["kind"] == "instance"
    assert statement["fhirVersion"] == "4.0.1"
    assert "application/fhir+json" in statement["format"]
    assert statement["implementation"]["url"] == f"{BASE_URL}/fhir"
    (rest,) = statement["rest"]
    assert rest["mode"] == "server"


def test_capability_statement_names_the_token_endpoint(statement):
    security = statement["rest"][0]["security"]
    (uris,) = security["extension"]
    assert uris["url"] == "http://fhir-registry.smarthealthit.org/StructureDefinition/oauth-uris"
    assert {"url": "token", "valueUri": f"{BASE_URL}/oauth/token"} in uris["extension"]
    assert security["service"][0]["coding"][0]["code"] == "SMART-on-FHIR"


def test_capability_statement_lists_the_types_that_are_served(statement, app):
    listed = [definition["type"] for definition in statement["rest"][0]["resource"]]
    further = ["AuditEvent", "OperationDefinition", "SearchParameter"]
    assert listed == [*sorted(types(app)), *further]


def test_the_profiles_are_those_of_service_md(statement):
    listed = {definition["type"]: definition for definition in statement["rest"][0]["resource"]}
    # decisions 2.13: documentreference first, then the two that service.md names, then US Core 8's
    assert listed["DocumentReference"]["supportedProfile"] == [
        f"{CORE}documentreference",
        f"{CORE}diagnosticreport-note",
        f"{CORE}diagnosticreport-lab",
        f"{CORE}adi-documentreference",
    ]
    assert listed["AllergyIntolerance"]["supportedProfile"] == [f"{CORE}allergyintolerance"]


def test_a_reference_says_where_its_chains_lead(listed):
    said = {
        (name, parameter["name"]): parameter["documentation"]
        for name in ("AllergyIntolerance", "Provenance")
        for parameter in listed[name]["searchParam"]
    }
    patient = "Patient that the entry is about; chained to Patient"
    assert said["AllergyIntolerance", "patient"] == patient
    assert said["AllergyIntolerance", "asserter"].endswith(
        "; chained to Patient, Practitioner, RelatedPerson"
    )
    assert said["Provenance", "entity"].endswith("; chained to any type")
    assert "chained" not in said["AllergyIntolerance", "code"]


# What it says is what the server does: each is asked.

LISTED = [*sorted(SERVED), "OperationDefinition", "SearchParameter"]
INTERACTIONS = {
    "read": "{name}/{id}",
    "vread": "{name}/{id}/_history/1",
    "history-instance": "{name}/{id}/_history",
    "history-type": "{name}/_history",
    "search-type": "{name}",
}
OPERATIONS = {
    "AllergyIntolerance": {"summary": "AllergyIntolerance/$summary?patient=p1"},
    "DocumentReference": {"docref": "DocumentReference/$docref?patient=p1"},
    "Group": {"export": "Group/grp-allergy-clinic/$export"},
    "Patient": {
        "everything": "Patient/p1/$everything",
        "export": "Patient/$export",
        "match": "Patient/$match",
        "summary": "Patient/p1/$summary",
    },
}


@pytest.fixture
def listed(statement) -> Mapping[str, Any]:
    """What is said of each type."""
    return {definition["type"]: definition for definition in statement["rest"][0]["resource"]}


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that has resources of every type, in place of the one that is seeded alone."""
    app = make_app()
    fill(app)
    return app


@pytest.fixture(scope="module")
def examples(app: Flask) -> Mapping[str, str]:
    """The id of a resource of each type."""
    held = versions_held(app)
    found = {name: min(current(definition, held)) for name, definition in SERVED.items()}
    ours = {"OperationDefinition": "AllergyIntolerance-summary"}
    return {**found, **ours, "SearchParameter": "AllergyIntolerance-status"}


def test_an_interaction_is_answered_where_it_is_listed_and_nowhere_else(fhir, listed, examples):
    for interaction in INTERACTIONS:
        for name in LISTED:
            path = INTERACTIONS[interaction].format(name=name, id=examples[name])
            is_listed = {"code": interaction} in listed[name]["interaction"]
            assert fhir.get(path).status_code == (200 if is_listed else 404)


def test_interactions_of_the_whole_server_are_listed_and_answered(fhir, statement):
    for path in ["?_id=p1", "_search?_id=p1", "_history"]:
        rest = statement["rest"][0]
        listed = [interaction["code"] for interaction in rest["interaction"]]
        assert listed == ["batch", "transaction", "search-system", "history-system"]
        assert fhir.get(path).status_code == 200
        for parameter in rest["searchParam"]:
            found = fhir.get("", query_string={parameter["name"]: NOBODYS[parameter["type"]]})
            assert found.get_json(force=True)["total"] == 0


WITH_WORDS = ("AllergyIntolerance", "DocumentReference")


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_of_r4s_parameters_all_are_listed_but_these_which_a_search_refuses(
    fhir, listed, shared, definition
):
    name = definition.name
    known = {parameter["name"] for parameter in listed[name]["searchParam"]}
    words = set() if name in WITH_WORDS else {"_text", "_content"}
    left_out = parameters_of_r4(shared, name, "DomainResource", "Resource") - known
    assert left_out == PARAMETERS_LEFT_OUT | words
    for one in left_out:
        assert fhir.get(f"{name}?{one}=x", headers=STRICT).status_code == 400


def parameters_of_r4(shared: Path, *bases: str) -> set[str]:
    """Return the names of FHIR R4's parameters; of DiagnosticReport's the list has only some."""
    content = json.loads((shared / "data/r4/search-parameters.json").read_text(encoding="utf-8"))
    return {parameter["code"] for parameter in content if {*bases} & {*parameter["base"]}}


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_listed_includes_are_accepted_and_others_refused(fhir, listed, definition):
    name = definition.name
    one = listed[name]
    kinds = {f"{name}:{each['name']}": each["type"] for each in one["searchParam"]}
    expected = {value: 200 if kind == "reference" else 400 for value, kind in kinds.items()}
    asked = {
        value: fhir.get(f"{name}?_id=nobody&_include={value}").status_code
        for value in {*expected, *one.get("searchInclude", ())}
    }
    assert asked == {**expected, **dict.fromkeys(one.get("searchInclude", ()), 200)}
    listed_here = one["searchRevInclude"]
    assert "Provenance:target" in listed_here
    if name in ("AllergyIntolerance", "DocumentReference"):
        # service.md 4.2
        assert listed_here == ["Provenance:target"]
    others = {
        f"{source}:{each['name']}"
        for source, held in listed.items()
        for each in held.get("searchParam", ())
    }
    asked = {
        value: fhir.get(f"{name}?_id=nobody&_revinclude={value}").status_code
        for value in {*others, *listed_here, "*"}
    }
    assert asked == {value: 200 if value in listed_here else 400 for value in asked}


@pytest.mark.parametrize("name", LISTED)
def test_the_operations_are_those_that_are_listed(fhir, listed, examples, name):
    asked = OPERATIONS.get(name, {})
    assert {operation["name"] for operation in listed[name].get("operation", ())} == asked.keys()
    for operation, path in asked.items():
        if operation == "export":
            # It goes on after the answer: asked here so that nothing is begun.
            assert fhir.request("HEAD", path).status_code == 202
            assert fhir.post(path, {"_type": "x"}).status_code == 400
        elif operation == "match":
            sought = {"resourceType": "Patient", "identifier": [{"system": "x", "value": "y"}]}
            assert post(fhir, path, sought).status_code == 200
        else:
            assert fhir.get(path).status_code == fhir.post(path).status_code == 200
    for other in ("docref", "everything", "export", "match", "meta", "summary", "validate"):
        if other not in asked:
            assert fhir.get(f"{name}/${other}").status_code == 404
            assert fhir.get(f"{name}/{examples[name]}/${other}").status_code == 404
