"""Schedules: added, paused and removed, and their runs begun when they are due.

A run is a job, so the table of jobs (queue.py) tells how the last runs ended. A due run is claimed
by a conditional UPDATE that moves the schedule on, in the transaction that adds its job: of several
processes and servers one begins it, and one that is killed loses no later run. Missed runs are made
up once. A run that is due while the last one is under way is left out. Times are in seconds since
1970.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from itertools import takewhile
from typing import Any, NamedTuple

from flask import current_app
from sqlalchemy import BigInteger, Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.audit.events import record
from fhirapp.config import ConfigurationError, RefusedCommand, settings_of
from fhirapp.db import Base, db, writing
from fhirapp.jobs import process, queue
from fhirapp.jobs.kinds import BuiltInKind, addable_kinds, schedule_kinds
from fhirapp.jobs.queue import DONE, FAILED, Job, JobRow, Progress
from fhirapp.jobs.timing import Timing

_log = logging.getLogger(__name__)

# A schedule that was handled so far in the future was handled by a clock that is set back now.
_BACK_SECONDS = 3_600
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class ScheduleRow(Base):
    """A schedule. It has no secrets: its options name the files that have them."""

    __tablename__ = "schedule"

    name: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    # As Timing writes it.
    timing: Mapped[str]
    options: Mapped[Any]
    is_paused: Mapped[bool]
    # The next run is the first after this moment.
    handled_at: Mapped[int] = mapped_column(BigInteger)
    # Of a pull, the other server's time of the last run that brought everything.
    since: Mapped[str | None]
    # When it was last due and there was nothing to do, which adds no job.
    idle_at: Mapped[int | None] = mapped_column(BigInteger)


_table = ScheduleRow.__table__


class Schedule(NamedTuple):
    """A schedule as it was when its row was read."""

    name: str
    kind: str
    timing: str
    options: Mapping[str, Any]
    is_paused: bool
    handled_at: int
    since: str | None
    idle_at: int | None

    @property
    def owner(self) -> str:
        """The owner of its jobs."""
        return f"schedule:{self.name}"

    def due_at(self, zone: tzinfo) -> int | None:
        """Return when the next run is due, which may have passed; None while it is paused."""
        return None if self.is_paused else Timing.of(self.timing).after(self.handled_at, zone)


class ScheduleRuns(NamedTuple):
    """The remembered runs of a schedule, newest first, and when it last had nothing to do."""

    jobs: Sequence[Job]
    idle_at: int | None

    @property
    def current(self) -> Job | None:
        """The run under way."""
        return next((job for job in self.jobs if job.is_under_way), None)

    @property
    def ended(self) -> Sequence[Job]:
        """The runs that are not under way."""
        return [job for job in self.jobs if not job.is_under_way]

    @property
    def is_idle(self) -> bool:
        """Whether it was due after the last run began, and there was nothing to do."""
        return self.idle_at is not None and all(job.created_at < self.idle_at for job in self.jobs)

    @property
    def succeeded_at(self) -> int | None:
        """When a run last succeeded, or there was nothing to do."""
        ends = [job.ended_at or job.created_at for job in self.jobs if job.outcome == DONE][:1]
        return max([*ends, *([self.idle_at] if self.idle_at else [])], default=None)

    @property
    def failed_at(self) -> int | None:
        """When a run last failed; the end of an interrupted run is not known."""
        failed = (job.ended_at or job.created_at for job in self.jobs if job.has_failed)
        return next(failed, None)

    @property
    def failures(self) -> Sequence[Job]:
        """The runs that failed since the last success, newest first."""
        recent = takewhile(lambda job: job.outcome != DONE, self.jobs)
        return [job for job in recent if job.has_failed and job.created_at >= (self.idle_at or 0)]


_COLUMNS = [_table.c[name] for name in Schedule._fields]


def schedules() -> list[Schedule]:
    """Return all schedules, by name."""
    with db.engine.connect() as connection:
        return [Schedule(*row) for row in connection.execute(select(*_COLUMNS).order_by("name"))]


def find(name: str) -> Schedule:
    """Return a schedule. Raises RefusedCommand where there is none."""
    for schedule in schedules():
        if schedule.name == name:
            return schedule
    raise RefusedCommand("Unknown schedule: %(name)s.", name=name)


def runs_of(*shown: Schedule) -> Mapping[str, ScheduleRuns]:
    """Return the runs of schedules by the name of the schedule, by one query."""
    jobs: dict[str | None, list[Job]] = {}
    for job in queue.runs_of_schedules(shown[0].name if len(shown) == 1 else None):
        jobs.setdefault(job.schedule, []).append(job)
    return {
        schedule.name: ScheduleRuns(jobs.get(schedule.name, []), schedule.idle_at)
        for schedule in shown
    }


def add(
    name: str,
    kind: str,
    when: str,
    options: Mapping[str, Any],
    now: int,
    *,
    make_folders: bool = False,
) -> Timing:
    """Add a schedule whose first run is the first after now; return when it runs.

    Empty options are left out. With make_folders, the folders that it needs are made. Raises
    ConfigurationError, Unwritable.
    """
    settings = settings_of(current_app)
    if settings.demo:
        raise RefusedCommand(
            "The demo can't have other schedules than its own reset, because anyone can sign in "
            "to it."
        )
    timing = Timing.of(when)
    if not _NAME.fullmatch(name):
        raise RefusedCommand(
            "The name of a schedule must have 1 to 40 lowercase letters, digits or dashes, such "
            "as nightly."
        )
    wanted = {option: value for option, value in options.items() if value}
    declared = addable_kinds().get(kind)
    if declared is None:
        raise RefusedCommand("Unknown kind of schedule: %(kind)s.", kind=kind)
    for option in wanted.keys() - declared.options:
        raise RefusedCommand(
            "A schedule of the kind %(kind)s has no option %(option)s.", kind=kind, option=option
        )
    if make_folders:
        declared.make_folders(wanted)
    declared.check(settings, name, wanted)
    try:
        with writing() as connection:
            _insert(connection, name, kind, timing, wanted, now)
            record("schedule-added", what=f"{name}: {kind}, {timing}")
    except IntegrityError:
        raise RefusedCommand(
            "The schedule %(name)s already exists. Remove it first or choose another name.",
            name=name,
        ) from None
    return timing


def _insert(
    connection: Connection,
    name: str,
    kind: str,
    timing: Timing,
    options: Mapping[str, Any],
    now: int,
) -> None:
    stored = {option: value for option, value in options.items() if option != "since"}
    state = {"is_paused": False, "handled_at": now, "since": options.get("since")}
    row = {"name": name, "kind": kind, "timing": str(timing), "options": stored, **state}
    connection.execute(insert(ScheduleRow), [row])


def remove(name: str) -> None:
    """Remove a schedule; a run under way goes on. Raises RefusedCommand, Unwritable."""
    _refuse_built_in(name)
    with writing() as connection:
        connection.execute(delete(ScheduleRow).where(_table.c.name == name))
        queue.release_runs(connection, name)
        record("schedule-removed", what=name)


def pause(name: str, now: int, *, paused: bool) -> bool:
    """Pause or resume a schedule; runs that were due while it was paused are not made up.

    Return False if it was so already. Raises RefusedCommand, Unwritable.
    """
    _refuse_built_in(name)
    values: dict[str, Any] = {"is_paused": paused} | ({} if paused else {"handled_at": now})
    which = (_table.c.name == name, _table.c.is_paused.is_(not paused))
    with writing() as connection:
        is_changed = connection.execute(update(ScheduleRow).where(*which).values(values)).rowcount
        if is_changed:
            record("schedule-paused" if paused else "schedule-resumed", what=name)
    return bool(is_changed)


def _refuse_built_in(name: str) -> None:
    """Raise RefusedCommand for a schedule that only a setting changes, and for an unknown one."""
    kind = schedule_kinds().get(find(name).kind)
    if isinstance(kind, BuiltInKind):
        raise RefusedCommand(kind.refusal)


def remember_since(job_id: str, since: str) -> None:
    """Store the time up to which a pull has brought everything, unless its schedule is removed."""
    schedule = select(JobRow.schedule).where(JobRow.id == job_id).scalar_subquery()
    with writing() as connection:
        connection.execute(update(ScheduleRow).where(_table.c.name == schedule).values(since=since))


def run_due(now: int) -> bool:
    """Begin the first run that is due; return whether there was one. Needs an app context."""
    settings = settings_of(current_app)
    built_in = [kind for kind in schedule_kinds().values() if isinstance(kind, BuiltInKind)]
    for kind in built_in:
        when = kind.timing(settings)
        _update_built_in(kind.name, Timing.of(when) if when else None, now)
    for found in schedules():
        if found.is_paused:
            continue
        schedule = _set_back(found, now)
        due_at = schedule.due_at(settings.zone)
        if due_at is None or due_at > now:
            continue
        if queue.has_run_under_way(schedule.name):
            with writing() as connection:
                _move_on(connection, schedule, now)
        else:
            _begin(schedule, now, is_due=True)
        return True
    return False


def run_now(name: str, now: int) -> str:
    """Begin a run by hand; return the id of its job. Raises ConfigurationError, Unwritable."""
    _refuse_built_in(name)
    schedule, job_id = find(name), None
    if not queue.has_run_under_way(name):
        record("schedule-begun", what=name)
        job_id = _begin(schedule, now, is_due=False)
    if job_id is None:
        raise RefusedCommand("The schedule %(name)s is already running.", name=name)
    return job_id


def _update_built_in(kind: str, timing: Timing | None, now: int) -> None:
    """Have the only schedule of a built-in kind run at these times, or have none."""
    found = [schedule.timing for schedule in schedules() if schedule.kind == kind]
    if found == ([] if timing is None else [str(timing)]):
        return
    with writing() as connection:
        connection.execute(delete(ScheduleRow).where(_table.c.kind == kind))
        if timing is not None:
            _insert(connection, kind, kind, timing, {}, now)


def _set_back(schedule: Schedule, now: int) -> Schedule:
    """Return the schedule; if it was handled by a clock that was ahead, it is due after now."""
    if schedule.handled_at <= now + _BACK_SECONDS:
        return schedule
    idle_at = None if schedule.idle_at is None else min(schedule.idle_at, now)
    with writing() as connection:
        _move_on(connection, schedule, now, idle_at=idle_at)
    return schedule._replace(handled_at=now, idle_at=idle_at)


def _move_on(connection: Connection, schedule: Schedule, now: int, **values: Any) -> bool:
    """Move a schedule on to its next run; return False if another process did, or it is paused."""
    moved = connection.execute(
        update(ScheduleRow)
        .where(
            _table.c.name == schedule.name,
            _table.c.handled_at == schedule.handled_at,
            _table.c.is_paused.is_(False),
        )
        .values(handled_at=now, **values)
    )
    return moved.rowcount == 1


def _begin(schedule: Schedule, now: int, *, is_due: bool) -> str | None:
    """Begin a run; return the id of its job, None if another process did or there is no work.

    A run that cannot begin is an ended job. Raises ConfigurationError for one by hand.
    """
    job_id, is_ours = queue.new_id(), False

    def claim(connection: Connection) -> bool:
        return not is_due or _move_on(connection, schedule, now)

    try:
        kind = schedule_kinds().get(schedule.kind)
        if kind is None:
            raise ConfigurationError(f"This server has no schedules of the kind {schedule.kind}.")
        if is_due and not kind.has_work(schedule, now):
            with writing() as connection:
                _move_on(connection, schedule, now, idle_at=now)
        elif isinstance(kind, BuiltInKind):
            is_ours = _run_built_in(kind, schedule, job_id, now, claim)
        else:
            passphrase = kind.passphrase(schedule)
            state = {"schedule": schedule.name, "since": schedule.since, "now": now}
            state["encrypted"] = bool(passphrase)
            is_ours = process.start(
                job_id,
                schedule.kind,
                owner=schedule.owner,
                request={**schedule.options, **state, **kind.request(schedule)},
                now=now,
                passphrase=passphrase,
                schedule=schedule.name,
                claim=claim,
            )
    except ConfigurationError as error:
        _log.warning("the schedule %s cannot run", schedule.name)
        with writing() as connection:
            # Its job is there already if only its process could not be started.
            if claim(connection):
                queue.add(
                    connection,
                    job_id,
                    schedule.kind,
                    schedule.owner,
                    now,
                    schedule=schedule.name,
                    error=str(error),
                )
        if not is_due:
            raise
    return job_id if is_ours else None


def _run_built_in(
    kind: BuiltInKind,
    schedule: Schedule,
    job_id: str,
    now: int,
    claim: Callable[[Connection], bool],
) -> bool:
    """Do a run within this process, as a job with a lease; return whether no other process did.

    If this process is killed, the job is marked as interrupted when its lease has run out.
    """
    with writing() as connection:
        is_ours = claim(connection) and queue.add(
            connection, job_id, kind.name, schedule.owner, now, runs=True, schedule=schedule.name
        )
    job = queue.find(job_id, kind.name)
    if is_ours and job is not None:
        began, outcome, error, notes = time.monotonic(), DONE, None, list[str]()
        try:
            notes.append(kind.run(now))
        except ConfigurationError as fault:
            outcome, error = FAILED, str(fault)
        ended_at = now + round(time.monotonic() - began)
        queue.finish(job, outcome, ended_at, progress=Progress(notes=notes), error=error)
    return is_ours
