"""The versions of a note, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from tests.support.browsing import Browser, add_person
from tests.support.noted import PICTURE, TWO_PAGES, add, attached, note

CDA = (
    b'<ClinicalDocument xmlns="urn:hl7-org:v3"><component><section><text>%s</text></section>'
    b"</component></ClinicalDocument>"
)
LARGE = "line\n" * 8_000
PAIRS = {
    "v-html": (
        attached("<p>Give 5 mg</p><script>", "text/html"),
        attached("<p>Give 50 mg</p>", "text/html"),
    ),
    "v-cda": (attached(CDA % b"Give 5 mg", "text/xml"), attached(CDA % b"Give 50 mg", "text/xml")),
    "v-pdf": (attached("Give 5 mg", "text/plain"), attached(TWO_PAGES, "application/pdf")),
    "v-picture": (attached("Give 5 mg"), attached(PICTURE, "image/png")),
    "v-markup": (attached("<b>Give 5 mg</b>"), attached("<b>Give 50 mg</b>")),
    "v-two": (attached("Give 5 mg"), None),
}


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    app = make_app()
    folder = tmp_path_factory.mktemp("notes")
    firsts = [note(name, before) for name, (before, _after) in PAIRS.items()]
    binary = {"resourceType": "Binary", "id": "b-v", "contentType": "text/plain"}
    pointing = note("v-replaced", {"url": "Binary/b-v"})
    small = {"resourceType": "Binary", "id": "b-small", "contentType": "text/plain"}
    kept = note("v-kept", {"url": "Binary/b-small"})
    add(app, folder, *firsts, binary | {"data": attached(f"{LARGE}first")["data"]})
    add(app, folder, small | {"data": attached("as it was")["data"]})
    add(app, folder, pointing, kept)
    seconds = [
        note(
            name, *([after] if after else []), docStatus="amended", author=[{"display": "Dr. New"}]
        )
        for name, (_before, after) in PAIRS.items()
    ]
    add(app, folder, *seconds, binary | {"data": attached(f"{LARGE}second")["data"]})
    add(app, folder, small | {"data": attached("as it is")["data"]})
    add(app, folder, pointing | {"docStatus": "amended"}, kept | {"docStatus": "amended"})
    return app


@pytest.fixture(scope="module")
def browser(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def difference(browser: Browser, note_id: str) -> str:
    page = browser.get(f"/notes/{note_id}/difference?from=1&to=2")
    assert page.status == 200
    return page.response.text


def test_versions_tell_what_changed_in_words(browser):
    words = browser.get("/notes/doc-p1-discharge-2024/versions").words
    for told in (
        "Version 3 30 Jan 2024, 11:06 UTC amended Document status: was final, now amended.",
        "Document, content changed: was text, 992 bytes, now text, 1 kB.",
        "Compare versions 1 and 2, line by line",
        "Version 1 23 Jan 2024, 15:20 UTC preliminary First version kept on this server.",
    ):
        assert told in words


@pytest.mark.parametrize("tail", ["versions", "difference?from=1&to=3"])
def test_whose_record_it_is_stands_beside_every_version(browser, tail):
    page = browser.get(f"/notes/doc-p1-discharge-2024/{tail}")
    assert "record of Amelia Rose Hartwell, born 12 Apr 1958" in page.words


def test_an_earlier_version_is_opened_as_it_was(browser):
    page = browser.get("/notes/doc-p1-discharge-2024?version=1")
    assert "This is version 1, not the current version." in page.words
    assert "PRELIMINARY, NOT YET SIGNED" in page.words
    assert page.offered["View the current version (version 3)"] == "/notes/doc-p1-discharge-2024"


def test_texts_stand_side_by_side_with_what_changed_marked_in_words_too(browser):
    text = difference(browser, "doc-p1-discharge-2024")
    assert '<del><span class="aloud">removed: </span>so far</del>. Urinary' in text
    assert '<ins><span class="aloud">added: </span>after five days</ins>. Urinary' in text
    page = browser.get("/notes/doc-p1-discharge-2024/difference?from=1&to=3")
    assert "Document status: was preliminary, now amended." in page.words


@pytest.mark.parametrize("note_id", ["v-html", "v-cda", "v-markup"])
def test_the_words_of_html_and_clinical_documents_are_compared(browser, note_id):
    text = difference(browser, note_id)
    assert '<del><span class="aloud">removed: </span>5</del> mg' in text
    assert '<ins><span class="aloud">added: </span>50</ins> mg' in text
    assert "Author: now Dr. New." in text
    assert "<b>" not in text


@pytest.mark.parametrize(
    ("note_id", "told"),
    [
        ("v-pdf", "First page: furosemide"),
        ("v-pdf", "was text, 9 bytes, now PDF, "),
        ("v-picture", "The later version has no text to compare (image)."),
        ("v-two", "The later version does not have this document."),
        ("v-two", "Document was removed: text, 9 bytes."),
    ],
)
def test_what_cannot_be_compared_is_told(browser, note_id, told):
    assert told in difference(browser, note_id)


def test_a_version_whose_file_was_replaced_since_says_so(browser):
    now = browser.get("/notes/v-replaced").words
    assert "The file was replaced" not in now
    before = browser.get("/notes/v-replaced?version=1").words
    assert "The file was replaced after this version of the note was created." in before
    assert "The earlier version: The file was replaced" in difference(browser, "v-replaced")


def test_a_version_whose_bytes_are_kept_shows_them(browser):
    assert "as it was" in browser.get("/notes/v-kept?version=1").words
    assert "as it is" in browser.get("/notes/v-kept").words
    assert '<del><span class="aloud">removed: </span>was</del>' in difference(browser, "v-kept")


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 400), ("?from=1", 400), ("?from=a&to=b", 400), ("?from=1&to=99", 404)],
)
def test_versions_that_are_not_there_are_told(browser, query, status):
    assert browser.get(f"/notes/v-html/difference{query}").status == status
