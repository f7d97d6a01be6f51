"""The table of jobs, which is also the record of the runs of schedules.

A process claims a job by a conditional UPDATE, for a lease that it renews. When a process dies, its
lease runs out: jobs of some kinds are then claimed again, those of the other kinds are marked as
interrupted. Times are seconds since 1970.

    queued -> running -> done, failed, stopped or interrupted
                      -> uploading -> done, failed or stopped

A job is `uploading` when its work has ended and its files cannot be stored now. Such a job does not
hold up its schedule: its work is done, and the files may be on a machine that never returns.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, Index, Integer, delete, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base, RowNumber, db, writing

QUEUED, RUNNING, UPLOADING = "queued", "running", "uploading"
DONE, FAILED, STOPPED, INTERRUPTED = "done", "failed", "stopped", "interrupted"
# The states of a job whose work has not ended.
UNDER_WAY = (QUEUED, RUNNING)
_UNDER_WAY_SQL = text("state IN ('queued', 'running')")
# The phases of a running job: starting, waiting for another import, working.
BEGINS, WAITS, WORKS = "begins", "waits", "works"
LEASE_SECONDS = 30
# A job whose process dies this often is itself the cause.
MOST_ATTEMPTS = 3
# How many ended jobs are remembered: of a schedule, and of a kind without one.
_REMEMBERED_RUNS, _REMEMBERED = 20, 200
NEVER_FINISHED = "It was started several times, but never finished."
_ID = re.compile(r"[0-9a-f]{24}")


class JobRow(Base):
    """A job: who requested what, and its progress. No patient data."""

    __tablename__ = "job"
    __table_args__ = (
        Index("ix_job_kind_owner", "kind", "owner"),
        Index("ix_job_schedule_number", "schedule", "number"),
        # Two servers never run a schedule at the same time.
        Index(
            "ix_job_schedule_under_way",
            "schedule",
            unique=True,
            sqlite_where=_UNDER_WAY_SQL,
            postgresql_where=_UNDER_WAY_SQL,
        ),
    )

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
    # How many of them the server's stop ended, or could not be started.
    free_attempts: Mapped[int] = mapped_column(Integer)
    # The end of the lease; None unless RUNNING.
    lease_until: Mapped[int | None] = mapped_column(Integer)
    # How often a user asked it to stop.
    stop_requests: Mapped[int] = mapped_column(Integer)
    request: Mapped[Any]
    progress: Mapped[Any]
    # Why it failed, as a sentence.
    error: Mapped[str | None]
    # The name of the schedule that it is a run of.
    schedule: Mapped[str | None]


_table = JobRow.__table__


@dataclass
class Progress:
    """The progress of a job.

    done and total count bytes, versions or rows; an unknown total is None. counts are by type
    and outcome; notes are sentences.
    """

    # Of a running job: BEGINS, WAITS or WORKS.
    phase: str = BEGINS
    done: int = 0
    total: int | None = None
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    # The number of an import's run, of a dry run 0; the name of a backup.
    run: int = 0
    name: str = ""
    pid: int = 0
    # Names and sizes of the files that the job made; None until they are stored.
    made: list[tuple[str, int]] | None = None
    # Why the files of an uploading job cannot be stored.
    storage_error: str = ""


_PROGRESS = {field.name for field in fields(Progress)}


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
    schedule: str | None

    @property
    def is_under_way(self) -> bool:
        return self.state in UNDER_WAY

    @property
    def is_stopping(self) -> bool:
        return self.is_under_way and self.stop_requests > 0

    @property
    def outcome(self) -> str:
        """Its state, or for an uploading job the state that it will have."""
        if self.state != UPLOADING:
            return self.state
        return FAILED if self.error else STOPPED if self.stop_requests else DONE

    @property
    def has_failed(self) -> bool:
        return self.outcome in (FAILED, INTERRUPTED)

    @property
    def summary(self) -> str:
        """A sentence on how it ended, empty if there is none."""
        if self.outcome == STOPPED:
            return ""
        return self.error or next(iter(self.progress.notes), "")


_COLUMNS = [_table.c[name] for name in Job._fields]


def _job(row: Any) -> Job:
    # The process of an earlier release may have written other values too.
    known = {name: value for name, value in row.progress.items() if name in _PROGRESS}
    return Job(**{**row._mapping, "progress": Progress(**known)})


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
    schedule: str | None = None,
    error: str | None = None,
) -> bool:
    """Queue a job; return False if its id is known, or its schedule has a run under way.

    With runs, the row is that of the first attempt; with an error, that of a job that could not
    begin.
    """
    row = {"id": job_id, "kind": kind, "owner": owner, "state": QUEUED, "created_at": now}
    row |= {"expires_at": expires_at, "attempts": 0, "free_attempts": 0, "stop_requests": 0}
    row |= {"schedule": schedule}
    row |= {"request": dict(request or {}), "progress": asdict(Progress())}
    if runs:
        row |= {"state": RUNNING, "attempts": 1, "lease_until": now + LEASE_SECONDS}
    if error:
        row |= {"state": FAILED, "ended_at": now, "error": error}
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
    alive: int | None = None,
) -> int:
    """Return how many jobs of a kind there are.

    Each argument narrows the count: to an owner's jobs, to those under way, to those that expire
    after unexpired, to those whose lease has not run out at alive.
    """
    query = select(func.count()).where(_table.c.kind == kind)
    if owner is not None:
        query = query.where(_table.c.owner == owner)
    if under_way:
        query = query.where(_table.c.state.in_(UNDER_WAY))
    if unexpired is not None:
        query = query.where(_table.c.expires_at > unexpired)
    if alive is not None:
        query = query.where(_table.c.state == RUNNING, _table.c.lease_until >= alive)
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
    query = select(*_COLUMNS).where(_table.c.kind.in_(kinds)) if kinds else select(*_COLUMNS)
    return _newest_first(query.limit(limit))


def runs_of_schedules(name: str | None = None) -> list[Job]:
    """Return the jobs of all schedules or of one, newest first."""
    which = _table.c.schedule.is_not(None) if name is None else _table.c.schedule == name
    return _newest_first(select(*_COLUMNS).where(which))


def _newest_first(query: Any) -> list[Job]:
    with db.engine.connect() as connection:
        return [_job(row) for row in connection.execute(query.order_by(_table.c.number.desc()))]


def has_run_under_way(schedule: str) -> bool:
    """Return whether a schedule has a run under way."""
    return _has_job(_table.c.schedule == schedule, _table.c.state.in_(UNDER_WAY))


def release_runs(connection: Connection, schedule: str) -> None:
    """Make the runs of a schedule, which is removed, jobs without a schedule."""
    connection.execute(update(JobRow).where(_table.c.schedule == schedule).values(schedule=None))


def _has_job(*conditions: Any) -> bool:
    """Return whether there is such a job. Called often, so it takes no write lock."""
    with db.engine.connect() as connection:
        return connection.execute(select(1).where(*conditions).limit(1)).first() is not None


def _claimable(kind: str, now: int) -> Any:
    """Return the condition for an unfinished job without a live process."""
    is_lost = (_table.c.state == RUNNING) & (_table.c.lease_until < now)
    is_waiting = (_table.c.state == QUEUED) | is_lost
    is_kept = _table.c.expires_at.is_(None) | (_table.c.expires_at > now)
    return (_table.c.kind == kind) & is_waiting & is_kept


def has_claimable(kind: str, now: int) -> bool:
    """Return whether there is a job to claim."""
    return _has_job(_claimable(kind, now))


def claim(connection: Connection, kind: str, now: int) -> Job | None:
    """Claim the oldest job of a kind within a writing transaction; None if there is none.

    One with too many attempts fails.
    """
    connection.execute(
        update(JobRow)
        .where(_claimable(kind, now), _table.c.attempts - _table.c.free_attempts >= MOST_ATTEMPTS)
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
    """Renew the lease of an attempt; return whether it may go on.

    A job that was marked as interrupted, since its process was slow, is running again, unless its
    schedule has another run under way.
    """
    try:
        return _change(
            job,
            (RUNNING, INTERRUPTED),
            state=RUNNING,
            progress=asdict(progress),
            lease_until=now + LEASE_SECONDS,
        )
    except IntegrityError:
        return False


def finish(
    job: Job,
    outcome: str,
    now: int,
    *,
    progress: Progress | None = None,
    error: str | None = None,
    expires_at: int | None = None,
    patience: float | None = None,
) -> bool:
    """Record that the work of a job has ended; return whether the process still owned it.

    Also a job that was marked as interrupted, since its process was slow, is changed. patience is
    how many seconds to wait for another writer.
    """
    values: dict[str, Any] = {"state": outcome}
    if progress is not None:
        values["progress"] = asdict(progress)
        if progress.storage_error:
            values |= {"state": UPLOADING, "stop_requests": int(outcome == STOPPED)}
    values |= {"error": error, "ended_at": now, "expires_at": expires_at, "lease_until": None}
    return _change(job, (RUNNING, INTERRUPTED), patience, **values)


def record_stored_files(job_id: str, made: list[tuple[str, int]]) -> None:
    """Record that the files of a job that is not under way are stored only now."""
    job = find_any(job_id)
    if job is not None and not job.is_under_way:
        progress = asdict(replace(job.progress, made=made, storage_error=""))
        _change(job, (job.state,), state=job.outcome, progress=progress)


def interrupt(job: Job) -> None:
    """Mark a job whose process is known to be gone as interrupted, if its state is running."""
    _interrupt(_table.c.id == job.id)


def requeue(job: Job, *, counts: bool = True) -> None:
    """Queue a job again whose process is gone, if its state is running.

    counts is whether this attempt counts among the few that a job has. The number of the next one
    is another in any case, so that of two processes only one owns the job.
    """
    none, free = asdict(Progress()), _table.c.free_attempts + (0 if counts else 1)
    _change(job, state=QUEUED, lease_until=None, progress=none, free_attempts=free)


def interrupt_lost(now: int, requeued: Collection[str]) -> None:
    """Mark the jobs whose lease ran out, except those of kinds that are queued again."""
    lost = (_table.c.lease_until < now, _table.c.kind.not_in(requeued))
    if _has_job(_table.c.state == RUNNING, *lost):
        _interrupt(*lost)


def _interrupt(*conditions: Any) -> None:
    with writing() as connection:
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


def delete_expired(kind: str, before: int) -> list[str]:
    """Delete the rows of a kind that expired before a moment; return their ids."""
    expired = (_table.c.kind == kind) & (_table.c.expires_at < before)
    if not _has_job(expired):
        return []
    with writing() as connection:
        ids = list(connection.execute(select(_table.c.id).where(expired)).scalars())
        connection.execute(delete(JobRow).where(_table.c.id.in_(ids)))
    return ids


def forgettable_jobs(requeued: Collection[str]) -> list[Job]:
    """Return the old jobs to remove, except those of kinds that are queued again, which expire.

    Of each schedule the last runs stay, and always the newest that succeeded.
    """
    jobs_of: Counter[tuple[str | None, str]] = Counter()
    succeeded: set[str] = set()
    found = []
    for job in jobs():
        if job.is_under_way or job.kind in requeued:
            continue
        group = (None, job.kind) if job.schedule is None else (job.schedule, "")
        jobs_of[group] += 1
        if job.schedule is not None and job.outcome == DONE and job.schedule not in succeeded:
            succeeded.add(job.schedule)
        elif jobs_of[group] > (_REMEMBERED if job.schedule is None else _REMEMBERED_RUNS):
            found.append(job)
    return found


def all_ids() -> set[str]:
    """Return the ids of all jobs."""
    with db.engine.connect() as connection:
        return set(connection.execute(select(_table.c.id)).scalars())
