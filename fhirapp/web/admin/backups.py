"""Backups: taken, tried out, fetched and deleted."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from shlex import quote as quote_word
from urllib.parse import quote

from flask import Response, request
from werkzeug.exceptions import NotFound

from fhirapp.config import settings
from fhirapp.disk import database_path
from fhirapp.jobs import table
from fhirapp.jobs.table import DONE, Job
from fhirapp.ops.backups.backup import why_no_backup
from fhirapp.ops.backups.rotation import FOLDER, Backup, backups, delete_backup, place_of
from fhirapp.ops.jobs import BACKUP, DRILL, sweep
from fhirapp.web.admin import jobs
from fhirapp.web.admin.jobs import watched
from fhirapp.web.pages import (
    PageError,
    blueprint_of,
    error_page,
    for_administrators,
    page,
    password_field,
    see_other,
)
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_backups", __name__)
# What was removed while it was looked at.
blueprint.register_error_handler(FileNotFoundError, lambda _error: error_page(404))
# In characters; and so many jobs of the past are shown.
_LONGEST, _SHOWN = 999, 5


@blueprint.get("/admin/backups")
@watched
@for_administrators
def every() -> Response:
    """List the backups, and offer to take one."""
    sweep(int(time.time()))
    return _list()


@blueprint.post("/admin/backups")
@for_administrators
def take() -> Response:
    """Take a backup, encrypted where a passphrase is typed."""
    passphrase = password_field("passphrase")
    if passphrase != password_field("again"):
        return _list(_("The passphrases differ. Type the same one twice, or none."))
    if len(passphrase) > _LONGEST:
        return _list(_("A passphrase takes 999 characters at most."))
    if why := why_no_backup(settings()):
        raise PageError(409, why)
    jobs.begin(BACKUP, {"encrypted": bool(passphrase)}, passphrase=passphrase)
    return see_other("/admin/backups")


@blueprint.get("/admin/backups/<name>")
@watched
@for_administrators
def one(name: str) -> Response:
    """Show a backup: what is known of it, and what can be done with it."""
    return _one(_found(name))


@blueprint.post("/admin/backups/<name>/drill")
@for_administrators
def drill(name: str) -> Response:
    """Try a backup out: open a copy, and read all of it."""
    found, passphrase = _found(name), password_field("passphrase")
    if found.is_sealed and not passphrase:
        return _one(found, _("Type the passphrase: this backup cannot be opened without it."))
    jobs.begin(DRILL, {"name": found.name}, passphrase=passphrase)
    return see_other(_path(found))


@blueprint.get("/admin/backups/<name>/file")
@for_administrators
def file(name: str) -> Response:
    """Send a backup."""
    found = _found(name)
    response = jobs.sent(f"{FOLDER}/{found.name}")
    jobs.note("fetched backup %s", found.name)
    return response


@blueprint.post("/admin/backups/<name>/delete")
@for_administrators
def delete(name: str) -> Response:
    """Delete a backup, once the administrator confirmed it."""
    found = _found(name)
    if request.form.get("sure") != "yes":
        return _one(found, asks=True)
    try:
        delete_backup(settings(), found.name)
    except OSError as error:
        raise PageError(409, _("It cannot be deleted: %(why)s.", why=error.strerror)) from None
    jobs.note("deleted backup %s", found.name)
    return see_other("/admin/backups?done=deleted")


def _list(message: str = "") -> Response:
    found = backups(settings())
    taken = table.jobs(BACKUP)
    return page(
        "admin/backups.html",
        400 if message else 200,
        scripts=True,
        job_id=table.new_id(),
        backups=[(backup, _drilled(backup)) for backup in found],
        path_of=_path,
        # What went well stands in the list of backups.
        jobs=[job for job in taken[:_SHOWN] if job.is_under_way or job.state != DONE],
        last=next((job for job in taken if job.state == DONE), None),
        is_under_way=any(job.is_under_way for job in taken),
        message=message,
        done=_("The backup is deleted.") if request.args.get("done") == "deleted" else "",
        cannot=why_no_backup(settings()),
        files=settings().files,
        restore=_restore(found[0] if found else None),
        needs_settings=database_path(settings()) is None,
        running=jobs,
    )


def _one(backup: Backup, message: str = "", *, asks: bool = False) -> Response:
    drills = _drills(backup)
    return page(
        "admin/backup.html",
        400 if message else 200,
        scripts=True,
        job_id=table.new_id(),
        backup=backup,
        path=_path(backup),
        restore=_restore(backup),
        needs_settings=database_path(settings()) is None,
        drills=drills[:_SHOWN],
        is_under_way=any(job.is_under_way for job in drills),
        message=message,
        asks=asks,
        running=jobs,
    )


def _found(name: str) -> Backup:
    """Return the backup of a name. Raises NotFound for whatever is none of those listed."""
    for backup in backups(settings()):
        if backup.name == name:
            return backup
    raise NotFound


def _path(backup: Backup) -> str:
    """Return the path of a backup's page."""
    return f"/admin/backups/{quote(backup.name)}"


def _restore(backup: Backup | None) -> str:
    """Return the command that comes back to a backup, for this server's database and no other."""
    # That of PostgreSQL may have a password in it.
    names = ("FHIRAPP_INSTANCE_PATH", "FHIRAPP_DATABASE_URL")
    variables = {name: os.environ[name] for name in names if name in os.environ}
    shown = [f"{name}={quote_word(text)} " for name, text in variables.items() if "@" not in text]
    sealed = " --passphrase-file PASSPHRASE.txt" if backup and backup.is_sealed else ""
    place = place_of(settings(), backup.name if backup else _("NAME.backup"))
    demo = " --demo" if settings().demo else ""
    return f"{''.join(shown)}fhirapp restore {quote_word(place)} --force{sealed}{demo}"


def _drills(backup: Backup) -> Sequence[Job]:
    """Return when a backup was tried out, newest first."""
    tried = table.jobs(DRILL)
    return [job for job in tried if job.request.get("name") == backup.name]


def _drilled(backup: Backup) -> Job | None:
    return next(iter(_drills(backup)), None)
