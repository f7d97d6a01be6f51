"""The manual at /docs, its search, and `fhirapp docs`."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from fhirapp.docs import NAMES, pages, search
from tests.support.browsing import Browser
from tests.support.shell import assert_not_done, fhirapp


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_shown_to_everybody_with_its_headings(app, name):
    page = Browser(app).get(f"/docs/{name}")
    assert page.status == 200
    for section in pages()[name].sections[1:]:
        assert f'id="{section.anchor}"' in page.response.text


@pytest.mark.parametrize("name", NAMES)
def test_what_is_for_tests_alone_is_not_shown(app, name):
    assert "<!--" not in Browser(app).get(f"/docs/{name}").words


def test_the_contents_lead_to_each_page(app):
    page = Browser(app).get("/docs")
    assert {f"/docs/{name}" for name in NAMES[1:]} <= set(page.links.values())


@pytest.mark.parametrize("name", NAMES)
def test_each_link_of_a_page_to_another_leads_to_a_heading(app, name):
    browser = Browser(app)
    html = browser.get(f"/docs/{name}").response.text
    for path, anchor in re.findall(r'href="(/docs/\w+)#([^"]+)"', html):
        assert f'id="{anchor}"' in browser.get(path).response.text


def test_each_value_of_a_table_names_its_column(app):
    table = Browser(app).get("/docs/search").response.text.partition("<table>")[2]
    headings = re.findall(r"<th>(.*?)</th>", table.partition("</thead>")[0])
    row = table.partition("<tbody>")[2].partition("</tr>")[0]
    assert row.count('<th scope="row">') == 1
    assert re.findall(r'<td data-label="(.*?)">.+?</td>', row) == headings[1:]


def test_a_page_that_is_not_there_is_404(app):
    assert Browser(app).get("/docs/nonsense").status == 404


@pytest.mark.parametrize(
    ("words", "page", "section"),
    [
        ("_include", "search", "What shapes the answer"),
        ("restore backup", "clinic", "Backup and restore"),
        ("nkda", "load", "Allergies"),
        ("FHIRAPP_TIMEZONE", "clinic", "Settings"),
        ("kill -9", "architecture", "Where to find"),
    ],
)
def test_the_search_finds_the_section(words, page, section):
    found = [(match.page.name, match.section.title) for match in search(words)]
    assert (page, section) in found[:4]


def test_a_match_has_all_of_the_words_and_shows_one(app):
    for match in search("refresh token"):
        text = f"{match.section.title} {match.section.text}".casefold()
        assert "refresh" in text
        assert "token" in text
        assert "refresh" in match.snippet.casefold() or "token" in match.snippet.casefold()


def test_the_page_of_a_search_leads_to_the_sections(app):
    page = Browser(app).get("/docs?q=refresh+token")
    assert "/docs/connect#kinds-of-clients" in page.links.values()
    assert Browser(app).get(f"/docs?q={quote('<script>')}").status == 200
    assert "No section has all of these words" in Browser(app).get("/docs?q=zzzz").words


def test_the_command_lists_and_prints_pages(tmp_path: Path):
    listed = fhirapp(tmp_path, "docs")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(NAMES)
    printed = fhirapp(tmp_path, "docs", "limits")
    assert printed.stdout.startswith("# Limits\n")
    assert_not_done(fhirapp(tmp_path, "docs", "limit"), "did you mean limits?")
