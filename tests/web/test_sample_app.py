"""The demo's sample app: started from our pages, refused, and with its source beside it.

What it shows of a record is in tests/test_smart_browser.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import fhirapp.web
from tests.support.browsing import Browser

pytest_plugins = ["tests.support.live", "tests.support.browser"]

SOURCE = Path(fhirapp.web.__file__).parent / "static" / "sample-app.js"


def test_its_source_stands_beside_it_as_it_runs(make_app):
    page = Browser(make_app(demo=True)).get("/demo/app")
    shown = page.response.text.partition('<pre class="source"')[2].partition("</pre>")[0]
    source = SOURCE.read_text(encoding="utf-8")
    assert shown.count("<code data-line=") == len(source.splitlines())
    assert " ".join(source.split()) in page.words
    # Readable in one go.
    assert len(source.splitlines()) <= 60


def test_it_is_a_part_of_the_demo_alone(make_app):
    page = Browser(make_app()).get("/demo/app")
    assert page.status == 404
    assert "The sample app is available only in the demo." in page.words


def test_a_clinician_starts_it_for_a_patient(visit):
    one = visit()
    one.open("/launch?patient=p2")
    one.sign_in("clinician")
    one.press_value("demo-app")
    one.page.get_by_role("button", name="Allow selected").wait_for()
    assert "Luis" in one.page.locator("main").inner_text()
    one.allow()
    one.page.get_by_role("heading", name="Luis").wait_for()
    assert '"patient": "p2"' in one.page.locator("#token").inner_text()


def test_it_tells_that_it_was_refused(visit):
    one = visit()
    one.open("/demo/app")
    one.press("Connect to my records")
    one.sign_in("patient")
    one.press("Don't allow")
    one.page.get_by_text("The user refused").wait_for()
    assert one.page.locator("#record").is_hidden()


@pytest.mark.parametrize("iss", ["https://elsewhere.example/fhir", "{fhir}x", ""])
def test_a_launch_by_another_server_is_not_answered(visit, demo, iss):
    one = visit()
    one.open(f"/demo/app?launch=x&iss={iss.format(fhir=demo.fhir)}")
    one.page.wait_for_load_state("networkidle")
    assert one.page.url.startswith(demo.url)
    assert one.page.get_by_role("button", name="Connect to my records").is_visible()
    assert one.page.locator("#message").inner_text() == ""
