"""decisions §4: every error that a client can meet, each a whole OperationOutcome."""

from __future__ import annotations

from tests.support.helpers import Fhir, assert_outcome, token_for

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"
NOT_HERE = "There is no such resource type or operation here."


def test_unknown_parameter_or_neither_patient_nor_id_is_a_400_under_strict_handling(fhir):
    strict = {"Prefer": "handling=strict"}
    message = "statuss: is not a search parameter of this type; did you mean status?"
    refused = fhir.get(f"{ALLERGY}?patient=p1&statuss=active", headers=strict)
    assert_outcome(refused, 400, "not-supported", message, "statuss")
    message = "patient: is required when _id is not given"
    for name in (ALLERGY, DOCUMENT):
        refused = fhir.get(f"{name}?status=active", headers=strict)
        assert_outcome(refused, 400, "required", message, "patient")


# Failures are counted by address: the tests of other files use another one.
ELSEWHERE = {"REMOTE_ADDR": "192.0.2.1"}


CREDENTIALS = [
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
]


def test_a_request_without_a_valid_token_is_a_401(http):
    for headers, diagnostics, challenge in CREDENTIALS:
        response = http.get(f"/fhir/{ALLERGY}", headers=headers, environ_overrides=ELSEWHERE)
        assert_outcome(response, 401, "login", diagnostics)
        assert response.headers["WWW-Authenticate"] == f'Bearer realm="fhirapp"{challenge}'


def test_an_expired_token_is_a_401_of_its_own(app):
    expired = Fhir(app, token_for(app, "system/*.rs", lifetime=-1))
    response = expired.get(ALLERGY, environ_overrides=ELSEWHERE)
    assert_outcome(response, 401, "expired", "The access token has expired; ask for a new one.")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp", error="invalid_token"'


SCOPES = [
    (f"system/{ALLERGY}.r", ALLERGY, f"search of {ALLERGY}", f"system/{ALLERGY}.s"),
    (f"system/{ALLERGY}.s", f"{ALLERGY}/al-p1-latex", f"read of {ALLERGY}", f"system/{ALLERGY}.r"),
    (f"system/{ALLERGY}.rs", "Binary/bin-p1-hp-2024", "read of Binary", "system/Binary.r"),
]


def test_a_scope_that_does_not_reach_is_a_403(app):
    for scope, path, what, needed in SCOPES:
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


OTHER_PATIENTS = ["p2", "Patient/p2", "p1,p2", "nobody", "https://a.example/p1"]


def test_another_patient_under_a_patient_token_is_a_403(as_patient):
    for value in OTHER_PATIENTS:
        response = as_patient("p1").get(f"{ALLERGY}?patient={value}")
        assert_outcome(
            response,
            403,
            "forbidden",
            "patient: the token is for one patient, and this is another.",
            "patient",
        )
        assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]


UNKNOWN = [
    f"{ALLERGY}/nobody", f"{ALLERGY}/nobody/_history", f"{ALLERGY}/nobody/_history/1",
    f"{ALLERGY}/al-p1-latex/_history/2", f"{ALLERGY}/al-p1-latex/_history/01",
    f"{ALLERGY}/al-p1-latex/_history/latest", "Binary/nobody", "Provenance/nobody",
]  # fmt: skip


def test_an_unknown_id_or_version_is_a_404(fhir):
    for path in UNKNOWN:
        name = path.removesuffix("/_history")
        assert_outcome(fhir.get(path), 404, "not-found", f"{name} is not known here.")


HIDDEN = [
    (ALLERGY, "al-p2-mariscos", "nobody"),
    (DOCUMENT, "doc-p2-ed-2023", "nobody"),
    # a deletion is no more to be seen than what was deleted
    (DOCUMENT, "doc-p5-misfiled", "nobody"),
    ("Patient", "p2", "nobody"),
    ("Encounter", "enc-p2-2023-ed", "nobody"),
    ("Provenance", "prov-p2-mariscos", "nobody"),
    ("Binary", "bin-p2-pathology-2023", "nobody"),
]


def test_resource_of_another_patient_looks_unknown(as_patient):
    for path, hidden, unknown in HIDDEN:
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


NOWHERE = [
    "Observation", "Observation/1",
    # read, not searched
    "Binary", "$everything", "Patient/$everything", "Patient/p1/$export",
    "Patient/p1/Practitioner", f"{DOCUMENT}/$meta", "Patient/_history",
    f"/api/{DOCUMENT}/doc-p1-scan-2023", "/api/Observation",
]  # fmt: skip


def test_an_unknown_type_or_operation_is_a_404(fhir):
    for path in NOWHERE:
        assert_outcome(fhir.get(path), 404, "not-supported", NOT_HERE)


def test_a_method_that_writes_is_a_405(fhir):
    """Addresses of resources: test_contract.py."""
    searched, read = "GET, HEAD, OPTIONS, POST", "GET, HEAD, OPTIONS"
    for path, allowed in (("", searched), (f"{ALLERGY}/_search", searched), ("metadata", read)):
        for method in ("PUT", "PATCH", "DELETE"):
            response = fhir.request(method, path)
            message = f"{method} is not supported here; this server only reads."
            assert_outcome(response, 405, "not-supported", message)
            assert response.headers["Allow"] == allowed
