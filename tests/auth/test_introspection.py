"""What a token is, told to whom it concerns: RFC 7662; SMART App Launch 2.2 token introspection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update
from werkzeug.test import TestResponse

from fhirapp.auth.models import (
    BASIC,
    CLINICIAN,
    NONE,
    PATIENT,
    SIGNED,
    AccessToken,
    Grant,
    RefreshToken,
    digest,
)
from fhirapp.auth.users import sessions
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
from tests.support.token_endpoint import DEMO, assert_error

DOCTOR = "Practitioner/dr-adeyemi"
SCOPE = "openid fhirUser launch/patient patient/*.rs user/AllergyIntolerance.rs offline_access"
OF_BACKEND = {"auth": DEMO}


@pytest.fixture
def flow(oauth: Flask) -> Flow:
    """Return a clinician with an app that has a secret."""
    user_id = add_person(oauth, CLINICIAN, fhir_user=DOCTOR)
    return Flow(oauth, add_program(oauth, BASIC), user_id)


def bearer(token: str) -> dict[str, Any]:
    """Return an access token as proof."""
    return {"headers": {"Authorization": f"Bearer {token}"}}


def assert_inactive(response: TestResponse) -> None:
    """Assert that an answer says that it is no token, and nothing else."""
    assert response.status_code == 200, response.text
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.get_json() == {"active": False}


def test_of_a_users_token_is_told_what_its_app_was_told(flow):
    began = int(time.time())
    issued = flow.tokens(SCOPE, patient="p1")
    answer = flow.introspect(issued["access_token"])
    assert answer.headers["Cache-Control"] == "no-store"
    content = answer.get_json()
    issued_at = content.pop("iat")
    assert began <= issued_at <= time.time()
    assert content.pop("exp") == issued_at + 3600
    assert content == {
        "active": True,
        "token_type": "Bearer",
        "client_id": flow.program.client_id,
        "scope": SCOPE,
        "iss": BASE_URL,
        "sub": flow.user_id,
        "fhirUser": f"{BASE_URL}/fhir/{DOCTOR}",
        "patient": "p1",
        "need_patient_banner": True,
        "smart_style_url": f"{BASE_URL}/smart-style.json",
    }
    context = {"patient", "need_patient_banner", "smart_style_url"}
    assert {name: issued[name] for name in context} == {name: content[name] for name in context}


def test_of_a_launch_the_encounter_is_told(flow):
    issued = flow.tokens("launch user/*.rs", launch=flow.launch("p1", "e1"))
    content = flow.introspect(issued["access_token"]).get_json()
    assert (content["patient"], content["encounter"]) == ("p1", "e1")
    assert "fhirUser" not in content


def test_of_a_refresh_token_no_token_type_is_told(flow):
    began = int(time.time())
    issued = flow.tokens(SCOPE, patient="p1", days=30)
    content = flow.introspect(issued["refresh_token"]).get_json()
    assert content["active"]
    assert "token_type" not in content
    assert began <= content["exp"] - 30 * 86_400 <= time.time()


def test_of_a_backends_token_the_backend_is_the_subject(oauth):
    backend = Flow(oauth, add_backend(oauth), add_person(oauth, CLINICIAN))
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    token = backend.ask("/oauth/token", **form).get_json()["access_token"]
    content = backend.introspect(token).get_json()
    assert content.pop("exp") - content.pop("iat") == 300
    assert content == {
        "active": True,
        "token_type": "Bearer",
        "client_id": backend.program.client_id,
        "scope": "system/*.rs",
        "iss": BASE_URL,
        "sub": backend.program.client_id,
    }


def test_of_a_token_from_the_shell_the_patient_is_told(oauth, flow):
    token = token_for(oauth, "patient/*.rs", patient="p1")
    content = flow.introspect(token, proof=OF_BACKEND).get_json()
    assert (content["patient"], content["scope"]) == ("p1", "patient/*.rs")


@pytest.mark.parametrize("method", [BASIC, SIGNED])
def test_a_client_may_ask_with_its_own_proof(oauth, method):
    flow = Flow(oauth, add_program(oauth, method), add_person(oauth, CLINICIAN))
    token = flow.tokens("user/*.rs")["access_token"]
    assert flow.introspect(token).get_json()["active"]


@pytest.mark.parametrize("method", [NONE, BASIC])
def test_a_client_may_ask_with_a_token_of_its_own(oauth, method):
    flow = Flow(oauth, add_program(oauth, method), add_person(oauth, CLINICIAN))
    first, second = (flow.tokens("user/*.rs")["access_token"] for _ in range(2))
    assert flow.introspect(first, proof=bearer(first)).get_json()["active"]
    assert flow.introspect(first, proof=bearer(second)).get_json()["active"]
    assert_inactive(flow.introspect("junk", proof=bearer(first)))


def test_a_backend_may_ask_about_any_token(oauth, flow):
    token = flow.tokens("user/*.rs")["access_token"]
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    own = flow.ask("/oauth/token", OF_BACKEND, **form).get_json()["access_token"]
    for proof in (OF_BACKEND, bearer(own)):
        assert flow.introspect(token, proof=proof).get_json()["sub"] == flow.user_id


def test_an_app_hears_nothing_of_the_tokens_of_others(oauth, flow):
    issued = flow.tokens("user/*.rs offline_access")
    other = Flow(oauth, add_program(oauth, SIGNED), flow.user_id)
    others = other.tokens("user/*.rs")["access_token"]
    for token in (issued["access_token"], issued["refresh_token"], token_for(oauth, "system/*.rs")):
        assert_inactive(other.introspect(token))
        assert_inactive(other.introspect(token, proof=bearer(others)))


@pytest.mark.parametrize("junk", ["junk", "x" * 10_000, "a.b.c", " ", "0"])
def test_what_is_no_token_is_not_active(flow, junk):
    for proof in (flow.program.proof(), OF_BACKEND):
        assert_inactive(flow.introspect(junk, proof=proof))


def test_a_code_and_a_session_are_no_tokens(flow):
    assert_inactive(flow.introspect(flow.code("user/*.rs")))
    assert_inactive(flow.introspect(flow.session))


@pytest.mark.parametrize("hint", ["access_token", "refresh_token", "id_token", "", "x"])
def test_the_hint_need_not_be_right(flow, hint):
    issued = flow.tokens("user/*.rs offline_access")
    for name in ("access_token", "refresh_token"):
        assert flow.introspect(issued[name], token_type_hint=hint).get_json()["active"]


@pytest.mark.parametrize("proof", [{}, {"client_id": "demo-app"}, {"auth": ("x", "y")}])
def test_who_does_not_say_who_asks_hears_nothing(flow, proof):
    token = flow.tokens("user/*.rs")["access_token"]
    assert_error(flow.introspect(token, proof=proof), "invalid_client", status=401)


def test_a_token_that_is_none_any_more_proves_nothing(flow):
    issued = flow.tokens("user/*.rs offline_access")
    first, second = issued["access_token"], flow.tokens("user/*.rs")["access_token"]
    flow.revoke(first)
    for dead in (first, issued["refresh_token"], "junk"):
        refused = flow.introspect(second, proof=bearer(dead))
        assert_error(refused, "invalid_client", status=401)
    for unreadable in ("", f"{second} x", f" {second} {second}"):
        refused = flow.introspect(second, proof=bearer(unreadable))
        assert_error(refused, "invalid_request", "The Authorization header is not readable.")


@pytest.mark.parametrize("token", [None, "", ["a", "b"], "é", "a\nb", "\0", 'a"b'])
def test_a_question_without_one_token_is_refused(flow, token):
    assert_error(flow.introspect(token), "invalid_request")


def test_a_question_is_a_post_with_a_form(flow):
    client = flow.app.test_client()
    assert client.get("/oauth/introspect").status_code == 405
    asked = flow.ask("/oauth/introspect?token=x", token="x")
    assert_error(asked, "invalid_request", "Parameters belong in the body.")


def end_sessions(flow: Flow) -> None:
    """Sign a user out everywhere."""
    with flow.app.app_context(), writing() as connection:
        sessions.end_all(connection, flow.user_id)


def expire(flow: Flow, model: type[AccessToken | RefreshToken], token: str) -> None:
    """Let a token's time be over."""
    row = update(model).where(model.digest == digest(token))
    alter(flow.app, row.values(expires_at=int(time.time())))


def change_grant(flow: Flow, **values: int) -> None:
    """Change what a user allowed."""
    alter(flow.app, update(Grant).where(Grant.user_id == flow.user_id).values(values))


# What ends a user's tokens, given the flow and the answer they came with; and which of them.
ACCESS, REFRESH = "access_token", "refresh_token"
ENDS: dict[str, tuple[Callable[[Flow, dict[str, Any]], Any], set[str]]] = {
    "access token revoked": (lambda flow, issued: flow.revoke(issued[ACCESS]), {ACCESS}),
    "access token expired": (
        lambda flow, issued: expire(flow, AccessToken, issued[ACCESS]),
        {ACCESS},
    ),
    "refresh token used": (lambda flow, issued: flow.refresh(issued[REFRESH]), {REFRESH}),
    "refresh token expired": (
        lambda flow, issued: expire(flow, RefreshToken, issued[REFRESH]),
        {REFRESH},
    ),
    "refresh token revoked": (
        lambda flow, issued: flow.revoke(issued[REFRESH]),
        {ACCESS, REFRESH},
    ),
    "consent revoked": (lambda flow, _: change_grant(flow, revoked_at=1), {ACCESS, REFRESH}),
    "consent over": (lambda flow, _: change_grant(flow, expires_at=1), {ACCESS, REFRESH}),
    "session over": (lambda flow, _: end_sessions(flow), {ACCESS, REFRESH}),
    "user disabled": (
        lambda flow, _: set_user(flow.app, flow.user_id, disabled=True),
        {ACCESS, REFRESH},
    ),
    "client disabled": (
        lambda flow, _: set_client(flow.app, flow.program, disabled=True),
        {ACCESS, REFRESH},
    ),
    "client registered for nothing of it": (
        lambda flow, _: set_client(flow.app, flow.program, scope="patient/*.rs"),
        {ACCESS, REFRESH},
    ),
}


@pytest.mark.parametrize(("end", "dead"), ENDS.values(), ids=ENDS)
def test_what_has_ended_is_not_active(flow, end, dead):
    issued = flow.tokens("user/*.rs online_access")
    end(flow, issued)
    for name in (ACCESS, REFRESH):
        answer = flow.introspect(issued[name], proof=OF_BACKEND)
        if name in dead:
            assert_inactive(answer)
        else:
            assert answer.get_json()["active"]


def test_only_what_client_and_user_may_still_see_is_told(oauth):
    flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))
    token = flow.tokens("openid patient/*.rs user/*.rs", patient="p1")["access_token"]

    def scope() -> str:
        told: str = flow.introspect(token, proof=OF_BACKEND).get_json()["scope"]
        return told

    assert scope() == "openid patient/*.rs user/*.rs"
    set_client(oauth, flow.program, scope="openid patient/AllergyIntolerance.r user/*.rs")
    assert scope() == "openid patient/AllergyIntolerance.r user/*.rs"
    set_user(oauth, flow.user_id, role=PATIENT)
    assert scope() == "openid patient/AllergyIntolerance.r"


def test_a_patient_who_is_not_the_users_any_more_is_not_told(oauth):
    flow = Flow(oauth, add_program(oauth), add_person(oauth, PATIENT, "p1", "p2"))
    token = flow.tokens("patient/*.rs", patient="p2")["access_token"]
    assert flow.introspect(token, proof=OF_BACKEND).get_json()["patient"] == "p2"
    with oauth.app_context(), writing() as connection:
        unlink(connection, flow.user_id, "p2")
    assert "patient" not in flow.introspect(token, proof=OF_BACKEND).get_json()
