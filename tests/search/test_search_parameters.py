"""/fhir/SearchParameter: what defines the parameters that service.md has and FHIR has not.

And the canonical addresses of those that FHIR has.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from fhir.resources.R4B.searchparameter import SearchParameter

from tests.support.helpers import BASE_URL, FHIR_JSON, NEITHER, assert_outcome, lasting

PATHS = ("SearchParameter/AllergyIntolerance-status", "SearchParameter/DocumentReference-code")
# FHIR R4: http://hl7.org/fhir/R4/valueset-search-modifier-code.html
MODIFIERS = {
    *("missing", "exact", "contains", "not", "text", "in", "not-in", "below", "above"),
    *("type", "identifier", "ofType"),
}


@pytest.fixture(params=PATHS)
def definition(request, http) -> dict[str, Any]:
    """A definition, asked for without a token."""
    response = http.get(f"/fhir/{request.param}")
    assert (response.status_code, response.content_type) == (200, FHIR_JSON)
    found: dict[str, Any] = response.get_json(force=True)
    return found


def test_search_parameter_is_a_valid_resource(definition):
    SearchParameter.model_validate(definition)
    # spd-0, which the models do not check: a name that a program can use.
    assert re.fullmatch("[A-Z][A-Za-z0-9_]{0,254}", definition["name"])
    assert set(definition["modifier"]) <= MODIFIERS
    assert definition["url"] == f"{BASE_URL}/fhir/SearchParameter/{definition['id']}"


def test_status_is_either_status(http):
    found = http.get(f"/fhir/{PATHS[0]}").get_json(force=True)
    # decisions 2.9
    assert (found["code"], found["base"], found["type"]) == (
        "status",
        ["AllergyIntolerance"],
        "token",
    )
    assert found["expression"] == (
        "AllergyIntolerance.clinicalStatus | AllergyIntolerance.verificationStatus"
    )
    assert found["modifier"] == ["missing", "not", "text", "in", "not-in", "below"]


def test_code_is_the_type(http):
    found = http.get(f"/fhir/{PATHS[1]}").get_json(force=True)
    # decisions 2.10
    assert (found["code"], found["base"], found["type"]) == ("code", ["DocumentReference"], "token")
    assert found["expression"] == "DocumentReference.type"


def test_search_parameter_is_not_sent_again(http):
    got = http.get(f"/fhir/{PATHS[0]}")
    held = {"If-None-Match": got.headers["ETag"]}
    again = http.get(f"/fhir/{PATHS[0]}", headers=held)
    assert (again.status_code, again.data) == (304, b"")
    head = http.head(f"/fhir/{PATHS[0]}")
    assert (head.data, lasting(head)) == (b"", lasting(got))
    assert b"\n" not in http.get(f"/fhir/{PATHS[0]}?_pretty=false").data


def test_definition_of_fhir_is_not_found(http):
    for row_id in ["nobody", "AllergyIntolerance-code", "AllergyIntolerance"]:
        response = http.get(f"/fhir/SearchParameter/{row_id}")
        assert_outcome(response, 404, "not-found", f"SearchParameter/{row_id} is not known here.")


def test_search_parameter_refuses_other_formats_parameters_and_methods(http):
    path = f"/fhir/{PATHS[0]}"
    refused = http.get(path, headers={"Accept": "text/html"})
    assert_outcome(refused, 406, "not-supported", NEITHER)
    refused = http.get(f"{path}?x=1", headers={"Prefer": "handling=strict"})
    message = "x: is not a parameter here; use _format or _pretty"
    assert_outcome(refused, 400, "not-supported", message, "x")
    message = "DELETE is not supported here; this server only reads."
    assert_outcome(http.delete(path), 405, "not-supported", message)


_R4 = "http://hl7.org/fhir/SearchParameter/"
CANONICALS = [
    ("AllergyIntolerance", "_id", f"{_R4}Resource-id"),
    ("AllergyIntolerance", "_text", f"{_R4}DomainResource-text"),
    ("AllergyIntolerance", "criticality", f"{_R4}AllergyIntolerance-criticality"),
    ("AllergyIntolerance", "date", f"{_R4}clinical-date"),
    ("AllergyIntolerance", "status", f"{BASE_URL}/fhir/SearchParameter/AllergyIntolerance-status"),
    # Of R4's clinical types, DocumentReference alone has a date of its own.
    ("DocumentReference", "date", f"{_R4}DocumentReference-date"),
    ("DocumentReference", "encounter", f"{_R4}clinical-encounter"),
    (
        "Encounter",
        "discharge-disposition",
        "http://hl7.org/fhir/us/core/SearchParameter/us-core-encounter-discharge-disposition",
    ),
    ("Organization", "address-city", f"{_R4}Organization-address-city"),
    ("Practitioner", "address-city", f"{_R4}individual-address-city"),
    ("ValueSet", "expansion", f"{_R4}ValueSet-expansion"),
    ("ValueSet", "url", f"{_R4}conformance-url"),
]


def test_each_parameter_names_the_definition_that_fhir_gives_it(http):
    statement = http.get("/fhir/metadata").get_json(force=True)
    definitions = {
        (resource["type"], parameter["name"]): parameter["definition"]
        for resource in statement["rest"][0]["resource"]
        for parameter in resource.get("searchParam", ())
    }
    found = [(base, name, definitions[base, name]) for base, name, _ in CANONICALS]
    assert found == CANONICALS
