"""Tokens that are given back: RFC 7009; issue 4."""

from __future__ import annotations

import time

import pytest
from flask import Flask
from sqlalchemy import select, update
from werkzeug.test import TestResponse

from fhirapp.auth.models import BASIC, CLINICIAN, NONE, SIGNED, Grant, RefreshToken, digest
from tests.support.authorizing import (
    Flow,
    add_backend,
    add_person,
    add_program,
    alter,
    rows,
    set_client,
)
from tests.support.grants import ENDED, is_alive
from tests.support.helpers import Fhir, assert_outcome
from tests.support.token_endpoint import assert_error

SCOPE = "user/*.rs offline_access"


@pytest.fixture
def flow(oauth: Flask) -> Flow:
    """Return a clinician with an app that has a secret."""
    return Flow(oauth, add_program(oauth, BASIC), add_person(oauth, CLINICIAN))


def assert_done(response: TestResponse) -> None:
    """Assert that the client hears that its token is none, whether it was one or not."""
    assert response.status_code == 200, response.text
    assert response.headers["Cache-Control"] == "no-store"
    assert response.get_json() == {}


@pytest.mark.parametrize("method", [NONE, BASIC, SIGNED])
def test_a_refresh_token_takes_all_that_came_of_it_along(oauth, method):
    flow = Flow(oauth, add_program(oauth, method), add_person(oauth, CLINICIAN))
    first = flow.tokens(SCOPE)
    second = flow.refresh(first["refresh_token"]).get_json()
    assert is_alive(flow, first["access_token"])
    assert_done(flow.revoke(second["refresh_token"]))
    for issued in (first, second):
        response = Fhir(oauth, issued["access_token"]).get("AllergyIntolerance")
        assert_outcome(response, 401, "login", "The access token is not valid.")
    assert_error(flow.refresh(second["refresh_token"]), "invalid_grant", ENDED)


def test_a_refresh_token_that_was_used_does_so_too(flow):
    first = flow.tokens(SCOPE)
    second = flow.refresh(first["refresh_token"]).get_json()
    assert_done(flow.revoke(first["refresh_token"]))
    assert not is_alive(flow, second["access_token"])
    assert_error(flow.refresh(second["refresh_token"]), "invalid_grant", ENDED)


def test_an_access_token_ends_alone(flow):
    first = flow.tokens(SCOPE)
    second = flow.refresh(first["refresh_token"]).get_json()
    assert_done(flow.revoke(first["access_token"]))
    assert not is_alive(flow, first["access_token"])
    assert is_alive(flow, second["access_token"])
    assert flow.refresh(second["refresh_token"]).status_code == 200


def test_other_consents_go_on(flow):
    issued, other = flow.tokens(SCOPE), flow.tokens(SCOPE)
    assert_done(flow.revoke(issued["refresh_token"]))
    assert is_alive(flow, other["access_token"])
    assert flow.refresh(other["refresh_token"]).status_code == 200


def test_a_backend_gives_its_token_back(oauth):
    backend = Flow(oauth, add_backend(oauth), add_person(oauth, CLINICIAN))
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    token = backend.ask("/oauth/token", **form).get_json()["access_token"]
    assert is_alive(backend, token)
    assert_done(backend.revoke(token))
    assert not is_alive(backend, token)


@pytest.mark.parametrize("token", ["unknown", "x" * 10_000, "a.b.c"])
def test_what_is_no_token_is_none_already(flow, token):
    assert_done(flow.revoke(token))


def test_what_was_given_back_can_be_given_back_again(flow):
    issued = flow.tokens(SCOPE)
    for name in ("access_token", "access_token", "refresh_token", "refresh_token", "access_token"):
        assert_done(flow.revoke(issued[name]))
    ((revoked_at,),) = rows(flow.app, select(Grant.revoked_at).where(Grant.user_id == flow.user_id))
    assert time.time() - revoked_at < 60


def test_what_has_expired_can_be_given_back(flow):
    issued = flow.tokens(SCOPE)
    row = update(RefreshToken).where(RefreshToken.digest == digest(issued["refresh_token"]))
    alter(flow.app, row.values(expires_at=int(time.time()) - 5))
    assert_done(flow.revoke(issued["refresh_token"]))
    assert not is_alive(flow, issued["access_token"])


@pytest.mark.parametrize("name", ["access_token", "refresh_token"])
def test_nobody_ends_the_tokens_of_another_client(oauth, flow, name):
    issued = flow.tokens(SCOPE)
    backend = add_backend(oauth)
    for program in (add_program(oauth), add_program(oauth, SIGNED), backend):
        other = Flow(oauth, program, flow.user_id)
        assert_error(other.revoke(issued[name]), "invalid_grant")
    assert is_alive(flow, issued["access_token"])
    assert flow.refresh(issued["refresh_token"]).status_code == 200


@pytest.mark.parametrize("hint", ["access_token", "refresh_token", "id_token", "x", ""])
@pytest.mark.parametrize("name", ["access_token", "refresh_token"])
def test_the_hint_need_not_be_right(flow, name, hint):
    issued = flow.tokens(SCOPE)
    assert_done(flow.revoke(issued[name], token_type_hint=hint))
    assert not is_alive(flow, issued["access_token"])


@pytest.mark.parametrize("token", [None, "", ["a", "b"], "é", "a\nb"])
def test_a_request_without_one_token_is_refused(flow, token):
    assert_error(flow.revoke(token), "invalid_request")


def test_a_request_is_a_post_with_a_form(flow):
    assert flow.app.test_client().get("/oauth/revoke").status_code == 405
    asked = flow.ask("/oauth/revoke?token=x", token="x")
    assert_error(asked, "invalid_request", "Parameters belong in the body.")


@pytest.mark.parametrize("proof", [{}, {"client_id": "unknown"}, {"auth": ("x", "y")}, None])
def test_who_does_not_say_who_asks_ends_nothing(flow, proof):
    issued = flow.tokens(SCOPE)
    # The name of a client that has a secret is no proof.
    given = {"client_id": flow.program.client_id} if proof is None else proof
    refused = flow.revoke(issued["refresh_token"], proof=given)
    assert refused.status_code in (400, 401)
    assert_error(refused, "invalid_client", status=refused.status_code)
    assert is_alive(flow, issued["access_token"])


def test_a_bearer_is_no_proof_here(flow):
    issued = flow.tokens(SCOPE)
    proof = {"headers": {"Authorization": f"Bearer {issued['access_token']}"}}
    assert_error(flow.revoke(issued["refresh_token"], proof=proof), "invalid_client", status=401)
    assert is_alive(flow, issued["access_token"])


def test_a_client_that_is_disabled_ends_nothing_and_its_tokens_are_none(flow):
    issued = flow.tokens(SCOPE)
    set_client(flow.app, flow.program, disabled=True)
    assert_error(flow.revoke(issued["refresh_token"]), "invalid_client", status=401)
    assert not is_alive(flow, issued["access_token"])
