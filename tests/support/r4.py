"""What is wrong with a resource by FHIR R4 itself, whatever profile it claims.

Three sources, none of them code of the server:
- fhir.resources: which elements a type has and must have, what may repeat, choices, dates;
- fhirpathpy's model of R4: the type of every element, for what fhir.resources lets pass
  ("true" for true, "3" for 3, empty objects, ids of 65 characters, data that is no base64);
- the tables here and in tests/terminology.py, from R4's pages on datatypes and terminologies.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple
from xml.etree import ElementTree

from fhir.resources.R4B import get_fhir_model_class
from fhirpathpy import compile as compile_fhirpath
from fhirpathpy.engine.nodes import ResourceNode
from fhirpathpy.models import models
from pydantic import ValidationError

from tests.support.terminology import DATATYPES, VALUE_SETS, is_coded

MODEL = models["r4"]
# The model types what is in them, but not these themselves.
_BACKBONES = {path.rpartition(".")[0] for path in MODEL["path2Type"] if path.count(".") > 1}


class Fault(NamedTuple):
    """What is wrong, and where: Patient.name[0].family."""

    path: str
    message: str


class Element(NamedTuple):
    """An element that is there; definition is where R4 defines it, HumanName.family, if it does."""

    path: str
    definition: str
    type: str | None
    value: Any


def _is_base64(text: str) -> bool:
    return bool(base64.b64decode(text, validate=True))


def _is_narrative(text: str) -> bool:
    """R4 narrative, txt-1 and txt-2: well-formed, nothing active, something to read."""
    div = ElementTree.fromstring(text)
    active = re.search(r"<(script|form|base|link|iframe|object|embed|style|head|body)\b", text)
    handler = re.search(r"<[^>]*\son\w+\s*=", text)
    readable = "".join(div.itertext()).strip() or "<img" in text
    is_div = div.tag == "{http://www.w3.org/1999/xhtml}div"
    return bool(is_div and readable and not active and not handler)


_TEXT = re.compile(r"[ \r\n\t\S]*\S[ \r\n\t\S]*").fullmatch
_URI = re.compile(r"\S+").fullmatch
# What a primitive is in JSON and looks like; of dates and times fhir.resources knows more.
_PRIMITIVES: dict[str, tuple[tuple[type, ...], Callable[[Any], Any]]] = {
    "System.String": ((str,), _TEXT),
    "base64Binary": ((str,), _is_base64),
    "boolean": ((bool,), lambda _: True),
    "canonical": ((str,), _URI),
    "code": ((str,), re.compile(r"\S+(\s\S+)*").fullmatch),
    "date": ((str,), _TEXT),
    "dateTime": ((str,), _TEXT),
    "decimal": ((int, float), lambda _: True),
    "id": ((str,), re.compile(r"[A-Za-z0-9\-.]{1,64}").fullmatch),
    "instant": ((str,), _TEXT),
    "integer": ((int,), lambda number: -(2**31) <= number < 2**31),
    "markdown": ((str,), _TEXT),
    "oid": ((str,), re.compile(r"urn:oid:[0-2](\.(0|[1-9][0-9]*))+").fullmatch),
    "positiveInt": ((int,), lambda number: 0 < number < 2**31),
    "string": ((str,), _TEXT),
    "time": ((str,), _TEXT),
    "unsignedInt": ((int,), lambda number: 0 <= number < 2**31),
    "uri": ((str,), _URI),
    "url": ((str,), _URI),
    "uuid": ((str,), re.compile(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch),
    "xhtml": ((str,), _is_narrative),
}

# The invariants of the datatypes that records have. Those of resources are in the snapshots.
_INVARIANTS = (
    ("Age", "age-1", "code.exists() or value.empty()"),
    ("Age", "age-1", "system.empty() or system = %ucum"),
    ("Age", "age-1", "value.empty() or value.hasValue().not() or value > 0"),
    ("Age", "qty-3", "code.empty() or system.exists()"),
    ("Attachment", "att-1", "data.empty() or contentType.exists()"),
    ("ContactPoint", "cpt-2", "value.empty() or system.exists()"),
    ("Duration", "drt-1", "code.exists() implies ((system = %ucum) and value.exists())"),
    ("Duration", "qty-3", "code.empty() or system.exists()"),
    ("Extension", "ext-1", "extension.exists() != value.exists()"),
    ("Period", "per-1", "start.hasValue().not() or end.hasValue().not() or (start <= end)"),
    ("Quantity", "qty-3", "code.empty() or system.exists()"),
    ("Range", "rng-2", "low.empty() or high.empty() or (low <= high)"),
)


def faults(resource: dict[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with a resource by R4."""
    yield from _of_the_model(resource)
    for element in elements(resource):
        yield from _of_the_element(element, resource)
    yield from _of_contained(resource)


def elements(resource: dict[str, Any]) -> Iterator[Element]:
    """Yield every element of a resource, each before what is in it."""
    yield from _below(resource, resource["resourceType"], resource["resourceType"])


def holds(expression: str, value: Any, type_: str, resource: dict[str, Any]) -> bool:
    """Tell whether an invariant is true of a value that has a type of R4, within a resource."""
    node = ResourceNode.create_node(value, type_)
    return bool(_compiled(expression)(node, {"resource": resource}) == [True])


def reference_type(reference: str, resource: dict[str, Any] | None = None) -> str | None:
    """Return the type that a literal or conditional reference, or one to a contained, points to."""
    if reference.startswith("#"):
        contained = (resource or {}).get("contained", ())
        types = {f"#{one.get('id')}": one["resourceType"] for one in contained}
        return types.get(reference)
    found = re.search(r"(?:^|/)([A-Z][A-Za-z]+)(?:/[\w\-.]+(?:/_history/\w+)?$|\?)", reference)
    return found and found[1]


@cache
def _compiled(expression: str) -> Callable[[Any, dict[str, Any]], Any]:
    # What fhirpathpy lacks; trace() would print.
    functions = {
        "hasValue": lambda values: [len(values) == 1 and not isinstance(values[0], dict)],
        "resolve": lambda references: [
            ResourceNode.create_node({"resourceType": type_})
            for one in references
            if (type_ := reference_type(one.get("reference", "")))
        ],
    }
    options = {
        "traceFn": lambda _label, _values: None,
        "userInvocationTable": {
            name: {"fn": function, "arity": {0: []}} for name, function in functions.items()
        },
    }
    return compile_fhirpath(expression, MODEL, options)


def _of_the_model(resource: dict[str, Any]) -> Iterator[Fault]:
    try:
        get_fhir_model_class(resource["resourceType"]).model_validate(resource)
    except ValidationError as error:
        for one in error.errors():
            path = resource["resourceType"]
            for step in one["loc"]:
                path += f"[{step}]" if isinstance(step, int) else f".{step}"
            yield Fault(path, one["msg"])


def _below(content: dict[str, Any], holder: str, path: str) -> Iterator[Element]:
    for name, value in content.items():
        definition = f"{holder}.{name}"
        definition = MODEL["pathsDefinedElsewhere"].get(definition, definition)
        if name == "resourceType":
            continue
        type_ = _type_of(definition, name)
        for index, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
            where = f"{path}.{name}" if index is None else f"{path}.{name}[{index}]"
            if item is None and isinstance(value, list):  # its sibling holds the place
                continue
            yield Element(where, definition, type_, item)
            if isinstance(item, dict):
                in_place = definition if type_ in (None, "BackboneElement") else type_
                yield from _below(item, item.get("resourceType", in_place), where)
        if value == []:
            yield Element(f"{path}.{name}", definition, type_, value)


def _type_of(definition: str, name: str) -> str | None:
    if name.startswith("_"):  # the sibling of a primitive, with its id and extensions
        return "Element"
    return "BackboneElement" if definition in _BACKBONES else MODEL["path2Type"].get(definition)


def _of_the_element(element: Element, resource: dict[str, Any]) -> Iterator[Fault]:
    path, definition, type_, value = element
    if type_ is None:
        yield Fault(path, "is no element of R4")
        return
    if value in ({}, [], "", None):
        yield Fault(path, "is empty (ele-1)")
        return
    if type_ in _PRIMITIVES:
        json_types, is_one = _PRIMITIVES[type_]
        try:
            good = type(value) in json_types and is_one(value)
        except (ValueError, ElementTree.ParseError):
            good = False
        if not good:
            yield Fault(path, f"{value!r:.60} is no {type_}")
    if definition in DATATYPES and not is_coded(value, VALUE_SETS[DATATYPES[definition]]):
        yield Fault(path, f"{value!r} is not in {DATATYPES[definition]}")
    for of, key, expression in _INVARIANTS:
        if of == type_ and isinstance(value, dict) and not holds(expression, value, of, resource):
            yield Fault(path, f"{key}: {expression}")


def _of_contained(resource: dict[str, Any]) -> Iterator[Fault]:
    """dom-3 and ref-1: dom-3 as it is written is no FHIRPath, since `as` takes one item."""
    name = resource["resourceType"]
    contained = {f"#{one.get('id')}" for one in resource.get("contained", ())}
    referenced = {
        element.value
        for element in elements(resource)
        if element.definition == "Reference.reference" and str(element.value).startswith("#")
    }
    for one in sorted(contained - referenced):
        yield Fault(f"{name}.contained", f"{one} is not referenced (dom-3)")
    for one in sorted(referenced - contained - {"#"}):
        yield Fault(f"{name}.contained", f"{one} is not contained (ref-1)")
