"""First contentful paint of pages in Chromium, beside the same bytes from the bare server.

Each visit has an empty cache. The time of the bare server is that of the browser itself.
`python -m tests.bench paint` runs this section alone.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, BrowserContext, StorageState, sync_playwright

from tests.bench.cpu import cores
from tests.bench.report import Row, Section, Target
from tests.bench.servers import bare, ours, record

_SEARCH = quote("/fhir/AllergyIntolerance?patient=p1&_explain=true", safe="")


# The path of each page, and the target of its median in ms.
PAGES = {
    "home": ("/", 100),
    "explorer, a search explained": (f"/explore?address={_SEARCH}", 150),
    "chart": ("/patients/p1", 150),
    "note": ("/notes/doc-p1-discharge-2024", 150),
    "lessons": ("/learn", 100),
}
_PAINTED = """
() => new Promise((resolve) => new PerformanceObserver((seen) => {
  const paint = seen.getEntriesByName("first-contentful-paint")[0];
  if (paint) resolve(paint.startTime);
}).observe({ type: "paint", buffered: true }))
"""


def first_paint(folder: Path, rounds: int) -> list[Section]:
    """Measure pages of the demo; return no section if Chromium is not installed."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return []
    measured: dict[str, list[float]] = defaultdict(list)
    against: dict[str, list[float]] = defaultdict(list)
    instance, log = folder / "demo", folder / "demo.log"
    with ours(instance, log, FHIRAPP_DEMO="1") as server, sync_playwright() as playwright:
        server.wait_for("/fhir/metadata")
        browser = playwright.chromium.launch(executable_path=chromium)
        address = f"http://127.0.0.1:{server.port}"
        session, paths, cookies = _visit(browser, address)
        headers = {"Cookie": cookies, "Accept-Encoding": "gzip", "Accept": "*/*"}
        responses = record(server, "", paths, **headers)
        with bare(responses, folder / "bare-pages.log", cores()[:1]) as other:
            other.wait_for("/")
            for name, (path, _) in [*PAGES.items()] * rounds:
                measured[name].append(_first_paint(browser, f"{address}{path}", session))
                copy = f"http://127.0.0.1:{other.port}{path}"
                against[name].append(_first_paint(browser, copy, session))
        browser.close()
    rows = [
        Row(name, measured[name], against[name], Target(limit, is_absolute=True))
        for name, (_, limit) in PAGES.items()
    ]
    return [Section("First paint on loopback, ms", "ours", "bare", rows)]


def _first_paint(browser: Browser, url: str, state: StorageState) -> float:
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.goto(url)
    painted: float = page.evaluate(_PAINTED)
    context.close()
    return painted


def _visit(browser: Browser, address: str) -> tuple[StorageState, dict[str, list[str]], str]:
    """Sign in and open each page; return the session, all requested paths, and the cookies."""
    context = browser.new_context(base_url=address)
    paths: list[str] = []
    _sign_in(context)
    context.on("request", lambda request: paths.append(request.url.removeprefix(address)))
    for path, _ in PAGES.values():
        opened = context.new_page()
        opened.goto(path, wait_until="networkidle")
        opened.close()
    cookies = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in context.cookies())
    state = context.storage_state()
    context.close()
    return state, {"pages": list(dict.fromkeys(paths))}, cookies


def _sign_in(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/sign-in")
    page.get_by_label("User name").fill("clinician")
    page.get_by_label("Password").fill("demo")
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()
    page.close()
