"""The sample app, which shows what a SMART app does."""

from __future__ import annotations

from pathlib import Path

import fhirapp.web
from tests.support.browsing import Browser
from tests.support.pages import elements, links


def test_sample_app_shows_its_source_and_is_in_the_demo_alone(clinic, make_app):
    page = Browser(make_app(demo=True)).get("/demo/app")
    source = (Path(fhirapp.web.__file__).parent / "static" / "sample-app.js").read_text("utf-8")
    (shown,) = elements(page, "pre.source")
    assert len(elements(shown, "code")) == len(source.splitlines()) <= 60
    assert " ".join(source.split()) in page.words
    assert Browser(clinic).get("/demo/app").status == 404
    assert links(page, "/demo/app") == []
