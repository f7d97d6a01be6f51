"""Schedules: new ones are checked, and the runs that are due begin.

The worker of each server process looks every few seconds; jobs/schedules.py sees to it that one of
them begins a run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask, current_app

from fhirapp.audit.events import record
from fhirapp.config import ConfigurationError, RefusedCommand, settings_of
from fhirapp.db import writing
from fhirapp.jobs import process, queue, schedules, worker
from fhirapp.jobs.kinds import BuiltInKind, ScheduleKind, addable_kinds, schedule_kinds
from fhirapp.jobs.queue import DONE, FAILED
from fhirapp.jobs.schedules import IDLE, SKIPPED, Schedule, ScheduledRun, Timing

_log = logging.getLogger(__name__)


def init_app(app: Flask) -> None:
    """Have the server's worker begin what is due."""
    worker.register(app, run_next=run_due)


def check_folder(folder: str) -> None:
    """Check a folder that a schedule names. Raises RefusedCommand where there is none."""
    if not Path(folder).is_absolute() or not Path(folder).is_dir():
        raise RefusedCommand(
            "The folder %(folder)s does not exist. Enter an absolute path, starting with /.",
            folder=folder,
        )


def add(
    name: str,
    kind: str,
    when: str,
    options: Mapping[str, Any],
    now: int,
    *,
    make_folders: bool = False,
) -> Timing:
    """Add a schedule, options that are empty left out; return when it runs.

    With make_folders, the folders that it needs are made. Raises ConfigurationError for what is not
    right or cannot be met.
    """
    settings = settings_of(current_app)
    if settings.demo:
        raise RefusedCommand(
            "The demo can't have other schedules than its own reset, because anyone can sign in "
            "to it."
        )
    timing = Timing.of(when)
    schedules.check_name(name)
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
    since = wanted.pop("since", None)
    schedules.add(name, kind, timing, wanted, now, since=since)
    return timing


def run_due(now: int) -> bool:
    """Begin the first run that is due; return whether there was one. Within an app context."""
    settings = settings_of(current_app)
    for kind in schedule_kinds().values():
        if isinstance(kind, BuiltInKind):
            when = kind.timing(settings)
            schedules.keep_built_in(kind.name, Timing.of(when) if when else None, now)
    for found in schedules.schedules():
        is_under_way = schedules.settle(found, now)
        one = schedules.set_back(found, now)
        due_at = one.due_at(settings.zone)
        if due_at is None or due_at > now:
            continue
        if is_under_way:
            schedules.note(one, ScheduledRun(now, now, SKIPPED, job_id=one.job_id))
        else:
            _begin_due(one, now)
        return True
    return False


def _begin_due(one: Schedule, now: int) -> None:
    try:
        kind = _kind_of(one)
        if not kind.has_work(one, now):
            schedules.note(one, ScheduledRun(now, now, IDLE))
            return
        passphrase = kind.passphrase(one)
    except ConfigurationError as error:
        if schedules.note(one, ScheduledRun(now, now, FAILED, str(error))):
            _log.warning("the schedule %s cannot run", one.name)
        return
    _start(one, queue.new_id(), now, passphrase)


def run_now(name: str, now: int) -> str:
    """Begin a run by hand; return the id of its job. Raises ConfigurationError, Unwritable."""
    _refuse_built_in(name)
    one = schedules.find(name)
    if schedules.settle(one, now):
        raise RefusedCommand("The schedule %(name)s is already running.", name=name)
    passphrase, job_id = _kind_of(one).passphrase(one), queue.new_id()
    record("schedule-begun", what=name)
    if not _start(one, job_id, now, passphrase, is_due=False):
        raise RefusedCommand("The schedule %(name)s is already running.", name=name)
    return job_id


def pause(name: str, now: int, *, paused: bool) -> bool:
    """Pause or resume a schedule; return whether it was not so already.

    Raises RefusedCommand, Unwritable.
    """
    _refuse_built_in(name)
    return schedules.pause(name, now, paused=paused)


def remove(name: str) -> None:
    """Remove a schedule; a run under way goes on. Raises RefusedCommand, Unwritable."""
    _refuse_built_in(name)
    schedules.remove(name)


def _refuse_built_in(name: str) -> None:
    """Raise RefusedCommand for a schedule that only a setting changes, and for an unknown one."""
    kind = schedule_kinds().get(schedules.find(name).kind)
    if isinstance(kind, BuiltInKind):
        raise RefusedCommand(kind.refusal)


def _start(one: Schedule, job_id: str, now: int, passphrase: str, *, is_due: bool = True) -> bool:
    """Claim a run and start its job, where no other process has; return whether this one did.

    The run of a built-in schedule, which is no job, is done at once.
    """
    claim = partial(schedules.claim, one=one, now=now, job_id=job_id, is_due=is_due)
    began = time.monotonic()
    try:
        kind = _kind_of(one)
        if isinstance(kind, BuiltInKind):
            with writing() as connection:
                is_ours = claim(connection)
            if is_ours:
                note = kind.run(now)
                ended = now + round(time.monotonic() - began)
                schedules.finish(one.name, ScheduledRun(now, ended, DONE, note, job_id))
            return is_ours
        state: dict[str, Any] = {"schedule": one.name, "since": one.since, "now": now}
        state |= kind.request(one)
        return process.start(
            job_id,
            one.kind,
            owner=one.owner,
            request={**one.options, **state, "encrypted": bool(passphrase)},
            passphrase=passphrase,
            claim=claim,
        )
    except ConfigurationError as error:
        schedules.finish(one.name, ScheduledRun(now, now, FAILED, str(error), job_id))
        if not is_due:
            raise
        return True


def _kind_of(one: Schedule) -> ScheduleKind:
    """Return the kind of a schedule. Raises ConfigurationError where its feature is gone."""
    kind = schedule_kinds().get(one.kind)
    if kind is None:
        raise ConfigurationError(f"This server has no schedules of the kind {one.kind}.")
    return kind
