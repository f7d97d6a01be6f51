"""Chromium, and in it an app of another origin that uses SMART's client for JavaScript.

A pytest plugin, as live.py is. A Visit is a user's browser: its methods are what the user does on
our pages, and what the app does.
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
# A host that resolves to this machine, and that no client is registered at.
_STRANGER = "stranger.example"
_PACKAGES = TESTS / "node" / "node_modules"
_AXE = _PACKAGES / "axe-core" / "axe.min.js"
_CLIENT = _PACKAGES / "fhirclient" / "build" / "fhir-client.pure.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The narrowest phone that pages must fit without scrolling sideways (WCAG 1.4.10), and a desktop:
# size, and the rules for each scheme. Colours are the same on both, so they are checked once for
# each scheme; nothing else differs in the dark one.
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
# Words of tables, headings, tags and buttons that are broken over two lines.
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
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) found.push(word[0]);
    }
  }
  return found;
})
"""
# Values of tables with stacked rows that have no column name before them.
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
# Most bytes of a page and all that it loads, unpacked, without attachments and what an app reads.
_MOST_BYTES = 100_000
_MOST_OF = {"/api-docs": 2_500_000}
_WEIGH = """
performance.getEntries()
  .filter((entry) => ["navigation", "resource"].includes(entry.entryType))
  .filter((entry) => !/\\/(content|fhir)\\//.test(entry.name.split("?")[0]))
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)
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
    """The path of Chromium, where the packages that run in it are there too."""
    path = shutil.which("chromium")
    if path is None or not _PACKAGES.is_dir():
        pytest.fail("needs Debian's chromium, and the packages of `npm ci` in tests/node")
    return path


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    """A Chromium without a window, for a module: Playwright keeps asyncio busy in this thread."""
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
    """Return a factory of visits, each in a new browser; options are Playwright's."""
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
        contexts[-1].on("weberror", lambda failure: said.append(f"error: {failure.error}"))
        return Visit(contexts[-1].new_page(), demo, app_url)

    yield begin
    for context in contexts:
        context.close()
    assert elsewhere == []
    # Chromium reports what a policy blocked. A status of 400 or above is no fault of a page.
    faults = [text for text in said if text.startswith("error") or "Content Security" in text]
    assert [text for text in faults if "Failed to load resource" not in text] == []


class Visit:
    """A user's browser, in which nobody is signed in yet, and an app's page."""

    def __init__(self, page: Page, demo: Demo, app: str) -> None:
        self.page = page
        self.app = app
        # The same page, at an origin that no client is registered for.
        self.stranger = app.replace("localhost", _STRANGER)
        self._demo = demo

    def at(self, page: Page) -> Visit:
        """Return the same user's visit in another window."""
        return Visit(page, self._demo, self.app)

    def tab(self, path: str) -> Visit:
        """Go to a page of ours in another tab."""
        other = self.at(self.page.context.new_page())
        other.open(path)
        return other

    def address(self, path: str) -> str:
        """Return the address of a page of ours."""
        return f"{self._demo.url}{path}"

    # What the user does.

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
        """Allow the selected scopes after changing these, each named by its label."""
        for words in tick:
            self.page.get_by_role("checkbox", name=words).check()
        for words in untick:
            self.page.get_by_role("checkbox", name=words).uncheck()
        self.press("Allow selected")

    def press(self, words: str) -> None:
        """Press a button, and wait for the next page."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=words).click()

    def press_first(self, words: str) -> None:
        """Press the first button of this name, and wait for the next page."""
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
        """Open all details."""
        script = "document.querySelectorAll('details').forEach((each) => each.open = true)"
        self.page.evaluate(script)

    def faults(self) -> list[str]:
        """Return the faults that axe finds on a phone and a desktop, light and dark."""
        return self._faults(_SCREENS)

    def faults_in(self, language: str) -> list[str]:
        """Return the faults that axe finds on a phone, in another language."""
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

        `also` is added to the address: parameters that SMART's client has no option for.
        """
        asked = {"redirectUri": self.app, "noRedirect": True, **options}
        with self.page.expect_navigation():
            self.page.evaluate(
                "([asked, also]) => { FHIR.oauth2.authorize(asked)"
                ".then((url) => { location.href = url + also; }) }",
                [asked, also],
            )

    def ready(self) -> dict[str, Any]:
        """Have the app redeem its code; return the token response."""
        assert self.page.url.startswith(self.app), self.page.url
        told: dict[str, Any] = self.page.evaluate(
            "FHIR.oauth2.ready().then((client) => (window.client = client).state.tokenResponse)"
        )
        return told

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the app; `client` is SMART's client."""
        return self.page.evaluate(expression)

    def status(self, path: str) -> int:
        """Return the status that the app gets under /fhir."""
        found: int = self.page.evaluate(
            "(url) => fetch(url, { headers: { Authorization: client.getAuthorizationHeader() } })"
            ".then((answer) => answer.status)",
            f"{self._demo.fhir}/{path}",
        )
        return found
