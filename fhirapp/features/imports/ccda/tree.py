"""The XML of a clinical document as a tree, read defensively.

Of the body only what is taken is kept: the Allergies section. Nothing is fetched, nothing is
expanded, and what could make a few bytes into gigabytes is refused. Source: XML 1.0 §4; CDA R2 §4.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from xml.parsers import expat

HL7, SDTC = "urn:hl7-org:v3", "urn:hl7-org:sdtc"
_PREFIXES = {HL7: "", SDTC: "sdtc:"}
_XSI_TYPE = "http://www.w3.org/2001/XMLSchema-instance type"

MAX_BYTES = 50_000_000
_MAX_DEPTH = 200
# Of the header and the Allergies section, which are kept; two thousand allergies have fewer.
_MAX_ELEMENTS = 100_000
_MAX_ATTRIBUTES = 100
_MAX_ATTRIBUTE = 65_536
# How much of a path a message has.
_MAX_PATH = 300

# XML 1.0 §4.3.3 and appendix F: how a document declares its encoding.
_DECLARATION = re.compile(rb"""<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_CODECS = {
    "utf-8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "latin-1",
    "iso-8859-15": "iso8859-15",
    "windows-1252": "cp1252",
}


class UnreadableDocument(ValueError):
    """A document that cannot be taken; str() says why, in which line and element.

    line is 0 and path is empty where the whole is meant; place is that of the document.
    """

    def __init__(self, message: str, line: int = 0, path: str = "") -> None:
        where = ", ".join(filter(None, (f"line {line}" if line else "", path[:_MAX_PATH])))
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.line = line
        self.path = path
        self.place = ""


class CcdaElement:
    """An element: its name without the namespace of CDA, sdtc: before those of that.

    The name is `{namespace}name` in any other. content has text and elements in their order.
    """

    __slots__ = ("attributes", "content", "is_left_out", "line", "name", "parent")

    def __init__(
        self, name: str, attributes: dict[str, str], line: int, parent: CcdaElement | None
    ) -> None:
        self.name = name
        self.attributes = attributes
        self.line = line
        self.parent = parent
        self.content: list[CcdaElement | str] = []
        # Of a section: whether its text and entries are not kept.
        self.is_left_out = False

    def get(self, attribute: str) -> str:
        """Return an attribute without white space around it, "" where there is none."""
        return self.attributes.get(attribute, "").strip()

    @property
    def null_flavor(self) -> str:
        return self.get("nullFlavor")

    @property
    def elements(self) -> Iterator[CcdaElement]:
        return (child for child in self.content if isinstance(child, CcdaElement))

    def all(self, path: str) -> list[CcdaElement]:
        """Return the elements at a path below: "component/section"."""
        reached = [self]
        for step in path.split("/"):
            # Called most often of all: faster than by way of elements.
            reached = [
                child
                for element in reached
                for child in element.content
                if child.__class__ is CcdaElement and child.name == step
            ]
        return reached

    def first(self, path: str) -> CcdaElement | None:
        """Return the first element at a path below, None where there is none."""
        if "/" in path:
            return next(iter(self.all(path)), None)
        for child in self.content:
            if child.__class__ is CcdaElement and child.name == path:
                return child
        return None

    def descendants(self) -> Iterator[CcdaElement]:
        """Yield the elements below, in the document's order."""
        for child in self.elements:
            yield child
            yield from child.descendants()

    def templates(self) -> set[str]:
        """Return the roots of the templates that it says it conforms to."""
        return {template.get("root") for template in self.all("templateId")}

    @property
    def path(self) -> str:
        """Its place: ClinicalDocument/recordTarget[2]."""
        if self.parent is None:
            return self.name
        alike = [sibling for sibling in self.parent.elements if sibling.name == self.name]
        place = (
            "" if len(alike) < 2 else f"[{[sibling is self for sibling in alike].index(True) + 1}]"
        )
        return f"{self.parent.path}/{self.name}{place}"

    def refused(self, message: str) -> UnreadableDocument:
        """Return what to raise where this element makes the document unreadable."""
        return UnreadableDocument(message, self.line, self.path)


# Takes the place of an element that is not there: it has no attributes and no content.
NOTHING = CcdaElement("", {}, 0, None)


def read(document: bytes, is_wanted: Callable[[CcdaElement], bool]) -> CcdaElement:
    """Return a document's root; of its sections' content only that of those that are wanted.

    is_wanted decides by a section's templateIds, its code and its title. Raises UnreadableDocument.
    """
    if len(document) > MAX_BYTES:
        raise UnreadableDocument(f"is larger than {MAX_BYTES // 1_000_000} MB")
    builder = _Builder(is_wanted)
    # UTF-8 whatever the declaration says: expat itself knows only few charsets.
    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    parser.buffer_text = True
    builder.line = lambda: parser.CurrentLineNumber
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.doctype
    try:
        parser.Parse(_as_utf8(document), True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise UnreadableDocument(
            f"is not well-formed XML: {reason}", error.lineno, builder.path
        ) from None
    if builder.root is None:
        raise UnreadableDocument("is empty")
    return builder.root


def _as_utf8(document: bytes) -> bytes:
    for mark, codec in _MARKS:
        if document.startswith(mark):
            return _encoded(document, codec, codec[:6].rstrip("-").upper())
    declared = _DECLARATION.match(document[:1024])
    label = declared[1].decode() if declared else "UTF-8"
    codec = _CODECS.get(label.lower(), "")
    if not codec:
        raise UnreadableDocument(
            f"says that it is written in {label}, and does not begin so"
            if label.lower().startswith("utf-16")
            else f"is written in {label}; use UTF-8",
            1,
        )
    return _encoded(document, codec, label)


def _encoded(document: bytes, codec: str, label: str) -> bytes:
    try:
        characters = document.decode(codec)
        if codec == "utf-8":
            return document.removeprefix(codecs.BOM_UTF8)
        return characters.removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = document.count(b"\n", 0, error.start) + 1
        raise UnreadableDocument(
            f"is not {label}, as it says it is: byte {error.start + 1}", line
        ) from None


class _Builder:
    """Receives the parts of a document from the parser and keeps what is wanted."""

    line: Callable[[], int]

    def __init__(self, is_wanted: Callable[[CcdaElement], bool]) -> None:
        self.root: CcdaElement | None = None
        self._is_wanted = is_wanted
        self._at: CcdaElement | None = None
        self._depth = 0
        self._count = 0
        # How many elements are open from the one inwards that is left out.
        self._left_out = 0
        # The sections that are open, and whether their content is wanted.
        self._wanted: dict[CcdaElement, bool] = {}

    @property
    def path(self) -> str:
        return self._at.path if self._at is not None else ""

    def doctype(self, *_declaration: object) -> None:
        raise UnreadableDocument(
            "has a DOCTYPE, which a clinical document never has; remove it", self.line()
        )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._left_out and self._depth <= _MAX_DEPTH:
            # Most of a document, of which nothing is kept.
            self._left_out += 1
            return
        self._check(attributes)
        name = _name(name)
        if self._is_left_out(name):
            self._left_out += 1
            return
        self._count += 1
        if self._count > _MAX_ELEMENTS:
            message = f"has more than {_MAX_ELEMENTS:,} elements in its header and Allergies"
            raise UnreadableDocument(message, self.line(), self.path)
        if _XSI_TYPE in attributes:
            attributes["xsi:type"] = attributes.pop(_XSI_TYPE)
        element = CcdaElement(name, attributes, self.line(), self._at)
        if self._at is None:
            _check_root(element)
            self.root = element
        else:
            self._at.content.append(element)
        self._at = element

    def _check(self, attributes: dict[str, str]) -> None:
        if self._depth > _MAX_DEPTH:
            message = f"is nested more than {_MAX_DEPTH} elements deep"
        elif len(attributes) > _MAX_ATTRIBUTES:
            message = f"has an element with more than {_MAX_ATTRIBUTES} attributes"
        elif attributes and max(map(len, attributes.values())) > _MAX_ATTRIBUTE:
            message = f"has an attribute of more than {_MAX_ATTRIBUTE:,} characters"
        else:
            return
        raise UnreadableDocument(message, self.line(), self.path)

    def _is_left_out(self, name: str) -> bool:
        """Say whether an element begins what is not taken: the content of another section."""
        at = self._at
        if at is None or at.name != "section" or name not in ("text", "entry"):
            return False
        if at not in self._wanted:
            self._wanted[at] = self._is_within(at) or self._is_wanted(at)
        return not self._wanted[at]

    def _is_within(self, section: CcdaElement) -> bool:
        """Say whether a section is part of one that is wanted."""
        at = section.parent
        while at is not None:
            if at.name == "section" and self._is_wanted(at):
                return True
            at = at.parent
        return False

    def end(self, _name_of: str) -> None:
        self._depth -= 1
        if self._left_out:
            self._left_out -= 1
            return
        ended = self._at
        if ended is None:
            return
        ended.is_left_out = not self._wanted.pop(ended, True)
        self._at = ended.parent

    def characters(self, text: str) -> None:
        # A body that is a file in base64 stays in the document alone.
        if self._left_out or self._at is None or "representation" in self._at.attributes:
            return
        self._at.content.append(text)


@lru_cache(maxsize=1_000)
def _name(name: str) -> str:
    namespace, _, local = name.rpartition(" ")
    prefix = _PREFIXES.get(namespace)
    return f"{{{namespace}}}{local}" if prefix is None else prefix + local


def _check_root(element: CcdaElement) -> None:
    if element.name == "ClinicalDocument":
        return
    if element.name == "{}ClinicalDocument":
        message = f'is a ClinicalDocument without its namespace: add xmlns="{HL7}"'
    else:
        message = f"is not a clinical document: it must begin with ClinicalDocument of {HL7}"
    raise element.refused(message)
