"""How the server is, for administrators: what `fhirapp doctor` finds, and the last errors.

An error is found by its request's id.
"""

from __future__ import annotations

from flask import Flask, Response, current_app, request

from fhirapp.ops.doctor import GOOD, NOTE, WRONG, examine
from fhirapp.ops.last_errors import last_errors
from fhirapp.web.pages import blueprint_of, for_administrators, page
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_checkup", __name__)
STATES = {WRONG: _("to be mended"), NOTE: _("to know"), GOOD: _("as it should be")}
# From the mildest.
LEVELS = ("WARNING", "ERROR", "CRITICAL")
# So many are shown at once.
SHOWN = 100


@blueprint.get("/admin/check")
@for_administrators
def index() -> Response:
    """Look at everything; with whole=1 also at what reads whole files."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    is_whole = request.args.get("whole") == "1"
    found = examine(app, quick=not is_whole)
    groups = [(state, [one for one in found if one.state == state]) for state in STATES]
    return page("admin/check.html", groups=groups, states=STATES, is_whole=is_whole)


@blueprint.get("/admin/logs")
@for_administrators
def errors() -> Response:
    """Show the newest entries, those of a level and worse, or those of a request."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    id_ = request.args.get("id", "").strip()[:100]
    level = request.args.get("level", "")
    wanted = LEVELS[LEVELS.index(level) :] if level in LEVELS else LEVELS
    found = [
        entry
        for entry in last_errors(app)
        if entry.level in wanted and (not id_ or id_ in (entry.request, entry.key))
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
