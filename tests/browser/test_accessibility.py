"""Every page of ours, as it is shown to somebody: axe finds nothing wrong, and it fits a phone.

So it does in German, where each is looked at once for everybody who sees it. A page that is added
stands in PAGES too, once for each thing that it can show. With FHIRAPP_TEST_PICTURES=FOLDER
pictures of all are put there, at 390 and 1280 pixels, light and dark, with a page index.html that
shows them side by side.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from werkzeug.routing import MapAdapter

from fhirapp import create_app
from fhirapp.environment import load_settings
from tests.support.page_addresses import NO_PAGES, addresses
from tests.support.page_list import NOBODY, PAGES, added

if TYPE_CHECKING:
    from tests.support.live import Demo

pytest_plugins = ["tests.support.live", "tests.support.browser"]

PICTURES = os.environ.get("FHIRAPP_TEST_PICTURES", "")


@pytest.fixture(scope="module")
def rules() -> Iterator[MapAdapter]:
    """The addresses of the app."""
    with TemporaryDirectory() as folder:
        yield create_app(load_settings({}, instance_path=folder, demo=True)).url_map.bind("")


@pytest.fixture(scope="module")
def there(demo: Demo, app_url: str) -> dict[str, str]:
    """What the addresses name."""
    return added(demo, app_url)


@pytest.mark.parametrize("who", PAGES)
def test_axe_finds_nothing_wrong_with_pages_and_they_fit_a_phone(visit, there, rules, who):
    visitor = visit()
    if who != NOBODY:
        visitor.open("/sign-in")
        visitor.sign_in(who)
    faults: list[str] = []
    for number, page in enumerate(PAGES[who]):
        begin = (page.begin or page.rule).format(**there)
        visitor.open(begin)
        if "#" not in begin and visitor.page.evaluate("scrollY"):
            faults.append(f"{begin}: is not shown from its top")
        visitor.unfold()
        page.go(visitor)
        assert page.rule == rule_of(rules, visitor.page.url)
        if PICTURES:
            name = re.sub(r"\W+", "-", page.rule).strip("-") or "home"
            visitor.take_pictures(PICTURES, f"{who or 'nobody'}-{number:02}-{name}")
        found = visitor.faults()
        # German is the longer language: once for each page, since that takes long.
        if page.rule not in {before.rule for before in PAGES[who][:number]}:
            found += [f"in German, {fault}" for fault in visitor.faults_in("de")]
        faults += [f"{page.begin or page.rule}: {fault}" for fault in found]
    if PICTURES:
        _write_index(Path(PICTURES))
    assert faults == []


def _write_index(folder: Path) -> None:
    """Write a page that shows the pictures, those of one page beside each other."""
    names = sorted({file.stem.rsplit("-", 2)[0] for file in folder.glob("*.png")})
    looks = [f"{width}-{scheme}" for width in (390, 1280) for scheme in ("light", "dark")]
    rows = "".join(
        f"<h2>{name}</h2><p>"
        + "".join(f'<img src="{name}-{look}.png" width="24%" alt="{look}">' for look in looks)
        + "</p>"
        for name in names
    )
    page = f'<!doctype html><html lang="en"><title>Pages</title>{rows}</html>'
    (folder / "index.html").write_text(page, encoding="utf-8")


def rule_of(rules: MapAdapter, url: str) -> str:
    """Return the rule of an address."""
    path = urlsplit(url).path
    (method, *_) = {"GET", "POST"} & set(rules.allowed_methods(path))
    rule, _ = rules.match(path, method, return_rule=True)
    return rule.rule


def test_every_page_is_looked_at():
    with TemporaryDirectory() as folder:
        app = create_app(load_settings({}, instance_path=folder, demo=True))
    pages = {address.rule for address in addresses(app, "GET")} - NO_PAGES
    assert pages - {page.rule for pages in PAGES.values() for page in pages} == set()
