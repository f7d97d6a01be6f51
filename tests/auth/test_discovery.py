"""Metadata of the authorization server: everything that it advertises works.

SMART App Launch 2.2 conformance §smart-configuration; RFC 8414; OpenID Connect Discovery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient

from fhirapp.auth.models import BASIC, CLINICIAN, NONE, SIGNED
from tests.support.authorizing import Flow, add_backend, add_person, add_program
from tests.support.helpers import BASE_URL, FHIR_JSON, Fhir
from tests.support.id_tokens import DOCTOR, claims_of

SMART = ("/.well-known/smart-configuration", "/fhir/.well-known/smart-configuration")
OPENID = (
    "/.well-known/openid-configuration",
    "/fhir/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server",
)


@pytest.fixture(scope="module")
def records(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


@pytest.fixture(scope="module")
def client(records: Flask) -> FlaskClient:
    return records.test_client()


@pytest.fixture(scope="module")
def claims(client: FlaskClient) -> dict[str, Any]:
    return client.get(SMART[0]).get_json()


@pytest.fixture(scope="module")
def openid(client: FlaskClient) -> dict[str, Any]:
    return client.get(OPENID[0]).get_json()


@pytest.fixture(scope="module")
def flows(records: Flask) -> dict[str, Flow]:
    """Return a clinician with an app of each kind, by how it proves who it is."""
    user_id = add_person(records, CLINICIAN, fhir_user=DOCTOR)
    return {
        method: Flow(records, add_program(records, method), user_id)
        for method in (NONE, BASIC, SIGNED)
    }


@pytest.mark.parametrize("addresses", [SMART, OPENID])
def test_metadata_is_json_at_every_address_without_a_token(client, addresses):
    """SMART: JSON, whatever the Accept header says."""
    content = client.get(addresses[0]).get_json()
    for address in addresses:
        for accept in (None, "application/json", FHIR_JSON, "*/*", "text/html"):
            response = client.get(address, headers={"Accept": accept} if accept else {})
            assert (response.status_code, response.mimetype) == (200, "application/json")
            assert response.get_json() == content
        assert client.head(address).status_code == 200


def test_urls_have_the_host_of_the_request_only_on_loopback(make_app):
    http = make_app(seed=False, base_url=None).test_client()
    for host, base in (
        ("localhost:8123", "http://localhost:8123"),
        ("127.0.0.1", "http://127.0.0.1"),
        # decisions §1: never from the Host of somebody else
        ("evil.example", "http://127.0.0.1:8000"),
    ):
        told = http.get(SMART[0], headers={"Host": host}).get_json()
        assert told["token_endpoint"] == f"{base}/oauth/token"
        assert told["issuer"] == base


def test_every_url_is_absolute_and_served(records, claims, openid):
    served = {rule.rule for rule in records.url_map.iter_rules()}
    for told in (claims, openid):
        assert told["issuer"] == BASE_URL
        for name, value in told.items():
            if name.endswith(("_endpoint", "_uri")):
                assert value.startswith(f"{BASE_URL}/")
                assert urlsplit(value).path in served, name


def test_all_metadata_documents_agree(client, claims, openid):
    common = claims.keys() & openid.keys()
    assert {name: claims[name] for name in common} == {name: openid[name] for name in common}
    assert claims.keys() - common == {"capabilities", "management_endpoint"}
    statement = client.get("/fhir/metadata").get_json(force=True)
    (extension,) = statement["rest"][0]["security"]["extension"]
    urls = {part["url"]: part["valueUri"] for part in extension["extension"]}
    assert urls == {
        "authorize": claims["authorization_endpoint"],
        "token": claims["token_endpoint"],
        "introspect": claims["introspection_endpoint"],
        "revoke": claims["revocation_endpoint"],
    }


def test_issuer_keys_and_claims_are_those_of_the_id_tokens(client, flows, openid):
    answer = flows[NONE].tokens("openid fhirUser profile", nonce="n")
    told = claims_of(flows[NONE], answer)
    assert told["iss"] == openid["issuer"]
    # Every claim that is named is there.
    assert set(openid["claims_supported"]) == told.keys()
    assert openid["id_token_signing_alg_values_supported"] == ["RS256"]
    assert openid["subject_types_supported"] == ["public"]
    assert client.get(urlsplit(openid["jwks_uri"]).path).status_code == 200
    bearer = {"Authorization": f"Bearer {answer['access_token']}"}
    known = client.get(urlsplit(openid["userinfo_endpoint"]).path, headers=bearer).get_json()
    assert known == {name: told[name] for name in known}
    assert known.keys() == {"sub", "fhirUser", "name", "preferred_username"}


def test_registration_endpoint_is_advertised_where_it_is_turned_on(make_app):
    http = make_app(seed=False, dynamic_registration=True).test_client()
    address = f"{BASE_URL}/oauth/register"
    for path in (*SMART, *OPENID):
        assert http.get(path).get_json()["registration_endpoint"] == address
    statement = http.get("/fhir/metadata").get_json(force=True)
    (extension,) = statement["rest"][0]["security"]["extension"]
    assert {"url": "register", "valueUri": address} in extension["extension"]
    assert http.post("/oauth/register").status_code == 400
    assert "/oauth/register" in http.get("/openapi.json").get_json()["paths"]


def test_unsupported_features_are_not_advertised(claims, openid):
    assert openid["request_parameter_supported"] is False
    assert openid["request_uri_parameter_supported"] is False
    for told in (claims, openid):
        assert "registration_endpoint" not in told
        # RFC 9207: single-page apps take iss for an EHR launch.
        assert "authorization_response_iss_parameter_supported" not in told
        assert told["response_types_supported"] == ["code"]
        assert told["response_modes_supported"] == ["query"]
        # SMART: S256 is listed, and plain is not.
        assert told["code_challenge_methods_supported"] == ["S256"]


@pytest.mark.parametrize("context", ["system", "user", "patient", "session"])
def test_every_advertised_scope_is_granted(records, flows, claims, context):
    backend = Flow(records, add_backend(records), flows[NONE].user_id)
    scopes = {"system": [], "user": [], "patient": [], "session": []}
    for scope in claims["scopes_supported"]:
        prefix = scope.partition("/")[0]
        scopes[prefix if prefix in scopes else "session"].append(scope)
    assert scopes[context]
    for scope in scopes[context]:
        if scope.startswith("system/"):
            form = {"grant_type": "client_credentials", "scope": scope}
            answer = backend.ask("/oauth/token", **form).get_json()
        elif scope.startswith("launch"):
            launch = flows[NONE].launch("p1", "enc-p1-2024-ed")
            answer = flows[NONE].tokens(f"{scope} openid", launch=launch)
        else:
            patient = "p1" if scope.startswith("patient/") else None
            answer = flows[NONE].tokens(f"{scope} openid", patient=patient)
        assert scope in answer["scope"].split()


def works(flow: Flow, scope: str, path: str = "AllergyIntolerance", **options: Any) -> bool:
    """Return whether a token has the requested scope and can search."""
    answer = flow.tokens(scope, **options)
    status = Fhir(flow.app, answer["access_token"]).get(path).status_code
    return answer["scope"] == scope and status == 200


def launched(flow: Flow, name: str) -> Any:
    """Return a part of the launch context of an app that our pages started."""
    scope = "launch launch/encounter patient/*.rs"
    return flow.tokens(scope, launch=flow.launch("p1", "e1")).get(name)


def posted(flow: Flow) -> bool:
    """Return whether an authorization request by POST is accepted."""
    form = flow.parameters("user/*.rs")
    return flow.app.test_client().post("/oauth/authorize", data=form).status_code == 303


def styled(flow: Flow) -> bool:
    """Return whether the token answer has the URL of a style."""
    address = flow.tokens("patient/*.rs", patient="p1")["smart_style_url"]
    response = flow.app.test_client().get(urlsplit(address).path)
    return response.status_code == 200 and response.get_json()["color_text"].startswith("#")


def refreshed(flow: Flow, scope: str) -> bool:
    """Return whether a token of this scope can be refreshed."""
    token = flow.tokens(f"user/*.rs {scope}")["refresh_token"]
    return flow.refresh(token).status_code == 200


def chosen(flow: Flow, name: str) -> Any:
    """Return a part of the context that the user chose for an app."""
    scope = "openid launch/patient launch/encounter"
    return flow.tokens(scope, patient="p2", encounter="e2").get(name)


# Each capability that is claimed, and what shows that it works.
WORKS: dict[str, Callable[[dict[str, Flow]], Any]] = {
    "launch-ehr": lambda flows: launched(flows[NONE], "access_token"),
    "launch-standalone": lambda flows: chosen(flows[NONE], "access_token"),
    "authorize-post": lambda flows: posted(flows[NONE]),
    "client-public": lambda flows: works(flows[NONE], "user/*.rs"),
    "client-confidential-symmetric": lambda flows: works(flows[BASIC], "user/*.rs"),
    "client-confidential-asymmetric": lambda flows: works(flows[SIGNED], "user/*.rs"),
    "sso-openid-connect": lambda flows: claims_of(
        flows[NONE], flows[NONE].tokens("openid fhirUser")
    )["fhirUser"].endswith(DOCTOR),
    "context-banner": lambda flows: launched(flows[NONE], "need_patient_banner") is True,
    "context-style": lambda flows: styled(flows[NONE]),
    "context-ehr-patient": lambda flows: launched(flows[NONE], "patient") == "p1",
    "context-ehr-encounter": lambda flows: launched(flows[NONE], "encounter") == "e1",
    "context-standalone-patient": lambda flows: chosen(flows[NONE], "patient") == "p2",
    "context-standalone-encounter": lambda flows: chosen(flows[NONE], "encounter") == "e2",
    "permission-offline": lambda flows: refreshed(flows[NONE], "offline_access"),
    "permission-online": lambda flows: refreshed(flows[NONE], "online_access"),
    "permission-patient": lambda flows: works(flows[NONE], "patient/*.rs", patient="p1"),
    "permission-user": lambda flows: works(flows[NONE], "user/*.rs"),
    "permission-v1": lambda flows: works(flows[NONE], "user/AllergyIntolerance.read"),
    "permission-v2": lambda flows: works(
        flows[NONE], "user/AllergyIntolerance.rs?clinical-status=active"
    ),
}


def test_advertised_capabilities_are_those_that_are_tested(claims):
    assert set(claims["capabilities"]) == WORKS.keys()
    assert len(claims["capabilities"]) == len(WORKS)
    # The scopes and refreshes below use each of these.
    grants = {"authorization_code", "refresh_token", "client_credentials"}
    assert set(claims["grant_types_supported"]) == grants


@pytest.mark.parametrize("show", WORKS.values(), ids=WORKS)
def test_advertised_capability_works(flows, show):
    assert show(flows)


def test_exactly_the_advertised_authentication_methods_work(flows, claims):
    """Which algorithms sign, test_assertion.py shows."""
    used: dict[str, set[str]] = {"token": set(), "introspection": set(), "revocation": set()}
    for method, flow in flows.items():
        issued = flow.tokens("user/*.rs")
        used["token"].add(method)
        token = issued["access_token"]
        if flow.introspect(token).status_code == 200:
            used["introspection"].add(method)
        bearer = {"headers": {"Authorization": f"Bearer {token}"}}
        if flow.introspect(token, proof=bearer).status_code == 200:
            used["introspection"].add("Bearer")
        if flow.revoke(token).status_code == 200:
            used["revocation"].add(method)
    for name, methods in used.items():
        assert set(claims[f"{name}_endpoint_auth_methods_supported"]) == methods
        assert claims[f"{name}_endpoint_auth_signing_alg_values_supported"] == ["RS384", "ES384"]
