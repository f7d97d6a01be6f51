"""The last warnings and errors of the log, for administrators, who find one by its request's id."""

from __future__ import annotations

from flask import Flask, Response, current_app, request

from fhirapp.ops.last_errors import last_errors
from fhirapp.web.pages import blueprint_of, for_administrators, page

blueprint = blueprint_of("admin_logs", __name__)
# From the mildest.
LEVELS = ("WARNING", "ERROR", "CRITICAL")
# So many are shown at once.
SHOWN = 100


@blueprint.get("/admin/logs")
@for_administrators
def index() -> Response:
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
