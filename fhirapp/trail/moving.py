"""Bring the trail's files into PostgreSQL: of a server that kept them in its instance folder.

Each file is a chain of its own, with its lines as they are, and is checked as it was in the folder:
the digests of one day's go on in the next's. What was brought in is moved to a folder below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import Connection, func, insert, select

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db
from fhirapp.disk import because
from fhirapp.trail import FOLDER, trail_of
from fhirapp.trail.chain import Head, Unwritable, files, opened, split
from fhirapp.trail.events import LISTED, SETTINGS
from fhirapp.trail.table import (
    FIRST_NUMBER,
    LOCK,
    AuditChain,
    AuditFile,
    AuditLine,
    TableTrail,
)

BROUGHT_IN = "brought-in"
_FILES = ".ndjson-"
_AT_ONCE = 2_000


def is_of_files(chain: str) -> bool:
    """Say whether a chain is a day's file that was brought in."""
    return chain[10:].startswith(_FILES)


def stream_of(chain: str) -> str:
    """Return what the chains of one folder's files have in common."""
    return chain[10:]


def bring_in(app: Flask) -> int:
    """Bring the files of the app's folder in, where its trail is in PostgreSQL; return how many.

    Raises ConfigurationError.
    """
    settings = settings_of(app)
    folder = settings.instance / FOLDER
    if not (settings.is_postgresql and files(folder)):
        return 0
    table = trail_of(app)
    assert isinstance(table, TableTrail)
    try:
        with db.engine.connect() as lock:
            # Until the connection is given back: another server may have the same folder.
            lock.execute(select(func.pg_advisory_xact_lock(LOCK)))
            days = files(folder)
            if not days:
                return 0
            with db.engine.begin() as connection:
                table.brought = _bring_in(connection, folder, days)
            table.head()
            _move(folder)
    except (OSError, Unwritable) as error:
        reason = because(error) if isinstance(error, OSError) else error.reason
        raise ConfigurationError(
            f"The audit trail in {folder} cannot be brought into the database ({reason}); give "
            "this user the right to write both."
        ) from None
    return len(days)


def _bring_in(connection: Connection, folder: Path, days: list[Path]) -> dict[str, Head]:
    """Insert the lines of files and what is beside them; return the last line of each chain."""
    from sqlalchemy.dialects import postgresql

    with opened(days[0]) as first:
        stream = f"{_FILES}{hashlib.sha256(first.readline()).hexdigest()[:12]}"
    counts = {day: sum(1 for _ in _lines(day)) for day in days}
    lowest = connection.execute(select(func.min(AuditLine.pk))).scalar() or FIRST_NUMBER
    # Older than what was written to the table.
    pk = min(lowest, FIRST_NUMBER) - sum(counts.values()) - 1
    ends: dict[str, Head] = {}
    for day in days:
        chain = f"{day.name[:10]}{stream}"
        new = postgresql.insert(AuditChain).values(name=chain, done=0, is_over=False)
        made = new.on_conflict_do_nothing().returning(AuditChain.name)
        is_new = connection.execute(made).first() is not None
        numbered = enumerate(_lines(day), 1)
        while some := [*islice(numbered, _AT_ONCE)]:
            rows: list[dict[str, Any]] = [
                {"pk": pk + n, "n": n, "hash": _digest(line), "line": line} for n, line in some
            ]
            # Else it was brought in, and a process ended before the file was moved.
            if is_new:
                same = {"chain": chain, "is_head": False}
                connection.execute(insert(AuditLine).values(same), rows)
            for one in rows:
                # What was torn off has no digest.
                if one["hash"]:
                    ends[chain] = Head(one["n"], one["hash"])
        pk += counts[day]
    for path in _beside(folder):
        file = postgresql.insert(AuditFile).values(name=path.name, content=path.read_bytes())
        connection.execute(file.on_conflict_do_nothing())
    return ends


def _digest(line: bytes) -> str:
    parts = split(line)
    return parts[1].digest if parts else ""


def _lines(day: Path) -> Iterator[bytes]:
    with opened(day) as lines:
        yield from lines


def _beside(folder: Path) -> list[Path]:
    return [*folder.glob(f"*{LISTED}"), *folder.glob(SETTINGS)]


def _move(folder: Path) -> None:
    target = folder / BROUGHT_IN
    target.mkdir(mode=0o700, exist_ok=True)
    for path in [*files(folder), *_beside(folder)]:
        path.replace(target / path.name)
