"""The HTTP server by itself: what a client that is slow, greedy or malformed can hold up."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPException, HTTPResponse
from threading import Event, Lock, Thread
from typing import Any

import pytest
from flask import Flask, Response, request

from fhirapp.config import Settings
from fhirapp.rest.middleware import HEALTH_PATHS, SLOW_PATHS
from fhirapp.server import connections, fair
from fhirapp.server.connections import Server
from fhirapp.server.proxies import SCHEME

WAIT_SECONDS = 60
HEAD = b"GET /live HTTP/1.1\r\nHost: localhost\r\n"
LIVE = HEAD + b"\r\n"
LARGE = 30_000_000
FORWARDED = "X-Forwarded-Proto"


class Served:
    """A server in a thread, of an app whose routes wait until they are let go."""

    def __init__(self, most: int, of_address: int, threads: int, proxy: str) -> None:
        self.go = Event()
        self.began: list[str] = []
        self._lock = Lock()
        settings = Settings(threads=threads, trusted_proxy=proxy, connections_of_address=of_address)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.server = Server(self._app(), listener, settings, most)
        self._stopped = False
        self._thread = Thread(target=self._turn)

    def _app(self) -> Flask:
        app = Flask("served")
        app.extensions[SLOW_PATHS] = ("/slow",)
        app.extensions[HEALTH_PATHS] = ("/health/live", "/health/block")

        @app.route("/live", methods=["GET", "POST"])
        @app.get("/health/live")
        def live() -> str:
            return f"{request.remote_addr} {request.headers.get('X-Forwarded-For')}"

        @app.get("/unchanged")
        def unchanged() -> Response:
            return Response(status=304)

        @app.get("/scheme")
        def scheme() -> str:
            return f"{request.environ[SCHEME]} {request.scheme} {request.headers.get(FORWARDED)}"

        @app.get("/block/<name>")
        @app.get("/health/<name>")
        @app.get("/slow/<name>")
        def block(name: str) -> str:
            with self._lock:
                self.began.append(name)
            self.go.wait(WAIT_SECONDS)
            return name

        @app.get("/large")
        def large() -> Response:
            self.began.append("large")
            return Response(b"x" * LARGE)

        return app

    def run(self) -> None:
        self._thread.start()

    def _turn(self) -> None:
        while not self._stopped:
            self.server.turn(0.05)
        self.server.stop_accepting()
        self.server.end_threads(WAIT_SECONDS)
        for channel in [*self.server.active_channels.values()]:
            channel.handle_close()
        self.server.close()

    def stop(self) -> None:
        self.go.set()
        self._stopped = True
        self._thread.join(WAIT_SECONDS)

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(
            ("127.0.0.1", self.port), timeout=WAIT_SECONDS, source_address=(address, 0)
        )

    def wait_until_begun(self, count: int) -> None:
        while len(self.began) < count:
            time.sleep(0.01)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    """Return what starts a server; its clocks are looked at often, and it closes nothing by age."""
    monkeypatch.setattr(connections, "_SWEEP_SECONDS", 0.02)
    for limit in ("IDLE_SECONDS", "HEAD_SECONDS", "BODY_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(connections, limit, 3600)
    monkeypatch.setattr(fair, "_LOOK_SECONDS", 0.02)
    with ExitStack() as stack:

        def start(
            most: int = 1_000,
            of_address: int = 1_000,
            threads: int = 4,
            proxy: str = "",
            runs: bool = True,
        ) -> Served:
            served = Served(most, of_address, threads, proxy)
            if runs:
                served.run()
            stack.callback(served.stop)
            return served

        yield start


def answer(connection: socket.socket) -> tuple[int, bytes]:
    response = HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def is_closed(connection: socket.socket, seconds: float = WAIT_SECONDS) -> bool:
    """Wait until the server closes a connection, without an answer."""
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def trickle(connection: socket.socket) -> float:
    """Send a byte now and then until the connection is closed; return how long that took."""
    began = time.monotonic()
    connection.settimeout(0.05)
    while time.monotonic() - began < WAIT_SECONDS:
        try:
            connection.send(b"a")
            if connection.recv(1) == b"":
                return time.monotonic() - began
        except TimeoutError:
            continue
        except ConnectionError:
            return time.monotonic() - began
    raise AssertionError("it was left open")


@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        ("HEAD_SECONDS", HEAD + b"X: "),
        ("BODY_SECONDS", b"POST /live HTTP/1.1\r\nContent-Length: 900\r\n\r\na"),
        ("BODY_SECONDS", b"POST /live HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n"),
    ],
)
def test_slow_request_is_given_up(serve, monkeypatch, limit, sent):
    monkeypatch.setattr(connections, limit, 0.4)
    served = serve()
    with served.connect() as connection:
        connection.sendall(sent)
        assert 0.3 < trickle(connection) < WAIT_SECONDS / 2
    with served.connect() as other:
        other.sendall(LIVE)
        assert answer(other)[0] == 200


def test_a_large_body_may_take_longer_by_its_size(serve, monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.1)
    with serve().connect() as connection:
        connection.sendall(b"POST /live HTTP/1.1\r\nContent-Length: 20000\r\n\r\n")
        for _ in range(20):
            time.sleep(0.03)
            connection.sendall(b"a" * 1000)
        assert answer(connection)[0] == 200


def test_idle_connection_is_closed(serve, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.3)
    served = serve()
    with served.connect() as silent, served.connect() as active:
        for _ in range(3):
            active.sendall(LIVE)
            assert answer(active)[0] == 200
            time.sleep(0.15)
        assert is_closed(silent)
        assert is_closed(active)


def test_connection_that_does_not_read_its_answer_is_closed(serve, monkeypatch):
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.3)
    served = serve()
    with served.connect() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for is_there in (True, False):
            while bool(served.server.active_channels) != is_there:
                time.sleep(0.01)
        with pytest.raises((ConnectionError, HTTPException)):
            answer(connection)


@pytest.mark.parametrize("sent", [b"", HEAD, b"POST /live HTTP/1.1\r\nContent-Length: 9\r\n\r\na"])
def test_oldest_slow_connection_of_an_address_is_closed(serve, monkeypatch, sent):
    monkeypatch.setattr(connections, "SPARED_SECONDS", 0.0)
    served = serve(of_address=1)
    with ExitStack() as stack:
        finished = []
        for _ in range(3):
            finished.append(stack.enter_context(served.connect()))
            finished[-1].sendall(LIVE)
            assert answer(finished[-1])[0] == 200
        elsewhere, first, second = (
            stack.enter_context(served.connect(address))
            for address in ("127.0.0.2", "127.0.0.1", "127.0.0.1")
        )
        for connection in (elsewhere, first, second):
            connection.sendall(sent)
        assert is_closed(first)
        for connection in (elsewhere, second):
            connection.sendall(LIVE[len(sent) :] if LIVE.startswith(sent) else b"a" * 8)
            assert answer(connection)[0] == 200
        for connection in finished:
            connection.sendall(LIVE)
            assert answer(connection)[0] == 200


def test_slow_connection_is_spared_for_a_while(serve, monkeypatch):
    monkeypatch.setattr(connections, "SPARED_SECONDS", 3600.0)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.3)
    served = serve(of_address=1)
    with served.connect() as silent, served.connect() as begun, served.connect() as other:
        for connection in (begun, other):
            connection.sendall(HEAD)
        # The connections were looked at, and are within the limit's time.
        assert is_closed(silent)
        for connection in (begun, other):
            connection.sendall(b"\r\n")
            assert answer(connection)[0] == 200


def test_connection_between_requests_gives_way_where_there_is_no_room(serve, monkeypatch):
    monkeypatch.setattr(connections, "SPARED_SECONDS", 0.0)
    served = serve(most=3)
    with ExitStack() as stack:
        opened = [stack.enter_context(served.connect())]
        opened[0].sendall(HEAD)
        for _ in range(2):
            opened.append(stack.enter_context(served.connect()))
            opened[-1].sendall(LIVE)
            assert answer(opened[-1])[0] == 200
        # An incomplete request goes first, then the connection that has been idle longest.
        for closed in opened[:2]:
            late = stack.enter_context(served.connect())
            late.sendall(LIVE)
            assert answer(late)[0] == 200
            assert is_closed(closed)
        opened[2].sendall(LIVE)
        assert answer(opened[2])[0] == 200


@pytest.mark.parametrize(("path", "status"), [("/live", 200), ("/unchanged", 304)])
def test_new_connection_waits_where_there_is_no_room(serve, monkeypatch, path, status):
    monkeypatch.setattr(connections, "SPARED_SECONDS", 3600.0)
    served = serve(most=2)
    with served.connect() as idle, ExitStack() as stack:
        idle.sendall(LIVE)
        assert answer(idle)[0] == 200
        busy = stack.enter_context(served.connect())
        ask(busy, "/block/a")
        served.wait_until_begun(1)
        assert not served.server.has_room
        with served.connect() as late:
            late.sendall(LIVE)
            # An answer ends its connection without an error, so that the new one is accepted.
            ask(idle, path)
            response = HTTPResponse(idle)
            response.begin()
            assert (response.status, response.headers["Connection"]) == (status, "close")
            response.read()
            assert is_closed(idle)
            assert answer(late)[0] == 200
        served.go.set()
        assert answer(busy) == (200, b"a")


def test_request_that_is_not_read_yet_is_not_closed_for_another(serve, monkeypatch):
    monkeypatch.setattr(connections, "SPARED_SECONDS", 0.0)
    served = serve(most=1, runs=False)
    with served.connect() as first:
        served.server.turn(WAIT_SECONDS)
        # The system reports the new connection, then the request.
        with served.connect() as late:
            (channel,) = served.server.active_channels.values()
            assert channel.is_slow(time.monotonic())
            for connection in (first, late):
                connection.sendall(LIVE)
            assert not channel.is_slow(time.monotonic())
            served.run()
            for connection in (first, late):
                assert answer(connection)[0] == 200


@pytest.mark.parametrize("clients", [("", "", ""), ("192.0.2.1", "192.0.2.2", "192.0.2.1")])
def test_client_that_takes_no_answer_has_slow_connections(serve, monkeypatch, clients):
    monkeypatch.setattr(connections, "SPARED_SECONDS", 0.0)
    served = serve(of_address=1, proxy="127.0.0.1" if any(clients) else "")
    with ExitStack() as stack:
        opened = {}
        for client in clients:
            connection = stack.enter_context(served.connect())
            head = f"GET /large HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {client}\r\n\r\n"
            connection.sendall(head.encode())
            opened.setdefault(client, []).append(connection)
        served.wait_until_begun(len(clients))
        while len(served.server.active_channels) > len(opened):
            time.sleep(0.01)
        for *closed, newest in opened.values():
            assert answer(newest) == (200, b"x" * LARGE)
            for connection in closed:
                with pytest.raises((ConnectionError, HTTPException)):
                    answer(connection)


def test_incomplete_requests_of_a_trusted_proxy_count_for_no_address(serve, monkeypatch):
    monkeypatch.setattr(connections, "SPARED_SECONDS", 0.0)
    served = serve(of_address=1, proxy="127.0.0.1")
    with ExitStack() as stack:
        of_proxy = []
        for _ in range(2):
            of_proxy.append(stack.enter_context(served.connect()))
            of_proxy[-1].sendall(HEAD + b"X-Forwarded-For: 192.0.2.1\r\n\r\n")
            assert answer(of_proxy[-1])[0] == 200
            # The next request may be another client's.
            of_proxy[-1].sendall(HEAD)
        first, second = (stack.enter_context(served.connect("127.0.0.2")) for _ in range(2))
        assert is_closed(first)
        for connection, rest in ((of_proxy[0], b"\r\n"), (of_proxy[1], b"\r\n"), (second, LIVE)):
            connection.sendall(rest)
            assert answer(connection)[0] == 200


def test_pipelined_requests_are_answered_in_turn_and_one_at_a_time(serve):
    served = serve()
    with served.connect() as connection:
        connection.sendall(LIVE * 300)
        received = b""
        while received.count(b"127.0.0.1 None") < 300:
            part = connection.recv(65536)
            assert part, received[-500:]
            received += part
    assert received.count(b"HTTP/1.1 200 OK") == 300


def test_pipelining_without_reading_blocks_nobody(serve):
    served = serve()
    with ExitStack() as stack:
        for _ in range(8):
            greedy = stack.enter_context(served.connect())
            greedy.settimeout(0.2)
            with suppress(TimeoutError):
                greedy.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n" * 600)
        with served.connect("127.0.0.2") as other:
            other.sendall(LIVE)
            assert answer(other)[0] == 200
        # What was sent beyond the request that is served is not read, let alone answered.
        assert all(len(c.requests) <= 1 for c in served.server.active_channels.values())


def test_malformed_target_is_refused(serve):
    served = serve()
    for target in (b"http://[/", b"http://[::1/x", b"//[a", b"http://a:b:c]/"):
        with served.connect() as connection:
            connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer(connection)[0] in (400, 404), target


def test_request_with_two_body_lengths_ends_the_connection(serve):
    with serve().connect() as connection:
        connection.sendall(
            b"POST /live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + LIVE
        )
        response = HTTPResponse(connection)
        response.begin()
        assert response.status == 200
        assert response.headers["Connection"] == "close"
        response.read()
        assert is_closed(connection)


def test_client_address_is_the_one_that_a_trusted_proxy_forwards(serve):
    for proxy, forwarded_for in {
        "": {"192.0.2.1": "127.0.0.1"},
        "192.0.2.9": {"192.0.2.1": "127.0.0.1"},
        "127.0.0.0/8": {"192.0.2.1": "192.0.2.1"},
        "10.0.0.0/8, 127.0.0.1": {"198.51.100.1, 192.0.2.1, 10.1.2.3": "192.0.2.1"},
        "127.0.0.1": {
            "192.0.2.1": "192.0.2.1",
            "nonsense, 192.0.2.1": "192.0.2.1",
            "192.0.2.1, nonsense": "127.0.0.1",
            "192.0.2.1:4711": "192.0.2.1",
            "[2001:db8::1]:4711": "2001:db8::1",
            "2001:db8::1": "2001:db8::1",
            "": "127.0.0.1",
        },
    }.items():
        served = serve(proxy=proxy)
        for forwarded, client in forwarded_for.items():
            with served.connect() as connection:
                connection.sendall(HEAD + f"X-Forwarded-For: {forwarded}\r\n\r\n".encode())
                assert answer(connection) == (200, f"{client} None".encode()), forwarded


@pytest.mark.parametrize(("proxy", "told"), [("127.0.0.1", "https"), ("", "")])
def test_scheme_of_a_named_proxy_is_recorded_and_changes_nothing(serve, proxy, told):
    with serve(proxy=proxy).connect() as connection:
        connection.sendall(HEAD.replace(b"/live", b"/scheme") + b"X-Forwarded-Proto: HTTPS\r\n\r\n")
        assert answer(connection) == (200, f"{told} http None".encode())


def test_unnamed_proxy_is_logged_once(serve, caplog):
    served = serve()
    for _ in range(3):
        with served.connect() as connection:
            connection.sendall(HEAD + b"X-Forwarded-For: 192.0.2.1\r\n\r\n")
            answer(connection)
    said = [
        record.getMessage() for record in caplog.records if "X-Forwarded-For" in record.getMessage()
    ]
    assert len(said) == 1
    assert "FHIRAPP_TRUSTED_PROXY" in said[0]


def ask(connection: socket.socket, path: str, token: str = "") -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    connection.sendall(head.encode() + b"\r\n")


def asked_at_once(served: Served, stack: ExitStack, *asked: Any) -> list[socket.socket]:
    """Ask each of (path, token, address) on a connection of its own, in this order."""
    opened = []
    for path, token, address in asked:
        opened.append(stack.enter_context(served.connect(address)))
        ask(opened[-1], path, token)
        # In the order in which they are asked.
        time.sleep(0.1)
    return opened


def test_one_client_has_half_of_the_threads(serve):
    served = serve(threads=4)
    with ExitStack() as stack:
        asked_at_once(served, stack, *[(f"/block/a{n}", "a", "127.0.0.1") for n in range(6)])
        served.wait_until_begun(2)
        assert served.began == ["a0", "a1"]
        other = asked_at_once(served, stack, ("/live", "b", "127.0.0.1"))[0]
        assert answer(other)[0] == 200


def test_one_address_leaves_a_thread_to_others_whatever_its_tokens(serve):
    served = serve(threads=4)
    with ExitStack() as stack:
        asked_at_once(served, stack, *[(f"/block/{n}", str(n), "127.0.0.1") for n in range(9)])
        served.wait_until_begun(3)
        assert len(served.began) == 3
        other = asked_at_once(served, stack, ("/live", "", "127.0.0.2"))[0]
        assert answer(other)[0] == 200


def test_health_is_answered_while_all_threads_wait(serve):
    served = serve(threads=2)
    with ExitStack() as stack:
        others = [(f"/block/{n}", "", f"127.0.0.{n + 2}") for n in range(3)]
        # Whether it can work may not be known for a while, either.
        asked_at_once(served, stack, *others, ("/health/block", "", "127.0.0.5"))
        served.wait_until_begun(3)
        assert served.began == ["0", "1", "block"]
        live = asked_at_once(served, stack, ("/health/live", "", "127.0.0.6"))[0]
        assert answer(live)[0] == 200


def test_waiting_clients_are_served_in_turn(serve):
    served = serve(threads=1)
    with ExitStack() as stack:
        many = [(f"/block/a{n}", "a", "127.0.0.1") for n in range(3)]
        others = [("/block/b", "b", "127.0.0.1"), ("/block/c", "c", "127.0.0.2")]
        opened = asked_at_once(served, stack, *many, *others)
        served.go.set()
        for connection in opened:
            assert answer(connection)[0] == 200
        assert served.began == ["a0", "a1", "c", "b", "a2"]


def test_requests_that_may_be_slow_hold_half_of_the_threads_and_one_for_each_client(serve):
    served = serve(threads=4)
    with ExitStack() as stack:
        mine = [("/slow/a", "a", "127.0.0.1")] * 3
        others = [
            (f"/slow/{name}", name, f"127.0.0.{place + 2}") for place, name in enumerate("bcd")
        ]
        asked_at_once(served, stack, *mine, *others)
        served.wait_until_begun(2)
        assert served.began == ["a", "b"]
        quick = asked_at_once(served, stack, ("/live", "a", "127.0.0.1"))[0]
        assert answer(quick)[0] == 200


@pytest.mark.parametrize("path", ["/slow/x", "/block/x"])
def test_request_that_waits_too_long_is_a_503_with_retry_after(serve, monkeypatch, path):
    monkeypatch.setattr(fair, "WAIT_SECONDS", 0.3)
    served = serve(threads=2)
    with ExitStack() as stack:
        first = asked_at_once(served, stack, (path, "a", "127.0.0.1"))[0]
        served.wait_until_begun(1)
        late = asked_at_once(served, stack, (path, "a", "127.0.0.1"))[0]
        response = HTTPResponse(late)
        response.begin()
        assert response.status == 503
        assert response.headers["Retry-After"] == "5"
        assert b"Try again in a moment" in response.read()
        served.go.set()
        assert answer(first)[0] == 200
