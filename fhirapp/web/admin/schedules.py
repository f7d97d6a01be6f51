"""Schedules: when each runs next and how the last runs ended; added, run, paused, removed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from flask import Response, request
from werkzeug.exceptions import NotFound

from fhirapp.config import ConfigurationError, RefusedCommand, settings
from fhirapp.jobs import kinds, schedules
from fhirapp.jobs.queue import Job
from fhirapp.jobs.schedules import Schedule
from fhirapp.web import pages
from fhirapp.web.admin import jobs
from fhirapp.web.admin.jobs import watched
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.texts import _, reason_of

blueprint = pages.blueprint_of("admin_schedules", __name__)
_LONGEST = 1_000
_DONE: Mapping[str, str] = {
    pages.UNCHANGED: pages.NOTHING_CHANGED,
    "added": _("Schedule added."),
    "removed": _("Schedule removed. Its backups and imported records stay."),
}


@blueprint.get("/admin/schedules")
@watched
@pages.for_administrators
def every() -> Response:
    """List the schedules, and offer to add one."""
    found = schedules.schedules()
    runs_of = schedules.runs_of(*found)
    return pages.page(
        "admin/schedules.html",
        scripts=True,
        schedules=[
            (schedule, schedule.due_at(settings().zone), runs_of[schedule.name])
            for schedule in found
        ],
        kinds=_labels(),
        addable=[*kinds.addable_kinds()],
        running=jobs,
        is_under_way=any(runs.current for runs in runs_of.values()),
        done=_(_DONE.get(request.args.get("done", ""), "")),
        keep_days=settings().audit_keep,
    )


@blueprint.get("/admin/schedules/<kind>/new")
@pages.for_administrators
def new(kind: str) -> Response:
    """Ask for what a new schedule shall do."""
    return _form(kind, form_fields())


@blueprint.post("/admin/schedules/<kind>/new")
@keeps("name", "when", "at", more=lambda: _fields())
@pages.for_administrators
def add(kind: str) -> Response:
    """Add a schedule."""
    declared = _declared(kind)
    options: dict[str, Any] = {name: pages.field(name, _LONGEST) for name in declared.fields}
    try:
        for option, shown in declared.fields.items():
            if shown.is_count and options[option]:
                options[option] = _count(options[option])
        name = pages.field("name", 100)
        # The form on the page of backups has a time of day alone.
        when = pages.field("when", 100) or f"daily {pages.field('at', 100)}"
        schedules.add(name, kind, when, options, int(time.time()))
    except ConfigurationError as error:
        return _form(kind, request.form, _words(error))
    return pages.see_other("/admin/schedules?done=added")


@blueprint.get("/admin/schedules/<name>")
@watched
@pages.for_administrators
def one(name: str) -> Response:
    """Show a schedule and its last runs."""
    return _one(_found(name))


@blueprint.post("/admin/schedules/<name>/<action>")
@pages.for_administrators
def act(name: str, action: str) -> Response:
    """Run, stop, pause, resume or remove a schedule; to remove it is confirmed."""
    found, now = _found(name), int(time.time())
    try:
        if action == "run":
            schedules.run_now(name, now)
        elif action == "stop":
            if job := schedules.runs_of(found)[name].current:
                jobs.end(job)
        elif action in ("pause", "resume"):
            if not schedules.pause(name, now, paused=action == "pause"):
                return pages.see_other(f"/admin/schedules/{name}?done={pages.UNCHANGED}")
        elif action != "remove":
            raise NotFound
        elif request.form.get("sure") != "yes":
            return _one(found, asks=True)
        else:
            schedules.remove(name)
            return pages.see_other("/admin/schedules?done=removed")
    except ConfigurationError as error:
        return _one(found, _words(error))
    return pages.see_other(f"/admin/schedules/{name}")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 10_000):
        raise RefusedCommand("Keep 1 to 10,000 backups.")
    return int(text)


def _words(error: ConfigurationError) -> str:
    return reason_of(error) if isinstance(error, RefusedCommand) else str(error)


def _found(name: str) -> Schedule:
    """Return a schedule. Raises NotFound."""
    for schedule in schedules.schedules():
        if schedule.name == name:
            return schedule
    raise NotFound


def _form(kind: str, typed: Mapping[str, str], message: str = "") -> Response:
    declared = _declared(kind)
    return pages.page(
        "admin/new_schedule.html",
        400 if message else 200,
        kind=kind,
        title=_(declared.label),
        fields=declared.fields,
        typed=typed,
        message=message,
    )


def _one(found: Schedule, message: str = "", *, asks: bool = False) -> Response:
    runs, kind = schedules.runs_of(found)[found.name], kinds.schedule_kinds().get(found.kind)
    return pages.page(
        "admin/schedule.html",
        400 if message else 200,
        scripts=True,
        schedule=found,
        due_at=found.due_at(settings().zone),
        kinds=_labels(),
        labels={name: shown.label for name, shown in _fields().items()},
        refused=kinds.count_failed(found),
        refusal=_(kind.refusal) if isinstance(kind, kinds.BuiltInKind) else "",
        runs=runs,
        path_of=lambda job: _path_of(kind, job),
        running=jobs,
        message=message,
        done=_(_DONE.get(request.args.get("done", ""), "")),
        asks=asks,
    )


def _path_of(kind: kinds.ScheduleKind | None, job: Job) -> str:
    """Return the path of the page of a run's job, empty for a job that could not begin."""
    return kind.job_path.format(job_id=job.id) if kind and job.attempts else ""


def _labels() -> Mapping[str, str]:
    """Return the label of each kind of schedule; the page translates it."""
    return {kind.name: kind.label for kind in kinds.schedule_kinds().values()}


def _fields() -> Mapping[str, kinds.FormField]:
    """Return the fields of the forms of all kinds, by name."""
    return {
        name: shown
        for kind in kinds.schedule_kinds().values()
        for name, shown in kind.fields.items()
    }


def _declared(kind: str) -> kinds.ScheduleKind:
    """Return a kind of schedule. Raises NotFound."""
    declared = kinds.addable_kinds().get(kind)
    if declared is None:
        raise NotFound
    return declared
