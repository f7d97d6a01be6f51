"""Text of RTF: every word that a reader sees, and nothing of how it looks.

Source: Rich Text Format Specification 1.9.1.
"""

from __future__ import annotations

from fhirapp.documents.media import tidy
from fhirapp.documents.rtf import read_rtf

FONTS = (
    rb"{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1\froman\fcharset204{\*\falt Times}Times Cyr;}"
    rb"{\f2\fnil\fcharset128 MS Mincho;}{\f3\fnil\fcharset1 Any;}}"
)


def text(body: bytes, head: bytes = rb"\ansi\ansicpg1252\deff0" + FONTS) -> str:
    return tidy(read_rtf(b"{\\rtf1%s %s}" % (head, body), ""))


def test_text_of_rtf(subtests):
    for body, expected in [
        (rb"Hello \b bold\b0  world\par next line", "Hello bold world\nnext line"),
        (rb"one\line two\sect three\page four", "one\ntwo\nthree\nfour"),
        (b"one\ntwo\r\nthree\\\nfour", "onetwothree\nfour"),
        (rb"\trowd\cellx1000 one\cell two\cell\row three", "one two\nthree"),
        (rb"half{\b word}s and \{braces\} and \\", "halfwords and {braces} and \\"),
        (rb"hyper\-tension X\_ray 5\~mg", "hypertension X\u2011ray 5 mg"),
        (rb"\lquote a\rquote  \ldblquote b\rdblquote  c\emdash d", "\u2018a\u2019 “b” c—d"),
        # Bytes, in the code page of the font.
        (rb"caf\'e9 na\'EFve", "café naïve"),
        (rb"\f1 \'cf\'f0\'e8\'e2\'e5\'f2 {\f0 caf\'e9} \'ec\'e8\'f0", "Привет café мир"),
        (rb"{\f2 \'93\'fa\'96{\b \'7b}} \f2\'83A", "日本 ア"),
        (rb"\f3 caf\'e9\plain\'e9", "caféé"),
        # Characters beyond the code page, and what stands for them where they are not known.
        (rb"caf\u233?e \u8212\'97x", "cafée —x"),
        (rb"{\uc0 \u233 e}\u233?e", "éeée"),
        (rb"\uc2\u233\'c3\'a9e", "ée"),
        (rb"\uc5\u233 ab}", "é"),
        (rb"\u-10179?\u-8704? smile", "\U0001f600 smile"),
        (rb"\u-10179? half", "half"),
        (rb"\u233\par b", "é\nb"),
        # Parts that are read after the text, so that they do not split its sentences.
        (rb"no{\super\chftn}{\footnote\pard bleeding} warfarin{\footnote or heparin}",
         "no warfarin\nbleeding\nor heparin"),
        (rb"{\header\pard Ana Ruiz\par}{\footerl page}body", "body\nAna Ruiz\npage"),
        (rb"a{\*\annotation\pard doubtful}b", "ab\ndoubtful"),
        (rb"a{\shp{\*\shpinst{\sp{\sn name}{\sv 1}}{\shptxt boxed\par}}}b", "ab\nboxed"),
        (rb"a{\shp{\*\shpinst}{\shprslt{\*\do{\dptxbxtext again}}}}b", "ab"),
        (rb"a{\*\do\dobxcolumn\dptxbx{\dptxbxtext boxed}}b", "ab\nboxed"),
        # Parts that nobody sees.
        (rb'{\field{\*\fldinst{HYPERLINK "http://a.example/"}}{\fldrslt a link}}', "a link"),
        (rb"{\info{\title hidden}{\author hidden}}{\*\unknown hidden{\b too}}seen", "seen"),
        (rb"{\stylesheet{\s1 hidden;}}{\colortbl;\red0;}{\*\generator hidden;}seen", "seen"),
        (rb"a{\xe{\v hidden}}b{\*\bkmkstart hidden}", "ab"),
        (rb"{\pict\pngblip 89504e470d0a}{\pict\bin7 }}{{\par}seen", "seen"),
        (rb"{\object{\*\objdata 0102}{\result seen}}", "seen"),
        (rb"{\upr{ansi}{\*\ud{\u233 ?}}}", "ansié"),
    ]:  # fmt: skip
        with subtests.test(body=body):
            assert text(body) == expected


def test_code_page_of_the_document(subtests):
    for head, expected in [
        (rb"\ansi\ansicpg1251", "й"),
        (rb"\ansi\ansicpg99999", "é"),
        (rb"\ansi", "é"),
        (rb"\mac", "È"),
        (rb"\pc", "Θ"),
        (rb"\pca", "Ú"),
        (rb"", "é"),
        (rb"\ansi\ansicpg1252\deff1" + FONTS, "й"),
    ]:
        with subtests.test(head=head):
            assert text(rb"\'e9", head) == expected


def test_damaged_rtf_is_read_as_far_as_it_goes(subtests):
    for damaged in [
        *(rb"{\rtf1 seen", rb"{\rtf1 seen}}}}", rb"}}{\rtf1 seen}", rb"{\rtf1 seen\'"),
        *(rb"{\rtf1 seen\bin9999999999 hidden}", rb"{\rtf1 {\pict\bin-5}seen}"),
        *(rb"{\rtf1\uc-3 seen\u}", rb"{\rtf1\f9999999999\fcharset7 seen}", b"{\\rtf1 s\0een\\"),
    ]:
        with subtests.test(damaged=damaged):
            assert tidy(read_rtf(damaged, "")).split() == ["seen"]


def test_many_links_are_read_in_time():
    """Time that grows with the square of their number, or the cube, would be hours."""
    link = rb'{\field{\*\fldinst{HYPERLINK "http://a.example/"}}{\fldrslt seen }}'
    assert text(link * 3_000).split() == ["seen"] * 3_000


def test_character_of_any_number_takes_no_word_from_the_others(subtests):
    for number, expected in [
        (b"228", "\xe4"),
        (b"-3913", "\uf0b7"),
        (b"128512", "\U0001f600"),
        (b"1114111", "\U0010ffff"),
        (b"1114112", ""),
        (b"9999999999", ""),
        (b"-9999999999", ""),
        (b"-32769", ""),
        (b"55357", ""),
        (b"-8704", ""),
    ]:
        with subtests.test(number=number):
            assert text(rb"before\u%s? after" % number) == f"before{expected} after"
