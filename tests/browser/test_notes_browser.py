"""Notes in Chromium: nothing in one runs or is loaded, and what is shown can be seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.noted import ACTIVE_PDF, DRAWING, MARKUP, PICTURE, SCRIPTED, attached, note

if TYPE_CHECKING:
    from tests.support.browser import Visit
    from tests.support.live import Demo

pytest_plugins = ["tests.support.live", "tests.support.browser"]

NOTES = [
    note("b-html", attached(SCRIPTED, "text/html", title=MARKUP), type={"text": MARKUP}),
    note("b-text", attached(SCRIPTED, "text/plain")),
    note("b-svg", attached(DRAWING, "image/svg+xml")),
    note("b-pdf", attached(ACTIVE_PDF, "application/pdf")),
    note("b-picture", attached(PICTURE, "image/png")),
    *(note(f"b-{n}", attached("walrus"), date=f"2021-01-{n % 28 + 1:02}") for n in range(60)),
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo with these notes."""
    # Not before pytest has taken them for its plugins.
    from tests.support.live import run
    from tests.support.shell import fhirapp

    folder = tmp_path_factory.mktemp("notes")
    records = folder / "notes.ndjson"
    records.write_text("\n".join(map(json.dumps, NOTES)))
    done = fhirapp(folder, "import", "--demo", str(records))
    assert done.returncode == 0, done.stderr
    with run(folder) as running:
        yield running


@pytest.fixture
def clinician(visit: Callable[..., Visit]) -> Iterator[Visit]:
    """A clinician, who hears nothing from the console, and whose browser asks only our server."""
    visitor = visit()
    said: list[str] = []
    asked: set[str] = set()
    visitor.page.on("console", lambda message: said.append(message.text))
    visitor.page.on("pageerror", lambda error: said.append(str(error)))
    visitor.page.on("dialog", lambda dialog: said.append(dialog.message))
    visitor.page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    visitor.open("/sign-in")
    visitor.sign_in("clinician")
    yield visitor
    assert said == []
    assert asked - {""} == {urlsplit(visitor.address("")).netloc}


@pytest.mark.parametrize("name", ["b-html", "b-text", "b-svg", "b-pdf", "b-picture"])
def test_nothing_in_a_note_runs_or_is_loaded(clinician, name):
    clinician.open(f"/notes/{name}?q=amoxicillin")
    clinician.unfold()
    clinician.page.wait_for_load_state("networkidle")
    for frame in clinician.page.frames:
        assert frame.evaluate("typeof window.ran") == "undefined"
        assert frame.locator("script:not([src^='/static/'])").count() == 0


def test_a_framed_document_has_our_style_and_no_origin(clinician):
    clinician.open("/notes/b-html")
    frame = clinician.page.frame_locator("iframe")
    assert frame.get_by_role("heading", name="Visit").is_visible()
    assert frame.locator("body").evaluate("() => getComputedStyle(document.body).padding") == "16px"
    assert frame.locator("body").evaluate("() => window.origin") == "null"


def test_pictures_and_pages_of_a_pdf_are_seen(clinician):
    for path in ("/notes/b-pdf", "/notes/b-picture"):
        clinician.open(path)
        picture = clinician.page.locator("img.note-picture")
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("(one) => one.decode().then(() => one.naturalWidth)") > 0


def test_more_notes_come_without_another_page(clinician):
    clinician.open("/notes?patient=p1")
    lines = clinician.page.locator("li.note-line")
    assert lines.count() == 50
    clinician.page.get_by_role("link", name="More notes").click()
    lines.nth(50).wait_for()
    assert clinician.page.url.endswith("/notes?patient=p1")
    assert lines.count() == 9 + len(NOTES)


def test_a_dot_of_the_timeline_leads_to_its_note(clinician):
    clinician.open("/patients/p1")
    with clinician.page.expect_navigation():
        clinician.page.locator("svg.timeline a[href^='/notes/'] .reach").first.click()
    assert "/notes/" in clinician.page.url
