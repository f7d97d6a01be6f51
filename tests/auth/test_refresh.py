"""refresh_token at the token endpoint: rotation, reuse, narrower scopes, and lifetimes.

RFC 6749 §6; RFC 9700 §4.14; decisions §6.
"""

from __future__ import annotations

import time

import pytest
from sqlalchemy import update

from fhirapp.auth.models import RefreshToken, digest
from tests.auth.grants import end_sessions, row_of, set_grant
from tests.support.authorizing import Flow, add_program, alter, set_client, set_user
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.helpers import Fhir
from tests.support.token_endpoint import ENDED, assert_error, is_valid

SCOPE = "user/AllergyIntolerance.rs user/DocumentReference.rs offline_access"
DAY = 86_400
ACCESS, REFRESH = "access_token", "refresh_token"


def set_row(flow: Flow, token: str, **values: int) -> None:
    alter(flow.app, update(RefreshToken).where(RefreshToken.digest == digest(token)).values(values))


def test_refresh_gives_a_valid_token_and_the_next_refresh_token(flow):
    first = flow.tokens(SCOPE)
    answer = flow.refresh(first[REFRESH])
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    content = answer.get_json()
    assert is_valid(flow, content.pop(ACCESS))
    assert content.pop(REFRESH) != first[REFRESH]
    assert content == {"token_type": "Bearer", "expires_in": 3600, "scope": SCOPE}
    # The access token before is valid until it expires.
    assert is_valid(flow, first[ACCESS])


@pytest.mark.databases(SQLITE, THREE_SERVERS)
def test_refresh_token_that_is_used_again_ends_all_that_came_of_it(flow):
    first = flow.tokens(SCOPE)
    second = flow.refresh(first[REFRESH]).get_json()
    # Two tabs that refresh at once end nothing.
    for seconds in (0, 5):
        set_row(flow, first[REFRESH], used_at=int(time.time()) - seconds)
        assert_error(flow.refresh(first[REFRESH]), "invalid_grant")
    assert is_valid(flow, second[ACCESS])
    third = flow.refresh(second[REFRESH]).get_json()
    set_row(flow, first[REFRESH], used_at=int(time.time()) - 11)
    assert_error(flow.refresh(first[REFRESH]), "invalid_grant")
    for answer in (first, second, third):
        assert not is_valid(flow, answer[ACCESS])
    assert_error(flow.refresh(third[REFRESH]), "invalid_grant", ENDED)


def test_refresh_token_is_for_its_client(flow):
    first = flow.tokens(SCOPE)
    other = Flow(flow.app, add_program(flow.app), flow.user_id)
    assert_error(other.refresh(first[REFRESH]), "invalid_grant")
    second = flow.refresh(first[REFRESH]).get_json()
    # Nor can another client end what it does not have.
    set_row(flow, first[REFRESH], used_at=int(time.time()) - 11)
    assert_error(other.refresh(first[REFRESH]), "invalid_grant")
    assert is_valid(flow, second[ACCESS])


def test_refresh_may_request_less_and_all_the_next_time(flow):
    token = flow.tokens(SCOPE)[REFRESH]
    for requested in (
        "user/AllergyIntolerance.rs",
        "user/DocumentReference.rs user/AllergyIntolerance.rs",
        "user/DocumentReference.rs offline_access",
    ):
        less = flow.refresh(token, scope=requested).get_json()
        assert less["scope"] == requested
        status = Fhir(flow.app, less[ACCESS]).get("AllergyIntolerance").status_code
        assert status == (200 if "AllergyIntolerance" in requested else 403)
        again = flow.refresh(less[REFRESH]).get_json()
        assert again["scope"] == SCOPE
        token = again[REFRESH]


def test_refresh_cannot_request_more(flow):
    token = flow.tokens(SCOPE)[REFRESH]
    for requested in (
        *("user/*.rs", f"{SCOPE} openid", "patient/*.rs", "user/AllergyIntolerance.cruds", "x"),
    ):
        beyond = " ".join(text for text in requested.split() if text not in SCOPE.split())
        told = f"The user did not allow: {beyond}"
        assert_error(flow.refresh(token, scope=requested), "invalid_scope", told)
    assert flow.refresh(token).status_code == 200
    # Nor what the user unticked.
    ticked = ["user/AllergyIntolerance.rs", "offline_access"]
    token = flow.tokens(SCOPE, ticked=ticked)[REFRESH]
    assert_error(flow.refresh(token, scope="user/DocumentReference.rs"), "invalid_scope")


def test_other_tokens_are_no_refresh_tokens(flow):
    answer = flow.tokens(SCOPE)
    for token in ("unknown", "x" * 5000, answer[ACCESS]):
        assert_error(flow.refresh(token), "invalid_grant")
    assert_error(flow.refresh(None), "invalid_request")
    assert not is_valid(flow, answer[REFRESH])


def test_refresh_token_lasts_ninety_days_unless_it_is_used(flow):
    token = flow.tokens(SCOPE, days=180)[REFRESH]
    row = row_of(flow, RefreshToken, token)
    assert row.expires_at - row.issued_at == 90 * DAY
    set_row(flow, token, expires_at=int(time.time()))
    assert_error(flow.refresh(token), "invalid_grant")


def test_consent_lasts_as_long_as_the_user_chose(flow):
    token = flow.tokens(SCOPE, days=30)[REFRESH]
    row = row_of(flow, RefreshToken, token)
    assert abs(row.expires_at - row.issued_at - 30 * DAY) <= 1
    # Each use begins ninety days anew, and the consent ends all the same.
    soon = int(time.time()) + 100
    set_grant(flow, expires_at=soon)
    answer = flow.refresh(token).get_json()
    assert 98 <= answer["expires_in"] <= 100
    assert row_of(flow, RefreshToken, answer[REFRESH]).expires_at == soon
    set_grant(flow, expires_at=int(time.time()))
    assert_error(flow.refresh(answer[REFRESH]), "invalid_grant", ENDED)


@pytest.mark.databases(SQLITE, THREE_SERVERS)
def test_offline_access_outlives_the_session_and_online_access_does_not(flow):
    offline, online = flow.tokens(SCOPE), flow.tokens("user/*.rs online_access")
    online = flow.refresh(online[REFRESH]).get_json()
    end_sessions(flow)
    assert flow.refresh(offline[REFRESH]).status_code == 200
    assert_error(flow.refresh(online[REFRESH]), "invalid_grant", ENDED)
    assert not is_valid(flow, online[ACCESS])


def test_ended_consent_or_disabled_user_is_not_refreshed(flow):
    for values in ({"revoked_at": 1}, {"expires_at": 1}):
        token = flow.tokens(SCOPE)[REFRESH]
        set_grant(flow, **values)
        assert_error(flow.refresh(token), "invalid_grant", ENDED)
    token = flow.tokens(SCOPE)[REFRESH]
    set_user(flow.app, flow.user_id, disabled=True)
    assert_error(flow.refresh(token), "invalid_grant", ENDED)
    set_user(flow.app, flow.user_id, disabled=False)
    assert flow.refresh(token).status_code == 200


def test_registration_that_is_narrowed_narrows_the_next_token(flow):
    token = flow.tokens(SCOPE)[REFRESH]
    set_client(flow.app, flow.program, scope="user/AllergyIntolerance.r offline_access")
    answer = flow.refresh(token).get_json()
    assert answer["scope"] == "user/AllergyIntolerance.r offline_access"
    set_client(flow.app, flow.program, scope="patient/*.rs offline_access")
    refused = flow.refresh(answer[REFRESH], scope="user/DocumentReference.rs")
    assert_error(refused, "invalid_scope")
    set_client(flow.app, flow.program, scope="user/*.rs")
    assert_error(flow.refresh(answer[REFRESH]), "invalid_grant", "beyond an hour")
