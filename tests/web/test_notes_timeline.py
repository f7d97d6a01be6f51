"""The picture of when notes were written."""

from __future__ import annotations

import re
import time
from xml.etree import ElementTree

import pytest

from fhirapp.web.notes.timeline import Dot, Visit, timeline
from tests.support.noted import MARKUP

SVG = "{*}"


def dot(number: int, date: str, kind: str = "Progress note", **more: object) -> Dot:
    return Dot(f"n{number}", date, kind, "11506-3", bool(more.get("is_past")))


def drawn(dots: list[Dot], visits: list[Visit] | None = None) -> ElementTree.Element:
    picture = timeline("p1", dots, visits or []).picture
    assert picture is not None
    return ElementTree.fromstring(str(picture))


def test_without_notes_or_dates_there_is_no_picture():
    assert timeline("p1", []) == (None, 0, 0, False)
    assert timeline("p1", [dot(1, ""), dot(2, "0202-01-01"), dot(3, "never")]) == (
        None,
        3,
        0,
        False,
    )


def test_one_note_is_a_dot_that_leads_to_it():
    picture = drawn([dot(1, "2024-03-05T10:00:00Z")])
    (link,) = picture.findall(".//a")
    assert link.get("href") == "/notes/n1"
    assert link.findtext("title") == "5 Mar 2024: Progress note"
    assert [one.text for one in picture.iter("text") if one.get("class") == "year"] == ["2024"]


def test_the_picture_says_what_it_shows():
    picture = drawn([dot(1, "2019"), dot(2, "2024-03", "Consult note"), dot(3, "2024-04-01")])
    assert picture.get("aria-label") == "Timeline of the notes"
    (image,) = [one for one in picture.iter() if one.get("role") == "img"]
    told = "3 notes from 2019 to 2024, by type: Progress note, Consult note."
    assert image.get("aria-label", "").startswith(told)
    assert image.find(".//a") is None


def test_the_later_stands_to_the_right_and_each_kind_in_its_row():
    picture = drawn([dot(1, "2019-06"), dot(2, "2023-06"), dot(3, "2021-06", "Consult note")])
    places = {
        link.get("href", "")[-2:]: [
            float(link.findall("circle")[1].get(one, "")) for one in ("cx", "cy")
        ]
        for link in picture.iter("a")
    }
    assert places["n1"][0] < places["n3"][0] < places["n2"][0]
    assert places["n1"][1] == places["n2"][1] != places["n3"][1]


def test_notes_of_one_day_are_one_dot_with_their_number():
    picture = drawn([dot(1, "2024-03-05"), dot(2, "2024-03-06"), dot(3, "2020-01-01")])
    one, several = picture.findall(".//a")
    assert one.get("href") == "/notes/n3"
    assert several.get("href") == "/notes?patient=p1&from=2024-03-05&to=2024-03-06&kind=11506-3"
    assert several.findtext("text") == "2"


def test_several_notes_are_grey_where_none_of_them_holds():
    gone = [dot(1, "2024-03-05", is_past=True), dot(2, "2024-03-06", is_past=True)]
    (link,) = drawn(gone).findall(".//a")
    assert link.get("class") == "dot many past"
    (link,) = drawn([*gone, dot(3, "2024-03-06")]).findall(".//a")
    assert link.get("class") == "dot many"


def test_visits_are_bands_and_those_outside_are_left_out():
    visits = [Visit("2024-03-01", "2024-06-01", "Stay"), Visit("1990-01-01", "1990-02-01", "Old")]
    bands = drawn([dot(1, "2024-03-05")], [*visits, Visit("", "", "When?")]).findall(".//rect")
    assert [band.findtext("title") for band in bands] == ["Stay"]
    assert float(bands[0].get("width", "")) > 100


def test_ten_thousand_notes_are_some_hundred_dots_with_all_of_them():
    dots = [
        dot(n, f"{1990 + n % 35}-{n % 12 + 1:02}-{n % 28 + 1:02}", f"Kind {n % 20}")
        for n in range(10_000)
    ]
    began = time.perf_counter()
    found = timeline("p1", dots)
    assert time.perf_counter() - began < 5
    assert found.drawn == 10_000
    links = ElementTree.fromstring(str(found.picture)).findall(".//a")
    assert len(links) < 500
    titles = [re.match(r"(\d+) notes", link.findtext("title") or "") for link in links]
    assert sum(int(title[1]) if title else 1 for title in titles) == 10_000


@pytest.mark.parametrize("text", [MARKUP, '"><script>alert(1)</script>', "\u202egnuoy"])
def test_what_is_written_in_it_is_text(text):
    found = timeline("p'\"<1", [dot(1, "2024-01-01", text), dot(2, "2024-01-01", text)])
    assert not re.search(r"<(?:script|img|b)\b", str(found.picture))
    picture = ElementTree.fromstring(str(found.picture))
    assert text in [one.findtext("title") for one in picture.iter("text")]
    (link,) = picture.findall(".//a")
    assert link.get("href", "").startswith("/notes?patient=p%27%22%3C1&from=")
