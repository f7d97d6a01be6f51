"""The protector, through HTTP: tokens that are refused, and clients that change under a token."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.clients.administration import issue_token, set_disabled
from fhirapp.auth.models import Client
from fhirapp.db import writing
from tests.support.access import ALLERGY
from tests.support.helpers import Fhir, assert_outcome, token_for


@pytest.fixture
def changing(make_app: Callable[..., Flask]) -> Flask:
    """Return an app of its own, for tests that change clients."""
    return make_app()


def token_of(app: Flask, scope: str, client_id: str = "demo-backend") -> Fhir:
    """Return a client of the app with a token of a registered client."""
    with app.app_context(), writing() as connection:
        return Fhir(app, issue_token(connection, scope=scope, client_id=client_id))


def register(app: Flask, scope: str) -> None:
    """Change what demo-backend is registered for."""
    with app.app_context(), writing() as connection:
        connection.execute(
            update(Client).where(Client.client_id == "demo-backend").values(scope=scope)
        )


def test_a_disabled_client_and_a_changed_registration_act_on_the_next_request(changing):
    fhir = token_of(changing, "system/*.rs")
    assert fhir.get("AllergyIntolerance").status_code == 200
    register(changing, "system/*.r")
    assert fhir.get("AllergyIntolerance").status_code == 403
    assert fhir.get(ALLERGY).status_code == 200
    register(changing, "system/*.rs")
    assert fhir.get("AllergyIntolerance").status_code == 200
    with changing.app_context(), writing() as connection:
        set_disabled(connection, "demo-backend", disabled=True)
    response = fhir.get("AllergyIntolerance")
    assert_outcome(response, 401, "login", "The access token is not valid.")
    with changing.app_context(), writing() as connection:
        set_disabled(connection, "demo-backend", disabled=False)
    assert fhir.get("AllergyIntolerance").status_code == 200


def test_a_registration_narrowed_to_one_type_leaves_a_wildcard_token_that_type(changing):
    fhir = token_of(changing, "system/*.rs")
    register(changing, "system/AllergyIntolerance.rs")
    assert fhir.get("DocumentReference").status_code == 403
    assert fhir.get("AllergyIntolerance").status_code == 200


def test_a_registration_narrowed_by_a_filter_narrows_a_token_without_one(changing):
    fhir = token_of(changing, "system/AllergyIntolerance.rs")
    register(changing, "system/AllergyIntolerance.rs?category=environment")
    assert set(fhir.ids("AllergyIntolerance?patient=p1")) == {"al-p1-latex", "al-p1-ragweed"}


def test_an_expired_token_is_told_apart_from_an_invalid_one(app):
    expired = Fhir(app, token_for(app, "system/*.rs", lifetime=-1)).get("AllergyIntolerance")
    assert_outcome(expired, 401, "expired", "The access token has expired; ask for a new one.")
    assert expired.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp", error="invalid_token"'


@pytest.mark.parametrize("token", ["junk", "demo", "a.b.c", "x" * 4000])
def test_what_is_no_token_of_this_server_is_refused(app, token):
    response = Fhir(app, token).get("AllergyIntolerance")
    assert_outcome(response, 401, "login", "The access token is not valid.")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp", error="invalid_token"'


@pytest.mark.parametrize("header", ["Basic ZGVtby1iYWNrZW5kOmRlbW8=", "DPoP abc", "Token abc"])
def test_a_token_of_another_kind_is_refused(http, header):
    response = http.get("/fhir/AllergyIntolerance", headers={"Authorization": header})
    assert_outcome(response, 401, "login", "The Authorization header must be: Bearer <token>.")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp"'


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer a b", "Bearer \xe9"])
def test_a_bearer_header_without_one_token_is_refused(http, header):
    response = http.get("/fhir/AllergyIntolerance", headers={"Authorization": header})
    assert response.status_code == 401
    assert response.get_json(force=True)["issue"][0]["code"] == "login"


def test_a_token_in_the_address_or_the_body_is_no_token(app, http):
    token = token_for(app, "system/*.rs")
    needed = "An access token is needed: send Authorization: Bearer <token>."
    in_url = http.get(f"/fhir/AllergyIntolerance?access_token={token}")
    assert_outcome(in_url, 401, "login", needed)
    in_body = http.post("/fhir/AllergyIntolerance/_search", data={"access_token": token})
    assert_outcome(in_body, 401, "login", needed)
    assert in_body.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp"'


def test_too_many_requests_without_a_valid_token_are_throttled_and_valid_ones_are_not(app):
    """121 failures take less than the two windows of a minute that they could spread over."""
    fhir, other = Fhir(app, token_for(app, "system/*.rs")), Fhir(app, "junk")
    origin = {"REMOTE_ADDR": "192.0.2.77"}
    answers = [other.get("AllergyIntolerance", environ_base=origin) for _ in range(121)]
    throttled = [answer for answer in answers if answer.status_code == 429]
    assert_outcome(
        throttled[0],
        429,
        "throttled",
        "Too many requests without a valid access token; wait before the next one.",
    )
    assert 1 <= int(throttled[0].headers["Retry-After"]) <= 60
    assert fhir.get("AllergyIntolerance", environ_base=origin).status_code == 200
