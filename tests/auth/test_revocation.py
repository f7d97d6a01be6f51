"""Tokens that end: revoked by their client (RFC 7009), expired, or deleted a day later."""

from __future__ import annotations

import time
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import (
    BASIC,
    CLINICIAN,
    NONE,
    SIGNED,
    AccessToken,
    AuthorizationCode,
    Grant,
    RefreshToken,
    digest,
)
from fhirapp.auth.tokens import new_token
from tests.auth.grants import expire
from tests.support.authorizing import (
    Flow,
    add_backend,
    add_person,
    add_program,
    rows,
    set_client,
)
from tests.support.helpers import Fhir, assert_outcome
from tests.support.token_endpoint import ENDED, assert_error, is_valid

SCOPE = "user/*.rs offline_access"
DAY = 86_400
ACCESS, REFRESH = "access_token", "refresh_token"


@pytest.fixture
def flow(oauth: Flask) -> Flow:
    """A clinician with an app that has a secret."""
    return Flow(oauth, add_program(oauth, BASIC), add_person(oauth, CLINICIAN))


def revoke(flow: Flow, token: str, **form: Any) -> None:
    """Revoke a token; the answer is the same whether it was one or not."""
    response = flow.revoke(token, **form)
    assert response.status_code == 200, response.text
    assert response.headers["Cache-Control"] == "no-store"
    assert response.get_json() == {}


@pytest.mark.parametrize("method", [NONE, BASIC, SIGNED])
def test_refresh_token_is_revoked_with_all_that_came_of_its_consent(oauth, method):
    flow = Flow(oauth, add_program(oauth, method), add_person(oauth, CLINICIAN))
    # The one that was used last, and one that was used before.
    for revoked in (1, 0):
        first, other = flow.tokens(SCOPE), flow.tokens(SCOPE)
        issued = [first, flow.refresh(first[REFRESH]).get_json()]
        assert is_valid(flow, first[ACCESS])
        revoke(flow, issued[revoked][REFRESH])
        for answer in issued:
            response = Fhir(oauth, answer[ACCESS]).get("AllergyIntolerance")
            assert_outcome(response, 401, "login", "The access token is not valid.")
        assert_error(flow.refresh(issued[1][REFRESH]), "invalid_grant", ENDED)
        # Another consent goes on.
        assert is_valid(flow, other[ACCESS])
        assert flow.refresh(other[REFRESH]).status_code == 200


def test_access_token_is_revoked_alone(flow):
    first = flow.tokens(SCOPE)
    second = flow.refresh(first[REFRESH]).get_json()
    revoke(flow, first[ACCESS])
    assert not is_valid(flow, first[ACCESS])
    assert is_valid(flow, second[ACCESS])
    assert flow.refresh(second[REFRESH]).status_code == 200


def test_unknown_revoked_or_expired_token_can_be_revoked(flow):
    for token in ("unknown", "x" * 10_000, "a.b.c"):
        revoke(flow, token)
    issued = flow.tokens(SCOPE)
    for name in (ACCESS, ACCESS, REFRESH, REFRESH, ACCESS):
        revoke(flow, issued[name])
    ((revoked_at,),) = rows(flow.app, select(Grant.revoked_at).where(Grant.user_id == flow.user_id))
    assert time.time() - revoked_at < 60
    issued = flow.tokens(SCOPE)
    expire(flow, RefreshToken, issued[REFRESH], 5)
    revoke(flow, issued[REFRESH])
    assert not is_valid(flow, issued[ACCESS])


def test_token_of_another_client_is_not_revoked(oauth, flow):
    issued = flow.tokens(SCOPE)
    for program in (add_program(oauth), add_program(oauth, SIGNED), add_backend(oauth)):
        other = Flow(oauth, program, flow.user_id)
        for name in (ACCESS, REFRESH):
            assert_error(other.revoke(issued[name]), "invalid_grant")
    assert is_valid(flow, issued[ACCESS])
    assert flow.refresh(issued[REFRESH]).status_code == 200


def test_token_is_revoked_whatever_the_hint_says(flow):
    for name in (ACCESS, REFRESH):
        for hint in (ACCESS, REFRESH, "id_token", ""):
            issued = flow.tokens(SCOPE)
            revoke(flow, issued[name], token_type_hint=hint)
            assert not is_valid(flow, issued[ACCESS])


def test_request_without_proof_revokes_nothing(flow):
    issued = flow.tokens(SCOPE)
    bearer = {"headers": {"Authorization": f"Bearer {issued[ACCESS]}"}}
    # The id of a client that has a secret is no proof.
    named = {"client_id": flow.program.client_id}
    for proof in ({}, {"client_id": "unknown"}, {"auth": ("x", "y")}, named, bearer):
        assert_error(flow.revoke(issued[REFRESH], proof=proof), "invalid_client", status=None)
    assert is_valid(flow, issued[ACCESS])
    set_client(flow.app, flow.program, disabled=True)
    assert_error(flow.revoke(issued[REFRESH]), "invalid_client", status=401)
    assert not is_valid(flow, issued[ACCESS])


def test_expired_token_is_told_apart_from_an_unknown_one_for_a_day(flow):
    token = flow.tokens("user/*.rs")[ACCESS]
    for seconds in (0, DAY - 60):
        expire(flow, AccessToken, token, seconds)
        flow.tokens("user/*.rs")
        response = Fhir(flow.app, token).get("AllergyIntolerance")
        issue = response.get_json(force=True)["issue"][0]
        assert (response.status_code, issue["code"]) == (401, "expired")


def test_expired_code_that_is_used_again_still_ends_its_tokens(flow):
    code = flow.code("user/*.rs")
    token = flow.redeem(code).get_json()[ACCESS]
    expire(flow, AuthorizationCode, code, DAY - 60)
    flow.tokens("user/*.rs")
    assert is_valid(flow, token)
    assert_error(flow.redeem(code), "invalid_grant")
    assert not is_valid(flow, token)


def test_rows_that_expired_a_day_ago_are_deleted_with_the_next_token(flow):
    code = flow.code(SCOPE)
    issued = flow.redeem(code).get_json()
    stored = ((AccessToken, issued[ACCESS]), (RefreshToken, issued[REFRESH]))
    stored += ((AuthorizationCode, code),)
    for model, secret in stored:
        expire(flow, model, secret, DAY + 5)
    flow.tokens("user/*.rs")
    for model, secret in stored:
        assert rows(flow.app, select(model).where(model.digest == digest(secret))) == []


def test_no_two_tokens_are_the_same():
    assert len({new_token() for _ in range(1000)}) == 1000
    assert {len(new_token()) for _ in range(100)} == {43}
