"""Programs that nobody here wrote have a user allow them access, or get it for themselves: SMART's
fhirclient for Python, openid-client, Authlib. What they send their user through is tests/forms.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session
from fhirclient.client import FHIRClient
from fhirclient.models.allergyintolerance import AllergyIntolerance

from tests.support.forms import allow
from tests.support.registered import (
    ES384,
    KINDS,
    PUBLIC,
    RS384,
    SECRET,
    Registered,
    register_app,
    register_backend,
)

if TYPE_CHECKING:
    from tests.support.live import Demo

pytest_plugins = ["tests.support.live"]

# Nothing listens there: programs read the code from the address.
CALLBACK = "http://127.0.0.1:9/callback"
OFFLINE = "offline_access"
SCOPE = f"launch/patient openid fhirUser patient/*.rs {OFFLINE}"


@pytest.fixture(scope="module")
def apps(demo: Demo) -> dict[str, Registered]:
    """An app of each kind."""
    return {kind: register_app(demo, kind, CALLBACK) for kind in KINDS}


@pytest.mark.parametrize("kind", [PUBLIC, SECRET])
def test_fhirclient_has_a_user_allow_it_and_reads_again_later(demo, apps, kind):
    app = apps[kind]
    settings = {
        "app_id": app.client_id,
        "app_secret": app.secret,
        "api_base": demo.fhir,
        "redirect_uri": CALLBACK,
        "scope": f"openid patient/*.read {OFFLINE}",
    }
    kept: list[dict[str, Any]] = []
    begun = FHIRClient(settings, save_func=kept.append)
    begun.prepare()
    at = allow(begun.authorize_url, "clinician", OFFLINE, patient="p1")
    # An app on a server answers each request anew.
    client = FHIRClient(state=kept[-1], save_func=kept.append)
    client.handle_callback(at)
    assert client.patient.id == "p1"
    assert client.launch_context["scope"] == f"launch/patient openid patient/*.read {OFFLINE}"
    assert client.reauthorize()
    assert client.launch_context["patient"] == "p1"
    asked = AllergyIntolerance.where({"patient": "p1"})
    assert len(list(asked.perform_resources_iter(client.server))) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_openid_client_finds_nothing_wrong_with_an_authorization(demo, apps, node, kind):
    app = apps[kind]._asdict()
    given = {"url": demo.url, "client": app, "redirect_uri": CALLBACK, "scope": SCOPE}
    begun = node("openid-client.mjs", given)
    at = allow(begun["address"], "clinician", OFFLINE, patient="p1")
    done = node("openid-client.mjs", {**given, "begun": begun["begun"], "at": at})
    assert done["answer"]["scope"] == done["refreshed"]["scope"] == SCOPE
    assert done["claims"]["fhirUser"] == f"{demo.fhir}/Practitioner/dr-adeyemi"
    assert done["known"] == {name: done["claims"][name] for name in ("sub", "fhirUser")}
    if kind != PUBLIC:
        for name in ("iss", "sub"):
            assert done["before"][name] == done["claims"][name]
        assert (done["before"]["patient"], done["before"]["scope"]) == ("p1", SCOPE)
        assert done["after"] == {"active": False}


@pytest.mark.parametrize("algorithm", [RS384, ES384])
def test_openid_client_signs_for_a_backend(demo, node, algorithm):
    backend = register_backend(demo, algorithm)
    given = {"url": demo.url, "client": backend._asdict(), "scope": "system/*.rs"}
    done = node("openid-client.mjs", given)
    assert done["answer"]["expires_in"] == 300
    assert done["before"]["active"] is True
    assert done["before"]["client_id"] == backend.client_id
    assert done["after"] == {"active": False}


# Not one that signs: its assertions live an hour, or serve again, which SMART allows neither.
@pytest.mark.parametrize("kind", [PUBLIC, SECRET])
def test_authlib_refreshes_introspects_and_revokes(demo, apps, kind):
    app = apps[kind]
    method = "none" if kind == PUBLIC else "client_secret_basic"
    client = OAuth2Session(
        app.client_id,
        app.secret,
        scope=SCOPE,
        redirect_uri=CALLBACK,
        token_endpoint_auth_method=method,
        revocation_endpoint_auth_method=method,
        code_challenge_method="S256",
    )
    token_url, patient = f"{demo.url}/oauth/token", f"{demo.fhir}/Patient/p1"
    verifier = generate_token(48)
    address, _ = client.create_authorization_url(
        f"{demo.url}/oauth/authorize", aud=demo.fhir, code_verifier=verifier
    )
    at = allow(address, "patient", OFFLINE)
    first = client.fetch_token(token_url, authorization_response=at, code_verifier=verifier)
    assert (first["patient"], first["scope"]) == ("p1", SCOPE)
    assert client.get(patient).json()["id"] == "p1"
    second = client.refresh_token(token_url)
    assert second["access_token"] != first["access_token"]
    assert client.get(patient).json()["id"] == "p1"
    if kind == SECRET:
        known = client.introspect_token(f"{demo.url}/oauth/introspect").json()
        assert (known["active"], known["patient"]) == (True, "p1")
    revoked = client.revoke_token(f"{demo.url}/oauth/revoke", token=second["refresh_token"])
    assert revoked.status_code == 200
    assert client.get(patient).status_code == 401
