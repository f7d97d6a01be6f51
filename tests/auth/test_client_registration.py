"""Dynamic client registration, RFC 7591, behind an administrator's approval."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, insert, select
from werkzeug.test import TestResponse

from fhirapp.audit.entries import ADMINISTRATION, entries
from fhirapp.auth.clients import administration, key_sets
from fhirapp.auth.clients.administration import MOST_WAITING, PER_HOUR, WAITING_SECONDS
from fhirapp.auth.models import CLINICIAN, NONE, Client, Refusal, RegistrationOrigin, digest
from fhirapp.auth.oauth.client_registration import MOST_BYTES
from fhirapp.db import writing
from tests.support.app_pages import KEY
from tests.support.authorizing import (
    REDIRECT,
    Flow,
    Program,
    add_person,
    alter,
    rows,
    set_client,
)
from tests.support.browsing import Browser
from tests.support.effort import sample
from tests.support.helpers import BASE_URL
from tests.support.token_endpoint import assert_error

PATH = "/oauth/register"
_NUMBERS = count()
JWKS = {"keys": [KEY.as_dict(private=False)]}
PUBLIC: dict[str, Any] = {
    "client_name": "Allergy Card",
    "redirect_uris": [REDIRECT],
    "token_endpoint_auth_method": "none",
    "scope": "launch/patient patient/*.rs offline_access",
}
CONFIDENTIAL = {name: PUBLIC[name] for name in ("client_name", "redirect_uris", "scope")}
BACKEND: dict[str, Any] = {
    "client_name": "Export",
    "grant_types": ["client_credentials"],
    "token_endpoint_auth_method": "private_key_jwt",
    "scope": "system/*.rs",
    "jwks": JWKS,
}


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """A seeded app with the registration endpoint."""
    return make_app(dynamic_registration=True)


def send(app: Flask, content: Any, address: str = "", **options: Any) -> TestResponse:
    """Send a registration, from an address that nobody else has."""
    number = next(_NUMBERS)
    own = f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::1"
    environ = {"REMOTE_ADDR": address or own}
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    options = {"content_type": "application/json", **options}
    return app.test_client().post(PATH, data=body, environ_base=environ, **options)


def registered(app: Flask, content: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = send(app, content, **options)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.get_json()
    return told


def client_of(app: Flask, told: dict[str, Any]) -> Client:
    ((found,),) = rows(app, select(Client).where(Client.client_id == told["client_id"]))
    return found


def count_waiting(app: Flask) -> int:
    waits = select(func.count()).select_from(Client).where(Client.approved_at.is_(None))
    ((number,),) = rows(app, waits)
    return int(number)


def approve(app: Flask, told: dict[str, Any]) -> None:
    with app.app_context(), writing() as connection:
        assert administration.approve(connection, told["client_id"])


def assert_refused(answer: TestResponse, error: str, words: str, status: int = 400) -> None:
    content = answer.get_json()
    assert (answer.status_code, content["error"]) == (status, error), answer.text
    assert words in content["error_description"]
    assert re.fullmatch("[ -~]+", content["error_description"])
    assert content.keys() == {"error", "error_description"}
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.mimetype == "application/json"


def test_registration_endpoint_is_absent_unless_it_is_turned_on(oauth):
    assert send(oauth, PUBLIC).status_code == 404
    assert count_waiting(oauth) == 0
    assert PATH not in oauth.test_client().get("/openapi.json").get_json()["paths"]


def test_answer_holds_the_registration_and_its_approval_status(app):
    ignored = {"software_id": "x", "logo_uri": "https://evil.example/l.png", "client_name#de": "Y"}
    ignored |= {"client_id": "demo-app", "client_secret": "mine", "registration_access_token": "x"}
    answer = send(app, PUBLIC | ignored)
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    told = answer.get_json()
    assert re.fullmatch(r"app-[0-9a-f]{16}", told.pop("client_id"))
    assert abs(told.pop("client_id_issued_at") - time.time()) < 60
    page = told.pop("approval_page")
    assert told.pop("approval_description").startswith("An administrator of this server must")
    assert told == {
        **PUBLIC,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "approval_status": "waiting",
    }
    shown = Browser(app).get(page.removeprefix(BASE_URL))
    assert (shown.heading, "waiting for approval" in shown.words) == ("Allergy Card", True)


def test_client_without_a_method_gets_a_secret_that_is_stored_as_its_digest(app):
    told = registered(app, CONFIDENTIAL)
    assert told["token_endpoint_auth_method"] == "client_secret_basic"
    assert told["client_secret_expires_at"] == 0
    client = client_of(app, told)
    assert client.secret_digest == digest(told["client_secret"])
    assert (client.kind, client.approved_at) == ("confidential", None)


def test_answer_to_a_backend_holds_its_public_keys(app):
    told = registered(app, BACKEND | {"contacts": ["a@lab.example", "b@lab.example"]})
    assert (told["grant_types"], told["response_types"]) == (["client_credentials"], [])
    assert told["jwks"] == JWKS
    assert "client_secret" not in told
    client = client_of(app, told)
    assert (client.kind, client.contact) == ("backend", "a@lab.example, b@lab.example")


def test_launch_uri_and_origin_are_stored_and_the_registration_is_audited(app):
    uri = "https://app.example/launch"
    told = registered(app, PUBLIC | {"initiate_login_uri": uri}, address="192.0.2.77")
    assert (told["initiate_login_uri"], client_of(app, told).launch_uri) == (uri, uri)
    ((origin,),) = rows(
        app, select(RegistrationOrigin).where(RegistrationOrigin.client_id == told["client_id"])
    )
    assert (origin.address, origin.by_itself) == ("192.0.2.77", True)
    with app.app_context():
        entry = entries(kind=ADMINISTRATION, event="app-registered", limit=1)[0]
    assert (entry.about, entry.address) == (f"app/{told['client_id']}", "192.0.2.77")
    assert entry.user_id is None


META, URI = "invalid_client_metadata", "invalid_redirect_uri"
STATEMENT = "unapproved_software_statement"


def test_invalid_metadata_is_refused_with_the_error_of_the_rfc(app):
    """tests/auth/test_registration.py has all values that are refused of a registration."""
    before = count_waiting(app)
    for usual, changes, error, words in (
        (PUBLIC, {"redirect_uris": None}, URI, "at least one redirect URI"),
        (PUBLIC, {"redirect_uris": REDIRECT}, URI, "must be a list of strings"),
        (PUBLIC, {"redirect_uris": [REDIRECT, 5]}, URI, "must be a list of strings"),
        (PUBLIC, {"redirect_uris": ["javascript:alert(1)"]}, URI, "must begin with https://"),
        (PUBLIC, {"client_name": None}, META, "client_name is missing"),
        (PUBLIC, {"client_name": {"a": 1}}, META, "client_name must be a string"),
        (PUBLIC, {"contacts": [{}]}, META, "contacts must be a list of strings"),
        (PUBLIC, {"scope": "openid x\0é\ud800"}, META, "cannot have the scope x???"),
        (PUBLIC, {"token_endpoint_auth_method": "client_secret_post"}, META, "must be none"),
        (PUBLIC, {"grant_types": ["implicit"]}, META, "grant_types must be authorization_code"),
        (PUBLIC, {"grant_types": []}, META, "grant_types must be authorization_code"),
        (PUBLIC, {"grant_types": ["refresh_token"]}, META, "grant_types must be"),
        (PUBLIC, {"response_types": ["token"]}, META, "response_types must be ['code']"),
        (PUBLIC, {"response_types": []}, META, "response_types must be ['code']"),
        (PUBLIC, {"software_statement": "a.b.c"}, STATEMENT, "trusts no issuer"),
        (PUBLIC, {"software_statement": 5}, STATEMENT, "trusts no issuer"),
        (BACKEND, {"grant_types": ["client_credentials", "authorization_code"]}, META, "alone"),
        (BACKEND, {"token_endpoint_auth_method": None}, META, "must authenticate with private_key"),
        (BACKEND, {"response_types": ["code"]}, META, "response_types must be []"),
        (BACKEND, {"jwks": "x"}, META, "Not a JSON Web Key Set"),
        (BACKEND, {"jwks": {"keys": [KEY.as_dict(private=True)]}}, META, "must stay secret"),
    ):
        assert_refused(send(app, usual | changes), error, words)
    assert count_waiting(app) == before


def test_body_that_is_no_small_json_object_is_refused(app):
    valid, json_type = json.dumps(PUBLIC).encode(), "application/json"
    before = count_waiting(app)
    for body, media_type, status in (
        (b"", json_type, 400),
        (b"[]", json_type, 400),
        (b"{", json_type, 400),
        (b"\xff", json_type, 400),
        (b"[" * 50_000, json_type, 400),
        (b'{"client_name": "a", "client_name": "b"}', json_type, 400),
        (valid, "application/x-www-form-urlencoded", 400),
        (valid, "multipart/form-data; boundary=x", 400),
        # A form of a foreign page can send this through a browser in the clinic's own network.
        (valid, "text/plain", 400),
        (valid + b" " * MOST_BYTES, json_type, 413),
    ):
        assert_refused(send(app, body, content_type=media_type), META, "", status)
    assert count_waiting(app) == before


def test_no_other_origin_may_register_through_a_browser(app):
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    preflight = app.test_client().options(PATH, headers=headers)
    answer = send(app, PUBLIC, headers=headers)
    for response in (preflight, answer):
        assert "Access-Control-Allow-Origin" not in response.headers


def test_waiting_client_gets_no_token_and_no_authorization(app, monkeypatch):
    monkeypatch.setattr(key_sets, "fetch_keys", lambda *_, **__: pytest.fail("fetched"))
    kept = BACKEND | {"jwks": None, "jwks_uri": "https://lab.example/keys"}
    for content, key in ((PUBLIC, None), (CONFIDENTIAL, None), (BACKEND, KEY), (kept, KEY)):
        told = registered(app, content)
        program = Program(told["client_id"], told.get("client_secret"), key)
        flow = Flow(app, program, add_person(app, CLINICIAN))
        for path in ("/oauth/token", "/oauth/introspect", "/oauth/revoke"):
            form = {"grant_type": "client_credentials", "scope": "system/*.rs", "token": "x"}
            assert_error(flow.ask(path, **form), "unauthorized_client")
        refusals = rows(app, select(Refusal.reasons).where(Refusal.client_id == program.client_id))
        assert "has not approved the client yet" in str([row.reasons for row in refusals])
        page = Browser(app).get("/oauth/authorize", query_string=flow.parameters("openid"))
        assert page.status == 400
        assert "has not been approved by an administrator" in page.words


def test_approved_client_works_with_the_secret_or_key_it_registered(app):
    told = registered(app, CONFIDENTIAL)
    approve(app, told)
    program = Program(told["client_id"], told["client_secret"])
    flow = Flow(app, program, add_person(app, CLINICIAN))
    assert flow.tokens("launch/patient patient/*.rs", patient="p1")["patient"] == "p1"
    told = registered(app, BACKEND)
    approve(app, told)
    flow = Flow(app, Program(told["client_id"], key=KEY), flow.user_id)
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    assert flow.ask("/oauth/token", **form).status_code == 200


def test_registrations_of_one_address_are_limited_by_the_hour(make_app):
    app = make_app(seed=False, dynamic_registration=True)
    for _ in range(PER_HOUR):
        registered(app, PUBLIC, address="192.0.2.1")
    answer = send(app, PUBLIC, "192.0.2.1")
    assert_refused(answer, "temporarily_unavailable", "Too many registrations", 429)
    assert 3500 < int(answer.headers["Retry-After"]) <= 3600
    page = Browser(app, "192.0.2.1").get("/apps/register?kind=public")
    assert page.submit("Register app", name="X", redirect_uris=REDIRECT).status in (400, 429)
    registered(app, PUBLIC, address="192.0.2.2")
    assert count_waiting(app) == PER_HOUR + 1


def test_waiting_clients_are_limited_and_old_ones_expire(make_app):
    app = make_app(seed=False, dynamic_registration=True)
    now = int(time.time())
    row = {"name": "X", "kind": "public", "auth_method": NONE, "scope": "openid"}
    row |= {"disabled": False, "registered_at": now}
    alter(app, insert(Client).values([row | {"client_id": f"w{n}"} for n in range(MOST_WAITING)]))
    answer = send(app, PUBLIC)
    assert_refused(answer, "temporarily_unavailable", "already waiting for approval", 503)
    assert answer.headers["Retry-After"]
    alter(
        app, insert(RegistrationOrigin).values(client_id="w1", address="192.0.2.1", by_itself=True)
    )
    set_client(app, Program("w1"), registered_at=now - WAITING_SECONDS - 5)
    registered(app, PUBLIC)
    assert rows(app, select(Client).where(Client.client_id == "w1")) == []
    assert rows(app, select(RegistrationOrigin).where(RegistrationOrigin.client_id == "w1")) == []
    with app.app_context():
        (entry,) = entries(kind=ADMINISTRATION, event="app-expired", limit=5)
    assert entry.about == "app/w1"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(
        [REDIRECT, "private_key_jwt", "code", "RSA", "P-384", "AQAB", "\ud800", "\0"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["keys", "kty", "crv", "n", "x", "kid", "alg", "d"]), inner
        )
    ),
    max_leaves=8,
)
NAMES = (*PUBLIC, *BACKEND, "jwks_uri", "contacts", "initiate_login_uri", "software_statement")


@pytest.mark.campaign
@settings(max_examples=sample(200, 5_000))
@given(
    usual=st.sampled_from([PUBLIC, CONFIDENTIAL, BACKEND]),
    changes=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
    key=st.none() | st.dictionaries(st.sampled_from([*KEY.as_dict(private=False), "alg"]), JSON),
)
def test_random_metadata_is_registered_or_refused(app, usual, changes, key):
    content = usual | changes
    if key is not None:
        content["jwks"] = {"keys": [KEY.as_dict(private=False) | key]}
    answer = send(app, content)
    if answer.status_code == 201:
        with app.app_context(), writing() as connection:
            administration.reject(connection, answer.get_json()["client_id"])
    else:
        errors = (META, URI, "unapproved_software_statement")
        assert (answer.status_code, answer.get_json()["error"] in errors) == (400, True)
