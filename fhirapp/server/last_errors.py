"""The last warnings and errors of this server's log, kept for a page and for `fhirapp logs`.

They are what the log says and no more: no patients' data, no tokens. Each process appends to a file
of the instance folder; a full one is kept beside it until the next is full, so both are bounded.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TextIO

from flask import has_request_context

from fhirapp.auth.protector import request_id
from fhirapp.disk import naming_in

FOLDER, NAME, OLDER = "logs", "errors.ndjson", "errors.older.ndjson"
# So many are shown.
MOST = 500
# Of one file; of one entry its message, and the end of its traceback.
_LARGEST, _LONGEST, _LONGEST_TRACEBACK = 512 * 1024, 2_000, 8_000


class LogEntry(NamedTuple):
    """A warning or an error; request is the id that the client was told, empty where none was."""

    time: str
    level: str
    logger: str
    message: str
    request: str
    traceback: str


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes the log, and keeps what is a warning or worse."""

    def __init__(self, stream: TextIO, instance: Path) -> None:
        super().__init__(stream)
        self._folder = instance / FOLDER

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if record.levelno >= logging.WARNING:
            # Where the disk is full, the log has it still; one that no text can be made of, too.
            with suppress(OSError, ValueError, TypeError):
                _append(self._folder, _entry_of(record))


def _entry_of(record: logging.LogRecord) -> LogEntry:
    traceback = ""
    if record.exc_info:
        traceback = logging.Formatter().formatException(record.exc_info)[-_LONGEST_TRACEBACK:]
    return LogEntry(
        time=datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        level=record.levelname,
        logger=record.name,
        message=_text(record.getMessage()[:_LONGEST]),
        request=request_id() if has_request_context() else "",
        traceback=_text(traceback),
    )


def _text(text: str) -> str:
    """Replace lone surrogates, which a file's name may contain and UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


def _append(folder: Path, entry: LogEntry) -> None:
    """Append an entry, to a new file where this one is full. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / NAME
    with naming_in(folder):
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(folder / OLDER)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{json.dumps(entry._asdict())}\n".encode())
        finally:
            os.close(descriptor)


def last_errors(instance: Path) -> Sequence[LogEntry]:
    """Return the last entries of the log in an instance folder, newest first."""
    newest = deque(_read(instance / FOLDER), MOST)
    return [*reversed(newest)]


def _read(folder: Path) -> Iterator[LogEntry]:
    """Yield the entries of both files, oldest first."""
    for name in (OLDER, NAME):
        with suppress(OSError):
            for line in (folder / name).read_text("utf-8", "replace").splitlines():
                # A full disk may have cut a line off; another release may have other fields.
                with suppress(ValueError, TypeError, KeyError):
                    content = json.loads(line)
                    yield LogEntry(*(content[field] for field in LogEntry._fields))
