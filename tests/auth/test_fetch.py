"""Fetching a client's keys: what is taken, from where, and within which bounds."""

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

from fhirapp.auth.clients.key_sets import MOST_BYTES, Unfetched, fetch_keys, is_public
from tests.support.key_server import Authority, KeyServer, ok, reply, running

HOST = "keys.clinic.example"
# An address of the open internet, behind which some tests put their own server.
PUBLIC = "93.184.215.14"
# So long a test waits for what must time out, and how much later it may.
SHORT, LATE = 0.3, 1.0

RSA = RSAKey.generate_key(2048, {"kid": "rsa"}).as_dict(private=False)
EC = ECKey.generate_key("P-384", {"kid": "ec"}).as_dict(private=False)
JWKS = {"keys": [RSA, EC]}
BODY = json.dumps(JWKS).encode()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests' authority be the only one that is trusted."""
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
        return [one for text in addresses for one in _getaddrinfo(text, port, **options)]


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
    with pytest.raises(Unfetched) as raised:
        fetch_keys(uri, private=private, seconds=seconds)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return str(raised.value)


def test_keys_come_over_https(server):
    fetched = fetch_keys(server.url, private=True)
    assert fetched.keys.as_dict(private=False) == JWKS
    assert fetched.max_age is None
    (asked,) = server.asked
    first, *headers = asked.rstrip().split("\r\n")
    assert first == "GET /jwks.json HTTP/1.1"
    assert sorted(headers) == [
        "Accept-Encoding: identity",
        "Accept: application/json",
        "Connection: close",
        f"Host: localhost:{server.port}",
    ]


def test_keys_come_from_the_open_internet(server, names, connected):
    names.answers = [[PUBLIC]]
    assert fetch_keys(f"https://{HOST}/a/b?c=d", private=False).keys.as_dict() == JWKS
    assert connected == [PUBLIC]
    asked = server.asked[0].split("\r\n")
    assert asked[0] == "GET /a/b?c=d HTTP/1.1"
    assert f"Host: {HOST}" in asked


def test_keys_come_over_http_where_that_is_allowed(plain):
    assert fetch_keys(plain.url, private=True).keys.as_dict() == JWKS
    assert unfetched(plain.url, private=False) == "not an https:// address"
    assert len(plain.asked) == 1


def test_a_user_in_the_address_is_not_sent(plain):
    fetch_keys(f"http://user:secret@localhost:{plain.port}", private=True)
    asked = plain.asked[0].split("\r\n")
    assert asked[0] == "GET / HTTP/1.1"
    assert f"Host: localhost:{plain.port}" in asked
    assert "Authorization" not in plain.asked[0]


def test_an_answer_may_be_chunked_and_as_long_as_the_bound(plain):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in (BODY[:100], BODY[100:]))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    plain.answer = head + chunks + b"0\r\n\r\n"
    assert fetch_keys(plain.url, private=True).keys.as_dict() == JWKS
    rest = MOST_BYTES - len(ok(BODY + b" " * 50_000)) + 50_000
    plain.answer = ok(BODY + b" " * rest)
    assert len(plain.answer) == MOST_BYTES
    assert fetch_keys(plain.url, private=True).keys.as_dict() == JWKS
    plain.answer = ok(BODY + b" " * (rest + 1))
    assert unfetched(plain.url) == f"more than {MOST_BYTES} bytes"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (ok(b"<html>The secret of the host</html>"), "JSONDecodeError"),
        (ok(b""), "JSONDecodeError"),
        (ok(BODY[:-1]), "JSONDecodeError"),
        (ok(b"\xff" + BODY), "UnicodeDecodeError"),
        (ok(b"[" * 60_000), "ValueError"),
        (ok(gzip.compress(BODY), "Content-Encoding: gzip"), "UnicodeDecodeError"),
        (ok([]), "Not a JSON Web Key Set: it must be an object with a list of keys."),
        (ok({"keys": []}), "Not a JSON Web Key Set: it must be an object with a list of keys."),
        (ok({"keys": {}}), "Not a JSON Web Key Set: it must be an object with a list of keys."),
        (reply("204 No Content"), "status 204"),
        (reply("203 Non-Authoritative Information", BODY), "status 203"),
        (reply("404 Not Found", BODY), "status 404"),
        (reply("500 Internal Server Error", BODY), "status 500"),
        (b"", "Remote end closed connection without response"),
        (b"SSH-2.0-OpenSSH_9.2p1 secret\r\n", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200, "HTTPException"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 2 * MOST_BYTES, f"more than {MOST_BYTES} bytes"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 9000, f"more than {MOST_BYTES} bytes"),
        (ok(BODY + b" " * MOST_BYTES), f"more than {MOST_BYTES} bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2 * MOST_BYTES, f"more than {MOST_BYTES} bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{", "JSONDecodeError"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", "ValueError"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "IncompleteRead"),
    ],
)
def test_what_is_no_key_set_in_a_200_is_not_taken(plain, said, reason):
    plain.answer = said
    assert unfetched(plain.url) == reason


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Same", "308 Same"])
def test_no_redirect_is_followed(plain, status):
    plain.answer = reply(status, BODY, f"Location: {plain.url}?again")
    assert unfetched(plain.url) == f"status {status[:3]}"
    assert len(plain.asked) == 1


@pytest.mark.parametrize(
    "uri",
    [
        *("", "localhost", "//localhost/", "https://", "https:///jwks.json", "https://[::1"),
        *("ftp://localhost/", "file:///etc/passwd", "gopher://localhost/", "data:,{}"),
        *("https://localhost:99999/", "https://localhost:port/", "http://localhost:0x50/"),
        *("http://local\x00host/", "http://local host/", "http://\u00e4\u0000/", "http://.../"),
        *("http://127.0.0.1:1/\r\nX: y", "http://127.0.0.1:1/ HTTP/1.1", "http://127.0.0.1:1/ä"),
        "http://" + "a" * 64 + ".example/",
    ],
)
def test_what_is_no_address_of_the_web_is_refused(uri):
    assert unfetched(uri)


@pytest.mark.parametrize(
    ("said", "max_age"),
    [
        ((), None),
        (("Cache-Control: max-age=60",), 60),
        (("Cache-Control: public, Max-Age=60, must-revalidate",), 60),
        (("Cache-Control: public", "Cache-Control: max-age=60"), 60),
        (("Cache-Control: no-store",), 0),
        (("Cache-Control: no-cache, max-age=60",), 0),
        (("Cache-Control: max-age=soon",), None),
        (("Cache-Control: max-age",), None),
        (("Cache-Control: " + "9" * 5000,), None),
        (("Cache-Control: max-age=" + "9" * 5000,), None),
    ],
)
def test_how_long_a_server_lets_its_keys_be_kept(plain, said, max_age):
    plain.answer = ok(JWKS, *said)
    assert fetch_keys(plain.url, private=True).max_age == max_age


def _timed(fetch: Callable[[], str], seconds: float = SHORT) -> str:
    started = time.monotonic()
    reason = fetch()
    assert time.monotonic() - started < seconds + LATE
    return reason


@pytest.mark.parametrize(
    ("said", "drip"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: ", b"b"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    ],
)
def test_a_server_that_drips_is_left_in_time(server, said, drip):
    server.answer, server.drip = said, drip
    assert "timed out" in _timed(lambda: unfetched(server.url, seconds=SHORT))


def test_a_server_that_says_nothing_is_left_in_time(server):
    server.hold()
    assert "timed out" in _timed(lambda: unfetched(server.url, seconds=SHORT))


def test_a_server_that_never_begins_with_tls_is_left_in_time(trusted):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        assert "timed out" in _timed(lambda: unfetched(uri, seconds=SHORT))


def test_the_time_for_tls_is_what_the_connection_left(server, monkeypatch):
    def connect(sock: socket.socket, address: Any) -> None:
        server.over.wait(1.4)
        _connect(sock, ("127.0.0.1", silent.getsockname()[1]))

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(socket.socket, "connect", connect)
        reason = _timed(lambda: unfetched("https://127.0.0.1/", seconds=1.5), seconds=1.5)
    assert "timed out" in reason


def test_a_resolver_that_is_slow_is_left_in_time(monkeypatch):
    over = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_of, **_options: over.wait() and [])
    assert _timed(lambda: unfetched(f"https://{HOST}/", seconds=SHORT)) == "TimeoutError"
    over.set()


def test_the_next_address_is_tried_where_one_does_not_answer(server, names):
    with socket.socket() as closed:
        closed.bind(("127.0.0.2", server.port))
        names.answers = [["127.0.0.2", "127.0.0.1"]]
        uri = f"https://{HOST}:{server.port}/"
        assert fetch_keys(uri, private=True).keys.as_dict() == JWKS


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


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("8.8.8.8", PUBLIC, "172.32.0.1", "100.128.0.1", "192.0.1.1"),
        *("2606:4700:4700::1111", "2a00:1450:4001::200e", "64:ff9b::8.8.8.8"),
    ],
)
def test_an_address_of_the_open_internet(address):
    assert is_public(address)


NOT_PUBLIC = "an address that is not public, which FHIRAPP_FETCH_PRIVATE=1 would allow"


@pytest.mark.parametrize(
    "addresses",
    [
        *(["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:127.0.0.1"]),
        *(["64:ff9b::7f00:1"], ["2002:7f00:1::1"], [PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC]),
    ],
)
def test_a_host_with_an_address_that_is_not_public_is_not_asked(
    server, names, connected, addresses
):
    names.answers = [addresses]
    assert unfetched(f"https://{HOST}:{server.port}/", private=False) == NOT_PUBLIC
    assert connected == []


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST", "127.0.0.1", "127.1", "0x7f.1", "2130706433"),
        *("0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]"),
        *("user@127.0.0.1", "8.8.8.8@127.0.0.1", "[64:ff9b::127.0.0.1]"),
    ],
)
def test_this_machine_is_not_asked_however_it_is_written(server, connected, host):
    assert unfetched(f"https://{host}:{server.port}/", private=False) == NOT_PUBLIC
    assert connected == []


def test_a_name_is_looked_up_once_so_that_it_cannot_change_its_mind(server, names, connected):
    names.answers = [[PUBLIC], ["127.0.0.1"]]
    assert fetch_keys(f"https://{HOST}:{server.port}/", private=False).keys.as_dict() == JWKS
    assert names.asked == 1
    assert connected == [PUBLIC]
    assert unfetched(f"https://{HOST}:{server.port}/", private=False) == NOT_PUBLIC


def test_no_proxy_of_the_environment_is_asked(server, plain, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://localhost:{plain.port}")
    fetch_keys(server.url, private=True)
    assert len(server.asked) == 1
    assert plain.asked == []


@pytest.mark.parametrize(
    ("named", "lives", "reason"),
    [
        ("other.example", timedelta(days=1), "Hostname mismatch"),
        ("localhost", timedelta(days=-1), "certificate has expired"),
    ],
)
def test_a_certificate_of_another_host_or_time_is_refused(authority, trusted, named, lives, reason):
    with running(authority.context(named, lives=lives)) as server:
        server.answer = ok(JWKS)
        assert reason in unfetched(server.url)
        assert server.asked == []


def test_a_certificate_of_an_unknown_authority_is_refused(server, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path).file))
    assert "certificate verify failed" in unfetched(server.url)
    assert server.asked == []


def test_the_certificate_must_be_of_the_host_and_not_of_its_address(authority, trusted, names):
    names.answers = [["127.0.0.1"]]
    with running(authority.context("127.0.0.1", "localhost")) as server:
        assert "Hostname mismatch" in unfetched(f"https://{HOST}:{server.port}/")
