"""POST /oauth/token: the form of requests and answers, client secrets, what is granted.

RFC 6749 §2.3, §3.2, §4.4, §5; decisions §6. Signed assertions are in test_assertion.py.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from fhirapp.auth.clients.administration import set_disabled
from fhirapp.auth.models import AccessToken, Client, digest
from fhirapp.db import db, writing
from tests.support.helpers import Fhir
from tests.support.token_endpoint import DEMO, assert_error

GRANT = {"grant_type": "client_credentials", "scope": "system/*.rs"}
ASSERTION = {
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    "client_assertion": "a.b.c",
}
# Failures are counted by address: each request of these tests comes from one of its own.
_ADDRESSES = (f"203.0.{n // 250}.{n % 250}" for n in count())


@pytest.fixture(scope="module")
def oauth(make_app: Callable[..., Flask]) -> Flask:
    """Return an app with the demo's client and no records."""
    return make_app(seed=False)


def ask(app: Flask, form: Any = None, *, auth: Any = DEMO, **options: Any) -> TestResponse:
    """Ask for a token, with Basic unless auth is None."""
    return app.test_client().post(
        options.pop("path", "/oauth/token"),
        data=GRANT if form is None else form,
        auth=auth,
        environ_base={"REMOTE_ADDR": next(_ADDRESSES)},
        **options,
    )


def test_the_first_search_of_the_readme(oauth):
    response = ask(oauth)
    assert response.status_code == 200
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Pragma"] == "no-cache"
    answer = response.get_json()
    token = answer.pop("access_token")
    # 256 random bits in base64url; expires_in is a number.
    assert len(token) == 43
    assert answer == {"token_type": "Bearer", "expires_in": 300, "scope": "system/*.rs"}
    assert Fhir(oauth, token).read("AllergyIntolerance?status=active")["total"] == 0


def test_two_tokens_are_never_the_same(oauth):
    tokens = {ask(oauth).get_json()["access_token"] for _ in range(20)}
    assert len(tokens) == 20


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ("system/*.rs", "system/*.rs"),
        ("system/*.read", "system/*.read"),
        ("system/DocumentReference", "system/DocumentReference"),
        ("system/AllergyIntolerance.r", "system/AllergyIntolerance.r"),
        ("system/AllergyIntolerance.cruds", "system/AllergyIntolerance.rs"),
        ("system/AllergyIntolerance.*", "system/AllergyIntolerance.read"),
        ("system/*.read system/*.write", "system/*.read"),
        ("openid patient/*.rs system/*.rs user/*.rs nonsense", "system/*.rs"),
        ("system/*.rs system/*.rs", "system/*.rs"),
        (
            "system/AllergyIntolerance.rs?clinical-status=active",
            "system/AllergyIntolerance.rs?clinical-status=active",
        ),
    ],
)
def test_the_scope_that_is_granted_is_told(oauth, asked, granted):
    answer = ask(oauth, {**GRANT, "scope": asked}).get_json()
    assert answer["scope"] == granted


@pytest.mark.parametrize(
    "asked",
    [
        "system/*.write",
        "system/*.cud",
        "patient/*.rs",
        "user/AllergyIntolerance.rs",
        "openid fhirUser",
        "nonsense",
        "system/DocumentReferenceX",
        "system/DocumentReferenceX.rs",
        "xsystem/DocumentReference.rs",
        "system/documentreference.rs",
        "system/AllergyIntolerance.rs?nonsense=1",
        "",
    ],
)
def test_a_scope_of_which_nothing_is_left_is_invalid(oauth, asked):
    assert_error(ask(oauth, {**GRANT, "scope": asked}), "invalid_scope")


def test_no_scope_at_all_is_invalid(oauth):
    assert_error(ask(oauth, {"grant_type": "client_credentials"}), "invalid_scope")


@pytest.mark.parametrize(
    "auth",
    [
        ("demo-backend", "wrong"),
        ("demo-backend", ""),
        ("demo-backend", "démo"),
        ("unknown", "demo"),
        ("", "demo"),
        ("operator", ""),
        ("operator", "demo"),
        ("demo-backend\0", "demo"),
    ],
)
def test_a_client_that_does_not_prove_itself_is_refused(oauth, auth):
    response = ask(oauth, auth=auth)
    assert_error(response, "invalid_client", status=401)
    # RFC 6749 §5.2: who tried the Authorization header is told what it takes.
    assert response.headers["WWW-Authenticate"].startswith("Basic")


def test_a_client_without_any_proof_is_refused(oauth):
    assert_error(ask(oauth, auth=None), "invalid_client", status=401)
    named = ask(oauth, {**GRANT, "client_id": "demo-backend"}, auth=None)
    assert_error(named, "invalid_client", status=401)


def test_a_secret_in_the_body_is_not_a_way_to_authenticate(oauth):
    form = {**GRANT, "client_id": DEMO[0], "client_secret": DEMO[1]}
    assert_error(ask(oauth, form, auth=None), "invalid_client", status=401)


def test_client_id_may_stand_beside_basic_when_it_is_the_same(oauth):
    assert ask(oauth, {**GRANT, "client_id": DEMO[0]}).status_code == 200


def test_client_id_that_contradicts_basic_is_refused(oauth):
    response = ask(oauth, {**GRANT, "client_id": "operator"})
    assert_error(response, "invalid_request", "client_id contradicts the Authorization header.")


@pytest.mark.parametrize(
    "form",
    [
        {**GRANT, **ASSERTION},
        {**GRANT, "client_secret": "demo"},
        {**GRANT, "client_id": "demo-backend", "client_secret": "demo"},
    ],
)
def test_two_ways_to_authenticate_are_one_too_many(oauth, form):
    assert_error(ask(oauth, form), "invalid_request", "Authenticate in one way only.")


def test_an_assertion_and_a_secret_in_the_body_are_one_too_many(oauth):
    response = ask(oauth, {**GRANT, **ASSERTION, "client_secret": "demo"}, auth=None)
    assert_error(response, "invalid_request", "Authenticate in one way only.")


@pytest.mark.parametrize("name", ["grant_type", "scope", "client_id", "anything"])
def test_a_repeated_parameter_is_refused(oauth, name):
    form = {**GRANT, name: [GRANT.get(name, "x"), GRANT.get(name, "x")]}
    assert_error(ask(oauth, form), "invalid_request", "A parameter is repeated.")


@pytest.mark.parametrize("query", ["scope=system/*.rs", "client_id=x", "x"])
def test_parameters_in_the_address_are_refused(oauth, query):
    response = ask(oauth, path=f"/oauth/token?{query}")
    assert_error(response, "invalid_request", "Parameters belong in the body.")


@pytest.mark.parametrize("value", ["é", "a\tb", 'a"b', "a\\b", "a\nb", "\0", "\x7f"])
@pytest.mark.parametrize("name", ["scope", "client_id", "grant_type"])
def test_characters_that_oauth_does_not_know_are_refused(oauth, name, value):
    assert_error(ask(oauth, {**GRANT, name: value}), "invalid_request")


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic !",
        "Basic " + base64.b64encode(b"demo-backend").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic ",
        "Bearer",
        'Digest username="demo-backend", realm="x"',
    ],
)
def test_a_basic_header_that_cannot_be_read_is_refused(oauth, header):
    response = ask(oauth, auth=None, headers={"Authorization": header})
    assert_error(response, "invalid_request", "The Authorization header is not readable.")


@pytest.mark.parametrize("grant", [None, ""])
def test_a_request_that_names_no_grant_is_refused(oauth, grant):
    form = {name: text for name, text in {**GRANT, "grant_type": grant}.items() if text is not None}
    assert_error(ask(oauth, form), "invalid_request", "grant_type is missing.")


@pytest.mark.parametrize("grant", ["password", "implicit", "x", "client_credentials "])
def test_a_grant_that_is_not_supported_is_refused(oauth, grant):
    response = ask(oauth, {**GRANT, "grant_type": grant})
    assert_error(response, "unsupported_grant_type")


@pytest.mark.parametrize("grant", ["authorization_code", "refresh_token"])
def test_a_grant_of_users_is_not_for_a_backend(oauth, grant):
    response = ask(oauth, {**GRANT, "grant_type": grant, "code": "x", "refresh_token": "x"})
    assert_error(
        response,
        "unauthorized_client",
        f"The client is not authorized to use 'grant_type={grant}'",
    )


@pytest.mark.parametrize("media", ["application/json", "text/plain", "application/xml"])
def test_a_body_that_is_no_form_is_refused(oauth, media):
    response = ask(oauth, b'{"grant_type": "client_credentials"}', content_type=media)
    assert_error(response, "invalid_request", "grant_type is missing.")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_only_post_is_allowed(oauth, method):
    response = oauth.test_client().open("/oauth/token", method=method)
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]


def test_a_disabled_client_gets_no_token(make_app):
    app = make_app(seed=False)
    with app.app_context(), writing() as connection:
        set_disabled(connection, DEMO[0], disabled=True)
    assert_error(ask(app), "invalid_client", status=401)


def test_tokens_and_secrets_are_kept_as_hashes_and_never_logged(make_app, tmp_path, caplog):
    path = tmp_path / "clinic.db"
    app = make_app(seed=False, database_url=f"sqlite:///{path}")
    secret = "a-secret-that-only-this-test-knows"
    with app.app_context(), writing() as connection:
        table = Client.__table__
        connection.execute(table.update().values(secret_digest=digest(secret)))
    with caplog.at_level(logging.DEBUG):
        token = ask(app, auth=(DEMO[0], secret)).get_json()["access_token"]
        assert Fhir(app, token).get("AllergyIntolerance").status_code == 200
        ask(app, auth=(DEMO[0], secret + "x"))
    with app.app_context(), db.engine.connect() as connection:
        stored = connection.execute(select(AccessToken.digest)).scalars().all()
    assert stored == [digest(token)]
    written = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    for private in (token, secret):
        assert private.encode() not in written
        assert private not in caplog.text


def test_too_many_failures_are_throttled_and_the_right_secret_is_not(make_app):
    """121 failures take less than the two windows of a minute that they could spread over."""
    app = make_app(seed=False)
    client = app.test_client()
    answers = [client.post("/oauth/token", data=GRANT, auth=("x", "y")) for _ in range(121)]
    throttled = [answer for answer in answers if answer.status_code == 429]
    assert_error(throttled[0], "invalid_client", "Too many failures; wait.", status=429)
    assert 1 <= int(throttled[0].headers["Retry-After"]) <= 60
    assert client.post("/oauth/token", data=GRANT, auth=DEMO).status_code == 200


def test_where_the_places_to_write_are_taken_the_client_is_asked_to_come_back(make_app):
    """So that a long import leaves a thread for those who read."""
    app = make_app(seed=False, threads=2)
    with app.app_context(), writing():
        answer = ask(app)
        assert app.test_client().get("/fhir/metadata").status_code == 200
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "2"
    assert answer.get_json() == {
        "error": "temporarily_unavailable",
        "error_description": "The database is busy; try again shortly.",
    }
