"""Validation of a client's registration: fields that go together, names, scopes, keys."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from joserfc.jwk import ECKey, KeySet, OctKey

from fhirapp.auth.clients.administration import find, find_owned
from fhirapp.auth.clients.public_keys import public_keys
from fhirapp.auth.clients.registration import (
    KINDS,
    METHODS,
    columns,
    owner_code,
    register,
)
from fhirapp.auth.models import BASIC, NONE, SIGNED
from fhirapp.db import writing
from tests.support.authorizing import Flow, Program, add_person
from tests.support.registrations import (
    BACKEND,
    CONFIDENTIAL,
    EC,
    JWKS,
    PUBLIC,
    REDIRECT,
    RSA,
    refusal_of,
)

EC_PUBLIC, RSA_PUBLIC = EC.as_dict(private=False), RSA.as_dict(private=False)
TEN_URIS = tuple(f"{REDIRECT}/{n}" for n in range(10))
KEYS_URL = "https://lab.example/keys"


@pytest.fixture
def _enforcing(app: Flask) -> Iterator[None]:
    """An app that says which scopes it can enforce."""
    with app.app_context():
        yield


enforcing = pytest.mark.usefixtures("_enforcing")


@enforcing
def test_each_kind_of_client_has_its_methods_keys_and_redirect_uris():
    assert METHODS.keys() == set(KINDS)
    valid = [
        *(BACKEND, replace(BACKEND, jwks=None, jwks_uri=KEYS_URL), PUBLIC, CONFIDENTIAL),
        *(replace(CONFIDENTIAL, auth_method=SIGNED, jwks=JWKS), replace(PUBLIC, developer="é")),
        replace(PUBLIC, redirect_uris=TEN_URIS),
    ]
    assert [refusal_of(columns, registration) for registration in valid] == [""] * len(valid)
    invalid = {
        "kind of client must be one of backend, public": [
            *(replace(PUBLIC, kind="operator"), replace(PUBLIC, kind=""))
        ],
        "public client must authenticate with none.": [replace(PUBLIC, auth_method=BASIC)],
        "confidential client must authenticate with client_secret_basic / private_key_jwt.": [
            replace(CONFIDENTIAL, auth_method=NONE)
        ],
        "backend client must authenticate with private_key_jwt.": [
            replace(BACKEND, auth_method=method) for method in (BASIC, f"{BASIC} {SIGNED}")
        ],
        "Public keys are missing": [
            *(replace(BACKEND, jwks=None), replace(BACKEND, jwks={})),
            *(replace(BACKEND, jwks_uri=KEYS_URL), replace(CONFIDENTIAL, auth_method=SIGNED)),
        ],
        "Keys can only be used with private_key_jwt.": [
            *(replace(CONFIDENTIAL, jwks=JWKS), replace(PUBLIC, jwks_uri=KEYS_URL))
        ],
        "has no users: leave out the redirect URIs": [
            replace(BACKEND, redirect_uris=(REDIRECT,)),
            replace(BACKEND, launch_uri="https://lab.example/launch"),
        ],
        "at least one redirect URI": [
            replace(registration, redirect_uris=()) for registration in (PUBLIC, CONFIDENTIAL)
        ],
        "At most 10 redirect URIs": [replace(PUBLIC, redirect_uris=(*TEN_URIS, REDIRECT))],
        "The redirect URI 'javascript:x'": [
            replace(PUBLIC, redirect_uris=(REDIRECT, "javascript:x"))
        ],
    }
    for words, registrations in invalid.items():
        for registration in registrations:
            assert words in refusal_of(columns, registration), registration


@enforcing
@pytest.mark.parametrize(("name", "longest"), [("name", 100), ("developer", 100), ("contact", 200)])
def test_names_are_printable_and_short(name, longest):
    for text in ("é" * longest, " Dr. O'Neil & <Co>  "):
        assert columns(replace(PUBLIC, **{name: text}))[name] == text.strip()
    for text in ("x" * (longest + 1), " ", "a\nb", "a\u202eb", "a\0b", "a\x1b[2J"):
        message = refusal_of(columns, replace(PUBLIC, **{name: text}))
        assert message == f"The {name} must have 1 to {longest} printable characters."


@enforcing
def test_stored_columns_have_no_empty_texts_and_no_repeated_redirect_uri():
    names = ("launch_uri", "developer", "contact", "jwks_uri")
    stored = columns(replace(PUBLIC, **dict.fromkeys(names, "")))
    assert [stored[name] for name in (*names, "jwks")] == [None] * 5
    assert columns(BACKEND)["redirect_uris"] is None
    uris = ("https://b.example/", "https://a.example/", "https://b.example/")
    stored = columns(replace(PUBLIC, redirect_uris=uris))
    assert stored["redirect_uris"] == ["https://b.example/", "https://a.example/"]


@enforcing
def test_scopes_are_stored_as_requested():
    narrow = "system/AllergyIntolerance.rs?clinical-status=active"
    for registration, scope, stored in (
        (PUBLIC, " openid   fhirUser\nopenid launch/patient ", "openid fhirUser launch/patient"),
        (CONFIDENTIAL, "user/*.rs patient/DocumentReference", None),
        (CONFIDENTIAL, "offline_access patient/*.cruds", None),
        (BACKEND, "system/*.read", None),
        (BACKEND, narrow, None),
    ):
        assert columns(replace(registration, scope=scope))["scope"] == (stored or scope)


@enforcing
def test_scopes_that_a_kind_of_client_cannot_have_are_named():
    for registration, scope, named in (
        (PUBLIC, "system/*.rs", "system/*.rs"),
        (CONFIDENTIAL, "openid system/*.rs patient/*.rs", "system/*.rs"),
        (CONFIDENTIAL, "patient/*.rs?no-such-filter=1", "patient/*.rs?no-such-filter=1"),
        (PUBLIC, "patient/Observation.rs", "patient/Observation.rs"),
        (PUBLIC, "patient/*.c", "patient/*.c"),
        (PUBLIC, "PATIENT/*.rs", "PATIENT/*.rs"),
        (PUBLIC, "patient/*.rs,openid", "patient/*.rs,openid"),
        (BACKEND, "offline_access system/*.rs", "offline_access"),
        (BACKEND, "user/*.rs launch", "user/*.rs launch"),
        (BACKEND, "system/*.rs patient/*.rs", "patient/*.rs"),
        (BACKEND, "system/*.write", "system/*.write"),
        (BACKEND, "system/documentreference", "system/documentreference"),
    ):
        example = "system/*.rs" if registration is BACKEND else "launch/patient patient/*.rs"
        message = refusal_of(columns, replace(registration, scope=scope))
        assert message.startswith(f"A {registration.kind} client cannot have the scope {named};")
        assert message.endswith(f" {example}")
    too_long = refusal_of(columns, replace(PUBLIC, scope=" ".join(["openid"] * 300)))
    assert "at most 2000 characters" in too_long
    for registration, example in ((BACKEND, "system/*.rs"), (PUBLIC, "launch/patient")):
        message = refusal_of(columns, replace(registration, scope=" \n"))
        assert "at least one" in message
        assert example in message


# Keys.


def rsa_of(bits: int) -> dict[str, Any]:
    """Return an RSA key with a modulus of so many bits."""
    content = ((1 << bits) - 1).to_bytes((bits + 7) // 8)
    modulus = base64.urlsafe_b64encode(content).rstrip(b"=").decode()
    return {"kty": "RSA", "n": modulus, "e": "AQAB", "kid": "k"}


def test_rsa_key_has_2048_to_8192_bits():
    for bits in (0, 512, 1024, 2047, 8193, 65_536):
        assert "must have 2048 to 8192 bits" in refusal_of(public_keys, rsa_of(bits)), bits
    for bits in (2048, 3072, 8192):
        assert public_keys(rsa_of(bits)) == {"keys": [rsa_of(bits)]}


def test_key_that_signs_no_assertion_is_left_out():
    for other in (
        {**RSA_PUBLIC, "use": "enc"},
        {**RSA_PUBLIC, "alg": "RS256"},
        {**EC_PUBLIC, "alg": "ES256"},
        # ES384 is made with P-384 and no other curve.
        ECKey.generate_key("P-256").as_dict(private=False),
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        OctKey.generate_key(256).as_dict(private=True),
        {"kty": "EC"},
        {"kty": "nonsense"},
    ):
        assert public_keys({"keys": [other, EC_PUBLIC]}) == {"keys": [EC_PUBLIC]}
        assert "must contain RSA keys for RS384" in refusal_of(public_keys, other)


def test_key_set_that_is_malformed_is_refused():
    for content in (
        *(7, None, "text", [], [1], {"keys": 5}, {"keys": []}, {"keys": [5]}, {"keys": {}}),
        {"keys": [EC_PUBLIC] * 51},
        *({"keys": [EC_PUBLIC, {"kty": "RSA", "n": "!", "e": "AQAB"}]}, {}),
        # A point that is not on the curve, and a key without one.
        *({"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}, {"kty": "EC", "crv": "P-384"}),
        *({**EC_PUBLIC, "kid": kid} for kid in (5, None, ["k"], "x" * 256, "a\nb", "\ud800", "\0")),
    ):
        assert refusal_of(public_keys, content), content
    assert "At most 50 keys" in refusal_of(public_keys, {"keys": [EC_PUBLIC] * 51})
    assert "kid must have at most 255" in refusal_of(public_keys, {**EC_PUBLIC, "kid": "x" * 256})


def test_private_parts_and_unknown_members_of_a_key_are_not_stored():
    unknown = {"key_ops": ["sign"], "ext": True, "x5u": "https://x.example", "note": "my secret"}
    for key in (EC, RSA):
        private = {**key.as_dict(private=True), **unknown, "oth": [{"d": "AQ"}]}
        assert public_keys(private) == {"keys": [key.as_dict(private=False)]}
    keys = public_keys(KeySet([RSA, EC]).as_dict(private=False))["keys"]
    assert [key["kid"] for key in keys] == ["rsa", "ec"]


def test_client_whose_private_key_file_was_registered_can_sign(make_app):
    app = make_app(seed=False)
    private = {**EC.as_dict(private=True), "key_ops": ["sign"], "ext": True}
    with app.app_context(), writing() as connection:
        register(connection, replace(BACKEND, jwks={"keys": [private]}), client_id="lab")
    flow = Flow(app, Program("lab", key=EC), add_person(app, "clinician"))
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    assert flow.ask("/oauth/token", **form).status_code == 200


# Rows.


def test_client_is_registered_once_and_approved_unless_it_registered_itself(connection):
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
    again = refusal_of(register, connection, BACKEND, client_id="app")
    assert "app is already registered" in again


def test_client_id_is_one_that_oauth_can_carry_and_none_of_the_servers_own(connection):
    for client_id in ("", "a b", "é", "x" * 65, "a/b", "a\n"):
        message = refusal_of(register, connection, BACKEND, client_id=client_id)
        assert "1 to 64 letters" in message, client_id
    for client_id in ("operator", "pages", "api-docs"):
        message = refusal_of(register, connection, BACKEND, client_id=client_id)
        assert f"{client_id} is this server's own" in message


def test_owner_is_known_by_the_newest_code_only(make_app):
    app = make_app(seed=False)
    with app.app_context(), writing() as connection:
        for client_id in ("app", "other"):
            register(connection, PUBLIC, client_id=client_id)
        before, code = owner_code(connection, "app"), owner_code(connection, "app")
        assert find(connection, "app")["owner_digest"] != code.encode()
    with app.app_context():
        assert find_owned(before) is None
        found = find_owned(code)
        assert found is not None
        assert found.client_id == "app"
        assert find_owned("") is None
