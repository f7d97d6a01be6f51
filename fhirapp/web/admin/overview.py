"""The overview: health, what needs attention, what the server holds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from flask import Response, current_app, request
from sqlalchemy import func, select

from fhirapp import trail
from fhirapp.auth.models import Client, Refusal
from fhirapp.config import Settings, base_url, settings
from fhirapp.db import db
from fhirapp.disk import because, database_path
from fhirapp.documents.extractor import missing_confinement
from fhirapp.features.backups.jobs import BACKUP
from fhirapp.features.backups.rotation import Backup, backups
from fhirapp.jobs import schedule
from fhirapp.jobs.kinds import count_failed
from fhirapp.jobs.schedule import Schedule
from fhirapp.rest.capability import software_version
from fhirapp.rest.middleware import UNNAMED_PROXY
from fhirapp.server.proxies import ENCRYPTED, NO_ADDRESS, PLAIN, SCHEME, THIS_MACHINE, reach_of
from fhirapp.store.import_models import ImportRun
from fhirapp.store.migrate import HEAD, schema_version
from fhirapp.web.admin import checkup
from fhirapp.web.admin import settings as admin_settings
from fhirapp.web.admin.figures import record_counts, sized, storage
from fhirapp.web.admin.settings import shown_url
from fhirapp.web.pages import blueprint_of, for_administrators, page
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_overview", __name__)
blueprint.record(admin_settings.note_start)
_DAY_SECONDS = 86_400
# A backup that is older is told.
OLD_BACKUP_DAYS = 8
# The disk is nearly full where a copy of the database does not fit, of a large one where so little
# is free; beside it the server's logs need some room.
LITTLE_FREE = 5_000_000_000
SPARE = 500_000_000

_REACH: Mapping[str, str] = {
    ENCRYPTED: _("yes, by base URL"),
    THIS_MACHINE: _("not needed: local access only"),
    PLAIN: _("no: the base URL is http"),
    NO_ADDRESS: _("not known: no base URL"),
}


class Trouble(NamedTuple):
    """What is not well, in a sentence, and where to see to it."""

    sentence: str
    path: str = ""


class State(NamedTuple):
    """What decides whether all is well."""

    schema: str | None
    waiting: int
    # Imports that began and did not end.
    unfinished: int
    # None where there is none, or the database is backed up with its own tools.
    backup: Backup | None
    has_backups: bool
    size: int
    free: int | None
    now: int
    # The address of a proxy that is not named in the settings.
    unnamed_proxy: str = ""
    # Why the audit trail cannot be written.
    unwritable: str = ""
    # What could not be taken from the process that reads documents.
    unconfined: str = ""
    is_empty: bool = False
    # Schedules whose last run failed.
    failing: Sequence[Schedule] = ()
    # Why the files that servers share cannot be reached.
    unreachable: str = ""
    # How clients reach the server, and the scheme that a named proxy tells of this request.
    reach: str = ENCRYPTED
    scheme: str = ""
    # Whether what is still to be set up is listed: it has the first import and backup.
    has_steps: bool = False
    # How much lies in failed/ of which watched folder.
    refused: Mapping[str, int] = MappingProxyType({})


@blueprint.get("/admin")
@for_administrators
def overview() -> Response:
    """Tell whether all is well, what runs, and what is in it."""
    now = int(time.time())
    measured = storage()
    database = database_path(settings())
    last = _last_import()
    counts, schedules = record_counts(), schedule.schedules()
    backup, unreachable = _last_backup(settings())
    # Not counted is not none.
    is_empty = all(count.records == 0 for count in counts)
    runs = [one for one in schedules if one.kind == BACKUP and one.succeeded_at]
    steps = checkup.steps(has_records=not is_empty, has_backup=bool(backup or runs))
    state = State(
        schema=schema_version(db.engine),
        waiting=_waiting(),
        unfinished=int(last is not None and last.ended_at is None),
        backup=backup,
        unreachable=unreachable,
        # What a schedule takes elsewhere is seen there.
        has_backups=database is not None
        and not unreachable
        and not settings().demo
        and not any(one.kind == BACKUP and one.options.get("folder") for one in schedules),
        size=measured.total,
        free=measured.free,
        now=now,
        unwritable=trail.state(current_app),
        unconfined=missing_confinement(),
        unnamed_proxy=str(current_app.extensions.get(UNNAMED_PROXY, "")),
        is_empty=is_empty,
        reach=reach_of(settings()),
        scheme=str(request.environ.get(SCHEME, "")),
        has_steps=bool(steps),
        failing=[one for one in schedules if one.failures],
        refused={one.name: count for one in schedules if (count := count_failed(one))},
    )
    return page(
        "admin/overview.html",
        state=state,
        troubles=list(troubles(state)),
        steps=steps,
        can_hide=checkup.can_hide_steps(),
        done=_("The list is hidden. To show it again, change the setting checklist.")
        if request.args.get("done") == "hidden"
        else "",
        encrypted=_(_REACH[state.reach]),
        version=software_version(),
        started=admin_settings.started_at(),
        processes=admin_settings.processes(),
        threads=settings().threads,
        address=base_url(),
        database=_("SQLite") if database else _("PostgreSQL"),
        place=str(database or shown_url(db.engine.url)),
        head=HEAD,
        counts=counts,
        last=last,
        ended=_seconds(last.ended_at or last.began_at) if last else None,
        came=_came(last),
        refusals=_refusals(now - _DAY_SECONDS),
        storage=measured,
        files=settings().files,
        sized=sized,
    )


def troubles(state: State) -> Iterator[Trouble]:
    """Yield what an administrator should see to, the gravest first."""
    if state.schema != HEAD:
        yield Trouble(
            _(
                "The database has schema version %(there)s, but this server needs %(known)s. "
                "Restart the server.",
                there=state.schema or _("none"),
                known=HEAD,
            )
        )
    if state.free is not None and state.free < min(state.size, LITTLE_FREE) + SPARE:
        yield Trouble(
            _(
                "The disk is almost full: %(free)s free, database size %(size)s.",
                free=sized(state.free),
                size=sized(state.size),
            )
        )
    if state.unreachable:
        yield Trouble(
            _(
                "The shared file storage is not reachable (%(reason)s). Exports, import reports "
                "and backups fail until it is.",
                reason=state.unreachable,
            ),
            "/admin/check",
        )
    yield from _security_troubles(state)
    if state.is_empty and not state.has_steps:
        yield Trouble(_("There are no records yet. Import some."), "/admin/imports")
    yield from _schedule_troubles(state)
    if state.has_backups and (state.backup or not state.has_steps):
        yield from _backup_troubles(state)
    if state.unfinished:
        yield Trouble(
            _("The last import has not finished: it is still running or was interrupted."),
            "/admin/imports",
        )
    if state.waiting == 1:
        yield Trouble(_("1 app is waiting for approval."), "/admin/clients")
    elif state.waiting:
        yield Trouble(
            _("%(count)s apps are waiting for approval.", count=state.waiting), "/admin/clients"
        )


def _schedule_troubles(state: State) -> Iterator[Trouble]:
    for one in state.failing:
        yield Trouble(
            _(
                "The schedule %(name)s failed (%(count)s consecutive failures): %(why)s",
                name=one.name,
                count=one.failures,
                why=one.why_failed or _("see its recent runs"),
            ),
            f"/admin/schedules/{one.name}",
        )
    for name, count in state.refused.items():
        yield Trouble(
            _(
                "The schedule %(name)s: entries in its folder failed/ that could not be imported "
                "completely: %(count)s",
                name=name,
                count=count,
            ),
            f"/admin/schedules/{name}",
        )


def _address_troubles(state: State) -> Iterator[Trouble]:
    if state.reach == NO_ADDRESS:
        yield Trouble(
            _(
                "The server accepts connections from other machines but has no base URL. Set "
                "FHIRAPP_BASE_URL to the address that clients use."
            ),
            "/docs/deploy",
        )
    elif state.reach == PLAIN and state.scheme == "https":
        yield Trouble(
            _(
                "You are connected through TLS, but FHIRAPP_BASE_URL is %(address)s, so browsers "
                "also send the session cookie unencrypted. Set it to the https:// address.",
                address=base_url(),
            ),
            "/docs/deploy",
        )
    elif state.reach == PLAIN:
        yield Trouble(
            _(
                "%(address)s is not encrypted: others on the network can read passwords and "
                "records. Put a reverse proxy with TLS in front, and set FHIRAPP_BASE_URL to an "
                "https:// address.",
                address=base_url(),
            ),
            "/docs/deploy",
        )


def _security_troubles(state: State) -> Iterator[Trouble]:
    yield from _address_troubles(state)
    if state.unwritable:
        yield Trouble(
            _(
                "The audit trail cannot be written (%(reason)s): records are not answered until it"
                " can, unless FHIRAPP_AUDIT=best-effort.",
                reason=state.unwritable,
            ),
            "/admin/audit",
        )
    if state.unnamed_proxy:
        yield Trouble(
            _(
                "%(address)s sends X-Forwarded-For and seems to be a reverse proxy. Add it to "
                "FHIRAPP_TRUSTED_PROXY. Until then, all its clients count as one, and one "
                "client's wrong passwords lock out the others.",
                address=state.unnamed_proxy,
            )
        )
    if state.unconfined:
        yield Trouble(
            _(
                "The process that reads documents is not fully sandboxed: %(what)s.",
                what=state.unconfined,
            )
        )


def _backup_troubles(state: State) -> Iterator[Trouble]:
    if state.backup is None:
        yield Trouble(
            _(
                "There is no backup in the server's backup folder. Backups elsewhere are not "
                "visible here."
            ),
            "/admin/backups",
        )
    elif state.now - int(state.backup.taken_at) > OLD_BACKUP_DAYS * _DAY_SECONDS:
        days = (state.now - int(state.backup.taken_at)) // _DAY_SECONDS
        yield Trouble(_("The last backup is %(days)s days old.", days=days), "/admin/backups")


def _waiting() -> int:
    query = select(func.count()).where(Client.approved_at.is_(None))
    return db.session.execute(query).scalar_one()


def _refusals(since: int) -> int:
    query = select(func.count()).where(Refusal.at >= since)
    return db.session.execute(query).scalar_one()


def _last_import() -> ImportRun | None:
    return db.session.scalars(select(ImportRun).order_by(ImportRun.id.desc()).limit(1)).first()


def _came(run: ImportRun | None) -> Sequence[tuple[str, int]]:
    """Return how many resources an import read, took up, refused: each outcome with its count."""
    outcome = run.outcome if run is not None else None
    counts: dict[str, int] = {}
    for one in outcome.values() if isinstance(outcome, dict) else ():
        for name, count in one.items() if isinstance(one, dict) else ():
            counts[name] = counts.get(name, 0) + count
    return list(counts.items())


def _last_backup(now: Settings) -> tuple[Backup | None, str]:
    """Return the newest backup that the server keeps, and why that cannot be told."""
    try:
        return next(iter(backups(now)), None), ""
    except OSError as error:
        return None, because(error)


def _seconds(instant: str) -> int:
    return int(datetime.fromisoformat(instant).astimezone(UTC).timestamp())
