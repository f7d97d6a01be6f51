"""Chromium, and in it an app of another origin: SMART's own client for JavaScript.

A plugin of pytest, as tests/live.py is. A Visit is a person's browser: its methods are what the
person does on our pages, by the words that stand there, and what the app does.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)

from tests import TESTS

if TYPE_CHECKING:
    from tests.support.live import Demo

_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# A host that Chromium finds on this machine, and that no client is registered at.
_STRANGER = "stranger.example"
_PACKAGES = TESTS / "node" / "node_modules"
_AXE = _PACKAGES / "axe-core" / "axe.min.js"
_CLIENT = _PACKAGES / "fhirclient" / "build" / "fhir-client.pure.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The narrowest phone that pages must fit without scrolling sideways (WCAG 1.4.10), and a desktop:
# size, and for each scheme the rules. Colours are the same on both, so one is looked at for each
# scheme; dark, nothing else differs.
_Screens = tuple[tuple[tuple[int, int], tuple[tuple[Literal["light", "dark"], Any], ...]], ...]
_PHONE = (320, 700)
_WITHOUT_COLOURS = {"runOnly": _RULES, "rules": {"color-contrast": {"enabled": False}}}
_SCREENS: _Screens = (
    (_PHONE, (("light", {"runOnly": _RULES}),)),
    ((1280, 800), (("light", _WITHOUT_COLOURS), ("dark", {"runOnly": ["color-contrast"]}))),
)
_RUN_AXE = """
(options) => axe.run({ ...options, resultTypes: ["violations"] }).then(({ violations }) =>
  violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(" ")}`)))
"""
# Words of tables, headings, tags and buttons that begin on one line and end on another.
_BROKEN_WORDS = r"""
() => [...document.querySelectorAll("td, th, h1, h2, h3, .tag, button")].flatMap((cell) => {
  const found = [];
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest("code, pre, .id, .url, .host")) continue;
    for (const word of node.data.matchAll(/\p{L}{2,20}/gu)) {
      const range = new Range();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (lines.size > 1) found.push(word[0]);
    }
  }
  return found;
})
"""
# Values of tables whose rows are stacked, where no column's name is shown before them.
_WITHOUT_LABELS = """
() => [...document.querySelectorAll("tr")].flatMap((row) => {
  const cells = [...row.cells].filter((cell) => cell.checkVisibility());
  return cells.length < 2 ? [] : cells.filter((cell) => {
    const heading = row.closest("table").tHead?.rows[0].cells[cell.cellIndex]?.textContent.trim();
    return cell.matches("td") && getComputedStyle(cell).display !== "table-cell"
      && getComputedStyle(cell, "::before").content !== JSON.stringify(heading);
  }).map((cell) => cell.textContent.trim());
})
"""
# What a page and all that it loads may weigh, unpacked, without attachments and what an app reads.
_MOST_BYTES = 100_000
_MOST_OF = {"/api-docs": 2_500_000}
_WEIGH = """
performance.getEntries()
  .filter((one) => ["navigation", "resource"].includes(one.entryType))
  .filter((one) => !/\\/(content|fhir)\\//.test(one.name.split("?")[0]))
  .reduce((sum, one) => sum + one.decodedBodySize, 0)
"""
_PAGE = """<!doctype html>
<html lang="en">
<title>An app</title>
<link rel="icon" href="data:,">
<script src="/fhir-client.js"></script>
</html>
"""


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where Chromium is, and beside it what runs in it."""
    path = shutil.which("chromium")
    if path is None or not _PACKAGES.is_dir():
        pytest.fail("needs Debian's chromium, and the packages of `npm ci` in tests/node")
    return path


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    """A Chromium without a window.

    Of the module: as long as Playwright runs, asyncio cannot run anything else in this thread.
    """
    with sync_playwright() as playwright:
        resolver = f"--host-resolver-rules=MAP {_STRANGER} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=chromium_path, args=[resolver])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def app_url(chromium_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app: a page with its script, on another site than the server."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "index.html").write_text(_PAGE)
    shutil.copyfile(_CLIENT, folder / "fhir-client.js")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def visit(chromium: Browser, demo: Demo, app_url: str) -> Iterator[Callable[..., Visit]]:
    """Return a maker of visits, each in a new browser; options are Playwright's."""
    contexts: list[BrowserContext] = []
    said: list[str] = []
    elsewhere: list[str] = []
    hosts = {urlsplit(url).netloc for url in (demo.url, app_url)} | {_STRANGER}

    def ask(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https") and not {parts.netloc, parts.hostname} & hosts:
            elsewhere.append(request.url)

    def listen(message: ConsoleMessage) -> None:
        # An app of another user's may be refused what it asks for.
        if message.page is not None and message.page.url.startswith(demo.url):
            said.append(f"{message.type}: {message.text}")

    def begin(**options: Any) -> Visit:
        contexts.append(chromium.new_context(**options))
        contexts[-1].on("request", ask)
        contexts[-1].on("console", listen)
        contexts[-1].on("weberror", lambda one: said.append(f"error: {one.error}"))
        return Visit(contexts[-1].new_page(), demo, app_url)

    yield begin
    for context in contexts:
        context.close()
    assert elsewhere == []
    # Chromium tells what a policy kept it from. An answer of 400 or above is none of our mistakes.
    faults = [text for text in said if text.startswith("error") or "Content Security" in text]
    assert [text for text in faults if "Failed to load resource" not in text] == []


class Visit:
    """A person's browser, in which nobody is signed in yet, and an app's page."""

    def __init__(self, page: Page, demo: Demo, app: str) -> None:
        self.page = page
        self.app = app
        # The same page, at an origin that no client is registered for.
        self.stranger = app.replace("localhost", _STRANGER)
        self._demo = demo

    def at(self, page: Page) -> Visit:
        """Return the same person's visit in another window."""
        return Visit(page, self._demo, self.app)

    def tab(self, path: str) -> Visit:
        """Go to a page of ours in another tab."""
        other = self.at(self.page.context.new_page())
        other.open(path)
        return other

    def address(self, path: str) -> str:
        """Return the address of a page of ours."""
        return f"{self._demo.url}{path}"

    # What a person does.

    def open(self, path: str) -> None:
        """Go to a page of ours."""
        self.page.goto(self.address(path))

    def sign_in(self, username: str) -> None:
        """Type name and password."""
        self.page.get_by_label("User name").fill(username)
        self.page.get_by_label("Password").fill("demo")
        self.press("Sign in")

    def search(self, name: str) -> None:
        """Find patients by name."""
        self.page.get_by_label("Name").fill(name)
        self.press("Search")

    def allow(self, *, tick: Iterable[str] = (), untick: Iterable[str] = ()) -> None:
        """Allow selected after these were changed, each named by words beside its box."""
        for words in tick:
            self.page.get_by_role("checkbox", name=words).check()
        for words in untick:
            self.page.get_by_role("checkbox", name=words).uncheck()
        self.press("Allow selected")

    def press(self, words: str) -> None:
        """Press a button, and wait for the page that comes."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=words).click()

    def press_first(self, words: str) -> None:
        """Press the first of the buttons that are named alike, and wait for the page that comes."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=words, exact=True).first.click()

    def press_value(self, value: str) -> None:
        """Press the button that sends a value."""
        with self.page.expect_navigation():
            self.page.locator(f'button[value="{value}"]').click()

    def follow(self, words: str) -> None:
        """Follow a link."""
        with self.page.expect_navigation():
            self.page.get_by_role("link", name=words).click()

    def unfold(self) -> None:
        """Show what is folded away."""
        self.page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")

    def faults(self) -> list[str]:
        """Return what axe finds wrong with the page, on a phone and a desktop, light and dark."""
        return self._faults(_SCREENS)

    def faults_in(self, language: str) -> list[str]:
        """Return what axe finds wrong on a phone with the page in another language."""
        self.page.emulate_media(color_scheme="light")
        self.page.set_extra_http_headers({"Accept-Language": language})
        self.page.reload()
        self.page.set_extra_http_headers({})
        assert self.page.locator("html").get_attribute("lang") == language
        return self._faults(((_PHONE, (("light", _WITHOUT_COLOURS),)),))

    def _faults(self, screens: _Screens) -> list[str]:
        self.page.evaluate(_AXE.read_text())
        self.unfold()
        faults: list[str] = []
        for (width, height), looks in screens:
            self.page.set_viewport_size({"width": width, "height": height})
            if self.page.evaluate("document.documentElement.scrollWidth") > width:
                faults.append(f"wider than {width}")
            # Swagger UI's tables are not ours.
            if not self.page.url.endswith("/api-docs"):
                broken = self.page.evaluate(_BROKEN_WORDS)
                faults += [f"broken in the middle at {width}: {word}" for word in broken]
                unnamed = self.page.evaluate(_WITHOUT_LABELS)
                faults += [f"without its column's name at {width}: {text}" for text in unnamed]
            weight = self.page.evaluate(_WEIGH)
            most = _MOST_OF.get(urlsplit(self.page.url).path, _MOST_BYTES)
            if weight > most:
                faults.append(f"{weight:,} bytes; {most:,} are the most")
            for scheme, options in looks:
                self.page.emulate_media(color_scheme=scheme)
                faults += self.page.evaluate(_RUN_AXE, options)
        return sorted(set(faults))

    def take_pictures(self, folder: str, name: str) -> None:
        """Put pictures of the page in a folder: phone and desktop, light and dark."""
        for width, height in ((390, 844), (1280, 860)):
            self.page.set_viewport_size({"width": width, "height": height})
            for scheme in _SCHEMES:
                self.page.emulate_media(color_scheme=scheme)
                path = f"{folder}/{name}-{width}-{scheme}.png"
                self.page.screenshot(path=path, full_page=True)
        self.page.emulate_media(color_scheme="light")

    # What the app does.

    def connect(self, **options: Any) -> None:
        """Open the app, and have it send the browser to our server."""
        self.page.goto(self.app)
        self.authorize(iss=self._demo.fhir, **options)

    def authorize(self, also: str = "", **options: Any) -> None:
        """Have the app on the page send the browser to our server.

        also is added to the address: what SMART's client has no option for.
        """
        asked = {"redirectUri": self.app, "noRedirect": True, **options}
        with self.page.expect_navigation():
            self.page.evaluate(
                "([asked, also]) => { FHIR.oauth2.authorize(asked)"
                ".then((url) => { location.href = url + also; }) }",
                [asked, also],
            )

    def ready(self) -> dict[str, Any]:
        """Have the app redeem its code; return what it was told with its token."""
        assert self.page.url.startswith(self.app), self.page.url
        told: dict[str, Any] = self.page.evaluate(
            "FHIR.oauth2.ready().then((client) => (window.client = client).state.tokenResponse)"
        )
        return told

    def ask(self, expression: str) -> Any:
        """Return what an expression of the app's comes to; `client` is SMART's client."""
        return self.page.evaluate(expression)

    def status(self, path: str) -> int:
        """Return the status of an answer to the app under /fhir."""
        found: int = self.page.evaluate(
            "(url) => fetch(url, { headers: { Authorization: client.getAuthorizationHeader() } })"
            ".then((answer) => answer.status)",
            f"{self._demo.fhir}/{path}",
        )
        return found
