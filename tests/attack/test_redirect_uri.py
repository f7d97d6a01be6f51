"""Before the client and its redirect_uri are known, nobody is sent anywhere: no open redirect.

RFC 6749 §3.1.2, §4.1.2.1; RFC 9700 §4.1; issue 4.
"""

from __future__ import annotations

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from fhirapp.auth.oauth.authorize import Unanswerable
from tests.auth.test_authorize import LONG, SCOPE, count_parked
from tests.support.authorizing import (
    REDIRECT,
    Flow,
    add_backend,
    add_person,
    add_program,
    set_client,
)

UNKNOWN = "The app that sent you here is not registered on this server."
WAITS = "The app that sent you here has not been approved by an administrator of this server yet."
ELSEWHERE = (
    "The app that sent you here uses a return address (redirect_uri) that is not registered for it."
)


@pytest.fixture(scope="module")
def flow(oauth: Flask) -> Flow:
    """Return a clinician with a public app."""
    return Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))


def assert_nobody_is_sent(flow: Flow, message: str, **changes: object) -> None:
    """Assert that only the user is told, and nothing is kept."""
    before = count_parked(flow)
    with pytest.raises(Unanswerable) as raised:
        flow.park(SCOPE, **changes)
    assert str(raised.value) == message
    assert count_parked(flow) == before


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
@pytest.mark.parametrize("value", [None, "", ["a", "b"], ["a", "a"]])
def test_nobody_is_sent_anywhere_before_the_client_says_once_who_it_is(flow, name, value):
    message = f"The app that sent you here must send {name} exactly once."
    assert_nobody_is_sent(flow, message, **{name: value})


@pytest.mark.parametrize("client_id", ["unknown", "é", "a\0b", "a\nb", LONG, "operator' OR 1=1"])
def test_nobody_is_sent_anywhere_by_a_client_that_is_not_known(flow, client_id):
    assert_nobody_is_sent(flow, UNKNOWN, client_id=client_id)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"disabled": True}, UNKNOWN),
        ({"approved_at": None}, WAITS),
        ({"approved_at": None, "disabled": True}, UNKNOWN),
    ],
)
def test_nobody_is_sent_anywhere_by_a_client_that_is_switched_off(oauth, values, message):
    flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))
    set_client(oauth, flow.program, **values)
    assert_nobody_is_sent(flow, message)


def test_a_backend_has_no_users(flow, oauth):
    assert_nobody_is_sent(flow, ELSEWHERE, client_id=add_backend(oauth).client_id)


@pytest.mark.parametrize(
    "uri",
    [
        f"{REDIRECT}/",
        f"{REDIRECT}?",
        f"{REDIRECT}?x=1",
        f"{REDIRECT}#",
        f"{REDIRECT}#x",
        f"{REDIRECT}/../callback",
        f"{REDIRECT} ",
        f" {REDIRECT}",
        f"{REDIRECT}\n",
        f"{REDIRECT}\r\nSet-Cookie: a=b",
        f"{REDIRECT}%00",
        "https://app.example:443/callback",
        "https://app.example:8443/callback",
        "https://APP.example/callback",
        "HTTPS://app.example/callback",
        "https://app.example/Callback",
        "https://app.example/%63allback",
        "https://app.example/x/../callback",
        "https://app.example//callback",
        "https://app.example./callback",
        "https://user@app.example/callback",
        "https://app.example@evil.example/callback",
        "https://app.example.evil.example/callback",
        "https://app.example",
        "http://app.example/callback",
        "//app.example/callback",
        "/callback",
        "https://evil.example/?u=https://app.example/callback",
        "javascript:alert(1)",
        "data:text/html,x",
        "loopback",
        "*",
        LONG,
        "é",
    ],
)
def test_a_redirect_uri_is_compared_to_the_letter(flow, uri):
    assert_nobody_is_sent(flow, ELSEWHERE, redirect_uri=uri)


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example/cb?tenant=a%2Fb&x=1",
        "https://app.example",
        "https://app.example:8443/",
        "com.example.app:/callback",
        "http://127.0.0.1:3000/callback",
    ],
)
def test_whatever_address_is_registered_gets_the_code_added_to_its_query(oauth, uri):
    program = add_program(oauth, redirect_uris=[uri])
    flow = Flow(oauth, program, add_person(oauth, CLINICIAN))
    sent_to = flow.decide(flow.park("user/*.rs", redirect_uri=uri))
    assert sent_to.startswith(uri + ("&" if "?" in uri else "?"))
    assert sent_to.count("code=") == 1


@pytest.mark.parametrize(
    ("uri", "fits"),
    [
        ("http://127.0.0.1:8123/cb", True),
        ("http://localhost/", True),
        ("http://[::1]:9/cb?x=1", True),
        ("loopback", False),
        ("https://127.0.0.1/", False),
        ("http://127.0.0.1/#", False),
        ("http://127.0.0.1/#x", False),
        ("http://127.0.0.1/\r\nSet-Cookie: a=b", False),
        ("http://127.0.0.1/\té", False),
        ("http://127.0.0.1/" + LONG, False),
        ("\thttp://127.0.0.1/", False),
        ("http://127.0.0.1@evil.example/", False),
        ("http://127.0.0.1:80@evil.example/", False),
        ("http://127.0.0.1\\@evil.example/", False),
        ("http://evil.example\\@127.0.0.1/", False),
        ("http://127.0.0.1.evil.example/", False),
        ("http://evil.example/127.0.0.1", False),
        ("http://evil.example#@127.0.0.1/", False),
        ("http://[::1", False),
        ("//127.0.0.1/", False),
        ("/demo/app", False),
        ("javascript://127.0.0.1/%0aalert(1)", False),
    ],
)
def test_the_demo_app_may_have_any_address_of_this_machine_and_no_other(oauth, flow, uri, fits):
    changes = {"client_id": "demo-app", "redirect_uri": uri}
    if fits:
        assert flow.park(SCOPE, **changes)
    else:
        assert_nobody_is_sent(flow, ELSEWHERE, **changes)
