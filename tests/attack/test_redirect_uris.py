"""Redirect URIs: which can be registered, and which of a request match a registered one.

Before the client and its redirect URI are known, nobody is redirected: no open redirect.
RFC 6749 §3.1.2, §4.1.2.1; RFC 8252 §7.3; RFC 9700 §4.1.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from urllib.parse import urlsplit

import pytest
from authlib.common.urls import add_params_to_uri
from flask import Flask

from fhirapp.auth.clients.registration import check_redirect_uri, columns
from fhirapp.auth.models import ANY_LOOPBACK, CLINICIAN, Client
from fhirapp.auth.oauth.authorize import SendBack, Unanswerable
from fhirapp.url_syntax import LOOPBACK
from tests.support.authorizing import (
    REDIRECT,
    Flow,
    add_backend,
    add_person,
    add_program,
    parked_requests,
    set_client,
)
from tests.support.registrations import BACKEND, PUBLIC, refusal_of

LONG = "x" * 3000
SCOPE = "openid user/*.rs"
VALID = """
https://app.example/callback https://app.example https://app.example:8443/a/b?tenant=1&x=%20
https://app.example/? HTTPS://App.Example/Callback https://xn--bcher-kva.example/callback
https://192.0.2.7/callback https://[2001:db8::1]:8443/callback https://localhost/callback
http://localhost/callback http://localhost:3000/callback http://127.0.0.1:49152/
http://[::1]:8080/callback com.example.app:/callback com.example.my-app:/oauth/callback?x=1
"""
# By key words of the refusal.
INVALID = {
    "must begin with": (
        # What a browser runs, opens or reads instead of going there.
        *("javascript:alert(1)", "JavaScript:alert(1)", "javascript://app.example/%0aalert(1)"),
        *("javascript:https://app.example", "javascript.:alert(1)", "data:text/html,hello"),
        *("data:text/html;base64,PHNjcmlwdD4=", "vbscript:msgbox", "blob:https://app.example/7"),
        *("file:///etc/passwd", "about:blank", "ftp://app.example/", "ws://app.example/"),
        *("urn:ietf:wg:oauth:2.0:oob", "mailto:a@app.example"),
        # Without encryption, or a host that only looks like this machine.
        *("http://app.example/callback", "HTTP://app.example/callback", "http://0.0.0.0/"),
        *("http://localhost.app.example/", "http://127.0.0.1.app.example/", "http://localhost./"),
        *("http://127.1/", "http://2130706433/", "http://[::2]/", "http://[::ffff:127.0.0.1]/"),
        # Without a host.
        *("/callback", "//app.example/callback", "///app.example", "app.example/callback"),
        *("app.example:8443/callback", "https:app.example", "https:/app.example", "https://"),
        *("https:///app.example", "https://?x", "://app.example", ANY_LOOPBACK),
        # An app's own scheme is a domain name, without a host after it.
        *("myapp:/callback", "myapp://callback", "com.example.app:", "com.example.app:callback"),
        *("com.example.app://callback", "com.example.app:///callback", "com..app:/callback"),
    ),
    "must not have a fragment": (
        *("https://clinic.example@app.example/", "https://clinic.example:x@app.example/"),
        *("https://@app.example/", "http://localhost@app.example/", f"{REDIRECT}#"),
        *(f"{REDIRECT}#x", "com.example.app:/callback#x", "intent://app.example/#Intent;end"),
    ),
    "not a valid URI.": (
        # Another host than the one that people read.
        *("http://app.example[::1]/", "http://[::1].app.example/", "http://[::1%25lo]/"),
        *("https://clinic.example%2eapp.example/", "https://clinic.example%40app.example/"),
        *("https://clinic.example,app.example/", "https://clinic.example;app.example/"),
        *("https://app.example\\@clinic.example/", "https:\\\\app.example/"),
        *("https:/\\app.example/", "http://localhost\\.app.example/", "", "https://:8443/"),
        # Ports and brackets.
        *("https://app.example:x/", "https://app.example:65536/", "https://app.example:-1/"),
        *("https://app.example:80:80/", "https://[::1/", "https://::1/", "https://[app.example]/"),
        # Not ASCII, not printable, or to be quoted.
        *("https://bücher.example/", "https://app.example/\u202e", "https://app\u3002example/"),
        *("https://app.example/\ud800", "https://app.example/a b", f" {REDIRECT}", f"{REDIRECT}\n"),
        *(f"{REDIRECT}\r\nSet-Cookie: x=1", "https://app.example/\t", "java\tscript:alert(1)"),
        *("\x01javascript:alert(1)", "https://app.example/\0", 'https://app.example/"onclick="x'),
        *("https://app.example/<script>", "https://*.app.example/", f"https://app.example/{LONG}"),
    ),
}


def test_redirect_uris_that_can_be_registered():
    assert {uri: refusal_of(check_redirect_uri, uri) for uri in VALID.split()} == dict.fromkeys(
        VALID.split(), ""
    )


def test_redirect_uris_that_cannot_be_registered():
    wrong = {}
    for words, uris in INVALID.items():
        for uri in uris:
            message = refusal_of(check_redirect_uri, uri)
            if not message.startswith(f"The redirect URI {uri[:200]!r} ") or words not in message:
                wrong[uri] = message
    assert wrong == {}


SCHEMES = ("", "http", "HTTPS", "https", "javascript", "com.example.app", "com.")
SEPARATORS = ("", ":", ":/", "://", ":///", "//", ":\\\\")
USERS = ("", "@", "localhost@", "app.example:x@")
HOSTS = ("", "localhost", "127.0.0.1", "[::1]", "App.example", "app%2eexample", "é.example")
ENDS = ("", ":443", ":", "/", "/a?b=%20c", "?b", "#", "/\\x", "\n", ".", ".app.example/", "@x/")
# Where browsers go with a code: a secure host, this machine, an app.
SAFE = re.compile(
    r"https://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]*)?([/?][!-~]*)?"
    r"|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]*)?([/?][!-~]*)?"
    r"|[a-z][a-z0-9-]*(\.[a-z0-9-]+)+:/(?!/)[!-~]*"
)


def test_every_valid_redirect_uri_of_all_combinations_leads_to_a_safe_place():
    combinations = map("".join, product(SCHEMES, SEPARATORS, USERS, (*HOSTS, "x[::1]"), ENDS))
    valid = [uri for uri in combinations if not refusal_of(check_redirect_uri, uri)]
    assert {urlsplit(uri).scheme for uri in valid} == {"http", "https", "com.example.app"}
    for uri in valid:
        assert SAFE.fullmatch(uri.lower()), uri
        target = urlsplit(add_params_to_uri(uri, [("code", "c")]))
        assert (target.scheme, target.netloc) == urlsplit(uri)[:2], uri
        assert target.scheme != "http" or target.hostname in LOOPBACK, uri


KEYLESS = replace(BACKEND, jwks=None)


@pytest.mark.parametrize(
    ("field", "label", "registration"),
    [("launch_uri", "launch URI", PUBLIC), ("jwks_uri", "URL of the keys", KEYLESS)],
)
def test_launch_and_key_set_urls_are_of_the_web(app, field, label, registration):
    secure = ("https://app.example/launch", "http://localhost:3000/launch?x=1", "https://[::1]/l")
    refused = {
        "must begin with": (
            *("javascript:alert(1)", "com.example.app:/launch", "http://app.example/launch"),
            *("//app.example/launch", "/launch", "file:///etc/passwd"),
        ),
        "must not have a fragment": (
            *("https://user:secret@app.example/", "https://app.example/#x"),
        ),
        "not a valid URI.": (
            *("https://app.example\\x", "https://app.example\n", "http://app.example[::1]/"),
            *("https://app.example:99999/", "https://bücher.example/", f"https://a.example/{LONG}"),
        ),
    }
    with app.app_context():
        for uri in secure:
            assert columns(replace(registration, **{field: uri}))[field] == uri
        for words, uris in refused.items():
            for uri in uris:
                message = refusal_of(columns, replace(registration, **{field: uri}))
                assert message.startswith(f"The {label} {uri[:200]!r} "), uri
                assert words in message


def test_key_set_url_may_be_http_where_the_operator_allows_private_hosts(make_app):
    keyless = replace(KEYLESS, jwks_uri="http://ehr.clinic.internal/jwks.json")
    for allowed in (True, False):
        with make_app(seed=False, fetch_private=allowed).app_context():
            assert ("must begin with" in refusal_of(columns, keyless)) is not allowed


def matches(registered: str | list[str], uri: str) -> bool:
    uris = [registered] if isinstance(registered, str) else registered
    return Client(redirect_uris=uris).check_redirect_uri(uri)


def test_redirect_uri_of_a_request_is_compared_to_the_letter(app):
    others = (
        *(f"{REDIRECT}/", f"{REDIRECT}?", f"{REDIRECT}?x=1", f"{REDIRECT}#", f"{REDIRECT}#x"),
        *(f"{REDIRECT}/../callback", f"{REDIRECT} ", f" {REDIRECT}", f"{REDIRECT}\n"),
        *(f"{REDIRECT}\r\nSet-Cookie: a=b", f"{REDIRECT}%00", "https://app.example:443/callback"),
        *("https://app.example:8443/callback", "https://APP.example/callback", "/callback"),
        *("HTTPS://app.example/callback", "https://app.example/Callback", "https://app.example"),
        *("https://app.example/%63allback", "https://app.example/x/../callback"),
        "https://app.example./callback",
        *("https://user@app.example/callback", "https://app.example@evil.example/callback"),
        *("https://app.example.evil.example/callback", "http://app.example/callback"),
        *("//app.example/callback", "https://evil.example/?u=https://app.example/callback"),
        *("javascript:alert(1)", "data:text/html,x", ANY_LOOPBACK, "*", LONG, "é"),
    )
    with app.app_context():
        assert matches(REDIRECT, REDIRECT)
        assert [uri for uri in others if matches(REDIRECT, uri)] == []


def test_native_app_may_use_any_port_of_a_loopback_address_and_nothing_else_differs(app):
    local, ipv6, named = "http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost/cb"
    same = [
        *((local, f"http://127.0.0.1:{port}/cb") for port in (1, 51_234, 65_535)),
        ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3001/cb"),
        ("http://127.0.0.1:3000/cb", local),
        ("http://[::1]:3000/a/b?x=1&y=%20", "http://[::1]:51234/a/b?x=1&y=%20"),
        ("http://127.0.0.1?x=1", "http://127.0.0.1:51234?x=1"),
    ]
    others = [
        # localhost may be another machine: RFC 8252 §8.3.
        *((named, "http://localhost:51234/cb"), (named, local)),
        *((ipv6, "http://127.0.0.1:51234/cb"), (ipv6, "http://[0:0:0:0:0:0:0:1]:51234/cb")),
        ("http://127.0.0.1/cb?x=1", "http://127.0.0.1:51234/cb?x=2"),
        ("https://127.0.0.1/cb", "https://127.0.0.1:8443/cb"),
        ("https://app.example/cb", "https://app.example:8443/cb"),
        ("com.example.app:/cb", local),
    ]
    alike = (
        # Another host, scheme, path or query.
        *("http://localhost:51234/cb", "http://[::1]:51234/cb", "http://127.0.0.2:51234/cb"),
        *("http://127.1:51234/cb", "http://2130706433:51234/cb", "http://0.0.0.0:51234/cb"),
        *("https://127.0.0.1:5123/cb", "HTTP://127.0.0.1:51234/cb", "//127.0.0.1:51234/cb"),
        *("http://127.0.0.1:51234/cb/", "http://127.0.0.1:51234/Cb", "http://127.0.0.1:51234"),
        *("http://127.0.0.1:51234/cb?", "http://127.0.0.1:51234/cb#x"),
        *("http://127.0.0.1:51234/x/../cb", "http://127.0.0.1:51234/%63b"),
        # No port.
        *("http://127.0.0.1:/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:65536/cb"),
        *("http://127.0.0.1:051234/cb", "http://127.0.0.1:+80/cb", "http://127.0.0.1:-1/cb"),
        *("http://127.0.0.1:80:80/cb", "http://127.0.0.1:x/cb", "http://127.0.0.1:٨٠/cb"),
        # Another host than the one that people read.
        *("http://127.0.0.1:80@evil.example/cb", "http://evil.example@127.0.0.1:80/cb"),
        *("http://127.0.0.1:80.evil.example/cb", "http://127.0.0.1:80\\@evil.example/cb"),
        *("http://127.0.0.1:80/cb\r\nSet-Cookie: a=b", " http://127.0.0.1:80/cb"),
    )
    others += [(local, uri) for uri in alike]
    with app.app_context():
        assert [pair for pair in same if not matches(*pair)] == []
        assert [pair for pair in others if matches(*pair)] == []


def test_redirect_uri_of_our_own_pages_is_below_the_base_url_on_its_port(make_app):
    with make_app(seed=False, base_url="http://127.0.0.1:8000").app_context():
        assert matches("/pages/callback", "http://127.0.0.1:8000/pages/callback")
        assert not matches("/pages/callback", "http://127.0.0.1:8001/pages/callback")
        assert not matches("/pages/callback", "http://127.0.0.1/pages/callback")


# Requests for authorization.


def flow_with(app: Flask, *registered: str) -> Flow:
    """Return a clinician with a public app that registered these redirect URIs."""
    return Flow(app, add_program(app, redirect_uris=registered), add_person(app, CLINICIAN))


def unanswerable(flow: Flow, **changes: object) -> str:
    """Return what the user is told of a request that redirects nobody and is not stored."""
    before = parked_requests(flow)
    with pytest.raises(Unanswerable) as raised:
        flow.park(SCOPE, **changes)
    assert parked_requests(flow) == before
    return str(raised.value)


def test_unregistered_redirect_uri_or_client_redirects_nobody(flow, oauth):
    for uri in (f"{REDIRECT}/", "https://evil.example/", "javascript:alert(1)", LONG, "é"):
        assert "(redirect_uri) that is not registered" in unanswerable(flow, redirect_uri=uri)
    for client_id in ("unknown", "é", "a\0b", "a\nb", LONG, "operator' OR 1=1"):
        assert "is not registered on this server" in unanswerable(flow, client_id=client_id)
    # A backend has no users.
    backend = add_backend(oauth).client_id
    assert "(redirect_uri) that is not registered" in unanswerable(flow, client_id=backend)


def test_demo_app_may_have_any_address_of_this_machine_and_no_other(flow):
    local = ("http://127.0.0.1:8123/cb", "http://localhost/", "http://[::1]:9/cb?x=1")
    others = (
        *(ANY_LOOPBACK, "https://127.0.0.1/", "http://127.0.0.1/#", "http://127.0.0.1/#x"),
        *("http://127.0.0.1/\r\nSet-Cookie: a=b", "http://127.0.0.1/\té", "\thttp://127.0.0.1/"),
        *("http://127.0.0.1@evil.example/", "http://127.0.0.1:80@evil.example/"),
        *("http://127.0.0.1\\@evil.example/", "http://evil.example\\@127.0.0.1/"),
        *("http://127.0.0.1.evil.example/", "http://evil.example/127.0.0.1", "http://[::1"),
        *("http://evil.example#@127.0.0.1/", "//127.0.0.1/", "/demo/app"),
        "javascript://127.0.0.1/%0aalert(1)",
    )
    for uri in local:
        assert flow.park(SCOPE, client_id="demo-app", redirect_uri=uri)
    for uri in others:
        message = unanswerable(flow, client_id="demo-app", redirect_uri=uri)
        assert "(redirect_uri) that is not registered" in message, uri


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
def test_client_id_and_redirect_uri_must_be_sent_exactly_once(flow, name):
    for value in (None, "", ["a", "b"], ["a", "a"]):
        assert f"must send {name} exactly once" in unanswerable(flow, **{name: value})


def test_disabled_or_waiting_client_redirects_nobody(flow, oauth):
    for values, words in (
        ({"disabled": True}, "is not registered on this server"),
        ({"approved_at": None}, "is not registered on this server"),
        ({"disabled": False}, "has not been approved by an administrator"),
    ):
        set_client(oauth, flow.program, **values)
        assert words in unanswerable(flow)


def test_code_is_added_to_the_query_of_the_registered_uri(oauth):
    uris = (
        *("https://app.example/cb?tenant=a%2Fb&x=1", "https://app.example"),
        *("https://app.example:8443/", "com.example.app:/callback", "http://127.0.0.1:3000/cb"),
    )
    flow = flow_with(oauth, *uris)
    for uri in uris:
        location = flow.decide(flow.park("user/*.rs", redirect_uri=uri))
        assert location.startswith(uri + ("&" if "?" in uri else "?"))
        assert location.count("code=") == 1


def test_native_app_is_answered_on_the_port_of_its_request(oauth):
    registered, uri = "http://127.0.0.1/callback", "http://127.0.0.1:51234/callback"
    flow = flow_with(oauth, REDIRECT, registered)
    assert flow.tokens(SCOPE, redirect_uri=uri)["access_token"]
    assert flow.decide(flow.park(SCOPE, redirect_uri=registered)).startswith(f"{registered}?")
    assert flow.refuse(flow.park(SCOPE, redirect_uri=uri)).startswith(f"{uri}?error=")
    with pytest.raises(SendBack) as raised:
        flow.park(SCOPE, redirect_uri=uri, response_type="token")
    assert raised.value.location.startswith(f"{uri}?error=")


def test_code_is_redeemed_with_the_redirect_uri_of_its_request_only(oauth):
    flow = flow_with(oauth, "http://127.0.0.1:3000/callback", "http://[::1]/callback")
    uri = "http://127.0.0.1:51234/callback"
    for other in (
        *("http://127.0.0.1:51235/callback", "http://127.0.0.1/callback", None),
        *("http://127.0.0.1:3000/callback", "http://[::1]:51234/callback"),
        "http://localhost:51234/callback",
    ):
        refused = flow.redeem(flow.code(SCOPE, redirect_uri=uri), redirect_uri=other)
        assert (refused.status_code, refused.get_json()["error"]) == (400, "invalid_grant")
    assert flow.redeem(flow.code(SCOPE, redirect_uri=uri), redirect_uri=uri).status_code == 200
