"""FHIR XML, read into FHIR JSON as fhir/json.py reads it.

Nothing is fetched or expanded, depth and size are bounded, and nothing is left out: an element that
R4 has not, or has once, becomes a member that the checks of JSON refuse, and so does an attribute
(`@name`). The rest of what is no FHIR, such as text outside of the narrative, is refused here.
Source: FHIR R4 xml §2.6.1, json §2.6.2; XML 1.0 §4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from html import escape
from typing import Any, BinaryIO, NamedTuple

from fhirapp.fhir.narrative import VOID, XHTML
from fhirapp.fhir.xml import FHIR, TypeElement, attributes_of, members
from fhirapp.safe_xml import InvalidXml, XmlParser, XmlRules

__all__ = ["InvalidXml", "XmlPiece", "loads", "pieces"]

_XSI, _XML = "http://www.w3.org/2001/XMLSchema-instance ", "http://www.w3.org/XML/1998/namespace "
_NUMBERS = frozenset({"decimal", "integer", "positiveInt", "unsignedInt"})
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
# An entry of a Bundle that is read in pieces counts as a resource.
_RULES = XmlRules(depth=100, kind="FHIR", elements=1_000_000, scope="one resource")
_CHUNK = 262_144


class XmlPiece(NamedTuple):
    """A member of a Bundle; or an entry, whose name is empty. It begins at line."""

    name: str
    content: Any
    line: int


class _Node:
    """An element; the value of a narrative is its XHTML."""

    __slots__ = ("attributes", "children", "line", "name")

    def __init__(self, name: str, attributes: dict[str, str], line: int) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[_Node] = []
        self.line = line


def loads(document: bytes) -> dict[str, Any]:
    """Return the resource that a document is. Raises InvalidXml."""
    builder = _Builder()
    for _ in builder.read([document]):
        pass
    return _resource(builder.open[0])


def pieces(stream: BinaryIO, longest: int) -> Iterator[XmlPiece]:
    """Yield a document's resourceType; of a Bundle also each member, of `entry` each item.

    Of another resource nothing follows. Raises InvalidXml also where a piece exceeds longest bytes.
    """
    builder = _Builder(longest)
    for node in builder.read(iter(lambda: stream.read(_CHUNK), b"")):
        if node is builder.open[0]:
            yield XmlPiece("resourceType", node.name, node.line)
            if node.name != "Bundle":
                return
            root = node
        elif node.name == "entry":
            yield XmlPiece("", _object(node, "Bundle.entry"), node.line)
            continue
        else:
            root = _Node("Bundle", {}, node.line)
            root.children = [node]
        for name, content in _object(root, "Bundle").items():
            yield XmlPiece(name, content, node.line)


class _Builder:
    """Makes nodes of what the parser finds; with longest, a Bundle's are not kept."""

    def __init__(self, longest: int = 0) -> None:
        self._longest = longest
        self.parser = XmlParser(self, _RULES)
        # The elements that are open, the root first, which stays.
        self.open: list[_Node] = []
        self._done: list[_Node] = []
        # The parts of the narrative that is open.
        self._div: list[str] = []
        self._div_depth = 0

    def read(self, chunks: Iterable[bytes]) -> Iterator[_Node]:
        """Yield the root when it has begun; in pieces, each node below it when it has ended."""
        size, is_begun = 0, False
        for chunk in chunks:
            self.parser.feed(chunk)
            size += len(chunk)
            if self.open and not is_begun:
                is_begun = True
                yield self.open[0]
            if self._done:
                # Of the next piece, what this chunk has is not counted.
                size = 0
                done, self._done = self._done, []
                yield from done
            if self._longest and size > self._longest:
                raise self.parser.refused(f"holds a piece of more than {self._longest:,} bytes")
        self.parser.feed(b"", is_last=True)
        yield from self._done

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._div_depth or name == f"{XHTML} div":
            self._start_xhtml(name.rpartition(" ")[2], attributes)
            return
        namespace, _, local = name.rpartition(" ")
        if not self.open and namespace != FHIR:
            raise self.parser.refused(f'is not FHIR: its first element needs xmlns="{FHIR}"')
        own = {key: value for key, value in attributes.items() if not key.startswith(_XSI)}
        name = local if namespace == FHIR else f"{{{namespace}}}{local}"
        self.open.append(_Node(name, own, self.parser.expat.CurrentLineNumber))

    def _start_xhtml(self, name: str, attributes: dict[str, str]) -> None:
        self._div_depth += 1
        namespace = "" if self._div else f' xmlns="{XHTML}"'
        written = "".join(
            f' {key.replace(_XML, "xml:").rpartition(" ")[2]}="{escape(value)}"'
            for key, value in attributes.items()
        )
        self._div.append(f"<{name}{namespace}{written}{'/' if name in VOID else ''}>")

    def end(self, name: str) -> None:
        if self._div_depth:
            self._div_depth -= 1
            name = name.rpartition(" ")[2]
            if name not in VOID:
                self._div.append(f"</{name}>")
            if self._div_depth:
                return
            self.open.append(
                _Node("div", {"value": "".join(self._div)}, self.parser.expat.CurrentLineNumber)
            )
            self._div = []
        if len(self.open) == 1:
            return
        node, parent = self.open.pop(), self.open[-1]
        if self._longest and len(self.open) == 1 and parent.name == "Bundle":
            self._done.append(node)
            self.parser.count = 0
        else:
            parent.children.append(node)

    def characters(self, text: str) -> None:
        if self._div_depth:
            self._div.append(escape(text, quote=False))
        elif text.strip():
            raise self.parser.refused("has text outside of the narrative; a value stands in value=")


def _resource(node: _Node) -> dict[str, Any]:
    return _object(node, node.name, resourceType=node.name)


def _object(node: _Node, kind: str, **content: Any) -> dict[str, Any]:
    """Return the object that an element of a type is; of an unknown type all are unknown."""
    known, attributes = members(kind), attributes_of(kind)
    for name, value in node.attributes.items():
        content[name if name in attributes else f"@{name}"] = value
    children: dict[str, list[_Node]] = {}
    for child in node.children:
        children.setdefault(child.name, []).append(child)
    for name, alike in children.items():
        member = known.get(name) or TypeElement(name, "", repeats=False)
        if name in content:
            raise InvalidXml(f"has a second {name}", alike[0].line)
        values = [_value(child, member) for child in alike]
        siblings = [_sibling(child, member) for child in alike]
        is_list = member.repeats or len(alike) > 1
        if any(value is not None for value in values):
            content[name] = values if is_list else values[0]
        if any(siblings):
            content[f"_{name}"] = siblings if is_list else siblings[0]
    return content


def _value(node: _Node, member: TypeElement) -> Any:
    """Return an element's value; None for a primitive that has nothing but extensions."""
    if member.is_primitive:
        return _primitive(node, member.type)
    if member.type == "Resource":
        if node.attributes:
            raise InvalidXml(f"has an attribute in {node.name}", node.line)
        resources = [_resource(child) for child in node.children]
        return resources[0] if len(resources) == 1 else resources
    if not member.type and not node.children and node.attributes.keys() == {"value"}:
        return node.attributes["value"]
    return _object(node, member.type)


def _primitive(node: _Node, kind: str) -> Any:
    text = node.attributes.get("value")
    if text is None:
        # Nothing at all is no value of any primitive, and is refused as such.
        return None if node.children or node.attributes else ""
    if kind == "boolean":
        return _BOOLEANS.get(text, text)
    if kind in _NUMBERS and _WHOLE.fullmatch(text):
        return int(text)
    if kind in _NUMBERS and _NUMBER.fullmatch(text):
        try:
            return Decimal(text)
        except InvalidOperation:
            return text
    return text


def _sibling(node: _Node, member: TypeElement) -> dict[str, Any] | None:
    """Return the id and extensions of a primitive, None where it has none."""
    if not member.is_primitive:
        return None
    beside = _Node(node.name, node.attributes.copy(), node.line)
    beside.attributes.pop("value", None)
    beside.children = node.children
    return _object(beside, "Element") or None
