"""Codes, refresh tokens, launches, answers and jtis that eight requests use at once: one wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from fhirapp.auth.models import AccessToken, Grant, Launch
from tests.support.authorizing import REDIRECT, VERIFIER, Flow, add_backend, parameters_of, rows
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.effort import sample
from tests.support.racing import racers

pytestmark = [pytest.mark.process, pytest.mark.databases(SQLITE, POSTGRESQL)]

Race = Callable[[dict[str, Any]], list[Any]]


@pytest.fixture(scope="module")
def race(oauth: Flask) -> Iterator[Race]:
    """Return what asks eight times at once."""
    with racers(oauth, processes=2, threads=4) as started:
        yield started


@pytest.fixture(scope="module")
def rounds(oauth: Flask) -> int:
    return sample(5, 50)


def winner(answers: list[Any], error: str) -> dict[str, Any]:
    """Return the answer of the one that won; the others were refused so."""
    assert len(answers) == 8
    won = [content for status, content in answers if status == 200]
    lost = [content["error"] for status, content in answers if status != 200]
    assert len(won) == 1, answers
    assert lost == [error] * 7
    found: dict[str, Any] = won[0]
    return found


def count(flow: Flow, model: Any) -> int:
    """Return how many rows there are of this flow's client."""
    mine = model.client_id == flow.program.client_id
    number: int = rows(flow.app, select(func.count()).select_from(model).where(mine))[0][0]
    return number


def test_code_that_eight_redeem_at_once_gives_one_token(flow, race, rounds):
    codes = [flow.code("user/*.rs offline_access") for _ in range(rounds)]
    for code in codes:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT}
        form |= {"code_verifier": VERIFIER, "client_id": flow.program.client_id}
        winner(race({"path": "/oauth/token", "form": form}), "invalid_grant")
    assert count(flow, AccessToken) == rounds
    # Somebody else had each code too (RFC 6749 §4.1.2).
    revoked = select(Grant.revoked_at).where(Grant.user_id == flow.user_id)
    assert all(at for (at,) in rows(flow.app, revoked))


def test_refresh_token_that_eight_use_at_once_gives_one_and_ends_nothing(flow, race, rounds):
    token = flow.tokens("user/*.rs offline_access")["refresh_token"]
    for _ in range(rounds):
        form = {"grant_type": "refresh_token", "refresh_token": token}
        token = winner(race({"path": "/oauth/token", "form": form}), "invalid_grant")[
            "refresh_token"
        ]
    assert count(flow, AccessToken) == rounds + 1


def test_launch_that_eight_use_at_once_starts_the_app_once(flow, race, rounds):
    launches = [flow.launch("p1") for _ in range(rounds)]
    for launch in launches:
        sent_to = race({"park": flow.parameters("launch patient/*.rs", launch=launch)})
        assert sorted(map(bool, sent_to)) == [False, *[True] * 7]
        lost = {parameters_of(location)["error"] for location in sent_to if location}
        assert lost == {"invalid_request"}
    assert count(flow, Launch) == rounds


def test_answer_that_eight_send_at_once_is_recorded_once(flow, race, rounds):
    handles = [flow.park("user/*.rs") for _ in range(rounds)]
    for handle in handles:
        sent_to = race({"decide": handle, "session": flow.session})
        (code,) = [parameters_of(location)["code"] for location in sent_to if location]
        assert flow.redeem(code).status_code == 200
    assert count(flow, Grant) == rounds


def test_jti_that_eight_send_at_once_is_accepted_once(oauth, race, rounds):
    backend = add_backend(oauth)
    for _ in range(rounds):
        form = {"grant_type": "client_credentials", "scope": "system/*.rs", **backend.proof()}
        winner(race({"path": "/oauth/token", "form": form}), "invalid_client")
