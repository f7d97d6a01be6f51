"""The demo's sample app: what a SMART app does, with its source beside it.

It is an app like any other, registered as demo-app: it asks for a token at /oauth/authorize and has
no other way to the records. Only in demo mode.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flask import Response

from fhirapp.auth.demo import SAMPLE_PATH
from fhirapp.config import settings
from fhirapp.web.pages import PageError, blueprint_of, page
from fhirapp.web.texts import _

blueprint = blueprint_of("sample", __name__)
_SOURCE = Path(__file__).parent / "static" / "sample-app.js"


@blueprint.get(SAMPLE_PATH)
def app() -> Response:
    """Show the sample app, and its source."""
    if not settings().demo:
        raise PageError(404, _("The sample app is a part of the demo."))
    return page("sample.html", scripts=True, source=_source())


@cache
def _source() -> tuple[str, ...]:
    return tuple(_SOURCE.read_text(encoding="utf-8").splitlines())
