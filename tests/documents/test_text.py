"""Documents of every kind become text, or are unreadable: nothing else.

What each reader makes of its kind is in test_text_markup, _rtf and _pdf; how the process that
reads is bounded, in test_text_worker.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.documents import Extractor, Unreadable
from fhirapp.documents.extractor import MAX_BYTES
from fhirapp.documents.media import MAX_CHARACTERS, DocumentRequest, ExtractedText, Unread, kind_of
from fhirapp.documents.worker import answer
from tests.support.documents import (
    C_CDA,
    base64_section,
    clinical,
    lines,
    medium,
    pdf_of_pages,
    section,
    unstructured,
)

PDF = pdf_of_pages(lines("Takes warfarin"))
RTF = rb"{\rtf1\ansi Takes \b warfarin\b0\par}"
HTML = b"<!DOCTYPE html><title>Note</title><p>Takes <b>warfarin</b>"
JSON = json.dumps({"note": ["Takes", {"drug": "warfarin"}], "dose": 5, "taken": True}).encode()


@pytest.fixture(scope="module")
def extractor() -> Iterator[Extractor]:
    with Extractor() as made:
        yield made


def text_of(data: bytes, content_type: str) -> str:
    """Return a document's text, read in this process as the worker reads it."""
    return answer(DocumentRequest("text", *kind_of(content_type, data)), data).content.decode()


def test_words_of_a_document_are_found(subtests):
    for content_type, data, text in [
        ("text/plain", b"Takes warfarin", "Takes warfarin"),
        ("text/plain; charset=utf-16le", "Takes\nwarfarin".encode("utf-16-le"), "Takes\nwarfarin"),
        ("text/markdown", b"# Takes\n\nwarfarin", "# Takes\nwarfarin"),
        ("text/csv", b"drug,dose\r\nwarfarin,5\r\n", "drug,dose\nwarfarin,5"),
        ("text/html", HTML, "Note\nTakes warfarin"),
        ("TEXT/HTML ; Charset=UTF-8", HTML, "Note\nTakes warfarin"),
        ("application/xhtml+xml", HTML, "Note\nTakes warfarin"),
        ("application/xml", b"<a><b>Takes</b><c>warfarin</c></a>", "Takes\nwarfarin"),
        ("text/xml", b"<a>Takes warfarin</a>", "Takes warfarin"),
        ("application/hl7-cda+xml", b"<a>Takes warfarin</a>", "Takes warfarin"),
        ("text/x-hl7-text+xml", b"<a>Takes warfarin</a>", "Takes warfarin"),
        ("application/rtf", RTF, "Takes warfarin"),
        ("text/rtf", RTF, "Takes warfarin"),
        ("application/pdf", PDF, "Takes warfarin"),
        ("application/json", JSON, "Takes\nwarfarin"),
        ("application/fhir+json", JSON, "Takes\nwarfarin"),
        ("application/json", b'"\\ud800 warfarin\\u0000"', "warfarin"),
        # Without a media type, the first bytes decide.
        ("", b"Takes warfarin", "Takes warfarin"),
        ("", "Toma warfarina cada mañana".encode(), "Toma warfarina cada mañana"),
        ("application/octet-stream", PDF, "Takes warfarin"),
        ("binary/octet-stream", RTF, "Takes warfarin"),
        ("application/octet-stream", HTML, "Note\nTakes warfarin"),
        ("", b"<!-- saved -->\n<html><p>Takes<p>warfarin", "Takes\nwarfarin"),
        ("", b'<?xml version="1.0"?><a>Takes warfarin</a>', "Takes warfarin"),
        ("pdf", PDF, "Takes warfarin"),
        ("warfarin", b"Takes warfarin", "Takes warfarin"),
        # The media type is wrong.
        ("application/msword", RTF, "Takes warfarin"),
        ("text/plain", PDF, "Takes warfarin"),
        ("image/png", b"\xef\xbb\xbf \r\n" + RTF, "Takes warfarin"),
    ]:
        with subtests.test(content_type=content_type):
            assert text_of(data, content_type) == text


def test_document_without_words_has_the_empty_text(subtests):
    for content_type in ["text/plain", "text/plain; charset=utf-8", "text/html", ""]:
        for data in [b"", b" \r\n\t ", b"\xef\xbb\xbf"]:
            with subtests.test(content_type=content_type):
                assert text_of(data, content_type) == ""


UNKNOWN = "what has no media type is read only if it is text, PDF, RTF, Word or OpenDocument"


def test_unreadable_document_has_a_reason_without_its_content(subtests):
    for content_type, data, reason in [
        ("image/png", b"\x89PNG", "image/png is not read"),
        ("IMAGE/SVG+XML; charset=utf-8", b"<svg/>", "image/svg+xml is not read"),
        ("application/zip", b"PK\3\4", "application/zip is not read"),
        ("application/msword", b"\xd0\xcf\x11\xe0", "application/msword is not read"),
        ("application/pdf", b"Takes warfarin", "broken PDF"),
        ("application/pdf", b"", "broken PDF"),
        ("application/rtf", b"Takes warfarin", "what is called RTF and is not"),
        ("text/xml", b"Takes warfarin", "XML that is not well-formed"),
        ("text/xml", b"", "XML that is not well-formed"),
        ("text/xml", b"<a>Takes warfarin", "XML that is not well-formed"),
        ("application/json", b"Takes warfarin", "broken JSON"),
        ("application/json", b"[" * 100_000, "broken JSON"),
        ("", b"\0\1\2", UNKNOWN),
        ("", b"\xff\xfe\xfd", UNKNOWN),
    ]:
        with subtests.test(content_type=content_type):
            with pytest.raises(Unreadable) as error:
                text_of(data, content_type)
            assert str(error.value) == reason


def test_reason_does_not_repeat_an_invalid_media_type(extractor):
    """It may be anything, a name too."""
    with pytest.raises(Unreadable) as error:
        extractor.text_of(b"\0", "Ana Ruiz/1950 \n")
    assert "Ruiz" not in str(error.value)


def test_document_that_is_too_large_is_unreadable(extractor):
    with pytest.raises(Unreadable, match="larger than 50 MB"):
        extractor.text_of(bytes(MAX_BYTES + 1), "text/plain")


def test_text_is_cut_at_its_maximum_length(extractor):
    text = extractor.text_of(b"word " * (MAX_CHARACTERS // 2), "text/plain")
    assert len(text) == MAX_CHARACTERS - 1
    assert set(text.split()) == {"word"}


def test_body_of_an_unstructured_c_cda_is_read():
    for content_type, body in (("application/pdf", PDF), ("text/rtf", RTF)):
        enclosed = unstructured(content_type, b64encode(body).decode())
        assert text_of(enclosed, "text/xml") == "Scanned note\nTakes warfarin"


UNREADABLE = [
    ("image/tiff", "SUkqAA==", "image/tiff is not read"),
    ("text/rtf", "Tm90IFJURg==", "what is called RTF and is not"),
    ("application/pdf", b64encode(PDF[:30]).decode(), "broken PDF"),
    ("text/xml", b64encode(b"<a>").decode(), "XML that is not well-formed"),
    ("application/pdf", "not base64!", "what is called base64 and is not"),
    ("application/pdf", "ñ", "what is called base64 and is not"),
]


def test_c_cda_whose_body_is_unreadable_has_its_header(extractor, subtests):
    for content_type, body, reason in UNREADABLE:
        with subtests.test(content_type=content_type):
            found = extractor.read(unstructured(content_type, body), "text/xml")
            assert found == ExtractedText("Scanned note", (Unread("", reason),))


def test_file_that_is_unreadable_takes_nothing_from_the_others(extractor, subtests):
    for content_type, body, reason in UNREADABLE:
        with subtests.test(content_type=content_type):
            shows = 'See <renderMultiMedia referencedObject="MM1"/>'
            document = clinical(
                *(section(f"Section {number}", f"Word{number}") for number in range(12)),
                base64_section("Hospital course", content_type, body),
                section("Pictures", shows, medium(content_type, body)),
                base64_section("Discharge letter", "text/rtf", b64encode(RTF).decode()),
                section("Attached", "", medium("application/pdf", b64encode(PDF).decode(), "MM2")),
                *(section(f"Section {number}", f"Word{number}") for number in range(12, 25)),
            )
            found = extractor.read(document, "text/xml")
            lines = found.text.split("\n")
            assert [one for one in lines if one.startswith("Word")] == [
                f"Word{n}" for n in range(25)
            ]
            assert lines.count("Takes warfarin") == 2
            assert {"Hospital course", "Pictures", "See", "Discharge letter"} < set(lines)
            assert found.unread == (Unread("Hospital course", reason), Unread("Pictures", reason))
            # What is left is shown too, and no base64.
            shown = extractor.html_of(document, "text/xml")
            assert all(f"<h2>Section {n}</h2><div>Word{n}</div>" in shown for n in range(25))
            file = f"<i>(a file that is not shown here: {content_type})</i>"
            assert f"<h2>Hospital course</h2><div>{file}</div>" in shown
            picture = "<i>(a picture that is not shown)</i>"
            assert f"<div>See {picture if content_type == 'image/tiff' else file}</div>" in shown
            assert body not in shown


def test_unread_file_within_a_file_is_named_by_its_own_section(extractor):
    scan = base64_section("Scan", "image/tiff", "SUkqAA==")
    inner = clinical(section("Plan", "Rest"), scan)
    outer = clinical(base64_section("Letter", "text/xml", b64encode(inner).decode()))
    found = extractor.read(outer, "text/xml")
    assert found.text.split("\n") == ["Visit", "Letter", "Visit", "Plan", "Rest", "Scan"]
    assert found.unread == (Unread("Scan", "image/tiff is not read"),)


def test_reference_or_thumbnail_of_a_file_is_not_a_file(extractor, subtests):
    for value in [
        '<value mediaType="image/png" representation="B64"><reference value="a.png"/></value>',
        '<value representation="B64">{rtf}<thumbnail representation="B64">iVBO</thumbnail></value>',
    ]:
        with subtests.test(value=value):
            entry = (
                f"<observationMedia>{value.format(rtf=b64encode(RTF).decode())}</observationMedia>"
            )
            found = extractor.read(clinical(section("Letter", "See below", entry)), "text/xml")
            assert found.unread == ()
            assert ("Takes warfarin" in found.text) is ("{rtf}" in value)


def test_c_cda_in_a_c_cda_is_read_to_the_end(extractor):
    document = C_CDA.encode()
    for _ in range(20):
        document = unstructured("text/xml", b64encode(document).decode())
    assert "Penicillin G" in extractor.text_of(document, "text/xml")


CONTENT_TYPES = [
    *("text/plain", "text/plain; charset=utf-16", "text/html", "text/html; charset=gb18030"),
    *("text/xml", "application/rtf", "application/pdf", "application/json", "", "image/png"),
]
BEGINNINGS = [b"", PDF[:-200], PDF[:300], RTF[:-8], HTML, C_CDA.encode()[:1800], JSON[:-9], b"\\'"]


@pytest.mark.campaign
@settings(max_examples=400)
@given(
    st.sampled_from(BEGINNINGS),
    st.binary(max_size=300),
    st.sampled_from(CONTENT_TYPES) | st.text(max_size=30),
)
def test_any_bytes_are_text_or_unreadable(extractor, beginning, rest, content_type):
    try:
        text = extractor.text_of(beginning + rest, content_type)
    except Unreadable:
        return
    text.encode()
    assert "\0" not in text
