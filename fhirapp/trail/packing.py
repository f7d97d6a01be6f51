"""Pack the trail's files of past days, and remove those that are kept no longer.

The two newest files stay as they are: lines are still appended, or were a moment ago. In PostgreSQL
whole chains are removed, by the day on which they were begun.
"""

from __future__ import annotations

import gzip
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import delete, func, select

from fhirapp.config import Settings
from fhirapp.db import db
from fhirapp.disk import take, written_whole
from fhirapp.trail import FOLDER
from fhirapp.trail.chain import SUFFIX, files
from fhirapp.trail.events import LISTED, PACKED, record
from fhirapp.trail.table import (
    LOCK,
    AuditChain,
    AuditEntryRow,
    AuditFile,
    AuditLine,
    AuditSeen,
    day_of,
)

_LOCK = ".packing"
_PIECE = 1024 * 1024
_UNPACKED = 2


def pack(settings: Settings, now: datetime | None = None) -> None:
    """Pack old files, and remove what is older than the settings keep. Raises OSError."""
    last = (now or datetime.now(UTC)) - timedelta(days=settings.audit_keep)
    oldest = f"{last:%Y-%m-%d}" if settings.audit_keep else ""
    if settings.is_postgresql:
        if oldest:
            _remove_rows(oldest)
        return
    folder = settings.instance / FOLDER
    old = files(folder)[:-_UNPACKED]
    gone = [file for file in old if file.name[:10] < oldest]
    unpacked = [file for file in old if file.name.endswith(SUFFIX) and file not in gone]
    lists = [file for file in folder.glob(f"*{LISTED}") if file.name[:10] < oldest]
    if not (gone or unpacked or lists):
        return
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if take(descriptor, alone=True) is False:
            return
        for file in unpacked:
            _pack(file)
        if gone:
            record(PACKED, what=f"{gone[0].name[:10]} to {gone[-1].name[:10]}")
            for file in gone:
                file.unlink(missing_ok=True)
                # What was left when a process ended between two steps.
                file.with_name(f"{file.name[:10]}{SUFFIX}").unlink(missing_ok=True)
        for file in lists:
            file.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _pack(file: Path) -> None:
    with suppress(FileNotFoundError), file.open("rb") as lines:
        target = file.with_name(f"{file.name}.gz")
        with written_whole(target, like=file) as written, gzip.open(written, "wb", 6) as packed:
            shutil.copyfileobj(lines, packed, _PIECE)
        file.unlink()


def _remove_rows(oldest: str) -> None:
    """Remove the chains that were begun before a day, and the lists of that time."""
    chains = select(AuditChain.name).where(AuditChain.name < oldest)
    lists = AuditFile.name.endswith(LISTED) & (AuditFile.name < oldest)
    with db.engine.begin() as connection:
        if not connection.execute(select(func.pg_try_advisory_xact_lock(LOCK))).scalar():
            return
        names = connection.execute(chains.order_by(AuditChain.name)).scalars().all()
        if names:
            # Before they go: a chain that is missing without that is a fault.
            record(PACKED, what=f"{day_of(names[0])} to {day_of(names[-1])}")
            numbers = select(AuditLine.pk).where(AuditLine.chain.in_(chains))
            connection.execute(delete(AuditSeen).where(AuditSeen.number.in_(numbers)))
            connection.execute(delete(AuditEntryRow).where(AuditEntryRow.number.in_(numbers)))
            connection.execute(delete(AuditLine).where(AuditLine.chain.in_(chains)))
            connection.execute(delete(AuditChain).where(AuditChain.name < oldest))
        connection.execute(delete(AuditFile).where(lists))
