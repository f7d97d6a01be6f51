"""How browsers are called on pages."""

from __future__ import annotations

import pytest

from fhirapp.web.browsers import browser

_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_WEBKIT} Chrome/140.0.0.0 Safari/537.36",
            "Chrome on Windows",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_WEBKIT} Chrome/140.0 Safari/5 Edg/140.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
            "Firefox on Linux",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) Version/18.6 Safari/604.1",
            "Safari on iPhone",
        ),
        (
            f"Mozilla/5.0 (Linux; Android 15) {_WEBKIT} Chrome/140 Mobile Safari/5",
            "Chrome on Android",
        ),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18 Safari/605", "Safari on Mac"),
        ("curl/8.14.1", "curl"),
        ("somebody's <b>script</b>", "somebody's <b>script</b>"),
        ("", "unknown browser"),
        (None, "unknown browser"),
    ],
)
def test_a_browser_has_the_name_that_people_know(make_app, user_agent, name):
    with make_app(seed=False).test_request_context():
        assert browser(user_agent) == name
