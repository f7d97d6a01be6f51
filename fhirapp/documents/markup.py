"""HTML, XML and JSON: their characters and text, a safe reader of XML, and safe HTML.

Safe HTML has no script, no style, no address, and loads nothing.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

import nh3

from fhirapp import safe_xml
from fhirapp.documents.media import Unreadable, codec_of, decode

# Block elements and cells, which end a word. Other elements may be within a word.
_SEPARATE = frozenset(
    {
        *("address", "article", "aside", "blockquote", "br", "caption", "center", "dd", "details"),
        *("dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "img", "legend", "li"),
        *("main", "menu", "nav", "ol", "optgroup", "option", "p", "pre", "section", "select"),
        *("summary", "table", "tbody", "td", "textarea", "tfoot", "th", "thead", "title", "tr"),
        *("ul", "button"),
        # Of a drawing; nh3 leaves out what is in those of its elements that are not listed.
        *("g", "svg", "text", "tspan"),
    }
)
# Not displayed as text. nh3 removes comments.
UNSEEN = frozenset({"iframe", "noembed", "noframes", "noscript", "script", "style", "template"})
_TAG = re.compile("<[^>]*>")
# HTML §13.2.3.2 looks for it in as many bytes.
_META = re.compile(rb"""<meta\s[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_START = 1024
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f]")
_RULES = safe_xml.XmlRules(depth=200)
# Of the HTML that is shown; the rest is downloaded.
_MAX_CHARACTERS, _MAX_DEPTH, _MAX_TAGS = 2_000_000, 256, 1_000_000
_INLINE_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/=\s]*")
_TAGS = {
    *("abbr", "address", "article", "b", "bdi", "bdo", "blockquote", "br", "caption", "center"),
    *("cite", "code", "col", "colgroup", "dd", "del", "dfn", "div", "dl", "dt", "em", "figcaption"),
    *("figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "i", "img", "ins"),
    *("kbd", "li", "main", "mark", "ol", "p", "pre", "q", "s", "samp", "section", "small", "span"),
    *("strike", "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "time"),
    *("tr", "tt", "u", "ul", "var"),
}
_ATTRIBUTES = {
    "*": {"dir", "lang", "title"},
    "img": {"alt", "src"},
    "ol": {"start", "type"},
    "td": {"colspan", "headers", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}

# A tag of clean HTML; without a name what is none.
_CLEAN_TAG = re.compile(r'<(?:(/?)([a-z][a-z0-9]*)(?: [a-z]+="[^"]*"){0,6}>)?')
_VOID = frozenset({"br", "col", "hr", "img"})


def read_html(data: bytes, codec: str) -> str:
    """Return the text of HTML, as a browser understands it; XHTML is read in the same way."""
    clean = nh3.clean(
        html_characters(data, codec),
        tags=set(_SEPARATE),
        attributes={},
        clean_content_tags=set(UNSEEN),
        link_rel=None,
    )
    return html.unescape(_TAG.sub("\n", clean))


def html_characters(data: bytes, codec: str) -> str:
    """Return the characters of HTML, which may name its charset itself."""
    label = safe_xml.DECLARATION.match(data[:_START]) or _META.search(data[:_START])
    return decode(data, codec, codec_of(label[1].decode()) if label else "")


def xml_characters(data: bytes, codec: str) -> str:
    """Return the characters of XML, which may name its charset itself.

    As characters: expat itself knows only few charsets. Some programs write control characters
    that XML has none of, and the words around them count.
    """
    label = safe_xml.DECLARATION.match(data[:_START])
    return _CONTROL.sub(" ", decode(data, codec, codec_of(label[1].decode()) if label else ""))


def parse_xml(text: str, handler: safe_xml.XmlHandler) -> None:
    """Pass the elements of XML to a handler. Raises Unreadable."""
    try:
        safe_xml.XmlParser(handler, _RULES).feed(text, is_last=True)
    except safe_xml.MalformedXml:
        raise Unreadable("XML that is not well-formed") from None
    except safe_xml.InvalidXml as error:
        raise Unreadable(str(error).removeprefix("is ")) from None


def read_json(data: bytes, codec: str) -> str:
    """Return the strings in JSON, in order. Raises Unreadable."""
    try:
        root: Any = json.loads(decode(data, codec))
    except (ValueError, RecursionError):
        raise Unreadable("broken JSON") from None
    strings = []
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            strings.append(value)
        elif isinstance(value, dict):
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
    return "\n".join(strings)


def clean_html(html: str) -> str:
    """Return safe HTML of any; of long or deep HTML this takes long. Raises Unreadable."""
    if len(html) > _MAX_CHARACTERS:
        raise Unreadable(f"longer than {_MAX_CHARACTERS:,} characters")
    clean = _sanitized(html)
    _check_clean(clean)
    return clean


def clean_again(html: str) -> str:
    """Return clean HTML, sanitized, whoever says that it is clean. Raises Unreadable."""
    _check_clean(html)
    return _sanitized(html)


def _sanitized(html: str) -> str:
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_filter,
        clean_content_tags={*UNSEEN, "svg", "math", "title"},
        url_schemes={"data"},
        link_rel=None,
    )


def _filter(element: str, attribute: str, value: str) -> str | None:
    if (element, attribute) == ("img", "src") and not _INLINE_PICTURE.fullmatch(value):
        return None
    return value


def _check_clean(html: str) -> None:
    """Check that nh3 reads HTML in linear time: it is well-formed, and not deep.

    Raises Unreadable.
    """
    opened: list[str] = []
    for count, tag in enumerate(_CLEAN_TAG.finditer(html)):
        is_end, name = tag.groups()
        if is_end and opened[-1:] == [name]:
            opened.pop()
        elif is_end or name is None:
            raise Unreadable("HTML that is not well-formed")
        elif name not in _VOID:
            opened.append(name)
        if len(opened) > _MAX_DEPTH:
            raise Unreadable(f"nested more than {_MAX_DEPTH} elements deep")
        if count > _MAX_TAGS:
            raise Unreadable(f"HTML of more than {_MAX_TAGS:,} tags")
    if opened:
        raise Unreadable("HTML that is not well-formed")
