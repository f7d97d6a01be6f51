"""README's picture: a patient's chart, on a desktop.

`FHIRAPP_TEST_SCREENSHOTS=1 python -m pytest tests/browser/test_screenshots.py` takes it anew.
Pictures of all pages are taken in test_accessibility.py, which shows too that they fit a phone.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.shell import ROOT

if TYPE_CHECKING:
    from tests.support.browser import Visit

pytest_plugins = ["tests.support.live", "tests.support.browser"]

FOLDER = ROOT / "tests" / "screenshots"
NAME = "chart"
WIDTH, HEIGHT = 1280, 860


@pytest.mark.skipif(
    not os.environ.get("FHIRAPP_TEST_SCREENSHOTS"),
    reason="writes a file of the repository; FHIRAPP_TEST_SCREENSHOTS=1 does so",
)
def test_the_picture_is_taken_anew(visit: Callable[..., Visit]):
    clinician = visit(viewport={"width": WIDTH, "height": HEIGHT})
    clinician.open("/sign-in")
    clinician.sign_in("clinician")
    clinician.open("/patients/p1")
    clinician.page.get_by_text("Penicillin").first.wait_for()
    FOLDER.mkdir(exist_ok=True)
    clinician.page.screenshot(path=FOLDER / f"{NAME}.png")


def test_readme_shows_the_one_that_is_here():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(tests/screenshots/([a-z-]+)\.png\)", readme) == [NAME]
    assert [file.stem for file in FOLDER.glob("*.png")] == [NAME]
    head = (FOLDER / f"{NAME}.png").read_bytes()[:24]
    assert struct.unpack(">8s8xII", head)[1:] == (WIDTH, HEIGHT)
