"""Fetch the key set at a client's address (jwks_uri).

A client names the address, so a fetch connects only to public addresses, to the one that was
checked, within one deadline and size limit, and follows no redirect.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import Future
from http.client import HTTPConnection, HTTPException
from io import BufferedReader, RawIOBase
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from joserfc.jwk import KeySet
from werkzeug.datastructures import ResponseCacheControl
from werkzeug.http import parse_cache_control_header

from fhirapp.auth.clients.public_keys import public_keys
from fhirapp.config import RefusedCommand
from fhirapp.fhir import json as fhir_json

# For all of it: the name, the connection, TLS, and the last byte.
SECONDS = 5.0
# Of the whole answer, its header too.
MOST_BYTES = 64 * 1024
# Addresses of one host that are tried, each for its share of the time.
_MOST_TRIES = 4

_GLOBAL_UNICAST = IPv6Network("2000::/3")
# RFC 6052: its last four bytes are an IPv4 address.
_NAT64 = IPv6Network("64:ff9b::/96")
# ipaddress of one Python or another calls them global, though no server is there, or an IPv4
# address hides in them.
_NO_SERVERS = (
    ip_network("192.0.0.0/24"),  # protocols' own
    ip_network("192.88.99.0/24"),  # relays of 6to4
    ip_network("224.0.0.0/4"),  # multicast
    ip_network("2001::/23"),  # protocols' own, Teredo
    ip_network("2002::/16"),  # 6to4
    ip_network("3fff::/20"),  # examples
)


# As socket.getaddrinfo() has it: family, kind, protocol, name, and the address to connect to.
_Address = tuple[int, int, int, str, Any]


class KeySetUnavailable(Exception):
    """No key set came from an address; str() says why, to the log and not to the client."""


def is_public(address: str) -> bool:
    """Say whether an IP address is one of the open internet. RFC 6890."""
    ip = ip_address(address)
    if ip in _NAT64:
        ip = IPv4Address(ip.packed[-4:])
    if isinstance(ip, IPv6Address) and ip not in _GLOBAL_UNICAST:
        return False
    return ip.is_global and not any(ip in network for network in _NO_SERVERS)


def fetch_keys(uri: str, *, private: bool, seconds: float = SECONDS) -> tuple[KeySet, int | None]:
    """Return the key set at an address, and the max-age of its Cache-Control, None without.

    private allows http, and addresses that are not public. Raises KeySetUnavailable, after so many
    seconds at the latest.
    """
    try:
        body, cache_control = _get(uri, private, time.monotonic() + seconds)
        keys: Any = public_keys(fhir_json.loads(body))
    except (OSError, RefusedCommand) as error:
        raise KeySetUnavailable(str(error) or type(error).__name__) from None
    except (HTTPException, ValueError) as error:
        # Not its words: they may be what the server sent.
        raise KeySetUnavailable(type(error).__name__) from None
    directives = parse_cache_control_header((cache_control or "").lower(), cls=ResponseCacheControl)
    max_age = 0 if directives.no_store or directives.no_cache else directives.max_age
    return KeySet.import_key_set(keys), max_age


def _get(uri: str, private: bool, deadline: float) -> tuple[bytes, str | None]:
    """Return the body of a 200, and its Cache-Control."""
    parts = urlsplit(uri)
    host, is_secure = parts.hostname, parts.scheme == "https"
    if not host or not (is_secure or (private and parts.scheme == "http")):
        raise KeySetUnavailable("not an https:// address")
    port = parts.port or (443 if is_secure else 80)
    addresses = _look_up(host, port, deadline)
    if not private and not all(is_public(address[0]) for *_, address in addresses):
        raise KeySetUnavailable(
            "an address that is not public, which FHIRAPP_FETCH_PRIVATE=1 would allow"
        )
    with _connect(addresses, deadline) as plain, _secured(plain, is_secure, host, deadline) as line:
        connection = HTTPConnection(host, port)
        connection.sock = _Line(line, deadline)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {
            "Host": parts.netloc.rpartition("@")[2],
            "Accept": "application/json",
            "Connection": "close",
        }
        connection.request("GET", target, headers=headers)
        with connection.getresponse() as response:
            if response.status != 200:
                raise KeySetUnavailable(f"status {response.status}")
            # Not read(): it would make room for whatever length the server announces.
            return response.read(MOST_BYTES), response.getheader("Cache-Control")


def _look_up(host: str, port: int, deadline: float) -> Sequence[_Address]:
    answer: Future[Sequence[_Address]] = Future()

    def ask() -> None:
        try:
            answer.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:
            answer.set_exception(error)

    # The resolver knows no bound: this thread is left to it.
    Thread(target=ask, daemon=True).start()
    return answer.result(timeout=_left(deadline))


def _connect(addresses: Sequence[_Address], deadline: float) -> socket.socket:
    tried = addresses[:_MOST_TRIES]
    failure = OSError("the host has no address")
    for number, (family, kind, protocol, _, address) in enumerate(tried):
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(_left(deadline) / (len(tried) - number))
            plain.connect(address)
        except OSError as error:
            plain.close()
            failure = error
        else:
            return plain
    raise failure


def _secured(plain: socket.socket, is_secure: bool, host: str, deadline: float) -> socket.socket:
    """Return the socket with TLS, its certificate checked for the host."""
    if not is_secure:
        return plain
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    plain.settimeout(_left(deadline))
    return context.wrap_socket(plain, server_hostname=host)


def _left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


class _Line:
    """A socket as http.client uses one, with the bounds of a fetch."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def sendall(self, content: bytes) -> None:
        self._sock.settimeout(_left(self._deadline))
        self._sock.sendall(content)

    def makefile(self, _mode: str) -> BufferedReader:
        return BufferedReader(_Received(self._sock, self._deadline))

    def close(self) -> None:
        """Do nothing: http.client closes it before the answer is read."""


class _Received(RawIOBase):
    """What a socket receives, until the deadline and within MOST_BYTES."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._deadline))
        count = self._sock.recv_into(buffer)
        self._count += count
        if self._count > MOST_BYTES:
            raise KeySetUnavailable(f"more than {MOST_BYTES} bytes")
        return count
