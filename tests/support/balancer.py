"""Several servers on one PostgreSQL behind a balancer, as the tests' clients ask them.

A test about THREE_SERVERS (databases.py) has an app that is the first of three. They share a
database, its secret and the folder of files, and nothing else. `app.test_client()` sends each
request to the next of them; what a test does with the app itself, it does with the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from http.client import HTTPConnection
from itertools import cycle
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.datastructures import Headers

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# Of one connection alone. RFC 9110 §7.6.1
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


def balance(app: Flask, targets: Sequence[WSGIApplication]) -> None:
    """Have the clients of an app ask these in turn."""
    turns = cycle(targets)

    class Balanced(FlaskClient):
        def run_wsgi_app(
            self, environ: dict[str, Any], buffered: bool = False
        ) -> tuple[Iterable[bytes], str, Headers]:
            self.application = next(turns)
            try:
                return super().run_wsgi_app(environ, buffered)
            finally:
                self.application = app

    app.test_client_class = Balanced


def _plain(port: int) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", port, timeout=60)


def through(port: int, connect: Callable[[int], HTTPConnection] = _plain) -> WSGIApplication:
    """Return an application whose answers are those of a server on a port of this machine."""

    def forward(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        headers = {
            name.removeprefix("HTTP_").replace("_", "-"): value
            for name, value in environ.items()
            if name.startswith("HTTP_") or (name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value)
        }
        headers.setdefault("X-FORWARDED-FOR", environ.get("REMOTE_ADDR", "127.0.0.1"))
        # REQUEST_URI lacks a query that came apart from its path.
        target = quote(environ["PATH_INFO"].encode("latin-1"), safe="/:$~")
        if environ["QUERY_STRING"]:
            target += f"?{environ['QUERY_STRING']}"
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with closing(connect(port)) as connection:
            connection.request(environ["REQUEST_METHOD"], target, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        kept = [pair for pair in answer.getheaders() if pair[0].lower() not in _HOP_BY_HOP]
        start_response(f"{answer.status} {answer.reason}", kept)
        return [content]

    return forward
