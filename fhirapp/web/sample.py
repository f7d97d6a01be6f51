"""The demo's sample app: what a SMART app does, in one page and one script that can be read.

It is an app like any other, registered as demo-app: it asks for a token at /oauth/authorize and has
no other way to the records. Only in demo mode.
"""

from __future__ import annotations

from flask import Response

from fhirapp.auth.demo import SAMPLE_PATH
from fhirapp.config import settings
from fhirapp.web.pages import PageError, blueprint_of, page

blueprint = blueprint_of("sample", __name__)
# The one page of ours with a script: it is the app, not a page about records.
_SCRIPTS = "; script-src 'self'; connect-src 'self'"


@blueprint.get(SAMPLE_PATH)
def app() -> Response:
    """Show the sample app."""
    if not settings().demo:
        raise PageError(404, "The sample app is a part of the demo.")
    response = page("sample.html")
    response.headers["Content-Security-Policy"] += _SCRIPTS
    return response
