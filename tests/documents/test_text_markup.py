"""Text of HTML, XML and C-CDA: what a reader sees; nothing is expanded and nothing fetched."""

from __future__ import annotations

import pytest

from fhirapp.documents import Unreadable
from fhirapp.documents.cda import read_xml
from fhirapp.documents.markup import read_html
from fhirapp.documents.media import tidy
from tests.support.documents import C_CDA, laughs


def html(document: str | bytes, codec: str = "") -> str:
    data = document.encode() if isinstance(document, str) else document
    return tidy(read_html(data, codec))


def xml(document: str | bytes, codec: str = "") -> str:
    data = document.encode() if isinstance(document, str) else document
    document = read_xml(data, codec)
    assert document.enclosed == []
    return tidy(document.text)


def test_text_of_html(subtests):
    for document, text in [
        ("<p>a<p>b<br>c<div>d</div>e", "a\nb\nc\nd\ne"),
        ("<table><tr><th>a<th>b<tr><td>c<td>d</table>", "a\nb\nc\nd"),
        ("<ul><li>a<li>b</ul><select><option>c<option>d</select>", "a\nb\nc\nd"),
        ("hyper<b>ten</b>sion CO<sub>2</sub> <span>a</span><span>b</span>", "hypertension CO2 ab"),
        ("hyper&shy;tension &eacute;&#233;&#xE9; 5&nbsp;mg &copy", "hypertension ééé 5 mg ©"),
        ("&amp;lt; &lt;b&gt; &amp; &gt;", "&lt; <b> & >"),
        ("5 < 6 > 4 <3", "5 < 6 > 4 <3"),
        ("a<script>b('<p>')</script>c<style>d</style>e<!-- f -->g<!--", "aceg"),
        ("a<noscript>b<p>c</noscript>d<iframe>e</iframe>f<template>g</template>h", "adfh"),
        ("<title>a &amp; b</title><body onload='c'><p title=d>e", "a & b\ne"),
        ('<p style="x>y">a<img alt="b" src="data:image/png;base64,AAAA">c', "a\nc"),
        ("<svg><g><text>a<tspan>b</tspan></text></g><script>c</script></svg>d", "a\nb\nd"),
        ("<?php a ?><![CDATA[b]]><!weird>c", "c"),
        ('<?xml version="1.0"?><html xmlns="urn:a"><p>a<br/>b</p></html>', "a\nb"),
        ("<o:p>a</o:p><![if !supportLists]>b<![endif]>", "ab"),
        ("<textarea>a</textarea><textarea><b></textarea>", "a\n<b>"),
    ]:  # fmt: skip
        with subtests.test(document=document):
            assert html(document) == text


SPANISH = "<p>niño"


def test_charset_of_html(subtests):
    for document, codec in [
        (SPANISH.encode(), ""),
        (SPANISH.encode("cp1252"), ""),
        (SPANISH.encode("cp1252"), "cp1252"),
        (b"<meta charset=utf-8>" + SPANISH.encode(), ""),
        (b'<META  CHARSET = "ISO-8859-15">' + SPANISH.encode("iso8859-15"), ""),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1252">' +
         SPANISH.encode("cp1252"), ""),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?>' + SPANISH.encode("cp1252"), ""),
        # What the media type says counts more: HTML §13.2.3.2.
        (b"<meta charset=iso-8859-2>" + SPANISH.encode(), "utf_8"),
        (b"<meta charset=utf-16>" + SPANISH.encode(), ""),
        (b"<meta charset=nonsense>" + SPANISH.encode(), ""),
        (("<meta charset=utf-8>" + SPANISH).encode("utf-16"), ""),
    ]:  # fmt: skip
        with subtests.test(document=document):
            assert html(document, codec) == "niño"


def test_text_of_xml(subtests):
    for document, text in [
        ("<a>b<c>d</c>e<f/>g</a>", "b\nd\ne\ng"),
        ('<a b="c">d<!-- e --><?f g?><![CDATA[<h>]]>&amp;&#233;</a>', "d<h>&é"),
        ('<!DOCTYPE a><a xmlns="urn:b" xmlns:c="urn:c"><c:d>e</c:d></a>', "e"),
        ('<!DOCTYPE a SYSTEM "http://a.example/x.dtd"><a>b&unknown;c</a>', "bc"),
        ("<a><unbound:b>c</unbound:b></a>", "c"),
        ("<a>b\x0bc\x1ad</a>", "b c d"),
    ]:
        with subtests.test(document=document):
            assert xml(document) == text


def test_charset_of_xml(subtests):
    for document, codec in [
        ("<a>niño</a>".encode(), ""),
        ('<?xml version="1.0" encoding="UTF-8"?><a>niño</a>'.encode(), ""),
        ('\ufeff<?xml version="1.0"?><a>niño</a>'.encode(), ""),
        ('<?xml version="1.0" encoding="ISO-8859-1"?><a>niño</a>'.encode("cp1252"), ""),
        ("<?xml version='1.0' encoding='windows-1252'?><a>niño</a>".encode("cp1252"), ""),
        ('<?xml version="1.0" encoding="UTF-8"?><a>niño</a>'.encode("cp1252"), "cp1252"),
        ('<?xml version="1.0" encoding="utf-16"?><a>niño</a>'.encode("utf-16"), ""),
        # As programs write it that change the charset and not the declaration.
        ('<?xml version="1.0" encoding="utf-16"?><a>niño</a>'.encode(), ""),
        ('<?xml version="1.0" encoding="nonsense"?><a>niño</a>'.encode(), ""),
    ]:
        with subtests.test(document=document):
            assert xml(document, codec) == "niño"


def test_text_of_c_cda_is_its_narrative_and_its_display_names():
    """Not names of people, identifiers and the like: they are searched as resources."""
    assert xml(C_CDA).split("\n") == [
        *("Summarization of Episode", "Visit Summary", "Allergies", "Substance", "Reaction"),
        *("Penicillin G", "Hives", "Itching", "CO2 retention & wheeze"),
        *("Propensity to adverse reaction to drug", "drug allergy", "Active"),
    ]


def test_c_cda_may_have_a_prefix():
    named = C_CDA.replace("xmlns=", "xmlns:cda=").replace("</", "</cda:")
    prefixed = named.replace("<", "<cda:").replace("<cda:/cda:", "</cda:").replace("<cda:?", "<?")
    assert xml(prefixed) == xml(C_CDA)


def test_xml_that_declares_entities_is_unreadable(subtests):
    for document in [
        laughs(9),
        laughs(0),
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        '<!DOCTYPE a [<!ENTITY b PUBLIC "b" "http://127.0.0.1:1/">]><a>&b;</a>',
        '<!DOCTYPE a [<!ENTITY % b SYSTEM "file:///etc/passwd"> %b;]><a>c</a>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "b" NDATA c>]><a>d</a>',
    ]:
        with subtests.test(document=document):
            with pytest.raises(Unreadable) as error:
                xml(document)
            assert str(error.value) == "XML that declares entities"


def test_external_dtd_is_not_read(tmp_path):
    secret = tmp_path / "secret.dtd"
    secret.write_text('<!ENTITY b "secret">')
    assert xml(f'<!DOCTYPE a SYSTEM "{secret.as_uri()}"><a>seen &b;</a>') == "seen"


def test_character_of_any_number_takes_no_word_from_the_others(subtests):
    for number in ["xD800", "xDFFF", "x110000", "1114112", "9" * 5_000, "x" + "F" * 99]:
        with subtests.test(number=number):
            for reference in (f"&#{number};", f"&#{number} ", f"&amp;#{number};"):
                found = html(f"before{reference} after")
                assert found.startswith("before")
                assert found.endswith("after")
