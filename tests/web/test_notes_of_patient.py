"""The chart's section of notes: its filters, and the notes that no longer hold."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from tests.support.browsing import Browser, Page, add_person
from tests.support.noted import add, note


def typed(words: str) -> dict[str, str]:
    return {"text": words}


def written(display: str) -> list[dict[str, str]]:
    return [{"display": display}]


@pytest.fixture(scope="module")
def browser(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Browser:
    app = make_app()
    b = written("Dr. B")
    few, many, team = ({"reference": f"Patient/o-{one}"} for one in ("few", "many", "team"))
    add(
        app,
        tmp_path_factory.mktemp("notes"),
        {"resourceType": "Patient", "id": "o-few"},
        {"resourceType": "Patient", "id": "o-many"},
        {"resourceType": "Patient", "id": "o-team"},
        note("o-1", subject=few, type=typed("Consult"), author=written("Dr. A")),
        note("o-2", subject=few, type=typed("Consult"), author=b, status="superseded"),
        note("o-3", subject=few, type=typed("Progress & plan"), author=written("Dr. A")),
        note("o-4", subject=few, type=typed("Consult"), docStatus="amended"),
        *(
            note(
                f"o-m{n}",
                subject=many,
                type=typed("Consult" if n % 2 else "Progress"),
                status="entered-in-error" if n < 3 else "current",
                date=f"2025-01-01T{n // 60:02}:{n % 60:02}:00Z",
            )
            for n in range(130)
        ),
        # Twelve authors, the first of two notes.
        *(
            note(
                f"o-t{n}",
                subject=team,
                type=typed("Consult" if n < 12 else "Letter"),
                author=written(f"Dr. {'LKJIHGFEDCBA'[n % 12]}"),
            )
            for n in range(13)
        ),
    )
    return Browser(app).resume(add_person(app, CLINICIAN))


def ids(page: Page) -> list[str]:
    return re.findall(r'href="/notes/(o-\w+)"', page.response.text.partition("plain-list")[2])


def choices(page: Page) -> dict[str, str]:
    """Return each choice of the filters, with its count, by its address."""
    found = re.findall(
        r'<a href="(/patients/[^"]*#notes-heading)"[^>]*><bdi>(.*?)</bdi> <span[^>]*>(\d+)',
        page.response.text,
    )
    return {f"{words} {count}": address.replace("&amp;", "&") for address, words, count in found}


def test_notes_that_no_longer_hold_are_folded_and_counted(browser):
    page = browser.get("/patients/o-few")
    assert "1 note superseded or entered in error" in page.words
    fold = page.response.text.partition('<details class="past">')[2]
    assert re.findall(r'href="/notes/(o-\w+)"', fold) == ["o-2"]
    assert set(ids(page)) == {"o-1", "o-2", "o-3", "o-4"}


def test_filters_count_each_type_status_and_author(browser):
    assert sorted(choices(browser.get("/patients/o-few"))) == [
        *("Consult 3", "Dr. A 2", "Dr. B 1", "Progress &amp; plan 1"),
        *("amended 1", "author not recorded 1", "superseded 1"),
    ]


def test_a_filter_shows_what_is_chosen_and_counts_the_others_under_it(browser):
    page = browser.get("/patients/o-few")
    page = browser.get(choices(page)["Dr. A 2"])
    assert set(ids(page)) == {"o-1", "o-3"}
    assert {"Consult 1", "Progress &amp; plan 1"} <= set(choices(page))
    both = browser.get(choices(page)["Progress &amp; plan 1"])
    assert ids(both) == ["o-3"]
    # A choice is taken back by following it once more, or all at once.
    assert set(ids(browser.get(choices(both)["Dr. A 1"]))) == {"o-3"}
    assert len(ids(browser.get(both.links["Show all notes"]))) == 4


def test_a_filter_by_status_shows_what_is_folded_otherwise(browser):
    page = browser.get(choices(browser.get("/patients/o-few"))["superseded 1"])
    assert ids(page) == ["o-2"]


def test_a_choice_that_no_note_has_shows_none_and_says_so(browser):
    page = browser.get("/patients/o-few?type=%3Cscript%3Ealert(1)%3C/script%3E")
    assert ids(page) == []
    assert "No notes match these filters." in page.words
    assert "<script>alert" not in page.response.text


def test_of_many_notes_those_that_hold_are_listed_by_fifties(browser):
    page = browser.get("/patients/o-many")
    assert len(ids(page)) == 50
    more = browser.get(page.offered["More notes"])
    assert len(re.findall(r'<li class="note-line', more.response.text)) == 50
    past = browser.get(page.links["3 notes superseded or entered in error"])
    assert past.response.text.count('<li class="note-line past">') == 3


def test_what_a_filter_has_no_link_for_is_in_a_list(browser):
    page = browser.get("/patients/o-team")
    links = {one[:-2] for one in choices(page) if one.startswith("Dr.")}
    offered = re.findall(r'<option value="(Dr.*?)".*?>(.*?)</option>', page.response.text)
    assert "Dr. L 2" in choices(page)
    assert [words for _value, words in offered] == [
        f"Dr. {one} (1)" for one in "ABCDEFGHIJK" if f"Dr. {one}" not in links
    ]
    assert (len(links), len(offered)) == (8, 4)
    author = offered[0][0]
    page = page.submit("Filter by author", author=author)
    (shown,) = ids(page)
    # What is chosen is a link, which takes it back.
    assert browser.get(choices(page)[f"{author} 1"]).response.text.count("<option value=") > 2
    # The other filters go with the list.
    page = browser.get("/patients/o-team?type=Consult")
    assert page.form("Filter by author").fields["type"] == "Consult"
    assert ids(page.submit("Filter by author", author=author)) == [shown]


def test_a_filtered_list_is_short_and_says_that_there_is_more(browser):
    page = browser.get("/patients/o-many?author=author+not+recorded")
    assert len(ids(page)) == 100
    assert "30 more notes match" in page.words
    assert len(ids(browser.get("/patients/o-many?type=Consult"))) == 65
