"""Load: keep-alive connections that each ask again as soon as they are answered.

Every answer's status and length is checked. For requests per second `wrk` is used where it is
installed: it takes less of the processor from the server beside it.
"""

from __future__ import annotations

import json
import re
import selectors
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

from tests.bench.servers import request_headers

_CHUNK = 1 << 18
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.I)


class WrongAnswer(Exception):
    """A measured request was not answered as it should be."""


class Load:
    """Open connections to a server, asking for paths in turn; lengths are the bodies'."""

    def __init__(self, port: int, token: str, lengths: Mapping[str, int], connections: int) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in request_headers(token).items())
        requests = [
            (f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{head}\r\n".encode(), length)
            for path, length in lengths.items()
        ]
        self._requests = cycle(requests)
        self._selector = selectors.DefaultSelector()
        self._connections = [_Connection(port) for _ in range(connections)]
        for connection in self._connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def run(self, count: int) -> None:
        """Ask so many requests."""
        self._drive(lambda sent: sent < count)

    def rate(self, seconds: float) -> float:
        """Ask for so long; return the answers per second."""
        start = time.perf_counter()
        answered = self._drive(lambda _sent: time.perf_counter() - start < seconds)
        return answered / (time.perf_counter() - start)

    def close(self) -> None:
        self._selector.close()
        for connection in self._connections:
            connection.socket.close()

    def _drive(self, more: Callable[[int], bool]) -> int:
        sent = answered = 0
        for connection in self._connections:
            if more(sent):
                connection.send(self._requests)
                sent += 1
        while answered < sent:
            for key, _ in self._selector.select(60):
                connection = key.data
                if connection.receive():
                    answered += 1
                    if more(sent):
                        connection.send(self._requests)
                        sent += 1
        return answered


class _Connection:
    """A connection with at most one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = b""
        self._expected = 0
        self._missing = 0

    def send(self, requests: Iterator[tuple[bytes, int]]) -> None:
        request, self._expected = next(requests)
        self._head, self._missing = b"", -1
        self.socket.sendall(request)

    def receive(self) -> bool:
        """Take what has come; say whether the answer is whole. Raises WrongAnswer."""
        chunk = self.socket.recv(_CHUNK)
        if not chunk:
            raise WrongAnswer("the server closed the connection")
        if self._missing >= 0:
            self._missing -= len(chunk)
        else:
            self._head += chunk
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return False
            self._check(self._head[:end])
            self._missing = end + 4 + self._expected - len(self._head)
        return self._missing == 0

    def _check(self, head: bytes) -> None:
        length = _LENGTH.search(head)
        if not head.startswith(b"HTTP/1.1 200 ") or not length or int(length[1]) != self._expected:
            raise WrongAnswer(f"expected 200 and {self._expected} bytes: {head.decode()}")


def throughput_tool(seconds: float) -> str:
    """Return what measures requests per second; wrk counts in whole seconds."""
    return "wrk" if shutil.which("wrk") and seconds >= 1 else "own generator"


def throughput(
    port: int,
    token: str,
    lengths: Mapping[str, int],
    *,
    connections: int,
    seconds: float,
    folder: Path,
) -> float:
    """Return the requests per second that a server answers on so many connections."""
    if throughput_tool(seconds) == "wrk":
        return _wrk(port, token, list(lengths), connections, int(seconds), folder)
    load = Load(port, token, lengths, connections)
    try:
        return load.rate(seconds)
    finally:
        load.close()


def _wrk(
    port: int, token: str, paths: Sequence[str], connections: int, seconds: int, folder: Path
) -> float:
    script = folder / "paths.lua"
    script.write_text(
        f"local paths = {{{', '.join(map(json.dumps, paths))}}}\n"
        "local place = 0\n"
        "function request()\n"
        "  place = place % #paths + 1\n"
        '  return wrk.format("GET", paths[place])\n'
        "end\n"
    )
    headers = [word for pair in request_headers(token).items() for word in ("-H", ": ".join(pair))]
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), *headers]
    done = subprocess.run(
        [*words, f"http://127.0.0.1:{port}"], check=True, capture_output=True, text=True
    )
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if rate is None or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise WrongAnswer(done.stdout)
    return float(rate[1])
