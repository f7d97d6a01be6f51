"""The exports' rows: begun, claimed by one worker alone, ended, forgotten.

A claim is one conditional UPDATE: of all processes one wins. It holds for a lease that the worker
renews; who was killed renews nothing, and the next claim begins the export anew.

The table of exports. What was asked for, and what came of it, stands in the export's folder.
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
    """An export: whose it is and how far it is; never patient data. Times are seconds since 1970.

    A cancelled or expired one has no row.
    """

    __tablename__ = "bulk_export"

    # Random: it is the last part of the status address.
    id: Mapped[str] = mapped_column(primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id), index=True)
    # QUEUED, RUNNING, DONE or FAILED.
    state: Mapped[str]
    created_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    # How often it was begun; the number of the attempt at hand, whose files count.
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    # Until when the attempt is its worker's alone; None unless RUNNING.
    lease_until: Mapped[int | None] = mapped_column(Integer)
    percent: Mapped[int] = mapped_column(Integer, default=0)
    # Why it FAILED, as a sentence.
    error: Mapped[str | None]


LEASE_SECONDS = 30
# An export that ends its worker so often is at fault itself.
MOST_ATTEMPTS = 3
# Exports of one client: under way, and kept in all until they are deleted or expire.
UNDERWAY, KEPT = 2, 10
# How long a client is asked to wait that has too many.
WAIT_SECONDS = 60
# Files are removed so long after nobody may begin to fetch them: who had begun goes on.
GRACE_SECONDS = 3_600
_INTERRUPTED = "The export was begun several times, and never came to its end."


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
    """Queue an export. Raises Throttled where the client has enough."""
    with writing() as connection:
        mine = [_table.c.client_id == client_id, _table.c.expires_at > now]
        kept = _count(connection, *mine)
        if _count(connection, *mine, _table.c.state.in_((QUEUED, RUNNING))) >= UNDERWAY:
            raise _throttled(f"{UNDERWAY} exports of this client are under way; wait for one.")
        if kept >= KEPT:
            raise _throttled(
                f"{KEPT} exports of this client are kept; DELETE one that was fetched."
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
    """Return an export, None where there is none."""
    row = snapshot.first(f"SELECT {_COLUMNS} FROM bulk_export WHERE id = ?", (export_id,))
    return None if row is None else Job(*row)


def _claimable(now: int) -> Any:
    """Return the condition that nobody works on an export that is to be done."""
    lost = and_(_table.c.state == RUNNING, _table.c.lease_until < now)
    return and_(or_(_table.c.state == QUEUED, lost), _table.c.expires_at > now)


def waits(snapshot: Reader, now: int) -> bool:
    """Say whether there is an export to claim: asked often, so without the lock to write."""
    return (
        snapshot.first(
            "SELECT 1 FROM bulk_export WHERE (state = ? OR state = ? AND lease_until < ?)"
            " AND expires_at > ? LIMIT 1",
            (QUEUED, RUNNING, now, now),
        )
        is not None
    )


def claim(connection: Connection, now: int) -> Job | None:
    """Claim the export that has waited longest, within a writing transaction.

    None where there is none. One that was begun too often is ended.
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
    """Change the row of an attempt; say whether it is the worker's yet."""
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
    """Renew the lease of an attempt; say whether it is the worker's yet, and not cancelled."""
    return _change(job, percent=percent, lease_until=now + LEASE_SECONDS)


def release(job: Job) -> bool:
    """Give an attempt up, so that another worker begins anew at once; it does not count."""
    return _change(job, state=QUEUED, lease_until=None, percent=0, attempts=job.attempts - 1)


def finish(job: Job, now: int) -> bool:
    """End an export well; say whether it was the worker's yet."""
    values = {"state": DONE, "lease_until": None, "percent": 100, "expires_at": _expiry(now)}
    return _change(job, **values)


def fail(job: Job, error: str, now: int) -> bool:
    """End an export with a sentence that says why."""
    values = {"state": FAILED, "lease_until": None, "error": error, "expires_at": _expiry(now)}
    return _change(job, **values)


def forget(export_id: str) -> None:
    """Delete an export's row: whoever works on it stops."""
    with writing() as connection:
        connection.execute(delete(BulkExport).where(_table.c.id == export_id))


def forget_expired(snapshot: Reader, now: int) -> list[str]:
    """Delete the rows of exports that expired a while ago; return their ids."""
    before = now - GRACE_SECONDS
    if snapshot.first("SELECT 1 FROM bulk_export WHERE expires_at < ? LIMIT 1", (before,)) is None:
        return []
    with writing() as connection:
        expired = select(_table.c.id).where(_table.c.expires_at < before)
        found = list(connection.execute(expired).scalars())
        connection.execute(delete(BulkExport).where(_table.c.expires_at < before))
    return found


def known(snapshot: Reader) -> set[str]:
    """Return the ids of all exports."""
    return {row[0] for row in snapshot.all("SELECT id FROM bulk_export")}
