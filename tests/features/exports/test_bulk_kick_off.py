"""`$export` kick-off (Bulk Data Access 2.0): parameters and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.bulk import ASYNC, Exports, path_of
from tests.support.helpers import BASE_URL, FHIR_JSON, FHIR_XML, assert_outcome
from tests.support.operations import parameters

LEVELS = ("$export", "Patient/$export", "Group/grp-allergy-clinic/$export")
STRICT = {"Prefer": "respond-async, handling=strict"}
LENIENT = {"Prefer": "respond-async, handling=lenient"}
ASSOCIATED = "is not supported here: Provenance is exported where it is among the types"
NO_QUERY = "is not a query; use Type?parameter=value"


@pytest.fixture
def exports(app):
    """A client with an allowance of its own."""
    return Exports(app)


def outcomes(exports: Exports, path: str, **headers: str) -> list[tuple[str, str]]:
    """Return the issues in the error file of an export, as (severity, diagnostics)."""
    manifest = exports.done(path, **headers)
    return [
        (issue["severity"], issue["diagnostics"])
        for outcome in exports.lines(manifest, "error")
        for issue in outcome["issue"]
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_kick_off_status_and_manifest_of_an_export(exports, level):
    response = exports.kick_off(level)
    assert (response.status_code, response.content_type) == (202, FHIR_JSON)
    assert response.get_json(force=True)["issue"][0]["severity"] == "information"
    assert response.headers["Content-Location"].startswith(f"{BASE_URL}/fhir/$export/")
    status = path_of(response.headers["Content-Location"])
    going_on = exports.get(status)
    assert (going_on.status_code, going_on.data) == (202, b"")
    assert going_on.headers["X-Progress"] == "0% complete"
    assert going_on.headers["Retry-After"] == "2"
    assert exports.work()
    done = exports.get(status, headers={"Accept": "application/json"})
    assert (done.status_code, done.content_type) == (200, "application/json")
    assert "Expires" in done.headers
    manifest = done.get_json()
    assert manifest["request"] == f"{BASE_URL}/fhir/{level}"
    assert manifest["requiresAccessToken"] is True
    assert manifest["transactionTime"].endswith("+00:00")
    assert manifest["output"]
    assert manifest["deleted"] == manifest["error"] == []
    for file in manifest["output"]:
        assert file["url"].startswith(f"{response.headers['Content-Location']}/{file['type']}.")
    assert not exports.work()
    assert exports.kept() == 1


@pytest.mark.parametrize("level", LEVELS)
def test_post_has_parameters_in_a_resource(exports, level):
    body = parameters(
        ("_type", "valueString", "AllergyIntolerance"),
        ("_type", "valueCode", "Patient"),
        ("_outputFormat", "valueString", "ndjson"),
        ("_since", "valueInstant", "2020-01-01T00:00:00Z"),
        ("_typeFilter", "valueString", "AllergyIntolerance?clinical-status=active"),
    )
    by_post = exports.done(level, body)
    by_get = exports.done(
        f"{level}?_type=AllergyIntolerance,Patient&_outputFormat=ndjson&_since=2020-01-01T00:00:00Z"
        "&_typeFilter=AllergyIntolerance%3Fclinical-status%3Dactive"
    )
    assert by_post["request"] == f"{BASE_URL}/fhir/{level}"
    assert exports.lines(by_post) == exports.lines(by_get) != []


def test_post_accepts_an_empty_body_and_a_form(exports):
    everything = exports.post("$export", headers=ASYNC)
    form = exports.post("$export", {"_type": "Patient"}, headers=ASYNC)
    assert (everything.status_code, form.status_code) == (202, 202)


@pytest.mark.parametrize("written", ["application/fhir+ndjson", "application/ndjson", "ndjson"])
def test_ndjson_has_three_names(exports, written):
    # The plus sign as it is, and escaped.
    assert exports.kick_off(f"$export?_outputFormat={written}").status_code == 202
    response = exports.kick_off(f"$export?_outputFormat={written.replace('+', '%2B')}")
    assert response.status_code == 202


def test_invalid_kick_off_is_refused_at_once(exports, subtests):
    for query, code, parameter, diagnostics in [
        ("_outputFormat=csv", "value", "_outputFormat",
         "'csv' is not supported; use application/fhir+ndjson"),
        ("_outputFormat=ndjson&_outputFormat=ndjson", "invalid", "_outputFormat",
         "may be given once"),
        ("_type=Nonsense", "value", "_type", "'Nonsense' is not served here"),
        ("_type=Patient,patient", "value", "_type", "'patient' is not served here"),
        ("_type=,", "value", "_type", "lists no value"),
        ("_type=Binary", "value", "_type",
         "'Binary' is not exported by itself: attachments stand in documents, or at their url"),
        ("_since=yesterday", "value", "_since",
         "'yesterday' is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"),
        ("_since=2024-13-01T00:00:00Z", "value", "_since",
         "'2024-13-01T00:00:00Z' is not a date of the calendar"),
        ("_since=9000", "value", "_since",
         "lies in the future; use the transactionTime of an export"),
        ("_since=2024&_since=2025", "invalid", "_since", "may be given once"),
        ("_until=2024&_since=2024", "value", "_until", "must be later than _since"),
        ("_elements=Patient.nonsense", "value", "_elements",
         "'Patient.nonsense' is not an element of what is exported"),
        ("_elements=Nonsense.id", "value", "_elements",
         "'Nonsense.id' is not an element of what is exported"),
        ("_elements=Patient.name.family", "value", "_elements",
         "'Patient.name.family' is not an element of what is exported"),
        ("_elements=,", "value", "_elements", "lists no value"),
        ("_elements=" + ",".join(f"e{n}" for n in range(51)), "value", "_elements",
         "lists more than 50; that is the most"),
        ("_typeFilter=x", "value", "_typeFilter", f"'x' {NO_QUERY}"),
        ("_typeFilter=Patient?", "value", "_typeFilter", f"'Patient?' {NO_QUERY}"),
        ("_typeFilter=,", "value", "_typeFilter", f"',' {NO_QUERY}"),
        ("_typeFilter=Nonsense?a=b", "value", "_typeFilter",
         "Nonsense is not among the types that are exported"),
        ("_type=Patient&_typeFilter=Encounter?status=planned", "value", "_typeFilter",
         "Encounter is not among the types that are exported"),
        ("_typeFilter=Patient?nam=x", "value", "_typeFilter",
         "Patient: nam: is not a search parameter of this type; did you mean name?"),
        ("_typeFilter=Patient?name", "value", "_typeFilter",
         "Patient: name: has no value and was ignored"),
        ("_typeFilter=Patient?name=", "value", "_typeFilter",
         "Patient: name: has no value and was ignored"),
        ("_typeFilter=Patient?birthdate=x", "value", "_typeFilter",
         "Patient: birthdate: 'x' is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"),
        ("_typeFilter=Patient?_has:Encounter:patient:status=x", "value", "_typeFilter",
         "Patient: _has:Encounter:patient:status: is not supported here"),
        ("_typeFilter=" + ",".join(["Patient?name=a"] * 31), "value", "_typeFilter",
         "lists more than 30 queries; that is the most"),
        ("_typeFilter=Patient?name=%2500", "value", "_typeFilter",
         "Patient: name: has a NUL character"),
        ("_since=%00", "value", "_since", "has a NUL character"),
        ("patient=Patient/p1", "value", "patient",
         "is taken by POST alone, in a Parameters resource"),
    ]:  # fmt: skip
        with subtests.test(query=query):
            response = exports.kick_off(f"$export?{query}")
            assert_outcome(response, 400, code, f"{parameter}: {diagnostics}", parameter)
            assert "Content-Location" not in response.headers
            assert exports.kept() == 0


def test_query_that_shapes_an_answer_is_refused(exports, subtests):
    for name in [
        *("_sort", "_count", "_include", "_revinclude", "_summary", "_elements", "_total"),
        *("_format", "_pretty", "_cursor", "_explain"),
    ]:
        with subtests.test(name=name):
            values = {"_revinclude": "Provenance:target", "_summary": "true", "_total": "none"}
            value = values.get(name, "false" if name in ("_pretty", "_explain") else "1")
            response = exports.kick_off(
                f"$export?_typeFilter=AllergyIntolerance?code=x%26{name}={value}"
            )
            reason = f"AllergyIntolerance: {name}: shapes an answer, and selects nothing"
            assert_outcome(response, 400, "value", f"_typeFilter: {reason}", "_typeFilter")


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("name", ["Organization", "Practitioner", "Group"])
def test_type_in_no_compartment_is_only_in_a_system_export(exports, level, name):
    reason = "is in no patient's compartment; a system export has it, and a patient one has not"
    response = exports.kick_off(f"{level}?_type={name},Patient")
    assert_outcome(response, 400, "value", f"_type: '{name}' {reason}", "_type")
    warned = [("warning", f"_type: '{name}' {reason}; it was ignored")]
    assert outcomes(exports, f"{level}?_type={name},Patient", **LENIENT) == warned
    nothing = exports.kick_off(f"{level}?_type={name}", **LENIENT)
    diagnostics = "_type: names no type that can be exported here"
    assert_outcome(nothing, 400, "value", diagnostics, "_type")


def test_unknown_parameter_is_a_warning_and_refused_under_strict_handling(exports):
    told = [
        ("warning", "nonsense: is not a parameter of $export; it was ignored"),
        ("warning", f"includeAssociatedData: {ASSOCIATED}; it was ignored"),
    ]
    query = "nonsense=1&includeAssociatedData=LatestProvenanceResources"
    assert outcomes(exports, f"$export?{query}&nonsense=2") == told
    assert outcomes(exports, f"Patient/$export?{query}", **LENIENT) == told
    refused = exports.kick_off("$export?nonsense=1", **STRICT)
    diagnostics = "nonsense: is not a parameter of $export"
    assert_outcome(refused, 400, "not-supported", diagnostics, "nonsense")
    refused = exports.kick_off("$export?includeAssociatedData=x", **STRICT)
    assert refused.status_code == 400


def test_unknown_values_are_ignored_with_a_warning_under_lenient_handling(exports):
    path = "$export?_type=Patient,Observation&_elements=gender,nonsense"
    assert outcomes(exports, path, **LENIENT) == [
        ("warning", "_type: 'Observation' is not served here; it was ignored"),
        ("warning", "_elements: 'nonsense' is not an element of what is exported; it was ignored"),
    ]


def test_respond_async_is_required_under_strict_handling(exports):
    assert exports.get("$export").status_code == 202
    assert exports.kick_off(Prefer="respond-async; handling=strict").status_code == 202
    refused = exports.get("$export", headers={"Prefer": "handling=strict"})
    diagnostics = "Prefer: must be respond-async: an export runs in the background"
    assert_outcome(refused, 400, "required", diagnostics, "Prefer")


def test_client_must_take_fhir(exports):
    assert exports.kick_off(Accept="text/html").status_code == 406
    assert exports.kick_off("$export?_format=ttl").status_code == 406
    for path, accept, media in (
        ("$export?_format=json", "application/fhir+xml", FHIR_JSON),
        ("$export", "application/fhir+xml, */*;q=0.5", FHIR_XML),
    ):
        answer = exports.get(path, headers={"Accept": accept})
        assert (answer.status_code, answer.content_type) == (202, media)


def test_head_validates_a_kick_off_and_starts_nothing(exports):
    response = exports.request("HEAD", "$export")
    assert (response.status_code, response.data) == (202, b"")
    assert "Content-Location" not in response.headers
    assert exports.request("HEAD", "$export?_type=x").status_code == 400
    assert exports.kept() == 0


def listing(member: bytes) -> bytes:
    """Return a Parameters resource with one member."""
    return b'{"resourceType": "Parameters", "parameter": [%s]}' % member


def test_invalid_body_is_refused(exports, subtests):
    for body, diagnostics in [
        (b"{", "request: the body is not JSON"),
        (b"[]", "request: the body is not a Parameters resource"),
        (b'{"resourceType": "Patient"}', "request: the body is not a Parameters resource"),
        (b'{"resourceType": "Parameters", "parameter": {}}',
         "request: the member parameter must be a list of objects"),
        (b'{"resourceType": "Parameters", "parameter": [1]}',
         "request: the member parameter must be a list of objects"),
        (listing(b'{"name": "_type"}'),
         "request: each member of parameter has a name and one value[x]"),
        (listing(b'{"name": "_type", "valueInteger": 1}'),
         "_type: has a valueInteger that is not understood"),
        (listing(b'{"name": "_type", "valueString": "\\ud800"}'),
         "_type: has a valueString that is not understood"),
        (listing(b'{"name": "patient", "valueReference": {}}'),
         "patient: has a valueReference that is not understood"),
        (json.dumps({"resourceType": "Parameters", "parameter": [{}] * 10_001}).encode(),
         "request: has more than 10000 parameters; that is the most"),
        (json.dumps({"resourceType": "Parameters", "parameter": [{"name": "_type", "valueString":
         "x" * 20_001}]}).encode(), "_type: is longer than 20000 characters"),
    ]:  # fmt: skip
        with subtests.test(body=body):
            response = exports.post("$export", body, content_type=FHIR_JSON, headers=ASYNC)
            assert_outcome(response, 400, "value", diagnostics, diagnostics.partition(":")[0])


def test_body_of_another_kind_is_refused(exports):
    response = exports.post("$export", b"x", content_type="text/plain", headers=ASYNC)
    assert response.status_code == 415


def test_unknown_export_address_is_not_found(exports, subtests):
    for path, status in [
        ("Group/nobody/$export", 404),
        ("Group/a_b/$export", 404),
        ("Group/$x/$export", 404),
        ("Encounter/$export", 404),
        ("Patient/p1/$export", 404),
        ("$exports", 404),
        ("$export/", 404),
        ("$export/nobody/x/y", 404),
    ]:
        with subtests.test(path=path):
            response = exports.kick_off(path)
            assert (response.status_code, response.content_type) == (status, FHIR_JSON)


def test_without_a_token_it_is_asked_for(http):
    elsewhere = {"REMOTE_ADDR": "192.0.2.40"}
    for path in (*LEVELS, "$export/x", "$export/x/y"):
        response = http.get(f"/fhir/{path}", environ_overrides=elsewhere)
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_capability_statement_lists_the_three_levels(http):
    statement = http.get("/fhir/metadata").get_json(force=True)
    guide = "http://hl7.org/fhir/uv/bulkdata/"
    assert f"{guide}CapabilityStatement/bulk-data" in statement["instantiates"]
    (rest,) = statement["rest"]
    listed: dict[str, Any] = {description["type"]: description for description in rest["resource"]}
    told = [
        (operation["name"], operation["definition"].removeprefix(f"{guide}OperationDefinition/"))
        for holder in (rest, listed["Patient"], listed["Group"])
        for operation in holder["operation"]
        if operation["name"] == "export"
    ]
    assert told == [("export", "export"), ("export", "patient-export"), ("export", "group-export")]
