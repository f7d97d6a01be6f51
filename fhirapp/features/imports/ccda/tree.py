"""The XML of a clinical document as a tree, read defensively.

Of the body only what is taken is kept: the Allergies section. Nothing is fetched, nothing is
expanded, and what could make a few bytes into gigabytes is refused. Source: XML 1.0 §4; CDA R2 §4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fhirapp.safe_xml import InvalidXml, XmlParser, XmlRules

HL7, SDTC = "urn:hl7-org:v3", "urn:hl7-org:sdtc"
_PREFIXES = {HL7: "", SDTC: "sdtc:"}

# The elements are those of the header and the Allergies section, which are kept; two thousand
# allergies have fewer.
_RULES = XmlRules(
    depth=200,
    kind="a clinical document",
    elements=100_000,
    scope="its header and Allergies",
    attributes=100,
    attribute=65_536,
    size=50_000_000,
)
# The elements of a section that are kept only where the section is wanted.
_CONTENT = frozenset({"entry", "text"})
# How much of a path a message has.
_MAX_PATH = 300


class UnreadableDocument(ValueError):
    """A document that cannot be taken; str() says why, in which line and element.

    line is 0 and path is empty where the whole is meant.
    """

    def __init__(self, message: str, line: int = 0, path: str = "") -> None:
        where = ", ".join(filter(None, (f"line {line}" if line else "", path[:_MAX_PATH])))
        super().__init__(f"{where}: {message}" if where else message)


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
    builder = _Builder(is_wanted)
    try:
        builder.parser.feed(document, is_last=True)
    except InvalidXml as error:
        raise UnreadableDocument(str(error), error.line, builder.path) from None
    return builder.root


class _Builder:
    """Receives the parts of a document from the parser and keeps what is wanted."""

    def __init__(self, is_wanted: Callable[[CcdaElement], bool]) -> None:
        self.root = NOTHING
        self.parser = XmlParser(self, _RULES)
        self._is_wanted = is_wanted
        self._names = _Names()
        self._at: CcdaElement | None = None
        # The sections that are open, and whether their content is wanted.
        self._wanted: dict[CcdaElement, bool] = {}

    @property
    def path(self) -> str:
        return self._at.path if self._at is not None else ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name, at = self._names[name], self._at
        if name in _CONTENT and self._is_left_out():
            self.parser.skip()
            return
        self._at = element = CcdaElement(name, attributes, self.parser.expat.CurrentLineNumber, at)
        if at is not None:
            if at.elements is _EMPTY:
                at.elements = []
                if at.content is _EMPTY:
                    at.content = []
            at.content.append(element)
            at.elements.append(element)
        else:
            _check_root(element)
            self.root = element

    def end(self, _name_of: str) -> None:
        ended = self._at
        if ended is not None:
            if ended.name == "section":
                ended.is_left_out = not self._wanted.pop(ended, True)
            self._at = ended.parent

    def characters(self, text: str) -> None:
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


class _Names(dict[str, str]):
    """The names of a document's elements, by those that the parser gives."""

    def __missing__(self, name: str) -> str:
        namespace, _, local = name.rpartition(" ")
        prefix = _PREFIXES.get(namespace)
        self[name] = short = f"{{{namespace}}}{local}" if prefix is None else prefix + local
        return short


def _check_root(element: CcdaElement) -> None:
    if element.name == "ClinicalDocument":
        return
    if element.name == "{}ClinicalDocument":
        message = f'is a ClinicalDocument without its namespace: add xmlns="{HL7}"'
    else:
        message = f"is not a clinical document: it must begin with ClinicalDocument of {HL7}"
    raise element.refused(message)
