"""Fetching a client's key set: valid answers, allowed hosts, limits and timeouts."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey

from fhirapp.auth.clients.fetch import MOST_BYTES, KeySetUnavailable, fetch_keys, is_public
from tests.support.key_server import Authority, KeyServer, ok, reply, running

HOST = "keys.clinic.example"
# An address of the open internet, behind which some tests put their own server.
PUBLIC = "93.184.215.14"
# The timeout of a test, and how much later it may end.
SHORT, LATE = 0.1, 1.0

RSA = RSAKey.generate_key(2048, {"kid": "rsa"}).as_dict(private=False)
EC = ECKey.generate_key("P-384", {"kid": "ec"}).as_dict(private=False)
JWKS = {"keys": [RSA, EC]}
BODY = json.dumps(JWKS).encode()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))


@pytest.fixture
def server(authority: Authority, trusted: None) -> Iterator[KeyServer]:
    """A server of two keys, over https, as localhost and as HOST."""
    with running(authority.context("localhost", "127.0.0.1", HOST)) as server:
        server.answer = ok(JWKS)
        yield server


@pytest.fixture
def plain() -> Iterator[KeyServer]:
    """A server of two keys, over http."""
    with running() as server:
        server.answer = ok(JWKS)
        yield server


class Names:
    """What the resolver says of HOST: one list of addresses after the other, then the last."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []
        self.asked = 0

    def look_up(self, host: str, port: int, **options: Any) -> list[Any]:
        assert host == HOST
        self.asked += 1
        addresses = self.answers[min(self.asked, len(self.answers)) - 1]
        return [found for text in addresses for found in _getaddrinfo(text, port, **options)]


_getaddrinfo = socket.getaddrinfo
_connect = socket.socket.connect


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.look_up)
    return names


@pytest.fixture
def connected(server: KeyServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put the server behind PUBLIC, on every port; return the addresses that are connected to."""
    connected: list[str] = []

    def connect(sock: socket.socket, address: Any) -> None:
        connected.append(address[0])
        is_there = address[0] == PUBLIC
        _connect(sock, ("127.0.0.1", server.port) if is_there else address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    return connected


def unfetched(uri: str, *, private: bool = True, seconds: float = 5.0) -> str:
    """Return the reason for which there are no keys from an address."""
    with pytest.raises(KeySetUnavailable) as raised:
        fetch_keys(uri, private=private, seconds=seconds)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return str(raised.value)


def test_keys_are_fetched_over_https(server):
    keys, max_age = fetch_keys(server.url, private=True)
    assert keys.as_dict(private=False) == JWKS
    assert max_age is None
    (asked,) = server.asked
    first, *headers = asked.rstrip().split("\r\n")
    assert first == "GET /jwks.json HTTP/1.1"
    assert sorted(headers) == [
        "Accept-Encoding: identity",
        "Accept: application/json",
        "Connection: close",
        f"Host: localhost:{server.port}",
    ]


def test_keys_are_fetched_from_a_public_host(server, names, connected):
    names.answers = [[PUBLIC]]
    assert fetch_keys(f"https://{HOST}/a/b?c=d", private=False)[0].as_dict() == JWKS
    assert connected == [PUBLIC]
    asked = server.asked[0].split("\r\n")
    assert asked[0] == "GET /a/b?c=d HTTP/1.1"
    assert f"Host: {HOST}" in asked


def test_keys_are_fetched_over_http_where_that_is_allowed(plain):
    assert unfetched(plain.url, private=False) == "not an https:// address"
    assert plain.asked == []
    # A user name in the URL is not sent.
    keys, _ = fetch_keys(f"http://user:secret@localhost:{plain.port}", private=True)
    assert keys.as_dict() == JWKS
    asked = plain.asked[0].split("\r\n")
    assert asked[0] == "GET / HTTP/1.1"
    assert f"Host: localhost:{plain.port}" in asked
    assert "Authorization" not in plain.asked[0]


def test_answer_may_be_chunked_and_as_long_as_the_limit(plain):
    parts = (BODY[:100], BODY[100:])
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    plain.answer = head + chunks + b"0\r\n\r\n"
    assert fetch_keys(plain.url, private=True)[0].as_dict() == JWKS
    rest = MOST_BYTES - len(ok(BODY + b" " * 50_000)) + 50_000
    plain.answer = ok(BODY + b" " * rest)
    assert len(plain.answer) == MOST_BYTES
    assert fetch_keys(plain.url, private=True)[0].as_dict() == JWKS
    plain.answer = ok(BODY + b" " * (rest + 1))
    assert unfetched(plain.url) == f"more than {MOST_BYTES} bytes"


def test_answer_without_a_key_set_is_refused(plain):
    http = b"HTTP/1.1 200 OK\r\n"
    chunked = http + b"Transfer-Encoding: chunked\r\n\r\n"
    for answer, reason in (
        (ok(b"<html>The secret of the host</html>"), "JSONDecodeError"),
        (ok(b""), "JSONDecodeError"),
        (ok(BODY[:-1]), "JSONDecodeError"),
        (ok(b"\xff" + BODY), "UnicodeDecodeError"),
        (ok(b"[" * 60_000), "ValueError"),
        (ok(gzip.compress(BODY), "Content-Encoding: gzip"), "UnicodeDecodeError"),
        *((ok(content), "Not a JSON Web Key Set") for content in ([], {"keys": []}, {"keys": {}})),
        *(
            (reply(status, BODY), f"status {status[:3]}")
            for status in ("204 No", "203 Other", "404 Not Found", "500 Error")
        ),
        (b"", "Remote end closed connection without response"),
        (b"SSH-2.0-OpenSSH_9.2p1 secret\r\n", "BadStatusLine"),
        (http + b"A: b\r\n" * 200, "HTTPException"),
        (http + b"A: " + b"b" * 2 * MOST_BYTES, f"more than {MOST_BYTES} bytes"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 9000, f"more than {MOST_BYTES} bytes"),
        (ok(BODY + b" " * MOST_BYTES), f"more than {MOST_BYTES} bytes"),
        (http + b"\r\n" + b" " * 2 * MOST_BYTES, f"more than {MOST_BYTES} bytes"),
        (http + b"Content-Length: 99999999999999\r\n\r\n{", "JSONDecodeError"),
        (chunked + b"-5\r\n", "ValueError"),
        (chunked + b"zz\r\n", "IncompleteRead"),
    ):
        plain.answer = answer
        message = unfetched(plain.url)
        assert message.startswith(reason), (answer[:60], message)
        assert "secret" not in message


def test_no_redirect_is_followed(plain):
    for number, status in enumerate(("301", "302", "303", "307", "308"), 1):
        plain.answer = reply(f"{status} Moved", BODY, f"Location: {plain.url}?again")
        assert unfetched(plain.url) == f"status {status}"
        assert len(plain.asked) == number


def test_url_that_is_malformed_or_not_http_is_refused():
    for uri in (
        *("", "localhost", "//localhost/", "https://", "https:///jwks.json", "https://[::1"),
        *("ftp://localhost/", "file:///etc/passwd", "gopher://localhost/", "data:,{}"),
        *("https://localhost:99999/", "https://localhost:port/", "http://localhost:0x50/"),
        *("http://local\x00host/", "http://local host/", "http://\u00e4\u0000/", "http://.../"),
        *("http://127.0.0.1:1/\r\nX: y", "http://127.0.0.1:1/ HTTP/1.1", "http://127.0.0.1:1/ä"),
        "http://" + "a" * 64 + ".example/",
    ):
        assert unfetched(uri), uri


def test_max_age_of_an_answer_is_read_from_cache_control(plain):
    for header, max_age in {
        "max-age=60": 60,
        "public, Max-Age=60, must-revalidate": 60,
        "public\r\nCache-Control: max-age=60": 60,
        "no-store": 0,
        "no-cache, max-age=60": 0,
        **dict.fromkeys(("max-age=soon", "max-age", "9" * 5000, "max-age=" + "9" * 5000)),
    }.items():
        plain.answer = ok(JWKS, f"Cache-Control: {header}")
        assert fetch_keys(plain.url, private=True)[1] == max_age, header[:60]


def _timed(fetch: Callable[[], str], seconds: float = SHORT) -> str:
    """Return the reason of a fetch that must end in time."""
    started = time.monotonic()
    reason = fetch()
    assert time.monotonic() - started < seconds + LATE
    return reason


def test_slow_or_silent_server_is_left_in_time(server):
    http = b"HTTP/1.1 200 OK\r\n"
    chunked = http + b"Transfer-Encoding: chunked\r\n\r\n"
    for answer, drip in (
        (b"", b"H"),
        (http, b"A: b\r\n"),
        (http + b"A: ", b"b"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (http + b"Content-Length: 9999\r\n\r\n{", b" "),
        (chunked, b"1\r\n \r\n"),
        (chunked, b"0"),
    ):
        server.answer, server.drip = answer, drip
        assert "timed out" in _timed(lambda: unfetched(server.url, seconds=SHORT))
    server.hold()
    assert "timed out" in _timed(lambda: unfetched(server.url, seconds=SHORT))


def test_server_that_never_begins_with_tls_is_left_in_time(trusted):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        assert "timed out" in _timed(lambda: unfetched(uri, seconds=SHORT))


def test_slow_resolver_is_left_in_time(monkeypatch):
    over = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_of, **_options: over.wait() and [])
    assert _timed(lambda: unfetched(f"https://{HOST}/", seconds=SHORT)) == "TimeoutError"
    over.set()


def test_next_address_is_tried_where_one_does_not_answer(server, names):
    with socket.socket() as closed:
        closed.bind(("127.0.0.2", server.port))
        names.answers = [["127.0.0.2", "127.0.0.1"]]
        uri = f"https://{HOST}:{server.port}/"
        assert fetch_keys(uri, private=True)[0].as_dict() == JWKS


PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("0.0.0.0", "0.1.2.3", "100.64.0.1", "100.127.255.255", "169.254.169.254", "192.0.0.8"),
    *("192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1"),
    *("239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
    *("::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe"),
    *("64:ff9b:1::1", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:0:4136:e378::1"),
    *("2001:2::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::1", "2002:808:808::1", "3fff::1"),
    *("5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1"),
]


def test_addresses_that_are_public_and_that_are_not():
    public = [
        *("8.8.8.8", PUBLIC, "172.32.0.1", "100.128.0.1", "192.0.1.1"),
        *("2606:4700:4700::1111", "2a00:1450:4001::200e", "64:ff9b::8.8.8.8"),
    ]
    assert [address for address in [*public, *PRIVATE] if is_public(address)] == public


NOT_PUBLIC = "FHIRAPP_FETCH_PRIVATE"


def test_host_with_an_address_that_is_not_public_is_not_asked(server, names, connected):
    for addresses in (
        *(["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:127.0.0.1"]),
        *(["64:ff9b::7f00:1"], ["2002:7f00:1::1"], [PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC]),
    ):
        names.answers = [addresses]
        assert NOT_PUBLIC in unfetched(f"https://{HOST}:{server.port}/", private=False)
        assert connected == []


def test_this_machine_is_not_asked_however_it_is_written(server, connected):
    for host in (
        *("localhost", "LOCALHOST", "127.0.0.1", "127.1", "0x7f.1", "2130706433"),
        *("0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]"),
        *("user@127.0.0.1", "8.8.8.8@127.0.0.1", "[64:ff9b::127.0.0.1]"),
    ):
        assert NOT_PUBLIC in unfetched(f"https://{host}:{server.port}/", private=False), host
        assert connected == []


def test_host_is_resolved_once_so_that_it_cannot_change(server, names, connected):
    names.answers = [[PUBLIC], ["127.0.0.1"]]
    assert fetch_keys(f"https://{HOST}:{server.port}/", private=False)[0].as_dict() == JWKS
    assert names.asked == 1
    assert connected == [PUBLIC]
    assert NOT_PUBLIC in unfetched(f"https://{HOST}:{server.port}/", private=False)


def test_proxy_settings_of_the_environment_are_ignored(server, plain, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://localhost:{plain.port}")
    fetch_keys(server.url, private=True)
    assert len(server.asked) == 1
    assert plain.asked == []


def test_certificate_must_be_valid_for_the_host_and_of_a_trusted_authority(
    server, authority, names, tmp_path, monkeypatch
):
    day = timedelta(days=1)
    names.answers = [["127.0.0.1"]]
    for certified, lives, reason in (
        (["other.example"], day, "Hostname mismatch"),
        # Not of the address alone.
        (["127.0.0.1", "localhost"], day, "Hostname mismatch"),
        ([HOST], -day, "certificate has expired"),
    ):
        with running(authority.context(*certified, lives=lives)) as other:
            other.answer = ok(JWKS)
            assert reason in unfetched(f"https://{HOST}:{other.port}/")
            assert other.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path).file))
    assert "certificate verify failed" in unfetched(f"https://{HOST}:{server.port}/")
    assert server.asked == []
