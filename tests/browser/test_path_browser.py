"""The service below a path, as Chromium sees it: pages, scripts, sign-in, and SMART's client."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.live import Demo

pytest_plugins = ["tests.support.live", "tests.support.browser"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo, below a path."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}/records"
    # Imported here: pytest rewrites the asserts of its plugins first.
    from tests.support.live import run

    with run(tmp_path_factory.mktemp("below"), port=port, BASE_URL=base) as running:
        yield running


def test_an_app_that_the_pages_offer_reads_the_record(visit):
    person = visit()
    person.open("/")
    person.press("Continue as patient")
    assert person.page.url == person.address("/patients/p1")
    person.open("/demo/app")
    person.press("Connect to my records")
    person.allow()
    person.page.get_by_role("heading", name="Allergies").wait_for()
    assert person.page.url.startswith(person.address("/demo/app"))


def test_scripts_and_styles_come_from_below_the_path(visit):
    person = visit()
    failed: list[str] = []
    person.page.on(
        "response", lambda answer: failed.append(answer.url) if answer.status > 399 else None
    )
    person.open("/sign-in")
    person.sign_in("admin")
    for path in ("/", "/explore?address=/fhir/Patient", "/admin", "/admin/imports", "/api-docs"):
        person.open(path)
        person.page.wait_for_load_state("networkidle")
    person.page.get_by_text("AllergyIntolerance").first.wait_for()
    assert failed == []
