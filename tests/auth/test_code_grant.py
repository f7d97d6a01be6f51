"""authorization_code at the token endpoint: PKCE, whose code it is, reuse, what comes back.

RFC 6749 §4.1.3, §5; RFC 7636 §4.6; SMART App Launch 2.2. Redirect URIs are in
tests/attack/test_redirect_uris.py, the ID token in test_openid.py, and codes that are refused
because the consent or the user ended in test_refusals.py.
"""

from __future__ import annotations

import time

import pytest

from fhirapp.auth.models import (
    AccessToken,
    AuthorizationCode,
)
from tests.auth.grants import expire, row_of, set_grant
from tests.support.authorizing import (
    VERIFIER,
    Flow,
    add_backend,
    add_program,
    challenge,
    set_client,
)
from tests.support.helpers import BASE_URL
from tests.support.token_endpoint import ENDED, assert_error, is_valid

NO_CODE = "Invalid 'code' in request."


def test_code_is_exchanged_for_a_valid_token(flow):
    answer = flow.redeem(flow.code("user/*.rs"))
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    content = answer.get_json()
    token = content.pop("access_token")
    assert len(token) == 43
    assert content == {"token_type": "Bearer", "expires_in": 3600, "scope": "user/*.rs"}
    assert is_valid(flow, token)


def test_scope_of_the_answer_is_as_requested(flow):
    for scope in (
        "patient/*.read launch/patient openid",
        "launch/patient patient/AllergyIntolerance patient/DocumentReference.r offline_access",
        "user/AllergyIntolerance.rs?clinical-status=active user/DocumentReference.rs",
        "user/AllergyIntolerance.s user/AllergyIntolerance.read",
    ):
        answer = flow.tokens(scope, patient="p1" if "patient" in scope else None)
        assert answer["scope"] == scope
        assert row_of(flow, AccessToken, answer["access_token"]).scope == scope
        assert ("refresh_token" in answer) == ("offline_access" in scope)
    assert "refresh_token" in flow.tokens("user/*.rs online_access")


def test_launch_context_comes_with_the_token(flow):
    context = {
        "patient": "p1",
        "need_patient_banner": True,
        "smart_style_url": f"{BASE_URL}/smart-style.json",
    }
    for scope, patient, encounter, expected in (
        ("user/*.rs", None, None, {}),
        ("patient/*.rs", "p1", None, context),
        ("launch/patient user/*.rs", "p1", None, context),
        ("launch user/*.rs", "p1", None, context),
        # Without fhirContext, where an encounter may not be.
        ("launch patient/*.rs", "p1", "e1", {**context, "encounter": "e1"}),
    ):
        if "launch" in scope.split():
            answer = flow.tokens(scope, launch=flow.launch(patient, encounter))
        else:
            answer = flow.tokens(scope, patient=patient)
        for name in ("access_token", "token_type", "expires_in", "scope"):
            del answer[name]
        assert answer == expected, scope


def test_code_verifier_must_fit_the_challenge(flow):
    code = flow.code("user/*.rs")
    for verifier, error in (
        *((text, "invalid_request") for text in (None, "", "x" * 42, "x" * 129, "x" * 42 + "é")),
        ("x" * 42 + "=", "invalid_request"),
        (f"{VERIFIER}\n", "invalid_request"),
        ([VERIFIER, VERIFIER], "invalid_request"),
        ("x" * 43, "invalid_grant"),
        (VERIFIER.upper(), "invalid_grant"),
        # As if the method were plain.
        (challenge(VERIFIER), "invalid_grant"),
    ):
        assert_error(flow.redeem(code, code_verifier=verifier), error)
    assert flow.redeem(code).status_code == 200


def test_missing_unknown_or_expired_code_is_refused(flow):
    for code in ("unknown", "", "x" * 5000):
        assert_error(flow.redeem(code), "invalid_grant", NO_CODE)
    assert_error(flow.redeem(None), "invalid_request", "Missing 'code'")
    code = flow.code("user/*.rs")
    expire(flow, AuthorizationCode, code)
    assert_error(flow.redeem(code), "invalid_grant", NO_CODE)


def test_code_is_for_the_client_that_requested_it(flow):
    other = Flow(flow.app, add_program(flow.app), flow.user_id)
    code = flow.code("user/*.rs")
    assert_error(other.redeem(code), "invalid_grant", NO_CODE)
    token = flow.redeem(code).get_json()["access_token"]
    # Used by now, and the other client cannot end what came of it.
    assert_error(other.redeem(code), "invalid_grant", NO_CODE)
    assert is_valid(flow, token)


@pytest.mark.parametrize("verifier", [VERIFIER, "x" * 43])
def test_code_that_is_used_again_ends_all_that_came_of_it(flow, verifier):
    code = flow.code("user/*.rs offline_access")
    first = flow.redeem(code).get_json()
    second = flow.refresh(first["refresh_token"]).get_json()
    assert is_valid(flow, first["access_token"])
    assert_error(flow.redeem(code, code_verifier=verifier), "invalid_grant", NO_CODE)
    assert not is_valid(flow, first["access_token"])
    assert not is_valid(flow, second["access_token"])
    assert_error(flow.refresh(second["refresh_token"]), "invalid_grant", ENDED)


def test_code_is_no_token(flow):
    code = flow.code("user/*.rs")
    assert not is_valid(flow, code)
    assert_error(flow.refresh(code), "invalid_grant")


def test_client_that_is_disabled_meanwhile_gets_no_token(flow):
    code = flow.code("user/*.rs")
    set_client(flow.app, flow.program, disabled=True)
    assert_error(flow.redeem(code), "invalid_client", status=400)


def test_registration_that_is_narrowed_meanwhile_narrows_the_token(flow):
    requested = "user/AllergyIntolerance.rs user/DocumentReference.rs offline_access"
    code, nothing_left = flow.code(requested), flow.code("user/*.rs")
    set_client(flow.app, flow.program, scope="user/AllergyIntolerance.r")
    answer = flow.redeem(code).get_json()
    assert answer["scope"] == "user/AllergyIntolerance.r"
    assert "refresh_token" not in answer
    set_client(flow.app, flow.program, scope="patient/*.rs")
    told = "The client may not have: user/*.rs"
    assert_error(flow.redeem(nothing_left), "invalid_scope", told)


def test_token_does_not_outlive_its_consent(flow):
    code = flow.code("user/*.rs")
    soon = int(time.time()) + 100
    set_grant(flow, expires_at=soon)
    assert 98 <= flow.redeem(code).get_json()["expires_in"] <= 100


def test_backend_has_no_codes_and_an_app_no_token_of_its_own(flow, oauth):
    backend = Flow(oauth, add_backend(oauth), flow.user_id)
    code = flow.code("user/*.rs")
    assert_error(backend.redeem(code), "unauthorized_client")
    assert_error(backend.refresh("x"), "unauthorized_client")
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    confidential = Flow(oauth, add_program(oauth, "private_key_jwt"), flow.user_id)
    assert_error(confidential.ask("/oauth/token", **form), "unauthorized_client")
