"""The HTTP server: waitress's, with bounds on what a client holds by being slow.

Waitress looks at every open connection before it waits for any, and lets a request take as long as
it likes, so a few hundred half-sent ones stop it. Here the system tells which connections have
something to do, a request's head and body have a limited age, and an address has a limited number
of slow connections. A client that sends whole requests and takes its answers is never interrupted,
however many connections it has: where there is no room, a new connection waits to be accepted. One
request of a connection is read at a time: the next waits, unread, until the answer before it is
sent. Source: decisions §4; RFC 9112 §6.3, §9.3.2, §9.6.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import Counter, deque
from functools import partial
from typing import Any

from flask import Flask
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer

from fhirapp.auth.throttle import network_of
from fhirapp.config import Settings
from fhirapp.rest import middleware
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
# A connection that waits for its client for less is not closed for another.
SPARED_SECONDS = 1.0
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
    "max_request_body_size": 2 * middleware.MAX_BODY,
    "max_request_header_size": 2 * middleware.MAX_HEADERS,
    # What is larger waits in a file: of thousands of requests that are not yet complete.
    "inbuf_overflow": 64 * 1024,
    "ident": None,
    # Unused: the limits are ours.
    "connection_limit": 1_000_000,
}


# The connection whose request a thread serves.
_serving = threading.local()


class Server(TcpWSGIServer):  # type: ignore[misc]
    """Waitress's server on a listening socket, its loop one `turn` at a time."""

    def __init__(
        self, app: Flask, listener: socket.socket, settings: Settings, most_connections: int
    ) -> None:
        self._most_connections = most_connections
        self._most_slow = settings.connections_of_address
        self.proxies = Proxies(
            settings, partial(app.extensions.__setitem__, middleware.UNNAMED_PROXY)
        )
        self.slow_paths: tuple[str, ...] = app.extensions.get(middleware.SLOW_PATHS, ())
        self.health_paths: tuple[str, ...] = app.extensions.get(middleware.HEALTH_PATHS, ())
        # Apart from those that may all wait for the database: an orchestrator would end the server.
        self._health_threads = FairDispatcher(_HEALTH_THREADS)
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, int] = {}
        # What threads have changed since the last turn.
        self._changed: deque[Channel] = deque()
        # Connections whose first or begun request is not complete, and those between two requests:
        # the one that has waited longest first.
        self.incomplete: dict[Channel, None] = {}
        self.idle: dict[Channel, None] = {}
        # Whether a connection can be accepted; while it cannot, each answer ends its connection.
        self.has_room = True
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
            self._close_slow(now)
        self._watch(self)

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
        self.has_room = not self._is_full or self._replaceable() is not None
        return self.has_room and bool(self.accepting)

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
            replaced = None
            if self._is_full and (replaced := self._replaceable()) is None:
                return
            count = len(self.active_channels)
            super().handle_accept()
            if len(self.active_channels) == count:
                return
            if replaced is not None:
                replaced.handle_close()

    def opened(self, channel: Channel) -> None:
        """Wait for the first request of a new connection."""
        self.wait_for(channel, self.incomplete)
        self._watch(channel)

    def closed(self, channel: Channel, number: int) -> None:
        """Forget a connection."""
        self._forget(number)
        self.wait_no_more(channel)

    def wait_for(self, channel: Channel, queue: dict[Channel, None]) -> None:
        """Wait for a client from now on: in `incomplete`, or in `idle`."""
        self.wait_no_more(channel)
        queue[channel] = None
        channel.since = time.monotonic()

    def wait_no_more(self, channel: Channel) -> None:
        """Take a connection out of both queues: its request is complete."""
        self.incomplete.pop(channel, None)
        self.idle.pop(channel, None)

    @property
    def _is_full(self) -> bool:
        return len(self.active_channels) >= self._most_connections

    def _replaceable(self) -> Channel | None:
        """Return the connection to close for a new one; None if the new one is to wait."""
        latest = time.monotonic() - SPARED_SECONDS
        for queue in (self.incomplete, self.idle):
            oldest = next(iter(queue), None)
            if oldest is not None and oldest.since <= latest and not oldest.has_unread:
                return oldest
        return None

    def _close_slow(self, now: float) -> None:
        """Close what has taken too long, and the oldest of too many slow ones of an address."""
        slow: Counter[str] = Counter()
        for channel in reversed([*self.active_channels.values()]):
            is_slow = channel.is_slow(now)
            slow[channel.network] += is_slow
            if channel.is_overdue(now) or (is_slow and slow[channel.network] > self._most_slow):
                channel.handle_close()


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
    # Since when the client is waited for: to begin a request, to end its head or its body, or to
    # take more of an answer.
    since = 0.0
    # Since when an answer waits to be taken, and what was taken since.
    _unsent_since = 0.0
    _taken = 0

    def __init__(
        self, server: Server, sock: socket.socket, addr: Any, *args: Any, **named: Any
    ) -> None:
        self.client: str = addr[0]
        self.client_key = ClientKey()
        self.waiting_since = 0.0
        self.peer = self.client
        self.is_proxy = self.peer in server.proxies
        # The client's; empty between the requests of a proxy.
        self.network = "" if self.is_proxy else network_of(self.peer)
        super().__init__(server, sock, addr, *args, **named)
        server.opened(self)

    @property
    def is_busy(self) -> bool:
        """Whether a request was begun and is not answered yet, or is about to come."""
        is_new = self in self.server.incomplete and time.monotonic() - self.since < _NEW_SECONDS
        return bool(is_new or self.requests or self.total_outbufs_len) or self.request is not None

    @property
    def has_unread(self) -> bool:
        """Whether the client has sent something that the loop has not come to yet."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def is_slow(self, now: float) -> bool:
        """Say whether the client sends no complete request, or does not take its answer."""
        # A proxy's connection counts for nobody until its client is known.
        if not self.network or now - self.since < SPARED_SECONDS:
            return False
        is_incomplete = self in self.server.incomplete and not self.has_unread
        return is_incomplete or bool(self.total_outbufs_len)

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
            return now - self.since > IDLE_SECONDS
        if not self.request.headers_finished:
            return now - self.since > HEAD_SECONDS
        size: int = max(self.request.content_length, self.request.body_bytes_received)
        return now - self.since > BODY_SECONDS + size / BODY_BYTES_PER_SECOND

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
                    self.server.wait_for(self, self.server.incomplete)
                request = self.request
                was_head = not request.headers_finished
                data = data[request.received(data) :]
                if was_head and request.headers_finished:
                    self.server.wait_for(self, self.server.incomplete)
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
        server: Server = self.server
        if self not in server.incomplete and self not in server.idle:
            if self.is_proxy:
                self.network = ""
            server.wait_for(self, server.idle)
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
            self.network = network_of(self.client)
        credential = headers.get("AUTHORIZATION") or headers.get("COOKIE") or ""
        # A request that cannot be read has no path.
        is_slow = request.error is None and request.path.startswith(server.slow_paths)
        self.client_key = ClientKey(self.network, hash(credential), is_slow)
        self.waiting_since = time.monotonic()
        server.wait_no_more(self)
        self.requests.append(request)
        server.add_task(self)

    def _begin_to_send(self) -> None:
        self.since = self._unsent_since = time.monotonic()
        self._taken = 0
