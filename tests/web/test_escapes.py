"""No text of pages escapes translation: in a language of brackets, all is in brackets.

Each page is opened in English first, then in a translation that puts every message in ⟦brackets⟧.
What scripts show is tested in tests/browser/test_escapes_browser.py.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from gettext import GNUTranslations
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask

from fhirapp.features.learn import lesson
from fhirapp.web import texts
from tests.support.brackets import DemoInProcess, data_of, is_data, outside_of
from tests.support.browsing import Browser, Page
from tests.support.page_list import NOBODY, PAGES, added
from tests.tools.translations import pseudo_translation

# The end of a page's title.
TITLE = re.compile(r" ?\N{EN DASH}( fhirapp)?$")


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(demo=True, base_url="")


@pytest.fixture(scope="module")
def names(app: Flask) -> Mapping[str, str]:
    """The values in the addresses of pages."""
    return added(DemoInProcess(app), "http://localhost:9/")


@pytest.fixture(scope="module")
def data(app: Flask) -> frozenset[str]:
    return data_of(app)


@pytest.fixture(scope="module")
def catalogue() -> GNUTranslations:
    """The translation that puts every message in brackets."""
    return GNUTranslations(io.BytesIO(pseudo_translation()))


@pytest.fixture
def german(catalogue: GNUTranslations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "catalogue", lambda _code: catalogue)
    # Lessons are files, and not in brackets.
    monkeypatch.setattr(lesson, "language", lambda: texts.ENGLISH)


def escapes(page: Page, data: frozenset[str]) -> list[str]:
    """Return what a page shows that is neither translated nor data."""
    assert '<html lang="de">' in page.response.text, page.path
    # The words of a search are shown again.
    typed = parse_qs(urlsplit(page.path).query).get("q", [])
    found = (TITLE.sub("", text) for text in outside_of(page.response.text))
    return [text for text in found if text not in typed and not is_data(text, data)]


def german_browser(app: Flask, username: str) -> Browser:
    browser = Browser(app) if username == NOBODY else Browser(app).resume(username)
    browser.set_cookie("de", "language")
    return browser


# Pages of an item: it may take half a second.
CHUNK = 2
PARTS = [
    pytest.param(
        *(who, at),
        # The check of the database takes longer.
        marks=[pytest.mark.campaign]
        if any(page.rule == "/admin/check" for page in PAGES[who][at : at + CHUNK])
        else [],
    )
    for who in PAGES
    for at in range(0, len(PAGES[who]), CHUNK)
]


@pytest.mark.parametrize(("who", "at"), PARTS)
def test_no_text_of_a_page_escapes(app, names, data, german, who, at):
    english = Browser(app) if who == NOBODY else Browser(app).resume(who)
    browser = german_browser(app, who)
    faults: dict[str, list[str]] = {}
    for page in PAGES[who][at : at + CHUNK]:
        path = (page.begin or page.rule).format(**names)
        if "<" in path:
            continue
        # A page that is cached in one language must not be shown in another.
        english.get(path)
        if found := escapes(browser.get(path), data):
            faults[path] = found
    assert faults == {}


# Forms: by whom, on which page, with which button and fields.
FORMS: Sequence[tuple[str, str, str, Mapping[str, str]]] = (
    (NOBODY, "/sign-in", "Sign in", {"username": "nobody", "password": "nonsense"}),
    (NOBODY, "/apps/register?kind=backend", "Register app", {"name": "A backend"}),
    ("clinician", "/explore/token", "Inspect", {"token": "nonsense"}),
    ("clinician", "/learn/tokens", "Start", {}),
    ("clinician", "/learn/tokens", "Show a hint", {}),
    ("admin", "/admin/users/new", "Add user", {"name": "Somebody", "username": "admin"}),
    ("admin", "/admin/exports", "Start export", {"since": "nonsense"}),
    ("admin", "/admin/backups", "Take a backup", {"passphrase": "nonsense"}),
    ("admin", "/admin/schedules/backup/new", "Add the schedule", {"name": "x", "when": "x"}),
    ("admin", "/admin/keys", "Rotate the signing key", {}),
    ("admin", "/account/second-factor", "Turn on second factor", {"code": "x", "password": "x"}),
    ("admin", "/account/password", "Change password", {"old": "x", "password": "y", "again": "y"}),
)


def test_no_text_of_a_refused_form_escapes(app, data, german):
    found = {}
    for who, path, button, filled in FORMS:
        page = german_browser(app, who).get(path)
        found[path, button] = escapes(page.submit(f"⟦{button}⟧", **filled), data)
    assert {form: texts_ for form, texts_ in found.items() if texts_} == {}


def test_text_outside_of_brackets_is_found():
    pages = {
        "<p>⟦Sign ⟦in⟧⟧</p>": [],
        "<p>⟦Sign⟧ in</p>": ["in"],
        "<p>⟦a <b>bold</b> word⟧ here</p>": ["here"],
        "<a title='Help'>⟦?⟧</a>": ["Help"],
        "<input type='submit' value='Send'>": ["Send"],
        "<p lang='en'>English</p><code>code</code><p lang='de'>Wort</p>": ["Wort"],
        "<p>2 GB, Penicillin</p>": [],
        "<p>Penicillin allergy</p>": ["Penicillin allergy"],
    }
    data = frozenset({"Penicillin"})
    assert {
        html: [text for text in outside_of(html) if not is_data(text, data)] for html in pages
    } == pages
