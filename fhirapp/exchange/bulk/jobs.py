"""The table of exports: queued, claimed by one worker, ended, removed.

A claim is a conditional UPDATE, so only one process wins. It holds for a lease that the worker
renews. The lease of a killed worker runs out, and the next claim starts the export again. The
request and the files are in the export's folder.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    ForeignKey,
    Integer,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.auth.models import Client
from fhirapp.config import settings
from fhirapp.db import Base, Reader, writing
from fhirapp.fhir.outcome import Throttled

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"


class BulkExport(Base):
    """An export: its client and its progress, never patient data. Times are seconds since 1970.

    A cancelled or expired export has no row.
    """

    __tablename__ = "bulk_export"

    # Random, since it is the last part of the status URL.
    id: Mapped[str] = mapped_column(primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id), index=True)
    # QUEUED, RUNNING, DONE or FAILED.
    state: Mapped[str]
    created_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    # The number of the current attempt, whose files count.
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    # The end of the worker's lease; None unless RUNNING.
    lease_until: Mapped[int | None] = mapped_column(Integer)
    percent: Mapped[int] = mapped_column(Integer, default=0)
    # The reason of FAILED, as a sentence.
    error: Mapped[str | None]


LEASE_SECONDS = 30
# An export whose worker dies this often is itself the cause.
MOST_ATTEMPTS = 3
# The most exports of one client: in progress, and in all until deleted or expired.
IN_PROGRESS, KEPT = 2, 10
# Retry-After for a client that has too many.
WAIT_SECONDS = 60
# Files are removed this long after the expiry, so that a download in progress can finish.
GRACE_SECONDS = 3_600
_INTERRUPTED = "The export was started several times, but never finished."


class Job(NamedTuple):
    """An export's row."""

    id: str
    client_id: str
    state: str
    created_at: int
    expires_at: int
    attempts: int
    lease_until: int | None
    percent: int
    error: str | None


_COLUMNS = ", ".join(Job._fields)
_table = BulkExport.__table__


def new_id() -> str:
    """Return the id of a new export, of 192 random bits."""
    return secrets.token_urlsafe(24)


def add(export_id: str, client_id: str, now: int) -> None:
    """Queue an export. Raises Throttled if the client has too many."""
    with writing() as connection:
        mine = [_table.c.client_id == client_id, _table.c.expires_at > now]
        kept = _count(connection, *mine)
        if _count(connection, *mine, _table.c.state.in_((QUEUED, RUNNING))) >= IN_PROGRESS:
            raise _throttled(
                f"{IN_PROGRESS} exports of this client are in progress; wait for one to finish."
            )
        if kept >= KEPT:
            raise _throttled(
                f"{KEPT} exports of this client are kept; DELETE one that you have fetched."
            )
        row = {
            "id": export_id,
            "client_id": client_id,
            "state": QUEUED,
            "created_at": now,
            "expires_at": _expiry(now),
            "attempts": 0,
            "percent": 0,
        }
        connection.execute(insert(BulkExport), [row])


def _count(connection: Connection, *conditions: Any) -> int:
    return connection.execute(select(func.count()).where(*conditions)).scalar() or 0


def _throttled(diagnostics: str) -> Throttled:
    return Throttled(diagnostics, headers={"Retry-After": str(WAIT_SECONDS)})


def _expiry(now: int) -> int:
    return now + settings().export_hours * 3_600


def find(snapshot: Reader, export_id: str) -> Job | None:
    """Return an export, None if there is none."""
    row = snapshot.first(f"SELECT {_COLUMNS} FROM bulk_export WHERE id = ?", (export_id,))
    return None if row is None else Job(*row)


def _claimable(now: int) -> Any:
    """Return the condition for an unfinished export without a live worker."""
    lost = and_(_table.c.state == RUNNING, _table.c.lease_until < now)
    return and_(or_(_table.c.state == QUEUED, lost), _table.c.expires_at > now)


def has_claimable(snapshot: Reader, now: int) -> bool:
    """Return whether there is an export to claim. Called often, so it takes no write lock."""
    return (
        snapshot.first(
            "SELECT 1 FROM bulk_export WHERE (state = ? OR state = ? AND lease_until < ?)"
            " AND expires_at > ? LIMIT 1",
            (QUEUED, RUNNING, now, now),
        )
        is not None
    )


def claim(connection: Connection, now: int) -> Job | None:
    """Claim the oldest queued export within a writing transaction; None if there is none.

    Exports with too many attempts fail.
    """
    connection.execute(
        update(BulkExport)
        .where(_claimable(now), _table.c.attempts >= MOST_ATTEMPTS)
        .values(state=FAILED, error=_INTERRUPTED, lease_until=None, expires_at=_expiry(now))
    )
    waiting = select(_table.c.id).where(_claimable(now)).order_by(_table.c.created_at).limit(1)
    export_id = connection.execute(waiting).scalar_one_or_none()
    won = connection.execute(
        update(BulkExport)
        .where(_table.c.id == export_id, _claimable(now))
        .values(
            state=RUNNING,
            attempts=_table.c.attempts + 1,
            lease_until=now + LEASE_SECONDS,
            percent=0,
        )
    )
    if won.rowcount != 1:
        return None
    columns = [_table.c[name] for name in Job._fields]
    return Job(*connection.execute(select(*columns).where(_table.c.id == export_id)).one())


def _change(job: Job, **values: Any) -> bool:
    """Change the row of an attempt; return whether the worker still owns it."""
    with writing() as connection:
        changed = connection.execute(
            update(BulkExport)
            .where(
                _table.c.id == job.id,
                _table.c.state == RUNNING,
                _table.c.attempts == job.attempts,
            )
            .values(**values)
        )
    return changed.rowcount == 1


def renew(job: Job, percent: int, now: int) -> bool:
    """Renew the lease of an attempt; return whether the worker still owns it."""
    return _change(job, percent=percent, lease_until=now + LEASE_SECONDS)


def release(job: Job) -> bool:
    """Queue the export again at once; the attempt does not count."""
    return _change(job, state=QUEUED, lease_until=None, percent=0, attempts=job.attempts - 1)


def finish(job: Job, now: int) -> bool:
    """Mark an export as done; return whether the worker still owned it."""
    return _change(job, state=DONE, lease_until=None, percent=100, expires_at=_expiry(now))


def fail(job: Job, error: str, now: int) -> bool:
    """Mark an export as failed, with the reason as a sentence."""
    return _change(job, state=FAILED, lease_until=None, error=error, expires_at=_expiry(now))


def delete_export(export_id: str) -> None:
    """Delete an export's row, which stops its worker."""
    with writing() as connection:
        connection.execute(delete(BulkExport).where(_table.c.id == export_id))


def delete_expired(snapshot: Reader, now: int) -> list[str]:
    """Delete the rows of exports that expired GRACE_SECONDS ago; return their ids."""
    before = now - GRACE_SECONDS
    if snapshot.first("SELECT 1 FROM bulk_export WHERE expires_at < ? LIMIT 1", (before,)) is None:
        return []
    with writing() as connection:
        expired = select(_table.c.id).where(_table.c.expires_at < before)
        export_ids = list(connection.execute(expired).scalars())
        connection.execute(delete(BulkExport).where(_table.c.expires_at < before))
    return export_ids


def all_ids(snapshot: Reader) -> set[str]:
    """Return the ids of all exports."""
    return {row[0] for row in snapshot.all("SELECT id FROM bulk_export")}
