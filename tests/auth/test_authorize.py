"""What an app asks for at /oauth/authorize, and where its user's browser is sent.

RFC 6749 §4.1; RFC 7636 §4; OpenID Connect Core §3.1.2; SMART App Launch 2.2; issue 4. What the user
then allows is in test_consent.py; who is sent nowhere, in test_redirect_uri.py.
"""

from __future__ import annotations

import time

import pytest
from flask import Flask
from sqlalchemy import func, select, update

from fhirapp.auth.models import CLINICIAN, ParkedRequest, digest
from fhirapp.auth.oauth import authorize
from fhirapp.auth.oauth.authorize import SendBack
from tests.support.authorizing import (
    AUD,
    STATE,
    VERIFIER,
    Flow,
    add_person,
    add_program,
    alter,
    challenge,
    parameters_of,
    rows,
    told,
)
from tests.support.helpers import BASE_URL

SCOPE = "openid launch/patient patient/*.rs"
LONG = "x" * 2001
NO_TEXT = "A parameter is too long, or not printable ASCII."
NO_CHALLENGE = "code_challenge must be 43 characters of base64url."
NO_AUD = f"aud must be the FHIR base address of this server, {AUD}; it is"
NO_PROMPT = "prompt must be none, or some of login, consent, select_account."


@pytest.fixture(scope="module")
def flow(oauth: Flask) -> Flow:
    """Return a clinician with a public app."""
    return Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))


def parked_row(flow: Flow, handle: str) -> ParkedRequest:
    """Return the row of a parked request."""
    ((found,),) = rows(
        flow.app, select(ParkedRequest).where(ParkedRequest.digest == digest(handle))
    )
    return found


def count_parked(flow: Flow) -> int:
    return rows(flow.app, select(func.count()).select_from(ParkedRequest))[0][0]


def sent_back(flow: Flow, scope: str | None = SCOPE, **changes: object) -> dict[str, str]:
    """Return what the client is told, at its registered address; nothing is kept."""
    before = count_parked(flow)
    with pytest.raises(SendBack) as raised:
        flow.park(scope, **changes)
    assert count_parked(flow) == before
    return parameters_of(raised.value.location)


@pytest.mark.parametrize(
    ("changes", "error", "description"),
    [
        ({"response_type": None}, "invalid_request", "response_type is missing."),
        ({"response_type": ""}, "invalid_request", "response_type is missing."),
        *[
            ({"response_type": one}, "unsupported_response_type", "response_type must be code.")
            for one in ("token", "code token", "id_token", "CODE", 'co"de', "a\\b", "code ")
        ],
        *[({"aud": one}, "invalid_request", f"{NO_AUD} missing.") for one in (None, "")],
        ({"aud": "x" * 2000}, "invalid_request", f"{NO_AUD} {'x' * 100}...."),
        ({"aud": 'a"b\\<'}, "invalid_request", f"{NO_AUD} a?b?<."),
        *[
            ({"aud": one}, "invalid_request", f"{NO_AUD} {one}.")
            for one in (
                BASE_URL,
                "https://other.example/fhir",
                "http://fhir.example/fhir",
                "https://FHIR.example/fhir",
                f"{AUD}/Patient",
                f"{AUD}?x",
                f"{AUD} https://other.example",
            )
        ],
        (
            {"code_challenge": None},
            "invalid_request",
            "code_challenge is missing: PKCE with S256 is required.",
        ),
        (
            {"code_challenge": None, "code_challenge_method": None},
            "invalid_request",
            "code_challenge is missing: PKCE with S256 is required.",
        ),
        *[
            (
                {"code_challenge_method": one},
                "invalid_request",
                "code_challenge_method must be S256.",
            )
            for one in (None, "", "plain", "s256", "S512")
        ],
        *[
            ({"code_challenge": one}, "invalid_request", NO_CHALLENGE)
            for one in (
                challenge(VERIFIER)[:-1],
                challenge(VERIFIER) + "=",
                challenge(VERIFIER) + "A",
                "A" * 63,
                "A" * 128,
                "." * 43,
                "~" * 43,
                VERIFIER,
            )
        ],
        *[
            ({"prompt": one}, "invalid_request", NO_PROMPT)
            for one in ("none login", "create", "LOGIN", "login,consent")
        ],
        *[
            ({"max_age": one}, "invalid_request", "max_age must be a number of seconds.")
            for one in ("-1", "1.5", "x", "1e3", "9" * 10, " 1")
        ],
        *[
            ({"response_mode": one}, "invalid_request", "response_mode must be query.")
            for one in ("fragment", "form_post", "query.jwt", "x")
        ],
        *[
            ({name: "x"}, f"{name}_not_supported", f"{name} is not supported.")
            for name in ("request", "request_uri", "registration")
        ],
        (
            {"launch": "unknown"},
            "invalid_request",
            "launch is not known, was used, has expired, or is another app's.",
        ),
        *[
            ({name: value}, "invalid_request", NO_TEXT)
            for name in ("scope", "nonce", "launch", "aud", "code_challenge", "anything")
            for value in (LONG, "é", "a\nb", "a\0b", "\x7f", "\ud800")
        ],
    ],
)
def test_what_is_wrong_goes_back_to_the_client_with_its_state(flow, changes, error, description):
    assert sent_back(flow, **changes) == {
        "error": error,
        "error_description": description,
        "state": STATE,
    }


@pytest.mark.parametrize(
    "scope",
    [None, "", "  ", "nonsense", "system/*.rs", "patient/*.write", "patient/DocumentReferenceX.rs"],
)
def test_a_scope_of_which_nothing_is_left_goes_back(flow, scope):
    assert sent_back(flow, scope) == {
        "error": "invalid_scope",
        "error_description": "The requested scope is invalid, unknown, or malformed.",
        "state": STATE,
    }


@pytest.mark.parametrize(
    "name", ["response_type", "scope", "aud", "nonce", "code_challenge", "prompt", "anything"]
)
def test_a_repeated_parameter_goes_back(flow, name):
    right = flow.parameters(SCOPE).get(name, "none")
    told = sent_back(flow, **{name: [right, right]})
    assert told["error_description"] == "A parameter is repeated."
    assert (told["error"], told["state"]) == ("invalid_request", STATE)


@pytest.mark.parametrize("state", ["a b+c%20&=;#/?", "<script>'\"\\", "x" * 2000, "error=x"])
def test_state_comes_back_to_the_letter(flow, state):
    assert sent_back(flow, None, state=state)["state"] == state
    sent_to = flow.decide(flow.park("user/*.rs", state=state))
    assert parameters_of(sent_to)["state"] == state


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (None, "invalid_scope"),
        ("", "invalid_scope"),
        ("é", "invalid_request"),
        (LONG, "invalid_request"),
        ("a\r\nb", "invalid_request"),
    ],
)
def test_a_state_that_is_none_does_not_come_back(flow, state, error):
    told = sent_back(flow, None, state=state)
    assert told["error"] == error
    assert "state" not in told


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": f"{AUD}/"},
        {"state": None},
        {"nonce": "n" * 2000},
        {"prompt": "login  consent"},
        {"prompt": "none"},
        {"max_age": "0"},
        {"response_mode": "query"},
        {"request": "", "request_uri": "", "launch": "", "prompt": ""},
        {"login_hint": "robin", "ui_locales": "de", "display": "page", "x": "y"},
    ],
)
def test_a_request_that_is_right_waits_for_the_user(flow, changes):
    assert parked_row(flow, flow.park(SCOPE, **changes)).used_at is None


def test_what_waits_is_found_by_its_handle_alone_for_a_quarter_of_an_hour(flow):
    handle = flow.park(SCOPE, nonce="n", unknown="x" * 2000, login_hint="")
    row = parked_row(flow, handle)
    kept = {**flow.parameters(SCOPE), "nonce": "n"}
    # aud was compared, and what nobody asks for would only fill the database.
    assert row.parameters == {name: text for name, text in kept.items() if name != "aud"}
    assert row.expires_at - row.created_at == 900
    assert len(handle) == 43
    with flow.app.app_context():
        assert authorize.find(handle).digest == digest(handle)
        assert authorize.find("unknown") is None


def test_what_has_waited_too_long_is_gone(flow):
    handle = flow.park(SCOPE)
    now = int(time.time())
    mine = update(ParkedRequest).where(ParkedRequest.digest == digest(handle))
    alter(flow.app, mine.values(expires_at=now))
    with flow.app.app_context():
        assert authorize.find(handle) is None
    alter(flow.app, mine.values(expires_at=now - 2))
    flow.park(SCOPE)
    assert rows(flow.app, select(ParkedRequest).where(ParkedRequest.digest == digest(handle))) == []


@pytest.mark.parametrize(
    ("changes", "seconds_ago", "wanted"),
    [
        ({}, 7200, False),
        ({"prompt": "consent"}, 7200, False),
        ({"prompt": "login"}, 5, True),
        ({"prompt": "login consent"}, 5, True),
        # Who has just typed the password for this request need not do so again.
        ({"prompt": "login"}, 0, False),
        ({"max_age": "0"}, 5, True),
        ({"max_age": "60"}, 61, True),
        ({"max_age": "60"}, 58, False),
        ({"max_age": "999999999"}, 7200, False),
    ],
)
def test_the_password_is_asked_for_again_where_the_app_wants_it(flow, changes, seconds_ago, wanted):
    with flow.app.test_request_context():
        parked = authorize.find(flow.park("openid", **changes))
        signed = flow.signed()._replace(signed_in_at=parked.created_at - seconds_ago)
        assert authorize.wants_sign_in(parked, signed) is wanted
        assert authorize.wants_sign_in(parked, None)
        half = flow.signed()._replace(complete=False)
        assert authorize.wants_sign_in(parked, half)


@pytest.mark.parametrize("more", [{}, {"max_age": "0"}])
def test_an_app_that_wants_no_page_hears_that_one_is_needed(flow, more):
    handle = flow.park("openid", prompt="none", **more)
    with flow.app.test_request_context():
        parked = authorize.find(handle)
        signed = flow.signed()._replace(signed_in_at=parked.created_at - 5)
        for nobody in (None, signed._replace(complete=False), *([signed] if more else [])):
            with pytest.raises(SendBack) as raised:
                authorize.wants_sign_in(parked, nobody)
            assert told(raised) == ("login_required", "The user is not signed in.")
        assert more or not authorize.wants_sign_in(parked, signed)
