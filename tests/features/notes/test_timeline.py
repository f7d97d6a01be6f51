"""The timeline of a patient's notes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from fhirapp.features.notes.timeline import Dot, EncounterSpan, timeline
from tests.support.noted import MARKUP


def dot(number: int, date: str, kind: str = "Progress note", *, is_past: bool = False) -> Dot:
    return Dot(f"n{number}", date, kind, "11506-3", is_past)


def drawn(*dots: Dot, visits: tuple[EncounterSpan, ...] = ()) -> ElementTree.Element:
    picture = timeline("p1", list(dots), list(visits)).picture
    assert picture is not None
    return ElementTree.fromstring(str(picture))


def test_notes_without_dates_have_no_picture():
    undated = [dot(1, ""), dot(2, "0202-01-01"), dot(3, "never")]
    assert timeline("p1", []) == (None, 0, 0, False)
    assert timeline("p1", undated) == (None, 3, 0, False)


def test_dot_leads_to_its_note():
    picture = drawn(dot(1, "2024-03-05T10:00:00Z"))
    (link,) = picture.findall(".//a")
    assert link.get("href") == "/notes/n1"
    assert link.findtext("title") == "5 Mar 2024: Progress note"
    assert [text.text for text in picture.findall(".//text[@class='year']")] == ["2024"]


def test_picture_has_a_description():
    picture = drawn(dot(1, "2019"), dot(2, "2024-03", "Consult note"), dot(3, "2024-04-01"))
    assert picture.get("aria-label") == "Timeline of the notes"
    (image,) = picture.findall(".//*[@role='img']")
    description = "3 notes from 2019 to 2024, by type: Progress note, Consult note."
    assert image.get("aria-label", "").startswith(description)
    assert image.find(".//a") is None


def test_notes_of_the_same_days_share_a_dot_with_their_number():
    picture = drawn(dot(1, "2024-03-05"), dot(2, "2024-03-06"), dot(3, "2020-01-01"))
    single, several = picture.findall(".//a")
    assert single.get("href") == "/notes/n3"
    assert several.get("href") == "/notes?patient=p1&from=2024-03-05&to=2024-03-06&kind=11506-3"
    assert several.findtext("text") == "2"
    # It is grey if none of its notes is current.
    past = dot(1, "2024-03-05", is_past=True), dot(2, "2024-03-06", is_past=True)
    (link,) = drawn(*past).findall(".//a")
    assert link.get("class") == "dot many past"
    (link,) = drawn(*past, dot(3, "2024-03-06")).findall(".//a")
    assert link.get("class") == "dot many"


def test_visits_are_bands_within_the_years_of_the_notes():
    stay = EncounterSpan("2024-03-01", "2024-06-01", "Stay")
    others = EncounterSpan("1990-01-01", "1990-02-01", "Old"), EncounterSpan("", "", "When?")
    bands = drawn(dot(1, "2024-03-05"), visits=(stay, *others)).findall(".//rect")
    assert [band.findtext("title") for band in bands] == ["Stay"]
    assert float(bands[0].get("width", "")) > 100


def test_thousands_of_notes_are_drawn_with_some_hundred_dots():
    dots = [
        dot(n, f"{1990 + n % 35}-{n % 12 + 1:02}-{n % 28 + 1:02}", f"Kind {n % 20}")
        for n in range(5_000)
    ]
    found = timeline("p1", dots)
    assert found.drawn == 5_000
    links = ElementTree.fromstring(str(found.picture)).findall(".//a")
    assert len(links) < 500
    titles = [re.match(r"(\d+) notes", link.findtext("title") or "") for link in links]
    assert sum(int(title[1]) if title else 1 for title in titles) == 5_000


@pytest.mark.parametrize("text", [MARKUP, '"><script>alert(1)</script>', "\u202egnuoy"])
def test_text_of_notes_is_escaped(text):
    found = timeline("p'\"<1", [dot(1, "2024-01-01", text), dot(2, "2024-01-01", text)])
    assert not re.search(r"<(?:script|img|b)\b", str(found.picture))
    picture = ElementTree.fromstring(str(found.picture))
    assert text in [element.findtext("title") for element in picture.iter("text")]
    (link,) = picture.findall(".//a")
    assert link.get("href", "").startswith("/notes?patient=p%27%22%3C1&from=")
