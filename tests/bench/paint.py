"""First paint: how long after the address was typed Chromium shows something of a page.

A visit is a first one: nothing is kept of the one before. Beside it is the same page from the bare
server, byte for byte with all that it loads; the rest is what the browser itself takes.

`python -m tests.bench paint` measures this alone.
"""

from __future__ import annotations

import http.client
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, StorageState, sync_playwright

from tests.bench.bare import Answers
from tests.bench.measure import cores
from tests.bench.rows import Row, Section, Target
from tests.bench.servers import WAITRESS_WRITES, bare, ours

_SEARCH = quote("/fhir/AllergyIntolerance?patient=p1&_explain=true", safe="")


class _Page(NamedTuple):
    path: str
    # The median's limit, in ms.
    limit: int


PAGES: Mapping[str, _Page] = {
    "home": _Page("/", 100),
    "explorer, a search explained": _Page(f"/explore?address={_SEARCH}", 150),
    "chart": _Page("/patients/p1", 150),
    "note": _Page("/notes/doc-p1-discharge-2024", 150),
    "lessons": _Page("/learn", 100),
}
_PAINTED = """
() => new Promise((resolve) => new PerformanceObserver((seen) => {
  const paint = seen.getEntriesByName("first-contentful-paint")[0];
  if (paint) resolve(paint.startTime);
}).observe({ type: "paint", buffered: true }))
"""


def first_paint(folder: Path, rounds: int) -> list[Section]:
    """Measure the demo's pages in a new browser each time; nothing where there is no Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return []
    measured: dict[str, list[float]] = {name: [] for name in PAGES}
    against: dict[str, list[float]] = {name: [] for name in PAGES}
    instance, log = folder / "demo", folder / "demo.log"
    with ours(instance, log, FHIRAPP_DEMO="1") as server, sync_playwright() as playwright:
        server.first_answer("/fhir/metadata")
        browser = playwright.chromium.launch(executable_path=chromium)
        address = f"http://127.0.0.1:{server.port}"
        signed_in, answers = _recorded(browser, address)
        with bare(answers, folder / "bare-pages.log", cores()[:1]) as other:
            other.first_answer("/")
            for name, page in [*PAGES.items()] * rounds:
                measured[name].append(_first_paint(browser, f"{address}{page.path}", signed_in))
                copy = f"http://127.0.0.1:{other.port}{page.path}"
                against[name].append(_first_paint(browser, copy, signed_in))
        browser.close()
    rows = [
        Row(name, measured[name], against[name], Target(page.limit, of_measured=True))
        for name, page in PAGES.items()
    ]
    return [Section("First paint on loopback, ms", "ours", "bare", rows)]


def _first_paint(browser: Browser, url: str, state: StorageState) -> float:
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.goto(url)
    painted: float = page.evaluate(_PAINTED)
    context.close()
    return painted


def _recorded(browser: Browser, address: str) -> tuple[StorageState, Answers]:
    """Sign in and open each page; return the session, and the answers to all that was asked."""
    context = browser.new_context(base_url=address)
    asked: list[str] = []
    _sign_in(context)
    context.on("request", lambda request: asked.append(request.url.removeprefix(address)))
    for page in PAGES.values():
        opened = context.new_page()
        opened.goto(page.path, wait_until="networkidle")
        opened.close()
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in context.cookies())
    state = context.storage_state()
    context.close()
    answers = {}
    for target in dict.fromkeys(asked):
        parts = urlsplit(target)
        answers[parts.path, parts.query] = _answer(address, target, cookie)
    return state, answers


def _answer(address: str, target: str, cookie: str) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return the answer as it goes over the wire."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request("GET", target, headers={"Cookie": cookie, "Accept-Encoding": "gzip"})
    response = connection.getresponse()
    headers = [one for one in response.getheaders() if one[0].lower() not in WAITRESS_WRITES]
    body = response.read()
    connection.close()
    return f"{response.status} {response.reason}", headers, body


def _sign_in(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/sign-in")
    page.get_by_label("User name").fill("clinician")
    page.get_by_label("Password").fill("demo")
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()
    page.close()
