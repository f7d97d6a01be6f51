"""The page of an app's owner: its state, its secret, what a test of it tells. Issue 4."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.clients import administration
from fhirapp.auth.clients.administration import TESTS_PER_HOUR
from fhirapp.auth.clients.registration import owner_code
from fhirapp.db import writing
from tests.support.app_pages import (
    JWKS,
    approved,
    client_of,
    code_of,
    form_token_of,
    register,
    secret_of,
)
from tests.support.authorizing import Program, add_program, set_client
from tests.support.browsing import Browser
from tests.support.key_server import ok, reply, running


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that these tests register clients in."""
    return make_app()


def test_an_address_that_is_nobodys_is_like_any_other(app):
    browser = Browser(app)
    form = {"form_token": form_token_of(browser.get("/apps/register?kind=public"))}
    known = code_of(register(app, "public"))
    pages = [
        browser.get(f"/apps/{code}")
        for code in ("x" * 43, "nobody", f"{known[:-1]}~", known.upper(), "é", "%00", "x" * 3000)
    ]
    pages += [browser.post(f"/apps/{'x' * 43}/{word}", form) for word in ("test", "secret")]
    assert {(page.status, page.words) for page in pages} == {(404, pages[0].words)}
    assert pages[0].heading == "Page not found"


def test_the_owners_page_tells_no_other_site_its_address(app):
    page = register(app, "public")
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-store"


def test_an_app_that_was_switched_off_is_told_so(app):
    page = approved(app, "public")
    assert "This app is approved. See below how to get started." in page.words
    with app.app_context(), writing() as connection:
        administration.set_disabled(connection, client_of(app, page).client_id, disabled=True)
    page = page.browser.get(page.path)
    assert "disabled this app" in page.words
    assert "Getting started" not in page.words


def test_a_secret_is_made_once_it_is_approved_and_shown_once(app):
    page = register(app, "confidential")
    form = {"form_token": form_token_of(page)}
    assert page.browser.post(f"{page.path}/secret", form).status == 409
    page = approved(app, "confidential")
    first = secret_of(page.submit("Create secret"))
    page = page.browser.get(page.path)
    assert first not in page.response.text
    second = secret_of(page.submit("Create a new secret"))
    client = client_of(app, page)
    assert client.check_client_secret(second)
    assert not client.check_client_secret(first)


@pytest.mark.parametrize("kind", ["public", "backend"])
def test_an_app_without_a_secret_gets_none(app, kind):
    page = approved(app, kind)
    assert "Client secret" not in page.words
    form = {"form_token": form_token_of(page)}
    assert page.browser.post(f"{page.path}/secret", form).status == 409
    assert client_of(app, page).secret_digest is None


# What a test of a client finds: how the client is, and what is said of it.
FOUND = [
    ("public", {}, {}, "To fix: An administrator has not approved it yet: it gets no tokens."),
    ("public", {}, {"disabled": True}, "To fix: An administrator disabled it"),
    ("public", {}, {"approved_at": 1}, "No problems found in the registration."),
    ("confidential", {}, {"approved_at": 1}, "To fix: It has no secret yet."),
    (
        "confidential",
        {},
        {"secret_digest": b"x"},
        "It has a secret; only its SHA-256 is kept here.",
    ),
    ("backend", {}, {}, "Key: EC (ES384), kid ec"),
    (
        "backend",
        {},
        {"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}},
        "To fix: Its keys cannot be used: The key set must contain RSA keys for RS384",
    ),
    (
        "backend",
        {"jwks": "", "jwks_uri": "https://app.example/jwks.json"},
        {},
        "To fix: Its keys cannot be used: their address is fetched after an administrator",
    ),
    (
        "public",
        {"redirect_uris": "http://localhost:3000/cb"},
        {},
        "http://localhost:3000/cb works only in a browser on the machine that runs the app",
    ),
    (
        "public",
        {},
        {"scope": "patient/Nonsense.rs"},
        "To fix: patient/Nonsense.rs is never granted: this server does not serve the type or",
    ),
    (
        "public",
        {},
        {"scope": "patient/Binary.rs?date=2024"},
        "To fix: patient/Binary.rs?date=2024 is never granted: this server does not serve the type",
    ),
    (
        "public",
        {},
        {"scope": "system/*.rs"},
        "To fix: system/*.rs is never granted: a public client gets no system/ scopes",
    ),
    (
        "public",
        {},
        {"scope": "nonsense"},
        "To fix: nonsense is never granted: this server does not know it",
    ),
    (
        "public",
        {"scope": ["fhirUser", "patient/*.rs"]},
        {},
        "To fix: fhirUser has no effect without openid.",
    ),
    (
        "public",
        {"scope": ["launch", "patient/*.rs", "user/*.rs"]},
        {},
        "A user with the role clinician can allow: launch patient/*.rs user/*.rs",
    ),
    (
        "public",
        {"scope": ["launch", "patient/*.rs", "user/*.rs"]},
        {},
        "A user with the role patient can allow: patient/*.rs",
    ),
    (
        "public",
        {"scope": ["launch", "user/*.rs"]},
        {},
        "A user with the role patient cannot allow any records.",
    ),
]


@pytest.mark.parametrize(("kind", "filled", "changes", "found"), FOUND)
def test_a_test_of_the_client_tells_what_is_wrong(app, kind, filled, changes, found):
    page = register(app, kind, **filled)
    if changes:
        set_client(app, Program(client_of(app, page).client_id), **changes)
    page = page.submit("Test this app")
    assert page.status == 200
    assert found in page.words


def test_a_test_of_the_client_tells_the_last_refusal(app):
    program = add_program(app)
    with app.app_context(), writing() as connection:
        code = owner_code(connection, program.client_id)
    form = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": program.client_id}
    assert app.test_client().post("/oauth/token", data=form).status_code == 400
    page = Browser(app).get(f"/apps/{code}").submit("Test this app")
    assert re.search(r"Last refused request, .* UTC: invalid_grant: ", page.words)


@pytest.fixture(scope="module")
def reaching(make_app: Callable[..., Flask]) -> Flask:
    """An app that may ask private addresses."""
    return make_app(seed=False, fetch_private=True)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (ok(json.loads(JWKS)), "Key: EC (ES384), kid ec"),
        (
            reply("404 Not Found"),
            "To fix: Its keys cannot be used: none could be fetched from http://",
        ),
        (ok({"keys": []}), "To fix: Its keys cannot be used: none could be fetched from http://"),
    ],
    ids=["keys", "404", "no keys"],
)
def test_the_address_of_the_keys_is_asked_once_it_is_approved(reaching, answer, found):
    with running() as server:
        server.answer = answer
        page = register(reaching, "backend", jwks="", jwks_uri=server.url)
        page.submit("Test this app")
        assert len(server.asked) == 0
        set_client(reaching, Program(client_of(reaching, page).client_id), approved_at=1)
        assert found in page.submit("Test this app").words
        assert len(server.asked) == 1


def test_what_is_found_at_a_private_address_is_told_to_the_log_alone(reaching, caplog):
    page = register(reaching, "backend", jwks="", jwks_uri="http://localhost:1/jwks.json")
    set_client(reaching, Program(client_of(reaching, page).client_id), approved_at=1)
    page = page.submit("Test this app")
    assert (
        "none could be fetched from http://localhost:1/jwks.json; see the server's log."
        in page.words
    )
    assert "refused" in caplog.text


def test_private_addresses_are_not_asked_unless_the_operator_allows_it(app):
    with running() as server:
        server.answer = ok(json.loads(JWKS))
        page = register(app, "backend", jwks="", jwks_uri="https://localhost/jwks.json")
        values = {"approved_at": 1, "jwks_uri": server.url.replace("http:", "https:")}
        set_client(app, Program(client_of(app, page).client_id), **values)
        page = page.submit("Test this app")
        assert "an address that is not public" in page.words
        assert len(server.asked) == 0


def test_a_client_is_tested_so_often_an_hour(app):
    page = register(app, "public")
    for _ in range(TESTS_PER_HOUR):
        assert page.submit("Test this app").status == 200
    refused = page.submit("Test this app")
    assert refused.status == 429
    assert "This app was tested too often. Wait 60 minutes." in refused.words
