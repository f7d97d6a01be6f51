"""First paint: how long after the address was typed Chromium shows something of a page."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import BrowserContext, sync_playwright

from tests.bench.rows import Row, Section, Target
from tests.bench.servers import ours

_PAINT = Target(200, of_measured=True)
_SEARCH = quote("/fhir/AllergyIntolerance?patient=p1&_explain=true", safe="")
PAGES: Mapping[str, str] = {
    "home": "/",
    "explorer, a search explained": f"/explore?address={_SEARCH}",
    "chart": "/patients/p1",
    "note": "/notes/doc-p1-discharge-2024",
    "lessons": "/learn",
}
_PAINTED = """
() => new Promise((resolve) => new PerformanceObserver((seen) => {
  const paint = seen.getEntriesByName("first-contentful-paint")[0];
  if (paint) resolve(paint.startTime);
}).observe({ type: "paint", buffered: true }))
"""


def first_paint(folder: Path, rounds: int) -> list[Section]:
    """Measure the demo's pages in a new window each time; nothing where there is no Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return []
    painted: dict[str, list[float]] = {name: [] for name in PAGES}
    instance, log = folder / "demo", folder / "demo.log"
    with ours(instance, log, FHIRAPP_DEMO="1") as server, sync_playwright() as playwright:
        server.first_answer("/fhir/metadata")
        browser = playwright.chromium.launch(executable_path=chromium)
        context = browser.new_context(base_url=f"http://127.0.0.1:{server.port}")
        _sign_in(context)
        for _ in range(rounds):
            for name, path in PAGES.items():
                page = context.new_page()
                page.goto(path)
                painted[name].append(page.evaluate(_PAINTED))
                page.close()
        browser.close()
    rows = [Row(name, times, target=_PAINT) for name, times in painted.items()]
    return [Section("First paint on loopback, ms", "ours", "", rows)]


def _sign_in(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/sign-in")
    page.get_by_label("User name").fill("clinician")
    page.get_by_label("Password").fill("demo")
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()
    page.close()
