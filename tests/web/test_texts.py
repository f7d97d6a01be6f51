"""The texts of the pages: all are marked, gathered in one file, and shown as it is translated."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from flask import Flask
from jinja2 import nodes

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.auth.throttle import TooOften
from fhirapp.config import ConfigurationError, load_settings
from fhirapp.web.pages import title_and_advice, wait
from fhirapp.web.times import day, partial
from tests.support.browsing import Browser, add_person
from tests.tools.translations import AUTH, REFUSALS, TEMPLATE, message_template, templates

# Attributes that people read or hear.
TOLD = frozenset({"aria-label", "placeholder", "title", "alt", "data-label"})
# What is no language's: names, what is sent as it stands, attributes that a macro writes.
NAMES = frozenset({"fhirapp", "curl", "Python", "JavaScript", "UTC"})
SENT = re.compile(
    r"Patient/|\$export|Accept|application/fhir\+json|Prefer|handling=strict|If-None-Match|name=value"
    r"|.* hx-get=.*"
)
# A word, as people write it; what has no vowel is an abbreviation.
WORD = re.compile(r"\b(?=[A-Za-zÀ-ÿ']*[aeiouyAEIOUY])[A-Za-zÀ-ÿ][a-zà-ÿ']+\b")
# A text in code: it begins as a sentence or a label does. FHIR's types have no space.
SENTENCE = re.compile(r"[A-Z][a-z']+( .*|[.:?!])|[A-Z][a-z]+$", re.DOTALL)
FHIR_TYPES = re.compile(
    r"(AllergyIntolerance|DocumentReference|Patient|Encounter|Practitioner|Organization|Provenance"
    r"|Binary|DiagnosticReport|Group|Bundle|OperationOutcome)$"
)


# Texts of tables that are made at import, forms of words, and why something is refused.
TABLES: dict[str | tuple[str, str], str | tuple[str, str]] = {
    "Role changed. It applies immediately.": "Die Rolle ist geändert.",
    "May": "Mai",
    "%(day)s %(month)s %(year)s": "%(day)s. %(month)s %(year)s",
    "Page not found": "Die Seite gibt es nicht",
    "%(what)s must have 1 to %(longest)s printable characters.": (
        "%(what)s: 1 bis %(longest)s Zeichen."
    ),
    "The name": "Der Name",
    ("Wait %(num)s minute.", "Wait %(num)s minutes."): (
        "Warten Sie %(num)s Minute.",
        "Warten Sie %(num)s Minuten.",
    ),
}


@pytest.fixture(scope="module")
def environment() -> jinja2.Environment:
    """What reads templates, as the app does."""
    return jinja2.Environment(extensions=["jinja2.ext.i18n", "jinja2.ext.do"], autoescape=True)


class _Texts(HTMLParser):
    """Collects what people read of a page: its text, but for code, and some attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        self._code += tag in ("code", "pre", "style", "script")
        self.found += [value for name, value in given if name in TOLD and value]

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre", "style", "script")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.found.append(data)


def unmarked(source: str, environment: jinja2.Environment) -> Iterator[str]:
    """Give the texts of a template that are not marked."""
    outside, in_trans, in_block = [], False, False
    for _, kind, value in environment.lex(source):
        if kind == "block_begin":
            in_block = True
        elif kind == "block_end":
            in_block = False
        elif in_block and kind == "name" and value in ("trans", "endtrans"):
            in_trans = value == "trans"
        elif kind == "data" and not in_trans:
            outside.append(value)
        elif kind in ("variable_begin", "block_begin"):
            outside.append(" ")
    reader = _Texts()
    reader.feed("".join(outside))
    reader.close()
    for text in reader.found:
        text = " ".join(text.split())
        if any(word not in NAMES for word in WORD.findall(text)) and not SENT.fullmatch(text):
            yield text
    yield from _in_code(environment.parse(source), marked=False)


def _in_code(node: nodes.Node, *, marked: bool) -> Iterator[str]:
    """Give the texts in expressions that are not marked."""
    if isinstance(node, nodes.Compare | nodes.Getitem | nodes.Test):
        # What is compared is a value, not a text.
        return
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
        marked = marked or node.node.name in ("_", "gettext", "ngettext")
    if isinstance(node, nodes.Const) and isinstance(node.value, str) and not marked:
        text = node.value
        if SENTENCE.match(text) and not FHIR_TYPES.match(text) and text not in NAMES:
            yield text
    if isinstance(node, nodes.TemplateData):
        return
    for child in node.iter_child_nodes():
        yield from _in_code(child, marked=marked)


@pytest.mark.parametrize("path", sorted(templates()), ids=lambda path: path.stem)
def test_every_text_of_a_template_is_marked(path, environment):
    assert list(unmarked(path.read_text(encoding="utf-8"), environment)) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("<p>Sign in</p>", ["Sign in"]),
        ('<p>{{ _("Sign in") }}</p>', []),
        ("<p>{% trans %}Sign in{% endtrans %}</p>", []),
        ("{% if x %}yes{% else %}{{ y }}{% endif %}", ["yes"]),
        ("<nav aria-label='Main'></nav><code>Patient</code>", ["Main"]),
        ("<nav aria-label=\"{{ _('Main') }}\"></nav>", []),
        ('{{ input("name", "User name") }}', ["User name"]),
        ('{{ input("name", _("User name"), hint=_("Yours")) }}', []),
        ('{% if role == "Patient" %}{{ x["Some key"] }}{% endif %}', []),
        ("<p>{{ x }}: {{ y }}, {{ z }}</p>", []),
    ],
)
def test_a_text_that_is_not_marked_is_found(source, found, environment):
    assert list(unmarked(source, environment)) == found


def test_the_gathered_texts_are_those_of_the_pages():
    assert TEMPLATE.read_bytes() == message_template(), "run `python -m tests.tools.translations`"


@pytest.fixture
def translated(tmp_path: Path) -> Path:
    """A translation of one text, compiled."""
    with TEMPLATE.open("rb") as file:
        catalog = read_po(file, locale="de")
    catalog["Sign in"].string = "Anmelden"
    catalog[
        "All accounts use the password <code>%(password)s</code>."
    ].string = "Alle haben das Passwort <code>%(password)s</code>."
    path = tmp_path / "de.mo"
    with path.open("wb") as file:
        write_mo(file, catalog)
    return path


def test_a_translation_is_one_file(make_app: Callable[..., Flask], translated):
    page = Browser(make_app(demo=True, translation=str(translated))).get("/")
    assert "Anmelden" in page.links
    assert "Alle haben das Passwort demo." in page.words
    assert '<html lang="de">' in page.response.text
    # What it leaves out stays as it is.
    assert page.heading == "Clinical notes and allergies, over FHIR"


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """TABLES, compiled."""
    catalog = Catalog(locale="de_AT")
    for text, other in TABLES.items():
        catalog.add(text, other)
    path = tmp_path / "de.mo"
    with path.open("wb") as file:
        write_mo(file, catalog)
    return path


def test_what_stands_in_tables_is_translated_when_it_is_shown(
    make_app: Callable[..., Flask], compiled
):
    app = make_app(translation=str(compiled))
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    done = admin.get("/admin/users").links["Robin Example"] + "?done=role"
    page = admin.get(done)
    assert "Die Rolle ist geändert." in page.words
    with app.test_request_context():
        assert (day(1_777_816_800), partial("1958-05")) == ("3. Mai 2026", "Mai 1958")
        assert title_and_advice(404)[0] == "Die Seite gibt es nicht"
        assert wait(TooOften(61)) == "Warten Sie 2 Minuten."


def test_why_something_is_refused_is_translated(make_app: Callable[..., Flask], compiled):
    app = make_app(translation=str(compiled))
    page = Browser(app).get("/apps/register?kind=public")
    page = page.submit("Register app", name="a\u202eb", redirect_uris="https://app.example/")
    assert page.status == 400
    assert "Der Name: 1 bis 100 Zeichen." in page.words
    # As HTML and scripts write it.
    assert '<html lang="de-AT">' in page.response.text


@pytest.mark.parametrize("path", sorted(AUTH.rglob("*.py")), ids=lambda path: path.stem)
def test_why_something_is_refused_is_gathered(path):
    """It is written where it is raised, and names what fills it in: no f-string."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in REFUSALS or isinstance(node.args[0], ast.Constant)


def test_nothing_is_needed_for_english(make_app: Callable[..., Flask]):
    page = Browser(make_app(demo=True)).get("/")
    assert "Sign in" in page.links
    assert '<html lang="en">' in page.response.text


@pytest.mark.parametrize("content", [None, b"", b'msgid "Sign in"\nmsgstr "Anmelden"\n'])
def test_a_translation_that_cannot_be_read_is_told_at_the_start(tmp_path, content):
    path = tmp_path / "de.po"
    if content is not None:
        path.write_bytes(content)
    settings = load_settings({}, instance_path=str(tmp_path), translation=str(path))
    with pytest.raises(ConfigurationError, match=r"msgfmt -o de\.mo de\.po"):
        create_app(settings)
