"""Requests to addresses of ours within another request: of our own pages, and of a batch.

Each goes through the whole application, as if it came over HTTP: the same requests are refused,
logged and audited.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from flask import current_app, request
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder, run_wsgi_app

from fhirapp import urls
from fhirapp.fhir import json as fhir_json
from fhirapp.rest.recorder import VIA

_IN_BATCH = "fhirapp.in_batch"


class InternalResponse(NamedTuple):
    """The answer of an address of ours, and how long it took.

    line is the status line: 200 OK. is_cut: the body is longer than was wanted, and cut.
    """

    line: str
    headers: Headers
    body: bytes
    seconds: float
    is_cut: bool = False

    @property
    def status(self) -> int:
        return int(self.line[:3])

    @property
    def size(self) -> int:
        """The bytes of the whole body."""
        length = self.headers.get("Content-Length", type=int)
        return length if self.is_cut and length else len(self.body)

    def json(self) -> Any:
        """Return the body as JSON. Raises ValueError where it is none."""
        return fhir_json.loads(self.body)


def ask(
    path: str,
    authorization: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | Headers | None = None,
    body: bytes = b"",
    via: str = "",
    most: int | None = None,
    in_batch: bool = False,
) -> InternalResponse:
    """Send a request to an address of ours, path with its query: /fhir/Patient/p1.

    via names the page that asks, for the audit trail; empty where no page does. A body of more than
    most bytes is cut at the chunk that exceeds them. in_batch says that it is an entry of a batch.
    """
    path, _mark, query = path.partition("?")
    sent = Headers(headers)
    sent["Authorization"] = authorization
    server = urlsplit(urls.base_url())
    builder = EnvironBuilder(
        path,
        f"{server.scheme}://{server.netloc}",
        query_string=query,
        method=method,
        headers=sent,
        data=body or None,
        environ_base={
            "REMOTE_ADDR": request.remote_addr or "",
            VIA: via,
            _IN_BATCH: in_batch,
        },
    )
    began = time.perf_counter()
    # In a context of its own: snapshot, token and line in the audit trail belong to one request.
    with current_app.app_context():
        chunks, line, answered = run_wsgi_app(current_app.wsgi_app, builder.get_environ())
        content, is_cut = _body(chunks, most)
        if close := getattr(chunks, "close", None):
            close()
    return InternalResponse(line, answered, content, time.perf_counter() - began, is_cut)


def is_in_batch() -> bool:
    """Say whether the request that is served is an entry of a batch."""
    return bool(request.environ.get(_IN_BATCH))


def _body(chunks: Iterable[bytes], most: int | None) -> tuple[bytes, bool]:
    """Return the body as far as it is wanted, and whether it is cut."""
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if most is not None and size > most:
            return b"".join(pieces), True
    return b"".join(pieces), False
