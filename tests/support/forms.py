"""The browser of forms alone, at a server that runs: for programs that send it their user."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

import requests
from werkzeug.datastructures import Headers, MultiDict
from werkzeug.test import TestResponse
from werkzeug.wrappers import Request

from tests.support.browsing import PASSWORD, Browser, Page
from tests.support.serving import WAIT_SECONDS


class LiveBrowser(Browser):
    """Asks over TCP; what it shows is left where another site is."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()

    def _open(self, method: str, path: str, **options: Any) -> Page:
        while True:
            answer = self._session.request(
                method,
                urljoin(self._url, path),
                params=_pairs(options.get("query_string")),
                data=_pairs(options.get("data")),
                allow_redirects=False,
                timeout=WAIT_SECONDS,
            )
            location = answer.headers.get("Location")
            if location is None or not location.startswith("/"):
                status = f"{answer.status_code} {answer.reason}"
                headers = Headers(list(answer.headers.items()))
                return Page(
                    self, path, TestResponse([answer.content], status, headers, Request({}))
                )
            method, path, options = "GET", location, {}


def _pairs(form: MultiDict[str, str] | None) -> list[tuple[str, str]]:
    return [] if form is None else list(form.items(multi=True))


def allow(address: str, username: str, *also: str, patient: str | None = None) -> str:
    """Sign in at an app's request, choose the patient if that is asked, allow what is ticked.

    also are scopes that the user ticks besides. Return where at the app the browser ends.
    """
    page = LiveBrowser(address).get(address)
    page = page.submit("Sign in", username=username, password=PASSWORD)
    if patient is not None:
        labels = {value: label for form in page.forms for label, (_, value) in form.buttons.items()}
        page = page.submit(labels[patient])
    button = "Allow selected"
    page = page.submit(button, scope=[*page.form(button).fields.getlist("scope"), *also])
    assert page.location is not None, page.words
    return page.location
