"""/fhir/metadata: the server says what it does, and nothing that it does not."""

from __future__ import annotations

import pytest

from fhirapp.store.definition import types
from tests.helpers import BASE_URL, FHIR_JSON

CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"


@pytest.fixture
def statement(http):
    """The CapabilityStatement, asked for without a token."""
    response = http.get("/fhir/metadata")
    assert response.status_code == 200
    assert response.content_type == FHIR_JSON
    return response.get_json(force=True)


def test_it_tells_of_the_server(statement):
    assert statement["resourceType"] == "CapabilityStatement"
    assert statement["status"] == "active"
    assert statement["kind"] == "instance"
    assert statement["fhirVersion"] == "4.0.1"
    assert "application/fhir+json" in statement["format"]
    assert statement["implementation"]["url"] == f"{BASE_URL}/fhir"
    (rest,) = statement["rest"]
    assert rest["mode"] == "server"


def test_it_tells_where_tokens_come_from(statement):
    security = statement["rest"][0]["security"]
    (uris,) = security["extension"]
    assert uris["url"] == "http://fhir-registry.smarthealthit.org/StructureDefinition/oauth-uris"
    assert {"url": "token", "valueUri": f"{BASE_URL}/oauth/token"} in uris["extension"]
    assert security["service"][0]["coding"][0]["code"] == "SMART-on-FHIR"


def test_it_lists_the_types_that_are_served(statement, app):
    listed = [one["type"] for one in statement["rest"][0]["resource"]]
    assert sorted(listed) == sorted(types(app))


@pytest.mark.parametrize("name", ["DocumentReference", "AllergyIntolerance"])
def test_both_types_of_service_md_can_do_its_four_operations(statement, name):
    listed = {one["type"]: one for one in statement["rest"][0]["resource"]}
    interactions = [one["code"] for one in listed[name]["interaction"]]
    assert sorted(interactions) == ["history-instance", "read", "search-type", "vread"]
    assert listed[name]["searchRevInclude"] == ["Provenance:target"]


def test_the_profiles_are_those_of_service_md(statement):
    listed = {one["type"]: one for one in statement["rest"][0]["resource"]}
    # decisions 2.13: documentreference first, then the two that service.md names
    assert listed["DocumentReference"]["supportedProfile"] == [
        f"{CORE}documentreference",
        f"{CORE}diagnosticreport-note",
        f"{CORE}diagnosticreport-lab",
    ]
    assert listed["AllergyIntolerance"]["supportedProfile"] == [f"{CORE}allergyintolerance"]


def test_no_document_claims_a_profile_of_diagnostic_report(fhir):
    claimed = {
        profile
        for entry in fhir.read("DocumentReference")["entry"]
        for profile in entry["resource"]["meta"].get("profile", ())
    }
    assert claimed == {f"{CORE}documentreference"}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("DocumentReference", {"_id", "date", "category", "code", "type", "patient", "subject"}),
        ("AllergyIntolerance", {"_id", "patient", "date", "status", "clinical-status"}),
    ],
)
def test_the_parameters_of_service_md_are_listed(statement, name, parameters):
    listed = {one["type"]: one for one in statement["rest"][0]["resource"]}
    found = {one["name"]: one for one in listed[name]["searchParam"]}
    assert parameters <= found.keys()
    for one in found.values():
        assert one["type"] in ("token", "date", "reference", "string", "uri", "composite")
        assert one["documentation"]


def test_it_is_not_sent_again(http):
    etag = http.get("/fhir/metadata").headers["ETag"]
    assert http.get("/fhir/metadata", headers={"If-None-Match": etag}).status_code == 304
