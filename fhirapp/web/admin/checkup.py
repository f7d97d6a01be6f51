"""What `fhirapp doctor` finds, for administrators: how the server is, and what to do."""

from __future__ import annotations

from flask import Flask, Response, current_app, request

from fhirapp.ops.doctor import GOOD, NOTE, WRONG, examine
from fhirapp.web.pages import blueprint_of, for_administrators, page
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_checkup", __name__)
STATES = {WRONG: _("to be mended"), NOTE: _("to know"), GOOD: _("as it should be")}


@blueprint.get("/admin/check")
@for_administrators
def index() -> Response:
    """Look at everything; with whole=1 also at what reads whole files."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    is_whole = request.args.get("whole") == "1"
    found = examine(app, quick=not is_whole)
    groups = [(state, [one for one in found if one.state == state]) for state in STATES]
    return page("admin/check.html", groups=groups, states=STATES, is_whole=is_whole)
