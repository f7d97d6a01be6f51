"""The processes that are measured: our server as users start it, and the bare one."""

from __future__ import annotations

import http.client
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests import ROOT
from tests.bench.bare import Answers

START_SECONDS = 300
_GREETING = re.compile(rb"serves .*http://127\.0\.0\.1:(\d+)/")
# What waitress writes itself, in our answers as in the bare ones.
WAITRESS_WRITES = {"date", "server", "connection", "via"}


class Answer(NamedTuple):
    """An answer as it came."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


def environment(instance: Path, **settings: str) -> dict[str, str]:
    """Return the environment of our own processes: these settings and no others.

    Python keeps what it compiled, as it does for users: else each start compiles it all anew.
    """
    outside = {
        name: value
        for name, value in os.environ.items()
        if name[:8] != "FHIRAPP_" and name != "PYTHONDONTWRITEBYTECODE"
    }
    return outside | {"FHIRAPP_INSTANCE_PATH": str(instance), **settings}


def command(*arguments: str) -> list[str]:
    """Return the command line of `fhirapp …`, of this checkout."""
    return [sys.executable, "-c", "from fhirapp.cli import main; main()", *arguments]


class Server:
    """A server's process, ended on leaving the context."""

    def __init__(
        self, words: list[str], environ: Mapping[str, str], log: Path, checkout: Path = ROOT
    ) -> None:
        # Once it is known: the server chooses one that is free, and says which.
        self.port = 0
        self.log = log
        self.started = time.perf_counter()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                words, cwd=checkout, env=environ, stdout=output, stderr=output
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(60)

    def first_answer(self, path: str, token: str = "") -> float:
        """Return the seconds from the start of the process to the first 200."""
        while True:
            answer = self._answer(path, token)
            passed = time.perf_counter() - self.started
            if answer is not None and answer.status == 200:
                return passed
            if self._process.poll() is not None or passed > START_SECONDS:
                raise SystemExit(f"A server did not start:\n{self.log.read_text()}")
            time.sleep(0.002)

    def _answer(self, path: str, token: str) -> Answer | None:
        """Ask for a path; return None where the server does not listen yet."""
        if not self.port:
            found = _GREETING.search(self.log.read_bytes())
            if found is None:
                return None
            self.port = int(found[1])
        return ask(self.port, path, token)

    def workers(self) -> list[int]:
        """Return the ids of the processes that serve: the children, where there are some."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children] or [pid]

    def cpu_seconds(self) -> float:
        """Return the processor time of all threads of the processes that serve."""
        return sum(map(cpu_seconds, self.workers()))

    def private_megabytes(self) -> list[float]:
        """Return RssAnon of each process that serves."""
        return [anonymous_megabytes(pid) for pid in self.workers()]


def ours(instance: Path, log: Path, checkout: Path = ROOT, **settings: str) -> Server:
    """Start our server as users do, of this checkout or another."""
    words = [sys.executable, "app.py", "--port", "0"]
    return Server(words, environment(instance, **settings), log, checkout)


def bare(answers: Answers, log: Path, cores: list[int]) -> Server:
    """Start the bare server, a process for each core."""
    path = log.with_suffix(".answers")
    path.write_bytes(pickle.dumps(dict(answers)))
    words = [sys.executable, "-m", "tests.bench.bare", str(path), *map(str, cores)]
    return Server(words, dict(os.environ), log)


def guarded(instance: Path, log: Path) -> Server:
    """Start our application with constant routes beside its own, in one process."""
    words = [sys.executable, "-m", "tests.bench.guarded"]
    return Server(words, environment(instance, FHIRAPP_PROCESSES="1"), log)


def ask(port: int, path: str, token: str = "") -> Answer:
    """Ask for one path. Raises OSError where nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers=request_headers(token))
        response = connection.getresponse()
        return Answer(response.status, response.reason, response.getheaders(), response.read())
    finally:
        connection.close()


def request_headers(token: str) -> dict[str, str]:
    """Return the headers that every measured request carries."""
    headers = {"Accept": "application/fhir+json"}
    return headers | {"Authorization": f"Bearer {token}"} if token else headers


def recorded(server: Server, token: str, asked: Mapping[str, list[str]]) -> Answers:
    """Return our server's answers to all these paths, for the bare one to repeat."""
    answers = {}
    for path in (path for paths in asked.values() for path in paths):
        answer = ask(server.port, path, token)
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {answer.body.decode()}")
        name, _, query = path.partition("?")
        headers = [pair for pair in answer.headers if pair[0].lower() not in WAITRESS_WRITES]
        answers[name, query] = (f"{answer.status} {answer.reason}", headers, answer.body)
    return answers


def issue_token(instance: Path, checkout: Path = ROOT) -> str:
    """Return a token that may read and search everything for a day."""
    words = command("token", "issue", "--scope", "system/*.rs", "--expires", "86400")
    done = subprocess.run(
        words, cwd=checkout, env=environment(instance), check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process."""
    # The clock that clock_getcpuclockid(3) names, in nanoseconds; stat counts in 10 ms.
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def anonymous_megabytes(pid: int) -> float:
    """Return RssAnon of a process, 0 where it has ended."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found[1]) / 1024 if found else 0.0
