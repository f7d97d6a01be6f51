"""Anybody registers an app on the page, and an administrator approves it. Issue 4."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from joserfc.jwk import RSAKey
from sqlalchemy import func, insert, select

from fhirapp.auth.clients.administration import MOST_WAITING, PER_HOUR, WAITING_SECONDS
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, NONE, PATIENT, SIGNED, Client, digest
from tests.support.app_pages import (
    BACKEND,
    JWKS,
    KEY,
    REDIRECT,
    USUAL,
    client_of,
    code_of,
    register,
)
from tests.support.authorizing import Program, alter, rows, set_client
from tests.support.browsing import Browser, add_person


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that these tests register clients in."""
    return make_app()


def test_the_kinds_are_told_in_sentences(app):
    page = Browser(app).get("/apps/register")
    assert page.heading == "Register an app"
    assert sorted(page.offered.values()) == [
        "/apps/register?kind=backend",
        "/apps/register?kind=confidential",
        "/apps/register?kind=public",
    ]


@pytest.mark.parametrize("kind", USUAL)
def test_anybody_registers_an_app_that_waits_for_approval(app, kind):
    page = register(app, kind, developer="Riverside", contact="dev@riverside.example")
    assert (page.heading, page.status) == (USUAL[kind]["name"], 200)
    assert "waiting for approval" in page.words
    assert "Save the address of this page." in page.words
    assert "Getting started" not in page.words
    client = client_of(app, page)
    assert (client.kind, client.approved_at, client.disabled) == (kind, None, False)
    assert (client.developer, client.contact) == ("Riverside", "dev@riverside.example")
    assert client.scope == " ".join(USUAL[kind]["scope"])
    assert client.client_id in page.words
    assert client.owner_digest == digest(code_of(page))


def test_what_is_typed_is_taken_as_it_is_meant(app):
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


@pytest.mark.parametrize(
    ("kind", "typed", "message"),
    [
        ("public", {"name": " "}, "The name must have 1 to 100 printable characters."),
        ("public", {"name": "a\u202eb"}, "The name must have 1 to 100 printable characters."),
        ("public", {"redirect_uris": ""}, "An app needs at least one redirect URI."),
        ("public", {"redirect_uris": "http://app.example/"}, "must begin with https://"),
        ("public", {"redirect_uris": "javascript:alert(1)"}, "must begin with https://"),
        ("public", {"redirect_uris": "loopback"}, "must begin with https://"),
        (
            "public",
            {"scope": []},
            "No scopes: select or enter at least one, for example",
        ),
        ("public", {"other_scopes": "system/*.rs"}, "cannot have the scope system/*.rs"),
        (
            "public",
            {"other_scopes": "patient/Nonsense.rs"},
            "cannot have the scope patient/Nonsense.rs",
        ),
        ("public", {"launch_uri": "http://app.example/"}, "The launch URI"),
        ("confidential", {"jwks": JWKS}, "Keys can only be used with private_key_jwt."),
        ("confidential", {"auth_method": NONE}, "A confidential client must authenticate with"),
        ("confidential", {"auth_method": SIGNED}, "Public keys are missing"),
        ("backend", {"jwks": ""}, "Public keys are missing"),
        ("backend", {"jwks": "{"}, "The keys are not JSON. Enter a JSON Web Key Set."),
        ("backend", {"jwks": "[" * 20_000}, "The keys are not JSON. Enter a JSON Web Key Set."),
        ("backend", {"jwks": "[5]"}, "Not a JSON Web Key Set"),
        ("backend", {"jwks": '{"keys": [5]}'}, "Not a JSON Web Key Set"),
        ("backend", {"jwks": '{"keys": [{"kty": "EC", "crv": "P-256"}]}'}, "must contain RSA keys"),
        ("backend", {"jwks_uri": "https://app.example/jwks.json"}, "Public keys are missing"),
        ("backend", {"jwks": "", "jwks_uri": "http://app.example/"}, "The URL of the keys"),
    ],
)
def test_what_cannot_be_is_told_at_the_top_and_stays_as_typed(app, kind, typed, message):
    form = USUAL[kind] | typed
    page = register(app, kind, **typed)
    assert page.status == 400
    assert message in page.words
    assert page.words.index(message) < page.words.index("Authentication")
    fields = page.form("Register app").fields
    for name in ("name", "redirect_uris", "jwks", "jwks_uri", "launch_uri", "other_scopes"):
        if name in form:
            assert fields[name].split() == form[name].split()
    assert fields.getlist("scope") == form["scope"]


@pytest.mark.parametrize(
    "given",
    [
        json.dumps({"keys": [KEY.as_dict(private=True)]}),
        json.dumps(RSAKey.generate_key(2048).as_dict(private=True)),
        KEY.as_pem(private=True).decode(),
    ],
    ids=["set", "key", "PEM"],
)
def test_a_private_key_is_refused_and_not_shown_again(app, given):
    page = register(app, "backend", jwks=given)
    assert page.status == 400
    assert "The keys contain a private key, which must stay secret" in page.words
    assert "It was not stored" in page.words
    assert page.form("Register app").fields["jwks"].strip() == ""
    assert given[20:60] not in page.response.text


@pytest.mark.parametrize(
    ("field", "length"),
    [("name", 2001), ("redirect_uris", 12_001), ("jwks", 50_001), ("other_scopes", 2001)],
)
def test_a_field_that_is_too_long_is_refused(app, field, length):
    form = _form(app, "confidential")
    assert Browser(app).post("/apps/register", form | {field: "x" * length}).status in (400, 413)
    page = register(app, "confidential", **{field: "x" * length})
    assert page.status == 413


@pytest.mark.parametrize("kind", ["", "operator", "nonsense", "<b>"])
def test_a_kind_that_is_none_is_asked_for_again(app, kind):
    browser = Browser(app)
    page = browser.get("/apps/register", query_string={"kind": kind})
    assert page.heading == "Register an app"
    form = browser.get("/apps/register?kind=public").form("Register app").fields
    form["kind"] = kind
    assert browser.post("/apps/register", form).status == 400


def test_a_form_of_another_site_registers_nothing(app):
    before = _count(app)
    assert Browser(app).post("/apps/register", _form(app, "public")).status == 400
    assert _count(app) == before


def test_what_an_app_says_of_itself_is_no_markup(app):
    name = "<script>alert(1)</script>"
    page = register(app, "public", name=name, developer="<b>x</b>")
    assert page.heading == name
    assert "<script" not in page.response.text
    page = register(app, "public", name=name, redirect_uris='"><i>')
    assert page.status == 400
    assert "<script" not in page.response.text
    assert "<i>" not in page.response.text


def test_from_one_address_come_some_an_hour(make_app):
    app = make_app(seed=False)
    browser = Browser(app)
    for _ in range(PER_HOUR):
        assert register(app, "public", browser).status == 200
    page = register(app, "public", browser)
    assert page.status == 429
    assert "Too many registrations from your address. Wait 60 minutes." in page.words
    assert page.form("Register app").fields["name"] == "Allergy Card"
    assert register(app, "public").status == 200
    assert _count(app, Client.approved_at.is_(None)) == PER_HOUR + 1


def test_so_many_wait_and_no_more_until_one_is_approved_or_old(make_app):
    app = make_app(seed=False)
    now = int(time.time())
    row = {"name": "X", "kind": "public", "auth_method": NONE, "scope": "openid"}
    row |= {"disabled": False, "registered_at": now}
    alter(app, insert(Client).values([row | {"client_id": f"w{n}"} for n in range(MOST_WAITING)]))
    page = register(app, "public")
    assert page.status == 400
    assert f"{MOST_WAITING} apps are already waiting for approval" in page.words
    set_client(app, Program("w0"), approved_at=now)
    assert register(app, "public").status == 200
    assert register(app, "public").status == 400
    set_client(app, Program("w1"), registered_at=now - WAITING_SECONDS - 5)
    assert register(app, "public").status == 200
    assert rows(app, select(Client).where(Client.client_id == "w1")) == []


def test_an_administrators_own_are_approved_at_once(app):
    browser = Browser(app)
    browser.sign_in(add_person(app, ADMINISTRATOR))
    form = browser.get("/apps/register?kind=backend")
    assert "You are an administrator, so the app is approved immediately." in form.words
    page = form.submit("Register app", **BACKEND)
    assert page.path.startswith("/admin/clients/")
    assert "The app is registered and approved." in page.words


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_own_wait(app, role):
    browser = Browser(app)
    browser.sign_in(add_person(app, role))
    assert "waiting for approval" in register(app, "public", browser).words


def _form(app: Flask, kind: str) -> dict[str, Any]:
    """Return a form that another browser was shown."""
    return dict(Browser(app).get(f"/apps/register?kind={kind}").form("Register app").fields)


def _count(app: Flask, *conditions: Any) -> int:
    ((count,),) = rows(app, select(func.count()).select_from(Client).where(*conditions))
    return int(count)
