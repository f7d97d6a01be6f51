"""The versions of a note, and the comparison of two of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from tests.support.browsing import Browser
from tests.support.noted import PICTURE, TWO_PAGES, attached, note
from tests.support.pages import elements, in_order, links, texts

DISCHARGE = "/notes/doc-p1-discharge-2024"
CDA = (
    b'<ClinicalDocument xmlns="urn:hl7-org:v3"><component><section><text>%s</text></section>'
    b"</component></ClinicalDocument>"
)
LARGE = "line\n" * 8_000
# The attachments of the first and the second version.
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


def binary(name: str, text: str) -> dict[str, str]:
    data = attached(text)["data"]
    return {"resourceType": "Binary", "id": name, "contentType": "text/plain", "data": data}


@pytest.fixture(scope="module")
def clinic(app_with: Callable[..., Flask]) -> Flask:
    replaced, kept = (
        note("v-replaced", {"url": "Binary/b-v"}),
        note("v-kept", {"url": "Binary/b-s"}),
    )
    amended = {"docStatus": "amended"}
    author = [{"display": "Dr. New"}]
    return app_with(
        [note(name, before) for name, (before, _) in PAIRS.items()],
        [binary("b-v", f"{LARGE}first"), binary("b-s", "as it was")],
        [replaced, kept],
        [
            note(name, *([after] if after else []), author=author, **amended)
            for name, (_, after) in PAIRS.items()
        ],
        [binary("b-v", f"{LARGE}second"), binary("b-s", "as it is")],
        [replaced | amended, kept | amended],
    )


def comparison(browser: Browser, note_id: str) -> str:
    page = browser.get(f"/notes/{note_id}/difference?from=1&to=2")
    assert page.status == 200
    return page.response.text


REMOVED, ADDED = '<del><span class="aloud">removed: </span>', '<ins><span class="aloud">added: '


def test_versions_are_listed_with_their_changes(browser):
    page = browser.get(f"{DISCHARGE}/versions")
    newest, *_earlier = texts(page, "ul.findings")
    assert in_order(page.words, "30 Jan 2024, 11:06 UTC", "amended", "23 Jan 2024, 15:20 UTC")
    assert "was final, now amended." in newest
    assert "was text, 992 bytes, now text, 1 kB." in page.words
    assert f"{DISCHARGE}/difference?from=1&to=2" in links(page, DISCHARGE)
    for tail in ("versions", "difference?from=1&to=3"):
        words = browser.get(f"{DISCHARGE}/{tail}").words
        assert "← Amelia Rose Hartwell · born 12 Apr 1958 Severe allergies: Penicillin" in words


def test_newest_version_is_marked_and_each_other_names_the_one_that_replaced_it(browser):
    page = browser.get(f"{DISCHARGE}/versions")
    assert texts(page, "div.tags") == [
        "amended newest",
        "final replaced by version 3",
        "preliminary replaced by version 2",
    ]
    assert "Document status final" in browser.get(f"{DISCHARGE}?version=2").words


def test_versions_are_told_in_the_language_of_the_page(browser):
    page = browser.get(f"{DISCHARGE}/versions", headers={"Accept-Language": "de"})
    assert texts(page, "div.tags")[1] == "endgültig ersetzt durch Version 3"
    assert "war endgültig, jetzt berichtigt." in page.words


def test_earlier_version_is_shown_as_it_was_with_a_link_to_the_current_one(browser):
    page = browser.get(f"{DISCHARGE}?version=1")
    (remark,) = elements(page, "p.done")[:1]
    assert [link.get("href") for link in elements(remark, "a")] == [DISCHARGE]
    assert "PRELIMINARY, NOT YET SIGNED" in page.words


def test_changed_words_are_marked_and_named(browser):
    text = comparison(browser, "doc-p1-discharge-2024")
    assert f"{REMOVED}so far</del>. Urinary" in text
    assert f"{ADDED}</span>after five days</ins>. Urinary" in text
    words = browser.get(f"{DISCHARGE}/difference?from=1&to=3").words
    assert "was preliminary, now amended." in words
    for note_id in ("v-html", "v-cda", "v-markup"):
        text = comparison(browser, note_id)
        assert f"{REMOVED}5</del> mg" in text
        assert f"{ADDED}</span>50</ins> mg" in text
        assert "Dr. New" in text
        assert "<b>" not in text


def test_document_that_cannot_be_compared_has_a_reason(browser):
    reasons = {
        "v-pdf": ("First page: furosemide", "was text, 9 bytes, now PDF, "),
        "v-picture": ("no text to compare (image)",),
        "v-two": ("does not have this document", "was removed: text, 9 bytes."),
    }
    for note_id, words in reasons.items():
        text = comparison(browser, note_id)
        assert [told for told in words if told not in text] == [], note_id


def test_file_of_an_earlier_version_is_shown_or_said_to_be_replaced(browser):
    assert elements(browser.get("/notes/v-replaced"), "section.document")
    remarks = {
        version: [text for text in texts(browser.get(f"/notes/v-replaced{version}"), "p.done")
                  if "file was replaced" in text]
        for version in ("", "?version=1")
    }  # fmt: skip
    assert [len(found) for found in remarks.values()] == [0, 1]
    assert "The earlier version: The file was replaced" in comparison(browser, "v-replaced")
    assert "as it was" in browser.get("/notes/v-kept?version=1").words
    assert "as it is" in browser.get("/notes/v-kept").words
    assert f"{REMOVED}was</del>" in comparison(browser, "v-kept")


def test_versions_that_do_not_exist_are_refused(browser):
    statuses = {"": 400, "?from=1": 400, "?from=a&to=b": 400, "?from=1&to=99": 404}
    found = {query: browser.get(f"/notes/v-html/difference{query}").status for query in statuses}
    assert found == statuses
