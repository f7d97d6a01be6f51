"""Signed client assertions (private_key_jwt) at the token endpoint. SMART backend services."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey
from werkzeug.test import TestResponse

from fhirapp.auth.clients.administration import set_disabled
from fhirapp.auth.clients.registration import Registration, register
from fhirapp.auth.models import SIGNED, Refusal
from fhirapp.auth.oauth.client_assertion import ALGORITHMS
from fhirapp.db import db, writing
from tests.support.helpers import BASE_URL, Fhir
from tests.support.key_server import KeyServer, ok, reply, running
from tests.support.registrations import EC, RSA
from tests.support.token_endpoint import assert_error

TOKEN_URL = f"{BASE_URL}/oauth/token"
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CLIENT = "clinic"

STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})
# Failures are counted by address: each request of these tests comes from one of its own.
_ADDRESSES = (f"198.51.{n // 250}.{n % 250}" for n in count())


def backend(name: str, jwks: object = None, jwks_uri: str | None = None) -> Registration:
    """Return the registration of a backend client with these keys, or their address."""
    return Registration(
        name=name,
        kind="backend",
        auth_method=SIGNED,
        scope="system/*.rs",
        jwks=jwks,
        jwks_uri=jwks_uri,
    )


@pytest.fixture(scope="module")
def oauth(make_app: Callable[..., Flask]) -> Flask:
    """Return an app that knows one client with an RSA and an EC key."""
    app = make_app(seed=False)
    jwks = {"keys": [key.as_dict(private=False) for key in (RSA, EC)]}
    with app.app_context(), writing() as connection:
        for name in (CLIENT, "second", "disabled"):
            register(connection, backend(name, jwks), client_id=name)
        set_disabled(connection, "disabled", disabled=True)
    return app


def signed(alg: str = "RS384", key: Any = None, header: Any = None, **changes: Any) -> str:
    """Return an assertion that is right but for these changes; a claim of None is left out."""
    key = key or {"RS": RSA, "PS": RSA, "ES": EC}[alg[:2]]
    claims = {
        "iss": CLIENT,
        "sub": CLIENT,
        "aud": TOKEN_URL,
        "exp": int(time.time()) + 240,
        "jti": str(uuid4()),
        **changes,
    }
    kept = {name: value for name, value in claims.items() if value is not None}
    headers = {"alg": alg, "typ": "JWT", "kid": key.kid, **(header or {})}
    written = {name: value for name, value in headers.items() if value is not None}
    return jws.serialize_compact(written, json.dumps(kept), key, algorithms=[alg])


def raw(header: Any, claims: Any, signature: bytes = b"signature") -> str:
    """Return a compact JWS of whatever is given, text or something for JSON."""
    parts = [
        (part if isinstance(part, str) else json.dumps(part)).encode() for part in (header, claims)
    ]
    return ".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (*parts, signature)
    )


def ask(app: Flask, assertion: str, **form: Any) -> TestResponse:
    return app.test_client().post(
        "/oauth/token",
        data={
            "grant_type": "client_credentials",
            "scope": "system/*.rs",
            "client_assertion_type": JWT_BEARER,
            "client_assertion": assertion,
            **form,
        },
        environ_base={"REMOTE_ADDR": next(_ADDRESSES)},
    )


def refusal_of(response: TestResponse) -> str:
    """Return the description of an answer that must be invalid_client."""
    assert_error(response, "invalid_client", status=None)
    return str(response.get_json()["error_description"])


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_signed_assertion_gets_a_valid_token(oauth, alg):
    response = ask(oauth, signed(alg))
    answer = response.get_json()
    assert response.status_code == 200, response.text
    token = answer.pop("access_token")
    assert answer == {"token_type": "Bearer", "expires_in": 300, "scope": "system/*.rs"}
    assert Fhir(oauth, token).read("AllergyIntolerance")["total"] == 0


def test_aud_may_be_a_list_and_client_id_may_repeat_the_subject(oauth):
    assert ask(oauth, signed(aud=["https://other.example", TOKEN_URL])).status_code == 200
    assert ask(oauth, signed(), client_id=CLIENT).status_code == 200
    assert "contradicts" in refusal_of(ask(oauth, signed(), client_id="demo-backend"))


def test_assertion_with_a_wrong_claim_is_refused(oauth):
    now = int(time.time())
    for changes in (
        *({"aud": aud} for aud in ("https://other.example/oauth/token", BASE_URL, None, 7)),
        {"aud": f"{TOKEN_URL}/"},
        # Past, too far, missing, and no number.
        *({"exp": exp} for exp in (now - 120, now + 36_000, None, str(now + 200), True, 9e15)),
        *({"exp": float(text)} for text in ("nan", "inf", "-inf")),
        *({"nbf": now + 3600}, {"iat": now + 3600}, {"iss": None}, {"iss": "somebody"}),
        *({"nbf": "never"}, {"iat": [1]}, {"aud": [{"a": 1}, 5]}, {"iss": [CLIENT]}),
        *({"sub": None}, {"sub": [CLIENT]}),
        *({"sub": name, "iss": name} for name in ("unknown", "disabled", "operator", "clinic\0")),
        {"sub": "\ud800", "iss": "\ud800"},
        *({"jti": jti} for jti in (None, 7, "", "x" * 256, "a\0b", "\ud800")),
    ):
        response = ask(oauth, signed(**changes))
        assert response.status_code in (400, 401), changes
        refusal_of(response)


def test_assertion_with_a_wrong_signature_or_form_is_refused(oauth):
    claims = {"iss": CLIENT, "sub": CLIENT, "aud": TOKEN_URL, "jti": "1"}
    for assertion in (
        *(signed(alg) for alg in ("RS256", "RS512", "PS384")),
        _keyed_with_public_key("HS256", hashlib.sha256),
        _keyed_with_public_key("HS384", hashlib.sha384),
        signed(key=STRANGER),
        *(signed(header={"kid": kid}) for kid in ("other", "ec", None)),
        raw({"alg": "RS384", "kid": 7}, claims),
        signed(header={"jku": "https://clinic.example/jwks.json"}),
        raw({"alg": "none"}, claims, b""),
        *(raw(header, claims) for header in ({"alg": "None"}, {"alg": ["RS384"]}, {"typ": "JWT"})),
        *(raw({"alg": "RS384", "crit": crit}, claims) for crit in (5, ["exp"], ["b64"])),
        *(raw(header, claims) for header in ([], None, "[" * 100_000)),
        *(raw({"alg": "RS384"}, text) for text in ([], "{", "[" * 100_000)),
        *("junk", "..", "a.b.c.d.e", "!.!.!", "." * 1000),
        *(_tampered(signed()), signed()[:-8]),
    ):
        response = ask(oauth, assertion)
        assert response.status_code in (400, 401), assertion[:60]
        refusal_of(response)


def _keyed_with_public_key(alg: str, digest: Any) -> str:
    """Return an assertion whose HMAC has the registered public key for a secret."""
    claims = {"iss": CLIENT, "sub": CLIENT, "aud": TOKEN_URL, "exp": int(time.time()) + 100}
    text = raw({"alg": alg, "kid": "rsa"}, {**claims, "jti": str(uuid4())}).rpartition(".")[0]
    mac = hmac.new(RSA.as_pem(private=False), text.encode(), digest).digest()
    return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def _tampered(assertion: str) -> str:
    header, _, signature = assertion.split(".")
    claims = {"iss": CLIENT, "sub": CLIENT, "aud": TOKEN_URL, "exp": int(time.time()) + 100}
    return f"{header}.{raw({}, claims).split('.')[1]}.{signature}"


def test_jti_is_used_once_by_each_client(oauth):
    assertion, jti = signed(), str(uuid4())
    assert ask(oauth, assertion).status_code == 200
    refusal_of(ask(oauth, assertion))
    # A refused assertion does not use its jti.
    refusal_of(ask(oauth, signed(jti=jti, aud="https://other.example")))
    assert ask(oauth, signed(jti=jti)).status_code == 200
    refusal_of(ask(oauth, signed("ES384", jti=jti)))
    assert ask(oauth, signed("ES384", iss="second", sub="second", jti=jti)).status_code == 200


UNFETCHED, UNFIT = "could not be fetched", "does not fit a registered key"


@pytest.fixture(scope="module")
def fetching(make_app: Callable[..., Flask]) -> Flask:
    """Return an app that fetches its clients' keys from this machine too."""
    return make_app(seed=False, fetch_private=True)


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    """A server of a client's RSA and EC key."""
    with running() as server:
        server.answer = published(RSA, EC)
        yield server


def published(*keys: Any) -> bytes:
    """Return the answer of a client that publishes these keys."""
    return ok({"keys": [key.as_dict(private=False) for key in keys]})


def client_at(app: Flask, uri: str) -> dict[str, str]:
    """Register a client whose keys are at an address; return the claims that name it."""
    name = f"at-{uuid4()}"
    with app.app_context(), writing() as connection:
        register(connection, backend(name, jwks_uri=uri), client_id=name)
    return {"iss": name, "sub": name}


def test_keys_at_a_url_are_fetched_once_for_many_assertions(fetching, keys):
    named, others = client_at(fetching, keys.url), client_at(fetching, keys.url)
    for alg, claims in (("RS384", named), ("ES384", named), ("ES384", others)):
        response = ask(fetching, signed(alg, **claims))
        assert response.status_code == 200, response.text
    token = response.get_json()["access_token"]
    assert Fhir(fetching, token).read("AllergyIntolerance")["total"] == 0
    assert len(keys.asked) == 1


@pytest.mark.parametrize("kid", ["new", None])
def test_client_may_replace_its_keys_at_any_time(fetching, keys, kid):
    named = client_at(fetching, keys.url)
    keys.answer = published(EC)
    assert ask(fetching, signed("ES384", **named)).status_code == 200
    # The same kid with another key is no change that clients should make, but some do.
    new = ECKey.generate_key("P-384", {"kid": kid or EC.kid})
    keys.answer = published(new)
    assert ask(fetching, signed("ES384", new, **named)).status_code == 200
    assert UNFIT in refusal_of(ask(fetching, signed("ES384", **named)))
    assert len(keys.asked) == 2


def test_url_without_keys_is_refused_without_a_word_of_what_is_there(fetching, keys):
    for answer in (
        reply("302 Found", b"", "Location: http://localhost/"),
        reply("404 Not Found"),
        ok({"keys": []}),
        ok(b"secret"),
        b"",
        None,
    ):
        keys.answer = answer or b""
        uri = keys.url if answer is not None else "http://localhost:1/jwks.json"
        named = client_at(fetching, f"{uri}?{uuid4()}")
        response = ask(fetching, signed(**named))
        message = refusal_of(response)
        assert UNFETCHED in message
        with fetching.app_context():
            refusal = db.session.get_one(Refusal, response.headers["X-Request-Id"])
            assert refusal.client_id == named["sub"]
            assert refusal.reasons == [f"invalid_client: {message}"]


def test_private_url_is_not_fetched_where_the_operator_does_not_allow_it(oauth, keys):
    for uri in (keys.url, keys.url.replace("http:", "https:")):
        assert UNFETCHED in refusal_of(ask(oauth, signed(**client_at(oauth, uri))))
    assert keys.asked == []


def test_assertion_that_is_refused_anyway_fetches_nothing(fetching, keys):
    for changes in (
        {"header": {"jku": "http://localhost/jwks.json"}},
        {"alg": "RS256"},
        {"sub": "unknown", "iss": "unknown"},
    ):
        refusal_of(ask(fetching, signed(**{**client_at(fetching, keys.url), **changes})))
    assert keys.asked == []


def test_jku_may_name_only_the_registered_url(fetching, keys):
    """SMART App Launch 2.2, client-confidential-asymmetric: it must match what is registered."""
    client = client_at(fetching, keys.url)
    assert ask(fetching, signed(header={"jku": keys.url}, **client)).status_code == 200
    refused = ask(fetching, signed(header={"jku": f"{keys.url}/"}, **client))
    assert "jku must be" in refusal_of(refused)


def test_no_snapshot_is_open_while_keys_are_fetched(fetching, keys):
    named = client_at(fetching, keys.url)
    held: list[int] = []
    with fetching.app_context():
        path = str(db.engine.url.database)
    keys.before = lambda: held.append(_snapshots(path))
    # From a browser, whose origin is looked for among the clients' addresses.
    response = fetching.test_client().post(
        "/oauth/token",
        data={
            "grant_type": "client_credentials",
            "scope": "system/*.rs",
            "client_assertion_type": JWT_BEARER,
            "client_assertion": signed(**named),
        },
        headers={"Origin": "https://app.example"},
    )
    assert response.status_code == 200, response.text
    assert held == [0]


def test_one_thread_is_left_free_while_keys_are_fetched(make_app, keys):
    app = make_app(seed=False, threads=2, fetch_private=True)
    named = client_at(app, keys.url)
    asked = keys.hold()
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(ask, app, signed(**named))
        assert asked.wait(5)
        refused = ask(app, signed(**named))
        keys.over.set()
        assert waits.result().status_code == 200
    assert_error(refused, "temporarily_unavailable", status=503)
    assert refused.headers["Retry-After"] == "2"


def _snapshots(path: str) -> int:
    """Return whether others read in the database: then its log cannot be emptied."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        return int(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
