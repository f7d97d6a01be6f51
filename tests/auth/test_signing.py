"""Keys of ID tokens: created once, rotated without interruption, readable by their owner only.

OpenID Connect Core §10.1.1; RFC 7517; issue 4.
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from fhirapp import create_app
from fhirapp.auth.models import CLINICIAN
from fhirapp.auth.oauth import openid
from fhirapp.auth.oauth.signing_keys import (
    JWKS_SECONDS,
    KEPT_SECONDS,
    NAME,
    PUBLISHED_BEFORE_SECONDS,
    active_key,
    make_first,
    public_keys,
    rotate,
)
from fhirapp.auth.server_secrets import server_secrets
from fhirapp.config import ConfigurationError, settings_of
from fhirapp.environment import load_settings
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.id_tokens import header_of
from tests.support.racing import together
from tests.support.shell import environment


@pytest.fixture(autouse=True)
def _short_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create keys of 2048 bits: of 3072, as the first one of each app, they take half a second."""
    generate = RSAKey.generate_key
    monkeypatch.setattr(RSAKey, "generate_key", lambda _bits, given: generate(2048, given))


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(seed=False)


@pytest.fixture
def flow(app: Flask) -> Flow:
    return Flow(app, add_program(app), add_person(app, CLINICIAN))


@pytest.fixture
def filed(tmp_path: Path) -> Flask:
    """Return an app that has no key yet, and will have it in a file."""
    return create_app(load_settings({}, instance_path=str(tmp_path)))


def instance(app: Flask) -> Path:
    folder: Path = app.config["FHIRAPP"].instance
    return folder


def published(app: Flask) -> list[str]:
    """Return the ids of the keys that clients can fetch."""
    return [key["kid"] for key in app.test_client().get("/oauth/jwks.json").get_json()["keys"]]


def signs(app: Flask, seconds: float | None = None) -> str:
    """Return the id of the key that signs at a time, now unless given."""
    with app.app_context():
        return str(active_key(seconds).kid)


def rotated(app: Flask, now: int) -> int:
    """Make a new key; return from when on it signs."""
    with app.app_context():
        return rotate(now)


def let_pass(app: Flask, seconds: int) -> None:
    """Let time pass for the keys: each signs from so many seconds earlier."""

    def earlier(content: bytes) -> bytes:
        stored = json.loads(content)
        for key in stored["keys"]:
            key["signs_from"] -= seconds
        return json.dumps(stored).encode()

    with app.app_context():
        server_secrets().change(NAME, make_first, earlier)


def test_first_key_is_created_on_demand(filed):
    path = instance(filed) / NAME
    assert not path.exists()
    (kid,) = published(filed)
    assert signs(filed) == kid
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert published(filed) == [kid]


def test_published_keys_have_no_private_part(app):
    response = app.test_client().get("/oauth/jwks.json")
    assert response.status_code == 200
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == f"max-age={JWKS_SECONDS}"
    (key,) = response.get_json()["keys"]
    assert key.keys() == {"kty", "n", "e", "kid", "alg", "use"}
    assert (key["kty"], key["alg"], key["use"]) == ("RSA", "RS256", "sig")
    # 3072 bits.
    assert len(key["n"]) == 512
    assert app.test_client().head("/oauth/jwks.json").status_code == 200


def check(flow: Flow, id_token: str, keys: Any) -> None:
    """Check an id token with keys that were fetched before. Raises where none fits."""
    jwt.decode(id_token, KeySet.import_key_set(keys), algorithms=["RS256"])


def test_rotation_publishes_a_key_before_it_signs(flow):
    """Whenever a client fetched the keys, those that it may still keep fit what is signed."""
    app = flow.app
    (old,) = published(app)
    first = flow.tokens("openid")["id_token"]
    now = int(time.time())
    assert rotated(app, now) == now + PUBLISHED_BEFORE_SECONDS
    # Published before it signs, for longer than clients keep what they fetched.
    _, new = published(app)
    assert PUBLISHED_BEFORE_SECONDS > JWKS_SECONDS
    assert signs(app) == old
    assert signs(app, now + PUBLISHED_BEFORE_SECONDS - 1) == old
    assert signs(app, now + PUBLISHED_BEFORE_SECONDS) == new
    keys = app.test_client().get("/oauth/jwks.json").get_json()
    second = flow.tokens("openid")["id_token"]
    let_pass(app, PUBLISHED_BEFORE_SECONDS)
    third = flow.tokens("openid")["id_token"]
    assert [header_of(token)["kid"] for token in (first, second, third)] == [old, old, new]
    for id_token in (first, second, third):
        check(flow, id_token, keys)
    assert published(app) == [old, new]


def test_key_is_dropped_when_its_tokens_have_expired(app):
    (first,) = published(app)
    now = int(time.time())
    rotated(app, now)
    _, second = published(app)
    let_pass(app, PUBLISHED_BEFORE_SECONDS)
    # Again at once: the first is still needed.
    rotated(app, now)
    assert published(app)[:2] == [first, second]
    let_pass(app, KEPT_SECONDS - 10)
    rotated(app, now)
    assert first in published(app)
    let_pass(app, 20 + PUBLISHED_BEFORE_SECONDS)
    rotated(app, now)
    assert first not in published(app)
    assert KEPT_SECONDS > openid.SECONDS


def test_repeated_rotations_keep_the_active_key(app):
    (first,) = published(app)
    now = int(time.time())
    for _ in range(3):
        rotated(app, now)
    assert len(published(app)) == 4
    assert signs(app) == first


ROTATE = """
from fhirapp import create_app
from fhirapp.auth.oauth.signing_keys import published, rotate
with create_app().app_context():
    rotate(1000)
    print(published()[0].kid)
"""


@pytest.mark.process
def test_key_that_another_process_rotated_is_published(app, tmp_path):
    (first,) = published(app)
    done = subprocess.run(
        [sys.executable, "-c", ROTATE],
        env=environment(instance(app), DATABASE_URL=settings_of(app).database_url),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert published(app) == [first, done.stdout.strip()]


MAKE = """
import sys
from pathlib import Path
from fhirapp import create_app
from fhirapp.auth.oauth.signing_keys import active_key
from fhirapp.environment import load_settings
app = create_app(load_settings({}, instance_path=sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with app.app_context():
    print(active_key().kid)
"""


@pytest.mark.process
def test_processes_that_start_together_sign_with_the_same_key(tmp_path):
    made = set(together(MAKE, tmp_path))
    (stored,) = json.loads((tmp_path / NAME).read_bytes())["keys"]
    assert made == {stored["key"]["kid"]}
    assert [path.name for path in tmp_path.glob(f"{NAME}*")] == [NAME]


def test_damaged_key_file_is_named(filed):
    path = instance(filed) / NAME
    for content in ("", "{", "[]", "{}", "null", '"keys"'):
        path.write_text(content)
        with filed.app_context(), pytest.raises(ConfigurationError, match=re.escape(str(path))):
            public_keys()
    path.unlink()
    assert len(published(filed)) == 1
