"""The page of imports in Chromium: its script sends files in pieces, and goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.browser import Visit

pytest_plugins = ["tests.support.live", "tests.support.browser"]

BEGIN = "Start import"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with more in one file than a request takes, and a file that is refused."""
    records = tmp_path / "clinic"
    (records / "sub").mkdir(parents=True)
    note = "x" * 2_000
    with (records / "patients.ndjson").open("w") as file:
        for number in range(600):
            patient = {"resourceType": "Patient", "id": f"of-folder-{number}"}
            file.write(json.dumps({**patient, "name": [{"text": note}]}) + "\n")
    (records / "sub" / "wrong.ndjson").write_text('{"resourceType":"AllergyIntolerance"}\n')
    return records


@pytest.fixture
def visitor(visit) -> Visit:
    """The demo's administrator at the page of imports."""
    found: Visit = visit()
    found.open("/sign-in?next=/admin/imports")
    found.sign_in("admin")
    return found


def test_a_folder_is_uploaded_imported_and_watched_to_its_end(visitor, folder):
    pieces: list[str] = []
    visitor.page.on(
        "request", lambda asked: pieces.append(asked.url) if "&at=" in asked.url else None
    )
    visitor.page.locator("#folder").set_input_files(folder)
    assert visitor.page.locator("#upload-said").inner_text() == "Selected: 2 files, 1.2 MB"
    visitor.press(BEGIN)
    # The page looks again by itself.
    visitor.page.get_by_text("1 record was rejected").wait_for()
    assert len(pieces) == 4
    words = visitor.page.locator("main").inner_text()
    assert "clinic/sub/wrong.ndjson:1" in words
    assert "AllergyIntolerance.patient" in words


def test_an_upload_goes_on_after_signing_in_again(visitor, folder):
    context = visitor.page.context

    def sign_out(route) -> None:
        context.clear_cookies()
        route.continue_(headers={**route.request.headers, "cookie": ""})

    visitor.page.route("**&at=524288&**", sign_out, times=1)
    visitor.page.locator("#folder").set_input_files(folder)
    visitor.page.get_by_role("button", name=BEGIN).click()
    visitor.page.get_by_text("Your session has ended.").wait_for()
    other = visitor.tab("/sign-in")
    other.sign_in("admin")
    pieces: list[str] = []
    visitor.page.on(
        "request", lambda asked: pieces.append(asked.url) if "&at=" in asked.url else None
    )
    visitor.press(BEGIN)
    visitor.page.get_by_text("1 record was rejected").wait_for()
    # What had arrived was not sent again.
    assert not any("&at=0&" in piece and "patients" in piece for piece in pieces)
    assert "600" in visitor.page.locator("main").inner_text()
