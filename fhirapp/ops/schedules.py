"""Schedules: their kinds, what each takes and needs, and the runs that are due.

The worker of each server process looks every few seconds; jobs/schedule.py sees to it that one of
them begins a run.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

from flask import Flask, current_app

from fhirapp.config import ConfigurationError, RefusedCommand, Settings, settings_of
from fhirapp.current import this_app
from fhirapp.db import writing
from fhirapp.disk import database_path
from fhirapp.features.backups.backup import why_no_backup
from fhirapp.features.backups.passphrase import VARIABLE, read_passphrase
from fhirapp.features.backups.rotation import stem_of
from fhirapp.features.imports.watched import (
    DONE_FOLDER,
    FAILED_FOLDER,
    failed_units,
    own_folder,
    waiting,
)
from fhirapp.features.pull.address import is_export, origin, place
from fhirapp.features.pull.authorization import read_key
from fhirapp.fhir.temporal import moment_of
from fhirapp.jobs import process, schedule, table, worker
from fhirapp.jobs.schedule import IDLE, RESET, SKIPPED, Run, Schedule, Timing
from fhirapp.jobs.table import DONE, FAILED
from fhirapp.ops.jobs import BACKUP, FOLDER, PULL
from fhirapp.ops.reset import reset
from fhirapp.trail.events import record

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
# How long a folder on another machine may take to be listed, while nothing else is begun.
_LOOK_SECONDS = 5.0
# Who looked into a folder last, since when: into one that does not answer nobody else looks.
_looking: dict[Path, tuple[Thread, float]] = {}
_RESETS: Mapping[str, str] = {"hourly": "hourly", "nightly": "daily 03:00"}


class Kind(NamedTuple):
    """A kind of schedule: what it does, the options that it takes, its check of them.

    The check raises ConfigurationError for what cannot be met.
    """

    doc: str
    takes: frozenset[str]
    check: Callable[[Settings, Mapping[str, Any]], None]


def init_app(app: Flask) -> None:
    """Have the server's worker begin what is due."""
    worker.register(app, lambda _now: None, lambda pace: run_due(int(pace.clock())))


def _check_backup(settings: Settings, options: Mapping[str, Any]) -> None:
    if why := why_no_backup(settings):
        raise ConfigurationError(why)
    if folder := options.get("folder"):
        _check_place(folder)
    if file := options.get("passphrase_file"):
        read_passphrase(Path(file))


def _check_place(folder: str) -> None:
    if not Path(folder).is_absolute() or not Path(folder).is_dir():
        raise RefusedCommand(
            "The folder %(folder)s does not exist. Enter an absolute path, starting with /.",
            folder=folder,
        )


def _check_folder(settings: Settings, options: Mapping[str, Any]) -> None:
    _check_place(options.get("folder") or "")
    folder = Path(options["folder"]).resolve()
    database = database_path(settings)
    for own in filter(None, [settings.folder, database and database.parent]):
        if folder.is_relative_to(own.resolve()) or own.resolve().is_relative_to(folder):
            raise RefusedCommand(
                "%(folder)s contains files of the server itself, or lies inside such a folder. "
                "Choose another folder.",
                folder=folder,
            )
    for path in (folder / DONE_FOLDER, folder / FAILED_FOLDER):
        if path.is_symlink() or not path.is_dir():
            raise RefusedCommand(
                "Create the folders %(done)s and %(failed)s in %(folder)s first. This makes sure "
                "that no other folder is emptied by mistake.",
                done=DONE_FOLDER,
                failed=FAILED_FOLDER,
                folder=folder,
            )
    for path in (folder, folder / DONE_FOLDER, folder / FAILED_FOLDER):
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise RefusedCommand(
                "The user account that runs the server needs read and write permission for "
                "%(folder)s.",
                folder=path,
            )


def _check_pull(_settings: Settings, options: Mapping[str, Any]) -> None:
    address, key = options.get("address") or "", options.get("key")
    if not address:
        raise RefusedCommand(
            "Enter the URL of an export, such as https://fhir.example/fhir/$export."
        )
    origin(address)
    if not is_export(address):
        raise RefusedCommand(
            "%(place)s is not the URL of an export. Use a URL such as "
            "https://fhir.example/fhir/$export.",
            place=place(address),
        )
    if any(name == "_since" for name, _value in parse_qsl(urlsplit(address).query)):
        raise RefusedCommand("Remove _since from the URL: each run sets it.")
    if bool(key) != bool(options.get("client_id")):
        raise RefusedCommand("A client id needs a key file, and a key file needs a client id.")
    if key:
        read_key(Path(key))
    try:
        moment_of(options.get("since") or "2000-01-01T00:00:00Z")
    except ValueError:
        raise RefusedCommand("%(text)r is not a date or time.", text=options["since"]) from None


KINDS: Mapping[str, Kind] = {
    BACKUP: Kind(
        "Take a backup, keep the newest, try it out",
        frozenset({"folder", "keep", "drill", "encrypt", "passphrase_file"}),
        _check_backup,
    ),
    FOLDER: Kind(
        "Import what is put into a folder", frozenset({"folder", "source", "repair"}), _check_folder
    ),
    PULL: Kind(
        "Import what changed at another FHIR server",
        frozenset({"address", "client_id", "key", "source", "repair", "since"}),
        _check_pull,
    ),
}


def add(
    name: str, kind: str, when: str, options: Mapping[str, Any], now: int, *, makes: bool = False
) -> Timing:
    """Add a schedule, options that are empty left out; return when it runs.

    With makes, the folders of a watched one are made. Raises ConfigurationError for what is not
    right or cannot be met.
    """
    settings = settings_of(current_app)
    if settings.demo:
        raise RefusedCommand(
            "The demo can't have other schedules than its own reset, because anyone can sign in "
            "to it."
        )
    timing = Timing.of(when)
    schedule.check_name(name)
    wanted = {option: value for option, value in options.items() if value}
    if kind not in KINDS:
        raise RefusedCommand("Unknown kind of schedule: %(kind)s.", kind=kind)
    if kind == BACKUP and name == stem_of(settings):
        raise RefusedCommand(
            "Manual backups are also named %(name)s, so this schedule would remove them. Choose "
            "another name, such as nightly.",
            name=name,
        )
    for option in wanted.keys() - KINDS[kind].takes:
        raise RefusedCommand(
            "A schedule of the kind %(kind)s has no option %(option)s.", kind=kind, option=option
        )
    if kind == FOLDER and makes and Path(wanted.get("folder", "")).is_dir():
        for own in (DONE_FOLDER, FAILED_FOLDER):
            own_folder(Path(wanted["folder"], own))
    KINDS[kind].check(settings, wanted)
    since = wanted.pop("since", None)
    schedule.add(name, kind, timing, wanted, now, since=since)
    return timing


def run_due(now: int) -> bool:
    """Begin the first run that is due; return whether there was one. Within an app context."""
    settings = settings_of(current_app)
    if settings.demo:
        when = _RESETS.get(settings.demo_reset)
        schedule.keep_reset(Timing.of(when) if when else None, now)
    for found in schedule.schedules():
        is_under_way = schedule.settle(found, now)
        one = schedule.set_back(found, now)
        due_at = one.due_at(settings.zone)
        if due_at is None or due_at > now:
            continue
        if is_under_way:
            schedule.note(one, Run(now, now, SKIPPED, job_id=one.job_id))
        else:
            _begin_due(one, now)
        return True
    return False


def _begin_due(one: Schedule, now: int) -> None:
    try:
        if one.kind == FOLDER and not _listed(Path(one.options["folder"]), now):
            schedule.note(one, Run(now, now, IDLE))
            return
        passphrase = _passphrase(one)
    except ConfigurationError as error:
        if schedule.note(one, Run(now, now, FAILED, str(error))):
            _log.warning("the schedule %s cannot run", one.name)
        return
    _start(one, table.new_id(), now, passphrase)


def run_now(name: str, now: int) -> str:
    """Begin a run by hand; return the id of its job. Raises ConfigurationError, Unwritable."""
    schedule.refuse_reset(name)
    one = schedule.find(name)
    if schedule.settle(one, now):
        raise RefusedCommand("The schedule %(name)s is already running.", name=name)
    passphrase, job_id = _passphrase(one), table.new_id()
    record("schedule-begun", what=name)
    if not _start(one, job_id, now, passphrase, is_due=False):
        raise RefusedCommand("The schedule %(name)s is already running.", name=name)
    return job_id


def _start(one: Schedule, job_id: str, now: int, passphrase: str, *, is_due: bool = True) -> bool:
    """Claim a run and start its job, where no other process has; return whether this one did.

    A reset, which removes all jobs, is made at once.
    """
    claim = partial(schedule.claim, one=one, now=now, job_id=job_id, is_due=is_due)
    began = time.monotonic()
    try:
        if one.kind == RESET:
            with writing() as connection:
                is_ours = claim(connection)
            if is_ours:
                app = this_app()
                count = reset(app, now)
                ended = now + round(time.monotonic() - began)
                schedule.finish(one.name, Run(now, ended, DONE, f"{count} versions.", job_id))
                _log.info("the demo was reset: %d versions", count)
            return is_ours
        state: dict[str, Any] = {"schedule": one.name, "since": one.since, "now": now}
        if one.kind != BACKUP:
            # What the page of an import calls its files.
            named = one.options.get("folder") or place(one.options["address"])
            state |= {"names": [named], "count": 1, "provenance": True}
        return process.start(
            job_id,
            one.kind,
            module="fhirapp.ops.work",
            owner=one.owner,
            request={**one.options, **state, "encrypted": bool(passphrase)},
            passphrase=passphrase,
            claim=claim,
        )
    except ConfigurationError as error:
        schedule.finish(one.name, Run(now, now, FAILED, str(error), job_id))
        return True


def _passphrase(one: Schedule) -> str:
    """Return the passphrase of a backup, which is stored nowhere. Raises ConfigurationError."""
    if one.kind != BACKUP:
        return ""
    if file := one.options.get("passphrase_file"):
        return read_passphrase(Path(file))
    found = os.environ.get(VARIABLE, "")
    if one.options.get("encrypt") and not found:
        raise ConfigurationError(
            f"There is no passphrase: set {VARIABLE} for the server, or name a file that has it."
        )
    return found


def _listed(folder: Path, now: int) -> bool:
    """Say whether a watched folder holds what can be taken. Raises ConfigurationError."""

    def look() -> bool:
        try:
            left = folder / ".fhirapp"
            return bool(waiting(folder, now)) or (left.is_dir() and any(left.iterdir()))
        except OSError:
            return True

    return _looked(folder, look)


def count_failed(one: Schedule) -> int:
    """Return how many units lie in a watched folder's failed/; 0 where that cannot be told."""
    if one.kind != FOLDER:
        return 0
    folder = Path(one.options["folder"])
    try:
        return _looked(folder, lambda: len(failed_units(folder)))
    except (ConfigurationError, OSError):
        # Its next run tells.
        return 0


def _looked(folder: Path, look: Callable[[], _T]) -> _T:
    """Return what a look at a folder found. Raises what it raises, or ConfigurationError.

    One on another machine that does not answer holds a thread of its own, and no other.
    """
    found: Future[_T] = Future()
    silent = ConfigurationError(f"The watched folder {folder} does not answer.")
    before, began = _looking.get(folder, (None, 0.0))
    if before and before.is_alive() and time.monotonic() - began > _LOOK_SECONDS:
        raise silent

    def work() -> None:
        try:
            found.set_result(look())
        except Exception as error:  # noqa: BLE001
            found.set_exception(error)

    thread = Thread(target=work, name="watched folder", daemon=True)
    _looking[folder] = thread, time.monotonic()
    thread.start()
    try:
        return found.result(timeout=_LOOK_SECONDS)
    except FutureTimeoutError:
        raise silent from None
