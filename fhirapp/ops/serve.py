"""Serve with waitress, in processes forked over one listening socket, each pinned to a core.

A waitress process that may run on several cores collapses under many connections (at 64: 719
searches a second, pinned 3,038), so there is one for each core. A child that dies is replaced;
SIGTERM lets the requests in flight finish.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from types import FrameType
from typing import Any, NoReturn

from flask import Flask
from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask, WSGITask

from fhirapp.auth import keys
from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.disk import database_path
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import (
    BodyTooLong,
    FhirError,
    HeadersTooLong,
    InternalError,
    InvalidParameter,
)
from fhirapp.jobs.worker import running_jobs
from fhirapp.ops.lock import in_use
from fhirapp.ops.reset import start_timer
from fhirapp.rest.middleware import MAX_BODY, MAX_HEADERS
from fhirapp.rest.response import FHIR_JSON

_log = logging.getLogger(__name__)

# Less than the ten seconds after which container engines kill.
DRAIN_SECONDS = 8
_POLL_SECONDS = 0.5
# A child that dies sooner is not replaced at once, lest the machine does nothing else.
_SHORT_LIFE_SECONDS = 1.0

# So much is sent to one client before the others have their turn.
_TURN_BYTES = 1024 * 1024

_WAITRESS = {
    "connection_limit": 500,
    "channel_timeout": 30,
    "asyncore_use_poll": True,
    # Above our own limits, whose answers are OperationOutcomes; beyond, _Refusal answers.
    "max_request_body_size": 2 * MAX_BODY,
    "max_request_header_size": 2 * MAX_HEADERS,
    "ident": None,
}


def listen(settings: Settings) -> socket.socket:
    """Return the listening socket. Raises ConfigurationError where the port is in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {settings.host} port {settings.port} "
            f"({error.strerror or error}); is another server running there? Choose another with "
            "--port."
        ) from None
    listener.set_inheritable(True)
    return listener


def serve(app: Flask, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigurationError where a restore goes on."""
    settings = settings_of(app)
    cores = _cores()
    count = settings.processes or len(cores)
    # Held by each process, so that nothing is restored under one that outlives its parent.
    with in_use(database_path(settings)):
        # A restore may have ended since the app was made.
        keys.init_app(app)
        if count == 1 or not hasattr(os, "fork"):
            _pin(cores[0])
            run_one(app, listener)
        else:
            _Supervisor(app, listener, [cores[slot % len(cores)] for slot in range(count)]).run()


def run_one(
    app: Flask, listener: socket.socket, still_wanted: Callable[[], bool] = lambda: True
) -> None:
    """Serve in this process until a signal or the parent's end; then drain."""
    settings = settings_of(app)
    options: dict[str, Any] = {**_WAITRESS, "threads": settings.threads}
    if settings.trusted_proxy:
        options |= {
            "trusted_proxy": settings.trusted_proxy,
            "trusted_proxy_headers": {"x-forwarded-for"},
            "clear_untrusted_proxy_headers": True,
        }
    server = create_server(app, sockets=[listener], **options)
    server.channel_class = _Channel
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    start_timer(app)
    with running_jobs(app):
        while not stopping and still_wanted():
            _turn(server)
    _drain(server)


def _turn(server: Any) -> None:
    """Let waitress handle what has come, for at most half a second."""
    server.asyncore.loop(timeout=_POLL_SECONDS, map=server._map, use_poll=True, count=1)
    # Waitress closes what timed out when it can be written to, which a stalled client never can.
    for channel in list(server.active_channels.values()):
        if channel.will_close:
            channel.handle_close()


def _drain(server: Any) -> None:
    """Take no new connection; go on until every request that was begun is answered."""
    server.accepting = False
    server.del_channel()
    # So that whoever comes now is refused at once, and may try another server.
    server.socket.close()
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline and any(
        channel.requests or channel.request is not None or channel.total_outbufs_len
        for channel in list(server.active_channels.values())
    ):
        _turn(server)
    server.task_dispatcher.shutdown(cancel_pending=True, timeout=1)


class _Refusal(ErrorTask):  # type: ignore[misc]
    """Waitress's own refusals (431, 413, a request that is no HTTP) as OperationOutcomes.

    Of a form of the pages, which is read by a person, a sentence.
    """

    def execute(self) -> None:
        error = _REFUSALS.get(self.request.error.code) or InvalidParameter(
            "request", "is not HTTP that this server can read"
        )
        body, media = fhir_json.dumps_indented(error.outcome()), FHIR_JSON
        if error.status == 413 and not self.request.path.startswith(("/fhir", "/oauth")):
            body, media = _TOO_LARGE.encode(), "text/plain; charset=utf-8"
        self.status = f"{error.status} {HTTPStatus(error.status).phrase}"
        self.response_headers.append(("Content-Type", media))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


_TOO_LARGE = (
    "What you sent is larger than 1 MB, so nothing was done. Go back. To import larger files, allow"
    " JavaScript for this site; or copy them to the server, and there: fhirapp import FILES\n"
)
_REFUSALS: dict[int, FhirError] = {
    413: BodyTooLong(f"The body is longer than {MAX_BODY} bytes."),
    431: HeadersTooLong(f"The headers are longer than {MAX_HEADERS} bytes."),
    500: InternalError("Something went wrong here."),
}


class _Answer(WSGITask):  # type: ignore[misc]
    """An answer that leaves the connection open where waitress closes it, and the other way."""

    def set_close_on_finish(self) -> None:
        """Close, but not because there is no body: each 304 would cost a new connection."""
        wanted = self.request.headers.get("CONNECTION", "").lower()
        if self.has_body or self.version != "1.1" or wanted == "close":
            super().set_close_on_finish()

    def build_response_header(self) -> bytes:
        """Close after a body that is larger than what is buffered.

        Else a client that sends its next requests at once, and reads nothing, holds the thread.
        """
        is_large = (self.content_length or 0) > self.channel.adj.outbuf_high_watermark
        if is_large and self.request.command != "HEAD":
            self.set_close_on_finish()
        header: bytes = super().build_response_header()
        return header


class _Channel(HTTPChannel):  # type: ignore[misc]
    task_class = _Answer
    error_task_class = _Refusal
    # In bytes, what may still be sent before others have their turn.
    _allowance = _TURN_BYTES

    def handle_write(self) -> None:
        self._allowance = _TURN_BYTES
        super().handle_write()

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Send, but let others in: a client that takes all at once would be served alone."""
        if self._allowance <= 0:
            return 0
        sent: int = super().send(data, do_close)
        self._allowance -= sent
        return sent


class _Supervisor:
    """The parent process: it serves nothing, and keeps one child alive for each slot."""

    def __init__(self, app: Flask, listener: socket.socket, cores: list[int | None]) -> None:
        self._app = app
        self._listener = listener
        self._cores = cores
        self._children: dict[int, tuple[int, float]] = {}
        self._stopping = False

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        for slot in range(len(self._cores)):
            self._start(slot)
        while self._children:
            pid, status = os.waitpid(-1, 0)
            slot, started = self._children.pop(pid, (-1, 0.0))
            if slot < 0 or self._stopping:
                continue
            _log.error("server process %d ended (status %d); it is replaced", pid, status)
            if time.monotonic() - started < _SHORT_LIFE_SECONDS:
                time.sleep(_SHORT_LIFE_SECONDS)
            self._start(slot)

    def _start(self, slot: int) -> None:
        # A signal between fork and the entry in the table would miss the child.
        signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        parent = os.getpid()
        pid = 0 if self._stopping else os.fork()
        if pid:
            self._children[pid] = (slot, time.monotonic())
        elif not self._stopping:
            self._be_child(self._cores[slot], parent, signals)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)

    def _be_child(self, core: int | None, parent: int, signals: set[signal.Signals]) -> NoReturn:
        status = 1
        try:
            _pin(core)
            for number in signals:
                signal.signal(number, lambda *_: os._exit(0))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            run_one(self._app, self._listener, lambda: os.getppid() == parent)
            status = 0
        except BaseException:
            _log.exception("server process failed")
            raise
        finally:
            _end(status)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self._listener.close()
        for pid in list(self._children):
            # A child that has ended already waits to be noticed.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _end(status: int) -> NoReturn:
    """Leave a forked child without running what belongs to its parent."""
    logging.shutdown()
    os._exit(status)


def _cores() -> list[int | None]:
    """Return the processor cores that this process may use; None where they cannot be chosen."""
    if hasattr(os, "sched_getaffinity"):
        return [*sorted(os.sched_getaffinity(0))]
    return [None] * (os.cpu_count() or 1)


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
