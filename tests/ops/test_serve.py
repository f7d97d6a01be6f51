"""`python app.py` as it is run: real processes, real connections, signals."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from fhirapp.config import Settings
from fhirapp.ops import health, serve
from fhirapp.ops.proxies import seems_behind_proxy
from tests.support.helpers import FHIR_JSON
from tests.support.serving import WAIT_SECONDS, Server, answer, get, servers
from tests.support.shell import assert_not_done, fhirapp


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return what starts a server of the test's own."""
    with servers(tmp_path) as run:
        yield run


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
    assert [(one["severity"], one["code"]) for one in content["issue"]] == [("error", code)]


def test_two_processes_serve_the_demo_and_end_when_told(start):
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


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_in_flight_is_answered_after_the_signal(start, processes, number):
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
        # Longer than the server takes to see the signal: it waits for the rest of the request.
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1.5)
        connection.sendall(form[10:])
        response, body = answer(connection)
    assert response.status in (400, 401)
    assert json.loads(body)["error"] == "invalid_client"
    assert server.process.wait(WAIT_SECONDS) == 0


def test_a_child_that_dies_is_replaced(start):
    server = start()
    first = server.children()
    os.kill(first[0], signal.SIGKILL)
    assert first[1] in server.children(without=first[0])
    for _ in range(4):
        assert server.ask(get("/health/live"))[0].status == 200
    assert server.end() == 0


def test_children_end_with_their_parent(start):
    server = start()
    children = server.children()
    server.end(signal.SIGKILL)
    for pid in children:
        while Path(f"/proc/{pid}/stat").exists():
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                break


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (b"garbage\r\n\r\n", 400, "value"),
        (b"GET /fhir/metadata NONSENSE/9\r\n\r\n", 400, "value"),
        (get("/fhir/metadata", "X: " + "y" * 70_000), 431, "too-long"),
        (get("/fhir/metadata", "X: " + "y" * 40_000), 431, "too-long"),
        (get("/fhir/AllergyIntolerance?x=" + "y" * 9_000), 414, "too-long"),
        (
            b"POST /fhir/AllergyIntolerance HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n",
            413,
            "too-long",
        ),
        (
            b"POST /fhir/AllergyIntolerance HTTP/1.1\r\nHost: x\r\nContent-Length: nine\r\n\r\n",
            400,
            "value",
        ),
        (
            (
                b"POST /fhir/AllergyIntolerance HTTP/1.1\r\nHost: x\r\n"
                b"Transfer-Encoding: nonsense\r\n\r\n"
            ),
            400,
            "value",
        ),
        (get("/fhir/AllergyIntolerance"), 401, "login"),
        (get("/fhir/%00"), 404, "not-supported"),
    ],
)
def test_what_never_reaches_the_application_is_an_outcome_too(
    enduring, request_bytes, status, code
):
    assert_is_outcome(*enduring.ask(request_bytes), status, code)
    assert enduring.ask(get("/health/live"))[0].status == 200


def test_a_form_that_never_reaches_the_application_is_answered_by_a_sentence(enduring):
    head = b"POST /admin/imports HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
    response, body = enduring.ask(head)
    assert (response.status, response.headers["Content-Type"]) == (413, "text/plain; charset=utf-8")
    assert body.startswith(b"What you sent is larger than 1 MB, so nothing was done. Go back.")


def test_a_304_leaves_the_connection_open(start):
    kept = b"GET /fhir/metadata HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n"
    with start().connect() as connection:
        for _ in range(2):
            connection.sendall(kept)
            response, body = answer(connection)
            assert (response.status, body) == (304, b"")
            assert response.headers["Connection"] is None
        connection.sendall(get("/health/live"))
        assert answer(connection)[0].status == 200


def test_a_port_in_use_is_one_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = fhirapp(tmp_path, "serve", "--port", port)
    said = [line for line in done.stderr.splitlines() if line]
    assert done.returncode == 2
    assert said[-1].startswith(f"fhirapp: Cannot listen on 127.0.0.1 port {port} (")
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_database_stops_the_start(tmp_path):
    (tmp_path / "fhirapp.db").write_bytes(b"not a database" * 1000)
    assert_not_done(fhirapp(tmp_path, "serve", "--port", "0"), "cannot be used (")


def test_demo_mode_on_an_address_that_others_reach_is_refused(tmp_path):
    done = fhirapp(tmp_path, "serve", "--demo", "--host", "0.0.0.0", "--port", "0")
    assert_not_done(done, "FHIRAPP_BASE_URL")


def test_logs_are_json_lines_where_that_is_wanted(start, tmp_path: Any):
    server = start(LOG_FORMAT="json", LOG_LEVEL="DEBUG")
    os.kill(server.children()[0], signal.SIGKILL)
    while "is replaced" not in (text := (tmp_path / "log").read_text()):
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.05)
    records = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert [one["level"] for one in records if "is replaced" in one["message"]] == ["ERROR"]
    assert server.end() == 0


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 1_000),
        ({"cpu.max": "max 100000"}, 1_000),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "20000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 1_000),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
    ],
)
def test_a_container_has_as_many_processes_as_it_may_use_cores(tmp_path, monkeypatch, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(serve, "_CGROUP", tmp_path)
    assert serve._quota() == cores


@pytest.mark.parametrize(
    ("base_url", "port", "proxy", "seems"),
    [
        ("https://clinic.example", 8000, "", True),
        ("http://clinic.example", 8000, "", True),
        ("http://clinic.example", 80, "", False),
        ("http://clinic.example:8000", 8000, "", False),
        ("https://clinic.example", 8000, "10.0.0.7", False),
        ("", 8000, "", False),
    ],
)
def test_the_start_notices_a_proxy_that_is_not_named(base_url, port, proxy, seems):
    settings = Settings(base_url=base_url, port=port, trusted_proxy=proxy)
    assert seems_behind_proxy(settings) is seems


def test_networks_that_cannot_be_read_stop_the_start(tmp_path):
    done = fhirapp(tmp_path, "serve", "--port", "0", TRUSTED_PROXY="10.0.0.0/8, proxy")
    assert_not_done(done, "FHIRAPP_TRUSTED_PROXY", "10.0.0.7, 172.16.0.0/12")


def test_what_is_logged_over_and_over_is_counted():
    sparing, records = health.Sparing(), []
    for number in range(100):
        record = logging.LogRecord("a", logging.ERROR, "a.py", 1, "failed %s", (number,), None)
        record.created = 1_000_000.0
        records.append(sparing.filter(record))
    assert sum(records) == health.Sparing.PER_MINUTE
    elsewhere = logging.LogRecord("a", logging.ERROR, "a.py", 2, "other", (), None)
    elsewhere.created = 1_000_001.0
    assert sparing.filter(elsewhere)
    later = logging.LogRecord("a", logging.ERROR, "a.py", 1, "failed %s", (7,), None)
    later.created = 1_000_061.0
    assert sparing.filter(later)
    assert later.getMessage() == "failed 7 (90 like earlier ones were left out)"


def test_two_errors_of_one_handler_are_told_apart():
    sparing = health.Sparing()
    for error in (ValueError, KeyError):
        for number in range(20):
            try:
                raise error
            except error:
                info = sys.exc_info()
            record = logging.LogRecord("a", logging.ERROR, "a.py", 1, "failed", (), info)
            record.created = 1_000_000.0
            assert sparing.filter(record) == (number < health.Sparing.PER_MINUTE)
