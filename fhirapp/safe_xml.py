"""A safe parser of XML: nothing is fetched or expanded, and depth and size are bounded.

A handler receives the elements and makes of them what it needs. Source: XML 1.0 §4.
"""

from __future__ import annotations

import codecs
import re
import sys
from typing import NamedTuple, Protocol
from xml.parsers import expat

# XML 1.0 §4.3.3 and appendix F: how a document declares its encoding.
DECLARATION = re.compile(rb"""\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_CODECS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "latin-1",
    "latin1": "latin-1",
    "iso-8859-15": "iso8859-15",
    "windows-1252": "cp1252",
}


class InvalidXml(ValueError):
    """XML that is refused; str() says why. It was found at line, 0 where the whole is meant."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class MalformedXml(InvalidXml):
    """What is not well-formed XML."""


class XmlRules(NamedTuple):
    """The bounds, and the kind of document, which never has a DOCTYPE.

    Without a kind, names are as written, and a DOCTYPE may have anything but entities. elements is
    the bound of a scope, attribute that of a value in characters, size that of all bytes.
    """

    depth: int
    kind: str = ""
    elements: int = sys.maxsize
    scope: str = ""
    attributes: int = sys.maxsize
    attribute: int = sys.maxsize
    size: int = sys.maxsize


class XmlHandler(Protocol):
    """Receives XML element by element; a name of a namespace is `namespace name`."""

    def start(self, name: str, attributes: dict[str, str]) -> None: ...

    def end(self, name: str) -> None: ...

    def characters(self, text: str) -> None: ...


class XmlParser:
    """Passes elements to a handler; count is how many the scope has so far, expat has the line."""

    def __init__(self, handler: XmlHandler, rules: XmlRules) -> None:
        self.count = 0
        self._handler = handler
        self._rules = rules
        # Those of each element: an attribute is found sooner than a member of a tuple.
        self._most_depth, self._most_elements = rules.depth, rules.elements
        self._most_attributes, self._longest = rules.attributes, rules.attribute
        self._depth = self._size = 0
        self._decoder: codecs.IncrementalDecoder | None = None
        # UTF-8 whatever the declaration says: expat itself knows only few charsets.
        self.expat = expat.ParserCreate("utf-8", " " if rules.kind else None)
        self.expat.buffer_text = True
        if rules.kind:
            self.expat.StartDoctypeDeclHandler = self._refuse_declaration
        else:
            self.expat.EntityDeclHandler = self._refuse_declaration
        self._receive()

    def feed(self, chunk: bytes | str, *, is_last: bool = False) -> None:
        """Parse a part of a document, in bytes or characters. Raises InvalidXml."""
        try:
            text = chunk if isinstance(chunk, str) else self._decoded(chunk, is_last)
            self.expat.Parse(text, is_last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise MalformedXml(f"is not well-formed XML: {reason}", error.lineno) from None
        finally:
            if is_last:
                # Without the circles all is freed at once, and not by a later collection.
                del self.expat, self._handler

    def refused(self, message: str) -> InvalidXml:
        """Return what to raise where the parser is."""
        return InvalidXml(message, self.expat.CurrentLineNumber)

    def skip(self) -> None:
        """Pass nothing on until the element ends that has just begun; count only the depth."""
        self.count -= 1
        own_depth, most = self._depth, self._rules.depth
        depth = own_depth

        def start(_name: str, _attributes: dict[str, str]) -> None:
            nonlocal depth
            depth += 1
            if depth > most:
                raise self._too_deep()

        def end(_name: str) -> None:
            nonlocal depth
            depth -= 1
            if depth < own_depth:
                self._depth = depth
                self._receive()

        self.expat.StartElementHandler = start
        self.expat.EndElementHandler = end
        self.expat.CharacterDataHandler = None

    def _decoded(self, chunk: bytes, is_last: bool) -> str:
        self._size += len(chunk)
        if self._size > self._rules.size:
            raise InvalidXml(f"is larger than {self._rules.size // 1_000_000} MB", 0)
        if self._decoder is None:
            codec, self._label = _encoding(chunk)
            self._decoder = codecs.getincrementaldecoder(codec)()
        try:
            return self._decoder.decode(chunk, is_last)
        except UnicodeDecodeError as error:
            byte = self._size - len(error.object) + error.start + 1
            line = self.expat.CurrentLineNumber + error.object.count(b"\n", 0, error.start)
            raise InvalidXml(f"is not {self._label}, as it says it is: byte {byte}", line) from None

    def _receive(self) -> None:
        self.expat.StartElementHandler = self._start
        self.expat.EndElementHandler = self._end
        self.expat.CharacterDataHandler = self._handler.characters

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self.count += 1
        if (
            self._depth > self._most_depth
            or self.count > self._most_elements
            or (attributes and len("".join(attributes.values())) > self._longest)
            or len(attributes) > self._most_attributes
        ):
            self._check(attributes)
        self._handler.start(name, attributes)

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._handler.end(name)

    def _check(self, attributes: dict[str, str]) -> None:
        """Refuse the element that begins, unless no attribute by itself is too long."""
        rules = self._rules
        if self._depth > self._most_depth:
            raise self._too_deep()
        if len(attributes) > rules.attributes:
            raise self.refused(f"has an element with more than {rules.attributes} attributes")
        if attributes and max(map(len, attributes.values())) > rules.attribute:
            raise self.refused(f"has an attribute of more than {rules.attribute:,} characters")
        if self.count > rules.elements:
            raise self.refused(f"has more than {rules.elements:,} elements in {rules.scope}")

    def _too_deep(self) -> InvalidXml:
        return self.refused(f"is nested more than {self._rules.depth} elements deep")

    def _refuse_declaration(self, *_declaration: object) -> None:
        if self._rules.kind:
            raise self.refused(f"has a DOCTYPE, which {self._rules.kind} never has; remove it")
        raise self.refused("is XML that declares entities")


def _encoding(start: bytes) -> tuple[str, str]:
    """Return the codec of a document that begins so, and its name. Raises InvalidXml."""
    for mark, codec in _MARKS:
        if start.startswith(mark):
            return codec, codec[:6].upper()
    declared = DECLARATION.match(start[:1024])
    label = declared[1].decode() if declared else "UTF-8"
    if codec := _CODECS.get(label.lower(), ""):
        return codec, label
    if label.lower().startswith("utf-16"):
        raise InvalidXml(f"says that it is written in {label}, and does not begin so", 1)
    raise InvalidXml(f"is written in {label}; use UTF-8", 1)
