"""A browser of forms alone, for programs that send their user through our pages."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin

import requests

# For what never happens: a server that hangs.
WAIT_SECONDS = 60
Pairs = list[tuple[str, str]]


class Person:
    """Somebody who signs in, chooses a patient where asked, and allows what they are asked for."""

    def __init__(self, username: str, patient: str = "") -> None:
        self._browser = requests.Session()
        self._answers = {"username": username, "password": "demo"}
        self._patient = patient

    def allows(self, address: str, *also: str) -> str:
        """Go to an app's request, answer our pages; return where at the app that ends.

        also are scopes that are ticked where the page leaves that to the user.
        """
        server = urljoin(address, "/")
        answer = self._browser.get(address, timeout=WAIT_SECONDS, allow_redirects=False)
        while True:
            if answer.is_redirect:
                location = urljoin(answer.url, answer.headers["Location"])
                if not location.startswith(server):
                    return location
                answer = self._browser.get(location, timeout=WAIT_SECONDS, allow_redirects=False)
                continue
            assert answer.status_code == 200, answer.text
            action, form = self._answer(answer.text, also)
            answer = self._browser.post(
                urljoin(answer.url, action), form, timeout=WAIT_SECONDS, allow_redirects=False
            )

    def _answer(self, page: str, also: tuple[str, ...]) -> tuple[str, Pairs]:
        """Return where a page's form goes, and with what."""
        ticked = [("scope", scope) for scope in also]
        for action, fields, buttons in _Forms(page).found:
            if "password" in dict(fields):
                return action, [(name, self._answers.get(name, text)) for name, text in fields]
            for pressed in (("patient", self._patient), ("allow", "1")):
                if pressed in buttons:
                    return action, [*fields, *(ticked if pressed[0] == "allow" else ()), pressed]
        raise AssertionError(f"no form that can be answered: {page}")


class _Forms(HTMLParser):
    """Finds a page's forms: where each goes, the fields as they stand, and the buttons."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Pairs, Pairs]] = []
        self._select = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: text or "" for name, text in attrs}
        pair = (given.get("name", ""), given.get("value", ""))
        if tag == "form":
            self.found.append((given["action"], [], []))
        elif tag == "button" and pair[0]:
            self.found[-1][2].append(pair)
        elif tag == "select":
            self._select = pair[0]
        elif tag == "option" and "selected" in given:
            self.found[-1][1].append((self._select, pair[1]))
        elif tag == "input" and (given.get("type") != "checkbox" or "checked" in given):
            self.found[-1][1].append(pair)
