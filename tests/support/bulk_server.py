"""A FHIR server on this machine that exports whatever a test wants, broken in whatever way.

    server.answers["/fhir/$export"] = [accepted("/job"), …]   one by one, the last for ever
    server.asked                                              what came, in order

An answer is bytes, or a function of what was asked that returns them.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from typing import Any, NamedTuple

from fhirapp.features.pull.download import DownloadManifest, download
from fhirapp.features.pull.remote import Bounds, Clock
from tests.support.key_server import ok, reply

TIME = "2026-02-01T00:00:00Z"
EXPORT = "/fhir/$export"
# Small, so that what is refused is small too.
BOUNDS = Bounds(answer_bytes=4096, manifest_bytes=65_536, file_bytes=4 << 20, free_bytes=1 << 20)
IMPATIENT = replace(BOUNDS, seconds=0.1)


@dataclass
class Asked:
    """A request: its method, path with query, headers in lower case, body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def line(self) -> str:
        """What was asked, in a word or two."""
        return f"{self.method} {self.path}"


class Dripping(NamedTuple):
    """An answer that never ends: its beginning, and what comes each hundredth of a second."""

    first: bytes
    # None: nothing, and the connection stays.
    drip: bytes | None


Answer = bytes | Dripping | Callable[[Asked], bytes]


class BulkServer(ThreadingTCPServer):
    """Answers as it is told; a path that nobody told of is not found."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.context = context
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[Asked] = []
        # Set to let go of whoever waits here.
        self.over = Event()
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://localhost:{self.server_address[1]}"

    @property
    def lines(self) -> list[str]:
        """What was asked, in order."""
        return [one.line for one in self.asked]

    def answer(self, asked: Asked) -> Dripping:
        self.asked.append(asked)
        told = self.answers.get(asked.line) or self.answers.get(
            asked.path, [reply("404 Not Found")]
        )
        found = told.pop(0) if len(told) > 1 else told[0]
        if isinstance(found, Dripping):
            return found
        return Dripping(found if isinstance(found, bytes) else found(asked), b"")

    def offer(self, **files: Answer | list[Answer]) -> None:
        """Export files, by type, each fetched at /files/<type>; the export is there at once."""
        self.answers |= {EXPORT: [accepted("/job")], "/job": [self.manifest(*files)]}
        self.answers["DELETE /job"] = [reply("202 Accepted")]
        for name, told in files.items():
            self.answers[f"/files/{name}"] = told if isinstance(told, list) else [told]

    def manifest(self, *types: str, **more: Any) -> bytes:
        """Return the answer with a manifest of these files."""
        output = [{"type": name, "url": f"{self.url}/files/{name}"} for name in types]
        content = {"transactionTime": TIME, "request": self.url + EXPORT, "output": output}
        return ok({**content, "requiresAccessToken": True, **more})

    def handle_error(self, *_of: Any) -> None:
        """Say nothing: whoever fetches hangs up when it has seen enough."""


class _Handler(BaseRequestHandler):
    server: BulkServer

    def handle(self) -> None:
        line = self.request
        with suppress(OSError):
            if self.server.context is not None:
                line = self.server.context.wrap_socket(line, server_side=True)
            with line, line.makefile("rb") as lines:
                asked = _read(lines)
                first, drip = self.server.answer(asked)
                line.sendall(first)
                while drip != b"" and not self.server.over.wait(0.01):
                    line.sendall(drip or b"")


def _read(lines: Any) -> Asked:
    method, path, _ = lines.readline().decode().split(" ")
    headers: dict[str, str] = {}
    while header := lines.readline().decode().strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    return Asked(method, path, headers, lines.read(int(headers.get("content-length", 0))))


@contextmanager
def running(context: ssl.SSLContext | None = None) -> Iterator[BulkServer]:
    """Run a server, with TLS where there is a context."""
    with BulkServer(context) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


def accepted(job: str, *headers: str) -> bytes:
    """Return the answer to who begins an export."""
    return reply("202 Accepted", b"", f"Content-Location: {job}", *headers)


def exporting(*headers: str) -> bytes:
    """Return the answer to who asks too soon."""
    return reply("202 Accepted", b"", *headers)


def outcome(status: str, diagnostics: str, *headers: str, code: str = "exception") -> bytes:
    """Return an error as FHIR has it."""
    issue = {"severity": "error", "code": code, "diagnostics": diagnostics}
    body = json.dumps({"resourceType": "OperationOutcome", "issue": [issue]}).encode()
    return reply(status, body, "Content-Type: application/fhir+json", *headers)


def lines_of(name: str, count: int) -> bytes:
    """Return NDJSON of so many resources of a type."""
    made = ({"resourceType": name, "id": f"r{number}"} for number in range(count))
    return b"".join(json.dumps(one).encode() + b"\n" for one in made)


def file(content: bytes, *headers: str) -> bytes:
    """Return a file as an answer."""
    return reply("200 OK", content, "Content-Type: application/fhir+ndjson", *headers)


def cut(answer: bytes, count: int) -> bytes:
    """Return what comes of an answer whose connection is lost after so many bytes of its body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n" + body[:count]


@dataclass
class Client:
    """Downloads into a folder with a clock of its own; `said` and `waited` tell what happened."""

    folder: Path
    bounds: Bounds = BOUNDS
    said: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    now: float = field(default_factory=time.time)

    def download(self, address: str, credentials: Any = None) -> DownloadManifest:
        clock = Clock(lambda: self.now, self._wait)
        said = self.said.append
        return download(address, self.folder, credentials, said, bounds=self.bounds, clock=clock)

    def _wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds
