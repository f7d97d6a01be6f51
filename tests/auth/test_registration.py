"""What a client may say of itself: keys, scopes, words, and what goes together."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from sqlalchemy import Connection

from fhirapp.auth.clients.administration import find, find_owned
from fhirapp.auth.clients.registration import (
    KINDS,
    METHODS,
    Registration,
    columns,
    owner_code,
    public_keys,
    register,
)
from fhirapp.auth.models import BASIC, NONE, SIGNED
from fhirapp.config import RefusedCommand
from fhirapp.db import writing
from tests.support.helpers import BASE_URL

EC = ECKey.generate_key("P-384", {"kid": "ec"})
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
JWKS = KeySet([EC]).as_dict(private=False)
REDIRECT = "https://app.example/callback"

BACKEND = Registration(
    name="Lab", kind="backend", auth_method=SIGNED, scope="system/*.rs", jwks=JWKS
)
PUBLIC = Registration(
    name="App",
    kind="public",
    auth_method=NONE,
    scope="launch/patient patient/*.rs",
    redirect_uris=(REDIRECT,),
)
CONFIDENTIAL = replace(PUBLIC, kind="confidential", auth_method=BASIC)


@pytest.fixture
def connection(app: Flask) -> Iterator[Connection]:
    """A writing transaction that is undone at the end of the test."""
    with app.app_context(), writing() as opened:
        nested = opened.begin_nested()
        yield opened
        nested.rollback()


@pytest.fixture
def _enforcing(app: Flask) -> Iterator[None]:
    """An app that says which scopes it can enforce."""
    with app.app_context():
        yield


enforcing = pytest.mark.usefixtures("_enforcing")


def refusal(call: Callable[..., object], *arguments: Any, **given: Any) -> str:
    """Return what is said to whoever asked for what cannot be done."""
    with pytest.raises(RefusedCommand) as raised:
        call(*arguments, **given)
    said = str(raised.value)
    assert said.isprintable()
    return said


# What goes together.


@enforcing
@pytest.mark.parametrize(
    "one",
    [
        BACKEND,
        replace(BACKEND, jwks=None, jwks_uri="https://lab.example/keys"),
        PUBLIC,
        CONFIDENTIAL,
        replace(CONFIDENTIAL, auth_method=SIGNED, jwks=JWKS),
        replace(PUBLIC, redirect_uris=tuple(f"{REDIRECT}/{n}" for n in range(10))),
    ],
)
def test_what_goes_together_is_taken(one):
    assert columns(one)["kind"] == one.kind


KEYS_MISSING = "Public keys are missing: enter a JSON Web Key Set or the URL of one."
NO_USERS = "A backend client has no users: leave out the redirect URIs."


@enforcing
@pytest.mark.parametrize(
    ("one", "words"),
    [
        (
            replace(PUBLIC, kind="operator"),
            "The kind of client must be one of backend, public, confidential.",
        ),
        (
            replace(PUBLIC, kind=""),
            "The kind of client must be one of backend, public, confidential.",
        ),
        (replace(PUBLIC, auth_method=BASIC), "A public client must authenticate with none."),
        (
            replace(CONFIDENTIAL, auth_method=NONE),
            "A confidential client must authenticate with client_secret_basic / private_key_jwt.",
        ),
        (
            replace(BACKEND, auth_method=BASIC),
            "A backend client must authenticate with private_key_",
        ),
        (
            replace(BACKEND, auth_method=f"{BASIC} {SIGNED}"),
            "A backend client must authenticate with private_key_jwt.",
        ),
        (replace(BACKEND, jwks=None), KEYS_MISSING),
        (replace(BACKEND, jwks={}), KEYS_MISSING),
        (replace(BACKEND, jwks_uri="https://lab.example/keys"), KEYS_MISSING),
        (replace(CONFIDENTIAL, auth_method=SIGNED), KEYS_MISSING),
        (replace(CONFIDENTIAL, jwks=JWKS), "Keys can only be used with private_key_jwt."),
        (
            replace(PUBLIC, jwks_uri="https://a.example/k"),
            "Keys can only be used with private_key_jwt.",
        ),
        (replace(BACKEND, redirect_uris=(REDIRECT,)), NO_USERS),
        (replace(BACKEND, launch_uri="https://lab.example/launch"), NO_USERS),
        (replace(PUBLIC, redirect_uris=()), "An app needs at least one redirect URI."),
        (replace(CONFIDENTIAL, redirect_uris=()), "An app needs at least one redirect URI."),
        (
            replace(PUBLIC, redirect_uris=tuple(f"{REDIRECT}/{n}" for n in range(11))),
            "At most 10 redirect URIs.",
        ),
        (replace(PUBLIC, redirect_uris=(REDIRECT, "javascript:x")), "The redirect URI 'java"),
    ],
)
def test_what_does_not_go_together_is_refused(one, words):
    assert refusal(columns, one).startswith(words)


def test_each_kind_has_its_ways_to_prove_who_it_is():
    assert METHODS.keys() == set(KINDS)


# Words.


@enforcing
@pytest.mark.parametrize(("name", "longest"), [("name", 100), ("developer", 100), ("contact", 200)])
def test_words_are_printable_and_short(name, longest):
    for text in ("é" * longest, " Dr. O'Neil & <Co>  "):
        assert columns(replace(PUBLIC, **{name: text}))[name] == text.strip()
    for text in ("x" * (longest + 1), " ", "a\nb", "a\u202eb", "a\0b", "a\x1b[2J"):
        said = refusal(columns, replace(PUBLIC, **{name: text}))
        assert said == f"The {name} must have 1 to {longest} printable characters."


@enforcing
def test_what_is_not_said_is_not_stored():
    empty = replace(PUBLIC, launch_uri="", developer="", contact="", jwks_uri="")
    stored = columns(empty)
    names = ("launch_uri", "developer", "contact", "jwks", "jwks_uri")
    assert [stored[name] for name in names] == [None] * 5
    assert columns(BACKEND)["redirect_uris"] is None


@enforcing
def test_an_address_that_stands_twice_is_stored_once_in_its_order():
    uris = ("https://b.example/", "https://a.example/", "https://b.example/")
    stored = columns(replace(PUBLIC, redirect_uris=uris))
    assert stored["redirect_uris"] == ["https://b.example/", "https://a.example/"]


# Scopes.


@enforcing
@pytest.mark.parametrize(
    ("one", "scope", "stored"),
    [
        (PUBLIC, " openid   fhirUser\nopenid launch/patient ", "openid fhirUser launch/patient"),
        (
            CONFIDENTIAL,
            "user/*.rs patient/DocumentReference",
            "user/*.rs patient/DocumentReference",
        ),
        (CONFIDENTIAL, "offline_access patient/*.cruds", "offline_access patient/*.cruds"),
        (BACKEND, "system/*.read", "system/*.read"),
        (
            BACKEND,
            "system/AllergyIntolerance.rs?clinical-status=active",
            "system/AllergyIntolerance.rs?clinical-status=active",
        ),
    ],
)
def test_a_scope_is_stored_as_it_was_asked(one, scope, stored):
    assert columns(replace(one, scope=scope))["scope"] == stored


@enforcing
@pytest.mark.parametrize(
    ("one", "scope", "named"),
    [
        (PUBLIC, "system/*.rs", "system/*.rs"),
        (CONFIDENTIAL, "openid system/*.rs patient/*.rs", "system/*.rs"),
        (CONFIDENTIAL, "patient/*.rs?no-such-filter=1", "patient/*.rs?no-such-filter=1"),
        (PUBLIC, "patient/Observation.rs", "patient/Observation.rs"),
        (PUBLIC, "patient/*.c", "patient/*.c"),
        (PUBLIC, "PATIENT/*.rs", "PATIENT/*.rs"),
        (PUBLIC, "patient/*.rs,openid", "patient/*.rs,openid"),
        (BACKEND, "offline_access system/*.rs", "offline_access"),
        (BACKEND, "user/*.rs launch", "user/*.rs launch"),
    ],
)
def test_a_scope_that_a_client_cannot_have_is_named(one, scope, named):
    example = "system/*.rs" if one is BACKEND else "launch/patient patient/*.rs"
    assert refusal(columns, replace(one, scope=scope)) == (
        f"A {one.kind} client cannot have the scope {named}; use for example {example}"
    )


@enforcing
def test_a_scope_is_not_longer_than_a_request_can_ask():
    said = refusal(columns, replace(PUBLIC, scope=" ".join(["openid"] * 300)))
    assert said == "The scopes must have at most 2000 characters."


# Keys, beside what test_clients.py has.


def modulus(bits: int) -> str:
    """Return an RSA modulus of so many bits, as a JWK writes it."""
    number = (1 << bits) - 1
    content = number.to_bytes((bits + 7) // 8)
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.mark.parametrize("bits", [0, 512, 1024, 2047, 8193, 65_536])
def test_an_rsa_key_is_neither_weak_nor_slow(bits):
    key = {"kty": "RSA", "n": modulus(bits), "e": "AQAB"}
    assert refusal(public_keys, key) == "An RSA key must have 2048 to 8192 bits."


@pytest.mark.parametrize("bits", [2048, 3072, 8192])
def test_an_rsa_key_of_a_usual_size_is_taken(bits):
    key = {"kty": "RSA", "n": modulus(bits), "e": "AQAB", "kid": "k"}
    assert public_keys(key) == {"keys": [key]}


OTHERS = [
    {**RSA.as_dict(private=False), "use": "enc"},
    {**RSA.as_dict(private=False), "alg": "RS256"},
    {**EC.as_dict(private=False), "alg": "ES256"},
    ECKey.generate_key("P-256").as_dict(private=False),
    {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
    {"kty": "oct", "k": "c2VjcmV0"},
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_key_that_signs_no_assertion_is_left_out(other):
    kept = public_keys({"keys": [other, EC.as_dict(private=False)]})
    assert kept == {"keys": [EC.as_dict(private=False)]}
    assert refusal(public_keys, other).startswith("The key set must contain RSA keys for RS384")


@pytest.mark.parametrize("kid", [5, None, ["k"], "x" * 256, "a\nb", "\ud800", "\0"])
def test_a_kid_is_printable_and_short(kid):
    said = refusal(public_keys, {**EC.as_dict(private=False), "kid": kid})
    assert said == "A kid must have at most 255 printable characters."


def test_a_set_has_not_more_keys_than_anybody_needs():
    key = EC.as_dict(private=False)
    assert refusal(public_keys, {"keys": [key] * 51}) == "At most 50 keys."


@pytest.mark.parametrize("given", [EC, RSA], ids=["EC", "RSA"])
def test_of_what_else_stands_in_a_key_nothing_is_kept(given):
    private = given.as_dict(private=True)
    more = {"key_ops": ["sign"], "ext": True, "x5u": "https://x.example", "note": "my secret"}
    kept = public_keys({**private, **more, "oth": [{"d": "AQ"}]})["keys"][0]
    assert kept == given.as_dict(private=False)


def test_a_client_whose_private_key_file_was_registered_can_sign(make_app):
    app = make_app(seed=False)
    private = {**RSA.as_dict(private=True), "key_ops": ["sign"], "ext": True}
    with app.app_context(), writing() as connection:
        register(connection, replace(BACKEND, jwks={"keys": [private]}), client_id="lab")
    claims = {"iss": "lab", "sub": "lab", "aud": f"{BASE_URL}/oauth/token", "jti": str(uuid4())}
    claims["exp"] = int(time.time()) + 60
    assertion = jwt.encode({"alg": "RS384", "kid": "rsa"}, claims, RSA, algorithms=["RS384"])
    form = {
        "grant_type": "client_credentials",
        "scope": "system/*.rs",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": assertion,
    }
    answer = app.test_client().post("/oauth/token", data=form)
    assert answer.status_code == 200, answer.text


# What is stored.


def test_a_client_that_is_registered_waits_for_approval_or_does_not(connection):
    now = int(time.time())
    approved = register(connection, PUBLIC, client_id="app")
    waiting = register(connection, PUBLIC, approved=False)
    assert re.fullmatch(r"app-[0-9a-f]{16}", waiting)
    rows = [find(connection, client_id) for client_id in (approved, waiting)]
    assert [row["approved_at"] is None for row in rows] == [False, True]
    for row in rows:
        assert 0 <= row["registered_at"] - now <= 5
        assert (row["secret_digest"], row["owner_digest"], row["disabled"]) == (None, None, False)
        assert json.dumps(row["redirect_uris"]) == f'["{REDIRECT}"]'


def test_the_shells_own_client_is_nobody_elses(connection):
    said = refusal(register, connection, BACKEND, client_id="operator")
    assert said == "The client operator is this server's own; choose another id."


def test_an_owner_is_known_by_the_newest_code(make_app):
    app = make_app(seed=False)
    with app.app_context(), writing() as connection:
        for client_id in ("one", "other"):
            register(connection, PUBLIC, client_id=client_id)
        before, code = owner_code(connection, "one"), owner_code(connection, "one")
        assert find(connection, "one")["owner_digest"] != code.encode()
    with app.app_context():
        assert find_owned(before) is None
        found = find_owned(code)
        assert found is not None
        assert found.client_id == "one"
        assert find_owned("") is None
