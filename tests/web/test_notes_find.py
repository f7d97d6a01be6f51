"""The search for words in all notes, and the list of one patient's."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN, PATIENT
from tests.support.browsing import Browser, add_person
from tests.support.noted import MARKUP, SCRIPTED, TWO_PAGES, add, attached, note

MANY = 60


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    app = make_app()
    add(
        app,
        tmp_path_factory.mktemp("notes"),
        note("f-html", attached(SCRIPTED, "text/html"), subject={"reference": "Patient/p3"}),
        {"resourceType": "Patient", "id": "f-empty"},
        {"resourceType": "Patient", "id": "f-many"},
        *(
            note(
                f"f-{n}",
                subject={"reference": "Patient/f-many"},
                date=f"2021-{n % 12 + 1:02}-01",
                content=None,
            )
            for n in range(1_001)
        ),
        note("f-pdf", attached(TWO_PAGES, "application/pdf")),
        note("f-markup", attached(f"Zebra said {MARKUP} twice")),
        note("f-accent", attached("Allergie: Bésylate d'amlodipine, œdème")),
        *(
            note(
                f"m-{n}",
                attached(f"walrus number {n}"),
                subject={"reference": "Patient/p9"},
                date=f"2020-{n % 12 + 1:02}-{n // 12 + 1:02}T00:00:00Z",
                status="superseded" if n == 0 else "current",
            )
            for n in range(MANY)
        ),
    )
    return app


@pytest.fixture(scope="module")
def browser(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


@pytest.mark.parametrize(
    ("q", "shown"),
    [
        ("torasemide", "Second page: <mark>torasemide</mark>"),
        ('"after amoxicillin"', "Hives <mark>after amoxicillin</mark>."),
        ("amoxi*", "after <mark>amoxicillin</mark>"),
        ("besylate", "<mark>Bésylate</mark> d&#39;amlodipine"),
        ('"said img"', "Zebra <mark>said &lt;img</mark> src"),
        ("zebra,giraffe", "<mark>Zebra</mark> said &lt;img src=x onerror=&#34;run()&#34;&gt;"),
    ],
)
def test_hits_are_shown_with_the_words_around_them_and_as_text(browser, q, shown):
    page = browser.get("/notes").submit("Search", q=q)
    assert page.status == 200
    assert shown in page.response.text


def test_a_hit_leads_to_the_note_and_tells_whose_it_is(browser):
    page = browser.get("/notes?q=torasemide")
    assert "1 note Note" in page.words.replace("1 Jun 2025 ", "")
    assert "Record of Amelia Rose Hartwell" in page.words
    assert page.offered["Note"] == "/notes/f-pdf?q=torasemide"


def test_words_that_stand_in_the_heading_alone_are_told(browser):
    page = browser.get("/notes?q=whitmore+progress")
    assert page.status == 200
    page = browser.get("/notes?q=18842-5")
    assert "Matches the note's details, not its text." in page.words


def test_of_many_the_best_are_shown_and_the_newest_can_be_paged(browser):
    page = browser.get("/notes?q=walrus")
    assert "Showing the 20 most relevant of 60 notes. Add a word to narrow" in page.words
    page = browser.get(page.offered["see all of them, newest first"])
    seen = []
    while True:
        seen += re.findall(r'href="/notes/([^?"]+)', page.response.text)
        if "More notes" not in page.offered:
            break
        page = browser.get(page.offered["More notes"])
    assert len(seen) == len(set(seen)) == MANY


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("q=AND", "has no operator AND: all words given must be found, a comma means OR"),
        ("q=%22", "is not understood; use words"),
        ("q=...", "has no letter or digit to look for"),
        ("q=" + "a+" * 21, "takes at most 20 words and 500 characters"),
        ("q=" + "a" * 501, "Enter 500 characters or fewer."),
        ("q=pain&from=yesterday", "Enter the date as 2024-03-05"),
        ("q=pain&from=2024-13-45", "date"),
        ("q=pain&cursor=nonsense", "start again from the first page"),
    ],
)
def test_what_is_not_understood_is_told_in_a_sentence(browser, query, told):
    page = browser.get(f"/notes?{query}")
    assert page.status == 400
    assert "This search is not valid:" in page.words
    assert told in page.words


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("q=walrus&patient=p9", "60 notes"),
        ("q=walrus&patient=p1", "No matching notes"),
        ("q=walrus&from=2020-12-01&to=2020-12-02", "2 notes"),
        ("q=walrus&kind=18842-5", "No matching notes"),
        ("q=walrus&kind=11506-3", "60 notes"),
        ("patient=p9&to=2020-01-01", "1 note"),
    ],
)
def test_a_search_is_narrowed_by_record_kind_and_days(browser, query, count):
    assert f" {count} " in browser.get(f"/notes?{query}").words


def test_the_notes_of_a_patient_are_listed_fifty_at_a_time(browser):
    page = browser.get("/notes?patient=p9&to=2021-01-01")
    assert page.response.text.count('<li class="note-line') == 50
    more = page.offered["More notes"]
    assert browser.get(more).response.text.count('<li class="note-line') == 10
    # The same, as htmx asks for it.
    lines = browser.get(f"{more}&part=lines")
    assert lines.response.text.count('<li class="note-line') == 10
    assert "<html" not in lines.response.text
    assert '<li class="note-line past">' in lines.response.text
    assert "superseded" in lines.words


def test_the_chart_has_the_timeline_and_the_newest_notes(browser):
    page = browser.get("/patients/p9")
    assert page.status == 200
    assert page.response.text.count('<svg class="timeline"') == 1
    assert page.response.text.count('<li class="note-line') == 50
    assert page.offered["More notes"].startswith("/notes?patient=p9&status=current&cursor=")
    assert "63 notes" in page.submit("Search", q="").words


def test_a_chart_without_notes_says_so(browser):
    assert "No notes in this record yet." in browser.get("/patients/f-empty").words


def test_of_very_many_notes_the_picture_comes_after_the_chart(browser):
    page = browser.get("/patients/f-many")
    assert '<svg class="timeline"' not in page.response.text
    assert 'hx-get="/notes?patient=f-many&amp;part=timeline"' in page.response.text
    drawn = browser.get(page.offered["Show a timeline of all 1,001 notes"])
    assert "1001 notes from 2021 to 2021, by type: Note." in drawn.response.text


def test_a_timeline_comes_alone_or_above_the_list(browser):
    assert "<svg" in browser.get("/notes?patient=p9&timeline=1").response.text
    part = browser.get("/notes?patient=p9&part=timeline").response.text
    assert part.count("<svg") == 1
    assert "<html" not in part
    assert browser.get("/notes?part=timeline").status == 400


def test_a_patient_finds_their_own_notes_alone(clinic):
    own = Browser(clinic).resume(add_person(clinic, PATIENT, "p9"))
    assert "60 notes" in own.get("/notes?q=walrus").words
    assert "No matching notes" in own.get("/notes?q=torasemide").words
    assert own.get("/notes?q=torasemide&patient=p1").status == 403
    assert own.get("/notes?patient=p1&part=timeline").status == 403


def test_who_has_two_records_is_told_which_was_searched_and_led_to_the_other(clinic):
    own = Browser(clinic).resume(add_person(clinic, PATIENT, "p2", "p9"))
    page = own.get("/notes?q=walrus")
    assert "No matching notes" in page.words
    assert "None of the notes in this record" in page.words
    (other,) = [one for one in page.links.values() if "patient=p9" in one]
    assert "60 notes" in own.get(other).words


def test_a_patient_without_a_record_is_told_so(clinic):
    page = Browser(clinic).resume(add_person(clinic, PATIENT)).get("/notes?q=walrus")
    assert page.status == 403
    assert page.heading == "No record linked to your account"


def test_without_words_there_is_a_form_and_advice(browser):
    page = browser.get("/notes")
    assert "Searches the text of every note that you have access to" in page.words
