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
from joserfc.jwk import ECKey, KeySet, RSAKey
from sqlalchemy import URL, create_engine, text
from werkzeug.test import TestResponse

from fhirapp.auth.clients.administration import set_disabled
from fhirapp.auth.clients.registration import Registration, register
from fhirapp.auth.models import SIGNED, Refusal
from fhirapp.auth.oauth.client_assertion import ALGORITHMS
from fhirapp.db import db, writing
from tests.support.helpers import BASE_URL, Fhir
from tests.support.key_server import KeyServer, ok, reply, running

TOKEN_URL = f"{BASE_URL}/oauth/token"
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CLIENT = "clinic"

RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-384", {"kid": "ec"})
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
    # Eight ask at once below, and each needs a place to write.
    app = make_app(seed=False, threads=9)
    jwks = {"keys": [key.as_dict(private=False) for key in (RSA, EC)]}
    with app.app_context(), writing() as connection:
        for name in (CLIENT, "disabled"):
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
    """Ask for a token with an assertion."""
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


def assert_refused(response: TestResponse) -> str:
    """Assert that the client was not believed, as RFC 6749 §5.2 has it; return the description."""
    assert response.status_code in (400, 401), response.text
    assert response.headers["Cache-Control"] == "no-store"
    assert response.content_type == "application/json"
    answer = response.get_json()
    assert answer["error"] == "invalid_client"
    assert answer.keys() <= {"error", "error_description", "error_uri"}
    return str(answer["error_description"])


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_signed_assertion_gets_a_token_that_works(oauth, alg):
    response = ask(oauth, signed(alg))
    answer = response.get_json()
    assert response.status_code == 200, response.text
    assert answer.pop("access_token")
    assert answer == {"token_type": "Bearer", "expires_in": 300, "scope": "system/*.rs"}
    token = ask(oauth, signed(alg)).get_json()["access_token"]
    assert Fhir(oauth, token).read("AllergyIntolerance")["total"] == 0


def test_aud_may_be_a_list_that_holds_the_token_endpoint(oauth):
    assert ask(oauth, signed(aud=["https://other.example", TOKEN_URL])).status_code == 200


def test_client_id_may_repeat_the_assertions_subject(oauth):
    assert ask(oauth, signed(), client_id=CLIENT).status_code == 200


def test_client_id_that_contradicts_the_assertion_is_refused(oauth):
    refused = ask(oauth, signed(), client_id="demo-backend")
    assert assert_refused(refused) == "client_id contradicts the assertion."


def _wrong() -> Iterator[Any]:
    now = int(time.time())
    for name, changes in {
        "wrong aud": {"aud": "https://other.example/oauth/token"},
        "aud is the base address": {"aud": BASE_URL},
        "aud is longer": {"aud": TOKEN_URL + "/"},
        "no aud": {"aud": None},
        "aud is a number": {"aud": 7},
        "exp past": {"exp": now - 120},
        "exp too far": {"exp": now + 36_000},
        "exp missing": {"exp": None},
        "exp is text": {"exp": str(now + 200)},
        "exp is true": {"exp": True},
        "exp is NaN": {"exp": float("nan")},
        "exp is infinite": {"exp": float("inf")},
        "exp is minus infinite": {"exp": float("-inf")},
        "nbf in the future": {"nbf": now + 3600},
        "iat in the future": {"iat": now + 3600},
        "iss missing": {"iss": None},
        "iss is not sub": {"iss": "somebody"},
        "sub missing": {"sub": None},
        "sub unknown": {"sub": "unknown", "iss": "unknown"},
        "sub disabled": {"sub": "disabled", "iss": "disabled"},
        "sub has no key": {"sub": "operator", "iss": "operator"},
        "sub is a list": {"sub": [CLIENT]},
        "sub has a NUL": {"sub": "clinic\0", "iss": "clinic\0"},
        "sub is no text": {"sub": "\ud800", "iss": "\ud800"},
        "jti missing": {"jti": None},
        "jti is a number": {"jti": 7},
        "jti is empty": {"jti": ""},
        "jti too long": {"jti": "x" * 256},
        "jti has a NUL": {"jti": "a\0b"},
        "jti is no text": {"jti": "\ud800"},
    }.items():
        yield pytest.param(lambda changes=changes: signed(**changes), id=name)
    for name, make in {
        "RS256": lambda: signed("RS256"),
        "RS512": lambda: signed("RS512"),
        "PS384": lambda: signed("PS384"),
        "HS256 with the public key": lambda: _keyed_with_public_key("HS256", hashlib.sha256),
        "HS384 with the public key": lambda: _keyed_with_public_key("HS384", hashlib.sha384),
        "a stranger's key": lambda: signed(key=STRANGER),
        "unknown kid": lambda: signed(header={"kid": "other"}),
        "kid of the other key": lambda: signed(header={"kid": "ec"}),
        "kid is a number": lambda: _resigned({"alg": "RS384", "kid": 7}),
        "jku": lambda: signed(header={"jku": "https://clinic.example/jwks.json"}),
        "none": lambda: raw({"alg": "none"}, {"sub": CLIENT, "iss": CLIENT}, b""),
        "None": lambda: raw({"alg": "None"}, {"sub": CLIENT, "iss": CLIENT}),
        "alg is a list": lambda: raw({"alg": ["RS384"]}, {"sub": CLIENT}),
        "alg missing": lambda: raw({"typ": "JWT"}, {"sub": CLIENT}),
        "header is a list": lambda: raw([], {"sub": CLIENT}),
        "claims are a list": lambda: raw({"alg": "RS384"}, []),
        "claims are no JSON": lambda: raw({"alg": "RS384"}, "{"),
        "claims are deep": lambda: raw({"alg": "RS384"}, "[" * 100_000),
        "header is deep": lambda: raw("[" * 100_000, {"sub": CLIENT}),
        "no kid": lambda: signed(header={"kid": None}),
        "text": lambda: "junk",
        "two dots": lambda: "..",
        "five parts": lambda: "a.b.c.d.e",
        "no base64": lambda: "!.!.!",
        "tampered": lambda: _tampered(signed()),
        "signature cut": lambda: signed()[:-8],
    }.items():
        yield pytest.param(make, id=name)


def _resigned(header: dict[str, Any]) -> str:
    return raw(header, {"iss": CLIENT, "sub": CLIENT, "aud": TOKEN_URL, "jti": "1"})


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


@pytest.mark.parametrize("make", list(_wrong()))
def test_an_assertion_that_is_wrong_in_any_way_is_refused(oauth, make):
    assert_refused(ask(oauth, make()))


def test_a_jti_serves_once(oauth):
    assertion = signed()
    assert ask(oauth, assertion).status_code == 200
    assert_refused(ask(oauth, assertion))
    same_jti = {"jti": "jti-used-twice"}
    assert ask(oauth, signed(**same_jti)).status_code == 200
    assert_refused(ask(oauth, signed("ES384", **same_jti)))


def test_a_jti_of_another_client_is_another(oauth):
    jti = str(uuid4())
    jwks = KeySet([EC]).as_dict(private=False)
    with oauth.app_context(), writing() as connection:
        register(connection, backend("second", jwks), client_id="second")
    assert ask(oauth, signed(jti=jti)).status_code == 200
    assert ask(oauth, signed("ES384", iss="second", sub="second", jti=jti)).status_code == 200


def test_of_eight_at_once_with_one_jti_exactly_one_wins(oauth):
    for _ in range(3):
        assertion = signed()
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda one: ask(oauth, one), [assertion] * 8))
        assert [answer.status_code for answer in answers].count(200) == 1
        for answer in answers:
            if answer.status_code != 200:
                assert_refused(answer)


def test_a_refused_assertion_does_not_use_up_its_jti(oauth):
    jti = str(uuid4())
    assert_refused(ask(oauth, signed(jti=jti, aud="https://other.example")))
    assert ask(oauth, signed(jti=jti)).status_code == 200


UNFETCHED = "The client's keys could not be fetched."
UNFIT = "The signature does not fit a registered key."


@pytest.fixture(scope="module")
def fetching(make_app: Callable[..., Flask]) -> Flask:
    """Return an app that fetches its clients' keys from this machine too."""
    return make_app(seed=False, threads=9, fetch_private=True)


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    """A server of a client's RSA and EC key."""
    with running() as server:
        server.answer = published(RSA, EC)
        yield server


def published(*keys: RSAKey | ECKey) -> bytes:
    """Return the answer of a client that publishes these keys."""
    return ok({"keys": [key.as_dict(private=False) for key in keys]})


def client_at(app: Flask, uri: str) -> dict[str, str]:
    """Register a client whose keys are at an address; return the claims that name it."""
    name = f"at-{uuid4()}"
    with app.app_context(), writing() as connection:
        register(connection, backend(name, jwks_uri=uri), client_id=name)
    return {"iss": name, "sub": name}


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_keys_at_the_clients_address_prove_who_it_is(fetching, keys, alg):
    named = client_at(fetching, keys.url)
    response = ask(fetching, signed(alg, **named))
    assert response.status_code == 200, response.text
    token = response.get_json()["access_token"]
    assert Fhir(fetching, token).read("AllergyIntolerance")["total"] == 0


def test_keys_at_an_address_are_fetched_once_for_many_assertions(fetching, keys):
    named, others = client_at(fetching, keys.url), client_at(fetching, keys.url)
    for claims in (named, named, others):
        assert ask(fetching, signed("ES384", **claims)).status_code == 200
    assert len(keys.asked) == 1


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("kid", ["new", None])
def test_a_client_changes_its_keys_whenever_it_likes(fetching, keys, alg, kid):
    named = client_at(fetching, keys.url)
    old = RSA if alg == "RS384" else EC
    keys.answer = published(old)
    assert ask(fetching, signed(alg, **named)).status_code == 200
    # The same kid with another key is no change that clients should make, but some do.
    parameters = {"kid": kid or old.kid}
    new = (
        RSAKey.generate_key(2048, parameters)
        if alg == "RS384"
        else ECKey.generate_key("P-384", parameters)
    )
    keys.answer = published(new)
    assert ask(fetching, signed(alg, new, **named)).status_code == 200
    assert assert_refused(ask(fetching, signed(alg, old, **named))) == UNFIT
    assert len(keys.asked) == 2


def test_a_key_that_is_not_there_makes_the_keys_be_fetched_once_more_and_not_again(fetching, keys):
    named = client_at(fetching, keys.url)
    assert ask(fetching, signed(**named)).status_code == 200
    for change in ({"header": {"kid": "other"}}, {"key": STRANGER}, {"header": {"kid": None}}):
        assert assert_refused(ask(fetching, signed(**change, **named))) == UNFIT
    assert len(keys.asked) == 2
    assert ask(fetching, signed(**named)).status_code == 200


@pytest.mark.parametrize(
    "said",
    [
        reply("302 Found", b"", "Location: http://localhost/"),
        reply("404 Not Found"),
        ok({"keys": []}),
        ok(b"secret"),
        b"",
    ],
)
def test_an_address_without_keys_is_refused_without_a_word_of_what_is_there(fetching, keys, said):
    keys.answer = said
    named = client_at(fetching, keys.url)
    response = ask(fetching, signed(**named))
    assert assert_refused(response) == UNFETCHED
    with fetching.app_context():
        kept = db.session.get_one(Refusal, response.headers["X-Request-Id"])
        assert (kept.client_id, kept.reasons) == (
            named["sub"],
            [f"invalid_client: {UNFETCHED}"],
        )


def test_an_address_where_nobody_listens_is_refused_with_the_same_words(fetching):
    named = client_at(fetching, "http://localhost:1/jwks.json")
    assert assert_refused(ask(fetching, signed(**named))) == UNFETCHED


def test_a_private_address_is_not_asked_where_the_operator_does_not_allow_it(oauth, keys):
    https = keys.url.replace("http:", "https:")
    for uri in (keys.url, https):
        assert assert_refused(ask(oauth, signed(**client_at(oauth, uri)))) == UNFETCHED
    assert keys.asked == []


@pytest.mark.parametrize(
    "changes",
    [
        {"header": {"jku": "http://localhost/jwks.json"}},
        {"alg": "RS256"},
        {"sub": "unknown", "iss": "unknown"},
    ],
)
def test_what_is_refused_anyway_makes_nobody_fetch(fetching, keys, changes):
    assert_refused(ask(fetching, signed(**{**client_at(fetching, keys.url), **changes})))
    assert keys.asked == []


def test_jku_may_name_the_registered_address_and_no_other(fetching, keys):
    """SMART App Launch 2.2, client-confidential-asymmetric: it must match what is registered."""
    client = client_at(fetching, keys.url)
    assert ask(fetching, signed(header={"jku": keys.url}, **client)).status_code == 200
    refused = ask(fetching, signed(header={"jku": f"{keys.url}/"}, **client))
    assert assert_refused(refused) == "jku must be the address of the keys that is registered."


def test_no_snapshot_is_held_while_keys_are_fetched(fetching, keys):
    named = client_at(fetching, keys.url)
    held: list[int] = []
    with fetching.app_context():
        url = db.engine.url
    keys.before = lambda: held.append(_snapshots(url))
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


def test_one_thread_is_left_to_others_while_keys_are_fetched(make_app, keys):
    app = make_app(seed=False, threads=2, fetch_private=True)
    named = client_at(app, keys.url)
    asked = keys.hold()
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(ask, app, signed(**named))
        assert asked.wait(5)
        refused = ask(app, signed(**named))
        keys.over.set()
        assert waits.result().status_code == 200
    assert refused.status_code == 503
    assert refused.headers["Retry-After"] == "2"
    assert refused.headers["Cache-Control"] == "no-store"
    assert refused.get_json() == {
        "error": "temporarily_unavailable",
        "error_description": "Too many wait for keys of clients; try again shortly.",
    }


def _snapshots(url: URL) -> int:
    """Return how many transactions others have open; on SQLite 1 for any number of them."""
    if url.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(url.database), timeout=0)) as connection:
            # It empties the log, unless somebody reads in it.
            return int(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
    engine = create_engine(url)
    with engine.connect() as connection:
        count = connection.execute(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
            )
        ).scalar_one()
    engine.dispose()
    return int(count)
