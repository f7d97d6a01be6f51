"""Narratives: sanitise what comes in, write one where the source brings none.

Both return a `div` that parses as XML. Source: FHIR R4 narrative §2.4.0.1; decisions 2.20.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from html import escape
from html.parser import HTMLParser
from typing import Any

import nh3

from fhirapp.fhir import words

XHTML = "http://www.w3.org/1999/xhtml"
# What is longer is not remembered: thousands of it would fill the memory.
_SHORT = 200

# FHIR R4 narrative §2.4.0.1: the formatting of HTML 4.0 chapters 7 to 11 and 15, links and images;
# no scripts, forms, styles of their own or anything that reaches out.
_TAGS = frozenset(
    {
        *("a", "abbr", "acronym", "address", "b", "bdo", "big", "blockquote", "br", "caption"),
        *("center", "cite", "code", "col", "colgroup", "dd", "del", "dfn", "div", "dl", "dt"),
        *("em", "font", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd", "li"),
        *("ol", "p", "pre", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup"),
        *("table", "tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul", "var"),
    }
)
_ATTRIBUTES = {
    "*": {"class", "id", "lang", "xml:lang", "title", "dir"},
    "a": {"href", "name"},
    "font": {"color", "face", "size"},
    "img": {"src", "alt", "height", "width"},
    "table": {"border", "summary"},
    "td": {"colspan", "rowspan", "align", "valign", "headers", "abbr"},
    "th": {"colspan", "rowspan", "align", "valign", "scope", "abbr"},
    "col": {"span", "width"},
    "colgroup": {"span", "width"},
    "ol": {"start", "type"},
}
VOID = frozenset({"br", "hr", "img", "col"})
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def sanitise(div: str) -> str:
    """Return an imported narrative as safe XHTML: one div in the XHTML namespace.

    Raises ValueError when it is not a div or nothing is left of it.
    """
    if not re.match(r"\s*<div[\s/>]", div):
        raise ValueError("must be an XHTML div element")
    clean = nh3.clean(
        # HTML knows no CDATA, and would take it for a comment.
        _CDATA.sub(lambda match: escape(match[1], quote=False), div.strip()),
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        attribute_filter=_without_data,
        url_schemes={"http", "https", "mailto", "tel", "data"},
        link_rel=None,
    )
    writer = _XhtmlWriter()
    writer.feed(clean)
    writer.close()
    if not writer.has_content:
        raise ValueError("must have some text or image")
    return writer.xhtml()


def _without_data(tag: str, attribute: str, value: str) -> str | None:
    """Take out links that are documents of their own, and images that are fetched from elsewhere.

    An image that is fetched tells its server who reads the record, and when.
    """
    address = value.strip().lower()
    if tag == "img" and attribute == "src":
        return value if address.startswith(("data:image/", "#")) else None
    return None if attribute == "href" and address.startswith("data:") else value


def _xml_text(text: str) -> str:
    """Leave out the characters that XML has none for, and write line ends as XML reads them."""
    return NO_XML.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class _XhtmlWriter(HTMLParser):
    """Writes sanitised HTML again so that it parses as XML, in one div."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._depth = 0
        # How often the outermost level held something: more than once, and it needs a div.
        self._roots = 0
        self._after_pre = False
        self.has_content = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._at_root()
        written = "".join(f' {name}="{escape(_xml_text(value or ""))}"' for name, value in attrs)
        self._parts.append(f"<{tag}{written}{'/' if tag in VOID else ''}>")
        self._depth += tag not in VOID
        self._after_pre = tag == "pre"
        self.has_content |= tag == "img"

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            self._parts.append(f"</{tag}>")
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        text = _xml_text(data)
        if self._depth == 0 and not text.isspace():
            self._roots += 1
        self._at_root()
        if self._after_pre and text.startswith("\n"):
            # HTML drops the first line end in a pre; it was dropped already.
            text = "\n" + text
        self._after_pre = False
        self._parts.append(escape(text, quote=False))
        self.has_content |= bool(text.strip())

    def _at_root(self) -> None:
        if self._depth == 0:
            self._roots += 1

    def xhtml(self) -> str:
        content = "".join(self._parts).strip()
        if self._roots == 1 and content.startswith("<div"):
            return f'<div xmlns="{XHTML}"{content.removeprefix("<div")}'
        return f'<div xmlns="{XHTML}">{content}</div>'


# What the rows of a generated narrative are called. A language that is not here gets English
# labels, marked as English.
_LABELS: dict[str, dict[str, str]] = {
    "es": {
        "Substance": "Sustancia",
        "Status": "Estado",
        "Verification": "Verificación",
        "Criticality": "Criticidad",
        "Reaction": "Reacción",
        "Onset": "Inicio",
        "Recorded": "Registrado",
        "Recorder": "Registrado por",
        "Document": "Documento",
        "Category": "Categoría",
        "Date": "Fecha",
        "Author": "Autor",
        "Custodian": "Custodio",
        "Description": "Descripción",
    },
}


# A row: its label, the element's FHIR name, how the value reads.
Row = tuple[str, str, Callable[[Any], str]]


def generate(
    rows: Iterable[Row], elements: Mapping[str, Any], language: str | None
) -> dict[str, str]:
    """Return a Narrative of status generated: a table of what a person needs.

    A row without a value is left out. language is the resource's own, and marks the div.
    """
    labels, marked, _ = _labels(language)
    cells = []
    for label, name, text_of in rows:
        value = elements.get(name)
        text = text_of(value) if value is not None else ""
        if text:
            shown, cell = labels.get(label, label), written(text)
            cells.append(f"<tr><th{marked}>{shown}</th><td>{cell}</td></tr>")
    body = f"<table><tbody>{''.join(cells)}</tbody></table>" if cells else "<p>No details.</p>"
    return generated(body, language)


def generated(body: str, language: str | None) -> dict[str, str]:
    """Return a Narrative of status generated; body is XHTML, whose texts are written()."""
    *_, mark = _labels(language)
    return {"status": "generated", "div": f'<div xmlns="{XHTML}"{mark}>{body}</div>'}


def written(text: str) -> str:
    """Return a text as XML writes it. Most short ones come again."""
    return _escaped(text) if len(text) <= _SHORT else _escaped.__wrapped__(text)


@lru_cache(maxsize=10_000)
def _escaped(text: str) -> str:
    return escape(_xml_text(text), quote=False)


@lru_cache(maxsize=1_000)
def _labels(language: str | None) -> tuple[Mapping[str, str], str, str]:
    """Return the labels of a language, what marks them where they are foreign to it, its mark."""
    if language is None:
        return {}, "", ""
    base = language.partition("-")[0].lower()
    labels = _LABELS.get(base, {})
    foreign = ' xml:lang="en" lang="en"' if not labels and base != "en" else ""
    name = escape(language)
    return labels, foreign, f' xml:lang="{name}" lang="{name}"'


def plain(value: Any) -> str:
    """Say a primitive, or a list of them."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# A narrative leaves nothing out.
concept = partial(words.concept, longest=None)
concepts = partial(words.concepts, longest=None)
reference = partial(words.reference, longest=None)
references = partial(words.references, longest=None)
period = partial(words.period, longest=None)
names = partial(words.human_names, longest=None)


def reactions(value: Iterable[Mapping[str, Any]]) -> str:
    """Say AllergyIntolerance.reaction: manifestations, their description, and how severe."""
    texts = []
    for reaction in value:
        parts = [concepts(reaction.get("manifestation", ())), reaction.get("description")]
        text = ": ".join(filter(None, parts))
        severity = reaction.get("severity")
        texts.append(f"{text} ({severity})" if severity else text)
    return "; ".join(filter(None, texts))


def agents(value: Iterable[Mapping[str, Any]]) -> str:
    """Say Provenance.agent: each one's role and who it is."""
    texts = []
    for agent in value:
        role = concept(agent.get("type", {}))
        who = reference(agent.get("who", {}))
        texts.append(f"{role}: {who}" if role else who)
    return "; ".join(filter(None, texts))
