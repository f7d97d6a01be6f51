"""The XML of a clinical document as a tree, read defensively.

Of the body only what is taken is kept: the Allergies section. Nothing is fetched, nothing is
expanded, and what could make a few bytes into gigabytes is refused. Source: XML 1.0 §4; CDA R2 §4.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any
from xml.parsers import expat

HL7, SDTC = "urn:hl7-org:v3", "urn:hl7-org:sdtc"
_PREFIXES = {HL7: "", SDTC: "sdtc:"}

MAX_BYTES = 50_000_000
_MAX_DEPTH = 200
_TOO_DEEP = f"is nested more than {_MAX_DEPTH} elements deep"
# Of the header and the Allergies section, which are kept; two thousand allergies have fewer.
_MAX_ELEMENTS = 100_000
_MAX_ATTRIBUTES = 100
_MAX_ATTRIBUTE = 65_536
# The elements of a section that are kept only where the section is wanted.
_CONTENT = ("text", "entry")
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


# The content of what has none, never changed: most elements have none, and each list costs time.
_EMPTY: list[Any] = []


class CcdaElement:
    """An element: its name without the namespace of CDA, sdtc: before those of that.

    The name is `{namespace}name` in any other. content has text and elements in their order,
    elements the elements alone. is_left_out: the text and entries of a section are not kept.
    """

    __slots__ = ("attributes", "content", "elements", "is_left_out", "line", "name", "parent")

    def __init__(
        self, name: str, attributes: dict[str, str], line: int, parent: CcdaElement | None
    ) -> None:
        self.name = name
        self.attributes = attributes
        self.line = line
        self.parent = parent
        self.content: list[CcdaElement | str] = _EMPTY
        self.elements: list[CcdaElement] = _EMPTY
        self.is_left_out = False

    def get(self, attribute: str) -> str:
        """Return an attribute without white space around it, "" where there is none."""
        return self.attributes.get(attribute, "").strip()

    @property
    def null_flavor(self) -> str:
        return self.get("nullFlavor")

    def all(self, path: str) -> list[CcdaElement]:
        """Return the elements at a path below: "component/section"."""
        if "/" in path:
            step, _, rest = path.partition("/")
            return [inner for child in self.all(step) for inner in child.all(rest)]
        return [child for child in self.elements if child.name == path]

    def first(self, path: str) -> CcdaElement | None:
        """Return the first element at a path below, None where there is none."""
        if "/" in path:
            return next(iter(self.all(path)), None)
        for child in self.elements:
            if child.name == path:
                return child
        return None

    def descendants(self) -> list[CcdaElement]:
        """Return the elements below, in the document's order."""
        found: list[CcdaElement] = []
        waiting = [*self.elements[::-1]]
        while waiting:
            found.append(element := waiting.pop())
            waiting += element.elements[::-1]
        return found

    def lineage(self) -> Iterator[CcdaElement]:
        """Yield the element, and those around it from the innermost outwards."""
        at: CcdaElement | None = self
        while at is not None:
            yield at
            at = at.parent

    def templates(self) -> set[str]:
        """Return the roots of the templates that it says it conforms to."""
        return {template.get("root") for template in self.all("templateId")}

    @property
    def path(self) -> str:
        """Its place: ClinicalDocument/recordTarget[2]."""
        if self.parent is None:
            return self.name
        alike = [sibling for sibling in self.parent.elements if sibling.name == self.name]
        place = f"[{alike.index(self) + 1}]" if len(alike) > 1 else ""
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
    try:
        builder.parser.Parse(_as_utf8(document), True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise UnreadableDocument(
            f"is not well-formed XML: {reason}", error.lineno, builder.path
        ) from None
    finally:
        # It refers to the builder: without the circle both are freed at once.
        del builder.parser
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

    def __init__(self, is_wanted: Callable[[CcdaElement], bool]) -> None:
        self.root: CcdaElement | None = None
        self._is_wanted = is_wanted
        self._at: CcdaElement | None = None
        # How many elements are open, and how many have been kept.
        self._depth = self._count = 0
        # The sections that are open, and whether their content is wanted.
        self._wanted: dict[CcdaElement, bool] = {}
        # UTF-8 whatever the declaration says: expat itself knows only few charsets.
        self.parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self._receive()

    def _receive(self) -> None:
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    @property
    def path(self) -> str:
        return self._at.path if self._at is not None else ""

    def _refused(self, message: str) -> UnreadableDocument:
        return UnreadableDocument(message, self.parser.CurrentLineNumber, self.path)

    def _doctype(self, *_declaration: object) -> None:
        raise self._refused("has a DOCTYPE, which a clinical document never has; remove it")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._refused(_TOO_DEEP)
        if len(attributes) > _MAX_ATTRIBUTES or len("".join(attributes.values())) > _MAX_ATTRIBUTE:
            self._check(attributes)
        name, at = _name(name), self._at
        if name in _CONTENT and self._is_left_out():
            self._leave_out()
            return
        self._count += 1
        if self._count > _MAX_ELEMENTS:
            message = f"has more than {_MAX_ELEMENTS:,} elements in its header and Allergies"
            raise self._refused(message)
        self._at = element = CcdaElement(name, attributes, self.parser.CurrentLineNumber, at)
        if at is not None:
            if at.content is _EMPTY:
                at.content = []
            if at.elements is _EMPTY:
                at.elements = []
            at.content.append(element)
            at.elements.append(element)
        else:
            _check_root(element)
            self.root = element

    def _check(self, attributes: dict[str, str]) -> None:
        if len(attributes) > _MAX_ATTRIBUTES:
            raise self._refused(f"has an element with more than {_MAX_ATTRIBUTES} attributes")
        if max(map(len, attributes.values())) > _MAX_ATTRIBUTE:
            raise self._refused(f"has an attribute of more than {_MAX_ATTRIBUTE:,} characters")

    def _end(self, _name_of: str) -> None:
        self._depth -= 1
        ended = self._at
        if ended is not None:
            if ended.name == "section":
                ended.is_left_out = not self._wanted.pop(ended, True)
            self._at = ended.parent

    def _characters(self, text: str) -> None:
        # A body that is a file in base64 stays in the document alone.
        at = self._at
        if at is not None and "representation" not in at.attributes:
            if at.content is _EMPTY:
                at.content = []
            at.content.append(text)

    def _is_left_out(self) -> bool:
        """Say whether the text and the entries of the open element are not taken."""
        at = self._at
        if at is None or at.name != "section":
            return False
        if at not in self._wanted:
            # What is within a section that is wanted is part of it.
            sections = [around for around in at.lineage() if around.name == "section"]
            self._wanted[at] = any(map(self._is_wanted, [*sections[1:], at]))
        return not self._wanted[at]

    def _leave_out(self) -> None:
        """Only count until the element ends that has just begun: most of a document is in such."""
        depth = own_depth = self._depth

        def start(_name: str, _attributes: dict[str, str]) -> None:
            nonlocal depth
            depth += 1
            if depth > _MAX_DEPTH:
                raise self._refused(_TOO_DEEP)

        def end(_name: str) -> None:
            nonlocal depth
            depth -= 1
            if depth < own_depth:
                self._depth = depth
                self._receive()

        self.parser.StartElementHandler = start
        self.parser.EndElementHandler = end
        self.parser.CharacterDataHandler = None


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
