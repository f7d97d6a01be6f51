"""Append a line for each request under /fhir, before its answer leaves.

A file for each day in the instance folder, private; lines are JSON. One write call for each line,
so that processes that append at once do not mix them. Where a line cannot be written, because the
disk is full, the answer goes out all the same, and the log says so. Of a stranger, who could fill
the disk, little is kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from flask import Flask, Response, current_app, g, request

from fhirapp.audit.file import File
from fhirapp.audit.named import patients_named
from fhirapp.auth.access.protector import Token, used_token
from fhirapp.auth.access.refusals import request_id
from fhirapp.auth.clients.registration import PAGES
from fhirapp.config import settings_of
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import instant

FOLDER = "audit"
# Where the environment of a request says which of our pages asks.
VIA = "fhirapp.via"
# Characters of an address, and of the form of a search by POST: more tell nobody more.
_LONGEST = 4_000
# Of an address that came without a token that is known.
_LONGEST_OF_STRANGER = 200
_LONGEST_METHOD = 16
# Where the environment says that a page is noted too.
_BY_PAGE = "fhirapp.by_page"
# What JSON writes with six characters, an address with three.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_EXTENSION = "fhirapp.audit"
_SERVED, _BEGAN = "audit_served", "audit_began"


class _ByPage(NamedTuple):
    """Who fetches or begins something on a page that is not under /fhir."""

    user_id: str
    via: str
    what: str


def init_app(app: Flask) -> None:
    """Note every request under /fhir, and under /api, which is the same."""
    app.extensions[_EXTENSION] = File(settings_of(app).instance / FOLDER)
    app.before_request(_begin)
    app.after_request(_note)


def served(type_name: str, resource_id: str, version_id: int) -> None:
    """Note that a resource is in the answer to this request."""
    noted: list[str] | None = g.get(_SERVED)
    if noted is None:
        noted = []
        setattr(g, _SERVED, noted)
    noted.append(f"{type_name}/{resource_id}/{version_id}")


def note(user_id: str, via: str, what: str = "") -> None:
    """Note this request too, which is a page's: by it records are fetched, or begun to be.

    via is which of our pages, what is said beside the path, as a form says it; no secrets.
    """
    request.environ[_BY_PAGE] = _ByPage(user_id, via, what)


def _begin() -> None:
    setattr(g, _BEGAN, time.perf_counter())


def _note(response: Response) -> Response:
    environ = request.environ
    by_page: _ByPage | None = environ.get(_BY_PAGE)
    if by_page is None and not environ["PATH_INFO"].startswith(("/fhir", "/api/")):
        return response
    file: File = current_app.extensions[_EXTENSION]
    token, status = used_token(), response.status_code
    left_out: int | None = 0
    if status == 429:
        client_id = token.client_id if token else None
        left_out = file.count_throttled(client_id, time.monotonic())
        if left_out is None:
            return response
    began = g.get(_BEGAN)
    now = datetime.now(UTC)
    line = {
        "at": instant(now),
        "request": request_id(),
        "via": environ.get(VIA, ""),
        "method": environ["REQUEST_METHOD"][:_LONGEST_METHOD],
        "status": status,
        "ms": 0 if began is None else round(1_000 * (time.perf_counter() - began), 2),
        "served": g.get(_SERVED, ()),
        "body": "",
        "named": (),
    }
    if by_page is not None:
        _add_page(line, environ, by_page)
    elif token is not None:
        _add_known(line, environ, token)
    else:
        _add_stranger(line, environ)
    if left_out:
        line["body"] = f"and {left_out} more since the last line of this kind"
    file.append(now, fhir_json.dumps(line) + b"\n")
    return response


def _add_known(line: dict[str, Any], environ: Mapping[str, Any], token: Token) -> None:
    path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
    line["user"], line["client"] = token.user_id, token.client_id
    line["path"] = _text(_bytes(f"{path}?{query}" if query else path))
    body = request.get_data() if environ["REQUEST_METHOD"] == "POST" else b""
    if body:
        line["body"] = _text(body)
    if line["status"] < 400:
        # Of what came, not of what is kept of it.
        line["named"] = patients_named(path, query, body)


def _add_stranger(line: dict[str, Any], environ: Mapping[str, Any]) -> None:
    line["user"] = line["client"] = None
    line["path"] = _text(_bytes(environ["PATH_INFO"]), _LONGEST_OF_STRANGER)


def _add_page(line: dict[str, Any], environ: Mapping[str, Any], by: _ByPage) -> None:
    line["user"], line["client"], line["via"] = by.user_id, PAGES, by.via
    # Without its query and its form, where secrets may be.
    line["path"] = _text(_bytes(environ["PATH_INFO"]))
    line["body"] = _text(by.what.encode())


def _bytes(raw: str) -> bytes:
    """Return the bytes of an address, which WSGI has as Latin-1."""
    return raw.encode("latin-1", "replace")


def _text(raw: bytes, longest: int = _LONGEST) -> str:
    """Return what is kept of an address or a body; what is as long as longest may be cut off."""
    # No character has more bytes.
    return _CONTROL.sub(_escaped, raw[: 4 * longest].decode("utf-8", "replace"))[:longest]


def _escaped(sign: re.Match[str]) -> str:
    return f"%{ord(sign[0]):02X}"
