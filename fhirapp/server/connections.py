"""The HTTP server: waitress's, with bounds on what a client holds by being slow.

Waitress looks at every open connection before it waits for any, and lets a request take as long as
it likes, so a few hundred half-sent ones stop it. Here the system tells which connections have
something to do, a request's head and body have a limited age, an address a limited number of
connections, and of too many the slowest is closed. One request of a connection is read at a time:
the next waits, unread, until the answer before it is sent.
Source: decisions §4; RFC 9112 §6.3, §9.3.2.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from flask import Flask
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer

from fhirapp.auth.throttle import network_of
from fhirapp.config import Settings
from fhirapp.rest.middleware import (
    HEALTH_PATHS,
    MAX_BODY,
    MAX_HEADERS,
    SLOW_PATHS,
    UNNAMED_PROXY,
)
from fhirapp.server.fair import ClientKey, FairDispatcher
from fhirapp.server.messages import RefusalTask, Request, ResponseTask, ServerBusy
from fhirapp.server.proxies import HEADER, Proxies

# How long a client may take, in seconds: between requests, for a request's head, for its body, and
# for what it is to take of an answer; for the body longer by its size.
IDLE_SECONDS = 30
HEAD_SECONDS = 10
BODY_SECONDS = 30
BODY_BYTES_PER_SECOND = 10_000
ANSWER_SECONDS = 30
ANSWER_BYTES_PER_SECOND = 1_000
_SWEEP_SECONDS = 1.0
# How long a server that stops waits for the first request of who has connected.
_NEW_SECONDS = 0.5
# So much is sent to one client before the others have their turn.
_TURN_BYTES = 1024 * 1024
# Connections that are accepted before those that are open have their turn.
_ACCEPTED_AT_ONCE = 16
# One of which any address leaves to others.
_HEALTH_THREADS = 2

_WAITRESS = {
    # Above our own limits, whose answers are OperationOutcomes; beyond, RefusalTask answers.
    "max_request_body_size": 2 * MAX_BODY,
    "max_request_header_size": 2 * MAX_HEADERS,
    # What is larger waits in a file: of thousands of requests that are not yet complete.
    "inbuf_overflow": 64 * 1024,
    "ident": None,
    # Unused: the limits are ours.
    "connection_limit": 1_000_000,
}


class Limits(NamedTuple):
    """How many connections a process keeps open: in all, and of one address."""

    connections: int
    of_address: int


# The connection whose request a thread serves.
_serving = threading.local()


class Server(TcpWSGIServer):  # type: ignore[misc]
    """Waitress's server on a listening socket, its loop one `turn` at a time."""

    def __init__(
        self, app: Flask, listener: socket.socket, settings: Settings, limits: Limits
    ) -> None:
        self.limits = limits
        self.proxies = Proxies(settings, partial(app.extensions.__setitem__, UNNAMED_PROXY))
        self.slow_paths: tuple[str, ...] = app.extensions.get(SLOW_PATHS, ())
        self.health_paths: tuple[str, ...] = app.extensions.get(HEALTH_PATHS, ())
        # Apart from those that may all wait for the database: an orchestrator would end the server.
        self._health_threads = FairDispatcher(_HEALTH_THREADS)
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, int] = {}
        # What threads have changed since the last turn.
        self._changed: deque[Channel] = deque()
        # Who is waited for, the slowest first: since when is in the channel.
        self._waiting: dict[Channel, None] = {}
        self._of_network: dict[str, dict[Channel, None]] = {}
        self._next_sweep = 0.0
        super().__init__(
            app,
            {},
            _sock=listener,
            dispatcher=FairDispatcher(settings.threads),
            adj=Adjustments(sockets=[listener], **_WAITRESS),
            sockinfo=(listener.family, listener.type, listener.proto, listener.getsockname()),
            bind_socket=False,
        )
        self.channel_class = Channel
        for watched in [*self._map.values()]:
            self._watch(watched)

    # The loop.

    def turn(self, seconds: float) -> None:
        """Handle what has come; wait for it at most so long."""
        for key, events in self._selector.select(seconds):
            ready = key.data
            # It may be closed since, its number another's.
            if events & selectors.EVENT_READ and self._map.get(key.fd) is ready:
                wasyncore.read(ready)
            if events & selectors.EVENT_WRITE and self._map.get(key.fd) is ready:
                wasyncore.write(ready)
            self._go_on(ready)
        while self._changed:
            self._go_on(self._changed.popleft())
        if (now := time.monotonic()) >= self._next_sweep:
            self._next_sweep = now + _SWEEP_SECONDS
            for channel in [*self.active_channels.values()]:
                if channel.is_overdue(now):
                    channel.handle_close()

    def add_task(self, task: Channel) -> None:
        # A request that cannot be read has no path.
        request = task.requests[0]
        is_health = request.error is None and request.path in self.health_paths
        (self._health_threads if is_health else self.task_dispatcher).add_task(task)

    def end_threads(self, seconds: float) -> None:
        """End the threads; what waits for one is not answered."""
        for dispatcher in (self._health_threads, self.task_dispatcher):
            dispatcher.shutdown(cancel_pending=True, timeout=seconds)

    def stop_accepting(self) -> None:
        """Refuse whoever comes now at once, so that they may try another server."""
        self.accepting = False
        self._forget(self._fileno)
        self.del_channel()
        self.socket.close()

    @property
    def is_busy(self) -> bool:
        """Whether a request was begun and is not answered yet."""
        return any(channel.is_busy for channel in [*self.active_channels.values()])

    def pull_trigger(self) -> None:
        """Wake the loop: a thread has changed the connection that it serves."""
        if (channel := getattr(_serving, "channel", None)) is not None:
            self._changed.append(channel)
        super().pull_trigger()

    def readable(self) -> bool:
        return bool(self.accepting)

    def _go_on(self, ready: Any) -> None:
        if isinstance(ready, Channel):
            ready.go_on()
        self._watch(ready)

    def _watch(self, ready: Any) -> None:
        """Have the system tell when a connection can do what it waits for."""
        number = ready._fileno
        if number is None:
            return
        events = selectors.EVENT_READ if ready.readable() else 0
        if not ready.accepting and ready.writable():
            events |= selectors.EVENT_WRITE
        before = self._watched.get(number, 0)
        if events == before:
            return
        if not before:
            self._selector.register(number, events, ready)
        elif not events:
            self._selector.unregister(number)
        else:
            self._selector.modify(number, events, ready)
        self._watched[number] = events

    def _forget(self, number: int) -> None:
        if self._watched.pop(number, 0):
            self._selector.unregister(number)

    # Connections.

    def handle_accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            before = len(self.active_channels)
            super().handle_accept()
            if len(self.active_channels) == before:
                return

    def opened(self, channel: Channel) -> None:
        """Count a new connection; where there are too many, close the slowest."""
        self.wait_for(channel)
        if not channel.is_proxy:
            self.assign(channel, channel.peer)
        if len(self.active_channels) > self.limits.connections:
            self._close_slowest(self._waiting)
        self._watch(channel)

    def assign(self, channel: Channel, address: str) -> None:
        """Count a connection as an address's; where it has too many, close its slowest."""
        self._unassign(channel)
        channel.network = network_of(address)
        mine = self._of_network.setdefault(channel.network, {})
        mine[channel] = None
        if len(mine) > self.limits.of_address:
            self._close_slowest(mine)

    def closed(self, channel: Channel, number: int) -> None:
        """Forget a connection."""
        self._forget(number)
        self._waiting.pop(channel, None)
        self._unassign(channel)

    def answered(self, channel: Channel) -> None:
        """Wait for a connection's next request; of a proxy's it may be another client's."""
        if channel.is_proxy:
            self._unassign(channel)
        self.wait_for(channel)

    def wait_for(self, channel: Channel) -> None:
        """Put a connection last among those that are waited for."""
        self._waiting.pop(channel, None)
        self._waiting[channel] = None

    def _unassign(self, channel: Channel) -> None:
        if mine := self._of_network.get(channel.network):
            mine.pop(channel, None)
            if not mine:
                del self._of_network[channel.network]

    def _close_slowest(self, channels: Iterable[Channel]) -> None:
        """Close the one that is waited for longest; requests that are served go on."""
        slowest = next((channel for channel in channels if not channel.requests), None)
        if slowest is not None:
            slowest.handle_close()


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection: one request at a time, each with a limited age."""

    task_class = ResponseTask
    error_task_class = RefusalTask
    parser_class = Request
    # Waitress's: what is read and not yet complete, and whether its sender was told to go on.
    request: Request | None
    requests: list[Request]
    sent_continue: bool
    total_outbufs_len: int
    # In bytes, what may still be sent before others have their turn.
    _allowance = _TURN_BYTES
    # What was read beyond the request that is served.
    _beyond = b""
    # Since when a request's head, then its body, is waited for.
    _begun = 0.0
    # Since when an answer waits to be taken, and what was taken since.
    _unsent_since = 0.0
    _taken = 0
    # Whether a request was given to a thread and its answer is not sent.
    _is_served = False
    # What it counts for; empty between the requests of a proxy.
    network = ""

    def __init__(
        self, server: Server, sock: socket.socket, addr: Any, *args: Any, **named: Any
    ) -> None:
        self.client: str = addr[0]
        self.client_key = ClientKey()
        self.waiting_since = 0.0
        self.peer = self.client
        self.is_proxy = self.peer in server.proxies
        self._since = time.monotonic()
        super().__init__(server, sock, addr, *args, **named)
        server.opened(self)

    @property
    def is_busy(self) -> bool:
        """Whether a request was begun and is not answered yet, or is about to come."""
        is_new = not self._begun and time.monotonic() - self._since < _NEW_SECONDS
        return bool(is_new or self.requests or self.total_outbufs_len) or self.request is not None

    def is_overdue(self, now: float) -> bool:
        """Say whether the client takes too long."""
        if self.total_outbufs_len:
            if now - self._unsent_since <= ANSWER_SECONDS:
                return False
            # Again and again: what the system holds for it was taken at once.
            is_slow = self._taken < ANSWER_SECONDS * ANSWER_BYTES_PER_SECOND
            self._begin_to_send()
            return is_slow
        if self.requests:
            return False
        if self.request is None:
            return now - self._since > IDLE_SECONDS
        if not self.request.headers_finished:
            return now - self._begun > HEAD_SECONDS
        size: int = max(self.request.content_length, self.request.body_bytes_received)
        return now - self._begun > BODY_SECONDS + size / BODY_BYTES_PER_SECOND

    def readable(self) -> bool:
        can_read: bool = super().readable()
        return can_read and not self._beyond

    def received(self, data: bytes) -> bool:
        """Read the next request; what comes after it waits until that is answered."""
        with self.requests_lock:
            if self.will_close or self.close_when_flushed:
                return False
            while data and not self.requests:
                if self.request is None:
                    self.request = Request(self.adj)
                    self._begun = time.monotonic()
                request = self.request
                was_head = not request.headers_finished
                data = data[request.received(data) :]
                if was_head and request.headers_finished:
                    self._begun = time.monotonic()
                    if request.expect_continue and not self.sent_continue:
                        self._begin_to_send()
                        self.send_continue()
                if request.completed:
                    self.sent_continue = False
                    self.request = None
                    if not request.empty:
                        self._serve(request)
            self._beyond = data
        return True

    def refuse(self) -> None:
        """Answer 503: the request has waited too long for a thread."""
        self.requests[0].error = ServerBusy()

    def service(self) -> None:
        _serving.channel = self
        super().service()

    def go_on(self) -> None:
        """Once an answer is sent: wait for the next request, which may have been read already."""
        if self.total_outbufs_len or self.requests or not self.connected:
            return
        if self._is_served:
            self._is_served = False
            self._since = time.monotonic()
            self.server.answered(self)
        if self._beyond:
            self.received(self._beyond)

    def write_soon(self, data: Any) -> int:
        if not self.total_outbufs_len:
            self._begin_to_send()
        written: int = super().write_soon(data)
        return written

    def handle_write(self) -> None:
        self._allowance = _TURN_BYTES
        super().handle_write()

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Send, but let others in: a client that takes all at once would be served alone."""
        if self._allowance <= 0:
            return 0
        sent: int = super().send(data, do_close)
        self._allowance -= sent
        self._taken += sent
        return sent

    def del_channel(self, map: Any = None) -> None:  # noqa: A002
        number = self._fileno
        super().del_channel(map)
        self.server.closed(self, number)

    def _serve(self, request: Request) -> None:
        """Have a thread answer a request."""
        server: Server = self.server
        headers = request.headers
        if self.is_proxy or HEADER in headers:
            self.client = server.proxies.client(self.peer, headers.get(HEADER, ""))
            if self.is_proxy:
                server.assign(self, self.client)
        credential = headers.get("AUTHORIZATION") or headers.get("COOKIE") or ""
        # A request that cannot be read has no path.
        is_slow = request.error is None and request.path.startswith(server.slow_paths)
        self.client_key = ClientKey(self.network, hash(credential), is_slow)
        self.waiting_since = time.monotonic()
        self._is_served = True
        self.requests.append(request)
        server.add_task(self)

    def _begin_to_send(self) -> None:
        self._unsent_since, self._taken = time.monotonic(), 0
