"""Backups: taken, uploaded, verified, fetched, restored and deleted."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from shlex import quote as quote_word
from typing import Any
from urllib.parse import quote

from flask import Response, request
from werkzeug.exceptions import NotFound

from fhirapp.audit.events import LONGEST_REASON, SHORTEST_REASON
from fhirapp.config import ConfigurationError, RefusedCommand, settings
from fhirapp.db import db
from fhirapp.disk import database_path
from fhirapp.features.backups import prepared
from fhirapp.features.backups.backup import why_no_backup
from fhirapp.features.backups.jobs import BACKUP, RESTORE, SCHEDULE, VERIFICATION
from fhirapp.features.backups.restore import contents
from fhirapp.features.backups.rotation import FOLDER, Backup, backups, delete_backup, place_of
from fhirapp.fhir.outcome import BodyTooLong
from fhirapp.fhir.temporal import moment_of
from fhirapp.jobs import queue, schedules
from fhirapp.jobs.queue import DONE
from fhirapp.jobs.worker import sweep
from fhirapp.web import pages
from fhirapp.web.admin import jobs
from fhirapp.web.admin.jobs import watched
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("admin_backups", __name__)
# What was removed while it was looked at.
blueprint.register_error_handler(FileNotFoundError, lambda _error: pages.error_page(404))
# More than a form brings without scripts, which send it in pieces.
blueprint.register_error_handler(
    BodyTooLong, lambda _error: jobs.too_long("restore FILE", "/admin/backups")
)
# In characters; and so many jobs of the past are shown.
_LONGEST, _SHOWN = 999, 5
# What a restore's page counts, in this order.
_COUNTED: Mapping[str, str] = {
    "Patient": _("Patients"),
    "AllergyIntolerance": _("Allergies"),
    "DocumentReference": _("Documents"),
    "accounts": _("Accounts"),
    "consents": _("Consents to apps"),
}


@blueprint.get("/admin/backups")
@watched
@pages.for_administrators
def every() -> Response:
    """List the backups, and offer to take one."""
    sweep(int(time.time()))
    return _list()


def _list(message: str = "", status: int = 200) -> Response:
    found, taken = backups(settings()), queue.jobs(BACKUP)
    # The newest of each stays.
    verifications = {job.request.get("name"): job for job in reversed(queue.jobs(VERIFICATION))}
    last_restore = prepared.prepared(settings())
    is_over = last_restore and last_restore.state in (prepared.DONE, prepared.FAILED)
    return _page(
        "backups/backups.html",
        found[0] if found else None,
        message,
        status,
        upload_id=queue.new_id(),
        backups=[(backup, verifications.get(backup.name)) for backup in found],
        path_of=_path,
        # Backups that succeeded are in the list of backups.
        jobs=[job for job in taken[:_SHOWN] if job.is_under_way or job.state != DONE],
        is_under_way=any(job.is_under_way for job in taken),
        done=_("Backup deleted.") if request.args.get("done") == "deleted" else "",
        cannot=why_no_backup(settings()),
        schedules=[
            (schedule, schedule.due_at(settings().zone))
            for schedule in schedules.schedules()
            if schedule.kind == BACKUP
        ],
        fields=SCHEDULE.fields,
        files=settings().files,
        takes_uploads=not settings().demo,
        last_restore=last_restore if is_over else None,
    )


def _page(
    template: str, backup: Backup | None, message: str, status: int, **values: Any
) -> Response:
    """Return a page with the command that restores a backup."""
    return pages.page(
        template,
        status,
        scripts=True,
        job_id=queue.new_id(),
        backup=backup,
        path=_path(backup) if backup else "",
        message=message,
        restore=_restore(backup),
        needs_settings=database_path(settings()) is None,
        restores=not prepared.why_no_restart(settings()),
        **values,
    )


@blueprint.post("/admin/backups")
@pages.for_administrators
@pages.form_action(_list)
def take() -> Response:
    """Take a backup, encrypted where a passphrase is typed."""
    passphrase = pages.password_field("passphrase")
    if passphrase != pages.password_field("again"):
        raise RefusedCommand(
            "The passphrases do not match. Enter the same passphrase twice, or leave both "
            "fields empty."
        )
    if len(passphrase) > _LONGEST:
        raise RefusedCommand("A passphrase can have at most 999 characters.")
    if why := why_no_backup(settings()):
        raise pages.PageError(409, why)
    jobs.begin(BACKUP, {"encrypted": bool(passphrase)}, passphrase=passphrase)
    return pages.see_other("/admin/backups")


@blueprint.post("/admin/backups/upload")
@pages.for_administrators
@pages.form_action(_list, error=ConfigurationError)
def upload() -> Response:
    """Keep a backup that was uploaded in pieces before, or comes with this form."""
    if settings().demo:
        # What is in one need not have come through this server's checks.
        raise RefusedCommand(
            "The demo takes no backup from elsewhere, since everybody may sign in."
        )
    job_id = jobs.job_field()
    if queue.find(job_id, BACKUP) is None:
        found = jobs.take_upload(job_id)
        if found is None or not found.is_whole:
            raise RefusedCommand("Choose the file of a backup, and upload it as a whole.")
        jobs.begin(BACKUP, {"uploaded": found.files[0].name, "size": found.size})
    return pages.see_other("/admin/backups")


@blueprint.get("/admin/backups/<name>/restore")
@watched
@pages.for_administrators
def restore(name: str) -> Response:
    """Show what a restore of a backup would bring and take, once that is prepared."""
    return _restore_page(name)


def _restore_page(name: str, message: str = "", status: int = 200) -> Response:
    backup, why = _found(name), prepared.why_no_restart(settings())
    # Jobs are read first: a job that ends in between has already stored its result.
    began = [job for job in queue.jobs(RESTORE) if job.request.get("name") == backup.name]
    found = prepared.prepared(settings())
    is_ready = found and (found.name, found.state) == (backup.name, prepared.PREPARED) and not why
    today: Mapping[str, int] = {}
    lost: Mapping[str, int] = {}
    if found and is_ready:
        with db.engine.connect() as connection:
            today, lost = contents(connection), prepared.changed_since(connection, found.taken)
    return _page(
        "backups/restore.html",
        backup,
        message,
        status,
        why=why,
        job=next(iter(began), None),
        found=found if is_ready else None,
        taken=moment_of(found.taken).timestamp() if found else 0,
        counted=_COUNTED,
        today=today,
        lost=lost,
        reason=form_fields().get("reason", "").strip(),
        longest=LONGEST_REASON,
    )


@blueprint.post("/admin/backups/<name>/restore")
@pages.for_administrators
@pages.form_action(_restore_page)
def prepare(name: str) -> Response:
    """Prepare a restore: the backup is checked, and laid beside the database."""
    found = _found(name)
    _check_restores_here()
    jobs.begin(RESTORE, {"name": found.name}, passphrase=_passphrase(found))
    return pages.see_other(f"{_path(found)}/restore")


def _passphrase(backup: Backup) -> str:
    """Return the passphrase in the form. Raises RefusedCommand if the backup needs one."""
    passphrase = pages.password_field("passphrase")
    if backup.is_sealed and not passphrase:
        raise RefusedCommand("Enter the passphrase. This backup can't be opened without it.")
    return passphrase


@blueprint.post("/admin/backups/<name>/restore/confirm")
@keeps("reason")
@pages.for_administrators
@pages.form_action(_restore_page, error=ConfigurationError)
def confirm(name: str) -> Response:
    """Have the server restart on what is prepared, once the administrator typed why."""
    found, reason = _found(name), pages.field("reason", LONGEST_REASON)
    _check_restores_here()
    if any(job.is_under_way for job in queue.jobs()):
        raise RefusedCommand(
            "An import, export or backup is under way. Wait for its end, or stop it."
        )
    if len(reason) < SHORTEST_REASON:
        raise RefusedCommand("Enter a reason. It is kept in the audit trail.")
    if pages.field("typed", 100).casefold() != _("restore").casefold():
        raise RefusedCommand("The word is another one. Nothing was restored.")
    # Made first: the server ends its processes then.
    restoring = pages.page("backups/restoring.html", above="../../../")
    prepared.confirm(settings(), pages.field("prepared", 100), pages.signed_in().user, reason)
    jobs.note("restores backup %s", found.name)
    return restoring


@blueprint.get("/admin/restoring")
def restoring() -> Response:
    """Show that the server restarts, until the outcome is known; then say why to sign in again."""
    found = prepared.prepared(settings())
    if found and found.state == prepared.DONE and pages.current_session() is None:
        return pages.see_other(pages.sign_in_address("/admin/backups", "restored"))
    return _restoring(found)


@pages.for_administrators
def _restoring(found: prepared.PreparedRestore | None) -> Response:
    if found is None or found.state != prepared.CONFIRMED:
        return pages.see_other("/admin/backups")
    return pages.page("backups/restoring.html", above="")


@blueprint.get("/admin/backups/<name>")
@watched
@pages.for_administrators
def one(name: str) -> Response:
    """Show a backup: what is known of it, and what can be done with it."""
    return _one(name)


def _one(name: str, message: str = "", status: int = 200, *, asks: bool = False) -> Response:
    backup = _found(name)
    tests = [job for job in queue.jobs(VERIFICATION) if job.request.get("name") == backup.name]
    return _page(
        "backups/backup.html",
        backup,
        message,
        status,
        verifications=tests[:_SHOWN],
        is_under_way=any(job.is_under_way for job in tests),
        asks=asks,
    )


@blueprint.post("/admin/backups/<name>/drill")
@pages.for_administrators
@pages.form_action(_one)
def verify(name: str) -> Response:
    """Start to verify a backup: open a copy, and read all of it."""
    found = _found(name)
    jobs.begin(VERIFICATION, {"name": found.name}, passphrase=_passphrase(found))
    return pages.see_other(_path(found))


@blueprint.get("/admin/backups/<name>/file")
@pages.for_administrators
def file(name: str) -> Response:
    """Send a backup."""
    found = _found(name)
    response = jobs.sent(f"{FOLDER}/{found.name}")
    jobs.note("fetched backup %s", found.name)
    return response


@blueprint.post("/admin/backups/<name>/delete")
@pages.for_administrators
def delete(name: str) -> Response:
    """Delete a backup, once the administrator confirmed it."""
    found = _found(name)
    if request.form.get("sure") != "yes":
        return _one(name, asks=True)
    try:
        delete_backup(settings(), found.name)
    except OSError as error:
        raise pages.PageError(
            409, _("The backup could not be deleted: %(why)s.", why=error.strerror)
        ) from None
    jobs.note("deleted backup %s", found.name)
    return pages.see_other("/admin/backups?done=deleted")


def _check_restores_here() -> None:
    """Raise PageError where restoring is a matter of the command line."""
    if prepared.why_no_restart(settings()):
        raise pages.PageError(409, _("This server restores at the command line only."))


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
