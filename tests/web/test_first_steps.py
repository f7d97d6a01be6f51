"""The commands on the owner's page work as they stand. Issue 4."""

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
from fhirapp.web.first_steps import MAKE_KEYS
from tests.support.app_pages import JWKS, KEY, REDIRECT, approved, client_of, secret_of
from tests.support.browsing import Browser, Page, add_person
from tests.support.helpers import BASE_URL
from tests.test_manual import runs_examples


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that these tests register clients in."""
    return make_app()


def test_the_address_to_begin_with_is_right_in_each_part(app):
    page = approved(app, "public", scope=["openid", "launch", "launch/patient", "launch/encounter"])
    (address,) = [one for one in page.links.values() if "/oauth/authorize" in one]
    assert address.startswith(f"{BASE_URL}/oauth/authorize?")
    asked = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
    assert asked["client_id"] == client_of(app, page).client_id
    assert asked["redirect_uri"] == REDIRECT
    assert asked["aud"] == f"{BASE_URL}/fhir"
    # launch alone belongs to a start from our own pages.
    assert asked["scope"] == "openid launch/patient launch/encounter"
    assert f"{BASE_URL}/fhir/.well-known/smart-configuration" in page.words


@pytest.mark.parametrize(
    ("scope", "said", "not_said"),
    [
        (
            "offline_access",
            "only if the user ticked “Keep access when you are away”",
            "signed in”",
        ),
        ("online_access", "left “Keep access as long as you stay signed in” ticked", "away”"),
    ],
)
def test_the_page_says_when_there_is_a_refresh_token(app, scope, said, not_said):
    page = approved(app, "public", scope=[scope, "user/*.rs"])
    steps = page.words.partition("Getting started")[2].partition("Refusals")[0]
    assert said in steps
    assert not_said not in steps


def test_without_access_beyond_the_hour_no_refresh_token_is_spoken_of(app):
    page = approved(app, "public", scope=["launch/patient", "patient/*.rs"])
    assert "refresh_token" not in page.words
    assert "Open this link in a browser, sign in, and allow access" in page.words


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
    return [unescape(one) for one in found]


def allowed(app: Flask, page: Page) -> str:
    """Have a patient allow the app what its page asks for; return the code that comes back."""
    (address,) = [one for one in page.links.values() if "/oauth/authorize" in one]
    parts = urlsplit(address)
    browser = Browser(app)
    consent = browser.get(f"{parts.path}?{parts.query}").submit(
        "Sign in", username=add_person(app, PATIENT, "p1"), password="demo"
    )
    offered = [*consent.form("Allow selected").unticked]
    consent = consent.submit("Allow selected", **{name: _all(consent) for name in offered})
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
    secret = secret_of(page.submit("Create secret")) if "Create secret" in page.words else ""
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
