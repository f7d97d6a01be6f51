"""The access log: a line for each request, to standard output or a file for each day.

Of an address it has the route alone: ids and what is searched for are patients' data, which only
the audit trail keeps. decisions §4.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from flask import Flask, Response, request

from fhirapp.auth.protector import request_id, used_token
from fhirapp.config import settings_of
from fhirapp.rest.middleware import milliseconds

FOLDER = "logs"
KEPT_DAYS = 14


def init_app(app: Flask) -> None:
    """Write a line for each answer, where the settings want it."""
    settings = settings_of(app)
    if settings.access_log == "off":
        return
    write: Callable[[str], None] = _print
    if settings.access_log == "files":
        write = _Files(settings.instance / FOLDER).write
    as_text = _text if settings.log_format == "text" else json.dumps

    def note(response: Response) -> Response:
        write(f"{as_text(_line(response))}\n")
        return response

    app.after_request(note)


def _line(response: Response) -> dict[str, Any]:
    token = used_token()
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "address": request.remote_addr or "",
        "client": token.client_id if token else "",
        "method": request.method if request.method.isalpha() else "?",
        "route": request.url_rule.rule if request.url_rule else "",
        "status": response.status_code,
        "bytes": response.content_length,
        "ms": round(milliseconds(), 1),
        "request": request_id(),
    }


def _text(line: dict[str, Any]) -> str:
    shown = {name: "-" if value in ("", None) else value for name, value in line.items()}
    return (
        "{time} {address} {client} {method} {route} {status} {bytes} {ms}ms {request}"
    ).format_map(shown)


def _print(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


class _Files:
    """A file for each day, which all processes append to; old ones are removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._day = ""
        self._descriptor = -1
        self._lock = Lock()

    def write(self, line: str) -> None:
        """Append a line; where that cannot be done, requests go on without."""
        day = line_day()
        try:
            with self._lock:
                if day != self._day:
                    self._open(day)
                os.write(self._descriptor, line.encode())
        except OSError:
            self._day = ""

    def _open(self, day: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        path = self._folder / f"access-{day}.log"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._day = day
        oldest = f"access-{line_day(KEPT_DAYS)}.log"
        for old in self._folder.glob("access-*.log"):
            if old.name < oldest:
                old.unlink(missing_ok=True)


def line_day(ago: int = 0) -> str:
    """Return the day, UTC, so many days ago."""
    return f"{datetime.now(UTC) - timedelta(days=ago):%Y-%m-%d}"
