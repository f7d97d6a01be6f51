"""The manual at /docs, the documentation of the API, the sample app, and `fhirapp docs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import fhirapp.web
from fhirapp.auth.clients.administration import set_disabled
from fhirapp.auth.clients.registration import API_DOCS
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.cli import cli
from fhirapp.db import writing
from fhirapp.features.manual.contents import NAMES, pages, search
from tests.support.browsing import Browser
from tests.support.pages import browser_of, elements, links

# The manual.


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
        assert re.search("refresh|token", match.snippet.casefold())
    browser = Browser(app)
    assert "/docs/connect#kinds-of-clients" in browser.get("/docs?q=refresh+token").links.values()
    assert "<script>" not in browser.get("/docs?q=<script>").response.text.partition("<main")[2]


def test_command_lists_and_prints_pages():
    runner = CliRunner()
    listed = runner.invoke(cli, ["docs"])
    assert [line.split()[0] for line in listed.output.splitlines()] == list(NAMES)
    assert runner.invoke(cli, ["docs", "limits"]).output.startswith("# Limits\n")
    refused = runner.invoke(cli, ["docs", "limit"])
    assert (refused.exit_code != 0, "did you mean limits?" in refused.output) == (True, True)


# The documentation of the API, which is a client.


def test_documentation_of_a_clinic_has_no_client_of_the_demo(clinic):
    text = Browser(clinic).get("/api-docs").response.text
    assert f'data-client="{API_DOCS}"' in text
    assert "demo" not in text
    assert "data-secret" not in text


def test_documentation_is_a_client_that_can_be_disabled(make_app):
    app = make_app()
    browser = Browser(app)
    text = browser.get("/api-docs").response.text
    request = f"/oauth/authorize?client_id={API_DOCS}&redirect_uri={{}}/api-docs/signed-in"
    address = text.partition('data-redirect="')[2].partition("/api-docs")[0]
    assert browser.get(request.format("https://elsewhere.example")).status == 400
    assert "response_type" in str(browser.get(request.format(address)).location)
    with app.app_context(), writing() as connection:
        set_disabled(connection, API_DOCS, disabled=True)
    browser.get("/api-docs")
    assert browser.get(request.format(address)).status == 400


def test_administrator_sees_the_clients_of_the_server_itself(clinic):
    browser = browser_of(clinic, ADMINISTRATOR)
    browser.get("/api-docs")
    # The home page reads with the token of the pages.
    browser.get("/")
    for client, heading in (
        (API_DOCS, "Documentation of the API"),
        ("pages", "The pages of this server"),
    ):
        page = browser.get(f"/admin/clients/{client}")
        assert (page.status, page.heading) == (200, heading)
        # Its scopes and addresses are the server's.
        assert [form for form in page.forms if "scope" in form.fields] == []
    page = browser.get(f"/admin/clients/{API_DOCS}")
    assert any(form.action == f"/admin/clients/{API_DOCS}/disable" for form in page.forms)


# The sample app.


def test_sample_app_shows_its_source_and_is_in_the_demo_alone(clinic, make_app):
    page = Browser(make_app(demo=True)).get("/demo/app")
    source = (Path(fhirapp.web.__file__).parent / "static" / "sample-app.js").read_text("utf-8")
    (shown,) = elements(page, "pre.source")
    assert len(elements(shown, "code")) == len(source.splitlines()) <= 60
    assert " ".join(source.split()) in page.words
    assert Browser(clinic).get("/demo/app").status == 404
    assert links(page, "/demo/app") == []
