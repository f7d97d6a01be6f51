"""refresh_token at the token endpoint: rotated, used again, narrowed, and how long it lasts.

RFC 6749 §6; RFC 9700 §4.14; decisions §6; issue 4.
"""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select, update

from fhirapp.auth.models import Grant, RefreshToken, digest
from fhirapp.auth.users import sessions
from fhirapp.db import writing
from tests.support.authorizing import Flow, add_program, alter, rows, set_client, set_user
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.grants import ENDED, is_alive
from tests.support.token_endpoint import assert_error

pytestmark = pytest.mark.databases(SQLITE, THREE_SERVERS)

SCOPE = "user/AllergyIntolerance.rs user/DocumentReference.rs offline_access"
DAY = 86_400


def row_of(flow: Flow, token: str) -> RefreshToken:
    """Return the row of a refresh token."""
    ((found,),) = rows(flow.app, select(RefreshToken).where(RefreshToken.digest == digest(token)))
    return found


def pass_since_use(flow: Flow, token: str, seconds: int) -> None:
    """Let time pass since a refresh token was used."""
    used_at = int(time.time()) - seconds
    row = update(RefreshToken).where(RefreshToken.digest == digest(token))
    alter(flow.app, row.values(used_at=used_at))


def change_grant(flow: Flow, **values: int) -> None:
    alter(flow.app, update(Grant).where(Grant.user_id == flow.user_id).values(**values))


def test_a_refresh_gives_a_token_that_works_and_the_next_one_to_refresh(flow):
    first = flow.tokens(SCOPE)
    answer = flow.refresh(first["refresh_token"])
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    content = answer.get_json()
    assert is_alive(flow, content.pop("access_token"))
    assert content.pop("refresh_token") != first["refresh_token"]
    assert content == {"token_type": "Bearer", "expires_in": 3600, "scope": SCOPE}
    # The one before serves until it expires.
    assert is_alive(flow, first["access_token"])


def test_what_is_in_context_comes_with_each_refresh(flow):
    launch = flow.launch("p1", "enc-p1-2024-ed")
    first = flow.tokens("launch patient/*.rs offline_access", launch=launch)
    again = flow.refresh(first["refresh_token"]).get_json()
    new = {"access_token", "refresh_token"}
    assert {name: text for name, text in again.items() if name not in new} == {
        name: text for name, text in first.items() if name not in new
    }
    assert again["encounter"] == "enc-p1-2024-ed"


def test_a_refresh_token_that_is_used_again_ends_all_that_came_of_it(flow):
    first = flow.tokens(SCOPE)
    second = flow.refresh(first["refresh_token"]).get_json()
    pass_since_use(flow, first["refresh_token"], 11)
    assert_error(flow.refresh(first["refresh_token"]), "invalid_grant")
    assert not is_alive(flow, first["access_token"])
    assert not is_alive(flow, second["access_token"])
    assert_error(flow.refresh(second["refresh_token"]), "invalid_grant", ENDED)


def test_two_tabs_that_refresh_at_once_end_nothing(flow):
    first = flow.tokens(SCOPE)
    second = flow.refresh(first["refresh_token"]).get_json()
    for seconds in (0, 5):
        pass_since_use(flow, first["refresh_token"], seconds)
        assert_error(flow.refresh(first["refresh_token"]), "invalid_grant")
    assert is_alive(flow, second["access_token"])
    assert flow.refresh(second["refresh_token"]).status_code == 200


def test_a_refresh_token_is_for_its_client(flow):
    first = flow.tokens(SCOPE)
    other = Flow(flow.app, add_program(flow.app), flow.user_id)
    assert_error(other.refresh(first["refresh_token"]), "invalid_grant")
    second = flow.refresh(first["refresh_token"]).get_json()
    # Nor can another client end what it does not have.
    pass_since_use(flow, first["refresh_token"], 11)
    assert_error(other.refresh(first["refresh_token"]), "invalid_grant")
    assert is_alive(flow, second["access_token"])


@pytest.mark.parametrize(
    "asked",
    [
        "user/AllergyIntolerance.rs",
        "user/DocumentReference.rs user/AllergyIntolerance.rs",
        "user/DocumentReference.rs offline_access",
    ],
)
def test_a_refresh_may_ask_for_less_and_for_all_the_next_time(flow, asked):
    first = flow.tokens(SCOPE)
    less = flow.refresh(first["refresh_token"], scope=asked).get_json()
    assert less["scope"] == asked
    if "AllergyIntolerance" not in asked:
        bearer = {"Authorization": f"Bearer {less['access_token']}"}
        answer = flow.app.test_client().get("/fhir/AllergyIntolerance", headers=bearer)
        assert answer.status_code == 403
    assert flow.refresh(less["refresh_token"]).get_json()["scope"] == SCOPE


@pytest.mark.parametrize(
    "asked", ["user/*.rs", f"{SCOPE} openid", "patient/*.rs", "user/AllergyIntolerance.cruds", "x"]
)
def test_a_refresh_cannot_ask_for_more(flow, asked):
    token = flow.tokens(SCOPE)["refresh_token"]
    assert_error(flow.refresh(token, scope=asked), "invalid_scope")
    assert flow.refresh(token).status_code == 200


def test_what_was_unticked_cannot_be_refreshed_into(flow):
    ticked = ["user/AllergyIntolerance.rs", "offline_access"]
    token = flow.tokens(SCOPE, ticked=ticked)["refresh_token"]
    assert_error(flow.refresh(token, scope="user/DocumentReference.rs"), "invalid_scope")


@pytest.mark.parametrize(
    ("token", "error"),
    [("unknown", "invalid_grant"), ("x" * 5000, "invalid_grant"), (None, "invalid_request")],
)
def test_a_refresh_token_that_is_none_is_refused(flow, token, error):
    assert_error(flow.refresh(token), error)


def test_an_access_token_is_no_refresh_token_nor_the_other_way(flow):
    answer = flow.tokens(SCOPE)
    assert_error(flow.refresh(answer["access_token"]), "invalid_grant")
    assert not is_alive(flow, answer["refresh_token"])


def test_a_refresh_token_lasts_ninety_days_unless_it_is_used(flow):
    token = flow.tokens(SCOPE, days=180)["refresh_token"]
    row = row_of(flow, token)
    assert row.expires_at - row.issued_at == 90 * DAY
    mine = update(RefreshToken).where(RefreshToken.digest == digest(token))
    alter(flow.app, mine.values(expires_at=int(time.time())))
    assert_error(flow.refresh(token), "invalid_grant")


def test_what_the_user_allowed_lasts_no_longer_than_they_said(flow):
    token = flow.tokens(SCOPE, days=30)["refresh_token"]
    row = row_of(flow, token)
    assert abs(row.expires_at - row.issued_at - 30 * DAY) <= 1
    # Each use begins ninety days anew, and the consent ends all the same.
    soon = int(time.time()) + 100
    change_grant(flow, expires_at=soon)
    answer = flow.refresh(token).get_json()
    assert 98 <= answer["expires_in"] <= 100
    assert row_of(flow, answer["refresh_token"]).expires_at == soon
    change_grant(flow, expires_at=int(time.time()))
    assert_error(flow.refresh(answer["refresh_token"]), "invalid_grant", ENDED)


def test_offline_access_outlives_the_session(flow):
    token = flow.tokens(SCOPE)["refresh_token"]
    with flow.app.app_context(), writing() as connection:
        sessions.end_all(connection, flow.user_id)
    assert flow.refresh(token).status_code == 200


def test_online_access_ends_with_the_session(flow):
    answer = flow.tokens("user/*.rs online_access")
    answer = flow.refresh(answer["refresh_token"]).get_json()
    with flow.app.app_context(), writing() as connection:
        sessions.end_all(connection, flow.user_id)
    assert_error(flow.refresh(answer["refresh_token"]), "invalid_grant", ENDED)
    assert not is_alive(flow, answer["access_token"])


@pytest.mark.parametrize("values", [{"revoked_at": 1}, {"expires_at": 1}])
def test_a_consent_that_ended_is_not_refreshed(flow, values):
    token = flow.tokens(SCOPE)["refresh_token"]
    change_grant(flow, **values)
    assert_error(flow.refresh(token), "invalid_grant", ENDED)


def test_who_is_disabled_is_not_refreshed_until_enabled_again(flow):
    token = flow.tokens(SCOPE)["refresh_token"]
    set_user(flow.app, flow.user_id, disabled=True)
    assert_error(flow.refresh(token), "invalid_grant", ENDED)
    set_user(flow.app, flow.user_id, disabled=False)
    assert flow.refresh(token).status_code == 200


def test_a_registration_that_is_narrowed_narrows_the_next_token(flow):
    token = flow.tokens(SCOPE)["refresh_token"]
    set_client(flow.app, flow.program, scope="user/AllergyIntolerance.r offline_access")
    answer = flow.refresh(token).get_json()
    assert answer["scope"] == "user/AllergyIntolerance.r offline_access"
    set_client(flow.app, flow.program, scope="patient/*.rs offline_access")
    assert_error(
        flow.refresh(answer["refresh_token"], scope="user/DocumentReference.rs"), "invalid_scope"
    )
    set_client(flow.app, flow.program, scope="user/*.rs")
    refused = flow.refresh(answer["refresh_token"])
    assert_error(
        refused, "invalid_grant", "The client may not have access beyond an hour any more."
    )
