"""A page of a running schedule in Chromium: what it refreshes keeps the keyboard's focus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import delete, insert, update

from fhirapp.jobs.queue import DONE, JobRow, add, new_id
from fhirapp.jobs.schedules import ScheduleRow

if TYPE_CHECKING:
    from tests.support.browser import Visit
    from tests.support.live import Demo

pytest_plugins = ["tests.support.live", "tests.support.browser"]

PATH = "/admin/schedules/weekly"


@pytest.fixture
def job_id(demo: Demo) -> Iterator[str]:
    """The run of a schedule, which is under way."""
    job_id, now = new_id(), int(time.time())
    row: dict[str, object] = {
        "name": "weekly",
        "kind": "backup",
        "timing": "weekly sunday 02:00",
        "options": {},
    }
    with demo.writing() as connection:
        connection.execute(
            insert(ScheduleRow).values(row | {"is_paused": False, "handled_at": now})
        )
        add(connection, job_id, "backup", "schedule:weekly", now, runs=True, schedule="weekly")
    yield job_id
    _end(demo, job_id)
    with demo.writing() as connection:
        connection.execute(delete(ScheduleRow).where(ScheduleRow.name == "weekly"))


def _end(demo: Demo, job_id: str) -> None:
    with demo.writing() as connection:
        ended: dict[str, object] = {
            "state": DONE,
            "ended_at": int(time.time()),
            "lease_until": None,
        }
        connection.execute(update(JobRow).where(JobRow.id == job_id).values(ended))


def _wait_for_refreshes(visitor: Visit, times: int = 2) -> None:
    for _ in range(times):
        with visitor.page.expect_response(lambda answer: answer.url.endswith(PATH)):
            pass


def test_refresh_keeps_the_focus_and_the_confirmation(visit, demo, job_id):
    visitor = visit()
    visitor.open(f"/sign-in?next={PATH}")
    visitor.sign_in("admin")
    page = visitor.page
    page.get_by_role("button", name="Pause").focus()
    page.evaluate("window.focused = document.activeElement")
    before = page.get_by_text("Running for").inner_text()
    _wait_for_refreshes(visitor)
    page.wait_for_function("(text) => !document.body.innerText.includes(text)", arg=before)
    assert page.evaluate("document.activeElement === focused && focused.textContent") == "Pause"

    visitor.press("Remove")
    confirmation = page.get_by_role("button", name="Remove schedule")
    confirmation.focus()
    _wait_for_refreshes(visitor)
    assert confirmation.evaluate("(button) => button === document.activeElement")

    page.get_by_role("button", name="Pause").focus()
    _end(demo, job_id)
    page.get_by_role("button", name="Run now").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Pause"
    # The run has ended, so the page no longer asks.
    assert page.locator("#schedule[hx-get]").count() == 0
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2_500)
    assert asked == []
