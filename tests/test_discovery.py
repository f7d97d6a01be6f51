"""What /.well-known/smart-configuration claims, claim by claim: it works.

Source: SMART App Launch 2.2 conformance §smart-configuration.
"""

from __future__ import annotations

import base64
import time
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from fhirapp.auth.keys import demo_key
from tests.helpers import BASE_URL, FHIR_JSON

ADDRESSES = ("/.well-known/smart-configuration", "/fhir/.well-known/smart-configuration")
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
SCOPES = ["system/DocumentReference.rs", "system/AllergyIntolerance.rs"]
SCOPES += ["system/*.read", "system/*.rs"]


@pytest.fixture
def claims(http):
    response = http.get(ADDRESSES[0])
    assert response.status_code == 200
    return response.get_json()


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("accept", [None, "application/json", FHIR_JSON, "*/*"])
def test_it_is_the_same_at_both_addresses_and_needs_no_token(http, claims, address, accept):
    """SMART: JSON, whatever the Accept header says."""
    response = http.get(address, headers={"Accept": accept} if accept else {})
    assert (response.status_code, response.mimetype) == (200, "application/json")
    assert response.get_json() == claims
    assert http.head(address).status_code == 200


def test_every_address_is_absolute_and_there_is_no_issuer_without_openid_connect(claims):
    assert "issuer" not in claims
    for name, value in claims.items():
        if name.endswith(("_endpoint", "_uri")):
            assert value.startswith(f"{BASE_URL}/")


def test_addresses_begin_with_the_one_that_the_client_used_on_loopback(make_app):
    http = make_app(seed=False, base_url=None).test_client()
    for host, base in (
        ("localhost:8123", "http://localhost:8123"),
        ("127.0.0.1", "http://127.0.0.1"),
        # decisions §1: never from the Host of somebody else
        ("evil.example", "http://127.0.0.1:8000"),
    ):
        response = http.get(ADDRESSES[0], headers={"Host": host})
        assert response.get_json()["token_endpoint"] == f"{base}/oauth/token"


def ask(http, claims, headers=None, **form):
    """Ask the token endpoint that is claimed, with the grant that is claimed."""
    (grant,) = claims["grant_types_supported"]
    path = urlsplit(claims["token_endpoint"]).path
    return http.post(path, data={"grant_type": grant, **form}, headers=headers)


def basic():
    secret = base64.b64encode(b"demo-backend:demo").decode()
    return {"Authorization": f"Basic {secret}"}


def test_every_claimed_scope_is_granted_and_serves(http, claims):
    assert claims["scopes_supported"] == SCOPES
    for scope in claims["scopes_supported"]:
        answer = ask(http, claims, basic(), scope=scope)
        assert (answer.status_code, answer.get_json()["scope"]) == (200, scope)
        name = scope.partition("/")[2].partition(".")[0].replace("*", "AllergyIntolerance")
        bearer = {"Authorization": f"Bearer {answer.get_json()['access_token']}"}
        assert http.get(f"/fhir/{name}", headers=bearer).status_code == 200


@pytest.fixture
def signed(app):
    """Return a maker of assertions that the demo client signs."""
    key = ECKey.import_key(demo_key(Path(app.config["FHIRAPP"].instance)))

    def make(claims):
        content = {
            "iss": "demo-backend",
            "sub": "demo-backend",
            "aud": claims["token_endpoint"],
            "exp": int(time.time()) + 200,
            "jti": uuid4().hex,
        }
        return jwt.encode({"alg": "ES384", "kid": key.kid}, content, key, algorithms=["ES384"])

    return make


def test_every_claimed_way_to_authenticate_works(http, claims, signed):
    ways = {
        "client_secret_basic": lambda: ask(http, claims, basic(), scope="system/*.rs"),
        "private_key_jwt": lambda: ask(
            http,
            claims,
            scope="system/*.rs",
            client_assertion_type=ASSERTION,
            client_assertion=signed(claims),
        ),
    }
    assert set(claims["token_endpoint_auth_methods_supported"]) == ways.keys()
    for way in ways.values():
        assert way().status_code == 200
    assert "client-confidential-asymmetric" in claims["capabilities"]
    assert "ES384" in claims["token_endpoint_auth_signing_alg_values_supported"]
    assert "RS384" in claims["token_endpoint_auth_signing_alg_values_supported"]


@pytest.mark.parametrize(
    ("capability", "scope"),
    [("permission-v1", "system/DocumentReference.read"), ("permission-v2", "system/*.r")],
)
def test_scopes_of_both_versions_are_understood_as_claimed(http, claims, capability, scope):
    assert capability in claims["capabilities"]
    assert ask(http, claims, basic(), scope=scope).get_json()["scope"] == scope


def test_nothing_is_claimed_that_is_not_there(http, claims):
    """decisions §1 names more addresses; until they answer they are not claimed."""
    served = {rule.rule for rule in http.application.url_map.iter_rules()}
    for name, value in claims.items():
        if name.endswith(("_endpoint", "_uri")):
            assert urlsplit(value).path in served
    launches = {one for one in claims["capabilities"] if one.startswith(("launch-", "sso-"))}
    assert not launches or "authorization_endpoint" in claims
    # SMART: S256 is listed, and plain is not.
    assert claims["code_challenge_methods_supported"] == ["S256"]
