"""Messages of pages: extracted into one file, translated completely, and a clinic's own.

That each is marked is tested in test_escapes.py.
"""

from __future__ import annotations

import ast
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.auth.throttle import TooOften
from fhirapp.config import ConfigurationError
from fhirapp.environment import load_settings
from fhirapp.features.learn import lesson
from fhirapp.web import texts
from fhirapp.web.pages import title_and_advice, wait
from fhirapp.web.times import day, partial
from tests.support.browsing import Browser
from tests.support.pages import browser_of
from tests.tools.translations import (
    AUTH,
    REFUSALS,
    TEMPLATE,
    compiled,
    message_template,
    translation_files,
    updated_translation,
)


def test_refusals_are_extracted():
    """Their first argument is a literal, which Babel finds, and no f-string."""
    for path in sorted(AUTH.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                is_literal = bool(node.args) and isinstance(node.args[0], ast.Constant)
                assert node.func.id not in REFUSALS or is_literal, path


@pytest.mark.campaign
def test_extracted_messages_are_those_of_the_pages():
    assert TEMPLATE.read_bytes() == message_template(), "run `python -m tests.tools.translations`"
    assert {path.stem for path in translation_files()} == {*texts.NAMES} - {texts.ENGLISH}


@pytest.mark.parametrize("path", translation_files(), ids=lambda path: path.stem)
def test_translation_has_all_messages_and_keeps_their_placeholders(path):
    assert path.read_bytes() == updated_translation(path), (
        "run `python -m tests.tools.translations`"
    )
    catalog = read_po(io.BytesIO(path.read_bytes()))
    assert path.with_suffix(".mo").read_bytes() == compiled(catalog)
    messages = [message for message in catalog if message.id]
    assert [message.id for message in messages if message.fuzzy or not message.string] == []
    # Such as %(name)s, and the tags of HTML.
    faults = [(message.id, str(error)) for message in messages for error in message.check()]
    assert faults == []


def test_clinical_terms_are_exact_in_german():
    terms = {
        "None known": "Keine bekannt",
        "Not asked": "Nicht erhoben",
        "No information": "Keine Angaben",
        "Nothing recorded": "Nichts erfasst",
        "Refuted": "Widerlegt",
        "Entered in error": "Irrtümlich erfasst",
        "severity not recorded": "Schweregrad nicht angegeben",
        "clinical status not recorded": "klinischer Status nicht erfasst",
        "allergy": "Allergie",
        "intolerance": "Unverträglichkeit",
        "severe": "schwer",
        "This does not mean that there are none.": "Das heißt nicht, dass es keine gibt.",
    }
    assert {english: texts.catalogue("de").gettext(english) for english in terms} == terms


# The same in each language: code, and addresses of links.
CODE = re.compile(r"```.*?```|`[^`\n]+`|\]\([^)]+\)", re.DOTALL)


@pytest.mark.parametrize("language", sorted({*texts.NAMES} - {texts.ENGLISH}))
def test_translated_lesson_has_the_checks_and_the_code_of_the_english_one(language):
    ours = sorted(lesson._OURS.glob("*.md"))
    assert {path.name for path in lesson._OURS.glob("*/*.md")} <= {path.name for path in ours}
    for path in ours:
        english = lesson.parse(path.stem, path.read_bytes())
        other = lesson.translation(english, path.parent / language / path.name, 0)
        for check, translated in zip(english.checks, other.checks, strict=True):
            assert replace(translated, shown="") == check
            assert translated.shown != check.says
        kept = (english.name, english.minutes, english.person)
        assert (other.name, other.minutes, other.person) == kept
        assert other.title != english.title
        before, after = (english.text, *english.hints), (other.text, *other.hints)
        for text, translated in zip(before, after, strict=True):
            assert {*CODE.findall(translated)} == {*CODE.findall(text)}, path


# Translations of a clinic's own.


def austrian(folder: Path, messages: dict[str | tuple[str, str], str | tuple[str, str]]) -> str:
    """Compile an Austrian translation; return its path."""
    catalog = Catalog(locale="de_AT")
    for message, translation in messages.items():
        catalog.add(message, translation)
    (folder / "de.mo").write_bytes(compiled(catalog))
    return str(folder / "de.mo")


def test_messages_of_tables_templates_and_refusals_are_translated(make_app, tmp_path):
    path = austrian(
        tmp_path,
        {
            "Sign in": "Anmelden",
            "Role changed. It applies immediately.": "Die Rolle ist geändert.",
            "May": "Mai",
            "%(day)s %(month)s %(year)s": "%(day)s. %(month)s %(year)s",
            "Page not found": "Die Seite gibt es nicht",
            "%(what)s must have 1 to %(longest)s printable characters.": (
                "%(what)s: 1 bis %(longest)s Zeichen."
            ),
            "The name": "Der Name",
            ("Wait %(num)s minute.", "Wait %(num)s minutes."): (
                *("Warten Sie %(num)s Minute.", "Warten Sie %(num)s Minuten."),
            ),
        },
    )
    app = make_app(translation=path)
    page = Browser(app).get("/")
    # Missing messages stay English.
    assert ("Anmelden" in page.links, page.heading) == (
        *(True, "Clinical notes and allergies, over FHIR"),
    )
    # HTML writes a locale with a hyphen.
    assert '<html lang="de-AT">' in page.response.text
    admin = browser_of(app, ADMINISTRATOR)
    user = admin.get("/admin/users").links["Robin Example"]
    assert "Die Rolle ist geändert." in admin.get(f"{user}?done=role").words
    with app.test_request_context():
        assert (day(1_777_816_800), partial("1958-05")) == ("3. Mai 2026", "Mai 1958")
        assert title_and_advice(404)[0] == "Die Seite gibt es nicht"
        assert wait(TooOften(61)) == "Warten Sie 2 Minuten."
    page = Browser(app).get("/apps/register?kind=public")
    page = page.submit("Register app", name="a\u202eb", redirect_uris="https://app.example/")
    assert (page.status, "Der Name: 1 bis 100 Zeichen." in page.words) == (400, True)


def test_unreadable_translation_is_refused_at_the_start(tmp_path):
    for number, content in enumerate((None, b"", b'msgid "Sign in"\nmsgstr "Anmelden"\n')):
        path = tmp_path / str(number) / "de.po"
        path.parent.mkdir()
        if content is not None:
            path.write_bytes(content)
        settings = load_settings({}, instance_path=str(tmp_path), translation=str(path))
        with pytest.raises(ConfigurationError, match=r"msgfmt -o de\.mo de\.po"):
            create_app(settings)
