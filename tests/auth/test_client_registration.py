"""Clients that register themselves: RFC 7591, behind an administrator's approval."""

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
from joserfc.jwk import RSAKey
from sqlalchemy import func, insert, select
from werkzeug.test import TestResponse

from fhirapp.audit.read import ADMINISTRATION, entries
from fhirapp.auth.clients import administration, key_sets
from fhirapp.auth.clients.administration import MOST_WAITING, PER_HOUR, WAITING_SECONDS
from fhirapp.auth.models import CLINICIAN, NONE, Client, Origin, Refusal, digest
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


def test_it_is_absent_unless_it_is_turned_on(make_app):
    app = make_app(seed=False)
    assert send(app, PUBLIC).status_code == 404
    assert _count(app) == 0
    assert PATH not in app.test_client().get("/openapi.json").get_json()["paths"]


def test_an_app_is_told_what_was_registered_and_that_it_waits(app):
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


def test_an_app_without_a_method_has_a_secret_which_is_told_once_and_stored_hashed(app):
    told = registered(app, CONFIDENTIAL)
    assert told["token_endpoint_auth_method"] == "client_secret_basic"
    assert told["client_secret_expires_at"] == 0
    client = client_of(app, told)
    assert client.secret_digest == digest(told["client_secret"])
    assert (client.kind, client.approved_at) == ("confidential", None)


def test_a_backend_is_told_its_public_keys(app):
    told = registered(app, BACKEND | {"contacts": ["a@lab.example", "b@lab.example"]})
    assert (told["grant_types"], told["response_types"]) == (["client_credentials"], [])
    assert told["jwks"] == JWKS
    assert "client_secret" not in told
    client = client_of(app, told)
    assert (client.kind, client.contact) == ("backend", "a@lab.example, b@lab.example")


def test_the_address_of_an_ehr_launch_is_taken(app):
    uri = "https://app.example/launch"
    told = registered(app, PUBLIC | {"initiate_login_uri": uri})
    assert (told["initiate_login_uri"], client_of(app, told).launch_uri) == (uri, uri)


def test_where_it_came_from_is_kept_and_in_the_trail(app):
    told = registered(app, PUBLIC, address="192.0.2.77")
    ((origin,),) = rows(app, select(Origin).where(Origin.client_id == told["client_id"]))
    assert (origin.address, origin.by_itself) == ("192.0.2.77", True)
    with app.app_context():
        entry = entries(kind=ADMINISTRATION, event="app-registered", limit=1)[0]
    assert (entry.about, entry.address) == (f"app/{told['client_id']}", "192.0.2.77")
    assert entry.user_id is None


META, URI = "invalid_client_metadata", "invalid_redirect_uri"
STATEMENT = "unapproved_software_statement"
PRIVATE = {"keys": [RSAKey.generate_key(2048).as_dict(private=True)]}


@pytest.mark.parametrize(
    ("usual", "changes", "error", "words"),
    [
        (PUBLIC, {"redirect_uris": None}, URI, "at least one redirect URI"),
        (PUBLIC, {"redirect_uris": []}, URI, "at least one redirect URI"),
        (PUBLIC, {"redirect_uris": REDIRECT}, URI, "must be a list of strings"),
        (PUBLIC, {"redirect_uris": [REDIRECT, 5]}, URI, "must be a list of strings"),
        (PUBLIC, {"redirect_uris": ["http://app.example/"]}, URI, "must begin with https://"),
        (PUBLIC, {"redirect_uris": ["javascript:alert(1)"]}, URI, "must begin with https://"),
        (PUBLIC, {"redirect_uris": ["data:text/html,x"]}, URI, "must begin with https://"),
        (PUBLIC, {"redirect_uris": ["loopback"]}, URI, "must begin with https://"),
        (PUBLIC, {"redirect_uris": ["/sample"]}, URI, "must begin with https://"),
        (PUBLIC, {"redirect_uris": ["https://a.example/#x"]}, URI, "must not have a fragment"),
        (PUBLIC, {"redirect_uris": ["https://ä.example/"]}, URI, "not a valid URI"),
        (PUBLIC, {"redirect_uris": [f"https://a{n}.example" for n in range(11)]}, URI, "At most"),
        (PUBLIC, {"client_name": None}, META, "client_name is missing"),
        (PUBLIC, {"client_name": " "}, META, "1 to 100 printable characters"),
        (PUBLIC, {"client_name": "x" * 101}, META, "1 to 100 printable characters"),
        (PUBLIC, {"client_name": "a\u202eb"}, META, "1 to 100 printable characters"),
        (PUBLIC, {"client_name": {"a": 1}}, META, "client_name must be a string"),
        (PUBLIC, {"contacts": ["x" * 201]}, META, "The contact must have 1 to 200"),
        (PUBLIC, {"contacts": [{}]}, META, "contacts must be a list of strings"),
        (PUBLIC, {"scope": None}, META, "No scopes"),
        (PUBLIC, {"scope": "openid x\0é\ud800"}, META, "cannot have the scope x???"),
        (PUBLIC, {"scope": "system/*.rs"}, META, "cannot have the scope system/*.rs"),
        (PUBLIC, {"scope": "patient/Nonsense.rs"}, META, "patient/Nonsense.rs"),
        (PUBLIC, {"scope": "x" * 3000}, META, "at most 2000 characters"),
        (PUBLIC, {"token_endpoint_auth_method": "client_secret_post"}, META, "must be none"),
        (PUBLIC, {"token_endpoint_auth_method": "tls_client_auth"}, META, "must be none"),
        (PUBLIC, {"grant_types": ["implicit"]}, META, "grant_types must be authorization_code"),
        (PUBLIC, {"grant_types": []}, META, "grant_types must be authorization_code"),
        (PUBLIC, {"grant_types": ["refresh_token"]}, META, "grant_types must be"),
        (PUBLIC, {"response_types": ["token"]}, META, "response_types must be ['code']"),
        (PUBLIC, {"response_types": []}, META, "response_types must be ['code']"),
        (PUBLIC, {"jwks": JWKS}, META, "Keys can only be used with private_key_jwt."),
        (PUBLIC, {"initiate_login_uri": "http://app.example/"}, META, "The launch URI"),
        (PUBLIC, {"software_statement": "a.b.c"}, STATEMENT, "trusts no issuer"),
        (PUBLIC, {"software_statement": 5}, STATEMENT, "trusts no issuer"),
        (BACKEND, {"grant_types": ["client_credentials", "authorization_code"]}, META, "alone"),
        (BACKEND, {"token_endpoint_auth_method": None}, META, "must authenticate with private_key"),
        (BACKEND, {"response_types": ["code"]}, META, "response_types must be []"),
        (BACKEND, {"redirect_uris": [REDIRECT]}, META, "leave out the redirect URIs"),
        (BACKEND, {"jwks": None}, META, "Public keys are missing"),
        (BACKEND, {"jwks_uri": "https://lab.example/keys"}, META, "Public keys are missing"),
        (BACKEND, {"jwks": None, "jwks_uri": "http://10.0.0.1/"}, META, "The URL of the keys"),
        (BACKEND, {"jwks": "x"}, META, "Not a JSON Web Key Set"),
        (BACKEND, {"jwks": {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}}, META, "private key"),
        (BACKEND, {"jwks": PRIVATE}, META, "contains a private key, which must stay secret"),
    ],
)
def test_what_cannot_be_is_refused_with_the_error_of_the_rfc(app, usual, changes, error, words):
    before = _count(app)
    assert_refused(send(app, usual | changes), error, words)
    assert _count(app) == before


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"[" * 50_000, "application/json", 400),
        (b'{"client_name": "a", "client_name": "b"}', "application/json", 400),
        (json.dumps(PUBLIC).encode(), "application/x-www-form-urlencoded", 400),
        (json.dumps(PUBLIC).encode(), "multipart/form-data; boundary=x", 400),
        # What a form of a foreign page can send through a browser in the clinic's own network.
        (json.dumps(PUBLIC).encode(), "text/plain", 400),
        (json.dumps(PUBLIC).encode() + b" " * MOST_BYTES, "application/json", 413),
    ],
)
def test_what_is_no_json_object_of_some_size_is_refused(app, body, kind, status):
    before = _count(app)
    assert_refused(send(app, body, content_type=kind), META, "", status)
    assert _count(app) == before


def test_no_other_origin_may_register_through_a_browser(app):
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    preflight = app.test_client().options(PATH, headers=headers)
    answer = send(app, PUBLIC, headers=headers)
    for one in (preflight, answer):
        assert "Access-Control-Allow-Origin" not in one.headers


def test_what_waits_gets_no_token_and_nobody_to_sign_in(app, monkeypatch):
    monkeypatch.setattr(key_sets, "fetch_keys", lambda *_, **__: pytest.fail("fetched"))
    kept = BACKEND | {"jwks": None, "jwks_uri": "https://lab.example/keys"}
    for content, key in ((PUBLIC, None), (CONFIDENTIAL, None), (BACKEND, KEY), (kept, KEY)):
        told = registered(app, content)
        program = Program(told["client_id"], told.get("client_secret"), key)
        flow = Flow(app, program, add_person(app, CLINICIAN))
        for path in ("/oauth/token", "/oauth/introspect", "/oauth/revoke"):
            form = {"grant_type": "client_credentials", "scope": "system/*.rs", "token": "x"}
            assert_error(
                flow.ask(path, **form),
                "unauthorized_client",
                "An administrator has not approved the client yet.",
            )
        refusals = rows(app, select(Refusal.reasons).where(Refusal.client_id == program.client_id))
        waits = "unauthorized_client: An administrator has not approved the client yet."
        assert [waits] in [one.reasons for one in refusals]
        page = Browser(app).get("/oauth/authorize", query_string=flow.parameters("openid"))
        assert page.status == 400
        assert "has not been approved by an administrator of this server yet" in page.words


def test_once_approved_it_works_with_what_it_was_told(app):
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


def test_from_one_address_come_some_an_hour_by_whichever_way(make_app):
    app = make_app(seed=False, dynamic_registration=True)
    for _ in range(PER_HOUR):
        registered(app, PUBLIC, address="192.0.2.1")
    answer = send(app, PUBLIC, "192.0.2.1")
    assert_refused(answer, "temporarily_unavailable", "Too many registrations", 429)
    assert 3500 < int(answer.headers["Retry-After"]) <= 3600
    page = Browser(app, "192.0.2.1").get("/apps/register?kind=public")
    assert page.submit("Register app", name="X", redirect_uris=REDIRECT).status in (400, 429)
    registered(app, PUBLIC, address="192.0.2.2")
    assert _count(app) == PER_HOUR + 1


def test_so_many_wait_and_the_old_ones_make_room(make_app):
    app = make_app(seed=False, dynamic_registration=True)
    now = int(time.time())
    row = {"name": "X", "kind": "public", "auth_method": NONE, "scope": "openid"}
    row |= {"disabled": False, "registered_at": now}
    alter(app, insert(Client).values([row | {"client_id": f"w{n}"} for n in range(MOST_WAITING)]))
    answer = send(app, PUBLIC)
    assert_refused(answer, "temporarily_unavailable", "already waiting for approval", 503)
    assert answer.headers["Retry-After"]
    alter(app, insert(Origin).values(client_id="w1", address="192.0.2.1", by_itself=True))
    set_client(app, Program("w1"), registered_at=now - WAITING_SECONDS - 5)
    registered(app, PUBLIC)
    assert rows(app, select(Client).where(Client.client_id == "w1")) == []
    assert rows(app, select(Origin).where(Origin.client_id == "w1")) == []
    with app.app_context():
        (entry,) = entries(kind=ADMINISTRATION, event="app-expired", limit=5)
    assert entry.about == "app/w1"


JSON = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
        st.sampled_from(
            [
                *(REDIRECT, "none", "private_key_jwt", "code", "authorization_code", "RSA", "EC"),
                *("P-384", "sig", "AQAB", "openid", "system/*.rs", "x" * 300, "\ud800", "\0"),
            ]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["keys", "kty", "crv", "n", "e", "x", "y", "kid", "use", "alg", "d"]),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=8,
)
NAMES = (*PUBLIC, *BACKEND, "jwks_uri", "contacts", "initiate_login_uri", "software_statement")


@settings(max_examples=sample(200, 5_000))
@given(
    usual=st.sampled_from([PUBLIC, CONFIDENTIAL, BACKEND]),
    changes=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
    key=st.none() | st.dictionaries(st.sampled_from([*KEY.as_dict(private=False), "alg"]), JSON),
)
def test_whatever_a_client_says_is_registered_or_refused(app, usual, changes, key):
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


def _count(app: Flask) -> int:
    waits = select(func.count()).select_from(Client).where(Client.approved_at.is_(None))
    ((number,),) = rows(app, waits)
    return int(number)
