"""`python app.py` as it is run: real processes, real connections, signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.support.helpers import FHIR_JSON
from tests.support.serving import WAIT_SECONDS, Server, answer, get, servers
from tests.support.shell import fhirapp


@pytest.fixture(scope="module")
def enduring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that whatever is sent to it leaves as it was."""
    with servers(tmp_path_factory.mktemp("enduring")) as run:
        yield run(PROCESSES="1")


def assert_is_outcome(response: HTTPResponse, body: bytes, status: int, code: str) -> None:
    """Assert that an answer is an OperationOutcome of one error."""
    assert response.status == status, body
    assert response.headers["Content-Type"] == FHIR_JSON
    content = json.loads(body)
    assert content["resourceType"] == "OperationOutcome"
    assert [(issue["severity"], issue["code"]) for issue in content["issue"]] == [("error", code)]


POST = b"POST /fhir/AllergyIntolerance HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.smoke
def test_two_processes_serve_the_demo_and_end_on_a_signal(start):
    server = start("--demo")
    assert len(server.children()) == 2
    response, body = server.ask(get("/fhir/metadata"))
    assert response.status == 200
    assert json.loads(body)["implementation"]["url"] == "http://localhost/fhir"
    form = b"grant_type=client_credentials&scope=system/*.rs"
    post = (
        b"POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Authorization: Basic ZGVtby1iYWNrZW5kOmRlbW8=\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s"
    )
    response, body = server.ask(post % (len(form), form))
    token = json.loads(body)["access_token"]
    # Whichever process answers knows the token.
    for _ in range(8):
        bearer = f"Authorization: Bearer {token}"
        response, body = server.ask(get("/fhir/AllergyIntolerance?patient=p1", bearer))
        assert json.loads(body)["total"] == 6
    assert server.end() == 0


def wait_until_refused(server: Server) -> None:
    """Wait until a server that was signalled takes no new connection."""
    while True:
        try:
            server.connect().close()
        except ConnectionError:
            return
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("processes", "number"), [("1", signal.SIGINT), ("2", signal.SIGTERM), ("1", signal.SIGTERM)]
)
def test_request_in_flight_is_answered_after_the_signal(start, processes, number):
    server = start(PROCESSES=processes)
    form = b"grant_type=client_credentials"
    head = (
        b"POST /oauth/token HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n"
    )
    with server.connect() as connection, server.connect() as idle:
        connection.sendall(head % len(form) + form[:10])
        # Answered after the other was accepted, so that both are known to the server.
        idle.sendall(get("/health/live").replace(b"close", b"keep-alive"))
        assert answer(idle)[0].status == 200
        server.process.send_signal(number)
        # It takes no new connection, and waits for the rest of the request.
        wait_until_refused(server)
        assert server.process.poll() is None
        connection.sendall(form[10:])
        response, body = answer(connection)
    assert response.status in (400, 401)
    assert json.loads(body)["error"] == "invalid_client"
    assert server.process.wait(WAIT_SECONDS) == 0


def test_children_end_with_their_parent(start):
    server = start()
    children = server.children()
    server.end(signal.SIGKILL)

    def is_running(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    while any(map(is_running, children)):
        time.sleep(0.01)


def test_malformed_requests_are_answered_by_an_outcome(enduring):
    for request, status, code in (
        (b"garbage\r\n\r\n", 400, "value"),
        (b"GET /fhir/metadata NONSENSE/9\r\n\r\n", 400, "value"),
        (get("/fhir/metadata", "X: " + "y" * 70_000), 431, "too-long"),
        (get("/fhir/metadata", "X: " + "y" * 40_000), 431, "too-long"),
        (get("/fhir/AllergyIntolerance?x=" + "y" * 9_000), 414, "too-long"),
        (POST + b"Content-Length: 3000000\r\n\r\n", 413, "too-long"),
        (POST + b"Content-Length: nine\r\n\r\n", 400, "value"),
        (POST + b"Transfer-Encoding: nonsense\r\n\r\n", 400, "value"),
        (get("/fhir/AllergyIntolerance"), 401, "login"),
        (get("/fhir/%00"), 404, "not-supported"),
    ):
        assert_is_outcome(*enduring.ask(request), status, code)
        assert enduring.ask(get("/health/live"))[0].status == 200
    # A form is answered by a sentence.
    head = b"POST /admin/imports HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
    response, body = enduring.ask(head)
    assert (response.status, response.headers["Content-Type"]) == (413, "text/plain; charset=utf-8")
    assert b"larger than 1 MB" in body


def test_address_without_a_path_is_the_home_page(enduring):
    # It is not redirected to / of the host that it names.
    for host in ("localhost", "evil.example"):
        request = f"GET http://{host} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        response, _ = enduring.ask(request.encode())
        assert (response.status, response.headers["Location"]) == (200, None)


def test_connection_stays_open_after_a_304(enduring):
    kept = b"GET /fhir/metadata HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n"
    with enduring.connect() as connection:
        for _ in range(2):
            connection.sendall(kept)
            response, body = answer(connection)
            assert (response.status, body) == (304, b"")
            assert response.headers["Connection"] is None
        connection.sendall(get("/health/live"))
        assert answer(connection)[0].status == 200


def test_killed_child_is_replaced_and_logged_as_json(start, tmp_path: Any):
    server = start(LOG_FORMAT="json", LOG_LEVEL="DEBUG")
    first = server.children()
    os.kill(first[0], signal.SIGKILL)
    assert first[1] in server.children(without=first[0])
    for _ in range(4):
        assert server.ask(get("/health/live"))[0].status == 200
    assert server.end() == 0
    lines = (tmp_path / "log").read_text().splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    replaced = [record["level"] for record in records if "is replaced" in record["message"]]
    assert replaced == ["ERROR"]


def test_port_in_use_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = fhirapp(tmp_path, "serve", "--port", str(port))
    assert done.returncode == 2
    assert f"fhirapp: Cannot listen on 127.0.0.1 port {port} (" in done.stderr
    assert "Traceback" not in done.stderr
