"""Bearer tokens of requests: headers that are refused, throttling, and the cache of tokens."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import fhirapp
from fhirapp.auth.protector import TOKEN_CACHE_SECONDS, DigestCache
from fhirapp.config import ConfigurationError
from fhirapp.db import writing
from fhirapp.db.generation import Generation, generation
from tests.support.helpers import Fhir, assert_outcome, token_for

KEY = b"k" * 32
SEARCH = "/fhir/AllergyIntolerance"
REALM = 'Bearer realm="fhirapp"'


def test_expired_token_is_told_apart_from_an_invalid_one(app):
    expired = Fhir(app, token_for(app, "system/*.rs", lifetime=-1)).get(SEARCH)
    assert_outcome(expired, 401, "expired", "The access token has expired; ask for a new one.")
    assert expired.headers["WWW-Authenticate"] == f'{REALM}, error="invalid_token"'
    for token in ("junk", "demo", "a.b.c", "x" * 4000):
        response = Fhir(app, token).get(SEARCH)
        assert_outcome(response, 401, "login", "The access token is not valid.")
        assert response.headers["WWW-Authenticate"] == f'{REALM}, error="invalid_token"'


def test_authorization_header_without_one_bearer_token_is_refused(http):
    message = "The Authorization header must be: Bearer <token>."
    for header in ("Basic ZGVtby1iYWNrZW5kOmRlbW8=", "DPoP abc", "Token abc"):
        response = http.get(SEARCH, headers={"Authorization": header})
        assert_outcome(response, 401, "login", message)
        assert response.headers["WWW-Authenticate"] == REALM
    for header in ("Bearer", "Bearer ", "Bearer a b", "Bearer \xe9"):
        response = http.get(SEARCH, headers={"Authorization": header})
        assert response.status_code == 401
        assert response.get_json(force=True)["issue"][0]["code"] == "login"


def test_token_in_the_url_or_the_body_is_no_token(app, http):
    token = token_for(app, "system/*.rs")
    needed = "An access token is needed: send Authorization: Bearer <token>."
    in_url = http.get(f"{SEARCH}?access_token={token}")
    in_body = http.post(f"{SEARCH}/_search", data={"access_token": token})
    for response in (in_url, in_body):
        assert_outcome(response, 401, "login", needed)
        assert response.headers["WWW-Authenticate"] == REALM


def test_requests_without_a_valid_token_are_throttled_and_valid_ones_are_not(app):
    """121 failures take less than the two windows of a minute that they could spread over."""
    fhir, other = Fhir(app, token_for(app, "system/*.rs")), Fhir(app, "junk")
    origin = {"REMOTE_ADDR": "192.0.2.77"}
    answers = [other.get(SEARCH, environ_base=origin) for _ in range(121)]
    throttled = next(answer for answer in answers if answer.status_code == 429)
    assert throttled.get_json(force=True)["issue"][0]["code"] == "throttled"
    assert 1 <= int(throttled.headers["Retry-After"]) <= 60
    assert fhir.get(SEARCH, environ_base=origin).status_code == 200


def test_failures_at_one_app_do_not_throttle_another(app, own_app):
    origin = {"REMOTE_ADDR": "192.0.2.78"}
    first, other = Fhir(app, "junk"), Fhir(own_app, "junk")
    answers = [first.get(SEARCH, environ_base=origin) for _ in range(121)]
    assert any(answer.status_code == 429 for answer in answers)
    assert other.get(SEARCH, environ_base=origin).status_code == 401


# The cache of tokens.


class LookUp:
    """Counts look-ups; found is what they find."""

    def __init__(self, found: str | None = "token") -> None:
        self.found = found
        self.times = 0

    def __call__(self, digest: bytes) -> str | None:
        assert digest == KEY
        self.times += 1
        return self.found


@pytest.fixture
def in_app(app):
    with app.app_context():
        yield app


def test_token_is_looked_up_once_until_something_is_committed(in_app):
    verified, look_up = DigestCache(), LookUp()
    assert [verified.get(KEY, look_up) for _ in range(5)] == ["token"] * 5
    assert look_up.times == 1
    with writing():
        pass
    look_up.found = "changed"
    assert verified.get(KEY, look_up) == "changed"
    assert look_up.times == 2


def test_commit_during_a_look_up_makes_the_next_request_look_again(in_app):
    verified = DigestCache()

    def look_up(digest: bytes) -> str:
        generation().change()
        return "as it was before"

    verified.get(KEY, look_up)
    assert verified.get(KEY, LookUp()) == "token"


def test_unknown_token_is_not_cached(in_app):
    verified, look_up = DigestCache(), LookUp(None)
    assert verified.get(KEY, look_up) is None
    look_up.found = "issued meanwhile"
    assert verified.get(KEY, look_up) == "issued meanwhile"


def test_token_is_cached_for_a_second(in_app, monkeypatch):
    """Another host that writes to the same PostgreSQL has another generation file."""
    verified, look_up, clock = DigestCache(), LookUp(), time.monotonic()
    monkeypatch.setattr("fhirapp.auth.protector.time.monotonic", lambda: clock)
    verified.get(KEY, look_up)
    clock += TOKEN_CACHE_SECONDS + 0.001
    verified.get(KEY, look_up)
    assert look_up.times == 2


def test_generation_of_another_object_is_noticed_and_a_wrong_folder_is_named(tmp_path):
    ours = Generation(tmp_path)
    before = ours.now()
    Generation(tmp_path).change()
    assert ours.now() != before
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="FHIRAPP_INSTANCE_PATH"):
        Generation(tmp_path / "file").now()


def test_only_one_module_commits():
    """A commit elsewhere would not say that something was written.

    seed.py loads the demo before anybody is served, and schemas.py a backup; the rest writes what
    no token depends on: the trail and counts of failed attempts.
    """
    root = Path(fhirapp.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"\.commit\(|\.begin\(\)|session\.(add|merge|delete)\(", path.read_text())
    }
    trail = {"audit/store.py"}
    loaded = {"features/backups/schemas.py", "features/demo/seed.py"}
    assert found - trail - loaded == {"auth/throttle.py", "db/__init__.py"}
