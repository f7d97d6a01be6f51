"""The load generator: keep-alive connections, each with one request at a time.

The status and the length of every response are checked.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import NamedTuple, Self

from tests.bench.servers import request_headers

_CHUNK = 1 << 18
# Fewer would measure how connections are opened.
_PER_CONNECTION = 4
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.I)


class Request(NamedTuple):
    """A path, and the length of the body of its response.

    With an etag the request is conditional, and the response is 304.
    """

    path: str
    length: int
    etag: str = ""


class WrongResponse(Exception):
    """A measured request got another response than expected."""


class Load:
    """Open connections to a server, which send the requests in turn."""

    def __init__(
        self, port: int, token: str, requests: Sequence[Request], connections: int
    ) -> None:
        self._requests = cycle([(_head(port, token, request), request) for request in requests])
        self._selector = selectors.DefaultSelector()
        self._connections = [_Connection(port) for _ in range(connections)]
        for connection in self._connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for connection in self._connections:
            connection.socket.close()

    def run(self, count: int) -> None:
        """Send so many requests, and wait for the responses."""
        self._drive(lambda sent: sent < count)

    def rate(self, seconds: float) -> float:
        """Send requests for so long, and some on each connection; return responses per second."""
        start, least = time.perf_counter(), _PER_CONNECTION * len(self._connections)
        answered = self._drive(lambda sent: sent < least or time.perf_counter() - start < seconds)
        return answered / (time.perf_counter() - start)

    def _drive(self, more: Callable[[int], bool]) -> int:
        sent = answered = 0
        for connection in self._connections:
            if more(sent):
                connection.send(self._requests)
                sent += 1
        while answered < sent:
            for key, _ in self._selector.select(60):
                if key.data.receive():
                    answered += 1
                    if more(sent):
                        key.data.send(self._requests)
                        sent += 1
        return answered


def _head(port: int, token: str, request: Request) -> bytes:
    headers = {"Host": f"127.0.0.1:{port}"} | request_headers(token)
    if request.etag:
        headers["If-None-Match"] = request.etag
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"GET {request.path} HTTP/1.1\r\n{lines}\r\n".encode()


class _Connection:
    """A connection with at most one pending request."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = b""
        self._request = Request("", 0)
        self._missing = 0

    def send(self, requests: Iterator[tuple[bytes, Request]]) -> None:
        head, self._request = next(requests)
        self._head, self._missing = b"", -1
        self.socket.sendall(head)

    def receive(self) -> bool:
        """Read from the socket; return whether the response is complete. Raises WrongResponse."""
        chunk = self.socket.recv(_CHUNK)
        if not chunk:
            raise WrongResponse("the server closed the connection")
        if self._missing >= 0:
            self._missing -= len(chunk)
        else:
            self._head += chunk
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return False
            self._check(self._head[:end])
            length = 0 if self._request.etag else self._request.length
            self._missing = end + 4 + length - len(self._head)
        return self._missing == 0

    def _check(self, head: bytes) -> None:
        found = _LENGTH.search(head)
        length = int(found[1]) if found else -1
        if self._request.etag:
            is_expected = head.startswith(b"HTTP/1.1 304 ")
        else:
            is_expected = head.startswith(b"HTTP/1.1 200 ") and length == self._request.length
        if not is_expected:
            raise WrongResponse(f"response to {self._request}: {head.decode()}")
