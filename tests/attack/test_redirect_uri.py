"""Before the client and its redirect_uri are known, nobody is sent anywhere: no open redirect.

RFC 6749 §3.1.2, §4.1.2.1; RFC 9700 §4.1; issue 4.
"""

from __future__ import annotations

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN, Client
from fhirapp.auth.oauth.authorize import SendBack, Unanswerable
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


def native(app: Flask, *registered: str) -> Flow:
    """Return a clinician with a public app that registered these addresses."""
    program = add_program(app, redirect_uris=registered)
    return Flow(app, program, add_person(app, CLINICIAN))


@pytest.mark.parametrize(
    ("registered", "uri"),
    [
        ("http://127.0.0.1/callback", "http://127.0.0.1:51234/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:1/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:65535/callback"),
        ("http://127.0.0.1:3000/callback", "http://127.0.0.1:3001/callback"),
        ("http://127.0.0.1:3000/callback", "http://127.0.0.1/callback"),
        ("http://127.0.0.1:80/callback", "http://127.0.0.1/callback"),
        ("http://[::1]/callback", "http://[::1]:51234/callback"),
        ("http://[::1]:3000/a/b?x=1&y=%20", "http://[::1]:51234/a/b?x=1&y=%20"),
        ("http://127.0.0.1", "http://127.0.0.1:51234"),
        ("http://127.0.0.1/", "http://127.0.0.1:51234/"),
        ("http://127.0.0.1?x=1", "http://127.0.0.1:51234?x=1"),
    ],
)
def test_a_native_app_may_use_any_port_of_a_loopback_address(oauth, registered, uri):
    flow = native(oauth, "https://app.example/callback", registered)
    answer = flow.tokens("openid user/*.rs", redirect_uri=uri)
    assert answer["access_token"]
    assert flow.decide(flow.park("user/*.rs", redirect_uri=uri)).startswith(uri)
    assert flow.decide(flow.park("user/*.rs", redirect_uri=registered)).startswith(registered)


@pytest.mark.parametrize("ends", ["at once", "refused"])
def test_an_error_goes_back_to_the_port_of_the_request(oauth, ends):
    flow = native(oauth, "http://127.0.0.1/callback")
    uri = "http://127.0.0.1:51234/callback"
    if ends == "refused":
        location = flow.refuse(flow.park("user/*.rs", redirect_uri=uri))
    else:
        with pytest.raises(SendBack) as raised:
            flow.park("user/*.rs", redirect_uri=uri, response_type="token")
        location = raised.value.location
    assert location.startswith(f"{uri}?error=")


LOOPBACK = "http://127.0.0.1/callback"


@pytest.mark.parametrize(
    ("registered", "uri"),
    [
        # localhost may be another machine: RFC 8252 §8.3.
        ("http://localhost/callback", "http://localhost:51234/callback"),
        ("http://localhost:3000/callback", "http://localhost:3001/callback"),
        ("http://localhost:3000/callback", "http://127.0.0.1:3000/callback"),
        (LOOPBACK, "http://localhost:51234/callback"),
        (LOOPBACK, "http://LOCALHOST/callback"),
        # Another address, scheme, path or query.
        (LOOPBACK, "http://[::1]:51234/callback"),
        ("http://[::1]/callback", "http://127.0.0.1:51234/callback"),
        ("http://[::1]/callback", "http://[0:0:0:0:0:0:0:1]:51234/callback"),
        ("http://[::1]/callback", "http://[::ffff:127.0.0.1]:51234/callback"),
        (LOOPBACK, "http://127.0.0.2:51234/callback"),
        (LOOPBACK, "http://127.1:51234/callback"),
        (LOOPBACK, "http://127.0.0.01:51234/callback"),
        (LOOPBACK, "http://2130706433:51234/callback"),
        (LOOPBACK, "http://0.0.0.0:51234/callback"),
        (LOOPBACK, "https://127.0.0.1:51234/callback"),
        (LOOPBACK, "HTTP://127.0.0.1:51234/callback"),
        (LOOPBACK, "//127.0.0.1:51234/callback"),
        (LOOPBACK, "http://127.0.0.1:51234/callback/"),
        (LOOPBACK, "http://127.0.0.1:51234/Callback"),
        (LOOPBACK, "http://127.0.0.1:51234/callback?x=1"),
        (LOOPBACK, "http://127.0.0.1:51234/callback?"),
        (LOOPBACK, "http://127.0.0.1:51234/callback#x"),
        (LOOPBACK, "http://127.0.0.1:51234//callback"),
        (LOOPBACK, "http://127.0.0.1:51234/x/../callback"),
        (LOOPBACK, "http://127.0.0.1:51234/%63allback"),
        (LOOPBACK, "http://127.0.0.1:51234"),
        ("http://127.0.0.1/callback?x=1", "http://127.0.0.1:51234/callback?x=2"),
        # What is no port.
        (LOOPBACK, "http://127.0.0.1:/callback"),
        (LOOPBACK, "http://127.0.0.1:0/callback"),
        (LOOPBACK, "http://127.0.0.1:65536/callback"),
        (LOOPBACK, "http://127.0.0.1:051234/callback"),
        (LOOPBACK, "http://127.0.0.1:+80/callback"),
        (LOOPBACK, "http://127.0.0.1:-1/callback"),
        (LOOPBACK, "http://127.0.0.1:80:80/callback"),
        (LOOPBACK, "http://127.0.0.1:x/callback"),
        (LOOPBACK, "http://127.0.0.1:٨٠/callback"),
        # Another host than the one that is read.
        (LOOPBACK, "http://127.0.0.1:80@evil.example/callback"),
        (LOOPBACK, "http://evil.example@127.0.0.1:80/callback"),
        (LOOPBACK, "http://user:secret@127.0.0.1:80/callback"),
        (LOOPBACK, "http://127.0.0.1:80.evil.example/callback"),
        (LOOPBACK, "http://127.0.0.1.evil.example:80/callback"),
        (LOOPBACK, "http://127.0.0.1:80\\@evil.example/callback"),
        (LOOPBACK, "http://127.0.0.1:80/callback\r\nSet-Cookie: a=b"),
        (LOOPBACK, "http://127.0.0.1:80\n/callback"),
        (LOOPBACK, " http://127.0.0.1:80/callback"),
        # Ports of other addresses.
        ("https://127.0.0.1/callback", "https://127.0.0.1:8443/callback"),
        ("https://app.example/callback", "https://app.example:8443/callback"),
        ("http://localhost/callback", LOOPBACK),
        ("com.example.app:/callback", LOOPBACK),
    ],
)
def test_of_a_loopback_address_nothing_but_the_port_may_differ(oauth, registered, uri):
    flow = native(oauth, registered)
    assert_nobody_is_sent(flow, ELSEWHERE, redirect_uri=uri)


@pytest.mark.parametrize(
    "other",
    [
        "http://127.0.0.1:51235/callback",
        "http://127.0.0.1/callback",
        "http://127.0.0.1:3000/callback",
        "http://[::1]:51234/callback",
        "http://localhost:51234/callback",
        None,
    ],
)
def test_a_code_is_redeemed_with_the_address_of_the_request_alone(oauth, other):
    flow = native(oauth, "http://127.0.0.1:3000/callback", "http://[::1]/callback")
    uri = "http://127.0.0.1:51234/callback"
    code = flow.code("user/*.rs", redirect_uri=uri)
    refused = flow.redeem(code, redirect_uri=other)
    assert (refused.status_code, refused.get_json()["error"]) == (400, "invalid_grant")
    code = flow.code("user/*.rs", redirect_uri=uri)
    assert flow.redeem(code, redirect_uri=uri).status_code == 200


def test_our_own_pages_have_no_other_port(make_app):
    """They lie below the base URL, which may be a loopback address."""
    app = make_app(seed=False, base_url="http://127.0.0.1:8000")
    with app.app_context():
        pages = Client(redirect_uris=["/pages/callback"])
        assert pages.check_redirect_uri("http://127.0.0.1:8000/pages/callback")
        assert not pages.check_redirect_uri("http://127.0.0.1:8001/pages/callback")
        assert not pages.check_redirect_uri("http://127.0.0.1/pages/callback")
