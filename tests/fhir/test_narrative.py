"""Narratives: what comes in is made safe and stays XHTML; what is generated is escaped.

Source: FHIR R4 narrative §2.4.0.1; decisions 2.20.
"""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from fhirapp.fhir import narrative
from fhirapp.fhir.narrative import XHTML, generate, sanitise

REPEATABLE = settings(max_examples=30)


def parsed(div: str) -> ElementTree.Element:
    """Return a narrative as XML: one div, everything in the XHTML namespace."""
    root = ElementTree.fromstring(div)
    assert root.tag == f"{{{XHTML}}}div"
    assert all(element.tag.startswith(f"{{{XHTML}}}") for element in root.iter())
    return root


def inside(content: str) -> str:
    """Return what is left of the content of a div."""
    div = sanitise(f"<div>{content}</div>")
    parsed(div)
    return div.removeprefix(f'<div xmlns="{XHTML}">').removesuffix("</div>")


def test_narrative_is_sanitised(subtests):
    for content, left in [
        ("a<script>alert(1)</script>b", "ab"),
        ("a<SCRIPT src='http://evil.example/x.js'></SCRIPT>b", "ab"),
        ("a<style>p { background: url(http://evil.example) }</style>b", "ab"),
        ('<p style="background: url(http://evil.example)">a</p>', "<p>a</p>"),
        ('<p onclick="x()" ONMOUSEOVER="y()">a</p>', "<p>a</p>"),
        # an image that is fetched tells who reads, and when
        ('<img src="pain.png" onerror="x()" alt="pain"/>', '<img alt="pain"/>'),
        ('<img src="http://a.example/x.png"/>', "<img/>"),
        ('<a href="javascript:x()">a</a>', "<a>a</a>"),
        ('<a href=" JaVa&#10;ScRiPt:x()">a</a>', "<a>a</a>"),
        ('<a href="vbscript:x()">a</a>', "<a>a</a>"),
        ('<img src="javascript:x()" alt="a"/>', '<img alt="a"/>'),
        ('a<iframe src="http://evil.example"></iframe>b', "ab"),
        ('a<object data="x"></object><embed src="x"/>b', "ab"),
        ('a<form action="http://evil.example"><input name="n"/></form>b', "ab"),
        ('a<link rel="stylesheet" href="x"/><meta http-equiv="refresh"/><base href="x"/>b', "ab"),
        ("a<!-- a comment -->b", "ab"),
        ("a<!--<script>alert(1)</script>-->b", "ab"),
        ("a<svg onload='x()'><script>y()</script></svg>b", "ab"),
        # what may stay
        ('<a href="https://example.org/a?b=1&amp;c=2">a</a>',) * 2,
        ('<a href="#part" name="n">a</a><a href="mailto:a@b.example">b</a>',) * 2,
        ('<img src="data:image/png;base64,AAAA" alt="a"/>',) * 2,
        ('<img src="#contained" alt="x" width="1" height="2"/>',) * 2,
        ('<p class="c" id="i" title="&lt;&quot;&gt;" lang="es">a<br/>b</p><hr/>',) * 2,
        ('<table border="1"><tbody><tr><td colspan="2">a</td></tr></tbody></table>',) * 2,
        ("<h1>a</h1><ul><li><b>b</b></li></ul><ol><li><i>c</i></li></ol><pre>d\n  e</pre>",) * 2,
        # as HTML would have it; here it must be XML
        ("<p>a<br>b<hr>c", "<p>a<br/>b</p><hr/>c"),
        ("a &amp; b &lt;script&gt; &amp;lt;", "a &amp; b &lt;script&gt; &amp;lt;"),
        ("&aacute;&nbsp;&#241;&#x1F600; &copy", "á\u00a0ñ\U0001f600 ©"),
    ]:  # fmt: skip
        with subtests.test(content=content):
            assert inside(content) == left
            assert inside(left) == left


def test_link_to_data_is_taken_out(subtests):
    """Only images may be data: a page of its own would run what it holds."""
    for content in ["data:text/html,<script>x()</script>", "data:text/html;base64,AA", "data:,x"]:
        with subtests.test(content=content):
            assert inside(f'<a href="{content.replace("<", "&lt;")}">a</a>') == "<a>a</a>"


def test_formatting_that_r4_allows_stays(subtests):
    """FHIR R4 narrative §2.4.0.1 allows HTML 4's chapters 7 to 11 and 15.

    Without its line through it a drug that was struck out reads as one that is taken.
    """
    for tag in ["u", "s", "strike", "kbd", "address"]:
        with subtests.test(tag=tag):
            assert inside(f"<{tag}>penicillin</{tag}>") == f"<{tag}>penicillin</{tag}>"


def test_language_mark_of_xhtml_stays():
    assert 'xml:lang="es"' in inside('<p xml:lang="es">hola</p>')


def test_text_in_a_cdata_section_stays():
    """It is text of the XHTML that FHIR R4 narrative §2.4.0.1 asks for."""
    assert inside("a <![CDATA[b < c]]> d") == "a b &lt; c d"


def test_narrative_of_several_elements_becomes_one_div_or_is_refused(subtests):
    """FHIR R4 narrative §2.4.0.1: one div; XML 1.0 §2.2: characters that XML has."""
    for div, letters in [
        ("<divine>a</divine>", "a"),
        ("<div>a</div><div>b</div>", "ab"),
        ("<div>a</div>b<p>c</p>", "abc"),
        ("<div>a</div><p>b</p>", "ab"),
        ("<div>a&#1;b&#11;c</div>", "abc"),
        ("<div>a\x0b\x0cb</div>", "ab"),
        ("<div>a\ufffeb&#xffff;</div>", "ab"),
        ('<div><p title="&#2;">a</p></div>', "a"),
    ]:
        with subtests.test(div=div):
            try:
                clean = sanitise(div)
            except ValueError:
                return
            assert [letter for letter in "".join(parsed(clean).itertext()) if letter in "abc"] == [
                *letters
            ]


def test_line_ends_are_those_of_xml(subtests):
    for content in ["a\rb", "a&#13;b", "a\r\nb", "a&#13;&#10;b", "a\nb"]:
        with subtests.test(content=content):
            assert inside(content) == "a\nb"


def test_narrative_that_does_not_begin_with_a_div_is_refused(subtests):
    for div in [
        "",
        "text",
        "<p>a</p>",
        "<!-- x --><div>a</div>",
        "<?xml version='1.0'?><div>a</div>",
    ]:
        with subtests.test(div), pytest.raises(ValueError, match="must be an XHTML div element"):
            sanitise(div)


def test_narrative_that_says_nothing_is_refused(subtests):
    """FHIR R4 narrative, txt-2: some text or an image."""
    for content in ["", " \n ", "<p></p>", "<script>a</script>", "&nbsp;", "<br>"]:
        with (
            subtests.test(content),
            pytest.raises(ValueError, match="must have some text or image"),
        ):
            sanitise(f"<div>{content}</div>")


def test_lone_surrogate_is_refused():
    with pytest.raises(ValueError, match="surrogates"):
        sanitise("<div>\ud800</div>")


# Letters that XML has; no line ends, which a pre and XML itself treat specially.
WORDS = st.text(
    st.characters(min_codepoint=32, exclude_categories=["Cs", "Cn", "Cc"]), min_size=1, max_size=8
)
TAGS = (
    *("p", "b", "table", "tr", "td", "ul", "li", "a", "div", "pre", "h1", "span", "br", "img"),
    *("script", "style", "iframe", "form", "svg", "math", "template", "textarea", "title", "xmp"),
    *("noscript", "select", "option", "object", "plaintext", "foreignObject", "mi", "x-y"),
)
ATTRIBUTES = (
    *('href="javascript:x()"', "href='https://a.example/?b=1&c'", 'onclick="x()"', "style='x'"),
    *('title="a > b"', "title='\"'", "title=`<b`", "class", 'id="&quot;&lt;"', "src=x", "lang=es"),
)
NASTY = st.lists(
    st.one_of(
        WORDS,
        st.sampled_from([f"<{tag}>" for tag in TAGS] + [f"</{tag}>" for tag in TAGS]),
        st.tuples(st.sampled_from(TAGS), st.sampled_from(ATTRIBUTES)).map("<%s %s>".__mod__),
        st.sampled_from(["<", ">", "&", "&lt;", "&amp;amp;", "<!--", "-->", "</", "<?x", "&#60;"]),
        st.sampled_from(["<br/>", "<p/>", "<![CDATA[", "]]>", "<!DOCTYPE x>", "\"'", "&copy", "="]),
    ),
    max_size=12,
).map("".join)  # fmt: skip
FORBIDDEN = {"script", "style", "iframe", "form", "object", "embed", "svg", "math", "template"}
FORBIDDEN |= {"textarea", "select", "option", "noscript", "plaintext", "xmp", "title", "input"}


def made_safe(div: str) -> str:
    """Return a narrative made safe; what is refused is no case."""
    try:
        return sanitise(div)
    except ValueError:
        reject()


@REPEATABLE
@given(NASTY)
def test_any_narrative_is_safe_after_sanitising(content):
    for element in parsed(made_safe(f"<div>begin {content}")).iter():
        assert element.tag.removeprefix(f"{{{XHTML}}}") not in FORBIDDEN
        assert not {name for name in element.attrib if name[:2] == "on" or name == "style"}
        for name in ("href", "src"):
            assert "script" not in element.attrib.get(name, "")


@REPEATABLE
@given(NASTY)
def test_sanitising_again_changes_nothing(content):
    once = made_safe(f"<div>begin {content}")
    assert sanitise(once) == once


@REPEATABLE
@given(st.lists(WORDS, min_size=1, max_size=5))
def test_every_word_of_a_plain_narrative_stays(words):
    source = "".join(f"<p><b>{escape(word)}</b></p>" for word in words)
    assert ["".join(p.itertext()) for p in parsed(sanitise(f"<div>x{source}</div>"))] == words


ROWS = (
    ("Substance", "code", narrative.concept),
    ("Status", "clinicalStatus", narrative.concept),
    ("Recorder", "recorder", narrative.reference),
)
PENICILLIN = {"code": {"text": "Penicillin"}, "recorder": {"reference": "Practitioner/x"}}


def test_generated_narrative_is_marked_with_its_language(subtests):
    for language, mark, foreign, labels in [
        (None, "", "", ["Substance", "Recorder"]),
        ("en", ' xml:lang="en" lang="en"', "", ["Substance", "Recorder"]),
        ("en-US", ' xml:lang="en-US" lang="en-US"', "", ["Substance", "Recorder"]),
        ("es", ' xml:lang="es" lang="es"', "", ["Sustancia", "Registrado por"]),
        ("ES-mx", ' xml:lang="ES-mx" lang="ES-mx"', "", ["Sustancia", "Registrado por"]),
        ("fr", ' xml:lang="fr" lang="fr"', ' xml:lang="en" lang="en"', ["Substance", "Recorder"]),
    ]:
        with subtests.test(language=language):
            substance, recorder = labels
            assert generate(ROWS, PENICILLIN, language) == {
                "status": "generated",
                "div": (
                    f'<div xmlns="{XHTML}"{mark}><table><tbody>'
                    f"<tr><th{foreign}>{substance}</th><td>Penicillin</td></tr>"
                    f"<tr><th{foreign}>{recorder}</th><td>Practitioner/x</td></tr></tbody></table></div>"
                ),
            }


def test_narrative_of_nothing_says_so():
    div = generate(ROWS, {}, None)["div"]
    assert "".join(parsed(div).itertext()) == "No details."


@REPEATABLE
@given(WORDS, WORDS)
def test_generated_narrative_is_escaped_and_its_own_sanitised_form(text, display):
    elements = {"code": {"text": text}, "recorder": {"display": display}}
    div = generate(ROWS, elements, "es-\"'<&>")["div"]
    table = parsed(div)[0]
    assert ["".join(cell.itertext()) for cell in table.iter(f"{{{XHTML}}}td")] == [text, display]
    assert "".join(parsed(sanitise(div)).itertext()) == "".join(parsed(div).itertext())


def test_element_is_written_in_words(subtests):
    for words, value, said in [
        (narrative.concept, {"text": "a", "coding": [{"display": "b"}]}, "a"),
        (narrative.concept, {"coding": [{"code": "c"}, {"display": "b"}]}, "b"),
        (narrative.concept, {"coding": [{"code": "c"}]}, "c"),
        (narrative.concept, {"extension": []}, ""),
        (narrative.concepts, [{"text": "a"}, {"id": "x"}, {"text": "b"}], "a, b"),
        (narrative.reference, {"reference": "Patient/p", "display": "P"}, "P"),
        (narrative.references, [{"reference": "Patient/p"}, {"display": "P"}], "Patient/p, P"),
        (narrative.period, {"start": "2024"}, "2024 to …"),
        (narrative.plain, ["a", "b"], "a, b"),
        (narrative.reactions, [{"manifestation": [{"text": "hives"}], "severity": "mild"},
                               {"manifestation": [{"text": "wheeze"}]}], "hives (mild); wheeze"),
        (narrative.agents, [{"type": {"text": "author"}, "who": {"display": "Dr. A"}},
                            {"who": {"display": "B"}}], "author: Dr. A; B"),
        (narrative.names, [{"prefix": ["Dr."], "given": ["Ana", None], "family": "Ruiz"},
                           {"text": "Nana"}], "Dr. Ana Ruiz, Nana"),
    ]:  # fmt: skip
        with subtests.test(words=words):
            assert words(value) == said
