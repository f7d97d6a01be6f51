"""How apps authenticate at the authorization server, and proofs that are refused.

RFC 6749 §2.3, §3.2.1; SMART App Launch 2.2. Wrong assertions are in test_assertion.py.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import BASIC, CLINICIAN, NONE, SIGNED
from tests.support.authorizing import KEY, Flow, Program, add_person, add_program, set_client
from tests.support.token_endpoint import assert_error

SCOPE = "user/*.rs offline_access"
PATHS = ("/oauth/token", "/oauth/introspect", "/oauth/revoke")
FORM = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x"}


@pytest.fixture(scope="module")
def flows(oauth: Flask) -> dict[str, Flow]:
    """A clinician with an app of each kind, by its method of authentication."""
    user_id = add_person(oauth, CLINICIAN)
    return {
        method: Flow(oauth, add_program(oauth, method), user_id) for method in (NONE, BASIC, SIGNED)
    }


def header(value: str) -> dict[str, Any]:
    return {"headers": {"Authorization": value}}


def basic(user: str, secret: str = "") -> dict[str, Any]:
    return header(f"Basic {base64.b64encode(f'{user}:{secret}'.encode()).decode()}")


@pytest.mark.parametrize("method", [NONE, BASIC, SIGNED])
def test_each_kind_of_client_can_redeem_refresh_introspect_and_revoke(flows, method):
    flow = flows[method]
    issued = flow.refresh(flow.tokens(SCOPE)["refresh_token"]).get_json()
    # A public client has no proof but a token.
    proof = {"proof": header(f"Bearer {issued['access_token']}")} if method == NONE else {}
    assert flow.introspect(issued["refresh_token"], **proof).get_json()["active"]
    assert flow.revoke(issued["refresh_token"]).status_code == 200


@pytest.mark.parametrize("method", [BASIC, SIGNED])
def test_client_id_beside_the_proof_must_be_the_same(flows, method):
    """python fhirclient sends it beside Basic."""
    flow = flows[method]
    same = {"client_id": flow.program.client_id}
    answer = flow.redeem(flow.code(SCOPE), **same)
    assert answer.status_code == 200
    assert flow.refresh(answer.get_json()["refresh_token"], **same).status_code == 200
    refused = flow.redeem(flow.code(SCOPE), client_id=flows[NONE].program.client_id)
    assert refused.status_code == 400
    assert refused.get_json()["error"] in ("invalid_request", "invalid_client")


def test_public_client_refreshes_without_its_client_id(oauth):
    """As fhirclient.js does: the refresh token names its client."""
    flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))
    token = flow.tokens(SCOPE)["refresh_token"]
    for left_out in ({"client_id": None}, {"client_id": ""}):
        answer = flow.refresh(token, **left_out)
        assert answer.status_code == 200, answer.text
        token = answer.get_json()["refresh_token"]
    set_client(oauth, flow.program, disabled=True)
    assert_error(flow.refresh(token, proof={}), "invalid_client", status=401)


@pytest.mark.parametrize("method", [BASIC, SIGNED])
def test_confidential_client_does_not_refresh_without_proof(flows, method):
    flow = flows[method]
    token = flow.tokens(SCOPE)["refresh_token"]
    for proof in ({}, {"client_id": flow.program.client_id}):
        assert_error(flow.refresh(token, proof=proof), "invalid_client", status=401)
    assert flow.refresh(token).status_code == 200


def named(program: Program) -> dict[str, Any]:
    return {"client_id": program.client_id}


def signed_as(program: Program) -> dict[str, Any]:
    """Return an assertion of a client that has registered no key."""
    return Program(program.client_id, key=KEY).proof()


# By method of the client.
WRONG_PROOFS: dict[str, dict[str, Callable[[Program], dict[str, Any]]]] = {
    NONE: {
        "no client id": lambda _: {},
        "unknown client id": lambda _: {"client_id": "unknown"},
        "Basic": lambda program: basic(program.client_id, "guess"),
        "Basic without secret": lambda program: basic(program.client_id),
        "Basic and id": lambda program: named(program) | basic(program.client_id, "guess"),
        "Basic without secret, id": lambda program: named(program) | basic(program.client_id),
        "assertion": signed_as,
    },
    BASIC: {
        "id": named,
        "wrong secret": lambda program: basic(program.client_id, f"{program.secret}x"),
        "empty secret": lambda program: basic(program.client_id),
        "wrong secret and id": lambda program: named(program) | basic(program.client_id, "x"),
        "secret in the body": lambda program: named(program) | {"client_secret": program.secret},
        "assertion": signed_as,
        "another's id": lambda program: basic("demo-confidential", program.secret or ""),
    },
    SIGNED: {
        "id": named,
        "Basic": lambda program: named(program) | basic(program.client_id, "x"),
        "no type": lambda program: program.proof() | {"client_assertion_type": None},
        "other type": lambda program: program.proof() | {"client_assertion_type": "x"},
        "no assertion": lambda program: program.proof() | {"client_assertion": None},
        "unknown client": lambda _: Program("unknown", key=KEY).proof(),
    },
}


@pytest.mark.parametrize("method", WRONG_PROOFS)
def test_client_that_does_not_prove_its_identity_is_refused(flows, method):
    flow = flows[method]
    code = flow.code(SCOPE)
    for proof in WRONG_PROOFS[method].values():
        refused = flow.redeem(code, proof=proof(flow.program))
        assert_error(refused, "invalid_client", status=None)
    assert flow.redeem(code).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_two_methods_of_authentication_at_once_are_refused(flows, path):
    secret, key = flows[BASIC].program.proof(), flows[SIGNED].program.proof()
    for proof in (
        *(secret | key, secret | {"client_secret": "x"}, key | {"client_secret": "x"}),
        *(key | header("Bearer x"), header("Bearer x") | {"client_secret": "x"}),
        secret | {"client_id": flows[BASIC].program.client_id, "client_secret": "x"},
    ):
        refused = flows[BASIC].ask(path, proof, **FORM)
        assert_error(refused, "invalid_request", "in one way only")
