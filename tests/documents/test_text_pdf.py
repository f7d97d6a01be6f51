"""Text of PDF: the words of its pages, with what is filled in; locked and damaged ones."""

from __future__ import annotations

import pytest

from fhirapp.documents import Unreadable
from fhirapp.documents.media import MAX_CHARACTERS, tidy
from fhirapp.documents.pdf import read_pdf
from tests.support.documents import lines, locked_pdf, pdf, pdf_of_pages, stream


def text(document: bytes) -> str:
    return tidy(read_pdf(document, ""))


def text_or_reason(document: bytes) -> str:
    try:
        return text(document)
    except Unreadable as error:
        return str(error)


def test_text_of_pages():
    document = pdf_of_pages(lines("Discharge summary", "Ana Ruiz, niña"), lines("Page two"))
    assert text(document) == "Discharge summary\nAna Ruiz, niña\nPage two"


def test_pages_beyond_the_maximum_length_are_not_read():
    full = lines(*["warfarin " * 100] * 600)
    found = read_pdf(pdf_of_pages(full, full, lines("heparin")), "")
    assert len(found) > MAX_CHARACTERS
    assert "heparin" not in found


def test_word_that_a_line_end_splits_is_found_whole_and_in_parts(subtests):
    for first, second, words in [
        ("severe hyper-", "tension found", ["hypertension", "hyper-tension"]),
        ("a beta-", "blocker", ["betablocker", "beta-blocker"]),
        ("with iodine-", "131 given", ["iodine-131"]),
    ]:
        with subtests.test(first=first):
            found = text(pdf_of_pages(lines(first, second))).split()
            assert set(words) <= set(found)
            assert "iodine131" not in found


def test_annotations_of_a_pdf_are_read():
    """It is no part of the page's content, but of what lies over it: ISO 32000-1 §12.5.5."""
    stamp = stream(
        b"BT /F 12 Tf 1 5 Td (warfarin) Tj ET",
        b"/Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F 3 0 R >> >>",
    )
    document = pdf(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 /MediaBox [0 0 595 842] >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Annots [6 0 R]"
        b" /Resources << /Font << /F 3 0 R >> >> >>",
        stream(lines("Takes")),
        b"<< /Type /Annot /Subtype /Stamp /Rect [72 600 272 620] /F 4 /AP << /N 7 0 R >> >>",
        stamp,
    )
    assert text(document) == "Takes\nwarfarin"


def test_pdf_that_needs_a_password_is_unreadable():
    with pytest.raises(Unreadable) as error:
        text(locked_pdf(lines("warfarin"), password=True))
    assert str(error.value) == "PDF that needs a password"


def test_pdf_that_anybody_can_open_is_read():
    """Only its owner may change it, so it is encrypted with the empty password."""
    document = locked_pdf(lines("warfarin"), password=False)
    assert b"warfarin" not in document
    assert text(document) == "warfarin"


def test_page_that_is_broken_does_not_hide_the_others():
    document = pdf_of_pages(lines("one"), lines("two")).replace(b"4 0 R 6 0 R", b"9 9 R 6 0 R")
    assert text(document) == "two"


def test_truncated_pdf_is_unreadable_or_text(subtests):
    for part in [0.1, 0.5, 0.9]:
        with subtests.test(part=part):
            document = pdf_of_pages(lines("warfarin"), lines("heparin"))
            found = text_or_reason(document[: int(len(document) * part)])
            assert found == "broken PDF" or set(found.split()) <= {"warfarin", "heparin"}


def test_pdf_that_goes_in_circles_comes_to_an_end(subtests):
    for document in [
        pdf(b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R] /Count 99 >>"),
        pdf(b"<< /Type /Catalog /Pages 1 0 R >>"),
        pdf(b"1 0 R"),
        pdf_of_pages(lines("a"), trailer=b"/Prev 9"),
        b"%PDF-1.7\n1 0 obj " + b"[" * 100_000,
        b"%PDF-1.7\n" + b"1 0 obj << " * 10_000,
    ]:
        with subtests.test(document=document):
            assert text_or_reason(document) in {"", "a", "broken PDF"}
