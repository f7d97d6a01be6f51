"""No text of the pages escapes translation: in a language of brackets, all stand in brackets.

Each page is opened in English first, then in a translation that puts every text in ⟦brackets⟧. What
stands outside of them is data: of the demo's records, or marked as code, or as English. Scripts
have no texts of their own: they show those of their page, from its data-* attributes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from flask import Flask
from sqlalchemy import Connection

from fhirapp.auth import demo
from fhirapp.db import writing
from fhirapp.docs import pages as manual
from fhirapp.fhir.terminology import strings
from fhirapp.web import texts
from fhirapp.web.labels import _CODES, _SEXES
from fhirapp.web.learn import lesson
from fhirapp.web.texts import Catalogue
from tests.browser.test_accessibility import NOBODY, PAGES, WALKER, added
from tests.support.browsing import Browser, Page
from tests.tools.translations import pseudo_translation
from tests.web.test_static_files import FOLDER as STATIC

if TYPE_CHECKING:
    from tests.support.browser import Visit
    from tests.support.live import Demo as Running

pytest_plugins = ["tests.support.live", "tests.support.browser"]

# Attributes that people read or hear.
TOLD = frozenset({"alt", "aria-label", "data-label", "placeholder", "title"})
# What is no language's: code, and what is of a record.
SAME = frozenset({"bdi", "code", "pre", "script", "style", "textarea"})
VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})
LETTERS = re.compile(r"[^\W\d_]")
# What ends the title of a page.
TITLE = re.compile(r" ?\N{EN DASH}( fhirapp)?$")
# Names and numbers with their units, addresses, and what HTTP, FHIR and OAuth write.
TECHNICAL = re.compile(
    r"fhirapp( \d[\d.]*)?|curl|HTTP|JavaScript|Python|HTML|PDF|RTF|C-CDA|JSON|UTC|RS256"
    r"|CRITICAL|ERROR|WARNING|INFO|DEBUG"
    r"|GET|POST|\d{3} [A-Z][A-Za-z ]+|link: \w+|Werkzeug/[\d.]+|[\d.,:]+.?(kB|MB|GB|ms|s|UTC)"
    r"|(https?://|/(fhir|static|admin)/)\S*|localhost:\d+|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}|app-[\da-f]{16}"
    # The values of a setting or parameter that has a list of them, and parts of OAuth's.
    r"|id|code\$Type/id|api|fhir|optional|staff|none|all|true|false|accurate|estimate|count|names|text|data|x"
    r"|[\w.]+[<=>]+\?|Accept|Prefer|If-None-Match|handling=strict|application/fhir\+json|W/\"1\"|name=value"
    r"|_\w+|boolean|composite|date|http://…|number|quantity|reference|string|token|uri"
    r"|( ?(openid|fhirUser|profile|o\w+_access|launch(/\w+)?|\w+/(\*|\w+)\.\w+))+"
)
# What the test adds to the demo, and the people and clients of the demo.
NAMES = frozenset(
    {
        *("Robin Walker", WALKER, "A backend", "App of kind secret", "nightly"),
        *(name for one in demo.PEOPLE for name in (one.name, one.username)),
        *("Demo app", "Demo backend", "Demo confidential app", "Documentation of the API"),
        *("demo-app", "demo-backend", "demo-confidential", "api-docs"),
    }
)


class Escapes(HTMLParser):
    """Collects what a page shows outside of brackets."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._language = language
        self._same: list[bool] = [False]
        self._depth = 0

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = dict(given)
        own = attributes.get("lang") not in (None, self._language)
        own = own or attributes.get("translate") == "no"
        same = self._same[-1] or tag in SAME or own
        if not same:
            for name, value in given:
                if (name in TOLD or name.startswith("data-")) and value:
                    self.found += outside(value, 0)[0]
            if tag == "input" and attributes.get("type") in ("submit", "button"):
                self.found += outside(attributes.get("value") or "", 0)[0]
        if tag not in VOID:
            self._same.append(same)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            self._same.pop()

    def handle_data(self, data: str) -> None:
        if self._same[-1]:
            return
        found, self._depth = outside(data, self._depth)
        self.found += found


def outside(text: str, depth: int) -> tuple[list[str], int]:
    """Return the pieces of a text outside of brackets that have letters, and how deep it ends."""
    pieces = [""]
    for letter in text:
        if letter == "⟦":
            depth += 1
            pieces.append("")
        elif letter == "⟧":
            depth -= 1
        elif depth <= 0:
            pieces[-1] += letter
    stripped = (" ".join(piece.split()) for piece in pieces)
    return [piece for piece in stripped if LETTERS.search(piece)], max(depth, 0)


class Demo:
    """The demo as tests of a browser have it, in this process."""

    fhir = "http://localhost/fhir"

    def __init__(self, app: Flask) -> None:
        self._app = app

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._app.test_request_context(), writing() as connection:
            yield connection

    def ask(self, method: str, path: str, **headers: str) -> Any:
        return self._app.test_client().open(path, method=method, headers=headers)

    def token(self, scope: str) -> str:
        secret = base64.b64encode(f"{demo.BACKEND}:{demo.SECRET}".encode()).decode()
        form = {"grant_type": "client_credentials", "scope": scope}
        headers = {"Authorization": f"Basic {secret}"}
        answer = self._app.test_client().post("/oauth/token", data=form, headers=headers)
        return str(answer.json["access_token"])


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(demo=True, base_url="")


@pytest.fixture(scope="module")
def there(app: Flask) -> Mapping[str, str]:
    """What the addresses name."""
    return added(Demo(app), "http://localhost:9/")


@pytest.fixture(scope="module")
def data(app: Flask) -> frozenset[str]:
    """What records, the description of the server and lessons have, a text each."""
    shown = Demo(app)
    authorization = {"Authorization": f"Bearer {shown.token('system/*.rs')}"}
    found: set[str] = set()
    description = shown.ask("GET", "/fhir/metadata").json
    for one in description["rest"][0]["resource"]:
        answer = shown.ask("GET", f"/fhir/{one['type']}?_count=1000", **authorization).json
        found |= {*strings(answer)}
        for resource in (entry["resource"] for entry in answer.get("entry", ())):
            found |= {*_names(resource)}
    found |= {*strings(description)}
    with app.test_request_context():
        found |= {one.title for one in lesson.lessons()[0]}
    found |= {one.title for one in manual().values()}
    # A code of a record has words on a page.
    return (frozenset(" ".join(text.split()) for text in found) | NAMES) - {*_CODES, *_SEXES}


def _names(resource: Mapping[str, Any]) -> Iterator[str]:
    """Give how people are called."""
    names = resource.get("name")
    for name in names if isinstance(names, list) else ():
        yield " ".join([*name.get("given", ()), str(name.get("family"))])


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(pseudo_translation())
    monkeypatch.setattr(texts, "shipped", lambda _code: catalogue)
    # Lessons are files, and not in brackets.
    monkeypatch.setattr(lesson, "language", lambda: texts.ENGLISH)


def outside_of(html: str) -> list[str]:
    """Return what a page in German shows outside of brackets."""
    reader = Escapes("de")
    reader.feed(html)
    reader.close()
    return reader.found


def escapes(page: Page, data: frozenset[str]) -> list[str]:
    """Return what a page shows that is neither translated nor data."""
    assert '<html lang="de">' in page.response.text, page.path
    # What was typed is shown again.
    typed = parse_qs(urlsplit(page.path).query).get("q", [])
    found = (TITLE.sub("", text) for text in outside_of(page.response.text))
    return [text for text in found if text not in typed and not is_data(text, data)]


def is_data(text: str, data: frozenset[str]) -> bool:
    """Say whether a text is data, or a list of it."""
    parts = [part.strip(" ,;:()“”·") for part in re.split(r" · |, | \(", text)]
    return (
        text in data
        or all(
            part in data
            or not LETTERS.search(part)
            or bool(TECHNICAL.fullmatch(part))
            # Cut short.
            or (part.endswith("…") and any(one.startswith(part[:-1]) for one in data))
            for part in parts
        )
    )


@pytest.mark.parametrize("who", PAGES)
def test_no_text_of_a_page_escapes(app, there, data, german, who):
    english, browser = Browser(app), Browser(app)
    if who != NOBODY:
        english.sign_in(who, demo.SECRET)
        browser.get("/sign-in")
        browser.sign_in(who, demo.SECRET)
    browser.set_cookie("de", "language")
    faults: dict[str, list[str]] = {}
    for page in PAGES[who]:
        path = (page.begin or page.rule).format(**there)
        if "<" in path:
            continue
        # What is kept of a page in one language must not be shown in another.
        english.get(path)
        if found := escapes(browser.get(path), data):
            faults[path] = found
    assert faults == {}


# By who sends them, from which page, with which button: what was refused, and what comes next.
FORMS: Sequence[tuple[str, str, str, Mapping[str, str]]] = (
    (NOBODY, "/sign-in", "Sign in", {"username": "nobody", "password": "nonsense"}),
    (NOBODY, "/apps/register?kind=backend", "Register app", {"name": "A backend"}),
    ("clinician", "/explore/token", "Show the token", {}),
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


@pytest.mark.parametrize(("who", "path", "button", "filled"), FORMS)
def test_no_text_of_what_a_form_answers_escapes(app, data, german, who, path, button, filled):
    browser = Browser(app)
    if who != NOBODY:
        browser.sign_in(who, demo.SECRET)
    browser.set_cookie("de", "language")
    page = browser.get(path).submit(f"⟦{button}⟧", **filled)
    assert escapes(page, data) == []


SCRIPTS = sorted(STATIC.glob("*.js"))
# Comments, and what is between quotes.
QUOTED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`",
    re.DOTALL,
)
# What scripts find elements by, and what browsers and OAuth are told.
NO_TEXT = re.compile(
    r".*[#=>\[\]].*|\.[\w-]+( .*)?|\(prefers-.*|use strict|Enter|(quiet|row) cop(y|ying)|launch 0"
)


def texts_of(script: str) -> list[str]:
    """Return what reads like a text for people in a script: several words, or a capital first."""
    found = []
    for quotes in QUOTED.finditer(script):
        text = re.sub(r"\$\{.*?\}", "0", next(filter(None, quotes.groups()), ""))
        # What a pattern puts together has quotes too.
        found += [one for part in re.findall(r"\$\{(.*?)\}", quotes[0]) for one in texts_of(part)]
        is_words = re.search(r"[^\W\d_]\s|\s[^\W\d_]", text) or re.fullmatch(r"[A-Z][a-z]+", text)
        if is_words and not NO_TEXT.fullmatch(text) and not is_data(text, frozenset()):
            found.append(text)
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_has_no_text_of_its_own(path: Path):
    assert texts_of(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('shown.textContent = "Copied";', ["Copied"]),
        ("shown.append(`${size} of ${whole}`);", ["0 of 0"]),
        ('`${isOpen ? "Nothing more." : words.more}`', ["Nothing more."]),
        ('// "A comment"\nelement.querySelector(".card p").click();', []),
        ('shown.textContent = words.copied; shown.className = "copy";', []),
    ],
)
def test_a_text_of_a_script_is_found(script, found):
    assert texts_of(script) == found


@pytest.fixture(scope="module", name="demo")
def in_brackets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The demo as it runs, all in brackets."""
    from tests.support.live import run

    folder = tmp_path_factory.mktemp("brackets")
    path = folder / "brackets.mo"
    with path.open("wb") as file:
        write_mo(file, read_po(BytesIO(pseudo_translation().encode()), locale="de"))
    with run(folder, TRANSLATION=str(path)) as running:
        yield running


def use_app(one: Visit) -> None:
    one.press("Connect to my records")
    one.allow()
    one.page.locator("#notes li").first.wait_for()
    one.unfold()


def refuse_app(one: Visit) -> None:
    one.press("Connect to my records")
    one.press("Don't allow")
    one.page.locator("#message span").wait_for()


def choose_file(one: Visit) -> None:
    file = {"name": "a.ndjson", "mimeType": "text/plain", "buffer": b"{}"}
    one.page.locator("#files").set_input_files([file])
    one.page.get_by_text("Selected:").wait_for()


def wait_to_copy(one: Visit) -> None:
    one.page.locator("button.copy").first.wait_for(state="attached")


@pytest.mark.parametrize(
    ("who", "path", "go"),
    [
        ("patient", "/demo/app", use_app),
        ("patient", "/demo/app", refuse_app),
        ("clinician", "/explore?address=/fhir/Patient/p1", wait_to_copy),
        ("clinician", "/learn/dates", wait_to_copy),
        ("admin", "/admin/imports", choose_file),
    ],
)
def test_no_text_that_a_script_shows_escapes(visit, data, who, path, go):
    one = visit()
    one.open("/sign-in")
    one.sign_in(who)
    one.open(path)
    sent = {*outside_of(one.page.evaluate("fetch(location).then((answer) => answer.text())"))}
    go(one)
    shown = [text for text in outside_of(one.page.content()) if text not in sent]
    assert [text for text in shown if not is_data(text, data)] == []


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<p>⟦Sign ⟦in⟧⟧</p>", []),
        ("<p>⟦Sign⟧ in</p>", ["in"]),
        ("<p>⟦a <b>bold</b> word⟧ here</p>", ["here"]),
        ("<a title='Help'>⟦?⟧</a>", ["Help"]),
        ("<input type='submit' value='Send'>", ["Send"]),
        ("<p lang='en'>English</p><code>code</code><p lang='de'>Wort</p>", ["Wort"]),
        ("<p>2 GB, Penicillin</p>", []),
        ("<p>Penicillin allergy</p>", ["Penicillin allergy"]),
    ],
)
def test_a_text_that_escapes_is_found(html, found):
    assert [
        text for text in outside_of(html) if not is_data(text, frozenset({"Penicillin"}))
    ] == found
