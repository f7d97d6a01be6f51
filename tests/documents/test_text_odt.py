"""OpenDocument texts: all current text in reading order, and no deleted text."""

from __future__ import annotations

import pytest

from fhirapp.documents import Unreadable
from fhirapp.documents.media import DocumentRequest, kind_of
from fhirapp.documents.worker import answer
from tests.support.office import ODT, opendocument


def words_of(data: bytes, content_type: str = ODT) -> str:
    return answer(DocumentRequest("text", *kind_of(content_type, data)), data).content.decode()


def page_of(data: bytes) -> str:
    return answer(DocumentRequest("html", *kind_of(ODT, data)), data).content.decode()


def style(name: str, properties: str, family: str = "text", more: str = "") -> str:
    return (
        f'<style:style style:name="{name}" style:family="{family}" {more}>'
        f"<style:text-properties {properties}/></style:style>"
    )


STYLES = (
    style("Struck", 'style:text-line-through-style="solid"')
    + style("Hidden", 'text:display="none"')
    + style("Bold", 'fo:font-weight="bold"')
    + style("High", 'style:text-position="super 58%"')
    + style("Gone", 'style:text-line-through-style="solid"', "paragraph")
    + style("Child", 'fo:font-style="italic"', "paragraph", 'style:parent-style-name="Gone"')
    + style("Loop", 'fo:font-style="normal"', "text", 'style:parent-style-name="Loop"')
    + style("Unstruck", 'style:text-line-through-style="none" style:text-line-through-mode="a"')
)


def span(name: str, text: str) -> str:
    return f'<text:span text:style-name="{name}">{text}</text:span>'


BOX = (
    "<draw:frame><draw:text-box><text:p>Allergic to nuts</text:p></draw:text-box>"
    "<svg:title>alt</svg:title></draw:frame>"
)


def test_each_shape_is_read_and_shown(subtests):
    for body, words, page in [
        (("<text:p><text:title>T</text:title>a<text:s text:c='3'/>b<text:tab/>c"
         "<text:line-break/>d &lt;b&gt;</text:p>"), "Ta b c\nd <b>",
         "<p>Ta b c<br>d &lt;b&gt;</p>"),
        ("<text:h text:outline-level='2'>Plan</text:h>", "Plan", "<h2>Plan</h2>"),
        (f"<text:p>No {span('Struck', 'aspirin')}!</text:p>", "No aspirin!",
         "<p>No <s>aspirin</s>!</p>"),
        (f"<text:p text:style-name='Gone'>old {span('Unstruck', 'new')}</text:p>", "old new",
         "<p><s>old </s>new</p>"),
        ("<text:p text:style-name='Child'>x</text:p>", "x", "<p><s><i>x</i></s></p>"),
        (f"<text:p>{span('Loop', 'x')}</text:p>", "x", "<p>x</p>"),
        (f"<text:p>is {span('Hidden', 'n')}{span('Hidden', 'ot')} well</text:p>",
         "is [hidden text: not] well", "<p>is <mark>[hidden text: not]</mark> well</p>"),
        ("<text:section text:display='none'><text:p>gone</text:p></text:section>",
         "[hidden text: gone]", "<p><mark>[hidden text: gone]</mark></p>"),
        (("<text:p>a <text:hidden-text text:string-value='b'/></text:p>"
         "<text:p><text:hidden-paragraph text:is-hidden='true'/>c</text:p>"),
         "a [hidden text: b]\n[hidden text: c]",
         "<p>a <mark>[hidden text: b]</mark></p><p><mark>[hidden text: c]</mark></p>"),
        (f"<text:p>10{span('High', '9')}</text:p>", "109", "<p>10<sup>9</sup></p>"),
        (f"<text:p>Before {BOX}after</text:p><text:p>Next</text:p>",
         "Before after\nText box:\nAllergic to nuts\nNext",
         ("<p>Before after</p><div><strong>Text box:</strong> <p>Allergic to nuts</p></div>"
         "<p>Next</p>")),
        ("<text:p>Scan: <draw:frame><draw:image/><svg:desc>x</svg:desc></draw:frame></text:p>",
         "Scan:", "<p>Scan: <em>[image or embedded file not shown]</em></p>"),
        (("<office:forms><form:form><form:checkbox form:id='c' form:label='Smoker'"
         " form:current-state='checked'/></form:form></office:forms><text:p>"
         "<draw:control draw:control='c'/> <draw:control draw:control='d'/></text:p>"),
         "☒ Smoker", "<p>☒ Smoker <em>[form field not shown]</em></p>"),
        (("<text:p>Well<text:note><text:note-citation>9</text:note-citation><text:note-body>"
         "<text:p>Since May</text:p></text:note-body></text:note><office:annotation>"
         "<dc:creator>Ana</dc:creator><dc:date>2026</dc:date><text:p>Sure?</text:p>"
         "</office:annotation>.</text:p>"),
         "Well[1][comment 1].\nNote 1:\nSince May\nComment 1 by Ana:\nSure?",
         ("<p>Well<sup>[1][comment 1]</sup>.</p><div><strong>Note 1:</strong> "
         "<p>Since May</p></div><div><strong>Comment 1 by Ana:</strong> <p>Sure?</p></div>")),
    ]:  # fmt: skip
        with subtests.test(body=body):
            data = opendocument(body, STYLES)
            assert words_of(data) == words
            assert page_of(data) == page


CHANGES = (
    "<text:tracked-changes><text:changed-region xml:id='a'><text:deletion>"
    "<text:p>penicillin</text:p></text:deletion></text:changed-region>"
    "<text:changed-region xml:id='b'><text:insertion/></text:changed-region></text:tracked-changes>"
)


def test_deleted_text_is_left_out_and_the_page_says_so():
    data = opendocument(
        f"{CHANGES}<text:p>Give <text:change text:change-id='a'/>"
        "<text:change-start text:change-id='b'/>erythro</text:p>"
        "<text:p>mycin<text:change-end text:change-id='b'/> daily</text:p>"
    )
    assert words_of(data) == "Give erythro\nmycin daily"
    shown = page_of(data)
    assert shown.startswith("<p><strong><em>This document has tracked changes. It is shown as if")
    assert shown.endswith("<p>Give <ins>erythro</ins></p><p><ins>mycin</ins> daily</p>")


def items(*texts: str, attributes: str = "") -> str:
    inner = "".join(f"<text:list-item>{text}</text:list-item>" for text in texts)
    return f"<text:list {attributes}>{inner}</text:list>"


LISTS = (
    "<text:list-style style:name='L'><text:list-level-style-number text:level='1'"
    " style:num-format='1' style:num-suffix='.'/><text:list-level-style-number text:level='2'"
    " style:num-format='a' style:num-suffix=')' text:display-levels='2' text:start-value='3'/>"
    "<text:list-level-style-bullet text:level='3' text:bullet-char='-'/></text:list-style>"
    "<text:list-style style:name='M'><text:list-level-style-bullet text:level='1'"
    " text:bullet-char='\uf0b7'/></text:list-style><text:list-style style:name='N'>"
    "<text:list-level-style-number text:level='1' style:num-format=''/></text:list-style>"
)


def test_lists_have_the_numbers_that_their_styles_give():
    bullet = items(f"<text:p>deep</text:p>{items('<text:p>deeper</text:p>')}")
    body = (
        items(
            f"<text:p>one</text:p><text:p>more</text:p>{items('<text:p>c</text:p>', bullet)}",
            "<text:p>two</text:p>",
            attributes="xml:id='first' text:style-name='L'",
        )
        + "<text:p>Between</text:p>"
        + items(
            "<text:p>three</text:p>",
            attributes="text:continue-numbering='true' text:style-name='L'",
        )
        + items("<text:p>anew</text:p>", attributes="text:style-name='L'")
        + items("<text:p>four</text:p>", attributes="text:continue-list='first'")
        + items("<text:p>loose</text:p>")
        + items("<text:p>round</text:p>", attributes="text:style-name='M'")
        + items("<text:p>bare</text:p>", attributes="text:style-name='N'")
    )
    body = body.replace(
        "<text:list-item><text:p>two", "<text:list-item text:start-value='2'><text:p>two"
    )
    headings = "".join(f"<text:h text:outline-level='{n}'>H</text:h>" for n in (1, 2, 1))
    outline = (
        "<text:outline-style><text:outline-level-style text:level='1' style:num-format='I'/>"
        "<text:outline-level-style text:level='2' style:num-format=''/></text:outline-style>"
    )
    data = opendocument(body + headings, LISTS, outline)
    assert page_of(data).endswith("<h1>I H</h1><h2>H</h2><h1>II H</h1>")
    assert words_of(data).splitlines() == [
        *(
            "1. one",
            "more",
            "1.c) c",
            "- deep",
            "• deeper",
            "2. two",
            "Between",
            "3. three",
            "1. anew",
        ),
        *("• four", "• loose", "• round", "bare", "I H", "H", "II H"),
    ]


def test_table_keeps_its_spans_and_repeats_what_is_repeated():
    data = opendocument(
        "<table:table><table:table-header-rows><table:table-row><table:table-cell"
        " table:number-columns-spanned='2'><text:p>Drug</text:p></table:table-cell>"
        "<table:covered-table-cell/></table:table-row></table:table-header-rows>"
        "<table:table-row table:number-rows-repeated='2'>"
        "<table:table-cell table:number-columns-repeated='2'><text:p>x</text:p></table:table-cell>"
        "</table:table-row></table:table>"
    )
    cell = "<td><p>x</p></td>"
    row = f"<tr>{2 * cell}</tr>"
    assert page_of(data) == (
        f'<table><tbody><tr><td colspan="2"><p>Drug</p></td></tr>{row}{row}</tbody></table>'
    )


def test_headers_and_footers_are_there_once_under_a_label():
    page = (
        "<style:master-page><style:header><text:p>Clinic</text:p></style:header>"
        "<style:header-left style:display='false'><text:p>no</text:p></style:header-left>"
        "<style:footer><text:p>Page</text:p></style:footer></style:master-page>"
    )
    common = f"<office:master-styles>{page}{page}</office:master-styles>"
    data = opendocument("<text:p>Well</text:p>", common=common)
    assert words_of(data) == "Header:\nClinic\nWell\nFooter:\nPage"


def test_opendocument_is_detected_by_its_bytes(subtests):
    for content_type in ["", "application/octet-stream", "application/zip"]:
        with subtests.test(content_type=content_type):
            assert words_of(opendocument("<text:p>Well</text:p>"), content_type) == "Well"


def test_numbers_of_any_size_take_no_word_from_the_others(subtests):
    for number in ["9" * 10, "9" * 30, "9" * 4_000, "-" + "9" * 30]:
        with subtests.test(number=number):
            body = (
                f"<text:h text:outline-level='{number}'>first</text:h>"
                f"<text:list text:style-name='L'><text:list-item text:start-value='{number}'>"
                "<text:p>second</text:p></text:list-item></text:list>"
                "<table:table><table:table-row><table:table-cell"
                f" table:number-columns-spanned='{number}' table:number-rows-spanned='{number}'>"
                "<text:p>third</text:p></table:table-cell></table:table-row></table:table>"
            )
            found = words_of(opendocument(body))
            assert all(one in found for one in ("first", "second", "third"))
            assert len(page_of(opendocument(body))) < 10_000


REPEATED = (
    "<table:table><table:table-row table:number-rows-repeated='999999999'>"
    "<table:table-cell table:number-columns-repeated='999999999'>{}</table:table-cell>"
    "</table:table-row></table:table>"
)


def test_damaged_or_too_large_document_is_unreadable(subtests):
    for data, reason in [
        (b"PK\3\4", "broken Word or OpenDocument file"),
        (opendocument("").replace(b"content.xml", b"kontent.xml"), "broken Word or OpenDocument"),
        (opendocument("", manifest="<manifest:encryption-data/>"),
         "document that needs a password"),
        (opendocument("<text:h text:outline-level='x'/>"), "broken Word or OpenDocument file"),
        (opendocument("<text:p>" * 200 + "</text:p>" * 200), "nested more than 200 elements deep"),
        (opendocument(REPEATED.format(REPEATED.format("<text:p>many</text:p>"))),
         "longer than 8,000,000 characters"),
    ]:  # fmt: skip
        for text_of in (words_of, page_of):
            with subtests.test(reason), pytest.raises(Unreadable, match=reason):
                text_of(data)
