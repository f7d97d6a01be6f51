"""The sample app: it shows what a SMART app does, with its source."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flask import Response

import fhirapp.web
from fhirapp.config import settings
from fhirapp.features.demo.accounts import SAMPLE_PATH
from fhirapp.web.pages import PageError, blueprint_of, page
from fhirapp.web.texts import _

blueprint = blueprint_of("sample", __name__)
_SOURCE = Path(fhirapp.web.__file__).parent / "static" / "sample-app.js"


@blueprint.get(SAMPLE_PATH)
def sample_app() -> Response:
    """Show the sample app, and its source."""
    if not settings().demo:
        raise PageError(404, _("The sample app is available only in the demo."))
    return page("demo/sample.html", scripts=True, source=_source())


@cache
def _source() -> tuple[str, ...]:
    return tuple(_SOURCE.read_text(encoding="utf-8").splitlines())
