"""The last warnings and errors of the log, kept for a page and for `fhirapp logs`.

They are what the log says and no more: no patients' data, no tokens. Each process appends to a file
of the instance folder; a full one is kept beside it until the next is full, so both are bounded.
Servers on one PostgreSQL put theirs in a table too, so that each of them shows those of all.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TextIO, cast

from flask import Flask, has_request_context
from sqlalchemy import Connection, Table, delete, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.auth.protector import request_id
from fhirapp.config import settings_of
from fhirapp.db import Base, Busy, database_errors, db, writing
from fhirapp.disk import naming_in

FOLDER, NAME, OLDER = "logs", "errors.ndjson", "errors.older.ndjson"
# So many are shown, and kept in the table.
MOST = 500
# Of one file; of one entry its message, and the end of its traceback.
_LARGEST, _LONGEST, _LONGEST_TRACEBACK = 512 * 1024, 2_000, 8_000
_LOOK_SECONDS = 1.0
# Of this process, and not in the table yet.
_unshared: deque[dict[str, str]] = deque(maxlen=100)


class LogLine(Base):
    """A warning or an error of a server."""

    __tablename__ = "log_line"

    # The time first: sorted by when it was logged.
    key: Mapped[str] = mapped_column(primary_key=True)
    line: Mapped[Any]


class Entry(NamedTuple):
    """A warning or an error; request is the id that the client was told, empty where none was."""

    key: str
    time: str
    level: str
    logger: str
    message: str
    request: str
    traceback: str
    server: str


class Log(logging.StreamHandler[TextIO]):
    """Writes the log, and keeps what is a warning or worse."""

    def __init__(self, stream: TextIO, instance: Path) -> None:
        super().__init__(stream)
        self._folder = instance / FOLDER

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if record.levelno >= logging.WARNING:
            # Where the disk is full, the log has it still; one that no text can be made of, too.
            with suppress(OSError, ValueError, TypeError):
                entry = _entry_of(record)
                _unshared.append(entry)
                _append(self._folder, entry)


def _entry_of(record: logging.LogRecord) -> dict[str, str]:
    traceback = ""
    if record.exc_info:
        traceback = logging.Formatter().formatException(record.exc_info)[-_LONGEST_TRACEBACK:]
    entry = Entry(
        key=f"{time.time_ns():016x}{secrets.token_hex(4)}",
        time=datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        level=record.levelname,
        logger=record.name,
        message=_text(record.getMessage()[:_LONGEST]),
        request=request_id() if has_request_context() else "",
        traceback=_text(traceback),
        server=socket.gethostname(),
    )
    return entry._asdict()


def _text(text: str) -> str:
    """Return a text that the table takes: a file's name may hold what is no character."""
    return text.encode(errors="replace").decode()


def _append(folder: Path, entry: Mapping[str, str]) -> None:
    """Append an entry, to a new file where this one is full. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / NAME
    with naming_in(folder):
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(folder / OLDER)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{json.dumps(entry)}\n".encode())
        finally:
            os.close(descriptor)


def last_errors(app: Flask) -> Sequence[Entry]:
    """Return what is kept, the newest first; within the app's context."""
    found = {entry.key: entry for entry in _in_files(settings_of(app).instance / FOLDER)}
    if settings_of(app).is_postgresql:
        # Those of this server are in its files, whatever the database does.
        with suppress(*database_errors()), db.engine.connect() as connection:
            table = cast(Table, LogLine.__table__)
            found |= {
                line["key"]: Entry(**line) for line in connection.scalars(select(table.c.line))
            }
    return sorted(found.values(), reverse=True)[:MOST]


def _in_files(folder: Path) -> Iterator[Entry]:
    for name in (OLDER, NAME):
        with suppress(OSError):
            for line in (folder / name).read_text("utf-8", "replace").splitlines():
                # One that a full disk cut off, or another release wrote.
                with suppress(ValueError, TypeError):
                    yield Entry(**json.loads(line))


def share(app: Flask) -> None:
    """Have a thread of this process put its entries in the table, where servers share one."""
    if settings_of(app).is_postgresql:
        Thread(target=_share, args=(app,), name="last errors", daemon=True).start()


def _share(app: Flask) -> None:
    while True:
        time.sleep(_LOOK_SECONDS)
        if _unshared:
            with app.app_context(), suppress(Busy, *database_errors()):
                share_now()


def share_now() -> None:
    """Put this process's entries in the table, and remove the oldest there."""
    mine = {entry["key"]: entry for entry in list(_unshared)}
    with writing() as connection:
        _put_in_table(connection, mine)
    while _unshared and _unshared[0]["key"] in mine:
        _unshared.popleft()


def _put_in_table(connection: Connection, mine: Mapping[str, Mapping[str, str]]) -> None:
    table = cast(Table, LogLine.__table__)
    # A process that was forked has those of its parent, as its siblings have.
    there = set(connection.scalars(select(table.c.key).where(table.c.key.in_(mine))))
    if rows := [{"key": key, "line": line} for key, line in mine.items() if key not in there]:
        connection.execute(insert(table), rows)
    newest = select(table.c.key).order_by(table.c.key.desc()).offset(MOST - 1).limit(1)
    if oldest := connection.scalar(newest):
        connection.execute(delete(table).where(table.c.key < oldest))
