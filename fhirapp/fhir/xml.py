"""FHIR XML, written from FHIR JSON as fhir/json.py reads it; xml_reader.py reads it.

XML has an order, and does not say what is a list or a number: both are in r4.txt, made of HL7's own
definitions (CC0) by tests/tools/r4_elements.py, and read when the first XML is written or read.
Source: FHIR R4 xml §2.6.1; XML 1.0 §2.2, §3.3.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from html import unescape
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from fhirapp.fhir.elements import InvalidElement
from fhirapp.fhir.narrative import NO_XML, XHTML

FHIR = "http://hl7.org/fhir"
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
# What an attribute cannot have as it is: markup, white space that would be read as spaces, no XML.
_UNFIT = re.compile("[^ !#-%'-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# An entity of HTML: XML itself has five.
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z]\w*;")


class TypeElement(NamedTuple):
    """An element of a type: deceasedBoolean, boolean; repeats says that JSON has a list."""

    name: str
    type: str
    repeats: bool

    @property
    def is_primitive(self) -> bool:
        return self.type[:1].islower()


@cache
def _lines() -> Mapping[str, str]:
    text = Path(__file__).with_name("r4.txt").read_text("ascii")
    return dict(line.split(" ", 1) for line in text.splitlines())


@cache
def members(type_name: str) -> Mapping[str, TypeElement]:
    """Return the elements of a type by name, in the order of XML; none of an unknown type."""
    base, *own = _lines().get(type_name, "").split(" ")
    elements = [*members(base).values()] if base else []
    for word in own:
        name, _, types = word.partition(":")
        stem = name.rstrip("*?")
        for kind in types.split("|"):
            chosen = stem + kind[0].upper() + kind[1:] if name[-1] == "?" else stem
            elements.append(TypeElement(chosen, kind, name[-1] == "*"))
    return {member.name: member for member in elements}


@cache
def _is_resource(type_name: str) -> bool:
    base = _lines().get(type_name, "").partition(" ")[0]
    return type_name == "Resource" or (bool(base) and _is_resource(base))


@cache
def attributes_of(type_name: str) -> tuple[str, ...]:
    """Return the elements of a type that XML writes as attributes."""
    if type_name == "Extension":
        return ("id", "url")
    return () if _is_resource(type_name) else ("id",)


def dumps(resource: Mapping[str, Any], *, pretty: bool) -> bytes:
    """Return a resource in XML, indented by two spaces or on one line.

    Raises InvalidElement for what XML cannot hold: an element that R4 has not, a control character.
    """
    writer = _Writer("\n" if pretty else "")
    try:
        writer.resource(resource, "", f' xmlns="{FHIR}"')
    except RecursionError:
        raise InvalidElement("is nested too deeply") from None
    return (_DECLARATION + "".join(writer.parts) + writer.line_end).encode()


class _Writer:
    """Writes elements one after the other into parts; line_end is empty for one line."""

    def __init__(self, line_end: str) -> None:
        self.parts: list[str] = []
        self.line_end = line_end
        self._step = "  " if line_end else ""

    def resource(self, content: Any, margin: str, attributes: str = "") -> None:
        type_name = content.get("resourceType") if type(content) is dict else None
        if type(type_name) is not str or not _is_resource(type_name):
            raise InvalidElement("is not a resource of FHIR R4")
        members_alone = {name: value for name, value in content.items() if name != "resourceType"}
        self._complex(type_name, type_name, members_alone, margin, attributes)

    def _complex(
        self, name: str, kind: str, content: Any, margin: str, attributes: str = ""
    ) -> None:
        if type(content) is not dict:
            raise InvalidElement("must be an object")
        known = members(kind)
        names = {key.removeprefix("_") for key in content}
        for unknown in names.difference(known):
            raise InvalidElement("is not an element of FHIR R4", unknown)
        for attribute in attributes_of(kind):
            if f"_{attribute}" in content:
                raise InvalidElement("cannot have extensions", attribute)
            if attribute in content:
                attributes += f' {attribute}="{_text(content[attribute])}"'
                names.remove(attribute)
        if not names:
            self.parts += (self.line_end, margin, f"<{name}{attributes}/>")
            return
        self.parts += (self.line_end, margin, f"<{name}{attributes}>")
        for member in known.values():
            if member.name in names:
                try:
                    self._member(member, content, margin + self._step)
                except InvalidElement as error:
                    raise error.below(member.name) from None
        self.parts += (self.line_end, margin, f"</{name}>")

    def _member(self, member: TypeElement, content: Mapping[str, Any], margin: str) -> None:
        value, sibling = content.get(member.name), content.get(f"_{member.name}")
        if not member.repeats:
            self._one(member, value, sibling, margin)
            return
        for place, pair in enumerate(zip_longest(_list(value), _list(sibling))):
            try:
                self._one(member, *pair, margin)
            except InvalidElement as error:
                raise error.below(f"[{place}]") from None

    def _one(self, member: TypeElement, value: Any, sibling: Any, margin: str) -> None:
        name, kind = member.name, member.type
        if member.is_primitive and kind != "xhtml":
            if value is None and not sibling:
                raise InvalidElement("has no value")
            attributes = "" if value is None else f' value="{_text(value)}"'
            self._complex(name, "Element", {} if sibling is None else sibling, margin, attributes)
        elif sibling is not None:
            raise InvalidElement("cannot have extensions beside it")
        elif kind == "xhtml":
            self.parts += (self.line_end, margin, _div(value))
        elif kind == "Resource":
            self.parts += (self.line_end, margin, f"<{name}>")
            self.resource(value, margin + self._step)
            self.parts += (self.line_end, margin, f"</{name}>")
        else:
            self._complex(name, kind, value, margin)


def _list(value: Any) -> Sequence[Any]:
    if value is not None and type(value) is not list:
        raise InvalidElement("must be a list")
    return value or ()


def _text(value: Any) -> str:
    """Return a primitive as an attribute has it. Raises InvalidElement."""
    if type(value) is str:
        return _UNFIT.sub(_reference, value)
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int or type(value) is Decimal:
        return str(value)
    raise InvalidElement("must be a primitive")


def _reference(match: re.Match[str]) -> str:
    number = ord(match[0])
    if NO_XML.match(match[0]):
        raise InvalidElement(f"has the character U+{number:04X}, which XML cannot hold")
    return f"&#{number};"


def _div(value: Any) -> str:
    """Return a narrative as an element of XHTML. Raises InvalidElement where it is none."""
    text: str = _ENTITY.sub(lambda entity: unescape(entity[0]), str(value).strip())
    roots: list[str] = []

    def start(name: str, _attributes: object) -> None:
        roots.append(name)
        parser.StartElementHandler = None

    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    parser.StartElementHandler = start
    try:
        parser.Parse(text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError):
        raise InvalidElement("is not well-formed XHTML") from None
    if roots == ["div"]:
        return f'<div xmlns="{XHTML}"{text.removeprefix("<div")}'
    if roots != [f"{XHTML} div"] or not text.startswith("<div"):
        raise InvalidElement("must be an XHTML div element")
    return text
