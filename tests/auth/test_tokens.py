"""Tokens that have expired: told apart from those that are unknown, for a day, then gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from fhirapp.auth.models import CLINICIAN, AccessToken, AuthorizationCode, RefreshToken, digest
from fhirapp.auth.tokens import new_token
from tests.support.authorizing import Flow, add_person, add_program, alter, rows
from tests.support.grants import is_alive
from tests.support.helpers import Fhir, assert_outcome
from tests.support.token_endpoint import assert_error

DAY = 86_400
EXPIRED = "The access token has expired; ask for a new one."


@pytest.fixture(scope="module")
def flow(make_app: Callable[..., Flask]) -> Flow:
    """Return a clinician with a public app."""
    app = make_app(seed=False)
    return Flow(app, add_program(app), add_person(app, CLINICIAN))


def expire(flow: Flow, model: Any, token: str, seconds: int) -> None:
    """Have something expired so many seconds ago."""
    row = update(model).where(model.digest == digest(token))
    alter(flow.app, row.values(expires_at=int(time.time()) - seconds))


def test_an_expired_token_is_told_apart_though_others_are_issued(flow):
    token = flow.tokens("user/*.rs")["access_token"]
    for seconds in (0, DAY - 60):
        expire(flow, AccessToken, token, seconds)
        flow.tokens("user/*.rs")
        response = Fhir(flow.app, token).get("AllergyIntolerance")
        assert_outcome(response, 401, "expired", EXPIRED)


def test_an_expired_code_that_was_used_still_ends_what_came_of_it(flow):
    code = flow.code("user/*.rs")
    token = flow.redeem(code).get_json()["access_token"]
    expire(flow, AuthorizationCode, code, DAY - 60)
    flow.tokens("user/*.rs")
    assert is_alive(flow, token)
    assert_error(flow.redeem(code), "invalid_grant")
    assert not is_alive(flow, token)


def test_what_expired_a_day_ago_is_deleted_when_the_next_token_is_issued(flow):
    code = flow.code("user/*.rs offline_access")
    issued = flow.redeem(code).get_json()
    held = (
        (AccessToken, issued["access_token"]),
        (RefreshToken, issued["refresh_token"]),
        (AuthorizationCode, code),
    )
    for model, secret in held:
        expire(flow, model, secret, DAY + 5)
    flow.tokens("user/*.rs")
    for model, secret in held:
        assert rows(flow.app, select(model).where(model.digest == digest(secret))) == []


def test_no_two_tokens_are_the_same():
    assert len({new_token() for _ in range(1000)}) == 1000
    assert {len(new_token()) for _ in range(100)} == {43}
