"""The demo's sample app in Chromium: launched from our pages, refused, and by another server.

Its view of a record is tested in test_smart_browser.py.
"""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.support.live", "tests.support.browser"]


def test_refused_authorization_is_shown(visit):
    visitor = visit()
    visitor.open("/demo/app")
    visitor.press("Connect to my records")
    visitor.sign_in("patient")
    visitor.press("Don't allow")
    visitor.page.get_by_text("The user refused").wait_for()
    assert visitor.page.locator("#record").is_hidden()


@pytest.mark.parametrize("iss", ["https://elsewhere.example/fhir", "{fhir}x", ""])
def test_launch_by_another_server_is_ignored(visit, demo, iss):
    visitor = visit()
    visitor.open(f"/demo/app?launch=x&iss={iss.format(fhir=demo.fhir)}")
    visitor.page.wait_for_load_state("networkidle")
    assert visitor.page.url.startswith(demo.url)
    assert visitor.page.get_by_role("button", name="Connect to my records").is_visible()
    assert visitor.page.locator("#message").inner_text() == ""
