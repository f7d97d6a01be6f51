"""The measured processes: our server, started as users start it, and the bare server."""

from __future__ import annotations

import http.client
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from tests import ROOT
from tests.bench.bare import Responses
from tests.bench.cpu import anonymous_megabytes, children, cpu_seconds

START_SECONDS = 300
_GREETING = re.compile(rb"serves .*http://127\.0\.0\.1:(\d+)/")
# Headers that waitress adds itself.
_WAITRESS_HEADERS = {"date", "server", "connection", "via"}


class Response(NamedTuple):
    """A response as it was received."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def environment(instance: Path, **settings: str) -> dict[str, str]:
    """Return the environment of our processes, with these settings and no others.

    Python may write bytecode, as it does for users; otherwise each start compiles all modules.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name[:8] != "FHIRAPP_" and name != "PYTHONDONTWRITEBYTECODE"
    }
    return inherited | {"FHIRAPP_INSTANCE_PATH": str(instance), **settings}


def command(*arguments: str) -> list[str]:
    """Return the command line of `fhirapp …` in this checkout."""
    return [sys.executable, "-c", "from fhirapp.cli import main; main()", *arguments]


class Server:
    """A server process, terminated on leaving the context."""

    def __init__(
        self, words: list[str], environ: Mapping[str, str], log: Path, checkout: Path = ROOT
    ) -> None:
        # The server chooses a free port and prints it.
        self.port = 0
        self.log = log
        self.started = time.perf_counter()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                words, cwd=checkout, env=environ, stdout=output, stderr=output
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)

    def wait_for(self, path: str, token: str = "") -> float:
        """Return the seconds from the start of the process to the first 200."""
        while True:
            response = self._send(path, token)
            passed = time.perf_counter() - self.started
            if response is not None and response.status == 200:
                return passed
            if self._process.poll() is not None or passed > START_SECONDS:
                raise SystemExit(f"A server did not start:\n{self.log.read_text()}")
            time.sleep(0.002)

    def _send(self, path: str, token: str) -> Response | None:
        """Send a request; return None if the server does not listen yet."""
        if not self.port:
            found = _GREETING.search(self.log.read_bytes())
            if found is None:
                return None
            self.port = int(found[1])
        return send(self.port, path, token)

    def workers(self) -> list[int]:
        """Return the PIDs of the serving processes: the children, if there are any."""
        return children(self._process.pid) or [self._process.pid]

    def cpu_seconds(self) -> float:
        """Return the CPU time of the serving processes."""
        return sum(map(cpu_seconds, self.workers()))

    def private_megabytes(self) -> list[float]:
        """Return RssAnon of each serving process."""
        return [anonymous_megabytes(pid) for pid in self.workers()]


def ours(instance: Path, log: Path, checkout: Path = ROOT, **settings: str) -> Server:
    """Start our server as users do, from this checkout or another."""
    words = [sys.executable, "app.py", "--port", "0"]
    return Server(words, environment(instance, **settings), log, checkout)


def bare(responses: Responses, log: Path, cores: list[int]) -> Server:
    """Start the bare server with a process for each core."""
    path = log.with_suffix(".responses")
    path.write_bytes(pickle.dumps(dict(responses)))
    words = [sys.executable, "-m", "tests.bench.bare", str(path), *map(str, cores)]
    return Server(words, dict(os.environ), log)


def send(port: int, path: str, token: str = "", **more: str) -> Response:
    """Send a request. Raises OSError if nothing listens on the port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers=request_headers(token) | more)
        response = connection.getresponse()
        return Response(response.status, response.getheaders(), response.read())
    finally:
        connection.close()


def request_headers(token: str) -> dict[str, str]:
    """Return the headers of all measured requests."""
    headers = {"Accept": "application/fhir+json"}
    return headers | {"Authorization": f"Bearer {token}"} if token else headers


def record(
    server: Server, token: str, queries: Mapping[str, Iterable[str]], **headers: str
) -> Responses:
    """Return our server's responses to all these paths, for the bare server to repeat."""
    responses = {}
    for path in (path for paths in queries.values() for path in paths):
        response = send(server.port, path, token, **headers)
        if response.status != 200:
            raise SystemExit(f"{path}: {response.status} {response.body.decode()}")
        name, _, query = path.partition("?")
        kept = [pair for pair in response.headers if pair[0].lower() not in _WAITRESS_HEADERS]
        responses[name, query] = ("200 OK", kept, response.body)
    return responses


def issue_token(instance: Path, checkout: Path = ROOT, **settings: str) -> str:
    """Return a token that may read and search all records for a day."""
    words = command("token", "issue", "--scope", "system/*.rs", "--expires", "86400")
    environ = environment(instance, **settings)
    output = subprocess.check_output(words, cwd=checkout, env=environ, text=True)
    return output.strip()
