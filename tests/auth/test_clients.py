"""Clients once they are registered: found, approved, disabled, their secrets and tokens."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey
from sqlalchemy import insert, select, update

from fhirapp.auth.clients.administration import (
    approve,
    change,
    find,
    find_known,
    issue_token,
    list_clients,
    new_secret,
    set_disabled,
)
from fhirapp.auth.clients.registration import Registration, public_keys, register
from fhirapp.auth.models import SIGNED, AccessToken, Client, Grant, digest
from fhirapp.auth.tokens import token_row
from fhirapp.auth.users.accounts import find_user
from fhirapp.config import RefusedCommand
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
    with pytest.raises(RefusedCommand, match="A client id must have 1 to 64 letters"):
        register(connection, backend("x"), client_id=client_id)


def test_a_client_is_registered_once(connection):
    register(connection, backend("Clinic", " system/*.rs  system/*.read "), client_id="clinic")
    assert find(connection, "clinic")["scope"] == "system/*.rs system/*.read"
    with pytest.raises(RefusedCommand, match="The client clinic is already registered"):
        register(connection, backend("Other"), client_id="clinic")


@pytest.mark.parametrize(
    ("scope", "named"),
    [
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
        f"A backend client cannot have the scope {named}; use for example system/*.rs"
    )


def test_a_client_that_may_ask_for_nothing_is_told_so(connection):
    with pytest.raises(RefusedCommand, match=r"at least one, for example system/\*\.rs"):
        register(connection, backend("x", " \n"), client_id="clinic")


def test_clients_are_listed_by_id_and_disabled_by_it(connection):
    for name in ("zebra", "alpha"):
        register(connection, backend(name), client_id=name)
    set_disabled(connection, "zebra", disabled=True)
    listed = {one["client_id"]: one["disabled"] for one in list_clients(connection)}
    assert list(listed) == sorted(listed)
    assert (listed["alpha"], listed["zebra"]) == (False, True)
    with pytest.raises(RefusedCommand, match="Unknown client: nobody"):
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
        ({"scope": "nonsense"}, "None of the scopes 'nonsense' can be granted to operator"),
        ({"scope": ""}, "can be granted to operator"),
        ({"scope": "system/*.write"}, "can be granted to operator"),
        ({"scope": "patient/*.rs"}, "needs --patient"),
        ({"scope": "system/*.rs patient/*.rs"}, "needs --patient"),
        ({"scope": "system/*.rs", "client_id": "nobody"}, "Unknown client: nobody"),
        ({"scope": "user/*.rs", "client_id": "demo-backend"}, "can be granted to demo-backend"),
    ],
)
def test_a_token_that_cannot_be_issued_is_refused(connection, asked, words):
    with pytest.raises(RefusedCommand) as raised:
        issue_token(connection, **asked)
    assert words in str(raised.value)


REFUSED = "The client demo-backend is disabled or waiting for approval."


@pytest.mark.parametrize("values", [{"disabled": True}, {"approved_at": None}])
def test_a_client_that_is_disabled_or_waits_for_approval_gets_no_token(connection, values):
    change(connection, "demo-backend", values)
    with pytest.raises(RefusedCommand) as raised:
        issue_token(connection, scope="system/*.rs", client_id="demo-backend")
    assert str(raised.value) == REFUSED


def test_a_client_is_approved_once(connection):
    register(connection, backend("Clinic"), client_id="clinic", approved=False)
    approve(connection, "clinic")
    assert abs(find_known(connection, "clinic")["approved_at"] - time.time()) < 60
    long_ago = 1_000_000_000
    connection.execute(
        update(Client).where(Client.client_id == "clinic").values(approved_at=long_ago)
    )
    approve(connection, "clinic")
    assert find_known(connection, "clinic")["approved_at"] == long_ago


@pytest.mark.parametrize(
    ("client_id", "words"),
    [
        ("nobody", "Unknown client: nobody."),
        ("no body", "A client id must have 1 to 64 letters"),
        ("\0", "A client id must have 1 to 64 letters"),
        ("\ud800", "A client id must have 1 to 64 letters"),
    ],
)
def test_a_client_that_is_not_there_is_told(connection, client_id, words):
    for ask in (
        find_known,
        approve,
        new_secret,
        lambda *of: set_disabled(*of, disabled=True),
        lambda connection, name: issue_token(connection, scope="system/*.rs", client_id=name),
    ):
        with pytest.raises(RefusedCommand) as raised:
            ask(connection, client_id)
        assert words in str(raised.value)


def allowed(connection, client_id):
    """Say whether a consent to a client, and a token that came of it, still count."""
    grant = select(Grant.revoked_at).where(Grant.client_id == client_id)
    token = select(AccessToken.revoked).where(AccessToken.client_id == client_id)
    revoked_at, revoked = (connection.execute(query).scalar_one() for query in (grant, token))
    return revoked_at is None, not revoked


def test_a_new_secret_voids_the_old_one_and_what_came_of_it(connection):
    now = int(time.time())
    for name in ("demo-confidential", "demo-app"):
        row = {"id": name, "client_id": name, "user_id": find_user(connection, "clinician")["id"]}
        row |= {"scope": "user/*.rs", "need_patient_banner": True, "signed_in_at": now}
        row |= {"created_at": now, "expires_at": now + 60}
        connection.execute(insert(Grant), [row])
        token = token_row(name, client_id=name, scope="user/*.rs", lifetime=60, grant_id=name)
        connection.execute(insert(AccessToken), [token])
    secrets = [new_secret(connection, "demo-confidential") for _ in range(2)]
    assert len({*secrets, "demo"}) == 3
    # 256 bits, in base64url.
    assert {len(secret) for secret in secrets} == {43}
    stored = find_known(connection, "demo-confidential")["secret_digest"]
    assert stored == digest(secrets[-1])
    assert allowed(connection, "demo-confidential") == (False, False)
    assert allowed(connection, "demo-app") == (True, True)


@pytest.mark.parametrize("client_id", ["demo-app", "clinic"])
def test_a_client_without_a_secret_gets_none(connection, client_id):
    register(connection, backend("Clinic"), client_id="clinic")
    with pytest.raises(RefusedCommand) as raised:
        new_secret(connection, client_id)
    assert str(raised.value) == f"The client {client_id} has no secret to replace."
    assert find_known(connection, client_id)["secret_digest"] is None
