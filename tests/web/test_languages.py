"""Pages in the language of who reads them: as they chose, as their browser asks, or English."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from fhirapp.web import texts
from fhirapp.web.cookies import LANGUAGE
from fhirapp.web.learn import lesson
from fhirapp.web.texts import Catalogue, numeral
from fhirapp.web.times import SHORT_MONTHS, exact, partial
from tests.support.browsing import Browser, add_person, cookie_name
from tests.tools.translations import (
    TEMPLATE,
    pseudo_translation,
    translation_files,
    updated_translation,
)

ENGLISH, GERMAN = '<html lang="en">', '<html lang="de">'


@pytest.fixture
def translate(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what takes a file's content for the German of the pages."""

    def take(content: str) -> None:
        catalogue = Catalogue(content)
        monkeypatch.setattr(texts, "shipped", lambda _code: catalogue)

    return take


@pytest.fixture
def german(translate) -> None:
    """A German that is whole."""
    translate(pseudo_translation())


def get(app: Flask, path: str = "/sign-in", asked: str = "de", **cookies: str):
    browser = Browser(app)
    for name, value in cookies.items():
        browser.set_cookie(value, name)
    return browser.get(path, headers={"Accept-Language": asked} if asked else {})


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("", ENGLISH),
        ("*", ENGLISH),
        ("fr", ENGLISH),
        ("en-GB, de;q=0.9", ENGLISH),
        ("de", GERMAN),
        ("de-CH, en;q=0.5", GERMAN),
        ("fr, de;q=0.5, en;q=0.1", GERMAN),
        ("de;q=0, en", ENGLISH),
        ("de;q=nonsense, \xff", ENGLISH),
    ],
)
def test_a_page_is_in_the_language_that_the_browser_asks_for(app, german, asked, page):
    answer = get(app, asked=asked).response
    assert page in answer.text
    assert ("⟦Sign in⟧" in answer.text) is (page == GERMAN)
    assert answer.headers["Content-Language"] == page[12:14]
    assert answer.vary.to_header() == "Accept-Language, Cookie"


def test_what_a_person_chose_counts_more(app, german):
    browser = Browser(app).resume(add_person(app, CLINICIAN))
    page = browser.get("/docs/search?q=%C3%A4&x=1")
    german_page = page.submit("Deutsch")
    assert GERMAN in german_page.response.text
    assert german_page.path == "/docs/search?q=%C3%A4&x=1"
    # Everywhere, and until another is chosen.
    assert GERMAN in browser.get("/account", headers={"Accept-Language": "en"}).response.text
    english = german_page.submit("English")
    assert ENGLISH in english.response.text
    assert ENGLISH in browser.get("/account", headers={"Accept-Language": "de"}).response.text


def test_the_choice_is_a_cookie_of_this_server_alone(app, german):
    page = Browser(app).get("/sign-in")
    form = page.form("Deutsch").fields
    answer = page.browser.client.post(
        "/language", data={**form, "language": "de"}, base_url="https://fhir.example"
    )
    assert answer.status_code == 303
    (cookie,) = [one for one in answer.headers.getlist("Set-Cookie") if "language" in one]
    assert cookie.startswith(f"{cookie_name(app, LANGUAGE)}=de; ")
    assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=31536000"} <= {*cookie.split("; ")}


def test_the_menu_leads_back_from_what_a_form_showed(app, german):
    page = Browser(app).get("/sign-in").submit("Sign in", username="nobody", password="x")
    page = page.submit("Deutsch")
    assert (page.status, page.path) == (200, "/sign-in")
    assert GERMAN in page.response.text


@pytest.mark.parametrize("language", ["", "fr", "nonsense", "x" * 30])
def test_another_language_is_not_taken(app, german, language):
    page = Browser(app).get("/sign-in")
    form = {**page.form("Deutsch").fields, "language": language}
    assert page.browser.post("/language", form).status in (400, 413)
    assert ENGLISH in get(app, asked="", language=language or "x").response.text


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_the_menu_leads_to_no_other_site(app, german, back):
    page = Browser(app).get("/sign-in")
    form = {**page.form("Deutsch").fields, "language": "de", "back": back}
    answer = page.browser.client.post("/language", data=form, base_url="https://fhir.example")
    assert answer.headers["Location"] == "/account"


def test_a_language_that_is_not_whole_is_not_offered(app, translate):
    translate(pseudo_translation().replace('msgstr "⟦Sign in⟧"', 'msgstr ""'))
    page = get(app, language="de")
    assert ENGLISH in page.response.text
    assert "Deutsch" not in page.words
    assert page.browser.get("/docs").response.headers["Content-Language"] == "en"


def test_a_translation_of_the_clinics_own_is_for_all(make_app, german, tmp_path):
    from babel.messages.mofile import write_mo

    catalog = Catalog(locale="fr")
    catalog.add("Sign in", "Se connecter")
    with (tmp_path / "fr.mo").open("wb") as file:
        write_mo(file, catalog)
    app = make_app(translation=str(tmp_path / "fr.mo"))
    page = get(app, asked="de", language="de")
    assert '<html lang="fr">' in page.response.text
    assert "Se connecter" in page.words
    assert "Deutsch" not in page.words


def test_what_the_api_answers_stays_english(app, fhir, german):
    headers = {"Accept-Language": "de"}
    for path in ("AllergyIntolerance?nonsense=1", "AllergyIntolerance/none", "nonsense"):
        asked, usual = fhir.get(path, headers=headers), fhir.get(path)
        assert (asked.status, asked.json) == (usual.status, usual.json)
        assert "⟦" not in asked.text


def test_days_and_numbers_are_written_as_the_language_does(app, translate):
    catalog = Catalog(locale="de", fuzzy=False)
    for text, other in {
        "1,000.5": "1.000,5",
        "May": "Mai",
        "%(day)s %(month)s %(year)s": "%(day)s. %(month)s %(year)s",
        "%(day)s, %(time)s %(zone)s": "%(day)s, %(time)s Uhr %(zone)s",
    }.items():
        catalog.add(text, other)
    content = io.BytesIO()
    write_po(content, catalog)
    translate(content.getvalue().decode())
    with app.test_request_context(headers={"Accept-Language": "de"}):
        assert numeral(1234567.25, 1) == "1.234.567,2"
        assert partial("2023-05-03", SHORT_MONTHS) == "3. Mai 2023"
        assert exact("2026-05-03T14:05:09Z") == "3. Mai 2026, 14:05:09 Uhr UTC"
    with app.test_request_context():
        assert numeral(1234567.25, 1) == "1,234,567.2"
        assert partial("2023-11-03", SHORT_MONTHS) == "3 Nov 2023"
        assert exact("2026-05-03T14:05:09Z") == "3 May 2026, 14:05:09 UTC"
    # Where nobody reads a page.
    with app.app_context():
        assert numeral(1234.5) == "1,234"


def test_a_file_is_read_as_babel_reads_it():
    catalog = Catalog(locale="de", fuzzy=False)
    for text in ('"quoted" \\ and\ttabs\nand lines', "⟦é☃😀⟧", "long " * 100, "%(x)s%%"):
        catalog.add(text, f"<{text}>")
    catalog.add(("%(num)s note", "%(num)s notes"), ("%(num)s Notiz", "%(num)s Notizen"))
    content = io.BytesIO()
    write_po(content, catalog, width=40)
    read = Catalogue(content.getvalue().decode())
    assert read.is_whole
    assert [read.gettext(one.id) for one in catalog if isinstance(one.id, str) and one.id] == [
        one.string for one in catalog if isinstance(one.id, str) and one.id
    ]
    forms = [read.ngettext("%(num)s note", "%(num)s notes", number) for number in (0, 1, 2)]
    assert forms == ["%(num)s Notizen", "%(num)s Notiz", "%(num)s Notizen"]
    assert (read.gettext("other"), read.ngettext("a", "b", 2)) == ("other", "b")


@pytest.mark.parametrize("flag", ["#, fuzzy\n", ""])
def test_a_text_that_is_not_sure_or_empty_stays_english(flag):
    header = 'msgid ""\nmsgstr ""\n"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
    text = "Anmelden" if flag else ""
    read = Catalogue(f'{header}{flag}msgid "Sign in"\nmsgstr "{text}"\n')
    assert not read.is_whole
    assert read.gettext("Sign in") == "Sign in"


@pytest.mark.parametrize("path", translation_files(), ids=lambda path: path.stem)
def test_a_translation_has_the_texts_of_the_pages(path):
    assert path.read_bytes() == updated_translation(path), (
        "run `python -m tests.tools.translations`"
    )


@pytest.mark.parametrize("path", translation_files(), ids=lambda path: path.stem)
def test_a_translation_keeps_what_is_filled_in(path):
    """Names as %(name)s, and the tags of HTML."""
    faults = [
        (message.id, str(error))
        for message in read_po(io.BytesIO(path.read_bytes()))
        for error in message.check()
        if message.string
    ]
    assert faults == []


@pytest.mark.parametrize("path", translation_files(), ids=lambda path: path.stem)
def test_most_of_a_translation_is_there(path, record_property):
    """It is offered when it is whole; until then most pages are in English."""
    texts = [one for one in read_po(io.BytesIO(path.read_bytes())) if one.id]
    share = sum(bool(one.string) for one in texts) / len(texts)
    record_property("share", f"{share:.1%}")
    assert share > 0.95


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("None known", "Keine bekannt"),
        ("Not asked", "Nicht erhoben"),
        ("No information", "Keine Angaben"),
        ("Nothing recorded", "Nichts erfasst"),
        ("Refuted", "Widerlegt"),
        ("Entered in error", "Irrtümlich erfasst"),
        ("severity not recorded", "Schweregrad nicht angegeben"),
        ("clinical status not recorded", "klinischer Status nicht erfasst"),
        ("allergy", "Allergie"),
        ("intolerance", "Unverträglichkeit"),
        ("severe", "schwer"),
        ("This does not mean that there are none.", "Das heißt nicht, dass es keine gibt."),
    ],
)
def test_clinical_words_are_exact(english, german):
    assert texts.shipped("de").gettext(english) == german


def test_each_language_is_named():
    assert {path.stem for path in translation_files()} == {*texts.NAMES} - {texts.ENGLISH}
    assert TEMPLATE.exists()


OURS = sorted(lesson._OURS.glob("*.md"))
# What is the same in each language: code, and where links lead.
CODE = re.compile(r"```.*?```|`[^`\n]+`|\]\([^)]+\)", re.DOTALL)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
@pytest.mark.parametrize("language", sorted({*texts.NAMES} - {texts.ENGLISH}))
def test_a_lesson_says_the_same_in_another_language(path, language):
    """Its checks are those of the English one; what is to be done is told of each."""
    english = lesson.parse(path.stem, path.read_bytes())
    other = lesson.translation(english, path.parent / language / path.name, 0)
    for one, same in zip(english.checks, other.checks, strict=True):
        assert replace(same, shown="") == one
        assert same.shown != one.says
    assert (other.name, other.minutes, other.person) == (
        english.name,
        english.minutes,
        english.person,
    )
    assert other.title != english.title
    assert len(other.hints) == len(english.hints)
    for text, told in zip((english.text, *english.hints), (other.text, *other.hints), strict=True):
        assert sorted(set(CODE.findall(told))) == sorted(set(CODE.findall(text)))


def test_no_lesson_in_another_language_is_without_its_english():
    names = {path.name for path in OURS}
    assert {path.name for path in lesson._OURS.glob("*/*.md")} <= names


def test_a_lesson_is_shown_in_the_language_of_the_page(make_app, german):
    app = make_app(demo=True)
    clinician = Browser(app)
    clinician.sign_in("clinician", "demo")
    clinician.set_cookie("de", LANGUAGE)
    page = clinician.get("/learn/read-one-allergy")
    assert page.heading == "1. Eine Allergie lesen"
    page = page.submit("⟦Start⟧")
    clinician.get("/explore?address=/fhir/AllergyIntolerance/al-p1-latex")
    # The progress is the same in each language.
    page = clinician.get("/learn/read-one-allergy")
    assert "⟦done⟧ Lesen Sie die Allergie mit der id al-p1-latex." in page.words
    page.submit("⟦Answer⟧", answer="low")
    clinician.set_cookie("en", LANGUAGE)
    page = clinician.get("/learn/read-one-allergy")
    assert "Your requests pass every check below." in page.words
    assert page.heading == "1. Read one allergy"
