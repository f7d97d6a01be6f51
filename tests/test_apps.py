"""Anybody registers an app; its owner begins, tests it and makes its secret. Issue 4."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from joserfc.jwk import ECKey, RSAKey
from sqlalchemy import func, insert, select
from werkzeug.serving import WSGIRequestHandler, make_server

from fhirapp.auth import clients
from fhirapp.auth.applications import (
    MOST_WAITING,
    PER_HOUR,
    TESTS_PER_HOUR,
    WAITING_SECONDS,
)
from fhirapp.auth.models import Client, digest
from fhirapp.auth.models.user import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.auth.registration import BASIC, NONE, SIGNED, owner_code
from fhirapp.db import writing
from fhirapp.web.first_steps import MAKE_KEYS
from tests.authorizing import Program, add_program, alter, rows, set_client
from tests.browsing import Browser, Page, add_person
from tests.helpers import BASE_URL
from tests.key_server import ok, reply, running
from tests.test_readme import runs_examples

KEY = ECKey.generate_key("P-384", {"kid": "ec", "use": "sig", "alg": "ES384"})
JWKS = json.dumps({"keys": [KEY.as_dict(private=False)]})
REDIRECT = "https://app.example/callback"
APP = {
    "name": "Allergy Card",
    "redirect_uris": REDIRECT,
    "scope": ["launch/patient", "patient/AllergyIntolerance.rs"],
}
BACKEND = {"name": "Export", "jwks": JWKS, "scope": ["system/*.rs"]}
USUAL: dict[str, dict[str, Any]] = {
    "public": APP,
    "confidential": {**APP, "auth_method": BASIC},
    "backend": BACKEND,
}


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that these tests register clients in."""
    return make_app()


def register(app: Flask, kind: str, browser: Browser | None = None, **filled: Any) -> Page:
    """Fill in the form for a kind of client, as usual but for what is given."""
    form = (browser or Browser(app)).get(f"/apps/register?kind={kind}")
    return form.submit("Register", **(USUAL[kind] | filled))


def code_of(page: Page) -> str:
    found = re.fullmatch(r"/apps/([A-Za-z0-9_-]{43})", page.path)
    assert found is not None, page.words
    return found[1]


def client_of(app: Flask, page: Page) -> Client:
    """Return the client whose owner's page this is."""
    mine = select(Client).where(Client.owner_digest == digest(code_of(page)))
    ((found,),) = rows(app, mine)
    return found


def approved(app: Flask, kind: str, **filled: Any) -> Page:
    """Register a client, and approve it; return its owner's page."""
    page = register(app, kind, **filled)
    client_id = client_of(app, page).client_id
    with app.app_context(), writing() as connection:
        clients.approve(connection, client_id)
    return page.browser.get(page.path)


def test_the_kinds_are_told_in_sentences(app):
    page = Browser(app).get("/apps/register")
    assert page.heading == "Register an app"
    assert sorted(page.links.values()) == [
        "/account",
        "/apps/register?kind=backend",
        "/apps/register?kind=confidential",
        "/apps/register?kind=public",
    ]


@pytest.mark.parametrize("kind", USUAL)
def test_anybody_registers_an_app_that_waits_for_approval(app, kind):
    page = register(app, kind, developer="Riverside", contact="dev@riverside.example")
    assert (page.heading, page.status) == (USUAL[kind]["name"], 200)
    assert "waits for approval" in page.words
    assert "Keep this address." in page.words
    assert "How to begin" not in page.words
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
        ("public", {"name": " "}, "The name has 1 to 100 printable characters."),
        ("public", {"name": "a\u202eb"}, "The name has 1 to 100 printable characters."),
        ("public", {"redirect_uris": ""}, "An app needs at least one redirect URI."),
        ("public", {"redirect_uris": "http://app.example/"}, "must begin with https://"),
        ("public", {"redirect_uris": "javascript:alert(1)"}, "must begin with https://"),
        ("public", {"redirect_uris": "loopback"}, "must begin with https://"),
        ("public", {"scope": []}, "Not a scope that a public client can have: (none)"),
        ("public", {"other_scopes": "system/*.rs"}, "can have: system/*.rs"),
        ("public", {"other_scopes": "patient/Nonsense.rs"}, "can have: patient/Nonsense.rs"),
        ("public", {"launch_uri": "http://app.example/"}, "The launch URI"),
        ("confidential", {"jwks": JWKS}, "Keys go with private_key_jwt."),
        ("confidential", {"auth_method": NONE}, "A confidential client proves who it is by"),
        ("confidential", {"auth_method": SIGNED}, "Give its public keys"),
        ("backend", {"jwks": ""}, "Give its public keys"),
        ("backend", {"jwks": "{"}, "The keys are not JSON."),
        ("backend", {"jwks": "[" * 20_000}, "The keys are not JSON."),
        ("backend", {"jwks": "[5]"}, "Not a JSON Web Key Set"),
        ("backend", {"jwks": '{"keys": [5]}'}, "Not a JSON Web Key Set"),
        ("backend", {"jwks": '{"keys": [{"kty": "EC", "crv": "P-256"}]}'}, "must hold RSA keys"),
        ("backend", {"jwks_uri": "https://app.example/jwks.json"}, "Give its public keys"),
        ("backend", {"jwks": "", "jwks_uri": "http://app.example/"}, "The address of the keys"),
    ],
)
def test_what_cannot_be_is_told_at_the_top_and_stays_as_typed(app, kind, typed, message):
    form = USUAL[kind] | typed
    page = register(app, kind, **typed)
    assert page.status == 400
    assert message in page.words
    assert page.words.index(message) < page.words.index("As people see it")
    fields = page.form("Register").fields
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
    assert "This holds a private key, which nobody else may know: it was not kept." in page.words
    assert page.form("Register").fields["jwks"].strip() == ""
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
    form = browser.get("/apps/register?kind=public").form("Register").fields
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
    assert "There were too many from your address. Wait 60 minutes." in page.words
    assert page.form("Register").fields["name"] == "Allergy Card"
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
    assert f"{MOST_WAITING} apps wait for approval already" in page.words
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
    assert "You are an administrator: it is approved at once." in form.words
    page = form.submit("Register", **BACKEND)
    assert page.path.startswith("/admin/clients/")
    assert "It is registered and approved." in page.words


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_own_wait(app, role):
    browser = Browser(app)
    browser.sign_in(add_person(app, role))
    assert "waits for approval" in register(app, "public", browser).words


def test_an_address_that_is_nobodys_is_like_any_other(app):
    browser = Browser(app)
    form = {"form_token": _form_token(browser.get("/apps/register?kind=public"))}
    known = code_of(register(app, "public"))
    pages = [
        browser.get(f"/apps/{code}")
        for code in ("x" * 43, "nobody", f"{known[:-1]}~", known.upper(), "é", "%00", "x" * 3000)
    ]
    pages += [browser.post(f"/apps/{'x' * 43}/{word}", form) for word in ("test", "secret")]
    assert {(page.status, page.words) for page in pages} == {(404, pages[0].words)}
    assert pages[0].heading == "There is no such page"


def test_the_owners_page_tells_no_other_site_its_address(app):
    page = register(app, "public")
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-store"


def test_an_app_that_was_switched_off_is_told_so(app):
    page = approved(app, "public")
    assert "It is approved. Below is how to begin." in page.words
    with app.app_context(), writing() as connection:
        clients.set_disabled(connection, client_of(app, page).client_id, disabled=True)
    page = page.browser.get(page.path)
    assert "switched it off" in page.words
    assert "How to begin" not in page.words


def test_a_secret_is_made_once_it_is_approved_and_shown_once(app):
    page = register(app, "confidential")
    form = {"form_token": _form_token(page)}
    assert page.browser.post(f"{page.path}/secret", form).status == 409
    page = approved(app, "confidential")
    first = _secret(page.submit("Make its secret"))
    page = page.browser.get(page.path)
    assert first not in page.response.text
    second = _secret(page.submit("Make another secret"))
    client = client_of(app, page)
    assert client.check_client_secret(second)
    assert not client.check_client_secret(first)


@pytest.mark.parametrize("kind", ["public", "backend"])
def test_an_app_without_a_secret_gets_none(app, kind):
    page = approved(app, kind)
    assert "Its secret" not in page.words
    form = {"form_token": _form_token(page)}
    assert page.browser.post(f"{page.path}/secret", form).status == 409
    assert client_of(app, page).secret_digest is None


# What a test of a client finds: how the client is, and what is said of it.
FOUND = [
    ("public", {}, {}, "To mend: An administrator has not approved it yet: it gets no tokens."),
    ("public", {}, {"disabled": True}, "To mend: An administrator switched it off"),
    ("public", {}, {"approved_at": 1}, "Nothing is wrong with its registration."),
    ("confidential", {}, {"approved_at": 1}, "To mend: No secret was made for it yet."),
    (
        "confidential",
        {},
        {"secret_digest": b"x"},
        "It has a secret; only its SHA-256 is kept here.",
    ),
    ("backend", {}, {}, "A key: EC for ES384, kid ec."),
    (
        "backend",
        {},
        {"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}},
        "To mend: Its keys do not serve: The key set must hold RSA keys for RS384",
    ),
    (
        "backend",
        {"jwks": "", "jwks_uri": "https://app.example/jwks.json"},
        {},
        "To mend: Its keys do not serve: their address is asked once an administrator has approved",
    ),
    (
        "public",
        {"redirect_uris": "http://localhost:3000/cb"},
        {},
        "http://localhost:3000/cb works only in a browser on the machine that the app runs on",
    ),
    (
        "public",
        {},
        {"scope": "patient/Nonsense.rs"},
        "To mend: patient/Nonsense.rs is never granted: this server has no such type, or cannot",
    ),
    (
        "public",
        {},
        {"scope": "patient/Binary.rs?date=2024"},
        "To mend: patient/Binary.rs?date=2024 is never granted: this server has no such type, or",
    ),
    (
        "public",
        {},
        {"scope": "system/*.rs"},
        "To mend: system/*.rs is never granted: a public client has none of the kind system/",
    ),
    (
        "public",
        {},
        {"scope": "nonsense"},
        "To mend: nonsense is never granted: it is no scope that this server knows",
    ),
    (
        "public",
        {"scope": ["fhirUser", "patient/*.rs"]},
        {},
        "To mend: fhirUser tells nothing without openid: there is no id token.",
    ),
    (
        "public",
        {"scope": ["launch", "patient/*.rs", "user/*.rs"]},
        {},
        "A user with the role clinician can allow: launch patient/*.rs user/*.rs.",
    ),
    (
        "public",
        {"scope": ["launch", "patient/*.rs", "user/*.rs"]},
        {},
        "A user with the role patient can allow: patient/*.rs.",
    ),
    (
        "public",
        {"scope": ["launch", "user/*.rs"]},
        {},
        "A user with the role patient can allow it no records.",
    ),
]


@pytest.mark.parametrize(("kind", "filled", "changes", "found"), FOUND)
def test_a_test_of_the_client_tells_what_is_wrong(app, kind, filled, changes, found):
    page = register(app, kind, **filled)
    if changes:
        set_client(app, Program(client_of(app, page).client_id), **changes)
    page = page.submit("Test this client")
    assert page.status == 200
    assert found in page.words


def test_a_test_of_the_client_tells_the_last_refusal(app):
    program = add_program(app)
    with app.app_context(), writing() as connection:
        code = owner_code(connection, program.client_id)
    form = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": program.client_id}
    assert app.test_client().post("/oauth/token", data=form).status_code == 400
    page = Browser(app).get(f"/apps/{code}").submit("Test this client")
    assert re.search(r"The last refusal was .* UTC: invalid_grant: ", page.words)


@pytest.fixture(scope="module")
def reaching(make_app: Callable[..., Flask]) -> Flask:
    """An app that may ask private addresses."""
    return make_app(seed=False, fetch_private=True)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (ok(json.loads(JWKS)), "A key: EC for ES384, kid ec."),
        (reply("404 Not Found"), "To mend: Its keys do not serve: none came from http://"),
        (ok({"keys": []}), "To mend: Its keys do not serve: none came from http://"),
    ],
    ids=["keys", "404", "no keys"],
)
def test_the_address_of_the_keys_is_asked_once_it_is_approved(reaching, answer, found):
    with running() as server:
        server.answer = answer
        page = register(reaching, "backend", jwks="", jwks_uri=server.url)
        page.submit("Test this client")
        assert len(server.asked) == 0
        set_client(reaching, Program(client_of(reaching, page).client_id), approved_at=1)
        assert found in page.submit("Test this client").words
        assert len(server.asked) == 1


def test_what_is_found_at_a_private_address_is_told_to_the_log_alone(reaching, caplog):
    page = register(reaching, "backend", jwks="", jwks_uri="http://localhost:1/jwks.json")
    set_client(reaching, Program(client_of(reaching, page).client_id), approved_at=1)
    page = page.submit("Test this client")
    assert "none came from http://localhost:1/jwks.json (the server's log says why)." in page.words
    assert "refused" in caplog.text


def test_private_addresses_are_not_asked_unless_the_operator_allows_it(app):
    with running() as server:
        server.answer = ok(json.loads(JWKS))
        page = register(app, "backend", jwks="", jwks_uri="https://localhost/jwks.json")
        values = {"approved_at": 1, "jwks_uri": server.url.replace("http:", "https:")}
        set_client(app, Program(client_of(app, page).client_id), **values)
        page = page.submit("Test this client")
        assert "an address that is not public" in page.words
        assert len(server.asked) == 0


def test_a_client_is_tested_so_often_an_hour(app):
    page = register(app, "public")
    for _ in range(TESTS_PER_HOUR):
        assert page.submit("Test this client").status == 200
    refused = page.submit("Test this client")
    assert refused.status == 429
    assert "It was tested too often. Wait 60 minutes." in refused.words


def test_the_address_to_begin_with_is_right_in_each_part(app):
    page = approved(app, "public", scope=["openid", "launch", "launch/patient", "patient/*.rs"])
    (address,) = [one for one in page.links.values() if "/oauth/authorize" in one]
    assert address.startswith(f"{BASE_URL}/oauth/authorize?")
    asked = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
    assert asked["client_id"] == client_of(app, page).client_id
    assert asked["redirect_uri"] == REDIRECT
    assert asked["aud"] == f"{BASE_URL}/fhir"
    # launch alone belongs to a start from our own pages.
    assert asked["scope"] == "openid launch/patient patient/*.rs"
    assert f"{BASE_URL}/fhir/.well-known/smart-configuration" in page.words


@pytest.fixture(scope="module")
def served(make_app: Callable[..., Flask]) -> Iterator[Flask]:
    """An app that listens, for commands that are typed into a shell."""

    class Quiet(WSGIRequestHandler):
        def log_request(self, *args: object) -> None: ...

    apps: list[Flask] = []
    server = make_server(
        "127.0.0.1", 0, lambda *call: apps[0](*call), threaded=True, request_handler=Quiet
    )
    apps.append(make_app(base_url=f"http://127.0.0.1:{server.port}"))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield apps[0]
    server.shutdown()
    thread.join()
    server.server_close()


def shell(folder: Path, *commands: str) -> list[str]:
    """Run commands one after the other, in one shell; return what each printed."""
    mark = "=== next ==="
    script = f"\necho; echo '{mark}'\n".join(["set -e", *commands])
    script = script.replace("keys/bin/python ", f"{sys.executable} ")
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.split(mark)[1:]


def commands_of(page: Page) -> list[str]:
    """Return the commands on an owner's page, in order."""
    begin = page.response.text.index("How to begin")
    found = re.findall(r"<pre[^>]*>(.*?)</pre>", page.response.text[begin:], re.DOTALL)
    return [unescape(one) for one in found]


def allowed(app: Flask, page: Page) -> str:
    """Have a patient allow the app what its page asks for; return the code that comes back."""
    (address,) = [one for one in page.links.values() if "/oauth/authorize" in one]
    parts = urlsplit(address)
    browser = Browser(app)
    consent = browser.get(f"{parts.path}?{parts.query}").submit(
        "Sign in", username=add_person(app, PATIENT, "p1"), password="demo"
    )
    offered = [*consent.form("Allow what is ticked").unticked]
    consent = consent.submit("Allow what is ticked", **{name: _all(consent) for name in offered})
    assert consent.location is not None
    assert consent.location.startswith(f"{REDIRECT}?")
    (code,) = parse_qs(urlsplit(consent.location).query)["code"]
    return code


@runs_examples
@pytest.mark.parametrize(
    ("kind", "filled"),
    [("public", {}), ("confidential", {}), ("confidential", {"auth_method": SIGNED, "jwks": JWKS})],
    ids=["public", "secret", "signed"],
)
def test_the_commands_for_an_app_lead_to_the_record(served, tmp_path, kind, filled):
    scope = ["launch/patient", "offline_access", "patient/AllergyIntolerance.rs"]
    page = approved(served, kind, scope=scope, **filled)
    (tmp_path / "private-key.json").write_text(json.dumps(KEY.as_dict(private=True)))
    secret = _secret(page.submit("Make its secret")) if "Make its secret" in page.words else ""
    page = page.browser.get(page.path)
    take = """$(printf %s "$ANSWER" | python3 -c 'import json, sys
print(json.load(sys.stdin)["refresh_token"])')"""
    own = {
        "'the code from the address'": allowed(served, page),
        "'the secret'": secret,
        "'refresh_token from the answer'": take,
    }
    commands = commands_of(page)
    for placeholder, value in own.items():
        commands = [one.replace(placeholder, value) for one in commands]
    if filled:
        # An assertion serves once: it is signed anew, as the page says.
        (sign,) = [one for one in commands if "ASSERTION=$(" in one]
        commands.insert(-1, sign)
    printed = shell(tmp_path, *commands)
    assert json.loads(printed[0])["token_endpoint"].endswith("/oauth/token")
    bundle = json.loads(printed[-3] if filled else printed[-2])
    assert bundle["type"] == "searchset"
    assert {entry["resource"]["patient"]["reference"] for entry in bundle["entry"]} == {
        "Patient/p1"
    }
    assert json.loads(printed[-1])["access_token"]


@runs_examples
def test_the_commands_for_a_backend_lead_to_the_records(served, tmp_path):
    (jwks,) = shell(tmp_path, MAKE_KEYS.partition("\n")[2])
    assert (tmp_path / "private-key.json").stat().st_mode & 0o777 == 0o600
    page = approved(served, "backend", jwks=jwks)
    printed = shell(tmp_path, *commands_of(page))
    assert json.loads(printed[-1])["type"] == "searchset"


def _all(page: Page) -> list[str]:
    return re.findall(r'name="scope" value="([^"]+)"', page.response.text)


def _secret(page: Page) -> str:
    """Return the secret that a page shows."""
    found = re.search(r"[A-Za-z0-9_-]{43}", page.words)
    assert found is not None, page.words
    assert page.headers["Cache-Control"] == "no-store"
    return found[0]


def _form_token(page: Page) -> str:
    return next(form.fields["form_token"] for form in page.forms if "form_token" in form.fields)


def _form(app: Flask, kind: str) -> dict[str, Any]:
    """Return a form that another browser was shown."""
    return dict(Browser(app).get(f"/apps/register?kind={kind}").form("Register").fields)


def _count(app: Flask, *conditions: Any) -> int:
    ((count,),) = rows(app, select(func.count()).select_from(Client).where(*conditions))
    return int(count)
