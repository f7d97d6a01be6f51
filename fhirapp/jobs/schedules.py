"""The table of schedules: what is run again and again, when it is due, how its last runs ended.

A run is claimed by a conditional UPDATE that moves the schedule on, so that of many processes and
servers one runs it, and one that is killed loses no later run. What was missed is made up once. A
run is a job (queue.py), or the work of a moment; how it ended is noted when its job is seen ended.
Times are seconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Integer, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.audit.events import record
from fhirapp.config import RefusedCommand
from fhirapp.db import Base, db, writing
from fhirapp.jobs import queue
from fhirapp.jobs.queue import DONE, FAILED, INTERRUPTED, STOPPED, Job

# How a run ended, beside the states of jobs: there was nothing to do; the one before still ran.
IDLE, SKIPPED = "idle", "skipped"
# Of each schedule, so many ended runs are remembered.
_REMEMBERED = 20
# A claimed run without a job is lost after so long; a clock was set back that is further behind.
_START_SECONDS, _BACK_SECONDS = 60, 3_600
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TIMING = re.compile(
    r"(?:hourly|every ([1-9][0-9]{0,3}) minutes?"
    r"|(?:daily|weekly ([a-z]+)) ((?:[01]?[0-9]|2[0-3]):[0-5][0-9]))"
)
_MOST_MINUTES = 1_440


class ScheduleRow(Base):
    """A schedule, without secrets: options hold the names of files that have them."""

    __tablename__ = "schedule"

    name: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    # As Timing writes it.
    timing: Mapped[str]
    options: Mapped[Any]
    is_paused: Mapped[bool]
    # The next run is the first after this moment.
    handled_at: Mapped[int] = mapped_column(BigInteger)
    # The run under way: its job, and when it was claimed.
    job_id: Mapped[str | None]
    began_at: Mapped[int | None] = mapped_column(BigInteger)
    # Of a pull, the other server's time of the last run that brought everything.
    since: Mapped[str | None]
    succeeded_at: Mapped[int | None] = mapped_column(BigInteger)
    failed_at: Mapped[int | None] = mapped_column(BigInteger)
    # One after the other, until now.
    failures: Mapped[int] = mapped_column(Integer)
    # The last runs, newest first, as ScheduledRun has them.
    history: Mapped[Any]


_table = ScheduleRow.__table__


class Timing(NamedTuple):
    """When a schedule is due: every so many minutes, at a time of day or of a weekday, hourly."""

    minutes: int | None = None
    at: time | None = None
    weekday: int | None = None

    @classmethod
    def of(cls, text: str) -> Timing:
        """Return what a text means. Raises RefusedCommand."""
        found = _TIMING.fullmatch(" ".join(text.lower().split()))
        minutes, day, clock = found.groups() if found else (None, None, None)
        known = [one for one in _DAYS if day in (one, one[:3])]
        if found is None or (day and not known) or int(minutes or 1) > _MOST_MINUTES:
            raise RefusedCommand(
                "%(text)r is not a valid schedule. Use hourly, every 15 minutes (at most 1440), "
                "daily 02:00 or weekly sunday 02:00.",
                text=text,
            )
        at = datetime.strptime(clock, "%H:%M").time() if clock else None  # noqa: DTZ007
        return cls(int(minutes) if minutes else None, at, _DAYS.index(known[0]) if day else None)

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"every {self.minutes} minute{'s' * (self.minutes > 1)}"
        if self.at is None:
            return "hourly"
        clock = f"{self.at:%H:%M}"
        return f"daily {clock}" if self.weekday is None else f"weekly {_DAYS[self.weekday]} {clock}"

    def after(self, moment: int, zone: tzinfo) -> int:
        """Return when it is due next after a moment.

        A time of day that the clock passes twice is due when it comes first; one that is left out,
        when it would have been.
        """
        if self.minutes is not None:
            seconds = self.minutes * 60
            return (moment // seconds + 1) * seconds
        local = datetime.fromtimestamp(moment, zone)
        if self.at is None:
            return moment + 3_600 - local.minute * 60 - local.second
        # A day more than a week: of today the time may have passed.
        days = [local.date() + timedelta(days=days) for days in range(9)]
        wanted = [day for day in days if self.weekday in (None, day.weekday())]
        moments = (int(datetime.combine(day, self.at, zone).timestamp()) for day in wanted)
        return next(one for one in moments if one > moment)


@dataclass(frozen=True)
class ScheduledRun:
    """A run that has ended: when in seconds since 1970, how, a sentence, the id of its job."""

    began_at: int
    ended_at: int
    outcome: str
    note: str = ""
    job_id: str | None = None


class Schedule(NamedTuple):
    """A schedule as it was when its row was read."""

    name: str
    kind: str
    timing: str
    options: Mapping[str, Any]
    is_paused: bool
    handled_at: int
    job_id: str | None
    began_at: int | None
    since: str | None
    succeeded_at: int | None
    failed_at: int | None
    failures: int
    history: list[ScheduledRun]

    @property
    def owner(self) -> str:
        """The owner of its jobs."""
        return f"schedule:{self.name}"

    @property
    def last(self) -> ScheduledRun | None:
        """The last run that ended."""
        return self.history[0] if self.history else None

    @property
    def why_failed(self) -> str:
        """What the last run that failed tells; of those after it some may have had nothing to do.

        Empty where it tells nothing.
        """
        return next((run.note for run in self.history if run.outcome in (FAILED, INTERRUPTED)), "")

    def due_at(self, zone: tzinfo) -> int | None:
        """Return when the next run is due, which may have passed; None while it is paused."""
        return None if self.is_paused else Timing.of(self.timing).after(self.handled_at, zone)


_COLUMNS = [_table.c[name] for name in Schedule._fields]


def _schedule(row: Row[Any]) -> Schedule:
    values = dict(row._mapping)
    return Schedule(**{**values, "history": [ScheduledRun(**one) for one in values["history"]]})


def schedules() -> list[Schedule]:
    """Return all schedules, by name."""
    with db.engine.connect() as connection:
        return [_schedule(one) for one in connection.execute(select(*_COLUMNS).order_by("name"))]


def find(name: str) -> Schedule:
    """Return a schedule. Raises RefusedCommand where there is none."""
    found = next((one for one in schedules() if one.name == name), None)
    if found is None:
        raise RefusedCommand("Unknown schedule: %(name)s.", name=name)
    return found


def check_name(name: str) -> None:
    """Check the name of a new schedule. Raises RefusedCommand."""
    if not _NAME.fullmatch(name):
        raise RefusedCommand(
            "The name of a schedule must have 1 to 40 lowercase letters, digits or dashes, such "
            "as nightly."
        )


def add(
    name: str,
    kind: str,
    timing: Timing,
    options: Mapping[str, Any],
    now: int,
    *,
    since: str | None = None,
) -> None:
    """Add a schedule, whose first run is the first after now. Raises RefusedCommand, Unwritable."""
    check_name(name)
    row = _new(name, kind, str(timing), options, now) | {"since": since}
    try:
        with writing() as connection:
            connection.execute(insert(ScheduleRow), [row])
            record("schedule-added", what=f"{name}: {kind}, {timing}")
    except IntegrityError:
        raise RefusedCommand(
            "The schedule %(name)s already exists. Remove it first or choose another name.",
            name=name,
        ) from None


def _new(name: str, kind: str, timing: str, options: Mapping[str, Any], now: int) -> dict[str, Any]:
    state = {"is_paused": False, "handled_at": now, "failures": 0, "history": []}
    return {"name": name, "kind": kind, "timing": timing, "options": dict(options), **state}


def keep_built_in(kind: str, timing: Timing | None, now: int) -> None:
    """Have the only schedule of a kind run at these times, or have none."""
    wanted = [] if timing is None else [str(timing)]
    if [schedule.timing for schedule in schedules() if schedule.kind == kind] == wanted:
        return
    with writing() as connection:
        connection.execute(delete(ScheduleRow).where(_table.c.kind == kind))
        for text in wanted:
            connection.execute(insert(ScheduleRow), [_new(kind, kind, text, {}, now)])


def remove(name: str) -> None:
    """Remove a schedule; a run under way goes on. Raises RefusedCommand, Unwritable."""
    with writing() as connection:
        gone = connection.execute(delete(ScheduleRow).where(_table.c.name == name))
        if gone.rowcount != 1:
            raise RefusedCommand("Unknown schedule: %(name)s.", name=name)
        record("schedule-removed", what=name)


def pause(name: str, now: int, *, paused: bool) -> bool:
    """Pause or resume a schedule; what was due while it was paused is not made up.

    False where it is so already. Raises RefusedCommand, Unwritable.
    """
    with writing() as connection:
        values: dict[str, Any] = {"is_paused": paused} | ({} if paused else {"handled_at": now})
        mine = _table.c.name == name
        was = connection.execute(select(_table.c.is_paused).where(mine)).scalar_one_or_none()
        if was is None:
            raise RefusedCommand("Unknown schedule: %(name)s.", name=name)
        if was == paused:
            return False
        connection.execute(update(ScheduleRow).where(mine).values(**values))
        record("schedule-paused" if paused else "schedule-resumed", what=name)
    return True


def _is_as_read(one: Schedule) -> list[Any]:
    """Return the conditions by which only one process moves a schedule on."""
    return [
        _table.c.name == one.name,
        _table.c.handled_at == one.handled_at,
        _table.c.is_paused.is_(False),
    ]


def claim(
    connection: Connection, one: Schedule, now: int, job_id: str, *, is_due: bool = True
) -> bool:
    """Claim a run for a job; return whether no other process has. By hand, is_due is False."""
    which = _is_as_read(one) if is_due else [_table.c.name == one.name]
    moved = {"handled_at": now} if is_due else {}
    claimed = connection.execute(
        update(ScheduleRow)
        .where(*which, _table.c.job_id.is_(None))
        .values(job_id=job_id, began_at=now, **moved)
    )
    return claimed.rowcount == 1


def note(one: Schedule, run: ScheduledRun) -> bool:
    """Claim a run that is due and has ended already, and note how; return as claim() does."""
    with writing() as connection:
        return _end(connection, run, _is_as_read(one), handled_at=run.began_at)


def finish(name: str, run: ScheduledRun) -> bool:
    """Note how a claimed run ended; return whether that was not noted before."""
    which = [_table.c.name == name, _table.c.job_id == run.job_id]
    with writing() as connection:
        return _end(connection, run, which, job_id=None, began_at=None)


def _end(connection: Connection, run: ScheduledRun, which: list[Any], **values: Any) -> bool:
    row = connection.execute(select(*_COLUMNS).where(*which)).first()
    if row is None:
        return False
    one = _schedule(row)
    # Nothing to do, time after time, is one line.
    is_repeated = one.last and run.outcome in (IDLE, SKIPPED) and (one.last.outcome == run.outcome)
    runs = [run, *(one.history[1:] if is_repeated else one.history)]
    values["history"] = [asdict(each) for each in runs[:_REMEMBERED]]
    if run.outcome in (DONE, IDLE):
        values |= {"succeeded_at": run.ended_at, "failures": 0}
    elif run.outcome in (FAILED, INTERRUPTED):
        values |= {"failed_at": run.ended_at, "failures": one.failures + 1}
    connection.execute(update(ScheduleRow).where(_table.c.name == one.name).values(**values))
    return True


def remember_since(name: str, job_id: str, since: str) -> None:
    """Note up to when a pull has brought everything, if its run is still the schedule's."""
    with writing() as connection:
        connection.execute(
            update(ScheduleRow)
            .where(_table.c.name == name, _table.c.job_id == job_id)
            .values(since=since)
        )


def settle(one: Schedule, now: int) -> bool:
    """Note how a run ended whose job is under way no more; return whether one is under way."""
    if one.job_id is None:
        return False
    began_at = one.began_at or now
    job = queue.find(one.job_id, one.kind)
    if job is None:
        if now < began_at + _START_SECONDS:
            return True
        finish(one.name, ScheduledRun(began_at, now, INTERRUPTED, "", one.job_id))
    elif job.is_under_way:
        return True
    else:
        finish(one.name, _run_of(job, now))
    return False


def _run_of(job: Job, now: int) -> ScheduledRun:
    note = job.reason if job.state != STOPPED else ""
    return ScheduledRun(job.created_at, job.ended_at or now, job.state, note, job.id)


def set_back(one: Schedule, now: int) -> Schedule:
    """Return the schedule, as due after now where its last run is of a clock that was set back."""
    if one.handled_at <= now + _BACK_SECONDS:
        return one
    with writing() as connection:
        connection.execute(update(ScheduleRow).where(*_is_as_read(one)).values(handled_at=now))
    return one._replace(handled_at=now)
