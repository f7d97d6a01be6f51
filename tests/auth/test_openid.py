"""ID tokens and /oauth/userinfo: the claims about a user, and the tokens that may have them.

OpenID Connect Core §2, §3.1.3.6, §5.3; RFC 6750 §3; SMART App
Launch 2.2 §Scopes for requesting identity data.
"""

from __future__ import annotations

import base64
import hashlib
import time

import pytest
from flask import Flask
from sqlalchemy import update
from werkzeug.test import TestResponse

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Session
from fhirapp.auth.users.accounts import unlink
from fhirapp.db import writing
from tests.auth.grants import token_of_backend
from tests.support.authorizing import (
    Flow,
    add_backend,
    add_person,
    add_program,
    alter,
    set_client,
    set_user,
)
from tests.support.helpers import BASE_URL, token_for
from tests.support.id_tokens import DOCTOR, claims_of, header_of, user_info
from tests.support.token_endpoint import assert_error


@pytest.fixture
def flow(oauth: Flask) -> Flow:
    """Return a clinician with a public app."""
    return Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN, fhir_user=DOCTOR))


def test_id_token_has_its_user_client_nonce_and_time_of_sign_in(flow):
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


def test_id_token_names_the_key_that_signed_it(flow):
    header = header_of(flow.tokens("openid user/*.rs")["id_token"])
    (published,) = flow.app.test_client().get("/oauth/jwks.json").get_json()["keys"]
    assert header == {"alg": "RS256", "typ": "JWT", "kid": published["kid"]}


def test_fhir_user_is_who_the_user_is_in_the_records(oauth):
    for role, patients, fhir_user, expected in (
        (CLINICIAN, [], DOCTOR, DOCTOR),
        (ADMINISTRATOR, [], None, None),
        (PATIENT, ["p1", "p2"], None, "Patient/p1"),
        (PATIENT, [], None, None),
    ):
        user_id = add_person(oauth, role, *patients, fhir_user=fhir_user)
        flow = Flow(oauth, add_program(oauth), user_id)
        answer = flow.tokens("openid fhirUser")
        claim = claims_of(flow, answer).get("fhirUser")
        assert claim == (expected and f"{BASE_URL}/fhir/{expected}")
        assert ("fhirUser" in answer["scope"]) == bool(expected)


def test_id_token_has_no_claims_that_were_not_granted(flow):
    for scope in ("openid user/*.rs", "openid offline_access"):
        claims = claims_of(flow, flow.tokens(scope))
        assert claims.keys().isdisjoint({"fhirUser", "name", "preferred_username", "nonce"})


def test_unticked_openid_gives_no_id_token(flow):
    answer = flow.tokens("openid fhirUser user/*.rs", ticked=["user/*.rs", "fhirUser"])
    assert answer["scope"] == "fhirUser user/*.rs"
    assert "id_token" not in answer


def test_no_id_token_comes_without_openid_or_with_a_refresh(flow):
    answer = flow.tokens("user/*.rs profile")
    assert "id_token" not in answer
    answer = flow.tokens("openid user/*.rs offline_access")
    assert "id_token" not in flow.refresh(answer["refresh_token"]).get_json()


def test_subject_is_the_user_in_every_app(oauth):
    person, other = add_person(oauth, CLINICIAN), add_person(oauth, CLINICIAN)
    first, second = add_program(oauth), add_program(oauth)
    for program, user_id in ((first, person), (second, person), (first, other)):
        flow = Flow(oauth, program, user_id)
        assert claims_of(flow, flow.tokens("openid"))["sub"] == user_id


SHOWN = "openid fhirUser profile"


def test_user_info_has_the_claims_of_the_id_token_about_the_user(flow):
    of_token = {"iss", "aud", "exp", "iat", "auth_time", "nonce", "at_hash"}
    for scope in ("openid", "openid fhirUser", "openid profile", SHOWN):
        answer = flow.tokens(f"{scope} user/*.rs")
        claims = claims_of(flow, answer)
        for method in ("GET", "POST"):
            response = user_info(flow, answer["access_token"], method)
            assert (response.status_code, response.content_type) == (200, "application/json")
            assert response.headers["Cache-Control"] == "no-store"
            assert response.get_json() == {name: claims[name] for name in claims.keys() - of_token}


def test_user_info_follows_changes_of_user_and_client(oauth):
    user_id = add_person(oauth, PATIENT, "p1")
    flow = Flow(oauth, add_program(oauth), user_id)
    token = flow.tokens("openid fhirUser patient/*.rs")["access_token"]
    known = {"sub": user_id, "fhirUser": f"{BASE_URL}/fhir/Patient/p1"}
    assert user_info(flow, token).get_json() == known
    with oauth.app_context(), writing() as connection:
        unlink(connection, user_id, "p1")
    assert user_info(flow, token).get_json() == {"sub": user_id}
    flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN, fhir_user=DOCTOR))
    token = flow.tokens(SHOWN)["access_token"]
    set_user(oauth, flow.user_id, name="Robin Sample")
    assert user_info(flow, token).get_json()["name"] == "Robin Sample"
    set_client(oauth, flow.program, scope="openid")
    assert user_info(flow, token).get_json() == {"sub": flow.user_id}
    set_client(oauth, flow.program, scope="user/*.rs")
    assert_without_openid(user_info(flow, token))


def assert_without_openid(response: TestResponse) -> None:
    """Assert that the token is known, and tells nobody who its user is."""
    assert_error(response, "insufficient_scope", status=403)
    challenge = 'Bearer realm="fhirapp", error="insufficient_scope", scope="openid"'
    assert response.headers["WWW-Authenticate"] == challenge


def test_user_info_needs_openid_and_a_user(flow):
    ticked = ["user/*.rs", "fhirUser"]
    answer = flow.tokens("openid fhirUser user/*.rs offline_access", ticked=ticked)
    assert_without_openid(user_info(flow, answer["access_token"]))
    # A refresh may ask for less.
    answer = flow.tokens("openid user/*.rs offline_access")
    less = flow.refresh(answer["refresh_token"], scope="user/*.rs").get_json()
    assert_without_openid(user_info(flow, less["access_token"]))
    assert user_info(flow, answer["access_token"]).status_code == 200
    backend = Flow(flow.app, add_backend(flow.app), flow.user_id)
    assert_without_openid(user_info(backend, token_of_backend(backend)))
    assert_without_openid(user_info(flow, token_for(flow.app, "openid user/*.rs")))


def test_user_info_is_for_access_tokens_only(flow):
    answer = flow.tokens("openid offline_access user/*.rs")
    for token in (answer["refresh_token"], answer["id_token"], "nonsense", "é"):
        assert_invalid(user_info(flow, token))
    flow.revoke(answer["access_token"])
    assert_invalid(user_info(flow, answer["access_token"]))


def assert_invalid(response: TestResponse) -> None:
    assert_error(response, "invalid_token", status=401)
    challenge = 'Bearer realm="fhirapp", error="invalid_token"'
    assert response.headers["WWW-Authenticate"] == challenge


def test_user_info_takes_its_token_from_the_header_only(flow):
    token = flow.tokens("openid")["access_token"]
    http = flow.app.test_client()
    for response in (
        http.get("/oauth/userinfo"),
        http.get("/oauth/userinfo", query_string={"access_token": token}),
        http.post("/oauth/userinfo", data={"access_token": token}),
        http.get("/oauth/userinfo", headers={"Authorization": f"Basic {token}"}),
    ):
        assert_error(response, "invalid_token", status=401)
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp"'
