"""A note's page: its heading, its documents, and whatever somebody put into them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN, PATIENT
from tests import TESTS
from tests.support.browsing import Browser, Page, add_person
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
    add,
    attached,
    note,
)
from tests.support.office import DOCX, ODT, opendocument, p, r, word

CCDA = TESTS / "ccda" / "discharge-summary.xml"
LINES = "CC\tcough\n\n   Penicillin: hives.\nNo PENICILLIN since.\n" * 3
STRUCK = r("penicillin&lt;script&gt;", "<w:strike/>")
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
        securityLabel=[
            {
                "coding": [
                    {
                        "system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality",
                        "code": "R",
                    }
                ]
            }
        ],
    ),
    note("n-turned", attached("Give \u202e01\u202c mg")),
    note("n-long", attached("penicillin and a line of words\n" * 40_000)),
    note("n-wrong", attached("Of another"), status="entered-in-error"),
    note("n-old", attached("Old"), status="superseded"),
    note("n-draft", attached("Draft"), docStatus="preliminary", date=None, type=None),
    note(
        "n-newer",
        attached("New"),
        relatesTo=[{"code": "replaces", "target": {"reference": "DocumentReference/n-old"}}],
    ),
    {
        "resourceType": "Provenance",
        "id": "p-n-text",
        "target": [{"reference": "DocumentReference/n-text"}],
        "recorded": "2025-06-01T10:05:00Z",
        "activity": {"coding": [{"code": "CREATE"}]},
        "agent": [
            {
                "type": {"coding": [{"code": "author"}]},
                "who": {"display": MARKUP},
                "onBehalfOf": {"display": "Lakeside"},
            }
        ],
    },
]


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    app = make_app()
    add(app, tmp_path_factory.mktemp("notes"), *NOTES)
    return app


@pytest.fixture(scope="module")
def browser(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def frame(browser: Browser, note_id: str, number: int = 1) -> Page:
    return browser.get(f"/notes/{note_id}/content/{number}")


def test_plain_text_keeps_its_lines_and_marks_what_was_looked_for(browser):
    page = browser.get('/notes/n-text?q="penicillin hives"')
    assert page.status == 200
    assert "CC\tcough\n\n   <mark>Penicillin: hives</mark>.\nNo PENICILLIN" in page.response.text
    assert "3 matches, highlighted below." in page.words


@pytest.mark.parametrize(
    ("note_id", "told"),
    [
        ("n-svg", "SVG images can contain scripts, so they are not shown here."),
        ("n-bomb", "Its text cannot be read: XML that declares entities."),
        ("n-broken-pdf", "Its text cannot be read: broken PDF."),
        ("n-called-picture", "This file type cannot be shown here. Save"),
        ("n-word", "This file type cannot be shown here. Save"),
        (
            "n-elsewhere",
            "Stored on another server, and not loaded from there: https://evil.example/",
        ),
        ("n-gone", "The document is not available, or you don't have access to it."),
        ("n-large", "Larger than 20 MB"),
        ("n-charset", "café"),
        ("n-rtf", "Rash after ceftriaxone. Better now."),
        ("n-drawing-as-text", '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)">'),
        ("n-nothing", "This note has no attached document"),
        ("n-nobody", "record of Patient/nobody-at-all"),
        ("n-no-subject", "record of not recorded"),
        ("n-wrong", "Entered in error. This note is not valid."),
        ("n-old", "Superseded. This note was replaced by a newer one."),
        ("n-old", "A later note replaces this one"),
        ("n-newer", "The note you are viewing replaces this one"),
        ("n-draft", "Preliminary. This note is not signed as final"),
        ("n-draft", "Note of unrecorded type"),
        ("n-draft", "not dated · author not recorded"),
        ("n-text", "Created, 1 Jun 2025, 10:05 UTC"),
        ("n-text", 'Written by <img src=x onerror="run()"><b>Eve</b>, on behalf of Lakeside.'),
        ("doc-p1-progress-2024", "Source not recorded."),
        ("n-ids", "Keiko Sato · record of Amelia Rose Hartwell"),
        ("n-ids", "Custodian Northgate Family Medicine"),
        ("n-ids", "Security label restricted"),
        ("doc-p9-lab-2025-03", "Identifier MRL-25-02288"),
        (
            "doc-p9-lab-2025-03",
            "This note has no attached document, so its text is not available here.",
        ),
        ("n-turned", "Contains characters that reverse the direction of text"),
    ],
)
def test_a_note_tells_what_it_is_and_what_cannot_be_shown(browser, note_id, told):
    page = browser.get(f"/notes/{note_id}")
    assert page.status == 200
    assert told in page.words


@pytest.mark.parametrize("given", NOTES, ids=lambda one: one["id"])
def test_no_page_of_a_note_has_anything_that_runs_or_is_loaded_from_elsewhere(browser, given):
    if given["resourceType"] != "DocumentReference":
        return
    page = browser.get(f"/notes/{given['id']}")
    assert page.status == 200
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
    tags = re.findall(r"<[a-z][^>]*>", page.response.text)
    assert not [tag for tag in tags if re.search(r"\son\w+=|javascript:|evil\.example", tag)]
    assert page.response.text.count("<script") == 0


def test_names_are_isolated_and_turn_no_words(browser):
    assert "<bdi>Dr. evE Turner</bdi>" in browser.get("/notes/n-names").response.text


def test_word_and_opendocument_are_framed_and_their_words_found(browser, clinic):
    assert '<iframe class="note-frame" sandbox=""' in browser.get("/notes/n-docx").response.text
    letter = frame(browser, "n-docx").response.text
    assert "<p>Rash after<s>penicillin&lt;script&gt;</s></p>" in letter
    assert "<p>Urticaria &lt;b&gt;</p>" in frame(browser, "n-odt").response.text
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    assert "n-docx" in fhir.ids("DocumentReference?_content=rash")
    assert "n-odt" in fhir.ids("DocumentReference?_content=urticaria")


def test_html_is_framed_without_what_runs_or_loads(browser):
    assert '<iframe class="note-frame" sandbox=""' in browser.get("/notes/n-html").response.text
    page = frame(browser, "n-html")
    assert page.words == "Visit Hives after amoxicillin . link"
    for gone in ("<script", "javascript:", "evil.example", "<form", "<iframe", "<svg", "onclick"):
        assert gone not in page.response.text
    assert 'alt="a picture from elsewhere"' in page.response.text


@pytest.mark.parametrize(
    "path", ["n-html/content/1", "n-ccda/content/1", "n-picture/content/1", "n-ccda/content/1/file"]
)
def test_what_is_framed_may_do_nothing_and_only_our_pages_may_frame_it(browser, path):
    headers = browser.get(f"/notes/{path}").headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none'; style-src 'self'; img-src data:;")
    assert policy.endswith("frame-ancestors 'self'")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "SAMEORIGIN"


def test_a_clinical_document_is_shown_by_its_heading_and_its_sections(browser):
    words = frame(browser, "n-ccda").words
    assert words.startswith("Discharge Summary Made 2024-05-12 09:15 Patient Ms. Ida Rose Fenwick")
    assert "Allergies and Intolerances No known drug allergies" in words


def test_xml_that_declares_entities_is_not_expanded(browser):
    page = frame(browser, "n-bomb")
    assert (
        "This document cannot be shown in its original form: XML that declares entities."
        in page.words
    )
    assert "aaaa" not in page.response.text


def test_a_pdf_is_pictures_of_its_pages_with_its_words_beneath(browser):
    page = browser.get("/notes/n-pdf?q=torasemide")
    assert "Page 2 of 2" in page.words
    assert "<mark>torasemide</mark>" in page.response.text
    answer = browser.get("/notes/n-pdf/content/1/page/2.png")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/png")
    assert answer.response.data.startswith(b"\x89PNG\r\n\x1a\n")
    assert answer.headers["Cache-Control"] == "private, no-cache"
    again = {"If-None-Match": answer.headers["ETag"]}
    known = browser.get("/notes/n-pdf/content/1/page/2.png", headers=again)
    assert (known.status, known.response.data) == (304, b"")


@pytest.mark.parametrize("place", [0, 3, 999_999_999])
def test_a_page_that_a_pdf_does_not_have_is_told(browser, place):
    page = browser.get(f"/notes/n-pdf/content/1/page/{place}.png")
    assert (page.status, page.headers["Content-Type"]) == (404, "text/html; charset=utf-8")


def test_a_pdf_with_a_program_is_a_picture_like_any_other(browser):
    assert "Potassium 7.1, repeat at once" in browser.get("/notes/n-active-pdf").words
    picture = browser.get("/notes/n-active-pdf/content/1/page/1.png").response.data
    assert picture.startswith(b"\x89PNG")
    assert b"JavaScript" not in picture


def test_a_megabyte_of_text_is_shown_to_its_limit_and_hits_are_marked(browser):
    page = browser.get("/notes/n-long?q=penicillin")
    assert page.status == 200
    assert "Only the beginning is shown. Save the file to read all of it." in page.words
    assert page.response.text.count("<mark>") == 1_000


def test_a_file_is_saved_and_never_shown(browser):
    page = browser.get("/notes/n-svg/content/1/file")
    assert page.response.data == DRAWING
    # Whatever type it has, a page of ours could not load it as a script or a style.
    assert page.headers["Content-Type"] == "application/octet-stream"
    assert page.headers["Content-Disposition"].startswith("attachment; filename=")
    assert page.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/notes/nothing-of-the-kind", 404),
        ("/notes/n-text/content/2", 404),
        ("/notes/n-text/content/0", 404),
        ("/notes/n-text/content/1/page/1.png", 404),
        ("/notes/n-svg/content/1", 404),
        ("/notes/n-gone/content/1/file", 404),
        ("/notes/n-text?version=7", 404),
        ("/notes/n-text?version=../1", 400),
        ("/notes/%2e%2e%2fPatient%2fp1", 404),
    ],
)
def test_what_is_not_there_is_told_on_a_page(browser, path, status):
    page = browser.get(path)
    assert page.status == status
    assert page.heading in ("Page not found", "Invalid request")


def test_a_patient_opens_their_own_notes_alone(clinic):
    own = Browser(clinic).resume(add_person(clinic, PATIENT, "p2", "p1"))
    other = Browser(clinic).resume(add_person(clinic, PATIENT, "p2"))
    paths = ["/notes/n-text", "/notes/n-html/content/1", "/notes/n-pdf/content/1/page/1.png"]
    paths += ["/notes/n-text/content/1/file", "/notes/n-text/versions"]
    assert [own.get(path).status for path in paths] == [200] * 5
    for path in paths:
        page = other.get(path)
        assert page.status in (403, 404)
        assert "Penicillin" not in page.response.text


def test_nobody_opens_a_note_without_signing_in(clinic):
    for path in ("/notes", "/notes/n-text", "/notes/n-text/content/1", "/notes/n-text/versions"):
        assert Browser(clinic).get(path).heading == "Sign in"


def test_a_text_that_turns_nothing_around_is_shown_without_a_warning(browser):
    assert "reverse the direction of text" not in browser.get("/notes/n-text").words


def test_the_list_tells_what_a_note_is_about_where_that_is_more_than_its_kind(browser):
    words = browser.get("/patients/p1").words
    assert "Dr. Keiko Sato Discharge summary, pneumonia: organism and antibiotic days" in words
    assert "Dr. Rafael Castellanos text" in words


def test_the_heading_tells_whose_record_it_is_and_of_which_visit(browser):
    page = browser.get("/notes/doc-p1-discharge-2024")
    assert page.heading == "Discharge summary"
    assert "record of Amelia Rose Hartwell, born 12 Apr 1958" in page.words
    assert "Visit Hospital admission, 18 Jan 2024" in page.words
    assert page.offered["Amelia Rose Hartwell"] == "/patients/p1"


def test_a_file_inside_that_is_unreadable_is_named_beside_all_other_sections(own_app, tmp_path):
    broken = b64encode(b"Not RTF").decode()
    document = clinical(
        section("Allergies", "Penicillin: urticaria"),
        base64_section("Hospital &lt;course&gt;", "application/rtf", broken),
        section("Pictures", "None", medium("image/tiff", "SUkqAA==")),
        base64_section("Letter", "application/rtf", b64encode(RTF).decode()),
        section("Plan", "Torasemide daily"),
    )
    one = note("n-inside", attached(document, "text/xml"))
    report = load(own_app, write(tmp_path, one))
    reasons = ("image/tiff is not read", "what is called RTF and is not")
    named = "DocumentReference/n-inside"
    assert report.also() == [("parts without words", 1, f"{reason}: {named}") for reason in reasons]
    assert report.content()["unreadableParts"] == dict.fromkeys(reasons, 1)
    assert report.content()["unreadablePartsIn"] == {reason: [named] for reason in reasons}
    fhir = Fhir(own_app, token_for(own_app, "system/*.rs"))
    for words in ("urticaria", "torasemide", "ceftriaxone", "hospital"):
        assert "n-inside" in fhir.ids(f"DocumentReference?_content={words}")
    browser = Browser(own_app).resume(add_person(own_app, CLINICIAN))
    page = browser.get("/notes/n-inside?q=ceftriaxone")
    assert (
        "Contains files whose text cannot be read or searched: Hospital <course> (what is called"
        " RTF and is not); Pictures (image/tiff is not read)."
    ) in page.words
    assert "Rash after ceftriaxone ." in page.words
    shown = browser.get("/notes/n-inside/content/1?version=1").response.text
    assert "Penicillin: urticaria" in shown
    assert "Torasemide daily" in shown
    assert broken not in shown
