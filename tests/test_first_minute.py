"""A new user's first minute: from README's command to a search that is explained."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.serving import WAIT_SECONDS, listening_port
from tests.support.shell import ROOT, environment

pytest_plugins = ["tests.support.live", "tests.support.browser"]

MOST_CLICKS, MOST_SECONDS = 4, 60


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[str, float]]:
    """The demo as README starts it, without records yet: its address, and when it began."""
    began = time.monotonic()
    # The port is not README's, for that may be taken; the command is.
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-u", "app.py", "--demo"],
            env=environment(tmp_path / "instance", PORT="0"),
            cwd=ROOT,
            stdout=log,
            stderr=log,
            text=True,
        )
    try:
        yield f"http://127.0.0.1:{listening_port(process, tmp_path / 'log')}", began
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def test_the_first_search_is_explained_within_a_minute(chromium: Browser, started):
    address, began = started
    page = chromium.new_page()
    page.goto(address)
    clicks = 0
    for button in ("Try a search", "Send"):
        page.get_by_role("button", name=button, exact=True).click()
        clicks += 1
    told = page.get_by_role("region", name="How the server reads your search")
    told.get_by_role("row").filter(has_text="patient").first.wait_for()
    assert clicks <= MOST_CLICKS
    assert time.monotonic() - began < MOST_SECONDS
    page.close()
