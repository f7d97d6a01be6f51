"""Which origins' pages may read our answers. The Fetch standard §CORS protocol; issue 4."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import update
from werkzeug.test import TestResponse

from fhirapp.auth.clients.registration import Registration, register
from fhirapp.auth.models import CLINICIAN, NONE, Client
from fhirapp.db import writing
from tests.support.authorizing import Program, set_client
from tests.support.browsing import Browser, add_person
from tests.support.helpers import BASE_URL, token_for

REGISTERED = "https://spa.example"
LOOPBACK = "http://localhost:3000"
URIS = (
    "https://SPA.example:443/callback?x=1",
    "https://port.example:8443/callback",
    "com.example.app:/callback",
)
FOR_ALL = (
    "/.well-known/smart-configuration", "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server", "/fhir/.well-known/smart-configuration",
    "/fhir/.well-known/openid-configuration", "/fhir/metadata", "/oauth/jwks.json",
    "/smart-style.json",
)  # fmt: skip
FOR_NOBODY = ("/sign-in", "/oauth/authorize", "/oauth/introspect", "/account", "/admin/clients")
ALLOWED = "Access-Control-Allow-Origin"
EXPOSED = "Access-Control-Expose-Headers"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app with a public client of its own."""
    made = make_app()
    with made.app_context(), writing() as connection:
        connection.execute(update(Client).values(redirect_uris=None))
        registration = Registration(
            name="Spa",
            kind="public",
            auth_method=NONE,
            scope="openid launch/patient patient/*.rs",
            redirect_uris=URIS,
        )
        register(connection, registration, client_id="spa")
    return made


@pytest.fixture
def http(app: Flask) -> FlaskClient:
    return app.test_client()


def preflight(http: FlaskClient, path: str, origin: str) -> TestResponse:
    return http.options(
        path,
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "authorization",
        },
    )


def cors(response: TestResponse) -> dict[str, str]:
    """Return the headers of an answer that speak of other origins."""
    return {name: value for name, value in response.headers if name.startswith("Access-Control-")}


def test_discovery_is_for_every_origin(http):
    for path in FOR_ALL:
        for origin in [REGISTERED, "https://stranger.example", "null"]:
            response = http.get(path, headers={"Origin": origin})
            assert response.status_code == 200
            assert response.headers[ALLOWED] == "*"
            assert cors(preflight(http, path, origin))[ALLOWED] == "*"


def ask_token(http: FlaskClient, origin: str) -> TestResponse:
    return http.post("/oauth/token", data={"grant_type": "x"}, headers={"Origin": origin})


def ask_revoke(http: FlaskClient, origin: str) -> TestResponse:
    form = {"token": "x", "client_id": "spa"}
    return http.post("/oauth/revoke", data=form, headers={"Origin": origin})


def ask_user_info(http: FlaskClient, origin: str) -> TestResponse:
    return http.get("/oauth/userinfo", headers={"Origin": origin})


def ask_fhir(path: str, scope: str = "system/*.rs") -> Callable[[FlaskClient, str], TestResponse]:
    def ask(http: FlaskClient, origin: str) -> TestResponse:
        token = token_for(http.application, scope)
        return http.get(path, headers={"Origin": origin, "Authorization": f"Bearer {token}"})

    return ask


ASKED = [
    (ask_token, 400), (ask_revoke, 200), (ask_user_info, 401),
    (ask_fhir("/fhir/Patient/p1"), 200), (ask_fhir("/fhir/AllergyIntolerance?_count=1"), 200),
    (ask_fhir("/api/AllergyIntolerance?_count=1"), 200),
    (ask_fhir("/fhir/Patient?birthdate=x"), 400),
    (lambda http, origin: http.get("/fhir/Patient", headers={"Origin": origin}), 401),
    (ask_fhir("/fhir/Patient", "system/Encounter.rs"), 403),
    (ask_fhir("/fhir/Patient/nobody"), 404), (ask_fhir("/fhir/Nonsense"), 404),
    (lambda http, origin: http.delete("/fhir/Patient/p1", headers={"Origin": origin}), 405),
    (lambda http, origin: http.get(f"/fhir/{'x' * 9000}", headers={"Origin": origin}), 414),
]  # fmt: skip


def test_a_registered_origin_reads_answers_and_errors(http):
    for ask, status in ASKED:
        response = ask(http, REGISTERED)
        assert response.status_code == status
        assert response.headers[ALLOWED] == REGISTERED
        assert {"ETag", "WWW-Authenticate", "X-Request-Id", "Retry-After"} <= set(
            response.headers[EXPOSED].split(", ")
        )
        assert "Origin" in response.headers["Vary"].split(", ")


def test_another_origin_is_told_nothing(http):
    for ask, status in ASKED:
        response = ask(http, "https://stranger.example")
        assert response.status_code == status
        assert cors(response) == {}
        assert "Origin" in response.headers["Vary"].split(", ")


def test_an_answer_that_is_still_the_same_names_the_origin_too(http):
    ask = ask_fhir("/fhir/Patient/p1")
    token = token_for(http.application, "system/*.rs")
    headers = {"Origin": REGISTERED, "Authorization": f"Bearer {token}"}
    headers["If-None-Match"] = ask(http, REGISTERED).headers["ETag"]
    response = http.get("/fhir/Patient/p1", headers=headers)
    assert response.status_code == 304
    assert response.headers[ALLOWED] == REGISTERED


PREFLIGHTS = [
    "/oauth/token", "/oauth/revoke", "/oauth/userinfo", "/fhir/Patient/p1",
    "/api/AllergyIntolerance", "/fhir",
]  # fmt: skip


def test_a_preflight_says_what_may_be_sent(http):
    for path in PREFLIGHTS:
        response = preflight(http, path, REGISTERED)
        assert (response.status_code, response.data) == (204, b"")
        allowed = cors(response)
        assert allowed == {
            ALLOWED: REGISTERED,
            "Access-Control-Allow-Methods": "GET, HEAD, POST, OPTIONS",
            "Access-Control-Allow-Headers": (
                "Authorization, Accept, Content-Type, If-None-Match, If-Modified-Since, Prefer,"
                " Range"
            ),
            "Access-Control-Max-Age": "600",
        }
        assert cors(preflight(http, path, "https://stranger.example")) == {}


STRANGERS = [
    "", "null", "https://SPA.example", "HTTPS://spa.example", "http://spa.example",
    "https://spa.example:443", "https://spa.example:8443", "https://spa.example.",
    "https://spa.example.evil.example", "https://evil-spa.example", "https://sub.spa.example",
    "https://spa.example/callback", "https://spa.example/", "https://user@spa.example",
    "https://spa.example https://other.example", "https://spa.example:x", "https://[",
    "https://port.example", "https://port.example:443", "com.example.app:", "com.example.app://",
    "loopback", LOOPBACK, "http://127.0.0.1",
]  # fmt: skip


def test_origin_that_is_not_registered_exactly_gets_no_cors_headers(http):
    for origin in STRANGERS:
        assert cors(ask_token(http, origin)) == {}
        assert cors(preflight(http, "/oauth/token", origin)) == {}


def test_a_client_that_gets_no_tokens_has_no_origin(app, http):
    for values in [{"disabled": True}, {"approved_at": None}]:
        before = {"disabled": False, "approved_at": 1}
        spa = Program("spa")
        set_client(app, spa, **values)
        try:
            assert cors(ask_token(http, REGISTERED)) == {}
        finally:
            set_client(app, spa, **before)
        assert ask_token(http, REGISTERED).headers[ALLOWED] == REGISTERED


def test_the_demos_apps_are_at_any_address_of_this_machine(app, http):
    for origin in [LOOPBACK, "http://127.0.0.1", "http://[::1]:5173"]:
        program = Program("demo-app")
        set_client(app, program, redirect_uris=["loopback"])
        try:
            assert ask_token(http, origin).headers[ALLOWED] == origin
            for other in (
                "https://localhost:3000",
                "http://localhost.example",
                "null",
                "http://[::2]",
            ):
                assert cors(ask_token(http, other)) == {}
        finally:
            set_client(app, program, redirect_uris=None)


def test_pages_are_for_no_other_origin(http):
    for path in FOR_NOBODY:
        assert cors(http.get(path, headers={"Origin": REGISTERED})) == {}
        assert cors(preflight(http, path, REGISTERED)) == {}


SIMILAR = ["/fhirx", "/oauth/tokens", "/oauth/token/x", "/apidocs", "/x/.well-known/y"]


def test_an_address_that_only_begins_like_one_is_for_nobody(http):
    for path in SIMILAR:
        assert cors(http.get(path, headers={"Origin": REGISTERED})) == {}


def test_request_without_origin_gets_no_cors_headers(http):
    token = token_for(http.application, "system/*.rs")
    response = http.get("/fhir/Patient/p1", headers={"Authorization": f"Bearer {token}"})
    assert cors(response) == {}


def test_credentials_are_never_allowed(http):
    for path in (*FOR_ALL, "/oauth/token", "/fhir/Patient/p1"):
        for response in (
            preflight(http, path, REGISTERED),
            http.get(path, headers={"Origin": REGISTERED}),
        ):
            assert "Access-Control-Allow-Credentials" not in response.headers


def test_a_cookie_opens_no_record(app):
    browser = Browser(app)
    browser.sign_in(add_person(app, CLINICIAN))
    assert browser.cookie() is not None
    headers = {"Origin": REGISTERED}
    response = browser.client.get("/fhir/Patient/p1", base_url=BASE_URL, headers=headers)
    assert response.status_code == 401
