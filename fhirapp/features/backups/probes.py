"""Probes of backups, and the step that takes the first one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from fhirapp.config import settings
from fhirapp.feature import N_
from fhirapp.features.backups.backup import why_no_backup
from fhirapp.features.backups.jobs import BACKUP, VERIFICATION
from fhirapp.features.backups.rotation import Backup, backups
from fhirapp.jobs import queue, schedules
from fhirapp.probe import GOOD, NOTE, WRONG, Bytes, Cost, Finding, Gauge, Moment, Probe, SetupStep

# A weekly schedule keeps within it.
OLD_BACKUP_DAYS = 8
OLD_VERIFICATION_DAYS = 35
_DAY = 86_400
_PATH = "/admin/backups"


def _last_backup() -> Iterator[Finding | Gauge]:
    if settings().demo:
        return
    if reason := why_no_backup(settings()):
        text = N_("This server cannot take backups.")
        yield Finding(NOTE, text, "%(reason)s", values={"reason": reason})
        return
    found, run = _backups(), _last_run()
    if found is None:
        return
    newest = found[0] if found else None
    size = sum(backup.size for backup in found)
    yield Gauge("backups_bytes", "Size of the backups on this server", size)
    if newest is not None:
        age = time.time() - newest.taken_at
        yield Gauge("backup_age_seconds", "Age of the newest backup on this server", age)
        yield from _verification()
    if newest is not None and (run is None or newest.taken_at >= run[1] - _DAY):
        text = N_("The newest backup is %(days)s days old: %(name)s, %(time)s, %(size)s.")
        values: dict[str, object] = {"name": newest.name, "size": Bytes(newest.size)}
        yield _judged(text, newest.taken_at, values)
    elif run is not None:
        name, at = run
        text = N_("The schedule %(name)s took its last backup %(days)s days ago: %(time)s.")
        yield _judged(text, at, {"name": name})
    else:
        yield Finding(
            NOTE,
            N_(
                "There is no backup in the server's backup folder. Backups elsewhere are not "
                "visible here."
            ),
            N_("Take one every night, and keep it on another machine."),
            _PATH,
        )


def _backups() -> Sequence[Backup] | None:
    """Return the backups, newest first; None if the shared files, which have a probe, fail."""
    try:
        return backups(settings())
    except OSError:
        return None


def _judged(text: str, at: float, values: dict[str, object]) -> Finding:
    days = int((time.time() - at) // _DAY)
    is_old = time.time() - at > OLD_BACKUP_DAYS * _DAY
    advice = N_("Take one every night: fhirapp backup DIR --keep 14.") if is_old else ""
    values |= {"days": days, "time": Moment(at)}
    return Finding(WRONG if is_old else GOOD, text, advice, _PATH, values)


def _last_run() -> tuple[str, int] | None:
    """Return the schedule that took the last backup, in whichever folder, and when."""
    found = [schedule for schedule in schedules.schedules() if schedule.kind == BACKUP]
    ends = [(runs.succeeded_at or 0, name) for name, runs in schedules.runs_of(*found).items()]
    at, name = max(ends, default=(0, ""))
    return (name, at) if at else None


def _verification() -> Iterator[Finding]:
    ends = [job.ended_at or 0 for job in queue.jobs(VERIFICATION) if job.state == queue.DONE]
    if max(ends, default=0) < time.time() - OLD_VERIFICATION_DAYS * _DAY:
        text = N_("No backup was verified on the page Backups in the last %(days)s days.")
        advice = N_(
            "Verify one there, or have the schedule do so. Those by fhirapp backup --verify are "
            "not counted."
        )
        yield Finding(NOTE, text, advice, _PATH, {"days": OLD_VERIFICATION_DAYS})


def take_backup() -> SetupStep | None:
    """Return the step that schedules backups; None if the database's own tools take them."""
    if why_no_backup(settings()):
        return None
    is_scheduled = any(schedule.kind == BACKUP for schedule in schedules.schedules())
    description = N_("By a schedule, or by a command that cron runs. Take the first one now.")
    # Backups of several days are taken by a command, where not by a schedule.
    days = {int(backup.taken_at // _DAY) for backup in _backups() or ()}
    is_done = is_scheduled or len(days) > 1
    return SetupStep(40, N_("Back up every night"), description, _PATH, is_done)


PROBES = (Probe(N_("Backups"), _last_backup, Cost.REMOTE),)
