"""Introspection of tokens: RFC 7662; SMART App Launch 2.2."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from fhirapp.auth.models import (
    BASIC,
    CLINICIAN,
    NONE,
    PATIENT,
    SIGNED,
    AccessToken,
    RefreshToken,
)
from tests.auth.grants import end_sessions, expire, set_grant, token_of_backend
from tests.support.authorizing import (
    Flow,
    add_backend,
    add_person,
    add_program,
    set_client,
    set_user,
)
from tests.support.helpers import BASE_URL, token_for
from tests.support.id_tokens import DOCTOR
from tests.support.token_endpoint import DEMO, assert_error

SCOPE = "openid fhirUser launch/patient patient/*.rs user/AllergyIntolerance.rs offline_access"
OF_BACKEND = {"auth": DEMO}
ACCESS, REFRESH = "access_token", "refresh_token"


@pytest.fixture
def flow(oauth: Flask) -> Flow:
    """A clinician with an app that has a secret."""
    user_id = add_person(oauth, CLINICIAN, fhir_user=DOCTOR)
    return Flow(oauth, add_program(oauth, BASIC), user_id)


def bearer(token: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


def assert_inactive(response: TestResponse) -> None:
    """Assert that an answer is that the token is not active, and nothing else."""
    assert response.status_code == 200, response.text
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.get_json() == {"active": False}


def test_token_of_a_user_has_the_context_that_its_app_got(flow):
    began = int(time.time())
    issued = flow.tokens(SCOPE, patient="p1", days=30)
    content = flow.introspect(issued[ACCESS]).get_json()
    issued_at = content.pop("iat")
    assert began <= issued_at <= time.time()
    assert content.pop("exp") == issued_at + 3600
    expected = {
        "active": True,
        "client_id": flow.program.client_id,
        "scope": SCOPE,
        "iss": BASE_URL,
        "sub": flow.user_id,
        "fhirUser": f"{BASE_URL}/fhir/{DOCTOR}",
        "patient": "p1",
        "need_patient_banner": True,
        "smart_style_url": f"{BASE_URL}/smart-style.json",
    }
    assert content == {**expected, "token_type": "Bearer"}
    context = {"patient", "need_patient_banner", "smart_style_url"}
    assert {name: issued[name] for name in context} == {name: content[name] for name in context}
    content = flow.introspect(issued[REFRESH]).get_json()
    del content["iat"]
    assert began <= content.pop("exp") - 30 * 86_400 <= time.time()
    assert content == expected


def test_token_of_a_backend_has_the_backend_as_subject(oauth):
    backend = Flow(oauth, add_backend(oauth), add_person(oauth, CLINICIAN))
    content = backend.introspect(token_of_backend(backend)).get_json()
    assert content.pop("exp") - content.pop("iat") == 300
    assert content == {
        "active": True,
        "token_type": "Bearer",
        "client_id": backend.program.client_id,
        "scope": "system/*.rs",
        "iss": BASE_URL,
        "sub": backend.program.client_id,
    }


@pytest.mark.parametrize("method", [NONE, BASIC, SIGNED])
def test_client_authenticates_by_its_proof_or_by_a_token_of_its_own(oauth, method):
    flow = Flow(oauth, add_program(oauth, method), add_person(oauth, CLINICIAN))
    first, second = (flow.tokens("user/*.rs")[ACCESS] for _ in range(2))
    own = [] if method == NONE else [flow.program.proof()]
    for proof in (*own, bearer(first), bearer(second)):
        assert flow.introspect(first, proof=proof).get_json()["active"]
    assert_inactive(flow.introspect("junk", proof=bearer(first)))


def test_backend_may_introspect_any_token_and_an_app_only_its_own(oauth, flow):
    issued = flow.tokens("user/*.rs offline_access")
    own = token_of_backend(flow, proof=OF_BACKEND)
    for proof in (OF_BACKEND, bearer(own)):
        assert flow.introspect(issued[ACCESS], proof=proof).get_json()["sub"] == flow.user_id
    other = Flow(oauth, add_program(oauth, SIGNED), flow.user_id)
    others = other.tokens("user/*.rs")[ACCESS]
    for token in (issued[ACCESS], issued[REFRESH], token_for(oauth, "system/*.rs")):
        assert_inactive(other.introspect(token))
        assert_inactive(other.introspect(token, proof=bearer(others)))


def test_other_texts_are_not_active(flow):
    for text in ("junk", "x" * 10_000, "a.b.c", " ", flow.code("user/*.rs"), flow.session):
        for proof in (flow.program.proof(), OF_BACKEND):
            assert_inactive(flow.introspect(text, proof=proof))


def test_token_is_found_whatever_the_hint_says(flow):
    issued = flow.tokens("user/*.rs offline_access")
    for hint in (ACCESS, REFRESH, "id_token", "", "x"):
        for name in (ACCESS, REFRESH):
            assert flow.introspect(issued[name], token_type_hint=hint).get_json()["active"]


def test_request_without_proof_is_refused(flow):
    issued = flow.tokens("user/*.rs offline_access")
    revoked, token = issued[ACCESS], flow.tokens("user/*.rs")[ACCESS]
    flow.revoke(revoked)
    for proof in (
        *({}, {"client_id": "demo-app"}, {"auth": ("x", "y")}),
        *(bearer(text) for text in (revoked, issued[REFRESH], "junk")),
    ):
        assert_error(flow.introspect(token, proof=proof), "invalid_client", status=401)
    for unreadable in ("", f"{token} x", f" {token} {token}"):
        refused = flow.introspect(token, proof=bearer(unreadable))
        assert_error(refused, "invalid_request", "not readable")


# What ends a user's tokens, given the flow and the token answer; and the tokens that are ended.
BOTH = {ACCESS, REFRESH}
ENDS: dict[str, tuple[Callable[[Flow, dict[str, Any]], Any], set[str]]] = {
    "access token revoked": (lambda flow, issued: flow.revoke(issued[ACCESS]), {ACCESS}),
    "access token over": (lambda flow, issued: expire(flow, AccessToken, issued[ACCESS]), {ACCESS}),
    "refresh token used": (lambda flow, issued: flow.refresh(issued[REFRESH]), {REFRESH}),
    "refresh token over": (
        lambda flow, issued: expire(flow, RefreshToken, issued[REFRESH]),
        {REFRESH},
    ),
    "refresh token revoked": (lambda flow, issued: flow.revoke(issued[REFRESH]), BOTH),
    "consent revoked": (lambda flow, _: set_grant(flow, revoked_at=1), BOTH),
    "consent over": (lambda flow, _: set_grant(flow, expires_at=1), BOTH),
    "session over": (lambda flow, _: end_sessions(flow), BOTH),
    "user disabled": (lambda flow, _: set_user(flow.app, flow.user_id, disabled=True), BOTH),
    "client disabled": (lambda flow, _: set_client(flow.app, flow.program, disabled=True), BOTH),
    "nothing registered of it": (
        lambda flow, _: set_client(flow.app, flow.program, scope="patient/*.rs"),
        BOTH,
    ),
}


@pytest.mark.parametrize(("end", "ended"), ENDS.values(), ids=ENDS)
def test_ended_token_is_not_active(flow, end, ended):
    issued = flow.tokens("user/*.rs online_access")
    end(flow, issued)
    for name in (ACCESS, REFRESH):
        answer = flow.introspect(issued[name], proof=OF_BACKEND)
        if name in ended:
            assert_inactive(answer)
        else:
            assert answer.get_json()["active"]


def test_scope_is_what_client_and_user_may_still_see(oauth):
    flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))
    token = flow.tokens("openid patient/*.rs user/*.rs", patient="p1")[ACCESS]

    def scope() -> str:
        return str(flow.introspect(token, proof=OF_BACKEND).get_json()["scope"])

    assert scope() == "openid patient/*.rs user/*.rs"
    set_client(oauth, flow.program, scope="openid patient/AllergyIntolerance.r user/*.rs")
    assert scope() == "openid patient/AllergyIntolerance.r user/*.rs"
    set_user(oauth, flow.user_id, role=PATIENT)
    assert scope() == "openid patient/AllergyIntolerance.r"
