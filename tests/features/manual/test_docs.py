"""The manual at /docs, and `fhirapp docs`."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from fhirapp.cli import cli
from fhirapp.features.manual.contents import NAMES, pages, plain, search
from tests.support.browsing import Browser


@pytest.mark.parametrize("name", NAMES)
def test_page_of_the_manual_is_public_and_its_links_lead_to_headings(app, name):
    page = Browser(app).get(f"/docs/{name}")
    html = page.response.text
    assert (page.status, "<!--" in page.words) == (200, False)
    anchors = {page.name: {part.anchor for part in page.sections} for page in pages().values()}
    assert [anchor for anchor in anchors[name] if f'id="{anchor}"' not in html] in ([], [""])
    for other, anchor in re.findall(r'href="/docs/(\w+)#([^"]+)"', html):
        assert anchor in anchors[other], (other, anchor)


def test_contents_of_the_manual_lead_to_its_pages(app):
    browser = Browser(app)
    assert {f"/docs/{name}" for name in NAMES[1:]} <= {*browser.get("/docs").links.values()}
    assert browser.get("/docs/nonsense").status == 404


def test_search_of_the_manual_finds_sections_with_all_words(app):
    for words, place in {
        "_include": ("search", "What shapes the answer"),
        "restore backup": ("clinic", "Backup and restore"),
        "nkda": ("load", "Allergies"),
        "FHIRAPP_TIMEZONE": ("clinic", "Settings"),
        "kill -9": ("architecture", "Where to find"),
    }.items():
        found = [(match.page.name, match.section.title) for match in search(words)]
        assert place in found[:4], words
    for match in search("refresh token"):
        text = f"{match.section.title} {match.section.text}".casefold()
        assert "refresh" in text
        assert "token" in text
        hits = [part.casefold() for part in match.snippet[1::2]]
        assert hits
        assert {*hits} <= {"refresh", "token"}
    browser = Browser(app)
    assert "/docs/connect#kinds-of-clients" in browser.get("/docs?q=refresh+token").links.values()
    assert "<script>" not in browser.get("/docs?q=<script>").response.text.partition("<main")[2]


def test_search_finds_how_to_get_in_again_and_marks_the_words(app):
    html = Browser(app).get("/docs?q=forgot+password").response.text
    assert re.search(r'href="([^"]+)"', html.partition('class="matches"')[2])[1] == (
        "/docs/pages#i-forgot-my-password"
    )
    assert "<mark>password</mark>" in html


def test_snippet_of_a_table_has_no_markup(app):
    assert [part for match in search("Landlock") for part in match.snippet if "|" in part] == []
    assert plain("| a | b |\n|---|--:|\n| `c` | d\\|e |") == "a · b c · d\\|e"


def test_links_and_examples_name_the_server_that_shows_the_manual(app):
    page = Browser(app).get("/docs/try")
    assert "https://fhir.example/learn/recap" in page.links.values()
    assert "localhost:8000" not in page.response.text


def test_command_lists_and_prints_pages():
    runner = CliRunner()
    listed = runner.invoke(cli, ["docs"])
    assert [line.split()[0] for line in listed.output.splitlines()] == list(NAMES)
    assert runner.invoke(cli, ["docs", "limits"]).output.startswith("# Limits\n")
    refused = runner.invoke(cli, ["docs", "limit"])
    assert (refused.exit_code != 0, "did you mean limits?" in refused.output) == (True, True)
