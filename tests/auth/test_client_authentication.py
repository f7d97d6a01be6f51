"""How apps prove who they are to the authorization server, and that nothing less will do.

RFC 6749 §2.3, §3.2.1; SMART App Launch 2.2 client authentication; issue 4. What is wrong with an
assertion is in test_assertion.py.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import BASIC, CLINICIAN, NONE, SIGNED
from tests.support.authorizing import KEY, Flow, Program, add_person, add_program, set_client
from tests.support.token_endpoint import assert_error

NO_PROOF = "No client proved who it is: by Basic, or by a signed assertion."
SCOPE = "user/*.rs offline_access"


@pytest.fixture(scope="module")
def flows(oauth: Flask) -> dict[str, Flow]:
    """Return a clinician with an app of each kind, by how it proves who it is."""
    user_id = add_person(oauth, CLINICIAN)
    return {
        method: Flow(oauth, add_program(oauth, method), user_id) for method in (NONE, BASIC, SIGNED)
    }


def basic(user: str, secret: str = "") -> dict[str, Any]:
    """Return a Basic header."""
    text = base64.b64encode(f"{user}:{secret}".encode()).decode()
    return {"headers": {"Authorization": f"Basic {text}"}}


@pytest.mark.parametrize("method", [NONE, BASIC, SIGNED])
def test_each_kind_of_client_can_redeem_refresh_introspect_and_revoke(flows, method):
    flow = flows[method]
    token = flow.tokens(SCOPE)["refresh_token"]
    again = flow.refresh(token)
    assert again.status_code == 200
    bearer = {"headers": {"Authorization": f"Bearer {again.get_json()['access_token']}"}}
    # A public client has no proof but a token.
    proof = {"proof": bearer} if method == NONE else {}
    assert flow.introspect(again.get_json()["refresh_token"], **proof).get_json()["active"]
    assert flow.revoke(again.get_json()["refresh_token"]).status_code == 200


@pytest.mark.parametrize("method", [BASIC, SIGNED])
def test_client_id_may_stand_beside_the_proof(flows, method):
    """As python fhirclient sends it with Basic."""
    flow = flows[method]
    same = {"client_id": flow.program.client_id}
    answer = flow.redeem(flow.code(SCOPE), **same)
    assert answer.status_code == 200
    assert flow.refresh(answer.get_json()["refresh_token"], **same).status_code == 200


@pytest.mark.parametrize("method", [BASIC, SIGNED])
def test_client_id_that_contradicts_the_proof_is_refused(flows, method):
    flow = flows[method]
    answer = flow.redeem(flow.code(SCOPE), client_id=flows[NONE].program.client_id)
    assert answer.status_code == 400
    assert answer.get_json()["error"] in ("invalid_request", "invalid_client")


def test_a_public_client_refreshes_without_saying_who_it_is(flows):
    """As fhirclient.js does: the refresh token names its client."""
    flow = flows[NONE]
    token = flow.tokens(SCOPE)["refresh_token"]
    for left_out in ({"client_id": None}, {"client_id": ""}):
        answer = flow.refresh(token, **left_out)
        assert answer.status_code == 200, answer.text
        token = answer.get_json()["refresh_token"]


@pytest.mark.parametrize("method", [BASIC, SIGNED])
def test_a_refresh_token_alone_does_not_stand_for_a_client_that_has_a_secret_or_key(flows, method):
    flow = flows[method]
    token = flow.tokens(SCOPE)["refresh_token"]
    for proof in ({}, {"client_id": flow.program.client_id}):
        assert_error(flow.refresh(token, proof=proof), "invalid_client", NO_PROOF, 401)
    assert flow.refresh(token).status_code == 200


def test_a_public_client_that_is_disabled_does_not_refresh_without_saying_who_it_is(oauth):
    flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))
    token = flow.tokens(SCOPE)["refresh_token"]
    set_client(oauth, flow.program, disabled=True)
    assert_error(flow.refresh(token, proof={}), "invalid_client", NO_PROOF, 401)


def wrong_proofs() -> Iterator[Any]:
    """Give each kind of client, and what does not prove that somebody is it."""
    for name, method, make in [
        ("public, no name", NONE, lambda _: {}),
        ("public, unknown name", NONE, lambda _: {"client_id": "unknown"}),
        ("public, Basic", NONE, lambda one: basic(one.client_id, "guess")),
        ("public, Basic without secret", NONE, lambda one: basic(one.client_id)),
        ("public, Basic and name", NONE, lambda one: named(one) | basic(one.client_id, "guess")),
        ("public, Basic, name", NONE, lambda one: named(one) | basic(one.client_id)),
        ("public, signed", NONE, lambda one: signed_as(one)),
        ("secret, name alone", BASIC, lambda one: named(one)),
        ("secret, wrong", BASIC, lambda one: basic(one.client_id, one.secret + "x")),
        ("secret, empty", BASIC, lambda one: basic(one.client_id)),
        ("secret, wrong, and name", BASIC, lambda one: named(one) | basic(one.client_id, "x")),
        ("secret in the body", BASIC, lambda one: named(one) | {"client_secret": one.secret}),
        ("secret, signed", BASIC, lambda one: signed_as(one)),
        ("secret of another", BASIC, lambda one: basic("demo-confidential", one.secret)),
        ("key, name alone", SIGNED, lambda one: named(one)),
        ("key, Basic", SIGNED, lambda one: named(one) | basic(one.client_id, "x")),
        ("key, no type", SIGNED, lambda one: one.proof() | {"client_assertion_type": None}),
        ("key, other type", SIGNED, lambda one: one.proof() | {"client_assertion_type": "x"}),
        ("key, no assertion", SIGNED, lambda one: one.proof() | {"client_assertion": None}),
        ("key, unknown name", SIGNED, lambda _: Program("unknown", key=KEY).proof()),
    ]:
        yield pytest.param(method, make, id=name)


def named(one: Program) -> dict[str, Any]:
    return {"client_id": one.client_id}


def signed_as(one: Program) -> dict[str, Any]:
    """Return an assertion of a client that has registered no key."""
    return Program(one.client_id, key=KEY).proof()


@pytest.mark.parametrize(("method", "make"), list(wrong_proofs()))
def test_a_client_that_does_not_prove_who_it_is_is_refused(flows, method, make):
    flow = flows[method]
    code = flow.code(SCOPE)
    refused = flow.redeem(code, proof=make(flow.program))
    assert refused.status_code in (400, 401)
    assert_error(refused, "invalid_client", status=refused.status_code)
    assert flow.redeem(code).status_code == 200


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/introspect", "/oauth/revoke"])
@pytest.mark.parametrize(
    "make",
    [
        lambda flows: flows[BASIC].program.proof() | flows[SIGNED].program.proof(),
        lambda flows: flows[BASIC].program.proof() | {"client_secret": "x"},
        lambda flows: flows[SIGNED].program.proof() | {"client_secret": "x"},
        lambda flows: flows[SIGNED].program.proof() | {"headers": {"Authorization": "Bearer x"}},
        lambda _: {"client_secret": "x", "headers": {"Authorization": "Bearer x"}},
    ],
)
def test_two_ways_to_authenticate_are_one_too_many(flows, path, make):
    form = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x"}
    refused = flows[BASIC].ask(path, make(flows), **form)
    assert_error(refused, "invalid_request", "Authenticate in one way only.")


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/introspect", "/oauth/revoke"])
def test_a_client_that_is_disabled_is_not_known_anywhere(oauth, path):
    flow = Flow(oauth, add_program(oauth, BASIC), add_person(oauth, CLINICIAN))
    set_client(oauth, flow.program, disabled=True)
    form = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x"}
    assert_error(flow.ask(path, **form), "invalid_client", status=401)
