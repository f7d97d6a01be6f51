"""decisions §4: every error that a client can meet, each a whole OperationOutcome."""

from __future__ import annotations

import pytest

from tests.support.helpers import FORMATS, NEITHER, Fhir, assert_outcome, token_for

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"
NOT_HERE = "There is no such resource type or operation here."
UNREADABLE_DATE = "is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"
UNREADABLE_TIME = "is not a date; use YYYY, YYYY-MM, YYYY-MM-DD or YYYY-MM-DDThh:mm[:ss]"


@pytest.mark.parametrize(
    ("query", "code", "diagnostics"),
    [
        ("date=yesterday", "value", f"date: 'yesterday' {UNREADABLE_DATE}"),
        ("date=2023-02-01T25:00", "value", f"date: '2023-02-01T25:00' {UNREADABLE_TIME}"),
        ("date=2023-13", "value", f"date: '2023-13' {UNREADABLE_DATE}"),
        ("date=2023-02-30", "value", "date: '2023-02-30' is not a date of the calendar"),
        ("_count=-1", "value", "_count: '-1' is not a whole number of 0 or more"),
        ("_pretty=yes", "value", "_pretty: 'yes' is not a boolean; use true or false"),
        ("_revinclude=Provenance:agent", "value",
         "_revinclude: 'Provenance:agent' is not supported; use Provenance:target"),
        ("_cursor=abc", "value",
         "_cursor: is not one of this server's; start again from the first page"),
        ("patient=Practitioner/p1", "value", "patient: Practitioner is no target; use Patient"),
        ("patient=p%201", "value",
         "patient: is not a reference; use id, Type/id or an address"),
        ("code=a|b|c", "value",
         "code: is not a token; use code, system|code, |code or system|"),
        ("_summary=some", "value",
         "_summary: 'some' is not supported; use true, text, data, count, false"),
        ("identifier:below=x", "not-supported",
         "identifier:below: the modifier is not supported on a token parameter here"),
        ("date:exact=2023", "not-supported",
         "date:exact: the modifier is not supported on a date parameter here"),
        ("patient:Group=x", "not-supported",
         "patient:Group: the modifier is not supported on a reference parameter here"),
        ("_id:text=x", "not-supported",
         "_id:text: the modifier is not supported on a token parameter here"),
        ("_revinclude:iterate=Provenance:target", "not-supported",
         "_revinclude:iterate: the modifier is not supported on this type"),
        ("patient.nonsense=x", "not-supported",
         "patient.nonsense: nonsense cannot be searched of Patient"),
        ("_has:Provenance:agent=x", "not-supported",
         "_has:Provenance:agent: is _has:Type:reference:parameter, in up to 2 steps"),
        ("_filter=x", "not-supported",
         ("_filter: is not supported here; use the parameters of the type: a comma means or, a"
          " repetition and")),
        ("_count=1&_count=2", "invalid", "_count: may be given once"),
        ("_revinclude=Provenance:target&_revinclude=Provenance:target", "invalid",
         "_revinclude: may be given once"),
    ],
)  # fmt: skip
def test_a_parameter_that_cannot_be_used_is_a_400(fhir, query, code, diagnostics):
    parameter = diagnostics.partition(": ")[0]
    assert_outcome(fhir.get(f"{ALLERGY}?{query}"), 400, code, diagnostics, parameter)


def test_an_unknown_parameter_is_a_400_under_strict_handling(fhir):
    assert_outcome(
        fhir.get(f"{ALLERGY}?patient=p1&statuss=active", headers={"Prefer": "handling=strict"}),
        400,
        "not-supported",
        "statuss: is not a search parameter of this type; did you mean status?",
        "statuss",
    )


@pytest.mark.parametrize("name", [ALLERGY, DOCUMENT])
def test_a_search_for_neither_patient_nor_id_is_a_400_under_strict_handling(fhir, name):
    assert_outcome(
        fhir.get(f"{name}?status=active", headers={"Prefer": "handling=strict"}),
        400,
        "required",
        "patient: is required when _id is not given",
        "patient",
    )


def test_more_than_a_hundred_ids_are_a_400(fhir):
    ids = ",".join(f"a{number}" for number in range(101))
    assert_outcome(
        fhir.get(f"{ALLERGY}?_id={ids}"), 400, "value", "_id: lists 101 ids; 100 is the most", "_id"
    )
    assert fhir.ids(f"{ALLERGY}?_id={ids.rpartition(',')[0]}") == []


# Failures are counted by address: the tests of other files use another one.
ELSEWHERE = {"REMOTE_ADDR": "192.0.2.1"}


@pytest.mark.parametrize(
    ("headers", "diagnostics", "challenge"),
    [
        ({}, "An access token is needed: send Authorization: Bearer <token>.", ""),
        (
            {"Authorization": "Basic ZGVtbzpkZW1v"},
            "The Authorization header must be: Bearer <token>.",
            "",
        ),
        ({"Authorization": "Bearer"}, "The Authorization header must be: Bearer <token>.", ""),
        (
            {"Authorization": "Bearer nonsense"},
            "The access token is not valid.",
            ', error="invalid_token"',
        ),
    ],
)
def test_a_request_without_a_valid_token_is_a_401(http, headers, diagnostics, challenge):
    response = http.get(f"/fhir/{ALLERGY}", headers=headers, environ_overrides=ELSEWHERE)
    assert_outcome(response, 401, "login", diagnostics)
    assert response.headers["WWW-Authenticate"] == f'Bearer realm="fhirapp"{challenge}'


def test_an_expired_token_is_a_401_of_its_own(app):
    expired = Fhir(app, token_for(app, "system/*.rs", lifetime=-1))
    response = expired.get(ALLERGY, environ_overrides=ELSEWHERE)
    assert_outcome(response, 401, "expired", "The access token has expired; ask for a new one.")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp", error="invalid_token"'


@pytest.mark.parametrize(
    ("scope", "path", "what", "needed"),
    [
        (f"system/{ALLERGY}.rs", DOCUMENT, f"search of {DOCUMENT}", f"system/{DOCUMENT}.s"),
        (f"system/{ALLERGY}.r", ALLERGY, f"search of {ALLERGY}", f"system/{ALLERGY}.s"),
        (f"system/{ALLERGY}.s", f"{ALLERGY}/al-p1-latex", f"read of {ALLERGY}",
         f"system/{ALLERGY}.r"),
        (f"system/{ALLERGY}.s", f"{ALLERGY}/al-p1-latex/_history/1", f"read of {ALLERGY}",
         f"system/{ALLERGY}.r"),
        (f"system/{ALLERGY}.s", f"{ALLERGY}/al-p1-latex/_history", f"read of {ALLERGY}",
         f"system/{ALLERGY}.r"),
        (f"system/{ALLERGY}.rs", "Binary/bin-p1-hp-2024", "read of Binary", "system/Binary.r"),
        (f"system/{ALLERGY}.rs", "Patient/p1", "read of Patient", "system/Patient.r"),
    ],
)  # fmt: skip
def test_a_scope_that_does_not_reach_is_a_403(app, scope, path, what, needed):
    response = Fhir(app, token_for(app, scope)).get(path)
    assert_outcome(response, 403, "forbidden", f"The token's scope does not cover {what}.")
    assert response.headers["WWW-Authenticate"] == (
        f'Bearer realm="fhirapp", error="insufficient_scope", scope="{needed}"'
    )


def test_a_403_does_not_tell_whether_the_resource_is_there(app):
    fhir = Fhir(app, token_for(app, f"system/{ALLERGY}.rs"))
    answers = [
        fhir.get(f"{DOCUMENT}/{row_id}")
        for row_id in ("doc-p1-scan-2023", "doc-p5-misfiled", "nobody")
    ]
    assert {answer.status_code for answer in answers} == {403}
    assert len({answer.data for answer in answers}) == 1


@pytest.mark.parametrize("value", ["p2", "Patient/p2", "p1,p2", "nobody", "https://a.example/p1"])
def test_another_patient_under_a_patient_token_is_a_403(as_patient, value):
    response = as_patient("p1").get(f"{ALLERGY}?patient={value}")
    assert_outcome(
        response,
        403,
        "forbidden",
        "patient: the token is for one patient, and this is another.",
        "patient",
    )
    assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    "path",
    [
        f"{ALLERGY}/nobody",
        f"{ALLERGY}/nobody/_history",
        f"{ALLERGY}/nobody/_history/1",
        f"{ALLERGY}/al-p1-latex/_history/2",
        f"{ALLERGY}/al-p1-latex/_history/01",
        f"{ALLERGY}/al-p1-latex/_history/latest",
        "Binary/nobody",
        "Provenance/nobody",
    ],
)
def test_an_unknown_id_or_version_is_a_404(fhir, path):
    name = path.removesuffix("/_history")
    assert_outcome(fhir.get(path), 404, "not-found", f"{name} is not known here.")


@pytest.mark.parametrize(
    ("path", "hidden", "unknown"),
    [
        (ALLERGY, "al-p2-mariscos", "nobody"),
        (DOCUMENT, "doc-p2-ed-2023", "nobody"),
        # a deletion is no more to be seen than what was deleted
        (DOCUMENT, "doc-p5-misfiled", "nobody"),
        ("Patient", "p2", "nobody"),
        ("Encounter", "enc-p2-2023-ed", "nobody"),
        ("Provenance", "prov-p2-mariscos", "nobody"),
        ("Binary", "bin-p2-pathology-2023", "nobody"),
    ],
)
def test_what_is_outside_the_tokens_patient_looks_unknown(as_patient, path, hidden, unknown):
    fhir = as_patient("p1")
    tails = [""] if path == "Binary" else ["", "/_history", "/_history/1", "/_history/9"]
    for tail in tails:
        other = fhir.get(f"{path}/{hidden}{tail}")
        nothing = fhir.get(f"{path}/{unknown}{tail}")
        assert other.status_code == nothing.status_code == 404
        assert other.data.replace(hidden.encode(), unknown.encode()) == nothing.data
        assert without_length(other.headers) == without_length(nothing.headers)


def without_length(headers):
    return {name: one for name, one in headers if name not in ("Content-Length", "X-Request-Id")}


@pytest.mark.parametrize(
    "path",
    [
        "Observation",
        "Observation/1",
        # read, not searched
        "Binary",
        "$everything",
        "Patient/$everything",
        "Patient/p1/$export",
        "Patient/p1/Practitioner",
        f"{DOCUMENT}/$meta",
        "Patient/_history",
        f"/api/{DOCUMENT}/doc-p1-scan-2023",
        "/api/Observation",
    ],
)
def test_an_unknown_type_or_operation_is_a_404(fhir, path):
    assert_outcome(fhir.get(path), 404, "not-supported", NOT_HERE)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("", "GET, HEAD, OPTIONS, POST"),
        (ALLERGY, "GET, HEAD, OPTIONS, POST"),
        (f"{ALLERGY}/_search", "GET, HEAD, OPTIONS, POST"),
        (f"{ALLERGY}/al-p1-latex", "GET, HEAD, OPTIONS"),
        (f"{ALLERGY}/al-p1-latex/_history", "GET, HEAD, OPTIONS"),
        ("metadata", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_method_that_writes_is_a_405(fhir, method, path, allowed):
    response = fhir.request(method, path)
    diagnostics = f"{method} is not supported here; this server only reads."
    assert_outcome(response, 405, "not-supported", diagnostics)
    assert response.headers["Allow"] == allowed


@pytest.mark.parametrize("path", [ALLERGY, f"{ALLERGY}/al-p1-latex", "metadata"])
@pytest.mark.parametrize("accept", ["text/turtle", "text/html", "application/json;q=0"])
def test_a_client_that_takes_neither_format_gets_a_406(fhir, path, accept):
    response = fhir.get(path, headers={"Accept": accept})
    assert_outcome(response, 406, "not-supported", NEITHER)


def test_a_format_that_is_neither_is_a_406(fhir):
    message = f"_format: 'ttl' is not supported; use {FORMATS}"
    response = fhir.get(f"{ALLERGY}?_format=ttl")
    assert_outcome(response, 406, "not-supported", message, "_format")


@pytest.mark.parametrize(
    "path",
    [f"{DOCUMENT}/doc-p5-misfiled", f"{DOCUMENT}/doc-p5-misfiled/_history/3",
     f"{ALLERGY}/al-p5-codeine", f"{ALLERGY}/al-p5-codeine/_history/3"],
)  # fmt: skip
def test_what_was_deleted_is_a_410(fhir, path):
    assert_outcome(fhir.get(path), 410, "deleted", f"{path} was deleted.")
