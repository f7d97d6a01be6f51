"""Registered clients: listed, approved, disabled, their secrets and tokens."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import insert, select, update

from fhirapp.auth.clients.administration import (
    approve,
    change,
    find_known,
    issue_token,
    new_secret,
    set_disabled,
)
from fhirapp.auth.clients.registration import register
from fhirapp.auth.models import AccessToken, Client, Grant, digest
from fhirapp.auth.tokens import token_row
from fhirapp.auth.users.accounts import find_user
from tests.support.registrations import BACKEND, refusal_of


def test_issued_token_is_stored_as_its_digest_with_its_lifetime_and_patient(connection):
    now = int(time.time())
    token = issue_token(connection, scope="patient/*.rs", patient_id="p1", lifetime=60)
    table = AccessToken.__table__
    row = connection.execute(select(table).where(table.c.digest == digest(token))).one()
    assert (row.client_id, row.scope, row.patient_id) == ("operator", "patient/*.rs", "p1")
    assert row.expires_at - row.issued_at == 60
    assert now <= row.issued_at <= now + 5


def test_token_that_cannot_be_issued_is_refused(connection):
    for request, words in (
        ({"scope": "nonsense"}, "None of the scopes 'nonsense' can be granted to operator"),
        ({"scope": ""}, "can be granted to operator"),
        ({"scope": "system/*.write"}, "can be granted to operator"),
        ({"scope": "patient/*.rs"}, "needs --patient"),
        ({"scope": "system/*.rs patient/*.rs"}, "needs --patient"),
        ({"scope": "user/*.rs", "client_id": "demo-backend"}, "can be granted to demo-backend"),
        # A filter on a type whose visibility other types decide would be dropped.
        ({"scope": "system/Provenance.rs?recorded=gt2025"}, "can be granted to operator"),
        ({"scope": "system/Practitioner.rs?name=novak"}, "can be granted to operator"),
        ({"scope": "system/Binary.rs?_id=x"}, "can be granted to operator"),
    ):
        assert words in refusal_of(issue_token, connection, **request), request


@pytest.mark.parametrize("values", [{"disabled": True}, {"approved_at": None}])
def test_disabled_or_waiting_client_gets_no_token(connection, values):
    change(connection, "demo-backend", values)
    message = refusal_of(issue_token, connection, scope="system/*.rs", client_id="demo-backend")
    assert "demo-backend is disabled or waiting for approval" in message


def test_client_is_approved_once(connection):
    register(connection, BACKEND, client_id="clinic", approved=False)
    approve(connection, "clinic")
    assert abs(find_known(connection, "clinic")["approved_at"] - time.time()) < 60
    long_ago = 1_000_000_000
    row = update(Client).where(Client.client_id == "clinic")
    connection.execute(row.values(approved_at=long_ago))
    approve(connection, "clinic")
    assert find_known(connection, "clinic")["approved_at"] == long_ago


def test_unknown_or_invalid_client_id_is_refused_by_each_function(connection):
    functions = (
        *(find_known, approve, new_secret, lambda *of: set_disabled(*of, disabled=True)),
        lambda connection, name: issue_token(connection, scope="system/*.rs", client_id=name),
    )
    for function in functions:
        assert "Unknown client: nobody." in refusal_of(function, connection, "nobody")
        for client_id in ("no body", "\0", "\ud800"):
            assert "must have 1 to 64 letters" in refusal_of(function, connection, client_id)


def is_valid(connection, client_id):
    """Return whether a consent to a client, and a token that came of it, are valid."""
    grant = select(Grant.revoked_at).where(Grant.client_id == client_id)
    token = select(AccessToken.revoked).where(AccessToken.client_id == client_id)
    revoked_at, revoked = (connection.execute(query).scalar_one() for query in (grant, token))
    return revoked_at is None, not revoked


def test_new_secret_voids_the_old_one_and_the_consents_to_that_client(connection):
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
    assert is_valid(connection, "demo-confidential") == (False, False)
    assert is_valid(connection, "demo-app") == (True, True)


def test_client_without_a_secret_gets_none(connection):
    register(connection, BACKEND, client_id="clinic")
    for client_id in ("demo-app", "clinic"):
        message = refusal_of(new_secret, connection, client_id)
        assert f"{client_id} has no secret" in message
        assert find_known(connection, client_id)["secret_digest"] is None
