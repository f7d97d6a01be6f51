"""The id token that comes with a code, and /oauth/userinfo: whom they name, to whom.

OpenID Connect Core §2, §3.1.3.6, §5.3; RFC 6750 §3; SMART App
Launch 2.2 §Scopes for requesting identity data.
"""

from __future__ import annotations

import base64
import hashlib
import time
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update
from werkzeug.test import TestResponse

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, AccessToken, Grant, Session
from fhirapp.auth.users.accounts import unlink
from fhirapp.db import writing
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


SHOWN = "openid fhirUser profile"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("scope", ["openid", "openid fhirUser", "openid profile", SHOWN])
def test_user_info_tells_what_the_id_token_tells_of_the_user(flow, scope, method):
    answer = flow.tokens(f"{scope} user/*.rs")
    response = user_info(flow, answer["access_token"], method)
    assert (response.status_code, response.content_type) == (200, "application/json")
    assert response.headers["Cache-Control"] == "no-store"
    of_token = {"iss", "aud", "exp", "iat", "auth_time", "nonce", "at_hash"}
    claims = claims_of(flow, answer)
    assert response.get_json() == {name: claims[name] for name in claims.keys() - of_token}


def test_user_info_is_as_user_and_client_are_now(oauth):
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
    text = "Only a user's token with openid says who the user is."
    assert_error(response, "insufficient_scope", text, 403)
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
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    token = backend.ask("/oauth/token", **form).get_json()["access_token"]
    assert_without_openid(user_info(backend, token))
    assert_without_openid(user_info(flow, token_for(flow.app, "openid user/*.rs")))


def expire(flow: Flow) -> None:
    mine = update(AccessToken).where(AccessToken.client_id == flow.program.client_id)
    alter(flow.app, mine.values(expires_at=int(time.time()) - 1))


def take_back(flow: Flow) -> None:
    alter(flow.app, update(Grant).where(Grant.user_id == flow.user_id).values(revoked_at=1))


@pytest.mark.parametrize(
    "end",
    [
        expire,
        take_back,
        lambda flow: set_user(flow.app, flow.user_id, disabled=True),
        lambda flow: set_client(flow.app, flow.program, disabled=True),
    ],
)
def test_user_info_is_refused_as_records_are_once_access_has_ended(flow, end):
    token = flow.tokens("openid offline_access user/*.rs")["access_token"]
    assert user_info(flow, token).status_code == 200
    end(flow)
    assert_invalid(user_info(flow, token))


def test_user_info_is_for_access_tokens_alone(flow):
    answer = flow.tokens("openid offline_access user/*.rs")
    for token in (answer["refresh_token"], answer["id_token"], "nonsense", "é"):
        assert_invalid(user_info(flow, token))
    flow.revoke(answer["access_token"])
    assert_invalid(user_info(flow, answer["access_token"]))


def assert_invalid(response: TestResponse) -> None:
    assert_error(response, "invalid_token", status=401)
    challenge = 'Bearer realm="fhirapp", error="invalid_token"'
    assert response.headers["WWW-Authenticate"] == challenge


def test_user_info_takes_its_token_from_the_header_alone(flow):
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
