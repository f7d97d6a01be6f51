"""The main pages open on a phone and a desktop, light and dark; README's picture is of one of them.

`FHIRAPP_TEST_SCREENSHOTS=1 python -m pytest tests/browser/test_screenshots.py` takes it anew.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest

from tests.support.shell import ROOT

if TYPE_CHECKING:
    from tests.support.browser import Visit

pytest_plugins = ["tests.support.live", "tests.support.browser"]

FOLDER = ROOT / "tests" / "screenshots"
# The picture that README has.
SHOWN = "chart"
TAKEN_ANEW = bool(os.environ.get("FHIRAPP_TEST_SCREENSHOTS"))
NOBODY = ""
WIDTH, HEIGHT = 1280, 860
PHONE = 390
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


class Shown(NamedTuple):
    """A main page: who sees it, its address, what must stand there.

    first is where they were before; hidden is what is another's in each picture: where a file lies.
    """

    who: str
    path: str
    words: str
    first: str = ""
    hidden: str = ""


PAGES = {
    "home": Shown(NOBODY, "/", "Explore"),
    "explorer": Shown(
        "clinician",
        "/explore?address=%2Ffhir%2FAllergyIntolerance%3Fpatient%3Dp1%26_explain%3Dtrue",
        "How the server reads your search",
    ),
    "chart": Shown("clinician", "/patients/p1", "Penicillin"),
    "note": Shown("clinician", "/notes/doc-p1-discharge-2024", "DISCHARGE SUMMARY"),
    "difference": Shown(
        "clinician", "/notes/doc-p1-discharge-2024/difference?from=1&to=3", "AMENDED"
    ),
    "search": Shown("clinician", "/notes?q=chest+pain", "chest pain"),
    "lessons": Shown("clinician", "/learn", "Read one allergy"),
    "sample-app": Shown(NOBODY, "/demo/app", "Connect"),
    "api-docs": Shown("clinician", "/api-docs", "AllergyIntolerance"),
    "administration": Shown("admin", "/admin", "Overview", hidden="demo.db"),
    "imports": Shown("admin", "/admin/imports", "Imports"),
    "audit": Shown("admin", "/admin/audit", "Audit", first="/patients/p1"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_main_page_is_there_on_each_screen(visit: Callable[..., Visit], name):
    shown = PAGES[name]
    one = visit(viewport={"width": WIDTH, "height": HEIGHT})
    if shown.who != NOBODY:
        one.open("/sign-in")
        one.sign_in(shown.who)
    if shown.first:
        one.open(shown.first)
    for width in (PHONE, WIDTH):
        one.page.set_viewport_size({"width": width, "height": HEIGHT})
        for scheme in SCHEMES:
            one.page.emulate_media(color_scheme=scheme)
            one.open(shown.path)
            one.page.get_by_text(shown.words).first.wait_for()
            assert one.page.evaluate("document.documentElement.scrollWidth") <= width
            hidden = [one.page.get_by_text(shown.hidden)] if shown.hidden else []
            picture = one.page.screenshot(mask=hidden, mask_color="white")
            if TAKEN_ANEW and name == SHOWN and (width, scheme) == (WIDTH, "light"):
                FOLDER.mkdir(exist_ok=True)
                (FOLDER / f"{name}.png").write_bytes(picture)


def test_readme_shows_the_one_that_is_here():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(tests/screenshots/([a-z-]+)\.png\)", readme) == [SHOWN]
    assert [file.stem for file in FOLDER.glob("*.png")] == [SHOWN]
    head = (FOLDER / f"{SHOWN}.png").read_bytes()[:24]
    assert struct.unpack(">8s8xII", head)[1:] == (WIDTH, HEIGHT)
