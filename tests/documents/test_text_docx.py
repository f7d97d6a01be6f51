"""Word documents: all current text in reading order, and no deleted text."""

from __future__ import annotations

import pytest

from fhirapp.documents import Unreadable
from fhirapp.documents.media import DocumentRequest, kind_of
from fhirapp.documents.worker import answer
from tests.support.office import DOCX, RELATIONS, TRANSITIONAL, p, r, word

STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"


def words_of(data: bytes, content_type: str = DOCX) -> str:
    return answer(DocumentRequest("text", *kind_of(content_type, data)), data).content.decode()


def page_of(data: bytes) -> str:
    return answer(DocumentRequest("html", *kind_of(DOCX, data)), data).content.decode()


def choice(first: str, fallback: str) -> str:
    return (
        f"<w:r><mc:AlternateContent><mc:Choice>{first}</mc:Choice>"
        f"<mc:Fallback>{fallback}</mc:Fallback></mc:AlternateContent></w:r>"
    )


BOX = f"<w:pict><w:txbxContent>{p(r('Allergic to nuts'))}</w:txbxContent></w:pict>"
STYLES = (
    '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="Own"><w:name w:val="own"/><w:basedOn w:val="berschrift1"/></w:style>'
    '<w:style w:styleId="Base"><w:name w:val="b"/><w:rPr><w:strike/></w:rPr></w:style>'
    '<w:style w:styleId="Struck"><w:name w:val="c"/><w:basedOn w:val="Base"/></w:style>'
    '<w:style w:styleId="Round"><w:name w:val="d"/><w:basedOn w:val="Round"/></w:style>'
    '<w:style w:styleId="Numbered"><w:name w:val="e"/><w:pPr><w:numPr>'
    '<w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
)
SMOKER = (
    "<w:r><w:fldChar><w:ffData><w:checkBox><w:default w:val='0'/>{}</w:checkBox></w:ffData>"
    "</w:fldChar><w:instrText>FORMCHECKBOX</w:instrText></w:r>"
)


def test_each_shape_is_read_and_shown(subtests):
    for body, words, page in [
        # A word that is split into runs is one word.
        (p(r("Takes war"), r("farin")), "Takes warfarin", "<p>Takes warfarin</p>"),
        (p(r("a &lt;b&gt; &amp;")), "a <b> &", "<p>a &lt;b&gt; &amp;</p>"),
        (p(r("A"), "<w:r><w:tab/><w:t>B</w:t><w:br/><w:t>C</w:t></w:r>"), "A B\nC",
         "<p>A\tB<br>C</p>"),
        (p(r("Plan"), style='<w:pStyle w:val="berschrift1"/>'), "Plan", "<h1>Plan</h1>"),
        (p(r("Plan"), style='<w:pStyle w:val="Own"/>'), "Plan", "<h1>Plan</h1>"),
        (p(r("Plan"), style='<w:pStyle w:val="Round"/>'), "Plan", "<p>Plan</p>"),
        (p(r("aspirin", "<w:strike/>")), "aspirin", "<p><s>aspirin</s></p>"),
        (p(r("aspirin", "<w:dstrike/>")), "aspirin", "<p><s>aspirin</s></p>"),
        (p(r("aspirin", '<w:strike w:val="0"/>')), "aspirin", "<p>aspirin</p>"),
        (p(r("aspirin", '<w:rStyle w:val="Struck"/>')), "aspirin", "<p><s>aspirin</s></p>"),
        (p(r("aspirin"), style='<w:pStyle w:val="Struck"/>'), "aspirin", "<p><s>aspirin</s></p>"),
        (p(r("10"), r("9", '<w:vertAlign w:val="superscript"/>')), "109", "<p>10<sup>9</sup></p>"),
        # One mark around what is hidden, however many runs it is of.
        (p(r("is "), r("n", "<w:vanish/>"), r("ot", "<w:vanish/>"), r(" well")),
         "is [hidden text: not] well", "<p>is <mark>[hidden text: not]</mark> well</p>"),
        (p("<w:r><w:sym w:font='Symbol' w:char='F0B3'/><w:sym w:font='X' w:char='F041'/></w:r>"),
         "≥[symbol]", "<p>≥[symbol]</p>"),
        (p(r("\uf0b3\uf0ff5", '<w:rFonts w:ascii="Symbol"/>')), "≥[symbol]5", "<p>≥[symbol]5</p>"),
        (p(SMOKER.format("<w:checked/>"), r(" smoker")), "☒ smoker", "<p>☒ smoker</p>"),
        (p(SMOKER.format(""), r(" smoker")), "☐ smoker", "<p>☐ smoker</p>"),
        (p("<w:r><w:fldChar><w:ffData><w:ddList><w:result w:val='1'/><w:listEntry w:val='no'/>"
         "<w:listEntry w:val='yes'/></w:ddList></w:ffData></w:fldChar></w:r>"), "yes",
         "<p>yes</p>"),
        (p("<m:oMath><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r>"
         "</m:den></m:f></m:oMath>"), "(1)/(2)", "<p>(1)/(2)</p>"),
        # What a letter is merged with, what is written from right to left, a form's field.
        (p(f'<w:fldSimple w:instr="MERGEFIELD x">{r("Penicillin")}</w:fldSimple>',
         f"<w:dir>{r(' is')}</w:dir><w:sdt><w:sdtPr/><w:sdtContent>{r(' allergen')}"
         "</w:sdtContent></w:sdt>"), "Penicillin is allergen", "<p>Penicillin is allergen</p>"),
        # A text box is once in the file for new and once for old programs.
        (p(r("Before "), choice(BOX, BOX), r("after")) + p(r("Next")),
         "Before after\nText box:\nAllergic to nuts\nNext",
         ("<p>Before after</p><div><strong>Text box:</strong> <p>Allergic to nuts</p></div>"
         "<p>Next</p>")),
        (p(r("Scan: "), "<w:r><w:drawing><a:blip r:embed='x'/></w:drawing></w:r>"), "Scan:",
         "<p>Scan: <em>[image not shown]</em></p>"),
        ("<w:altChunk r:id='x'/>", "", "<p><em>[embedded file not shown]</em></p>"),
    ]:  # fmt: skip
        for namespace in [TRANSITIONAL, STRICT]:
            with subtests.test(body=body):
                data = word(body, namespace, styles=STYLES)
                assert words_of(data) == words
                assert page_of(data) == page


def numbered(text: str, level: int = 0, num: int = 1) -> str:
    numbering = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{num}"/></w:numPr>'
    return p(r(text), style=numbering)


def level(at: int, format_: str, text: str, start: int = 1, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="{start}"/><w:numFmt w:val="{format_}"/>'
        f'<w:lvlText w:val="{text}"/>{more}</w:lvl>'
    )


BULLET = level(0, "bullet", "\uf0fc", more='<w:rPr><w:rFonts w:ascii="Wingdings"/></w:rPr>')
NUMBERING = (
    f'<w:abstractNum w:abstractNumId="7">{level(0, "decimal", "%1.")}'
    f"{level(1, 'lowerLetter', '%1.%2)')}{level(2, 'upperRoman', '%3', 3)}</w:abstractNum>"
    f'<w:abstractNum w:abstractNumId="8">{BULLET}{level(1, "bullet", "o")}</w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0">'
    '<w:startOverride w:val="5"/></w:lvlOverride></w:num>'
)


def test_lists_have_the_numbers_that_word_shows():
    deleted = numbered("x").replace("<w:pPr>", "<w:pPr><w:rPr><w:del/></w:rPr>")
    gone = deleted.replace("<w:r>", "<w:del><w:r>").replace("</w:r></w:p>", "</w:r></w:del></w:p>")
    body = "".join(
        (
            numbered("one"),
            numbered("sub", 1),
            numbered("deep", 2),
            numbered("sub", 1),
            p(r("Between")),
            gone,
            numbered("two"),
            numbered("sub", 1),
            numbered("five", 0, 3),
            numbered("six", 0, 3),
            p(r("by its style"), style='<w:pStyle w:val="Numbered"/>'),
            numbered("tick", 0, 2),
            numbered("round", 1, 2),
            numbered("of no list", 0, 9),
        )
    )
    data = word(body, numbering=NUMBERING, styles=STYLES)
    assert "<p>1. one</p><p>\u20031.a) sub</p><p>\u2003\u2003III deep</p>" in page_of(data)
    assert words_of(data).splitlines() == [
        *("1. one", "1.a) sub", "III deep", "1.b) sub", "Between", "2. two", "2.a) sub"),
        *("5. five", "6. six", "7. by its style", "✓ tick", "• round", "of no list"),
    ]


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(r(text))}</w:tc>"


def test_table_keeps_what_is_merged_and_loses_what_was_deleted():
    rows = (
        cell("Drug", '<w:gridSpan w:val="2"/>') + cell("Dose", '<w:vMerge w:val="restart"/>'),
        cell("a") + cell("b") + cell("more", "<w:vMerge/>"),
        "<w:trPr><w:del/></w:trPr>" + cell("aspirin"),
        "<w:trPr><w:gridBefore w:val='1'/></w:trPr>" + cell("c") + cell("gone", "<w:cellDel/>"),
    )
    field = f"<w:sdt><w:sdtContent><w:tr>{cell('filled in')}</w:tr></w:sdtContent></w:sdt>"
    data = word(f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}{field}</w:tbl>")
    assert page_of(data).partition("</p>")[2] == (
        '<table><tbody><tr><td colspan="2"><p>Drug</p></td><td rowspan="2"><p>Dose</p><p>more</p>'
        "</td></tr><tr><td><p>a</p></td><td><p>b</p></td></tr><tr><td></td><td><p>c</p></td></tr>"
        "<tr><td><p>filled in</p></td></tr></tbody></table>"
    )
    assert words_of(data).split() == ["Drug", "Dose", "more", "a", "b", "c", "filled", "in"]


def test_row_that_begins_below_a_merged_cell_is_read():
    restart = '<w:vMerge w:val="restart"/>'
    rows = (
        cell("Drug", restart) + cell("a"),
        cell("", "<w:vMerge/>") + cell("b"),
        cell("Dose", restart) + cell("c", restart),
        cell("", "<w:vMerge w:val='continue'/>") + cell("d"),
        cell("e", "<w:vMerge/>") + cell("f", "<w:vMerge/>"),
    )
    data = word(f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>")
    assert page_of(data) == (
        '<table><tbody><tr><td rowspan="2"><p>Drug</p></td><td><p>a</p></td></tr>'
        '<tr><td><p>b</p></td></tr><tr><td rowspan="3"><p>Dose</p><p>e</p></td><td><p>c</p></td>'
        "</tr><tr><td><p>d</p></td></tr><tr><td><p>f</p></td></tr></tbody></table>"
    )


def test_deleted_text_is_left_out_and_the_page_says_so(subtests):
    for gone in [
        '<w:del w:id="1"><w:r><w:delText>penicillin</w:delText></w:r></w:del>',
        f'<w:moveFrom w:id="1">{r("penicillin")}</w:moveFrom>',
    ]:
        with subtests.test(gone=gone):
            data = word(p(r("Give "), gone, f'<w:ins w:id="2">{r("erythromycin")}</w:ins>'))
            assert words_of(data) == "Give erythromycin"
            shown = page_of(data)
            assert shown.startswith(
                "<p><strong><em>This document has tracked changes. It is shown as if"
            )
            assert shown.endswith("<p>Give <ins>erythromycin</ins></p>")


def test_paragraph_whose_end_was_deleted_is_one_with_the_next(subtests):
    for gone in ["del", "moveFrom"]:
        with subtests.test(gone=gone):
            first = p(r("No "), style=f"<w:rPr><w:{gone}/></w:rPr>")
            assert page_of(word(first + p(r("aspirin")))).endswith("<p>No aspirin</p>")
            assert page_of(word(first)).endswith("<p>No </p>")
            table = f"<w:tbl><w:tr>{cell('Drug')}</w:tr></w:tbl>"
            assert words_of(word(first + table + p(r("aspirin")))) == "No\nDrug\naspirin"


def test_earlier_format_is_not_the_one_that_holds():
    change = "<w:rPrChange w:id='1'><w:rPr><w:strike/></w:rPr></w:rPrChange>"
    assert page_of(word(p(r("aspirin", f"<w:b/>{change}")))).endswith("<p><b>aspirin</b></p>")


def test_header_footer_notes_and_comments_appear_once_with_a_label():
    body = p(
        r("Well"),
        '<w:r><w:footnoteReference w:id="7"/><w:commentReference w:id="3"/></w:r>',
        '<w:r><w:endnoteReference w:id="404"/></w:r>',
    )
    data = word(
        body,
        header1=p(r("Clinic")),
        header2=p(r("Clinic")),
        footer=p(r("Page")),
        footnotes=f'<w:footnote w:id="0">{p(r("gone"))}</w:footnote>'
        f'<w:footnote w:id="7">{p(r("Since May"))}</w:footnote>',
        comments=f'<w:comment w:id="3" w:author="Ana &lt;R&gt;">{p(r("Sure?"))}</w:comment>',
    )
    assert words_of(data) == (
        "Header:\nClinic\nWell[1][comment 1][1]\nFooter:\nPage\nFootnote 1:\nSince May\n"
        "Endnote 1:\nComment 1 by Ana <R>:\nSure?"
    )
    assert "<strong>Comment 1 by Ana &lt;R&gt;:</strong>" in page_of(data)


def test_external_part_of_a_document_is_not_read():
    external = (
        f'<Relationship Type="{RELATIONS}/header" TargetMode="External" Target="document.xml"/>'
    )
    assert words_of(word(p(r("Well")), external=external)) == "Well"


def test_word_document_is_detected_by_its_bytes(subtests):
    for content_type in ["", "application/msword", "application/octet-stream", "application/zip"]:
        with subtests.test(content_type=content_type):
            assert words_of(word(p(r("Well"))), content_type) == "Well"


OLE = b"\xd0\xcf\x11\xe0" + bytes(60)


def encrypted(data: bytes) -> bytes:
    """Return a zip with the flag of a password on each file: APPNOTE §4.4.4."""
    return data.replace(b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0")


def test_damaged_or_too_large_document_is_unreadable(subtests):
    for data, reason in [
        (b"", "broken Word or OpenDocument file"),
        (b"PK\3\4", "broken Word or OpenDocument file"),
        (OLE, r"Word file of before 2007 \(.doc\)"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "document that needs a password"),
        (encrypted(word(p(r("x")))), "document that needs a password"),
        (word(p(r("x")))[:-40], "broken Word or OpenDocument file"),
        (word(p(r("x"))).replace(b"word/document.xml", b"word/dokument.xml"), "broken Word"),
        (word("<w:p>"), "XML that is not well-formed"),
        (word(p("<w:r><w:sym w:char='no'/></w:r>")), "broken Word or OpenDocument file"),
        (word("<w:x>" * 400 + "</w:x>" * 400), "nested more than 200 elements deep"),
        (word(" " * 30_000_001), "more than 30 MB when unpacked"),
    ]:
        with subtests.test(data=data):
            with pytest.raises(Unreadable, match=reason):
                words_of(data)
            with pytest.raises(Unreadable, match=reason):
                page_of(data)


HUGE = ["110000", "FFFFFFFF", "F" * 16, "F" * 2_000, "D800", "DFFF", "FFFF", "-1", "10061", "0"]


def test_symbol_of_any_number_takes_no_word_from_the_others(subtests):
    for number in HUGE:
        for font in ["Symbol", "Wingdings", "Arial", ""]:
            with subtests.test(number=number):
                body = p(
                    r("before "),
                    f"<w:r><w:sym w:font='{font}' w:char='{number}'/></w:r>",
                    r(" after"),
                )
                assert words_of(word(body)) == "before [symbol] after"
                assert page_of(word(body)) == "<p>before [symbol] after</p>"


def test_numbers_of_any_size_take_no_word_from_the_others(subtests):
    for number in ["9" * 10, "9" * 30, "9" * 4_000, "-" + "9" * 30]:
        with subtests.test(number=number):
            cell = f"<w:tcPr><w:gridSpan w:val='{number}'/></w:tcPr>"
            row = f"<w:trPr><w:gridBefore w:val='{number}'/></w:trPr>"
            choice_ = f"<w:ddList><w:result w:val='{number}'/><w:listEntry w:val='one'/></w:ddList>"
            list_ = (
                f"<w:pPr><w:numPr><w:ilvl w:val='{number}'/><w:numId w:val='1'/></w:numPr></w:pPr>"
            )
            body = (
                p(list_, r("first"))
                + f"<w:tbl><w:tr>{row}<w:tc>{cell}{p(r('second'))}</w:tc></w:tr></w:tbl>"
                + p(f"<w:r><w:fldChar><w:ffData>{choice_}</w:ffData></w:fldChar></w:r>", r("third"))
            )
            start = f"<w:start w:val='{number}'/>"
            levels = f"<w:lvl w:ilvl='{number}'>{start}<w:lvlText w:val='%1.'/></w:lvl>"
            numbering = (
                f"<w:abstractNum w:abstractNumId='1'>{levels}</w:abstractNum><w:num w:numId='1'>"
                f"<w:abstractNumId w:val='1'/><w:lvlOverride w:ilvl='{number}'>"
                f"<w:startOverride w:val='{number}'/></w:lvlOverride></w:num>"
            )
            found = words_of(word(body, numbering=numbering))
            assert all(one in found for one in ("first", "second", "third"))
            assert len(page_of(word(body, numbering=numbering))) < 10_000


def test_tables_in_tables_are_read_as_deep_as_they_may_be():
    deep = "<w:tbl><w:tr><w:tc>" * 65 + p(r("deep")) + "</w:tc></w:tr></w:tbl>" * 65
    assert words_of(word(deep)) == "deep"
