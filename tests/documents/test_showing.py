"""Documents as pages show them: safe HTML, and pictures of a PDF's pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fhirapp.documents import Extractor, Unreadable
from tests import TESTS
from tests.support.documents import lines, pdf_of_pages
from tests.support.noted import BOMB, DRAWING, SCRIPTED, TWO_PAGES

CCDA = TESTS / "ccda"
HEAD = b'<ClinicalDocument xmlns="urn:hl7-org:v3"><component><structuredBody><component><section>'
TAIL = b"</section></component></structuredBody></component></ClinicalDocument>"


@pytest.fixture(scope="module")
def extractor() -> Iterator[Extractor]:
    with Extractor() as made:
        yield made


def test_html_keeps_text_and_no_active_content(extractor, subtests):
    for given, shown in [
        (b"<p onclick='x()'>a</p>", "<p>a</p>"),
        (b"<script>x()</script><style>p{}</style>a", "a"),
        (b"<a href='javascript:x()'>a</a>", "a"),
        (b"<iframe src=x>b</iframe>a<object data=x></object>", "a"),
        (b"<form action=x><input><button>send</button></form>", "send"),
        (b"<p style='position:fixed' class=x id=y dir=rtl>a</p>", '<p dir="rtl">a</p>'),
        (b"<img src='https://a.example/x.png' alt=A>", '<img alt="A">'),
        (b"<img src='data:image/svg+xml;base64,AAAA'>", "<img>"),
        (b"<img src='data:image/png;base64,AAAA' onload=x>",
         '<img src="data:image/png;base64,AAAA">'),
        (DRAWING, ""),
        (b"<math><mi>x</mi></math>a", "a"),
        (b"<td colspan=2>a", "a"),
        (b"a<!-- b -->", "a"),
        (b"<p>\xe9", "<p>é</p>"),
        (b"<meta charset=utf-8><p>\xc3\xa9", "<p>é</p>"),
        (b"&lt;script&gt;", "&lt;script&gt;"),
    ]:  # fmt: skip
        with subtests.test(given=given):
            assert extractor.html_of(given, "text/html") == shown


def test_html_full_of_scripts_keeps_none(extractor):
    shown = extractor.html_of(SCRIPTED, "text/html")
    assert "Hives after <b>amoxicillin</b>." in shown
    assert "ran" not in shown
    assert "evil" not in shown


def test_narrative_of_a_clinical_document_becomes_html(extractor, subtests):
    for body, shown in [
        (b"<title>A &lt;b&gt;</title><text>b</text>", "<h2>A &lt;b&gt;</h2><div>b</div>"),
        (b"<text><paragraph>a<br/>b</paragraph></text>", "<div><p>a<br>b</p></div>"),
        (b"<text><content styleCode='Bold'>a</content></text>", "<div><b>a</b></div>"),
        (b"<text><content revised='delete'>a</content></text>", "<div><del>a</del></div>"),
        (b"<text><list listType='ordered'><item>a</item></list></text>",
         "<div><ol><li>a</li></ol></div>"),
        (b"<text><table><tbody><tr><td colspan='2'>a</td></tr></tbody></table></text>",
         '<div><table><tbody><tr><td colspan="2">a</td></tr></tbody></table></div>'),
        (b"<text><linkHtml href='javascript:x()'>a</linkHtml></text>", "<div>a</div>"),
        (b"<text><script>x()</script>a</text>", "<div>x()a</div>"),
        (b"<text>&lt;script&gt;x()&lt;/script&gt;</text>",
         "<div>&lt;script&gt;x()&lt;/script&gt;</div>"),
        (b"<entry><observation/></entry>",
         "<p>No section of this document is written for people.</p>"),
    ]:  # fmt: skip
        with subtests.test(body=body):
            found = extractor.html_of(HEAD + body + TAIL, "text/xml")
            assert found == f"<h1>Clinical document without a title</h1><dl></dl>{shown}"


def test_time_of_a_clinical_document_is_shown_to_the_minute(extractor, subtests):
    for written, shown in [
        ("202403051430-0500", "2024-03-05 14:30"),
        ("2024-03-05", "2024-03-05"),
        ("2024-03", "2024-03"),
        ("2024-03-05T14:30:00-05:00", "2024-03-05 14:30"),
        ("2024-03-05T14:30Z", "2024-03-05 14:30"),
        ("5.3.2024", "5.3.2024"),
    ]:
        with subtests.test(written=written):
            made = f'<effectiveTime value="{written}"/><component>'.encode()
            found = extractor.html_of(HEAD.replace(b"<component>", made, 1) + TAIL, "text/xml")
            assert f"<dt>Made</dt><dd>{shown}</dd>" in found


def test_every_clinical_document_has_a_heading_a_patient_and_a_day(extractor, subtests):
    for name in [path.name for path in sorted(CCDA.glob("*.xml"))]:
        with subtests.test(name=name):
            shown = extractor.html_of((CCDA / name).read_bytes(), "text/xml")
            assert shown.startswith("<h1>")
            assert "<dt>Patient</dt>" in shown
            assert "<dt>Made</dt><dd>20" in shown


def test_document_that_cannot_be_shown_has_a_reason(extractor, subtests):
    for given, content_type, reason in [
        (BOMB, "text/xml", "XML that declares entities"),
        (b"<ClinicalDocument>", "text/xml", "XML that is not well-formed"),
        (b"<other/>", "text/xml", "XML that is no clinical document"),
        (b"<ClinicalDocument>" + b"<a>" * 300, "text/xml", "nested more than 200 elements deep"),
        (b"words", "text/plain", "neither HTML, XML, Word nor OpenDocument"),
        (b"a" * 2_000_001, "text/html", "longer than 2,000,000 characters"),
    ]:
        with subtests.test(given=given), pytest.raises(Unreadable, match=f"^{reason}$"):
            extractor.html_of(given, content_type)


def test_missing_page_is_an_error(extractor, subtests):
    for data, number, reason in [
        (b"%PDF-1.7", 1, "broken PDF"),
        (TWO_PAGES, 3, "PDF that has 2 pages"),
    ]:
        with subtests.test(data=data), pytest.raises(Unreadable, match=f"^{reason}$"):
            extractor.page_of(data, number)


@pytest.mark.process
def test_picture_that_takes_too_long_is_given_up_and_the_next_is_drawn():
    endless = pdf_of_pages(b"0 0 m 500 800 l S " * 2_000_000)
    with Extractor(seconds=1) as one:
        with pytest.raises(
            Unreadable, match=r"takes longer than 1 s|needs more than|broke down its reader"
        ):
            one.page_of(endless, 1)
        assert one.page_of(pdf_of_pages(lines("after")), 1)


GENDER = b"<recordTarget><patientRole><patient>%s</patient></patientRole></recordTarget>"
FILE = b"<component><nonXMLBody><text/></nonXMLBody></component>"


def test_missing_detail_of_a_clinical_document_is_shown_as_not_recorded(extractor, subtests):
    for document, shown in [
        (HEAD + b"<text representation='B64'/>" + TAIL, "not shown here: type not recorded"),
        (b"<ClinicalDocument>" + FILE + b"</ClinicalDocument>", "is a file: type not recorded."),
        (b"<ClinicalDocument>%s</ClinicalDocument>" % GENDER % b"<administrativeGenderCode/>",
         "<dt>Gender</dt><dd>not recorded</dd>"),
    ]:  # fmt: skip
        with subtests.test(document=document):
            assert shown in extractor.html_of(document, "text/xml")
