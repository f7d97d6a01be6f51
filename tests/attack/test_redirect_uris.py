"""Where a client may have a browser sent: hostile addresses, and those that only look so."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from urllib.parse import urlsplit

import pytest
from authlib.common.urls import add_params_to_uri

from fhirapp.auth.clients.registration import check_redirect_uri, columns
from fhirapp.auth.models import ANY_LOOPBACK
from fhirapp.config import LOOPBACK, RefusedCommand
from tests.auth.test_registration import BACKEND, PUBLIC, REDIRECT, refusal


@pytest.mark.parametrize(
    "uri",
    [
        REDIRECT,
        "https://app.example",
        "https://app.example:8443/a/b?tenant=1&x=%20",
        "https://app.example/?",
        "HTTPS://App.Example/Callback",
        "https://xn--bcher-kva.example/callback",
        "https://192.0.2.7/callback",
        "https://[2001:db8::1]:8443/callback",
        "https://localhost/callback",
        "http://localhost/callback",
        "http://localhost:3000/callback",
        "http://127.0.0.1:49152/",
        "http://[::1]:8080/callback",
        "com.example.app:/callback",
        "com.example.my-app:/oauth/callback?x=1",
    ],
)
def test_an_address_that_a_code_may_be_sent_to(uri):
    check_redirect_uri(uri)


NO_ADDRESS, NO_EXTRAS, NO_SCHEME = "not a valid URI.", "must not have a fragment", "must begin with"


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        # What a browser would run, open or read instead of going somewhere.
        ("javascript:alert(1)", NO_SCHEME),
        ("JavaScript:alert(1)", NO_SCHEME),
        ("javascript://app.example/%0aalert(1)", NO_SCHEME),
        ("javascript:https://app.example", NO_SCHEME),
        ("javascript.:alert(1)", NO_SCHEME),
        ("data:text/html,hello", NO_SCHEME),
        ("data:text/html;base64,PHNjcmlwdD4=", NO_SCHEME),
        ("vbscript:msgbox", NO_SCHEME),
        ("blob:https://app.example/7", NO_SCHEME),
        ("file:///etc/passwd", NO_SCHEME),
        ("about:blank", NO_SCHEME),
        ("intent://app.example/#Intent;end", NO_EXTRAS),
        ("ftp://app.example/", NO_SCHEME),
        ("ws://app.example/", NO_SCHEME),
        ("urn:ietf:wg:oauth:2.0:oob", NO_SCHEME),
        ("mailto:a@app.example", NO_SCHEME),
        # Anybody on the way could read the code.
        ("http://app.example/callback", NO_SCHEME),
        ("HTTP://app.example/callback", NO_SCHEME),
        # Not this machine, though it looks so.
        ("http://localhost.app.example/", NO_SCHEME),
        ("http://127.0.0.1.app.example/", NO_SCHEME),
        ("http://localhost./", NO_SCHEME),
        ("http://127.1/", NO_SCHEME),
        ("http://2130706433/", NO_SCHEME),
        ("http://0.0.0.0/", NO_SCHEME),
        ("http://[::2]/", NO_SCHEME),
        ("http://[::ffff:127.0.0.1]/", NO_SCHEME),
        ("http://app.example[::1]/", NO_ADDRESS),
        ("http://[::1].app.example/", NO_ADDRESS),
        ("http://[::1%25lo]/", NO_ADDRESS),
        # Another host than the one that is read.
        ("https://clinic.example@app.example/", NO_EXTRAS),
        ("https://clinic.example:x@app.example/", NO_EXTRAS),
        ("https://@app.example/", NO_EXTRAS),
        ("http://localhost@app.example/", NO_EXTRAS),
        ("https://clinic.example%2eapp.example/", NO_ADDRESS),
        ("https://clinic.example%40app.example/", NO_ADDRESS),
        ("https://clinic.example,app.example/", NO_ADDRESS),
        ("https://clinic.example;app.example/", NO_ADDRESS),
        ("https://app.example\\@clinic.example/", NO_ADDRESS),
        ("https:\\\\app.example/", NO_ADDRESS),
        ("https:/\\app.example/", NO_ADDRESS),
        ("http://localhost\\.app.example/", NO_ADDRESS),
        # No host, or not of one's own.
        ("", NO_ADDRESS),
        ("/callback", NO_SCHEME),
        ("//app.example/callback", NO_SCHEME),
        ("///app.example", NO_SCHEME),
        ("app.example/callback", NO_SCHEME),
        ("app.example:8443/callback", NO_SCHEME),
        ("https:app.example", NO_SCHEME),
        ("https:/app.example", NO_SCHEME),
        ("https:///app.example", NO_SCHEME),
        ("https://", NO_SCHEME),
        ("https://:8443/", NO_ADDRESS),
        ("https://?x", NO_SCHEME),
        ("://app.example", NO_SCHEME),
        (ANY_LOOPBACK, NO_SCHEME),
        # An app's own scheme is a domain name, without a host after it.
        ("myapp:/callback", NO_SCHEME),
        ("myapp://callback", NO_SCHEME),
        ("com.example.app:", NO_SCHEME),
        ("com.example.app:callback", NO_SCHEME),
        ("com.example.app://callback", NO_SCHEME),
        ("com.example.app:///callback", NO_SCHEME),
        ("com..app:/callback", NO_SCHEME),
        # Fragments, RFC 6749 §3.1.2.
        (f"{REDIRECT}#", NO_EXTRAS),
        (f"{REDIRECT}#x", NO_EXTRAS),
        ("com.example.app:/callback#x", NO_EXTRAS),
        # Ports and brackets.
        ("https://app.example:x/", NO_ADDRESS),
        ("https://app.example:65536/", NO_ADDRESS),
        ("https://app.example:-1/", NO_ADDRESS),
        ("https://app.example:80:80/", NO_ADDRESS),
        ("https://[::1/", NO_ADDRESS),
        ("https://::1/", NO_ADDRESS),
        ("https://[app.example]/", NO_ADDRESS),
        # Not ASCII, not printable, or to be quoted.
        ("https://bücher.example/", NO_ADDRESS),
        ("https://app.example/\u202e", NO_ADDRESS),
        ("https://app\u3002example/", NO_ADDRESS),
        ("https://app.example/\ud800", NO_ADDRESS),
        ("https://app.example/a b", NO_ADDRESS),
        (f" {REDIRECT}", NO_ADDRESS),
        (f"{REDIRECT}\n", NO_ADDRESS),
        (f"{REDIRECT}\r\nSet-Cookie: x=1", NO_ADDRESS),
        ("https://app.example/\t", NO_ADDRESS),
        ("java\tscript:alert(1)", NO_ADDRESS),
        ("\x01javascript:alert(1)", NO_ADDRESS),
        ("https://app.example/\0", NO_ADDRESS),
        ('https://app.example/"onclick="x', NO_ADDRESS),
        ("https://app.example/<script>", NO_ADDRESS),
        ("https://*.app.example/", NO_ADDRESS),
        (f"https://app.example/{'x' * 1000}", NO_ADDRESS),
    ],
)
def test_an_address_that_no_code_is_sent_to(uri, words):
    said = refusal(check_redirect_uri, uri)
    assert said.startswith(f"The redirect URI {uri[:200]!r} ")
    assert words in said


SCHEMES = ("", "http", "HTTPS", "https", "javascript", "com.example.app", "com.")
BETWEEN = ("", ":", ":/", "://", ":///", "//", ":\\\\")
USERS = ("", "@", "localhost@", "app.example:x@")
HOSTS = (
    "",
    "localhost",
    "127.0.0.1",
    "[::1]",
    "App.example",
    "app%2eexample",
    "é.example",
    "x[::1]",
)
ENDS = ("", ":443", ":", "/", "/a?b=%20c", "?b", "#", "/\\x", "\n", ".", ".app.example/", "@x/")
# What browsers go to with a code: a secure host, this machine, an app.
ALLOWED = re.compile(
    r"https://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]*)?([/?][!-~]*)?"
    r"|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]*)?([/?][!-~]*)?"
    r"|[a-z][a-z0-9-]*(\.[a-z0-9-]+)+:/(?!/)[!-~]*"
)


def is_accepted(uri: str) -> bool:
    """Say whether an address can be registered."""
    try:
        check_redirect_uri(uri)
    except RefusedCommand:
        return False
    return True


def test_whatever_is_accepted_is_of_one_of_three_kinds_and_leads_there_with_a_code():
    made = map("".join, product(SCHEMES, BETWEEN, USERS, HOSTS, ENDS))
    accepted = [uri for uri in made if is_accepted(uri)]
    assert {urlsplit(uri).scheme for uri in accepted} == {"http", "https", "com.example.app"}
    for uri in accepted:
        assert ALLOWED.fullmatch(uri.lower()), uri
        sent = urlsplit(add_params_to_uri(uri, [("code", "c")]))
        assert (sent.scheme, sent.netloc) == urlsplit(uri)[:2], uri
        assert sent.scheme != "http" or sent.hostname in LOOPBACK, uri


@pytest.mark.parametrize(
    "uri", ["https://app.example/launch", "http://localhost:3000/launch?x=1", "https://[::1]/l"]
)
@pytest.mark.parametrize(
    ("name", "one"), [("launch_uri", PUBLIC), ("jwks_uri", replace(BACKEND, jwks=None))]
)
def test_an_address_that_we_send_a_browser_to_or_fetch(app, name, one, uri):
    with app.app_context():
        assert columns(replace(one, **{name: uri}))[name] == uri


def test_keys_may_lie_in_the_clinics_own_network_where_the_operator_says_so(make_app):
    uri = "http://ehr.clinic.internal/jwks.json"
    keyless = replace(BACKEND, jwks=None, jwks_uri=uri)
    with make_app(seed=False, fetch_private=True).app_context():
        assert columns(keyless)["jwks_uri"] == uri
    with make_app(seed=False).app_context():
        assert "must begin with" in refusal(columns, keyless)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("javascript:alert(1)", NO_SCHEME),
        ("com.example.app:/launch", NO_SCHEME),
        ("http://app.example/launch", NO_SCHEME),
        ("//app.example/launch", NO_SCHEME),
        ("/launch", NO_SCHEME),
        ("file:///etc/passwd", NO_SCHEME),
        ("https://user:secret@app.example/", NO_EXTRAS),
        ("https://app.example/#x", NO_EXTRAS),
        ("https://app.example\\x", NO_ADDRESS),
        ("https://app.example\n", NO_ADDRESS),
        ("http://app.example[::1]/", NO_ADDRESS),
        ("https://app.example:99999/", NO_ADDRESS),
        ("https://bücher.example/", NO_ADDRESS),
        ("https://app.example/" + "x" * 1000, NO_ADDRESS),
    ],
)
@pytest.mark.parametrize(
    ("name", "called", "one"),
    [
        ("launch_uri", "launch URI", PUBLIC),
        ("jwks_uri", "URL of the keys", replace(BACKEND, jwks=None)),
    ],
)
def test_an_address_that_we_send_no_browser_to_nor_fetch(name, called, one, uri, words):
    said = refusal(columns, replace(one, **{name: uri}))
    assert said.startswith(f"The {called} {uri[:200]!r} ")
    assert words in said
