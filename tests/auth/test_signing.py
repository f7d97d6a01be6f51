"""The keys of id tokens: made once, rotated while clients go on, and for nobody else to read.

OpenID Connect Core §10.1.1; RFC 7517; issue 4.
"""

from __future__ import annotations

import json
import os
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
from joserfc.jwk import KeySet

from fhirapp.auth.models import CLINICIAN
from fhirapp.auth.oauth import openid
from fhirapp.auth.oauth.openid import (
    JWKS_SECONDS,
    KEPT_SECONDS,
    NAME,
    PUBLISHED_BEFORE_SECONDS,
    active_key,
    public_keys,
    rotate,
)
from fhirapp.config import ConfigurationError
from tests.auth.test_openid import header_of
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.racing import together


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    """Return an app with keys of its own."""
    return make_app(seed=False)


@pytest.fixture
def flow(app: Flask) -> Flow:
    """Return a clinician with a public app."""
    return Flow(app, add_program(app), add_person(app, CLINICIAN))


def instance(app: Flask) -> Path:
    folder: Path = app.config["FHIRAPP"].instance
    return folder


def published(app: Flask) -> list[str]:
    """Return the ids of the keys that clients can fetch."""
    return [one["kid"] for one in app.test_client().get("/oauth/jwks.json").get_json()["keys"]]


def signs(app: Flask, seconds: float | None = None) -> str:
    """Return the id of the key that signs at a time, now unless given."""
    with app.app_context():
        return str(active_key(seconds).kid)


def let_pass(app: Flask, seconds: int) -> None:
    """Let time pass for the keys: each signs from so many seconds earlier."""
    path = instance(app) / NAME
    content = json.loads(path.read_bytes())
    for one in content["keys"]:
        one["signs_from"] -= seconds
    path.write_text(json.dumps(content))


def test_the_first_key_is_made_when_it_is_first_asked_for(app):
    path = instance(app) / NAME
    # The one that all apps of the tests have.
    path.unlink()
    (kid,) = published(app)
    assert signs(app) == kid
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert published(app) == [kid]


def test_what_is_published_is_public(app):
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


def test_a_rotation_interrupts_nobody(flow):
    """Whenever a client fetched the keys, those that it may still keep fit what is signed."""
    app = flow.app
    (old,) = published(app)
    first = flow.tokens("openid")["id_token"]
    now = int(time.time())
    assert rotate(instance(app), now) == now + PUBLISHED_BEFORE_SECONDS
    assert stat.S_IMODE((instance(app) / NAME).stat().st_mode) == 0o600
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
    assert [header_of(one)["kid"] for one in (first, second, third)] == [old, old, new]
    for id_token in (first, second, third):
        check(flow, id_token, keys)
    assert published(app) == [old, new]


def test_a_key_is_dropped_when_nothing_that_it_signed_lives(app):
    (first,) = published(app)
    now = int(time.time())
    rotate(instance(app), now)
    _, second = published(app)
    let_pass(app, PUBLISHED_BEFORE_SECONDS)
    # Again at once: the first is still needed.
    rotate(instance(app), now)
    assert published(app)[:2] == [first, second]
    let_pass(app, KEPT_SECONDS - 10)
    rotate(instance(app), now)
    assert first in published(app)
    let_pass(app, 20 + PUBLISHED_BEFORE_SECONDS)
    rotate(instance(app), now)
    assert first not in published(app)
    assert KEPT_SECONDS > openid.SECONDS


def test_rotations_one_after_another_keep_the_key_that_signs(app):
    (first,) = published(app)
    now = int(time.time())
    for _ in range(3):
        rotate(instance(app), now)
    assert len(published(app)) == 4
    assert signs(app) == first


def test_a_rotation_makes_the_first_key_where_there_is_none(tmp_path):
    rotate(tmp_path, 1000)
    stored = json.loads((tmp_path / NAME).read_bytes())["keys"]
    assert [one["signs_from"] for one in stored] == [0, 1000 + PUBLISHED_BEFORE_SECONDS]


ROTATE = """
import json, sys
from pathlib import Path
from fhirapp.auth.oauth.openid import NAME, rotate
rotate(Path(sys.argv[1]), 1000)
print(json.loads((Path(sys.argv[1]) / NAME).read_bytes())["keys"][-1]["key"]["kid"])
"""


def test_what_another_process_rotated_is_published_without_a_restart(app, tmp_path):
    (first,) = published(app)
    done = subprocess.run(
        [sys.executable, "-c", ROTATE, str(instance(app))],
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
from fhirapp.auth.oauth.openid import active_key
from fhirapp.config import load_settings
app = create_app(load_settings({}, instance_path=sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with app.app_context():
    print(active_key().kid)
"""


def test_two_processes_that_start_together_sign_with_the_same_key(tmp_path):
    made = set(together(MAKE, tmp_path))
    (stored,) = json.loads((tmp_path / NAME).read_bytes())["keys"]
    assert made == {stored["key"]["kid"]}
    assert [path.name for path in tmp_path.glob(f"{NAME}*")] == [NAME]


def test_no_wider_mode_comes_of_a_wide_umask(app):
    before = os.umask(0)
    try:
        published(app)
        rotate(instance(app), int(time.time()))
    finally:
        os.umask(before)
    assert stat.S_IMODE((instance(app) / NAME).stat().st_mode) == 0o600


def test_a_file_that_is_damaged_is_told_in_a_sentence(app):
    path = instance(app) / NAME
    for content in ("", "{", "[]", "{}", "null", '"keys"'):
        path.write_text(content)
        with app.app_context(), pytest.raises(ConfigurationError) as raised:
            public_keys()
        assert str(raised.value) == (
            f"The signing keys {path} cannot be read; delete the file, and a new one is made."
        )
    path.unlink()
    assert len(published(app)) == 1
