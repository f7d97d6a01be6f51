"""A note's page: its facts, its documents in each format, and hostile content in them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.features.notes.attachments import Attachment, attachment, plain_text, way
from tests import TESTS
from tests.support.browsing import Browser, Page
from tests.support.documents import base64_section, clinical, medium, section
from tests.support.helpers import Fhir, token_for
from tests.support.importing import load, write
from tests.support.noted import (
    ACTIVE_PDF,
    BOMB,
    DRAWING,
    MARKUP,
    PICTURE,
    RTF,
    SCRIPTED,
    TURNED,
    TWO_PAGES,
    attached,
    note,
)
from tests.support.office import DOCX, ODT, opendocument, p, r, word
from tests.support.pages import browser_of, elements, in_order, links, texts

CCDA = TESTS / "ccda" / "discharge-summary.xml"
LINES = "CC\tcough\n\n   Penicillin: hives.\nNo PENICILLIN since.\n" * 3
STRUCK = r("penicillin&lt;script&gt;", "<w:strike/>")
RESTRICTED = {"system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality", "code": "R"}
REPLACED = {"code": "replaces", "target": {"reference": "DocumentReference/n-old"}}
NOTES = [
    note("n-text", attached(LINES, title="The visit")),
    note("n-html", attached(SCRIPTED, "text/html")),
    note("n-svg", attached(DRAWING, "image/svg+xml")),
    note("n-drawing-as-text", attached(DRAWING, "text/plain")),
    note("n-bomb", attached(BOMB, "application/xml")),
    note("n-pdf", attached(TWO_PAGES, "application/pdf", title="Letter")),
    note("n-active-pdf", attached(ACTIVE_PDF, "application/pdf")),
    note("n-broken-pdf", attached(b"%PDF-1.7 and no more", "application/pdf")),
    note("n-ccda", attached(CCDA.read_bytes(), "application/hl7-cda+xml")),
    note("n-rtf", attached(RTF, "application/rtf")),
    note("n-docx", attached(word(p(r("Rash after"), STRUCK)), DOCX, title="Letter")),
    note("n-odt", attached(opendocument("<text:p>Urticaria &lt;b&gt;</text:p>"), ODT)),
    note("n-picture", attached(PICTURE, "image/png", title="Scan")),
    note("n-called-picture", attached(SCRIPTED, "image/png")),
    note("n-word", attached(b"PK\3\4", "application/msword")),
    note("n-elsewhere", {"contentType": "text/plain", "url": "https://evil.example/note.txt"}),
    note("n-gone", {"contentType": "text/plain", "url": "Binary/never-here"}),
    note("n-large", {"contentType": "application/pdf", "url": "Binary/b-1", "size": 20_000_001}),
    note("n-charset", attached(b"caf\xe9 \x81", "text/plain; charset=klingon")),
    note("n-nothing", content=None),
    note("n-nobody", attached("Whose is this?"), subject={"reference": "Patient/nobody-at-all"}),
    note("n-no-subject", attached("Of nobody"), subject=None),
    note(
        "n-names",
        attached("x", title=MARKUP),
        type={"text": MARKUP},
        author=[{"display": TURNED}],
        description=MARKUP,
        custodian={"display": MARKUP},
    ),
    note(
        "n-ids",
        attached("Seen."),
        author=[{"reference": "Practitioner/dr-sato"}],
        custodian={"reference": "Organization/org-northgate"},
        securityLabel=[{"coding": [RESTRICTED]}],
    ),
    note(
        "n-unnamed",
        attached("x"),
        author=[{"reference": "#a"}],
        contained=[{"resourceType": "Practitioner", "id": "a"}],
    ),
    note("n-turned", attached("Give \u202e01\u202c mg")),
    note("n-long", attached("penicillin and a line of words\n" * 40_000)),
    note("n-wrong", attached("Of another"), status="entered-in-error"),
    note("n-old", attached("Old"), status="superseded"),
    note("n-draft", attached("Draft"), docStatus="preliminary", date=None, type=None),
    note("n-newer", attached("New"), relatesTo=[REPLACED]),
]
AGENT = {"who": {"display": MARKUP}, "onBehalfOf": {"display": "Lakeside"}}
PROVENANCE = {
    "resourceType": "Provenance",
    "id": "p-n-text",
    "target": [{"reference": "DocumentReference/n-text"}],
    "recorded": "2025-06-01T10:05:00Z",
    "activity": {"coding": [{"code": "CREATE"}]},
    "agent": [{"type": {"coding": [{"code": "author"}]}, **AGENT}],
}


@pytest.fixture(scope="module")
def clinic(app_with: Callable[..., Flask]) -> Flask:
    return app_with([*NOTES, PROVENANCE])


def frame(browser: Browser, note_id: str) -> Page:
    return browser.get(f"/notes/{note_id}/content/1")


def facts(page: Page) -> dict[str, str]:
    return dict(zip(texts(page, "dt"), texts(page, "dd"), strict=True))


# The page.


def test_heading_and_facts_are_those_of_the_note(browser):
    page = browser.get("/notes/doc-p1-discharge-2024")
    assert page.heading == "Discharge summary"
    (strip,) = texts(page, "aside.patient-strip")
    assert strip.startswith("← Amelia Rose Hartwell · born 12 Apr 1958 Severe allergies: Penic")
    assert links(page, "/patients/") == ["/patients/p1"]
    assert facts(page)["Visit"].startswith("Hospital admission, 18 Jan 2024")
    page = browser.get("/notes/n-ids")
    assert "Keiko Sato" in texts(page, "p.soft")[0]
    assert facts(page)["Custodian"] == "Northgate Family Medicine"
    assert facts(page)["Security label"] == "restricted"
    assert facts(browser.get("/notes/doc-p9-lab-2025-03"))["Identifier"] == "MRL-25-02288"
    assert "← Patient/nobody-at-all" in browser.get("/notes/n-nobody").words
    (source,) = texts(browser.get("/notes/n-text"), "section", aria_labelledby="origin-heading")
    assert in_order(source, "1 Jun 2025, 10:05 UTC", MARKUP, "Lakeside")


def test_strip_has_what_allergies_come_to_or_says_that_they_cannot_be_shown(browser, monkeypatch):
    def strip(note_id: str) -> str:
        return texts(browser.get(f"/notes/{note_id}"), "aside.patient-strip")[0]

    assert strip("doc-p5-lab-2024").endswith(
        "Severe allergies: Lisinopril, Iodinated contrast"
        " (coded as Contrast media, high criticality)"
    )
    assert "does not mean that there are no allergies" in strip("doc-p9-lab-2024")
    monkeypatch.setattr("fhirapp.features.notes.note.allergies_in_brief", lambda *_, **__: {})
    assert "Allergies cannot be shown right now." in strip("doc-p1-discharge-2024")


def test_author_without_a_name_is_in_the_language_of_the_page(browser):
    german = {"headers": {"Accept-Language": "de"}}
    assert "Name nicht erfasst" in browser.get("/notes/n-unnamed", **german).words
    assert "name not recorded" in browser.get("/notes/n-unnamed").words


def test_text_stands_above_the_facts_and_a_frame_is_as_tall_as_its_text(browser):
    page = browser.get("/notes/n-text")
    assert in_order(page.words, "No PENICILLIN since.", "Custodian", "Source")
    short, long = (
        int(elements(browser.get(f"/notes/{note_id}"), "iframe.note-frame")[0].get("height"))
        for note_id in ("n-html", "n-ccda")
    )
    assert 200 < short < 400 < 2 * short < long


def test_note_that_is_not_valid_or_not_current_says_so_above_its_text(browser):
    for note_id in ("n-wrong", "n-old", "n-draft"):
        page = browser.get(f"/notes/{note_id}")
        assert len(elements(page, "p.done")) == 1, note_id
        assert page.response.text.index('"done"') < page.response.text.index("note-text")
    assert elements(browser.get("/notes/n-text"), "p.done") == []
    # Replaced and replacing notes lead to each other.
    assert "/notes/n-newer" in links(browser.get("/notes/n-old"), "/notes/n-newer")
    assert "/notes/n-old" in links(browser.get("/notes/n-newer"), "/notes/n-old")


def test_list_of_notes_has_a_description_where_it_says_more_than_the_type(browser):
    lines = texts(browser.get("/patients/p1"), "li.note-line")
    described = "Dr. Keiko Sato Discharge summary, pneumonia: organism and antibiotic days"
    assert any(described in line for line in lines)
    assert any(line.endswith("Dr. Rafael Castellanos text") for line in lines)


def test_document_or_version_that_does_not_exist_is_refused_with_a_page(browser):
    statuses = {
        "nothing-of-the-kind": 404,
        **{f"n-text/content/{place}": 404 for place in ("2", "0", "1/page/1.png")},
        **{f"n-pdf/content/1/page/{number}.png": 404 for number in (0, 3, 999_999_999)},
        "n-svg/content/1": 404,
        "n-gone/content/1/file": 404,
        "n-text?version=7": 404,
        "n-text?version=../1": 400,
        "%2e%2e%2fPatient%2fp1": 404,
    }
    pages = {path: browser.get(f"/notes/{path}") for path in statuses}
    assert {path: page.status for path, page in pages.items()} == statuses
    assert all(page.heading for page in pages.values())


def test_patient_opens_their_own_notes_alone_and_nobody_does_without_a_session(clinic):
    own, other = browser_of(clinic, PATIENT, "p2", "p1"), browser_of(clinic, PATIENT, "p2")
    paths = ("n-text", "n-html/content/1", "n-pdf/content/1/page/1.png")
    for path in (*paths, "n-text/content/1/file", "n-text/versions"):
        assert own.get(f"/notes/{path}").status == 200
        page = other.get(f"/notes/{path}")
        assert page.status in (403, 404)
        assert "Penicillin" not in page.response.text
        assert Browser(clinic).get(f"/notes/{path}").path.startswith("/sign-in")
    assert Browser(clinic).get("/notes").path.startswith("/sign-in")


# Documents.


def test_plain_text_keeps_its_lines_and_marks_the_words_of_a_search(browser):
    page = browser.get('/notes/n-text?q="penicillin hives"')
    assert "CC\tcough\n\n   <mark>Penicillin: hives</mark>.\nNo PENICILLIN" in page.response.text
    assert len(elements(page, "mark")) == 3
    assert "café" in browser.get("/notes/n-charset").words
    assert "Rash after ceftriaxone. Better now." in browser.get("/notes/n-rtf").words
    page = browser.get("/notes/n-long?q=penicillin")
    assert len(elements(page, "mark")) == 1_000
    assert len(texts(page, "pre")[0]) <= 1_000_000


def test_no_page_of_a_note_runs_or_loads_its_content(browser):
    for given in NOTES:
        page = browser.get(f"/notes/{given['id']}")
        assert page.status == 200
        policy = page.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert policy.startswith("default-src 'self'; ")
        tags = re.findall(r"<[a-z][^>]*>", page.response.text)
        bad = re.compile(r"<script|\son\w+=|javascript:|evil\.example")
        assert [tag for tag in tags if bad.search(tag)] == [], given["id"]


def test_html_word_and_opendocument_are_shown_in_a_sandboxed_frame(browser, clinic):
    for note_id in ("n-html", "n-docx", "n-odt", "n-ccda"):
        (shown,) = elements(browser.get(f"/notes/{note_id}"), "iframe.note-frame")
        assert shown.get("sandbox") == ""
    html = frame(browser, "n-html")
    assert html.words == "Visit Hives after amoxicillin . link"
    bad = ("<script", "javascript:", "evil.example", "<form", "<iframe", "<svg", "onclick")
    assert [text for text in bad if text in html.response.text] == []
    assert 'alt="a picture from elsewhere"' in html.response.text
    letter = "<p>Rash after<s>penicillin&lt;script&gt;</s></p>"
    assert letter in frame(browser, "n-docx").response.text
    assert "<p>Urticaria &lt;b&gt;</p>" in frame(browser, "n-odt").response.text
    words = frame(browser, "n-ccda").words
    assert words.startswith("Discharge Summary Made 2024-05-12 09:15 Patient Ms. Ida Rose Fenwick")
    assert "Allergies and Intolerances No known drug allergies" in words
    bomb = frame(browser, "n-bomb")
    assert len(elements(bomb, "p.soft")) == 1
    assert "aaaa" not in bomb.response.text
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    assert "n-docx" in fhir.ids("DocumentReference?_content=rash")
    assert "n-odt" in fhir.ids("DocumentReference?_content=urticaria")


def test_framed_content_may_do_nothing_and_only_our_pages_frame_it(browser):
    for path in ("n-html/content/1", "n-picture/content/1", "n-ccda/content/1/file"):
        headers = browser.get(f"/notes/{path}").headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("sandbox; default-src 'none'; style-src 'self'; img-src data:;")
        assert policy.endswith("frame-ancestors 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "SAMEORIGIN"


def test_pdf_is_shown_as_pictures_with_its_text(browser):
    page = browser.get("/notes/n-pdf?q=torasemide")
    assert len(elements(page, "img.note-picture")) == 2
    assert texts(page, "mark") == ["torasemide"]
    picture = "/notes/n-pdf/content/1/page/2.png"
    answer = browser.get(picture)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/png")
    assert answer.response.data.startswith(b"\x89PNG\r\n\x1a\n")
    assert answer.headers["Cache-Control"] == "private, no-cache"
    again = browser.get(picture, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.response.data) == (304, b"")
    # A program in a PDF is not in its picture.
    assert "Potassium 7.1, repeat at once" in browser.get("/notes/n-active-pdf").words
    active = browser.get("/notes/n-active-pdf/content/1/page/1.png").response.data
    assert active.startswith(b"\x89PNG")
    assert b"JavaScript" not in active


def test_file_is_saved_and_never_shown(browser):
    page = browser.get("/notes/n-svg/content/1/file")
    assert page.response.data == DRAWING
    # Browsers load this type neither as a script nor as a style.
    assert page.headers["Content-Type"] == "application/octet-stream"
    assert page.headers["Content-Disposition"].startswith("attachment; filename=")
    assert page.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


def test_unreadable_part_of_a_document_is_named_beside_its_readable_sections(own_app, tmp_path):
    broken = b64encode(b"Not RTF").decode()
    document = clinical(
        section("Allergies", "Penicillin: urticaria"),
        base64_section("Hospital &lt;course&gt;", "application/rtf", broken),
        section("Pictures", "None", medium("image/tiff", "SUkqAA==")),
        base64_section("Letter", "application/rtf", b64encode(RTF).decode()),
        section("Plan", "Torasemide daily"),
    )
    report = load(own_app, write(tmp_path, note("n-inside", attached(document, "text/xml"))))
    reasons = ("image/tiff is not read", "what is called RTF and is not")
    named = "DocumentReference/n-inside"
    assert report.also() == [("parts without words", 1, f"{reason}: {named}") for reason in reasons]
    assert report.content()["unreadableParts"] == dict.fromkeys(reasons, 1)
    assert report.content()["unreadablePartsIn"] == {reason: [named] for reason in reasons}
    fhir = Fhir(own_app, token_for(own_app, "system/*.rs"))
    for words in ("urticaria", "torasemide", "ceftriaxone", "hospital"):
        assert "n-inside" in fhir.ids(f"DocumentReference?_content={words}")
    browser = browser_of(own_app, CLINICIAN)
    page = browser.get("/notes/n-inside?q=ceftriaxone")
    parts = f"Hospital <course> ({reasons[1]}); Pictures ({reasons[0]})."
    assert any(text.endswith(parts) for text in texts(page, "p"))
    assert texts(page, "mark") == ["ceftriaxone"]
    shown = browser.get("/notes/n-inside/content/1?version=1").response.text
    assert in_order(shown, "Penicillin: urticaria", "Torasemide daily")
    assert broken not in shown


# Attachments that no import accepts.


def test_attachment_without_readable_data_has_a_reason(app):
    def found(**given: Any) -> Attachment:
        resource = {"content": [{"attachment": given}]}
        with app.test_request_context():
            one = attachment(resource, 1, OwnToken("", "", None, 0))
        assert one is not None
        return one

    assert {found(data=data).data for data in ("!!not base64!!", "QUJ")} == {None}
    unreadable = [
        found(data="QUJ"),
        found(),
        found(url="ftp://a.example/x"),
        found(data="QUJD", size=30_000_000),
    ]
    assert [document.data for document in unreadable] == [None] * 4
    key_words = ("base64", "neither its data nor its address", "another server", "20 MB")
    for document, words in zip(unreadable, key_words, strict=True):
        assert words in document.problem
    replaced = found(data="QUJD", hash="AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    assert (replaced.data, "was replaced" in replaced.remark) == (b"ABC", True)


def test_document_is_shown_by_its_bytes_before_its_type():
    for content_type, data, expected in (
        ("text/plain", b"words", "text"),
        ("", b"words", "text"),
        ("text/html", b"<p>words", "frame"),
        ("application/xml", b"<ClinicalDocument/>", "frame"),
        ("application/xml", b"<other/>", "words"),
        ("application/pdf", b"%PDF-1.4", "pdf"),
        ("text/plain", b"%PDF-1.4", "pdf"),
        ("image/png", b"\x89PNG\r\n\x1a\n", "picture"),
        ("application/pdf", b"\xff\xd8\xff\xe0", "picture"),
        ("image/png", b"<svg/>", "download"),
        ("image/svg+xml", b"<svg/>", "download"),
        ("image/gif", b"GIF89a", "download"),
        ("application/msword", b"{\\rtf1 words}", "words"),
        ("application/msword", word(""), "frame"),
        (ODT, b"", "frame"),
        ("application/json", b"{}", "words"),
        ("no type at all", b"\x00\x01", "download"),
    ):
        assert way(Attachment(1, "", content_type, data)) == expected, (content_type, data)


def test_plain_text_has_no_control_characters_and_one_kind_of_line_end():
    found = Attachment(1, "", "text/plain", b"a\r\nb\rc\x00\x1b[31md\te\x0c")
    assert plain_text(found) == ("a\nb\nc[31md\te", False)
