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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from tests.bench.servers import request_headers

_CHUNK = 1 << 18
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.I)


class Question(NamedTuple):
    """What is asked for, and the length of the body that answers it.

    With an etag, it is asked whether the answer is another one by now: it is not, so 304 comes.
    """

    path: str
    length: int
    etag: str = ""


class WrongAnswer(Exception):
    """A measured request was not answered as it should be."""


class Load:
    """Open connections to a server, asking the questions in turn."""

    def __init__(
        self, port: int, token: str, questions: Sequence[Question], connections: int
    ) -> None:
        self._requests = cycle([(_request(port, token, one), one) for one in questions])
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


class Waits(Load):
    """Requests at set times, whether those before are answered or not."""

    def at_rate(self, rate: float, seconds: float) -> list[float]:
        """Ask so many a second; return how long each waited for its answer, from when it was due.

        A request for which no connection is free is sent once one is: that is waiting too.
        """
        count = max(2, round(rate * seconds))
        idle, due_of = deque(self._connections), dict[_Connection, float]()
        waits: list[float] = []
        start = time.perf_counter()
        sent = 0
        while len(waits) < count:
            now = time.perf_counter()
            while sent < count and idle and (due := start + sent / rate) <= now:
                connection = idle.popleft()
                connection.send(self._requests)
                due_of[connection] = due
                sent += 1
            rest = start + sent / rate - now if idle and sent < count else 1.0
            for key, _ in self._selector.select(max(0.0, rest)):
                connection = key.data
                if connection.receive():
                    waits.append(time.perf_counter() - due_of[connection])
                    idle.append(connection)
        self.close()
        return waits


def _request(port: int, token: str, question: Question) -> bytes:
    headers = {"Host": f"127.0.0.1:{port}"} | request_headers(token)
    if question.etag:
        headers["If-None-Match"] = question.etag
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"GET {question.path} HTTP/1.1\r\n{head}\r\n".encode()


class _Connection:
    """A connection with at most one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = b""
        self._question = Question("", 0)
        self._missing = 0

    def send(self, requests: Iterator[tuple[bytes, Question]]) -> None:
        request, self._question = next(requests)
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
            length = 0 if self._question.etag else self._question.length
            self._missing = end + 4 + length - len(self._head)
        return self._missing == 0

    def _check(self, head: bytes) -> None:
        found = _LENGTH.search(head)
        length = int(found[1]) if found else -1
        if self._question.etag:
            right = head.startswith(b"HTTP/1.1 304 ")
        else:
            right = head.startswith(b"HTTP/1.1 200 ") and length == self._question.length
        if not right:
            raise WrongAnswer(f"{self._question} was answered with {head.decode()}")


def throughput_tool(seconds: float) -> str:
    """Return what measures requests per second; wrk counts in whole seconds."""
    return "wrk" if shutil.which("wrk") and seconds >= 1 else "own generator"


def throughput(
    port: int,
    token: str,
    questions: Sequence[Question],
    *,
    connections: int,
    seconds: float,
    folder: Path,
) -> float:
    """Return the requests per second that a server answers on so many connections."""
    if throughput_tool(seconds) == "wrk":
        return _wrk(port, token, [one.path for one in questions], connections, int(seconds), folder)
    load = Load(port, token, questions, connections)
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
