"""The log: its format, its rate limit, and the last warnings and errors for `fhirapp logs`.

Logs never hold patient data or tokens. decisions §1.

Each process appends warnings and errors to a file of the instance folder. A full file is kept until
the next file is full, so the size of both is limited.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TextIO

from flask import has_request_context

from fhirapp.auth.protector import request_id
from fhirapp.config import Settings
from fhirapp.file_locks import directory_lock

FOLDER, NAME, OLDER = "logs", "errors.ndjson", "errors.older.ndjson"
# The entries that are shown.
MOST = 500
# Limits of a file in bytes, and of an entry's message and the end of its traceback in characters.
_LARGEST, _LONGEST, _LONGEST_TRACEBACK = 512 * 1024, 2_000, 8_000


def configure(settings: Settings) -> None:
    """Send logs to standard error in the format of the settings; keep warnings and errors."""
    handler = LogHandler(sys.stderr, settings.instance)
    if settings.log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(RateLimit())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    # It warns of every request that waits for a thread.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content)


class RateLimit(logging.Filter):
    """Logs at most ten messages a minute from one place in the code, and counts the others.

    Otherwise a client that provokes a warning could fill the disk.
    """

    PER_MINUTE = 10

    def __init__(self) -> None:
        super().__init__()
        # logging calls filters without the handler's lock.
        self._lock = Lock()
        self._since = 0.0
        self._counts: Counter[tuple[str, str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        with self._lock:
            return self._filter(record)

    def _filter(self, record: logging.LogRecord) -> bool:
        if record.created - self._since >= 60:
            left_out = sum(max(0, count - self.PER_MINUTE) for count in self._counts.values())
            self._since = record.created
            self._counts.clear()
            if left_out:
                record.msg = f"{record.getMessage()} ({left_out} like earlier ones were left out)"
                record.args = ()
        origin = _origin(record)
        self._counts[origin] += 1
        return self._counts[origin] <= self.PER_MINUTE


def _origin(record: logging.LogRecord) -> tuple[str, str, int]:
    """Return the place in the code that a record, or its exception, comes from."""
    kind, _, trace = record.exc_info or (None, None, None)
    if kind is None or trace is None:
        return record.name, record.pathname, record.lineno
    while trace.tb_next is not None:
        trace = trace.tb_next
    return kind.__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno


class LogEntry(NamedTuple):
    """A warning or an error; request is the id that the client got, empty if there was none."""

    time: str
    level: str
    logger: str
    message: str
    request: str
    traceback: str


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes the log, and keeps warnings and errors."""

    def __init__(self, stream: TextIO, instance: Path) -> None:
        super().__init__(stream)
        self._folder = instance / FOLDER

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if record.levelno >= logging.WARNING:
            # A record that cannot be kept, as on a full disk, is in the log all the same.
            with suppress(OSError, ValueError, TypeError):
                _append(self._folder, _entry_of(record))


def last_errors(instance: Path) -> Sequence[LogEntry]:
    """Return the last entries of an instance folder's log, newest first."""
    newest = deque(_read(instance / FOLDER), MOST)
    return [*reversed(newest)]


def _entry_of(record: logging.LogRecord) -> LogEntry:
    traceback = ""
    if record.exc_info:
        traceback = logging.Formatter().formatException(record.exc_info)[-_LONGEST_TRACEBACK:]
    return LogEntry(
        time=_time(record),
        level=record.levelname,
        logger=record.name,
        message=_text(record.getMessage()[:_LONGEST]),
        request=request_id() if has_request_context() else "",
        traceback=_text(traceback),
    )


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _text(text: str) -> str:
    """Replace lone surrogates, which a file's name may contain and UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


def _append(folder: Path, entry: LogEntry) -> None:
    """Append an entry, to a new file if this one is full. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / NAME
    with directory_lock(folder):
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(folder / OLDER)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{json.dumps(entry._asdict())}\n".encode())
        finally:
            os.close(descriptor)


def _read(folder: Path) -> Iterator[LogEntry]:
    """Yield the entries of both files, oldest first."""
    for name in (OLDER, NAME):
        with suppress(OSError):
            for line in (folder / name).read_text("utf-8", "replace").splitlines():
                # A full disk may have cut a line off; another release may have other fields.
                with suppress(ValueError, TypeError, KeyError):
                    content = json.loads(line)
                    yield LogEntry(*(content[field] for field in LogEntry._fields))
