"""Registering clients and issuing tokens as the shell does."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey
from sqlalchemy import select

from fhirapp.auth.clients import find, issue_token, list_clients, set_disabled
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.models import AccessToken, digest
from fhirapp.auth.registration import SIGNED, Registration, public_keys, register
from fhirapp.db import writing

RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-384", {"kid": "ec"})
JWKS = KeySet([RSA, EC]).as_dict(private=False)


def backend(name: str, scope: str = "system/*.rs") -> Registration:
    """Return the registration of a backend client with these keys."""
    return Registration(name=name, kind="backend", auth_method=SIGNED, scope=scope, jwks=JWKS)


@pytest.fixture
def connection(app):
    """A writing transaction that is undone at the end of the test."""
    with app.app_context(), writing() as opened:
        nested = opened.begin_nested()
        yield opened
        nested.rollback()


@pytest.mark.parametrize("given", [RSA, EC], ids=["RSA", "EC"])
def test_of_a_private_key_the_public_part_alone_is_kept(given):
    kept = public_keys(given.as_dict(private=True))
    assert kept == {"keys": [given.as_dict(private=False)]}
    assert "d" not in json.dumps(kept["keys"][0]).split('"')


def test_a_set_of_keys_is_kept_in_its_order():
    assert [key["kid"] for key in public_keys(JWKS)["keys"]] == ["rsa", "ec"]


@pytest.mark.parametrize(
    "content",
    [
        7,
        None,
        "text",
        [],
        [1],
        {},
        {"keys": 5},
        {"keys": []},
        {"keys": [5]},
        {"keys": {}},
        {"keys": [{"kty": "EC"}]},
        {"keys": [{"kty": "nonsense"}]},
        {"keys": [EC.as_dict(private=False), {"kty": "RSA", "n": "!", "e": "AQAB"}]},
        OctKey.generate_key(256).as_dict(private=True),
        # ES384 is made with P-384 and no other curve.
        ECKey.generate_key("P-256").as_dict(private=False),
    ],
)
def test_what_is_no_set_of_keys_for_rs384_or_es384_is_refused(content: Any):
    with pytest.raises(RefusedCommand) as raised:
        public_keys(content)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("client_id", ["", "a b", "é", "x" * 65, "a/b", "a\n"])
def test_a_client_id_that_oauth_cannot_carry_is_refused(connection, client_id):
    with pytest.raises(RefusedCommand, match="A client id has 1 to 64 letters"):
        register(connection, backend("x"), client_id=client_id)


def test_a_client_is_registered_once(connection):
    register(connection, backend("Clinic", " system/*.rs  system/*.read "), client_id="clinic")
    assert find(connection, "clinic")["scope"] == "system/*.rs system/*.read"
    with pytest.raises(RefusedCommand, match="The client clinic is registered already"):
        register(connection, backend("Other"), client_id="clinic")


@pytest.mark.parametrize(
    ("scope", "named"),
    [
        ("", "(none)"),
        ("user/*.rs", "user/*.rs"),
        ("system/*.rs patient/*.rs", "patient/*.rs"),
        ("system/*.write", "system/*.write"),
        ("openid system/*.rs", "openid"),
        ("system/documentreference", "system/documentreference"),
    ],
)
def test_a_backend_client_can_have_system_scopes_alone(connection, scope, named):
    with pytest.raises(RefusedCommand) as raised:
        register(connection, backend("x", scope), client_id="clinic")
    assert str(raised.value) == (
        f"Not a scope that a backend client can have: {named}; use for example system/*.rs"
    )


def test_clients_are_listed_by_id_and_disabled_by_it(connection):
    for name in ("zebra", "alpha"):
        register(connection, backend(name), client_id=name)
    set_disabled(connection, "zebra", disabled=True)
    listed = {one["client_id"]: one["disabled"] for one in list_clients(connection)}
    assert list(listed) == sorted(listed)
    assert (listed["alpha"], listed["zebra"]) == (False, True)
    with pytest.raises(RefusedCommand, match="There is no client nobody"):
        set_disabled(connection, "nobody", disabled=True)


def test_an_issued_token_is_stored_as_its_hash_with_its_lifetime_and_patient(connection):
    now = int(time.time())
    token = issue_token(connection, scope="patient/*.rs", patient_id="p1", lifetime=60)
    table = AccessToken.__table__
    row = connection.execute(select(table).where(table.c.digest == digest(token))).one()
    assert (row.client_id, row.scope, row.patient_id) == ("operator", "patient/*.rs", "p1")
    assert row.expires_at - row.issued_at == 60
    assert now <= row.issued_at <= now + 5


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"scope": "nonsense"}, "Nothing of 'nonsense' can be granted to operator"),
        ({"scope": ""}, "can be granted to operator"),
        ({"scope": "system/*.write"}, "can be granted to operator"),
        ({"scope": "patient/*.rs"}, "needs --patient"),
        ({"scope": "system/*.rs patient/*.rs"}, "needs --patient"),
        ({"scope": "system/*.rs", "client_id": "nobody"}, "There is no client nobody"),
        ({"scope": "user/*.rs", "client_id": "demo-backend"}, "can be granted to demo-backend"),
    ],
)
def test_a_token_that_cannot_be_issued_is_refused(connection, asked, words):
    with pytest.raises(RefusedCommand) as raised:
        issue_token(connection, **asked)
    assert words in str(raised.value)


def test_a_disabled_client_gets_no_token(connection):
    set_disabled(connection, "demo-backend", disabled=True)
    with pytest.raises(RefusedCommand, match="or it is disabled"):
        issue_token(connection, scope="system/*.rs", client_id="demo-backend")
