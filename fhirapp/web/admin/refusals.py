"""Why was I denied? The administrator looks a refusal up by its request id."""

from __future__ import annotations

from flask import Response, request

from fhirapp.auth.access.refusals import KEPT_SECONDS, find_refusal, newest_refusals
from fhirapp.web.pages import blueprint_of, for_administrators, page

blueprint = blueprint_of("admin_refusals", __name__)
_LONGEST = 100


@blueprint.get("/admin/refusals")
@for_administrators
def look_up() -> Response:
    """Show the refusal with an id, or the newest ones."""
    asked = request.args.get("id", "").strip()[:_LONGEST]
    if asked:
        found = find_refusal(asked.lower())
        refusals = [] if found is None else [found]
    else:
        refusals = list(newest_refusals())
    return page(
        "admin/refusals.html",
        asked=asked,
        refusals=refusals,
        days=KEPT_SECONDS // 86_400,
    )
