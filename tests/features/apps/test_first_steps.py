"""The first steps on the page of an app's owner: its links, and commands that work as they are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from shlex import quote
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from fhirapp.auth.models import PATIENT, SIGNED
from fhirapp.features.apps.first_steps import MAKE_KEYS
from tests.support.app_pages import JWKS, KEY, REDIRECT, approved, client_of, secret_of
from tests.support.browsing import Browser, Page, add_person
from tests.support.helpers import BASE_URL


def authorization_address(page: Page) -> str:
    (address,) = [path for path in page.links.values() if "/oauth/authorize" in path]
    return address


def test_authorization_link_is_right_in_each_part(make_app):
    app = make_app(seed=False)
    page = approved(app, "public", scope=["openid", "launch", "launch/patient", "launch/encounter"])
    address = authorization_address(page)
    assert address.startswith(f"{BASE_URL}/oauth/authorize?")
    asked = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
    expected = {
        "client_id": client_of(app, page).client_id,
        "redirect_uri": REDIRECT,
        "aud": f"{BASE_URL}/fhir",
        # launch alone belongs to a start from our own pages.
        "scope": "openid launch/patient launch/encounter",
    }
    assert {name: asked[name] for name in expected} == expected
    assert f"{BASE_URL}/fhir/.well-known/smart-configuration" in page.words


def test_refresh_token_is_explained_by_the_scope_that_gives_it(make_app):
    app = make_app(seed=False)
    for scope, said, not_said in (
        ("offline_access", "“Keep access when you are away”", "signed in”"),
        ("online_access", "“Keep access as long as you stay signed in”", "away”"),
    ):
        words = approved(app, "public", scope=[scope, "user/*.rs"]).words
        steps = words.partition("Getting started")[2].partition("Refusals")[0]
        assert (said in steps, not_said in steps) == (True, False)
    words = approved(app, "public", scope=["launch/patient", "patient/*.rs"]).words
    assert "refresh_token" not in words


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
    script = script.replace("keys/bin/python ", f"{quote(sys.executable)} ")
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.split(mark)[1:]


def commands_of(page: Page) -> list[str]:
    """Return the commands on an owner's page, in order."""
    begin = page.response.text.index("Getting started")
    found = re.findall(r"<pre[^>]*>(.*?)</pre>", page.response.text[begin:], re.DOTALL)
    return [unescape(command) for command in found]


def code_for(app: Flask, page: Page) -> str:
    """Have a patient allow the app what its page asks for; return the code that comes back."""
    parts = urlsplit(authorization_address(page))
    consent = Browser(app).get(f"{parts.path}?{parts.query}")
    username = add_person(app, PATIENT, "p1")
    consent = consent.submit("Sign in", username=username, password="demo")
    scopes = re.findall(r'name="scope" value="([^"]+)"', consent.response.text)
    location = consent.submit("Allow selected", scope=scopes).location or ""
    assert location.startswith(f"{REDIRECT}?")
    (code,) = parse_qs(urlsplit(location).query)["code"]
    return code


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "filled"),
    [("public", {}), ("confidential", {}), ("confidential", {"auth_method": SIGNED, "jwks": JWKS})],
    ids=["public", "secret", "signed"],
)
def test_commands_for_an_app_lead_to_the_record(served, tmp_path, kind, filled):
    scope = ["launch/patient", "offline_access", "patient/AllergyIntolerance.rs"]
    page = approved(served, kind, scope=scope, **filled)
    (tmp_path / "private-key.json").write_text(json.dumps(KEY.as_dict(private=True)))
    has_secret = f"{page.path}/secret" in page.actions
    secret = secret_of(page.send("/secret")) if has_secret else ""
    page = page.browser.get(page.path)
    refresh_token = """$(printf %s "$ANSWER" | python3 -c 'import json, sys
print(json.load(sys.stdin)["refresh_token"])')"""
    commands = commands_of(page)
    for placeholder, value in (
        ("'the code from the address'", code_for(served, page)),
        ("'the secret'", secret),
        ("'refresh_token from the answer'", refresh_token),
    ):
        commands = [command.replace(placeholder, value) for command in commands]
    if filled:
        # An assertion serves once: it is signed anew, as the page says.
        (sign,) = [command for command in commands if "ASSERTION=$(" in command]
        commands.insert(-1, sign)
    printed = shell(tmp_path, *commands)
    assert json.loads(printed[0])["token_endpoint"].endswith("/oauth/token")
    bundle = json.loads(printed[-3] if filled else printed[-2])
    assert bundle["type"] == "searchset"
    patients = {entry["resource"]["patient"]["reference"] for entry in bundle["entry"]}
    assert patients == {"Patient/p1"}
    assert json.loads(printed[-1])["access_token"]


@pytest.mark.process
def test_commands_for_a_backend_lead_to_the_records(served, tmp_path):
    (jwks,) = shell(tmp_path, MAKE_KEYS.partition("\n")[2])
    assert (tmp_path / "private-key.json").stat().st_mode & 0o777 == 0o600
    printed = shell(tmp_path, *commands_of(approved(served, "backend", jwks=jwks)))
    assert json.loads(printed[-1])["type"] == "searchset"
