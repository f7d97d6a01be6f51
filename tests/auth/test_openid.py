"""The id token that comes with a code: whom it names, who signed it, for whom.

OpenID Connect Core §2, §3.1.3.6; SMART App Launch 2.2 §Scopes for requesting identity data.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

import pytest
from flask import Flask
from joserfc import jwt
from joserfc.jwk import KeySet
from sqlalchemy import update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Session
from tests.support.authorizing import Flow, add_person, add_program, alter
from tests.support.helpers import BASE_URL

DOCTOR = "Practitioner/dr-adeyemi"


@pytest.fixture
def flow(oauth: Flask) -> Flow:
    """Return a clinician with a public app."""
    return Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN, fhir_user=DOCTOR))


def header_of(id_token: str) -> dict[str, Any]:
    """Return the header of a compact JWS."""
    part = id_token.partition(".")[0]
    header: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return header


def claims_of(flow: Flow, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the claims of an answer's id token, checked as a client does it: by jwks.json."""
    published = flow.app.test_client().get("/oauth/jwks.json").get_json()
    keys = KeySet.import_key_set(published)
    return dict(jwt.decode(answer["id_token"], keys, algorithms=["RS256"]).claims)


def test_an_id_token_says_who_signed_in_when_and_for_whom_it_is(flow):
    signed_in_at = int(time.time()) - 1000
    mine = update(Session).where(Session.user_id == flow.user_id)
    alter(flow.app, mine.values(signed_in_at=signed_in_at))
    began = int(time.time())
    answer = flow.tokens("openid fhirUser profile user/*.rs", nonce="n-1")
    ended = time.time()
    claims = claims_of(flow, answer)
    half = hashlib.sha256(answer["access_token"].encode()).digest()[:16]
    assert began <= claims["iat"] <= ended
    assert claims.pop("exp") == claims.pop("iat") + 3600
    assert claims.pop("preferred_username").startswith("u")
    assert claims == {
        "iss": BASE_URL,
        "aud": flow.program.client_id,
        "auth_time": signed_in_at,
        "nonce": "n-1",
        "at_hash": base64.urlsafe_b64encode(half).rstrip(b"=").decode(),
        "sub": flow.user_id,
        "fhirUser": f"{BASE_URL}/fhir/{DOCTOR}",
        "name": "Robin Example",
    }


def test_it_names_the_key_that_signed_it(flow):
    header = header_of(flow.tokens("openid user/*.rs")["id_token"])
    (published,) = flow.app.test_client().get("/oauth/jwks.json").get_json()["keys"]
    assert header == {"alg": "RS256", "typ": "JWT", "kid": published["kid"]}


@pytest.mark.parametrize(
    ("role", "patients", "fhir_user", "told"),
    [
        (CLINICIAN, [], DOCTOR, DOCTOR),
        (ADMINISTRATOR, [], None, None),
        (PATIENT, ["p1", "p2"], None, "Patient/p1"),
        (PATIENT, [], None, None),
    ],
)
def test_fhir_user_is_who_the_user_is_in_the_records(oauth, role, patients, fhir_user, told):
    user_id = add_person(oauth, role, *patients, fhir_user=fhir_user)
    flow = Flow(oauth, add_program(oauth), user_id)
    answer = flow.tokens("openid fhirUser")
    claims = claims_of(flow, answer)
    assert claims.get("fhirUser") == (told and f"{BASE_URL}/fhir/{told}")
    assert ("fhirUser" in answer["scope"]) == bool(told)


@pytest.mark.parametrize("scope", ["openid user/*.rs", "openid offline_access"])
def test_what_was_not_granted_is_not_told(flow, scope):
    answer = flow.tokens(scope)
    assert claims_of(flow, answer).keys().isdisjoint({"fhirUser", "name", "preferred_username"})
    assert "nonce" not in claims_of(flow, answer)


def test_a_user_who_unticks_openid_tells_no_app_who_they_are(flow):
    answer = flow.tokens("openid fhirUser user/*.rs", ticked=["user/*.rs", "fhirUser"])
    assert answer["scope"] == "fhirUser user/*.rs"
    assert "id_token" not in answer


def test_no_id_token_comes_without_openid_or_with_a_refresh(flow):
    answer = flow.tokens("user/*.rs profile")
    assert "id_token" not in answer
    answer = flow.tokens("openid user/*.rs offline_access")
    assert "id_token" not in flow.refresh(answer["refresh_token"]).get_json()


def test_users_have_subjects_of_their_own_whatever_the_app(oauth):
    person, other = add_person(oauth, CLINICIAN), add_person(oauth, CLINICIAN)
    first, second = add_program(oauth), add_program(oauth)
    subjects = [
        claims_of(flow, flow.tokens("openid"))["sub"]
        for flow in (Flow(oauth, first, person), Flow(oauth, second, person))
    ]
    assert subjects == [person, person]
    assert claims_of(*_with_tokens(Flow(oauth, first, other)))["sub"] == other


def _with_tokens(flow: Flow) -> tuple[Flow, dict[str, Any]]:
    return flow, flow.tokens("openid")
