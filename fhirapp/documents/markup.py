"""The text of HTML, XML and JSON; of a C-CDA what a reader sees and what its codes mean."""

from __future__ import annotations

import html
import json
import re
from base64 import b64decode
from typing import Any, NamedTuple, Protocol
from xml.parsers import expat

import nh3

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
_XML_DECLARATION = re.compile(rb"""\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_START = 1024
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f]")


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
    label = _XML_DECLARATION.match(data[:_START]) or _META.search(data[:_START])
    return decode(data, codec, codec_of(label[1].decode()) if label else "")


def xml_characters(data: bytes, codec: str) -> str:
    """Return the characters of XML, which may name its charset itself.

    As characters: expat itself knows only few charsets. Some programs write control characters
    that XML has none of, and the words around them count.
    """
    label = _XML_DECLARATION.match(data[:_START])
    return _CONTROL.sub(" ", decode(data, codec, codec_of(label[1].decode()) if label else ""))


class Enclosed(NamedTuple):
    """A file within a C-CDA: its body, the text of a section, or the content of an entry.

    CDA R2 §4.2.4.2 (nonXMLBody) and §4.3.6.5 (observationMedia); data types §2.4 (ED). section is
    the title of its section, "" outside of sections.
    """

    content_type: str
    base64: str
    section: str

    def content(self) -> bytes:
        """Return its bytes. Raises Unreadable."""
        try:
            return b64decode(self.base64)
        except ValueError:
            raise Unreadable("what is called base64 and is not") from None


def read_xml(data: bytes, codec: str) -> tuple[str, list[Enclosed]]:
    """Return the text of XML, and the files within. Raises Unreadable.

    Nothing is fetched, and what declares entities is not read: an entity of an entity makes a
    few bytes into gigabytes.
    """
    collector = _Collector()
    parse_xml(xml_characters(data, codec), collector)
    return "".join(collector.parts), collector.enclosed


class XmlReader(Protocol):
    """Receives XML element by element."""

    def start(self, name: str, attributes: dict[str, str]) -> None: ...

    def end(self, name: str) -> None: ...

    def characters(self, text: str) -> None: ...


def parse_xml(text: str, reader: XmlReader) -> None:
    """Pass the elements of XML to a reader; entities are refused. Raises Unreadable."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(text, True)
    except expat.ExpatError:
        raise Unreadable("XML that is not well-formed") from None


def _refuse_entity(*_declaration: object) -> None:
    raise Unreadable("XML that declares entities")


# The parts of a C-CDA that are written for people: CDA R2 §4.3.5, data types §2.5 (originalText).
_FOR_PEOPLE = frozenset({"originalText", "text", "title"})
# Of the narrative's elements these do not end a word: CDA R2 §4.3.5.
_WITHIN_A_WORD = frozenset({"content", "footnoteRef", "linkHtml", "sub", "sup"})


class _Collector:
    """Receives the parts of an XML document; parts is its text.

    Names are compared without their prefix: what matters is what words there are.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.enclosed: list[Enclosed] = []
        # Whether it is a C-CDA; None until the first element says so.
        self._clinical: bool | None = None
        self._path: list[str] = []
        # How many elements are open from the one for people inwards.
        self._open = 0
        self._displays: set[str] = set()
        # The titles of the sections that are open.
        self._titles: list[list[str]] = []
        # The base64 of a file, how deep its element is, and its media type.
        self._file: list[str] | None = None
        self._depth = 0
        self._type = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if self._clinical is None:
            self._clinical = local == "ClinicalDocument"
        self._separate(local)
        if not self._clinical:
            return
        self._path.append(local)
        if local == "section":
            self._titles.append([])
        display = attributes.get("displayName")
        if display and display not in self._displays:
            self._displays.add(display)
            self.parts.append(f"{display}\n")
        if self._open:
            self._open += 1
        elif local in _FOR_PEOPLE:
            self._open = 1
        if self._file is None and attributes.get("representation") == "B64":
            self._file, self._depth = [], len(self._path)
            self._type = attributes.get("mediaType", "")

    def characters(self, text: str) -> None:
        if self._file is not None:
            # Not those of a thumbnail within.
            if len(self._path) == self._depth:
                self._file.append(text)
        elif self._open or not self._clinical:
            self.parts.append(text)
            if self._path[-2:] == ["section", "title"]:
                self._titles[-1].append(text)

    def end(self, name: str) -> None:
        self._separate(name.rpartition(":")[2])
        if not self._clinical:
            return
        if self._open:
            self._open -= 1
        if self._file is not None and len(self._path) == self._depth:
            self._enclose("".join(self._file))
            self._file = None
        if self._path.pop() == "section":
            self._titles.pop()

    def _separate(self, local: str) -> None:
        if not (self._clinical and local in _WITHIN_A_WORD):
            self.parts.append("\n")

    def _enclose(self, base64: str) -> None:
        # One that is empty only names a file elsewhere.
        if base64.strip():
            titles = ("".join(title).strip() for title in reversed(self._titles))
            self.enclosed.append(Enclosed(self._type, base64, next(filter(None, titles), "")))


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
