"""Servers of a clinic that outgrew one machine: three, behind nginx, on one PostgreSQL.

Each is `fhirapp serve` in a process and an instance folder of its own. The app of a Cluster is one
more in this process: its clients ask nginx, and what a test arranges with it is in the database.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import Client, TestResponse

from fhirapp import create_app
from fhirapp.db import db
from fhirapp.environment import load_settings
from tests.support.balancer import balance, through
from tests.support.helpers import BASE_URL
from tests.support.postgres_server import Postgres, binaries, postgres_server
from tests.support.shell import MAIN, environment, fhirapp

_LONGEST_SECONDS = 60
# The most that a change takes to reach every server.
SOON = 1.0
_DATABASE = "fhirapp"
_NGINX = """
{user}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream fhirapp {{
    {upstream}
  }}
  upstream sticky {{
    hash $http_x_forwarded_for;
    {upstream}
  }}
  server {{
    listen 127.0.0.1:{port};
    client_max_body_size 64m;
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_connect_timeout 1s;
    # A request that was sent is sent again where it reads: nginx leaves POST out by itself.
    proxy_next_upstream error timeout;
    add_header X-Server $upstream_addr always;
    location / {{
      proxy_pass http://fhirapp;
    }}
    location /admin/ {{
      proxy_pass http://sticky;
    }}
  }}
}}
"""


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Server:
    """One of the servers; it keeps its port and its folder when it is started again."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.folder, self.settings = folder, settings
        self.port = free_port()
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._client = Client(through(self.port), use_cookies=False)
        folder.mkdir(exist_ok=True)

    def start(self) -> None:
        """Start it; wait_until_live() waits."""
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-c", MAIN, "serve", "--port", str(self.port)],
                env=environment(self.folder, **self.settings),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_live(self) -> None:
        """Wait until it answers."""
        assert self._process is not None
        deadline = time.monotonic() + _LONGEST_SECONDS
        while True:
            with suppress(OSError, HTTPException):
                if self.get("/health/ready").status_code == 200:
                    return
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def get(self, path: str, token: str = "", **headers: str) -> TestResponse:
        """Ask this server and no other."""
        sent = {"Host": BASE_URL.partition("//")[2], **headers}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        return self._client.get(path, headers=sent)

    def command(self, *words: str) -> str:
        """Run a command with this server's folder and settings; return what it prints."""
        done = fhirapp(self.folder, *words, **self.settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self) -> list[int]:
        """Return the ids of the processes that it began, of jobs."""
        return [] if self._process is None else _children(self._process.pid)

    def kill(self) -> None:
        """Kill it with every process that it began, as a machine that loses its power."""
        assert self._process is not None
        # Stopped first, so that nothing begins another meanwhile.
        found = [self._process.pid]
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
            found += _children(pid)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        self._process.wait(_LONGEST_SECONDS)
        self._process = None

    def stop(self) -> None:
        """End it as its operator does."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()


def _children(pid: int) -> list[int]:
    # Each thread has those that it began.
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for found in lists for child in found.read_text().split()]


class Cluster:
    """The servers, their databases, and the app whose clients ask them through nginx."""

    def __init__(self, servers: list[Server], postgres: Postgres) -> None:
        self.servers, self.postgres = servers, postgres
        self.port = free_port()
        # As the first starts printed them.
        self.setup_codes = [_setup_codes(server) for server in servers]
        settings = {f"FHIRAPP_{name}": value for name, value in servers[0].settings.items()}
        folder = servers[0].folder.with_name("tests")
        self.app = create_app(load_settings(settings, instance_path=str(folder)))
        balance(self.app, [through(self.port)])

    def everywhere(self, answers: Callable[[Server], Any], expected: Any) -> None:
        """Assert that each server answers so, SOON at the latest."""
        deadline = time.monotonic() + SOON
        while True:
            # What is asked after the deadline counts no more.
            is_last = time.monotonic() > deadline
            if (found := [answers(server) for server in self.servers]) == [expected] * 3:
                return
            assert not is_last, found
            time.sleep(0.01)

    def wait(self, ask: Callable[[], Any], is_it: Callable[[Any], bool]) -> Any:
        """Return an answer once it is what is waited for."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not is_it(found := ask()):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return found


def _setup_codes(server: Server) -> list[str]:
    return re.findall(r"/setup\?code=(\S+)", server.log.read_text())


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Run three servers, begun at once on an empty database, behind nginx."""
    with ExitStack() as stack:
        databases = folder / "pg"
        databases.mkdir()
        postgres = stack.enter_context(postgres_server(databases))
        postgres.run("createdb", "-h", str(databases), "-U", "postgres", _DATABASE)
        settings = {
            "DATABASE_URL": postgres.url(_DATABASE),
            "SECRET": "a secret of 32 characters or more",
            "FILES": str(folder / "files"),
            "BASE_URL": BASE_URL,
            "TRUSTED_PROXY": "127.0.0.1",
            "PROCESSES": "1",
        }
        (folder / "files").mkdir()
        servers = [Server(folder / f"server-{number}", settings) for number in (1, 2, 3)]
        for server in servers:
            server.start()
            stack.callback(server.stop)
        for server in servers:
            server.wait_until_live()
        running = Cluster(servers, postgres)
        stack.callback(_close, running.app)
        stack.enter_context(_nginx(folder, running))
        yield running


def _close(app: Flask) -> None:
    with app.app_context():
        db.engine.dispose()


@contextmanager
def _nginx(folder: Path, running: Cluster) -> Iterator[None]:
    """Run nginx before the servers: each request to the next, each address's pages to one."""
    lines = [
        f"server 127.0.0.1:{server.port} max_fails=1 fail_timeout=1s;" for server in running.servers
    ]
    user = "user root;" if os.geteuid() == 0 else ""
    written = _NGINX.format(
        folder=folder, user=user, port=running.port, upstream="\n    ".join(lines)
    )
    config = folder / "nginx.conf"
    config.write_text(written)
    process = subprocess.Popen(
        [_nginx_program(), "-p", folder, "-c", config, "-e", folder / "nginx.log"]
    )
    try:
        deadline = time.monotonic() + _LONGEST_SECONDS
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", running.port), 1):
                break
            assert process.poll() is None, (folder / "nginx.log").read_text()
            assert time.monotonic() < deadline, (folder / "nginx.log").read_text()
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(_LONGEST_SECONDS)


def _nginx_program() -> str | None:
    # Debian has it where only root's path leads.
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


def need_programs() -> None:
    """Skip where nginx or PostgreSQL is not there; fail where they must be."""
    if _nginx_program() is None or binaries() is None:
        pytest.fail("needs nginx and PostgreSQL's programs, as Debian's packages bring them")
