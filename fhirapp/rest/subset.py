"""Parts of resources, by `_summary` or `_elements`.

Mandatory elements, and modifier elements, which can reverse what the others mean, are never left
out. `_summary=text` alone has no modifier elements: R4 lists what is in it element by element.
Source: FHIR R4 search §3.1.1.5.8, §3.1.1.5.9; decisions 2.14.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from fhirapp.definition import Definition
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import terminology
from fhirapp.fhir.elements import Check, Complex, Repeating
from fhirapp.fhir.json import body_of, member, members_of
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.fhir.resource import ResourceSchema
from fhirapp.search.query import Controls
from fhirapp.search.values import SHOWN

_SUBSETTED = {"system": terminology.OBSERVATION_VALUE, "code": "SUBSETTED"}
_ALWAYS = frozenset({"resourceType", "id", "meta"})
# Of an element that R4 marks for the summary, beside its members that are marked themselves.
_BESIDE = frozenset({"id", "extension", "modifierExtension"})
_MAX_ELEMENTS = 50
_LOCAL = re.compile(rb'"reference": "#([^"]+)"')


def check_subset(
    definition: Definition, controls: Controls, *, strict: bool
) -> tuple[tuple[str, str], ...]:
    """Return each element of `_elements` that the type has not, as (parameter, reason).

    Raises InvalidParameter for parts that do not go together; if strict, for such an element too.
    """
    if len(controls.elements) > _MAX_ELEMENTS:
        raise InvalidParameter("_elements", f"lists more than {_MAX_ELEMENTS}; that is the most")
    if controls.elements and controls.summary in ("true", "text", "data"):
        raise InvalidParameter(
            "_elements", f"cannot be combined with _summary={controls.summary}; use one of the two"
        )
    if controls.summary == "text" and controls.includes:
        raise InvalidParameter("_summary", "text cannot be combined with _include or _revinclude")
    unknown = unknown_elements(definition, controls.elements)
    if unknown and strict:
        raise InvalidParameter("_elements", unknown[0])
    return tuple(("_elements", f"{reason}; it was ignored") for reason in unknown)


def unknown_elements(definition: Definition, elements: Sequence[str]) -> list[str]:
    """Return for each of these names that is no element of the type what is wrong with it."""
    schema = definition.schema
    reasons = []
    for name in dict.fromkeys(elements):
        if not _elements_of(schema, name):
            element, names = name[:SHOWN], [*schema.elements, *_choices(schema)]
            near = get_close_matches(element.removeprefix(f"{definition.name}."), names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            reasons.append(f"{element!r} is not an element of {definition.name}{hint}")
    return reasons


def subset(definition: Definition, body: bytes, summary: str, elements: Sequence[str]) -> bytes:
    """Return the part of a body that `_summary` or `_elements` asks for, marked as a part.

    The whole body for "false" without elements. Names that are no elements ask for nothing.
    """
    if summary == "false" and not elements:
        return body
    schema = definition.schema
    names = _selected_names(schema, summary, elements)
    whole = members_of(body)
    part = {name: text for name, text in whole.items() if name.lstrip("_") in names}
    if summary == "true":
        part = _summarised(schema, part)
    if "contained" in whole and "contained" not in part:
        part = _with_contained(whole, part)
    part["meta"] = _with_tag(part["meta"])
    return body_of(part)


def _selected_names(schema: ResourceSchema, summary: str, elements: Sequence[str]) -> set[str]:
    """Return the names of the elements that stay."""
    declared = schema.elements
    if summary == "data":
        return {*_ALWAYS, *declared} - {"text"}
    mandatory = {name for name, element in declared.items() if element.expected}
    if summary == "text":
        return {*_ALWAYS, "text", *mandatory}
    modifiers = {name for name, element in declared.items() if element.modifier}
    if summary == "true":
        chosen = {name for name, element in declared.items() if element.summary}
    else:
        chosen = {name for listed in elements for name in _elements_of(schema, listed)}
    return {*_ALWAYS, *mandatory, *modifiers, *chosen}


def _elements_of(schema: ResourceSchema, name: str) -> set[str]:
    """Return the elements that a name names: of a choice, as `onset` or `onset[x]`, all of it."""
    if name in schema.elements or name in _ALWAYS:
        return {name}
    return _choices(schema).get(name.removesuffix("[x]"), set())


def _choices(schema: ResourceSchema) -> dict[str, set[str]]:
    """Return the elements of each choice."""
    choices: dict[str, set[str]] = {}
    for name, element in schema.elements.items():
        if element.choice:
            choices.setdefault(element.choice, set()).add(name)
    return choices


def _summarised(schema: ResourceSchema, part: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the members cut to what R4 marks inside them; what is left empty goes."""
    cut = {}
    for name, text in part.items():
        element = schema.elements.get(name)
        # What stays for another reason, a modifierExtension, stays whole.
        is_marked = element is not None and (element.summary or element.expected)
        if element is None or not is_marked or not _has_marks(element.check):
            cut[name] = text
        elif (left := _cut(fhir_json.loads(text), element.check)) not in ({}, []):
            cut[name] = member(left)
    return cut


@cache
def _has_marks(check: Check) -> bool:
    """Say whether R4 marks some members of an element, or of what is in it, and others not."""
    if isinstance(check, Repeating):
        return _has_marks(check.item)
    if not isinstance(check, Complex):
        return False
    return check.summary is not None or any(map(_has_marks, check.elements.values()))


def _cut(value: Any, check: Check | None) -> Any:
    if isinstance(check, Repeating):
        return [left for item in value if (left := _cut(item, check.item)) != {}]
    if not isinstance(check, Complex):
        return value
    marked = {*(check.summary or check.elements), *check.required, *_BESIDE}
    cut = {
        name: _cut(content, check.elements.get(name))
        for name, content in value.items()
        if name.lstrip("_") in marked
    }
    return {name: left for name, left in cut.items() if left not in ({}, [])}


def _with_contained(whole: Mapping[str, bytes], part: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the part with the contained resources that it refers to, which have no other place.

    FHIR R4 references §2.3.0.3.
    """
    contained = {resource["id"]: resource for resource in fhir_json.loads(whole["contained"])}
    texts = {name: fhir_json.dumps_indented(resource) for name, resource in contained.items()}
    referenced: set[str] = set()
    pending = [name for text in part.values() for name in _local_references(text)]
    while pending:
        name = pending.pop()
        if name in contained and name not in referenced:
            referenced.add(name)
            pending += _local_references(texts[name])
    resources = [resource for name, resource in contained.items() if name in referenced]
    if not resources:
        return dict(part)
    together = {**part, "contained": member(resources)}
    return {name: together[name] for name in whole if name in together}


def _local_references(text: bytes) -> list[str]:
    """Return the ids of contained resources that JSON refers to; in text quotes are escaped."""
    return [reference.decode() for reference in _LOCAL.findall(text)]


def _with_tag(meta: bytes) -> bytes:
    """Return Resource.meta with the tag that says that the resource is only a part of itself."""
    content = fhir_json.loads(meta)
    tags = content.get("tag", [])
    return meta if _SUBSETTED in tags else member({**content, "tag": [*tags, _SUBSETTED]})
