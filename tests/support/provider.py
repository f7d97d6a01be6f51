"""The clinic's identity provider of the tests: oidc-provider, from npm, in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin

import requests

from tests.support.browsing import Browser, Page
from tests.support.helpers import BASE_URL
from tests.support.node import NODE, node_is_there

CLIENT, SECRET = "fhirapp", "a secret of the two"
WAIT_SECONDS = 20
_ACTION = re.compile(r'<form[^>]* action="([^"]+)"')
_PROMPT = re.compile(r'name="prompt" value="(\w+)"')


class IdentityProvider:
    """The provider as its users know it; its settings are those of this server for it."""

    def __init__(self, process: subprocess.Popen[str], issuer: str) -> None:
        self._process = process
        self.issuer = issuer
        self.settings: Mapping[str, Any] = {
            "oidc_issuer": issuer,
            "oidc_client_id": CLIENT,
            "oidc_client_secret": SECRET,
            "oidc_name": "Clinic login",
        }

    def change(self, accounts: Mapping[str, Mapping[str, Any]]) -> None:
        """Let it have these accounts, by their subjects: the claims of each."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{json.dumps(accounts)}\n")
        self._process.stdin.flush()
        # It tells there of what goes wrong too.
        while (line := self._process.stdout.readline()) != "changed\n":
            assert line, "the provider has ended"


class Person:
    """Somebody in front of a browser, which is at this server, at the provider, and back."""

    def __init__(self, browser: Browser, subject: str) -> None:
        self.browser, self.subject = browser, subject
        # What the browser keeps of the provider, and how often it asked for the password.
        self.session = requests.Session()
        self.asked = 0

    def sign_in(self, path: str = "/sign-in?next=/account") -> Page:
        """Press the button on the page to sign in; return the page that comes of it."""
        page = self.browser.get(path)
        return self.go_on(page.offered["Sign in with Clinic login"])

    def go_on(self, path: str) -> Page:
        """Go to the provider from a path of ours, and come back."""
        away = self.browser.get(path)
        if away.location is None:
            return away
        return self.browser.get(self.at_provider(away.location))

    def at_provider(self, address: str) -> str:
        """Do what the provider asks for; return the path of ours that it leads back to."""
        answer = self._ask("GET", address)
        for _ in range(20):
            location = answer.headers.get("Location")
            if location is None:
                answer = self._fill_in(answer)
                continue
            address = urljoin(answer.url, location)
            if address.startswith(BASE_URL):
                return address.removeprefix(BASE_URL)
            answer = self._ask("GET", address)
        raise AssertionError(answer.text)

    def _fill_in(self, answer: requests.Response) -> requests.Response:
        action, prompt = _ACTION.search(answer.text), _PROMPT.search(answer.text)
        assert action, answer.text
        assert prompt, answer.text
        form = {"prompt": prompt[1]}
        if prompt[1] == "login":
            self.asked += 1
            form |= {"login": self.subject, "password": "any"}
        return self._ask("POST", urljoin(answer.url, action[1]), data=form)

    def _ask(self, method: str, address: str, **options: Any) -> requests.Response:
        return self.session.request(
            method, address, allow_redirects=False, timeout=WAIT_SECONDS, **options
        )


@contextmanager
def running_provider() -> Iterator[IdentityProvider]:
    """Run the provider; a test gives it its accounts."""
    node_is_there()
    given = {
        "client": CLIENT,
        "secret": SECRET,
        "redirect": f"{BASE_URL}/sign-in/provider/answer",
        "left": f"{BASE_URL}/sign-in?done=signed-out",
        "accounts": {},
    }
    with subprocess.Popen(
        ["node", str(NODE / "oidc-provider.mjs"), json.dumps(given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        issuer = process.stdout.readline().strip()
        assert issuer.startswith("http"), "the provider did not start"
        yield IdentityProvider(process, issuer)
        process.kill()
