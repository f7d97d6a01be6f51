"""`fhirapp serve` in a process of its own, and raw HTTP requests to it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.support.shell import ROOT, environment

# For what never happens: a server that hangs.
WAIT_SECONDS = 300


class Server:
    """A server that was started on a port of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)

    def ask(self, request: bytes) -> tuple[HTTPResponse, bytes]:
        """Send the bytes of a request and return the answer."""
        with self.connect() as connection:
            connection.sendall(request)
            return answer(connection)

    def children(self, without: int | None = None) -> list[int]:
        """Wait until both children are there, none of them this one, and return their ids."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while True:
            found = [int(pid) for pid in path.read_text().split()]
            if len(found) == 2 and without not in found:
                return found
            with pytest.raises(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def serving(self) -> list[int]:
        """Return the ids of the children, whatever they do."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal the parent and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)


def answer(connection: socket.socket) -> tuple[HTTPResponse, bytes]:
    """Read one answer."""
    response = HTTPResponse(connection)
    response.begin()
    return response, response.read()


def get(path: str, *headers: str) -> bytes:
    """Return the bytes of a GET that closes its connection."""
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


@contextmanager
def servers(folder: Path) -> Iterator[Callable[..., Server]]:
    """Return what starts a server and waits until it listens; all end with the context."""
    started: list[subprocess.Popen[str]] = []

    def run(*options: str, **settings: str) -> Server:
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-u", str(ROOT / "app.py"), "--port", "0", *options],
                env=environment(folder, **{"PROCESSES": "2", **settings}),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        started.append(process)
        return Server(process, listening_port(process, folder / "log"))

    try:
        yield run
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait(WAIT_SECONDS)
            assert process.stdout is not None
            process.stdout.close()


def listening_port(process: subprocess.Popen[str], log: Path) -> int:
    """Wait until a server says where it serves, and return the port."""
    greeting = "serves FHIR R4 at http://127.0.0.1:"
    while True:
        for line in log.read_text().splitlines():
            if greeting in line:
                return int(line.partition(greeting)[2].partition("/")[0])
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(log.read_text())
