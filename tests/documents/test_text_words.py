"""Bytes become characters by their charset, and characters tidy text."""

from __future__ import annotations

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.documents.media import MAX_CHARACTERS, codec_of, decode, tidy

REPEATABLE = settings(max_examples=30)
SPANISH = "Alergia: penicilina — niño de 5 años"


def test_codec_of_a_charset(subtests):
    for label, codec in [
        ("utf-8", "utf_8"),
        ("UTF8", "utf_8"),
        # WHATWG Encoding §4.2: these labels mean the larger sets.
        ("us-ascii", "cp1252"),
        ("ISO-8859-1", "cp1252"),
        ("latin1", "cp1252"),
        ("windows-1252", "cp1252"),
        ("gb2312", "gb18030"),
        ("Shift_JIS", "cp932"),
        ("iso-8859-9", "cp1254"),
        ("iso-8859-2", "iso8859_2"),
        ("koi8-r", "koi8_r"),
        ("cp65001", "utf_8"),
        # Codecs of Python that are no charset, or are slow on what is made to be so.
        *((label, "") for label in ("rot13", "zlib", "idna", "punycode", "unicode_escape", "hex")),
        *((label, "") for label in ("", "none", "ütf-8", "\0", "mbcs")),
    ]:
        with subtests.test(label=label):
            assert codec_of(label) == codec


def test_characters_of_a_document(subtests):
    for data, outer, inner, text in [
        (SPANISH.encode(), "", "", SPANISH),
        (SPANISH.encode("cp1252"), "", "", SPANISH),
        (SPANISH.encode("cp1252"), "cp1252", "", SPANISH),
        (SPANISH.encode("cp1252"), "cp1252", "utf_8", SPANISH),
        (SPANISH.encode("cp1252"), "", "cp1252", SPANISH),
        ("Аллергия".encode("cp1251"), "cp1251", "", "Аллергия"),
        ("アレルギー".encode("cp932"), "", "cp932", "アレルギー"),
        (SPANISH.encode("utf-16-be"), "utf_16_be", "", SPANISH),
        # A byte order mark counts more than what is said: WHATWG Encoding §6.1.
        (SPANISH.encode("utf-8-sig"), "cp1252", "cp1252", SPANISH),
        (SPANISH.encode("utf-16"), "utf_8", "", SPANISH),
        (b"\xfe\xff" + SPANISH.encode("utf-16-be"), "", "utf_8", SPANISH),
        # A declaration that can be read is not in UTF-16.
        (SPANISH.encode(), "", "utf_16", SPANISH),
        # A charset that it is not in.
        (SPANISH.encode(), "cp932", "", SPANISH),
        # One wrong byte in UTF-8 does not make the others windows-1252, if UTF-8 is said.
        (b"a\xff " + SPANISH.encode(), "utf_8", "", f"a\ufffd {SPANISH}"),
        (b"a\x81", "", "", "a\ufffd"),
        (b"", "", "", ""),
    ]:
        with subtests.test(data=data):
            assert decode(data, outer, inner) == text


def test_tidy_text(subtests):
    for text, tidied in [
        ("a  b\t c\xa0d\u3000e", "a b c d e"),
        ("a\nb\r\nc\rd\x0be\x0cf\x85g\u2028h\u2029i", "a\nb\nc\nd\ne\nf\ng\nh\ni"),
        ("\n\n  a \n \n\n b\n", "a\nb"),
        ("p\0o\0s\0t", "post"),
        ("a\x01b\x1bc\x7fd\x9fe", "a b c d e"),
        # Soft hyphens do not split a word.
        ("hyper\xadtension", "hypertension"),
        ("hyper\xad \r\n  tension", "hypertension"),
        ("\ufeffa\u200bb", "a b"),
        ("a\u202eb\u2066c", "abc"),
        ("lone \ud800 half \udfff", "lone half"),
        ("not\ufffe a\uffff character\ufdd0", "not a character"),
        ("e\u0301 \u212b", "é Å"),
        # Two letters are joined or parted by it, which is another word.
        ("\u0645\u06cc\u200c\u062e\u0648",) * 2,
        ("\U0001f468\u200d\u2695\ufe0f",) * 2,
    ]:
        with subtests.test(text=text):
            assert tidy(text) == tidied


@REPEATABLE
@given(st.text(st.characters() | st.sampled_from(" \n\r\xad\0\u0301\u0316é\u200b"), max_size=200))
def test_tidy_text_is_normal_and_has_no_control_characters(text):
    tidied = tidy(text)
    assert tidied == unicodedata.normalize("NFC", tidied)
    assert not {unicodedata.category(one) for one in tidied.replace("\n", "")} & {"Cc", "Cs"}
    assert tidied == "\n".join(" ".join(line.split()) for line in tidied.split("\n"))
    assert tidy(tidied) == tidied


@REPEATABLE
@given(st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1))
def test_no_letter_or_digit_is_lost(text):
    assert tidy(text) == unicodedata.normalize("NFC", text)


def test_letter_keeps_thirty_marks():
    """Or sorting them would take hours: UAX #15 §13."""
    text = tidy("word e" + "\u0316\u0301" * 400_000 + "\u0301 after")
    assert text.startswith("word é")
    assert text.endswith(" after")
    assert len(text) < 50


def test_tidy_text_is_cut_after_so_many_characters():
    assert tidy("word\n" * MAX_CHARACTERS) == ("word\n" * (MAX_CHARACTERS // 5)).rstrip()
    # A character of a normal form may be two: U+0958 is.
    assert len(tidy("\u0958" * MAX_CHARACTERS)) == MAX_CHARACTERS
