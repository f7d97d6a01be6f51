"""Random input to the authorization server: the RFC's error, never a 500, no open redirect.

RFC 6749 §4.1.2.1, §5.2; issue 4. What each error is for, the modules of the endpoints tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fhirapp.auth.models import BASIC, CLINICIAN
from fhirapp.auth.oauth.authorize import SendBack, Unanswerable
from tests.support.authorizing import REDIRECT, Flow, add_person, add_program
from tests.support.effort import sample

ASKED = (
    *("response_type", "client_id", "redirect_uri", "scope", "state", "aud", "launch", "nonce"),
    *("prompt", "max_age", "response_mode", "request", "request_uri", "code_challenge"),
    *("code_challenge_method", "anything"),
)
SENT = (
    *("grant_type", "code", "redirect_uri", "code_verifier", "client_id", "client_secret", "scope"),
    *("client_assertion", "client_assertion_type", "refresh_token", "token", "token_type_hint"),
)
GRANTS = ("authorization_code", "refresh_token", "client_credentials")
WORDS = st.sampled_from(
    [
        *("", " ", "none", "login", "code", "S256", "0", "-1", REDIRECT, f"{REDIRECT}/x", "//x"),
        *("https://evil.example/", "javascript:alert(1)", "demo-app", "demo-backend", "operator"),
        *("openid", "user/*.rs", "patient/*.rs?x=%", "é", "\0", "\r\nX: y", '"', "\\", 'a"b'),
        *("a.b.c", "x" * 3000, "<script>", "%0d%0a", "\x7f", "\u2028"),
    ]
)
VALUES = st.one_of(WORDS, st.text(max_size=20), st.lists(WORDS, min_size=2, max_size=3))


@pytest.fixture(scope="module")
def flow(make_app: Callable[..., Flask]) -> Flow:
    """Return a clinician with an app that has a secret."""
    app = make_app(seed=False)
    return Flow(app, add_program(app, BASIC), add_person(app, CLINICIAN))


def outcome(flow: Flow, changes: dict[str, Any]) -> tuple[str, str]:
    """Ask for an authorization; return who hears of it, and what."""
    asked: dict[str, Any] = {"scope": "openid user/*.rs", **changes}
    try:
        return "server", flow.park(**asked)
    except Unanswerable as error:
        return "user", str(error)
    except SendBack as error:
        return "app", error.location


@settings(max_examples=sample(20, 2_000))
@given(changes=st.dictionaries(st.sampled_from(ASKED), VALUES, max_size=4))
@example(changes={"response_type": 'co"de'})
@example(changes={"state": "\r\nSet-Cookie: a=b"})
@example(changes={"state": "\ud800"})
def test_random_authorization_request_redirects_nowhere_else(flow, changes):
    who, what = outcome(flow, changes)
    if who == "user":
        assert what.startswith("The app that sent you here ")
    elif who == "app":
        assert what.startswith(f"{REDIRECT}?error=")
        assert what.isascii()
        assert what.isprintable()
    else:
        assert len(what) == 43


HEADERS = st.one_of(
    st.none(),
    st.sampled_from(["Basic", "Basic ", "Bearer", "Bearer x", "Basic Og==", "Basic eDp5", "x y z"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
)


@settings(max_examples=sample(20, 3_000))
@given(
    path=st.sampled_from(["/oauth/token", "/oauth/introspect", "/oauth/revoke"]),
    header=HEADERS,
    grant=st.sampled_from(GRANTS),
    form=st.dictionaries(st.sampled_from(SENT), VALUES, max_size=5),
)
def test_random_form_is_an_error_of_the_rfc(flow, path, header, grant, form):
    proof: dict[str, Any] = flow.program.proof()
    if header is not None:
        proof = {"headers": {"Authorization": header}}
    answer = flow.ask(path, proof, **{"grant_type": grant, "token": "x", **form})
    assert answer.status_code in (200, 400, 401), answer.text
    assert answer.content_type == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    content = answer.get_json()
    if answer.status_code == 200:
        # Of the tokens that are asked about here, there is none.
        assert content in ({"active": False}, {})
    else:
        assert content.keys() <= {"error", "error_description"}
