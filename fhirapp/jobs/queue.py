"""The table of jobs: queued, claimed for a lease, ended, deleted.

A claim is a conditional UPDATE, so that one process has a job, for a lease that it renews. When a
process dies, its leases run out: jobs of some kinds are then claimed again, those of the others are
marked as interrupted. Times are seconds since 1970.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, Index, Integer, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base, Reader, RowNumber, db, writing

QUEUED, RUNNING = "queued", "running"
DONE, FAILED, STOPPED, INTERRUPTED = "done", "failed", "stopped", "interrupted"
UNDER_WAY = (QUEUED, RUNNING)
# Where a job is that runs: begun, behind another import, at work.
BEGINS, WAITS, WORKS = "begins", "waits", "works"
LEASE_SECONDS = 30
# A job whose process dies this often is itself the cause.
MOST_ATTEMPTS = 3
NEVER_FINISHED = "It was started several times, but never finished."
_ID = re.compile(r"[0-9a-f]{24}")


class JobRow(Base):
    """A job: who asked for what, and how far it is. No patient data."""

    __tablename__ = "job"
    __table_args__ = (Index("ix_job_kind_owner", "kind", "owner"),)

    # In the order in which jobs were added.
    number: Mapped[int] = mapped_column(RowNumber, primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    # A client's id, or the name of a user.
    owner: Mapped[str]
    state: Mapped[str]
    created_at: Mapped[int] = mapped_column(Integer)
    ended_at: Mapped[int | None] = mapped_column(Integer)
    expires_at: Mapped[int | None] = mapped_column(Integer, index=True)
    # The number of the current attempt.
    attempts: Mapped[int] = mapped_column(Integer)
    # The end of the lease; None unless RUNNING.
    lease_until: Mapped[int | None] = mapped_column(Integer)
    # How often a user asked it to stop.
    stop_requests: Mapped[int] = mapped_column(Integer)
    request: Mapped[Any]
    progress: Mapped[Any]
    # Why it failed, as a sentence.
    error: Mapped[str | None]


_table = JobRow.__table__


@dataclass
class Progress:
    """How far a job is.

    done and total are of bytes, versions or percent, a total of None is not known; counts are by
    type and outcome; notes are sentences.
    """

    # Of a job that runs: BEGINS, WAITS or WORKS.
    phase: str = BEGINS
    done: int = 0
    total: int | None = None
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    # The number of an import's run, of a dry run 0; the name of a backup.
    run: int = 0
    name: str = ""
    pid: int = 0
    # Names and sizes of what can be fetched; None until it has ended.
    made: list[tuple[str, int]] | None = None
    # The state of a job once what it made is kept, which its first note says that it is not yet.
    ends: str = ""


class Job(NamedTuple):
    """A job as it was when its row was read."""

    id: str
    kind: str
    owner: str
    state: str
    created_at: int
    ended_at: int | None
    expires_at: int | None
    attempts: int
    lease_until: int | None
    stop_requests: int
    request: Mapping[str, Any]
    progress: Progress
    error: str | None

    @property
    def is_under_way(self) -> bool:
        return self.state in UNDER_WAY

    @property
    def is_stopping(self) -> bool:
        return self.is_under_way and self.stop_requests > 0

    @property
    def reason(self) -> str:
        """Why it failed, empty if nothing is known."""
        return self.error or next(iter(self.progress.notes), "")


_COLUMNS = [_table.c[name] for name in Job._fields]


def _job(row: Any) -> Job:
    return Job(**{**row._mapping, "progress": Progress(**row.progress)})


def new_id() -> str:
    """Return the id of a new job; a form has it before it is sent, so that sent twice is one."""
    return secrets.token_hex(12)


def is_id(text: str) -> bool:
    """Say whether a text may be an id of new_id(), and so the name of a folder."""
    return _ID.fullmatch(text) is not None


def add(
    connection: Connection,
    job_id: str,
    kind: str,
    owner: str,
    now: int,
    *,
    request: Mapping[str, Any] | None = None,
    expires_at: int | None = None,
    runs: bool = False,
) -> bool:
    """Queue a job, or with runs note the first attempt; return whether its id was new."""
    row = {
        "id": job_id,
        "kind": kind,
        "owner": owner,
        "state": RUNNING if runs else QUEUED,
        "created_at": now,
        "expires_at": expires_at,
        "attempts": 1 if runs else 0,
        "lease_until": now + LEASE_SECONDS if runs else None,
        "stop_requests": 0,
        "request": dict(request or {}),
        "progress": asdict(Progress()),
    }
    with suppress(IntegrityError), connection.begin_nested():
        connection.execute(insert(JobRow), [row])
        return True
    return False


def count(
    connection: Connection,
    kind: str,
    *,
    owner: str | None = None,
    under_way: bool = False,
    unexpired: int | None = None,
) -> int:
    """Return how many jobs of a kind there are: an owner's, under way, not expired at a time."""
    conditions = [_table.c.kind == kind]
    if owner is not None:
        conditions.append(_table.c.owner == owner)
    if under_way:
        conditions.append(_table.c.state.in_(UNDER_WAY))
    if unexpired is not None:
        conditions.append(_table.c.expires_at > unexpired)
    return connection.execute(select(func.count()).where(*conditions)).scalar() or 0


def count_running(connection: Connection, kind: str, now: int) -> int:
    """Return how many jobs of a kind have a process."""
    is_alive = (_table.c.state == RUNNING, _table.c.lease_until >= now)
    query = select(func.count()).where(_table.c.kind == kind, *is_alive)
    return connection.execute(query).scalar_one()


def find(job_id: str, *kinds: str) -> Job | None:
    """Return a job of some kinds, None if there is none."""
    job = find_any(job_id)
    return job if job is not None and job.kind in kinds else None


def find_any(job_id: str) -> Job | None:
    """Return a job of any kind, None if there is none."""
    # PostgreSQL refuses a text with NUL in it, instead of not finding it.
    if not job_id.isprintable():
        return None
    query = select(*_COLUMNS).where(_table.c.id == job_id)
    with db.engine.connect() as connection:
        row = connection.execute(query).first()
    return None if row is None else _job(row)


def jobs(*kinds: str, limit: int | None = None) -> list[Job]:
    """Return the jobs of some kinds, or of all, newest first."""
    query = select(*_COLUMNS).order_by(_table.c.number.desc()).limit(limit)
    if kinds:
        query = query.where(_table.c.kind.in_(kinds))
    with db.engine.connect() as connection:
        return [_job(row) for row in connection.execute(query)]


def _claimable(kind: str, now: int) -> Any:
    """Return the condition for an unfinished job without a live process."""
    lost = and_(_table.c.state == RUNNING, _table.c.lease_until < now)
    return and_(
        _table.c.kind == kind,
        or_(_table.c.state == QUEUED, lost),
        or_(_table.c.expires_at.is_(None), _table.c.expires_at > now),
    )


def has_claimable(snapshot: Reader, kind: str, now: int) -> bool:
    """Return whether there is a job to claim. Called often, so it takes no write lock."""
    return (
        snapshot.first(
            "SELECT 1 FROM job WHERE kind = ? AND (state = ? OR state = ? AND lease_until < ?)"
            " AND (expires_at IS NULL OR expires_at > ?) LIMIT 1",
            (kind, QUEUED, RUNNING, now, now),
        )
        is not None
    )


def claim(connection: Connection, kind: str, now: int) -> Job | None:
    """Claim the oldest job of a kind within a writing transaction; None if there is none.

    One with too many attempts fails.
    """
    connection.execute(
        update(JobRow)
        .where(_claimable(kind, now), _table.c.attempts >= MOST_ATTEMPTS)
        .values(state=FAILED, error=NEVER_FINISHED, lease_until=None, ended_at=now)
    )
    oldest = select(_table.c.id).where(_claimable(kind, now)).order_by(_table.c.number).limit(1)
    job_id = connection.execute(oldest).scalar_one_or_none()
    claimed = connection.execute(
        update(JobRow)
        .where(_table.c.id == job_id, _claimable(kind, now))
        .values(
            state=RUNNING,
            attempts=_table.c.attempts + 1,
            lease_until=now + LEASE_SECONDS,
            progress=asdict(Progress()),
        )
    )
    if claimed.rowcount != 1:
        return None
    return _job(connection.execute(select(*_COLUMNS).where(_table.c.id == job_id)).one())


def _change(
    job: Job, states: Sequence[str] = (RUNNING,), patience: float | None = None, **values: Any
) -> bool:
    """Change the row of an attempt; return whether the process still owns it."""
    with writing(patience=patience) as connection:
        changed = connection.execute(
            update(JobRow)
            .where(
                _table.c.id == job.id,
                _table.c.state.in_(states),
                _table.c.attempts == job.attempts,
            )
            .values(**values)
        )
    return changed.rowcount == 1


def renew(job: Job, progress: Progress, now: int) -> bool:
    """Renew the lease of an attempt; return whether it is still the newest one.

    A job that was marked as interrupted runs again: its process was slow.
    """
    lease = now + LEASE_SECONDS
    return _change(
        job,
        (RUNNING, INTERRUPTED),
        state=RUNNING,
        progress=asdict(progress),
        lease_until=lease,
    )


def finish(
    job: Job,
    state: str,
    now: int,
    *,
    progress: Progress | None = None,
    error: str | None = None,
    expires_at: int | None = None,
    patience: float | None = None,
) -> bool:
    """Mark a job as ended, waiting for another writer so long; return whether this was its process.

    Also where it was taken for dead meanwhile: then it was slow.
    """
    values: dict[str, Any] = {"progress": asdict(progress)} if progress is not None else {}
    values |= {"state": state, "error": error, "ended_at": now, "expires_at": expires_at}
    return _change(job, (RUNNING, INTERRUPTED), patience, lease_until=None, **values)


def note_made(job_id: str, made: list[tuple[str, int]]) -> None:
    """Note what a job made that has ended, as it was kept only now."""
    job = find_any(job_id)
    if job is None:
        return
    progress, state = replace(job.progress, made=made), job.state
    if progress.ends:
        state = progress.ends
        progress = replace(progress, ends="", notes=progress.notes[1:])
    ended = (DONE, FAILED, STOPPED, INTERRUPTED)
    _change(job, ended, state=state, progress=asdict(progress))


def interrupt(job: Job) -> None:
    """Mark a job whose process is known to be gone, if it still says that it runs."""
    with writing() as connection:
        _interrupt(connection, _table.c.id == job.id)


def requeue(job: Job, *, counts: bool = True) -> None:
    """Queue a job again whose process is gone, if it still says that it runs.

    counts is whether this attempt counts among the few that a job has.
    """
    attempts = job.attempts if counts else job.attempts - 1
    none = asdict(Progress())
    _change(job, state=QUEUED, lease_until=None, progress=none, attempts=attempts)


def interrupt_lost(snapshot: Reader, kinds: Sequence[str], now: int) -> None:
    """Mark the jobs of some kinds whose lease ran out."""
    marks = ", ".join("?" * len(kinds))
    lost = f"SELECT 1 FROM job WHERE kind IN ({marks}) AND state = ? AND lease_until < ? LIMIT 1"
    if snapshot.first(lost, (*kinds, RUNNING, now)) is None:
        return
    with writing() as connection:
        _interrupt(connection, _table.c.kind.in_(kinds), _table.c.lease_until < now)


def _interrupt(connection: Connection, *conditions: Any) -> None:
    connection.execute(
        update(JobRow)
        .where(_table.c.state == RUNNING, *conditions)
        .values(state=INTERRUPTED, lease_until=None)
    )


def request_stop(job_id: str) -> None:
    """Ask the process of a job to stop; asked again, it ends at once."""
    with writing() as connection:
        connection.execute(
            update(JobRow)
            .where(_table.c.id == job_id, _table.c.state.in_(UNDER_WAY))
            .values(stop_requests=_table.c.stop_requests + 1)
        )


def stop_requests(job_id: str) -> int | None:
    """Return how often a user asked a job to stop, None if the job was deleted."""
    with db.engine.connect() as connection:
        query = select(_table.c.stop_requests).where(_table.c.id == job_id)
        return connection.execute(query).scalar_one_or_none()


def delete_job(job_id: str) -> None:
    """Delete a job's row, which stops its process."""
    with writing() as connection:
        connection.execute(delete(JobRow).where(_table.c.id == job_id))


def delete_expired(snapshot: Reader, kind: str, before: int) -> list[str]:
    """Delete the rows of a kind that expired before a moment; return their ids."""
    expired = "SELECT 1 FROM job WHERE kind = ? AND expires_at < ? LIMIT 1"
    if snapshot.first(expired, (kind, before)) is None:
        return []
    condition = and_(_table.c.kind == kind, _table.c.expires_at < before)
    with writing() as connection:
        ids = list(connection.execute(select(_table.c.id).where(condition)).scalars())
        connection.execute(delete(JobRow).where(_table.c.id.in_(ids)))
    return ids


def all_ids() -> set[str]:
    """Return the ids of all jobs."""
    with db.engine.connect() as connection:
        return set(connection.execute(select(_table.c.id)).scalars())
