"""Schedules: when each runs next and how the last runs ended; added, run, paused, removed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from flask import Response, abort, request

from fhirapp.config import ConfigurationError, RefusedCommand, settings
from fhirapp.jobs import kinds, schedules
from fhirapp.jobs.schedules import Schedule
from fhirapp.web import pages
from fhirapp.web.admin import jobs
from fhirapp.web.admin.jobs import watched
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("admin_schedules", __name__)
_LONGEST = 1_000
_DONE: Mapping[str, str] = {
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
        kinds={kind.name: kind.label for kind in kinds.schedule_kinds().values()},
        addable=[*kinds.addable_kinds()],
        is_under_way=any(runs.current for runs in runs_of.values()),
        done=pages.done_message(_DONE),
        keep_days=settings().audit_keep,
    )


@blueprint.get("/admin/schedules/<kind>/new")
@pages.for_administrators
def new(kind: str) -> Response:
    """Ask for what a new schedule shall do."""
    return _form(kind)


def _form(kind: str, message: str = "", status: int = 200) -> Response:
    declared = kinds.addable_kinds().get(kind) or abort(404)
    return pages.page(
        "admin/new_schedule.html",
        status,
        kind=kind,
        title=_(declared.label),
        fields=declared.fields,
        typed=form_fields(),
        message=message,
    )


@blueprint.post("/admin/schedules/<kind>/new")
@keeps(
    *("name", "when", "at"),
    more=lambda: [name for kind in kinds.addable_kinds().values() for name in kind.fields],
)
@pages.for_administrators
@pages.form_action(_form, error=ConfigurationError)
def add(kind: str) -> Response:
    """Add a schedule."""
    fields = (kinds.addable_kinds().get(kind) or abort(404)).fields
    options: dict[str, Any] = {name: pages.field(name, _LONGEST) for name in fields}
    for option, shown in fields.items():
        if shown.is_count and options[option]:
            options[option] = _count(options[option])
    # The form on the page of backups has a time of day alone.
    when = pages.field("when", 100) or f"daily {pages.field('at', 100)}"
    schedules.add(pages.field("name", 100), kind, when, options, int(time.time()))
    return pages.acted("/admin/schedules", "added")


@blueprint.get("/admin/schedules/<name>")
@watched
@pages.for_administrators
def one(name: str) -> Response:
    """Show a schedule and its last runs."""
    return _one(name)


def _one(name: str, message: str = "", status: int = 200, *, asks: bool = False) -> Response:
    found = _found(name)
    runs, kind = schedules.runs_of(found)[name], kinds.schedule_kinds().get(found.kind)
    return pages.page(
        "admin/schedule.html",
        status,
        scripts=True,
        schedule=found,
        due_at=found.due_at(settings().zone),
        kind=kind,
        label=_(kind.label if kind else found.kind),
        refused=kinds.count_failed(found),
        refusal=_(kind.refusal) if isinstance(kind, kinds.BuiltInKind) else "",
        runs=runs,
        message=message,
        done=pages.done_message(_DONE),
        asks=asks,
    )


@blueprint.post("/admin/schedules/<name>/<action>")
@pages.for_administrators
@pages.form_action(
    lambda name, message, status, **_action: _one(name, message, status), error=ConfigurationError
)
def act(name: str, action: str) -> Response:
    """Run, stop, pause, resume or remove a schedule; to remove it is confirmed."""
    found, now, is_changed = _found(name), int(time.time()), True
    if action == "run":
        schedules.run_now(name, now)
    elif action == "stop":
        if job := schedules.runs_of(found)[name].current:
            jobs.end(job)
    elif action in ("pause", "resume"):
        is_changed = schedules.pause(name, now, paused=action == "pause")
    elif action != "remove":
        abort(404)
    elif request.form.get("sure") != "yes":
        return _one(name, asks=True)
    else:
        schedules.remove(name)
        return pages.acted("/admin/schedules", "removed")
    return pages.see_other(
        f"/admin/schedules/{name}{'' if is_changed else f'?done={pages.UNCHANGED}'}"
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 10_000):
        raise RefusedCommand("Keep 1 to 10,000 backups.")
    return int(text)


def _found(name: str) -> Schedule:
    """Return a schedule. Raises NotFound."""
    found = (schedule for schedule in schedules.schedules() if schedule.name == name)
    return next(found, None) or abort(404)
