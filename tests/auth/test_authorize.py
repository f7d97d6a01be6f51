"""Requests of apps to /oauth/authorize: errors that go back, and requests that wait for a user.

RFC 6749 §4.1; RFC 7636 §4; OpenID Connect Core §3.1.2; SMART App Launch 2.2. What the user then
allows is in test_consent.py; redirect URIs are in tests/attack/test_redirect_uris.py.
"""

from __future__ import annotations

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import CLINICIAN, ParkedRequest, digest
from fhirapp.auth.oauth import authorize
from fhirapp.auth.oauth.authorize import SendBack
from tests.auth.grants import expire, row_of
from tests.support.authorizing import (
    AUD,
    STATE,
    VERIFIER,
    Flow,
    add_person,
    add_program,
    challenge,
    parameters_of,
    parked_requests,
    rows,
    told,
)
from tests.support.helpers import BASE_URL

SCOPE = "openid launch/patient patient/*.rs"
LONG = "x" * 2001
CHALLENGE = challenge(VERIFIER)


@pytest.fixture(scope="module")
def flow(oauth: Flask) -> Flow:
    """A clinician with a public app."""
    return Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))


def sent_back(flow: Flow, scope: str | None = SCOPE, **changes: object) -> dict[str, str]:
    """Return the error that goes to the client's redirect URI; nothing is stored."""
    before = parked_requests(flow)
    with pytest.raises(SendBack) as raised:
        flow.park(scope, **changes)
    assert parked_requests(flow) == before
    return parameters_of(raised.value.location)


# By error and key words of its description: values of each parameter.
INVALID: dict[tuple[str, str], list[dict[str, object]]] = {
    ("invalid_request", "response_type is missing"): [
        {"response_type": text} for text in (None, "")
    ],
    ("unsupported_response_type", "response_type must be code"): [
        {"response_type": text}
        for text in ("token", "code token", "id_token", "CODE", 'co"de', "a\\b", "code ")
    ],
    ("invalid_request", f"{AUD}; it is missing."): [{"aud": text} for text in (None, "")],
    ("invalid_request", f"{AUD}; it is {'x' * 100}...."): [{"aud": "x" * 2000}],
    ("invalid_request", f"{AUD}; it is a?b?<."): [{"aud": 'a"b\\<'}],
    ("invalid_request", f"{AUD}; it is http"): [
        {"aud": text}
        for text in (
            *(BASE_URL, "https://other.example/fhir", "http://fhir.example/fhir", f"{AUD}?x"),
            *("https://FHIR.example/fhir", f"{AUD}/Patient", f"{AUD} https://other.example"),
        )
    ],
    ("invalid_request", "PKCE with S256 is required"): [
        {"code_challenge": None},
        {"code_challenge": None, "code_challenge_method": None},
    ],
    ("invalid_request", "code_challenge_method must be S256"): [
        {"code_challenge_method": text} for text in (None, "", "plain", "s256", "S512")
    ],
    ("invalid_request", "code_challenge must be 43 characters"): [
        {"code_challenge": text}
        for text in (
            *(CHALLENGE[:-1], f"{CHALLENGE}=", f"{CHALLENGE}A", "A" * 63, "A" * 128, "." * 43),
            *("~" * 43, VERIFIER),
        )
    ],
    ("invalid_request", "prompt must be"): [
        {"prompt": text} for text in ("none login", "create", "LOGIN", "login,consent")
    ],
    ("invalid_request", "max_age must be a number"): [
        {"max_age": text} for text in ("-1", "1.5", "x", "1e3", "9" * 10, " 1")
    ],
    ("invalid_request", "response_mode must be query"): [
        {"response_mode": text} for text in ("fragment", "form_post", "query.jwt", "x")
    ],
    **{
        (f"{name}_not_supported", name): [{name: "x"}]
        for name in ("request", "request_uri", "registration")
    },
    ("invalid_request", "launch is not known"): [{"launch": "unknown"}],
    ("invalid_request", "too long, or not printable ASCII"): [
        {name: text}
        for name in ("scope", "nonce", "launch", "aud", "code_challenge", "anything")
        for text in (LONG, "é", "a\nb", "a\0b", "\x7f", "\ud800")
    ],
    ("invalid_request", "is repeated"): [
        {name: [text, text]}
        for name, text in {
            "response_type": "code",
            "scope": SCOPE,
            "aud": AUD,
            "code_challenge": CHALLENGE,
            "nonce": "n",
            "prompt": "none",
            "anything": "x",
        }.items()
    ],
    ("invalid_scope", ""): [
        {"scope": text}
        for text in (
            *(None, "", "  ", "nonsense", "system/*.rs", "patient/*.write"),
            "patient/DocumentReferenceX.rs",
        )
    ],
}


@pytest.mark.parametrize(("error", "words"), INVALID)
def test_invalid_request_goes_back_to_the_client_with_its_state(flow, error, words):
    for changes in INVALID[error, words]:
        answer = sent_back(flow, **{"scope": SCOPE, **changes})
        assert answer.keys() == {"error", "error_description", "state"}
        assert (answer["error"], answer["state"]) == (error, STATE), changes
        assert words in answer["error_description"], changes


def test_valid_state_goes_back_to_the_letter(flow):
    for state in ("a b+c%20&=;#/?", "<script>'\"\\", "x" * 2000, "error=x"):
        assert sent_back(flow, None, state=state)["state"] == state
        location = flow.decide(flow.park("user/*.rs", state=state))
        assert parameters_of(location)["state"] == state


def test_invalid_state_does_not_go_back(flow):
    for state in (None, "", "é", LONG, "a\r\nb"):
        answer = sent_back(flow, None, state=state)
        assert answer["error"] == ("invalid_request" if state else "invalid_scope")
        assert "state" not in answer


def test_valid_request_waits_for_the_user(flow):
    for changes in (
        *({"aud": f"{AUD}/"}, {"state": None}, {"nonce": "n" * 2000}, {"prompt": "login  consent"}),
        *({"prompt": "none"}, {"max_age": "0"}, {"response_mode": "query"}),
        {"request": "", "request_uri": "", "launch": "", "prompt": ""},
        {"login_hint": "robin", "ui_locales": "de", "display": "page", "x": "y"},
    ):
        assert row_of(flow, ParkedRequest, flow.park(SCOPE, **changes)).used_at is None


def test_waiting_request_is_found_by_its_handle_for_a_quarter_of_an_hour(flow):
    handle = flow.park(SCOPE, nonce="n", unknown="x" * 2000, login_hint="")
    row = row_of(flow, ParkedRequest, handle)
    stored = {**flow.parameters(SCOPE), "nonce": "n"}
    # aud was compared, and unknown parameters would only fill the database.
    assert row.parameters == {name: text for name, text in stored.items() if name != "aud"}
    assert row.expires_at - row.created_at == 900
    assert len(handle) == 43
    with flow.app.app_context():
        assert authorize.find(handle).digest == digest(handle)
        assert authorize.find("unknown") is None
    expire(flow, ParkedRequest, handle)
    with flow.app.app_context():
        assert authorize.find(handle) is None
    expire(flow, ParkedRequest, handle, 2)
    flow.park(SCOPE)
    assert rows(flow.app, select(ParkedRequest).where(ParkedRequest.digest == digest(handle))) == []


def test_user_signs_in_again_where_the_app_wants_it(flow):
    for changes, seconds_ago, wanted in (
        ({}, 7200, False),
        ({"prompt": "consent"}, 7200, False),
        ({"prompt": "login"}, 5, True),
        ({"prompt": "login consent"}, 5, True),
        # A password that was typed for this request counts.
        ({"prompt": "login"}, 0, False),
        ({"max_age": "0"}, 5, True),
        ({"max_age": "60"}, 61, True),
        ({"max_age": "60"}, 58, False),
        ({"max_age": "999999999"}, 7200, False),
    ):
        with flow.app.test_request_context():
            parked = authorize.find(flow.park("openid", **changes))
            signed = flow.signed()._replace(signed_in_at=parked.created_at - seconds_ago)
            assert authorize.wants_sign_in(parked, signed) is wanted, changes
            assert authorize.wants_sign_in(parked, None)
            half = flow.signed()._replace(complete=False)
            assert authorize.wants_sign_in(parked, half)


@pytest.mark.parametrize("more", [{}, {"max_age": "0"}])
def test_prompt_none_without_a_session_is_login_required(flow, more):
    handle = flow.park("openid", prompt="none", **more)
    with flow.app.test_request_context():
        parked = authorize.find(handle)
        signed = flow.signed()._replace(signed_in_at=parked.created_at - 5)
        for nobody in (None, signed._replace(complete=False), *([signed] if more else [])):
            with pytest.raises(SendBack) as raised:
                authorize.wants_sign_in(parked, nobody)
            assert told(raised)[0] == "login_required"
        assert more or not authorize.wants_sign_in(parked, signed)
