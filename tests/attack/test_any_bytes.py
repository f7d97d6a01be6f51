"""Random bytes for JSON, a form or a JWT: the answer is a client error, never a server error."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fhirapp.auth.unverified import InvalidJwt, read_jwt
from tests.support.effort import sample
from tests.support.helpers import token_for

ASSERTED = ("/oauth/token", "/oauth/introspect", "/oauth/revoke")
JSON = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
        st.sampled_from(["RS384", "ES384", "none", "HS256", "https://fhir.example/oauth/token"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
HEADERS = st.dictionaries(
    st.sampled_from(["alg", "typ", "kid", "jku", "crit", "jwk", "x5c", "b64", "zip", "enc", "p2c"]),
    JSON,
    max_size=5,
)
CLAIMS = st.dictionaries(
    st.sampled_from(["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "cnf"]), JSON, max_size=7
)
DEEP = b"[" * 990 + b"]" * 990


def part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def jwt_of(header: Any, claims: Any, signature: bytes = b"x") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(map(part, parts))


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(dynamic_registration=True)


def refused(app: Flask, path: str, assertion: str) -> None:
    """Assert that nobody is taken for a client by this assertion."""
    form = {
        "grant_type": "client_credentials",
        "scope": "system/*.rs",
        "token": "x",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": assertion,
    }
    # Another address each time: failures are counted.
    address = f"2001:db8:{abs(hash(assertion)) % 65_536:x}:{len(assertion) % 65_536:x}::1"
    answer = app.test_client().post(path, data=form, environ_base={"REMOTE_ADDR": address})
    assert answer.status_code in (400, 401, 429), answer.text
    assert answer.get_json()["error"] in ("invalid_client", "invalid_request", "slow_down")


@pytest.mark.campaign
@settings(max_examples=sample(150, 2_000))
@given(
    path=st.sampled_from(ASSERTED), header=HEADERS, claims=CLAIMS, signature=st.binary(max_size=9)
)
@example(path="/oauth/token", header={"alg": "ES384", "crit": 5}, claims={}, signature=b"")
def test_random_jwt_is_refused_without_a_server_error(app, path, header, claims, signature):
    refused(app, path, jwt_of({"alg": "ES384", **header}, claims, signature))


@settings(max_examples=sample(30, 5_000))
@given(
    st.one_of(st.text(max_size=60), st.binary(max_size=40).map(lambda b: f"{part(b)}.{part(b)}."))
)
def test_reading_a_jwt_fails_in_one_way(text):
    try:
        header, claims = read_jwt(text)
    except InvalidJwt:
        return
    assert isinstance(header, dict)
    assert isinstance(claims, dict)


BODIES = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda content: json.dumps(content).encode()),
    st.sampled_from(
        [
            *(b"", b"{", b"[]", b"null", b'"x"', b"1e999", b"NaN", DEEP, b'{"a":' + DEEP + b"}"),
            b'{"resourceType":"Parameters","parameter":5}',
            b'{"resourceType":"Parameters","parameter":[[]]}',
            b'{"resourceType":"Parameters","parameter":[{"name":5,"valueString":{}}]}',
            b'{"resourceType":"Parameters","parameter":[{"name":"patient","valueId":[1]}]}',
            *(b"a=%00", b"%", b"a=b&" * 300, b"\xff=\xff", b"_cursor=x&_count=%2D1"),
        ]
    ),
)
TYPES = st.sampled_from(
    [
        *("application/fhir+json", "application/json", "application/x-www-form-urlencoded"),
        *("multipart/form-data; boundary=x", "multipart/form-data", "text/plain", "", "é", "a/b;c"),
    ]
)


def posts(app: Flask) -> list[str]:
    """Return an address of each route that takes a POST, ids filled in."""
    return sorted(
        {
            "".join(
                "x" if is_variable else text for is_variable, text in rule._trace if text != "|"
            )
            for rule in app.url_map.iter_rules()
            if "POST" in (rule.methods or ())
        }
    )


def test_malformed_body_is_no_server_error_at_any_address(app):
    """Every other address that takes a POST gets one of these bodies, with a token."""
    bodies = (
        b"{",
        b"[]",
        b"null",
        b"\xff=\xff",
        b"%",
        b'{"resourceType":"Parameters","parameter":5}',
    )
    kinds = ("application/fhir+json", "application/x-www-form-urlencoded", "multipart/form-data")
    headers = {"Authorization": f"Bearer {token_for(app, 'system/*.rs')}"}
    client = app.test_client()
    for number, path in enumerate(posts(app)[::2]):
        body, kind = bodies[number % len(bodies)], kinds[number % len(kinds)]
        answer = client.post(path, data=body, headers={**headers, "Content-Type": kind})
        assert answer.status_code < 500, (path, body)


@pytest.mark.campaign
@settings(max_examples=sample(300, 10_000))
@given(data=st.data(), body=BODIES, kind=TYPES)
def test_random_body_is_no_server_error_at_any_address(app, data, body, kind):
    path = data.draw(st.sampled_from(posts(app)))
    headers = {"Content-Type": kind}
    if data.draw(st.booleans()):
        headers["Authorization"] = f"Bearer {token_for(app, 'system/*.rs')}"
    answer = app.test_client().post(path, data=body, headers=headers)
    assert answer.status_code < 500, (path, answer.text)
