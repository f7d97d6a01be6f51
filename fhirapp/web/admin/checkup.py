"""How the server is, for administrators: what is still to be set up, what `fhirapp doctor` finds,
and the last errors.

An error is found by its request's id.
"""

from __future__ import annotations

import platform
from importlib.metadata import distribution
from importlib.metadata import version as library_version
from pathlib import Path
from typing import NamedTuple

from flask import Response, request
from sqlalchemy import ColumnElement, func, select

from fhirapp.auth.models import ADMINISTRATOR, OF_PAGES, OF_SHELL, Client, User
from fhirapp.config import STORED, settings
from fhirapp.current import this_app
from fhirapp.db import db
from fhirapp.features.backups.backup import why_no_backup
from fhirapp.rest.capability import software_version
from fhirapp.server import live_settings
from fhirapp.server.doctor import GOOD, NOTE, WRONG, examine
from fhirapp.server.last_errors import last_errors
from fhirapp.server.proxies import ENCRYPTED, reach_of
from fhirapp.store.migrate import HEAD
from fhirapp.web.admin.settings import started_at
from fhirapp.web.pages import blueprint_of, for_administrators, page, see_other, signed_in
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_checkup", __name__)
STATES = {WRONG: _("problems"), NOTE: _("for information"), GOOD: _("passed")}
# From the mildest.
LEVELS = ("WARNING", "ERROR", "CRITICAL")
# Those of which one may hear that an old version is not safe.
_LIBRARIES = ("Flask", "Werkzeug", "waitress", "SQLAlchemy", "Authlib", "cryptography")
# So many are shown at once.
SHOWN = 100


class Step(NamedTuple):
    """Something to set up: what and why, where it is done, and whether it is."""

    name: str
    sentence: str
    path: str
    is_done: bool


def steps(*, has_records: bool, has_backup: bool) -> list[Step]:
    """Return what an administrator sets up once; none where all is done or the list is hidden."""
    now = settings()
    if now.demo or not now.checklist:
        return []
    found = [
        Step(
            _("Add users"),
            _("Clinicians, patients, and a second administrator who can restore your access."),
            "/admin/users/new",
            _count(User.disabled.is_(False)) > 1,
        ),
        Step(
            _("Register an app"),
            _(
                "Decide what apps and systems can read. Apps that developers register wait "
                "for your approval."
            ),
            "/apps/register",
            _count(Client.approved_at.is_not(None), Client.kind.not_in((OF_PAGES, OF_SHELL))) > 0,
        ),
        Step(
            _("Import the first records"),
            _("FHIR, C-CDA or tables. A dry run shows the result first."),
            "/admin/imports",
            has_records,
        ),
        Step(
            _("Take a backup"),
            _("Now, and every night with a schedule."),
            "/admin/backups",
            has_backup,
        ),
        Step(
            _("Set the address and TLS"),
            _(
                "For access from other machines: a reverse proxy with TLS, and "
                "FHIRAPP_BASE_URL with https://."
            ),
            "/docs/deploy",
            reach_of(now) == ENCRYPTED,
        ),
        _second_factor(),
    ]
    if why_no_backup(now):
        # The database's own tools take them, which is not seen here.
        found = [one for one in found if one.path != "/admin/backups"]
    return [] if all(one.is_done for one in found) else found


def _second_factor() -> Step:
    without = (User.role == ADMINISTRATOR, User.disabled.is_(False), User.totp_secret.is_(None))
    lacks_own = signed_in().user.totp_secret is None
    return Step(
        _("Protect administrators with a second factor"),
        _("A code from a phone in addition to the password."),
        "/account/second-factor" if lacks_own else f"/admin/users?role={ADMINISTRATOR}",
        # The identity provider asks for its own.
        bool(settings().oidc_issuer) or _count(*without) == 0,
    )


def _count(*conditions: ColumnElement[bool]) -> int:
    return db.session.execute(select(func.count()).where(*conditions)).scalar_one()


def can_hide_steps() -> bool:
    """Say whether the list's button has an effect: a variable wins over it."""
    return settings().origins.get("checklist", STORED) == STORED


@blueprint.post("/admin/checklist")
@for_administrators
def hide_steps() -> Response:
    """Leave the list out from now on, for all administrators; Settings shows it again."""
    live_settings.change("checklist", "False", signed_in().user.id)
    return see_other("/admin?done=hidden")


@blueprint.get("/admin/check")
@for_administrators
def index() -> Response:
    """Look at everything; with whole=1 also at what reads whole files."""
    app = this_app()
    is_whole = request.args.get("whole") == "1"
    found = examine(app, quick=not is_whole)
    groups = [(state, [one for one in found if one.state == state]) for state in STATES]
    return page("admin/check.html", groups=groups, states=STATES, is_whole=is_whole)


@blueprint.get("/admin/about")
@for_administrators
def about() -> Response:
    """Tell what runs here, and how to come to a newer version; nobody else is asked for that."""
    is_sqlite = db.engine.dialect.name == "sqlite"
    # Of whichever the connection is to: both tell it when SQLAlchemy first connects.
    numbers = db.session.connection().dialect.server_version_info or ()
    metadata = distribution("fhirapp").locate_file(f"fhirapp-{software_version()}.dist-info")
    installed = Path(str(metadata))
    return page(
        "admin/about.html",
        version=software_version(),
        installed=int(installed.stat().st_mtime) if installed.exists() else None,
        started=started_at(),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
        database=_("SQLite") if is_sqlite else _("PostgreSQL"),
        database_version=".".join(map(str, numbers)),
        schema=HEAD,
        libraries=[(name, library_version(name)) for name in _LIBRARIES],
    )


@blueprint.get("/admin/logs")
@for_administrators
def errors() -> Response:
    """Show the newest entries, those of a level and worse, or those of a request."""
    id_ = request.args.get("id", "").strip()[:100]
    level = request.args.get("level", "")
    wanted = LEVELS[LEVELS.index(level) :] if level in LEVELS else LEVELS
    found = [
        entry
        for entry in last_errors(settings().instance)
        if entry.level in wanted and (not id_ or entry.request == id_)
    ]
    is_all = request.args.get("all") == "1"
    return page(
        "admin/logs.html",
        entries=found if is_all else found[:SHOWN],
        more=0 if is_all else max(0, len(found) - SHOWN),
        levels=LEVELS,
        level=level if level in LEVELS else "",
        id=id_,
    )
