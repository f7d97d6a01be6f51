"""Pages of administrators about the state of the server: overview, check, versions, last errors."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.metadata import version as library_version
from pathlib import Path
from typing import NamedTuple

from flask import Response, request

from fhirapp import urls
from fhirapp.config import STORED, settings
from fhirapp.db import db
from fhirapp.disk import scale_size
from fhirapp.feature import features, imported
from fhirapp.features.health.examine import Result, examine
from fhirapp.features.health.figures import record_counts
from fhirapp.probe import GOOD, NOTE, WRONG, Bytes, Cost, Counts, Moment, SetupStep
from fhirapp.rest.capability import software_version
from fhirapp.server import live_settings
from fhirapp.server.logs import last_errors
from fhirapp.store.migrate import HEAD
from fhirapp.web.admin.settings import processes, started_at
from fhirapp.web.pages import blueprint_of, for_administrators, page, see_other, signed_in
from fhirapp.web.texts import _, numeral, sentence
from fhirapp.web.times import moment

blueprint = blueprint_of("health_pages", __name__)
STATES = {WRONG: _("Needs attention"), NOTE: _("For information"), GOOD: _("Passed")}
# By their gauges, in the order of the page.
_SIZES = {
    "database_bytes": _("Database"),
    "audit_bytes": _("Audit trail"),
    "backups_bytes": _("Backups"),
    "disk_free_bytes": _("Free disk space"),
}
# From the mildest.
LEVELS = ("WARNING", "ERROR", "CRITICAL")
# Those that security advisories name.
_LIBRARIES = ("Flask", "Werkzeug", "waitress", "SQLAlchemy", "Authlib", "cryptography")
# The errors on the page, unless all are asked for.
SHOWN = 100


class FindingView(NamedTuple):
    """A finding in the language of the page."""

    title: str
    state: str
    text: str
    advice: str
    path: str


@blueprint.get("/admin")
@for_administrators
def overview() -> Response:
    """Show what needs attention, what is still to be set up, and what the server holds."""
    steps = setup_steps()
    # What the checklist asks for is not repeated.
    open_paths = {step.path for step in steps if not step.is_done}
    result = examine(Cost.FAST, Cost.REMOTE)
    values = {gauge.name: gauge.value for gauge in result.gauges}
    views = [view for view in _views(result) if view.state != NOTE or view.path not in open_paths]
    return page(
        "health/overview.html",
        findings={state: [view for view in views if view.state == state] for state in STATES},
        steps=steps,
        # An environment variable takes precedence over the button.
        can_hide=settings().origins.get("checklist", STORED) == STORED,
        is_hidden_now=request.args.get("done") == "hidden",
        version=software_version(),
        started=started_at(),
        processes=processes(),
        threads=settings().threads,
        address=urls.base_url(),
        sizes=[
            (_(words), _shown(Bytes(values[name])))
            for name, words in _SIZES.items()
            if name in values
        ],
        counts=[count for count in record_counts() if count.records != 0],
    )


def setup_steps() -> list[SetupStep]:
    """Return what an administrator sets up once; none if all is done or the list is hidden."""
    if settings().demo or not settings().checklist:
        return []
    references = [reference for feature in features() for reference in feature.setup_steps]
    steps = sorted(step for reference in references if (step := imported(reference)()))
    return [] if all(step.is_done or step.is_optional for step in steps) else steps


@blueprint.post("/admin/checklist")
@for_administrators
def hide_steps() -> Response:
    """Hide the list of steps from all administrators; the Settings page shows it again."""
    live_settings.change("checklist", "False", signed_in().user.id)
    return see_other("/admin?done=hidden")


@blueprint.get("/admin/check")
@for_administrators
def check() -> Response:
    """Show the findings of all probes; with whole=1 also of those that read whole files."""
    is_whole = request.args.get("whole") == "1"
    views = [*_views(examine(*(cost for cost in Cost if cost < Cost.WHOLE or is_whole)))]
    groups = [(state, [view for view in views if view.state == state]) for state in STATES]
    return page("health/check.html", groups=groups, states=STATES, is_whole=is_whole)


def _views(result: Result) -> Iterator[FindingView]:
    for title, findings in result.findings.items():
        for finding in findings:
            values = {name: _shown(value) for name, value in finding.values.items()}
            texts = sentence(finding.text, values), sentence(finding.advice, values)
            yield FindingView(_(title), finding.state, *texts, finding.path)


def _shown(value: object) -> object:
    if isinstance(value, Moment):
        return moment(value)
    if isinstance(value, Counts):
        return ", ".join(f"{numeral(count)} {_(words)}" for words, count in value.items()) or "0"
    if isinstance(value, Bytes):
        number, decimals, unit = scale_size(value)
        return f"{numeral(number, decimals)} {_('bytes') if unit == 'bytes' else unit}"
    return value


@blueprint.get("/admin/about")
@for_administrators
def about() -> Response:
    """Show the versions of the server, its database and its libraries."""
    is_sqlite = db.engine.dialect.name == "sqlite"
    # SQLAlchemy learns it when it first connects.
    numbers = db.session.connection().dialect.server_version_info or ()
    metadata = distribution("fhirapp").locate_file(f"fhirapp-{software_version()}.dist-info")
    installed = Path(str(metadata))
    return page(
        "health/about.html",
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
    """Show the last warnings and errors, of a level and above, or of one request."""
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
        "health/logs.html",
        entries=found if is_all else found[:SHOWN],
        more=0 if is_all else max(0, len(found) - SHOWN),
        levels=LEVELS,
        level=level if level in LEVELS else "",
        id=id_,
    )
