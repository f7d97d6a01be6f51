"""Apps that anybody registers on the page, and the page of an app's owner.

Which registrations are refused is tested in tests/auth/test_registration.py.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from joserfc.jwk import RSAKey
from sqlalchemy import func, insert, select

from fhirapp.auth.clients import administration
from fhirapp.auth.clients.administration import (
    MOST_WAITING,
    PER_HOUR,
    TESTS_PER_HOUR,
    WAITING_SECONDS,
)
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, NONE, PATIENT, SIGNED, Client, digest
from fhirapp.db import writing
from tests.support.app_pages import (
    BACKEND,
    JWKS,
    KEY,
    REDIRECT,
    USUAL,
    approved,
    client_of,
    code_of,
    register,
    secret_of,
)
from tests.support.authorizing import Program, alter, rows, set_client
from tests.support.browsing import Browser, Page, add_person
from tests.support.key_server import ok, reply, running


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that these tests register clients in."""
    return make_app(seed=False)


def set_app(app: Flask, page: Page, **values: Any) -> None:
    """Change the registration of the app whose owner's page this is."""
    set_client(app, Program(client_of(app, page).client_id), **values)


def count_of(app: Flask, *conditions: Any) -> int:
    ((count,),) = rows(app, select(func.count()).select_from(Client).where(*conditions))
    return int(count)


@pytest.mark.parametrize("kind", USUAL)
def test_registered_app_waits_for_approval(app, kind):
    paths = Browser(app).get("/apps/register").offered.values()
    assert f"/apps/register?kind={kind}" in paths
    page = register(app, kind, developer="Riverside", contact="dev@riverside.example")
    assert (page.heading, page.status) == (USUAL[kind]["name"], 200)
    assert "waiting for approval" in page.words
    assert "Getting started" not in page.words
    client = client_of(app, page)
    assert (client.kind, client.approved_at, client.disabled) == (kind, None, False)
    assert (client.developer, client.contact) == ("Riverside", "dev@riverside.example")
    assert client.scope == " ".join(USUAL[kind]["scope"])
    assert client.client_id in page.words
    assert client.owner_digest == digest(code_of(page))
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-store"


def test_fields_of_the_form_are_normalized(app):
    page = register(
        app,
        "confidential",
        name="  Portal ",
        auth_method=SIGNED,
        redirect_uris=f" {REDIRECT}\r\n\r\ncom.example.app:/cb\r\n",
        launch_uri="https://app.example/launch",
        scope=["openid", "patient/*.rs"],
        other_scopes=" patient/DocumentReference.rs?category=clinical-note  openid ",
        jwks_uri="https://app.example/jwks.json",
    )
    client = client_of(app, page)
    assert (client.name, client.auth_method) == ("Portal", SIGNED)
    assert client.redirect_uris == [REDIRECT, "com.example.app:/cb"]
    assert client.launch_uri == "https://app.example/launch"
    assert client.scope == "openid patient/*.rs patient/DocumentReference.rs?category=clinical-note"
    assert (client.jwks, client.jwks_uri) == (None, "https://app.example/jwks.json")


def test_refused_registration_stays_as_typed(app):
    """One refusal of each kind of field; the second is a page's own rule."""
    before = count_of(app)
    for kind, typed in (
        ("public", {"name": "a\u202eb"}),
        ("public", {"scope": []}),
        ("public", {"launch_uri": "http://app.example/", "redirect_uris": '"><i>'}),
        ("confidential", {"auth_method": NONE}),
        ("backend", {"jwks": "[" * 20_000}),
        ("backend", {"jwks_uri": "https://app.example/jwks.json"}),
    ):
        page, form = register(app, kind, **typed), USUAL[kind] | typed
        assert (page.status, len(page.alerts)) == (400, 1), (kind, typed)
        assert "<i>" not in page.response.text
        fields = page.form_to("/register").fields
        for name in ("name", "redirect_uris", "jwks", "jwks_uri", "launch_uri", "other_scopes"):
            assert fields.get(name, "").split() == form.get(name, fields.get(name, "")).split()
        assert fields.getlist("scope") == form["scope"]
    for name, length in (("name", 2001), ("redirect_uris", 12_001), ("jwks", 50_001)):
        assert register(app, "confidential", **{name: "x" * length}).status == 413
    # A kind that does not exist.
    for kind in ("", "operator", "<b>"):
        browser = Browser(app)
        page = browser.get("/apps/register", query_string={"kind": kind})
        assert "/apps/register?kind=public" in page.offered.values()
        sent = {**USUAL["public"], "kind": kind, "form_token": page.token}
        assert browser.post("/apps/register", sent).status == 400
    assert count_of(app) == before


def test_keys_are_ignored_where_the_app_has_a_secret(app):
    page = register(app, "confidential", jwks=json.dumps(JWKS), jwks_uri="https://a.example/jwks")
    client = client_of(app, page)
    assert (client.jwks, client.jwks_uri) == (None, None)


def test_private_key_is_refused_and_not_shown_again(app):
    for given in (
        json.dumps({"keys": [KEY.as_dict(private=True)]}),
        json.dumps(RSAKey.generate_key(2048).as_dict(private=True)),
        KEY.as_pem(private=True).decode(),
    ):
        page = register(app, "backend", jwks=given)
        assert page.status == 400
        assert "private key, which must stay secret" in page.words
        assert page.form_to("/register").fields["jwks"].strip() == ""
        assert given[20:60] not in page.response.text


def test_registrations_from_one_address_and_those_that_wait_are_limited(make_app):
    app = make_app(seed=False)
    browser, now = Browser(app), int(time.time())
    for _ in range(PER_HOUR):
        assert register(app, "public", browser).status == 200
    page = register(app, "public", browser)
    assert page.status == 429
    assert page.form_to("/register").fields["name"] == "Allergy Card"
    assert register(app, "public").status == 200
    waiting = count_of(app, Client.approved_at.is_(None))
    assert waiting == PER_HOUR + 1
    row = {"name": "X", "kind": "public", "auth_method": NONE, "scope": "openid"}
    row |= {"disabled": False, "registered_at": now}
    ids = [f"w{n}" for n in range(MOST_WAITING - waiting)]
    alter(app, insert(Client).values([row | {"client_id": client_id} for client_id in ids]))
    assert register(app, "public").status == 400
    # Until one is approved, or old.
    set_client(app, Program("w0"), approved_at=now)
    assert register(app, "public").status == 200
    assert register(app, "public").status == 400
    set_client(app, Program("w1"), registered_at=now - WAITING_SECONDS - 5)
    assert register(app, "public").status == 200
    assert count_of(app, Client.client_id == "w1") == 0


def test_app_of_an_administrator_alone_is_approved_at_once(app):
    browser = Browser(app).resume(add_person(app, ADMINISTRATOR))
    page = register(app, "backend", browser, **BACKEND)
    assert page.path.startswith("/admin/clients/")
    assert page.path.endswith("?done=registered")
    for role in (CLINICIAN, PATIENT):
        browser = Browser(app).resume(add_person(app, role))
        assert client_of(app, register(app, "public", browser)).approved_at is None


def test_address_of_nobodys_app_is_not_told_from_another(app):
    browser = Browser(app)
    known = code_of(register(app, "public"))
    unknown = ("x" * 43, "nobody", f"{known[:-1]}~", known.upper(), "é", "%00", "x" * 3000)
    pages = [browser.get(f"/apps/{code}") for code in unknown]
    pages += [browser.post_with_token(f"/apps/{'x' * 43}/{word}") for word in ("test", "secret")]
    assert {(page.status, page.words) for page in pages} == {(404, pages[0].words)}


def test_owner_is_shown_how_to_start_and_the_last_refusal(app):
    page = approved(app, "public")
    assert "Getting started" in page.words
    client_id = client_of(app, page).client_id
    form = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": client_id}
    assert app.test_client().post("/oauth/token", data=form).status_code == 400
    words = page.send("/test").words
    assert re.search(r"Last refused request, .* UTC: invalid_grant: ", words)
    with app.app_context(), writing() as connection:
        administration.set_disabled(connection, client_id, disabled=True)
    page = page.browser.get(page.path)
    assert ("disabled this app" in page.words, "Getting started" in page.words) == (True, False)


def test_secret_is_created_after_approval_and_shown_once(app):
    page = register(app, "confidential")
    assert page.browser.post_with_token(f"{page.path}/secret").status == 409
    page = approved(app, "confidential")
    first = secret_of(page.send("/secret"))
    page = page.browser.get(page.path)
    assert first not in page.response.text
    second = secret_of(page.send("/secret"))
    client = client_of(app, page)
    assert [client.check_client_secret(secret) for secret in (first, second)] == [False, True]
    for kind in ("public", "backend"):
        page = approved(app, kind)
        assert f"{page.path}/secret" not in page.actions
        assert page.browser.post_with_token(f"{page.path}/secret").status == 409
        assert client_of(app, page).secret_digest is None


LAUNCH = ["launch", "patient/*.rs", "user/*.rs"]
NEVER = "is never granted: "
# What a test of an app finds: its kind, the form, how it is changed, what is said.
FINDINGS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("public", {}, {}, "To fix: An administrator has not approved it yet"),
    ("public", {}, {"disabled": True}, "To fix: An administrator disabled it"),
    ("public", {}, {"approved_at": 1}, "No problems found in the registration."),
    ("confidential", {}, {"approved_at": 1}, "To fix: It has no secret yet."),
    ("confidential", {}, {"secret_digest": b"x"}, "It has a secret; only its SHA-256 is kept"),
    ("backend", {}, {}, "Key: EC (ES384), kid ec"),
    ("backend", {}, {"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}}, "must contain RSA keys"),
    (
        "backend",
        {"jwks": "", "jwks_uri": "https://app.example/jwks.json"},
        {},
        "To fix: Its keys cannot be used: their address is fetched after an administrator",
    ),
    ("public", {"redirect_uris": "http://localhost:3000/cb"}, {}, "works only in a browser on the"),
    ("public", {}, {"scope": "patient/Nonsense.rs"}, f"{NEVER}this server does not serve the type"),
    ("public", {}, {"scope": "patient/Binary.rs?date=2024"}, f"date=2024 {NEVER}this server does"),
    ("public", {}, {"scope": "system/*.rs"}, f"{NEVER}a public client gets no system/ scopes"),
    ("public", {}, {"scope": "nonsense"}, f"{NEVER}this server does not know it"),
    (
        "public",
        {"scope": ["fhirUser", "patient/*.rs"]},
        {},
        "fhirUser has no effect without",
    ),
    ("public", {"scope": LAUNCH}, {}, "role clinician can allow: launch patient/*.rs user/*.rs"),
    ("public", {"scope": LAUNCH}, {}, "A user with the role patient can allow: patient/*.rs"),
    ("public", {"scope": ["launch", "user/*.rs"]}, {}, "role patient cannot allow any records."),
]


def test_test_of_an_app_says_what_is_wrong(app):
    found = []
    for kind, filled, changes, words in FINDINGS:
        page = register(app, kind, **filled)
        if changes:
            set_app(app, page, **changes)
        page = page.send("/test")
        found.append((kind, filled, changes, words if words in page.words else page.words))
    assert found == FINDINGS


def test_test_of_an_app_fetches_its_keys_after_approval(make_app, caplog):
    """Which addresses are fetched is tested in tests/auth/test_fetch.py."""
    app = make_app(seed=False, fetch_private=True)
    not_fetched = "To fix: Its keys cannot be used: none could be fetched from http://"
    with running() as server:
        for answer, words in (
            (ok(json.loads(JWKS)), "Key: EC (ES384), kid ec"),
            (reply("404 Not Found"), not_fetched),
            (ok({"keys": []}), not_fetched),
        ):
            server.answer, before = answer, len(server.asked)
            page = register(app, "backend", jwks="", jwks_uri=server.url)
            page.send("/test")
            assert len(server.asked) == before
            set_app(app, page, approved_at=1)
            assert words in page.send("/test").words
            assert len(server.asked) == before + 1
    # Why it failed is told to the log alone.
    page = register(app, "backend", jwks="", jwks_uri="http://localhost:1/jwks.json")
    set_app(app, page, approved_at=1)
    page = page.send("/test")
    assert "http://localhost:1/jwks.json; see the server's log." in page.words
    assert ("refused" in caplog.text, "refused" in " ".join(page.alerts)) == (True, False)


def test_tests_of_an_app_are_limited(app):
    page = register(app, "public")
    statuses = [page.send("/test").status for _ in range(TESTS_PER_HOUR + 1)]
    assert statuses == [*[200] * TESTS_PER_HOUR, 429]
