"""Pages in the language of their reader: as chosen, as the browser requests, or English."""

from __future__ import annotations

import io
from collections.abc import Callable
from gettext import GNUTranslations
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from fhirapp.fhir.words import day
from fhirapp.web import texts
from fhirapp.web.cookies import LANGUAGE
from fhirapp.web.texts import _, numeral
from fhirapp.web.times import SHORT_MONTHS, exact
from tests.support.browsing import Browser, Page, cookie_name
from tests.support.helpers import BASE_URL
from tests.support.pages import browser_of, submit_to
from tests.tools.translations import compiled, pseudo_translation


@pytest.fixture
def translate(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Return a function that makes a compiled catalogue the German translation."""

    def take(content: bytes) -> None:
        catalogue = GNUTranslations(io.BytesIO(content))
        monkeypatch.setattr(texts, "catalogue", lambda _code: catalogue)

    return take


@pytest.fixture
def german(translate: Callable[[bytes], None]) -> None:
    """A complete German translation."""
    translate(pseudo_translation())


def get(app: Flask, path: str = "/sign-in", accept: str = "de", **cookies: str) -> Page:
    browser = Browser(app)
    for name, value in cookies.items():
        browser.set_cookie(value, name)
    return browser.get(path, headers={"Accept-Language": accept} if accept else {})


def language_of(page: Page) -> str:
    return page.response.text.partition('<html lang="')[2].partition('"')[0]


def choose(page: Page, language: str, **filled: str) -> Any:
    """Send the form that chooses a language."""
    fields = page.form("Deutsch").fields
    sent = {**fields, "language": language, **filled}
    return page.browser.client.post("/language", data=sent, base_url=BASE_URL)


def test_page_is_in_the_language_that_the_browser_accepts(app, german):
    languages = {
        **dict.fromkeys(("", "*", "fr", "en-GB, de;q=0.9", "de;q=0, en"), "en"),
        "de;q=nonsense, \xff": "en",
        **dict.fromkeys(("de", "de-CH, en;q=0.5", "fr, de;q=0.5, en;q=0.1"), "de"),
    }
    for accept, language in languages.items():
        page = get(app, accept=accept)
        assert language_of(page) == page.headers["Content-Language"] == language, accept
        assert ("⟦Sign in⟧" in page.words) is (language == "de")
        assert page.response.vary.to_header() == "Accept-Language, Cookie"


def test_chosen_language_counts_more_and_its_form_leads_back(app, german):
    browser = browser_of(app, CLINICIAN)
    page = browser.get("/docs/search?q=%C3%A4&x=1")
    for language, other in (("de", "en"), ("en", "de")):
        page = submit_to(page, "/language", ("language", language))
        assert (language_of(page), page.path) == (language, "/docs/search?q=%C3%A4&x=1")
        account = browser.get("/account", headers={"Accept-Language": other})
        assert language_of(account) == language
    refused = Browser(app).get("/sign-in").submit("Sign in", username="nobody", password="x")
    page = submit_to(refused, "/language", ("language", "de"))
    assert (page.status, page.path, language_of(page)) == (200, "/sign-in", "de")


def test_choice_is_a_cookie_of_this_server_and_leads_to_no_other(app, german):
    page = Browser(app).get("/sign-in")
    answer = choose(page, "de")
    (cookie,) = [header for header in answer.headers.getlist("Set-Cookie") if "language" in header]
    assert cookie.startswith(f"{cookie_name(app, LANGUAGE)}=de; ")
    assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=31536000"} <= {*cookie.split("; ")}
    for back in ("//evil.example", "https://evil.example", "/\\evil.example"):
        assert choose(page, "de", back=back).headers["Location"] == "/start"
    for language in ("", "fr", "nonsense", "x" * 30):
        assert choose(page, language).status_code in (400, 413)
        assert language_of(get(app, accept="", language=language or "x")) == "en"


def test_api_answers_in_english(fhir, german):
    for path in ("AllergyIntolerance?nonsense=1", "AllergyIntolerance/none", "nonsense"):
        answer, usual = fhir.get(path, headers={"Accept-Language": "de"}), fhir.get(path)
        assert (answer.status, answer.json) == (usual.status, usual.json)
        assert "⟦" not in answer.text


def test_dates_and_numbers_are_written_as_in_the_language(app, translate):
    catalog = Catalog(locale="de", fuzzy=False)
    catalog.add("1,000.5", "1.000,5")
    catalog.add("May", "Mai")
    catalog.add("%(day)s %(month)s %(year)s", "%(day)s. %(month)s %(year)s")
    catalog.add("%(day)s, %(time)s %(zone)s", "%(day)s, %(time)s Uhr %(zone)s")
    translate(compiled(catalog))

    def found() -> tuple[str, ...]:
        moment = exact("2026-05-03T14:05:09Z")
        return numeral(1234567.25, 1), day("2023-05-03", SHORT_MONTHS, _), moment

    with app.test_request_context(headers={"Accept-Language": "de"}):
        assert found() == ("1.234.567,2", "3. Mai 2023", "3. Mai 2026, 14:05:09 Uhr UTC")
    with app.test_request_context():
        assert found() == ("1,234,567.2", "3 May 2023", "3 May 2026, 14:05:09 UTC")
        assert day("2023-11-03", SHORT_MONTHS, _) == "3 Nov 2023"
    # Outside of a request.
    with app.app_context():
        assert numeral(1234.5) == "1,234"


def test_lesson_and_its_progress_are_in_the_language_of_the_page(make_app, german):
    app = make_app(demo=True)
    browser, path = Browser(app).resume("clinician"), "/learn/read-one-allergy"
    browser.set_cookie("de", LANGUAGE)
    page = browser.get(path)
    assert page.heading == "1. Eine Allergie lesen"
    submit_to(page, f"{path}/begin")
    browser.get("/explore?address=/fhir/AllergyIntolerance/al-p1-latex")
    page = browser.get(path)
    assert "⟦done⟧ Lesen Sie die Allergie mit der id al-p1-latex." in page.words
    submit_to(page, f"{path}/answer", answer="low")
    browser.set_cookie("en", LANGUAGE)
    page = browser.get(path)
    assert page.heading == "1. Read one allergy"
    assert page.response.text.count('class="check met"') == 2
