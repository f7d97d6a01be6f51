"""authorization_code at the token endpoint: PKCE, whose code it is, used again, what comes back.

RFC 6749 §4.1.3, §5; RFC 7636 §4.6; SMART App Launch 2.2. How clients prove who they are is in
test_client_authentication.py, the id token in test_openid.py.
"""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select, update

from fhirapp.auth.models import (
    CLINICIAN,
    AccessToken,
    AuthorizationCode,
    Grant,
    RefreshToken,
    digest,
)
from tests.support.authorizing import (
    REDIRECT,
    VERIFIER,
    Flow,
    add_backend,
    add_person,
    add_program,
    alter,
    challenge,
    rows,
    set_client,
    set_user,
)
from tests.support.grants import ENDED, is_alive
from tests.support.helpers import BASE_URL, Fhir, assert_outcome
from tests.support.token_endpoint import assert_error

NO_CODE = "Invalid 'code' in request."


def test_a_code_is_exchanged_for_a_token_that_works(flow):
    answer = flow.redeem(flow.code("user/*.rs"))
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    content = answer.get_json()
    token = content.pop("access_token")
    assert len(token) == 43
    assert content == {"token_type": "Bearer", "expires_in": 3600, "scope": "user/*.rs"}
    assert is_alive(flow, token)


@pytest.mark.parametrize(
    "scope",
    [
        "patient/*.read launch/patient openid",
        "launch/patient patient/AllergyIntolerance patient/DocumentReference.r offline_access",
        "user/AllergyIntolerance.rs?clinical-status=active user/DocumentReference.rs",
        "user/AllergyIntolerance.s user/AllergyIntolerance.read",
    ],
)
def test_the_scope_is_told_as_it_was_asked_for(flow, scope):
    patient = "p1" if "patient" in scope else None
    answer = flow.tokens(scope, patient=patient)
    assert answer["scope"] == scope
    ((row,),) = rows(
        flow.app, select(AccessToken).where(AccessToken.digest == digest(answer["access_token"]))
    )
    assert row.scope == scope


PATIENT_IN_CONTEXT = {
    "patient": "p1",
    "need_patient_banner": True,
    "smart_style_url": f"{BASE_URL}/smart-style.json",
}


@pytest.mark.parametrize(
    ("scope", "patient", "encounter", "context"),
    [
        ("user/*.rs", None, None, {}),
        ("patient/*.rs", "p1", None, PATIENT_IN_CONTEXT),
        ("launch/patient user/*.rs", "p1", None, PATIENT_IN_CONTEXT),
        ("launch user/*.rs", "p1", None, PATIENT_IN_CONTEXT),
        # Without fhirContext, where an encounter may not be.
        ("launch patient/*.rs", "p1", "e1", {**PATIENT_IN_CONTEXT, "encounter": "e1"}),
    ],
)
def test_what_is_in_context_comes_with_the_token(flow, scope, patient, encounter, context):
    if "launch" in scope.split():
        answer = flow.tokens(scope, launch=flow.launch(patient, encounter))
    else:
        answer = flow.tokens(scope, patient=patient)
    for name in ("access_token", "token_type", "expires_in", "scope"):
        del answer[name]
    assert answer == context


@pytest.mark.parametrize("offline", ["offline_access", "online_access", ""])
def test_a_refresh_token_comes_where_the_user_allowed_access_beyond_the_hour(flow, offline):
    assert ("refresh_token" in flow.tokens(f"user/*.rs {offline}")) == bool(offline)


@pytest.mark.parametrize(
    ("verifier", "error"),
    [
        (None, "invalid_request"),
        ("", "invalid_request"),
        ("x" * 42, "invalid_request"),
        ("x" * 129, "invalid_request"),
        ("x" * 42 + "é", "invalid_request"),
        ("x" * 42 + "=", "invalid_request"),
        (f"{VERIFIER}\n", "invalid_request"),
        ("x" * 43, "invalid_grant"),
        (VERIFIER.upper(), "invalid_grant"),
        # As if the method were plain.
        (challenge(VERIFIER), "invalid_grant"),
        ([VERIFIER, VERIFIER], "invalid_request"),
    ],
)
def test_only_who_made_the_challenge_can_redeem_the_code(flow, verifier, error):
    code = flow.code("user/*.rs")
    assert_error(flow.redeem(code, code_verifier=verifier), error)
    assert flow.redeem(code).status_code == 200


@pytest.mark.parametrize(
    "uri", [None, "", f"{REDIRECT}/", f"{REDIRECT}?x", "https://app.example/other"]
)
def test_the_redirect_uri_must_be_the_one_of_the_request(oauth, uri):
    program = add_program(oauth, redirect_uris=[REDIRECT, "https://app.example/other"])
    flow = Flow(oauth, program, add_person(oauth, CLINICIAN))
    refused = flow.redeem(flow.code("user/*.rs"), redirect_uri=uri)
    assert_error(refused, "invalid_grant", "Invalid 'redirect_uri' in request.")


@pytest.mark.parametrize("code", ["unknown", "", "x" * 5000])
def test_a_code_that_is_none_is_refused(flow, code):
    assert_error(flow.redeem(code), "invalid_grant", NO_CODE)


def test_a_code_that_is_missing_is_asked_for(flow):
    assert_error(flow.redeem(None), "invalid_request", "Missing 'code' in request.")


def test_a_code_is_for_the_client_that_asked_for_it(flow):
    other = Flow(flow.app, add_program(flow.app), flow.user_id)
    code = flow.code("user/*.rs")
    assert_error(other.redeem(code), "invalid_grant", NO_CODE)
    token = flow.redeem(code).get_json()["access_token"]
    # Used by now, and the other client cannot end what came of it.
    assert_error(other.redeem(code), "invalid_grant", NO_CODE)
    assert is_alive(flow, token)


def test_a_code_serves_for_a_minute(flow):
    code = flow.code("user/*.rs")
    mine = update(AuthorizationCode).where(AuthorizationCode.digest == digest(code))
    alter(flow.app, mine.values(expires_at=int(time.time())))
    assert_error(flow.redeem(code), "invalid_grant", NO_CODE)


@pytest.mark.parametrize("verifier", [VERIFIER, "x" * 43])
def test_a_code_that_is_used_again_ends_all_that_came_of_it(flow, verifier):
    code = flow.code("user/*.rs offline_access")
    first = flow.redeem(code).get_json()
    second = flow.refresh(first["refresh_token"]).get_json()
    assert is_alive(flow, first["access_token"])
    assert_error(flow.redeem(code, code_verifier=verifier), "invalid_grant", NO_CODE)
    assert not is_alive(flow, first["access_token"])
    assert not is_alive(flow, second["access_token"])
    assert_error(flow.refresh(second["refresh_token"]), "invalid_grant", ENDED)


def test_a_code_is_no_token(flow):
    code = flow.code("user/*.rs")
    response = Fhir(flow.app, code).get("AllergyIntolerance")
    assert_outcome(response, 401, "login", "The access token is not valid.")
    assert_error(flow.refresh(code), "invalid_grant")


@pytest.mark.parametrize("what", ["grant revoked", "grant over", "user disabled"])
def test_a_consent_that_ended_meanwhile_gives_no_token(flow, what):
    code = flow.code("user/*.rs")
    now = int(time.time())
    if what == "user disabled":
        set_user(flow.app, flow.user_id, disabled=True)
    else:
        values = {"revoked_at": now} if what == "grant revoked" else {"expires_at": now}
        alter(flow.app, update(Grant).where(Grant.user_id == flow.user_id).values(values))
    assert_error(flow.redeem(code), "invalid_grant", ENDED)


def test_a_client_that_is_disabled_meanwhile_gets_no_token(flow):
    code = flow.code("user/*.rs")
    set_client(flow.app, flow.program, disabled=True)
    assert_error(flow.redeem(code), "invalid_client", status=400)


def test_a_registration_that_is_narrowed_meanwhile_narrows_the_token(flow):
    asked = "user/AllergyIntolerance.rs user/DocumentReference.rs offline_access"
    code = flow.code(asked)
    set_client(flow.app, flow.program, scope="user/AllergyIntolerance.r")
    answer = flow.redeem(code).get_json()
    assert answer["scope"] == "user/AllergyIntolerance.r"
    assert "refresh_token" not in answer


def test_a_registration_of_which_nothing_is_left_gives_no_token(flow):
    code = flow.code("user/*.rs")
    set_client(flow.app, flow.program, scope="patient/*.rs")
    assert_error(flow.redeem(code), "invalid_scope")


def test_a_token_does_not_outlive_its_consent(flow):
    code = flow.code("user/*.rs")
    soon = int(time.time()) + 100
    alter(flow.app, update(Grant).where(Grant.user_id == flow.user_id).values(expires_at=soon))
    answer = flow.redeem(code).get_json()
    assert 98 <= answer["expires_in"] <= 100


def test_a_backend_has_no_codes_and_an_app_no_token_of_its_own(flow, oauth):
    backend = Flow(oauth, add_backend(oauth), flow.user_id)
    code = flow.code("user/*.rs")
    assert_error(backend.redeem(code), "unauthorized_client")
    assert_error(backend.refresh("x"), "unauthorized_client")
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    confidential = Flow(oauth, add_program(oauth, "private_key_jwt"), flow.user_id)
    assert_error(confidential.ask("/oauth/token", **form), "unauthorized_client")


def test_codes_and_tokens_are_kept_as_hashes(flow):
    code = flow.code("user/*.rs offline_access")
    answer = flow.redeem(code).get_json()
    for model, secret in (
        (AuthorizationCode, code),
        (AccessToken, answer["access_token"]),
        (RefreshToken, answer["refresh_token"]),
    ):
        ((row,),) = rows(flow.app, select(model).where(model.digest == digest(secret)))
        columns = [getattr(row, column.name) for column in model.__table__.columns]
        assert secret not in columns
        assert secret.encode() not in columns
