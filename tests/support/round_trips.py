"""Hypothesis strategies for valid resources of a type."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from fhirapp.fhir import datatypes
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.elements import Check, Complex, InvalidElement, Repeating
from fhirapp.fhir.narrative import sanitise
from tests.support.contract import SERVED

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


REPEATABLE = settings(deadline=None, derandomize=True, max_examples=40, suppress_health_check=SLOW)


NAMES = ["AllergyIntolerance", "DocumentReference", "Provenance", "Patient", "Encounter"]


TEXT = st.sampled_from(
    ["a", "á\n\tb", "\U0001f600 x", '"\\/', "  two  spaces  ", "\u2028", '"url": "Binary/', "<b>&"]
)


DECIMALS = st.sampled_from(["0", "0.0", "1.50", "-0.10", "100", "1E+3", "12345678901234567890.10"])


PRIMITIVES: dict[Check, st.SearchStrategy[Any]] = {
    datatypes.string: TEXT,
    datatypes.code: st.sampled_from(["a", "en-US", "text/html; charset=utf-8"]),
    datatypes.media_type: st.sampled_from(["text/plain", "text/html; charset=utf-8"]),
    datatypes.uri: st.sampled_from(["urn:x", "https://a.example/b?c=d&e#f", "urn:oid:1.2.3"]),
    datatypes.identity: st.sampled_from(["a", "A-1.z"]),
    datatypes.date: st.sampled_from(["1970", "1970-02", "2024-02-29"]),
    datatypes.date_time: st.sampled_from(["1970", "1970-02", "2024-02-29T10:00:00+00:00"]),
    datatypes.instant: st.sampled_from(["2024-02-29T10:00:00.120+00:00"]),
    datatypes.time: st.sampled_from(["10:00:00", "23:59:59.1230"]),
    datatypes.base64_binary: st.sampled_from(["QUI=", "QUJD"]),
    datatypes.unsigned: st.sampled_from([0, 7]),
    datatypes.positive: st.sampled_from([1, 7]),
    datatypes.integer: st.sampled_from([0, -1, 2_147_483_647]),
    datatypes.boolean: st.booleans(),
    datatypes.decimal: DECIMALS.map(fhir_json.loads),
    datatypes.Extension.elements["valueOid"]: st.just("urn:oid:1.2.0.3"),
    datatypes.Extension.elements["valueUuid"]: st.just(
        "urn:uuid:c757873d-ec9a-4326-a141-556f43239520"
    ),
}  # fmt: skip


OTHERS: dict[Check, st.SearchStrategy[Any]] = {
    datatypes.Extension.elements["valueTiming"]: st.just({"repeat": {"bounds": [1, {"a": "b"}]}}),
    datatypes.Narrative: st.just({"status": "additional", "div": sanitise("<div>ñ &lt; b</div>")}),
    datatypes.contained_resource: st.builds(
        lambda row_id, value: {"resourceType": "Basic", "id": row_id, "x": {"y": [value]}},
        PRIMITIVES[datatypes.identity],
        TEXT | PRIMITIVES[datatypes.decimal],
    ),
}


MARK = {"url": "urn:mark", "valueDecimal": fhir_json.loads("1.500")}


SIBLING = st.sampled_from([{"id": "p"}, {"extension": [MARK]}, {"id": "p", "extension": [MARK]}])


_BINDING = re.compile(r"must (?:be one of|have a coding of (\S+):) (.+)")


def binding_of(check: Check) -> tuple[str | None, list[str]]:
    """Return the code system, where one is named, and the codes of a required binding.

    It says so itself of what has none of them.
    """
    with pytest.raises(InvalidElement) as raised:
        check({"text": "x"})
    found = _BINDING.fullmatch(raised.value.message)
    assert found, raised.value.message
    return found[1], found[2].split(", ")


@st.composite
def value_of(draw: Any, check: Check, depth: int) -> Any:
    """Return a value that a check takes; depth is how much deeper it may go."""
    if check in PRIMITIVES:
        return draw(PRIMITIVES[check])
    if check in OTHERS:
        return draw(OTHERS[check])
    if check is datatypes._any_extension:
        check = datatypes.EXTENSIONS
    if check is datatypes._reference:
        check = datatypes.Reference
    if isinstance(check, Repeating):
        return draw(st.lists(value_of(check.item, depth), min_size=1, max_size=2))
    if isinstance(check, Complex):
        return draw(object_of(check, depth - 1))
    system, codes = binding_of(check)
    code = draw(st.sampled_from(codes))
    if system is None:
        return code
    return {"coding": [{"system": system, "code": code}], "text": draw(TEXT)}


@st.composite
def object_of(draw: Any, check: Complex, depth: int) -> dict[str, Any]:
    """Return an object of a datatype: what it requires, and some of all else that it may have."""
    names = [name for name in check.elements if name not in ("id", "extension")]
    of_choices = {name for group in check.choices for name in group}
    chosen = set(check.required)
    if depth > 0:
        chosen |= draw(st.sets(st.sampled_from([*names, "id", "extension"]), max_size=4))
    chosen -= of_choices
    for group in check.choices:
        if depth > 0 or "url" in check.required:
            chosen.add(draw(st.sampled_from(group)))
    if not chosen:
        chosen = {"id"}
    made: dict[str, Any] = {}
    for name in check.elements:
        if name not in chosen:
            continue
        element = check.elements[name]
        made[name] = draw(value_of(element, depth))
        if f"_{name}" not in check.siblings or not draw(st.booleans()):
            continue
        beside = draw(SIBLING)
        if isinstance(element, Repeating):
            # A null in each list keeps the place of what the other has.
            made[f"_{name}"] = [beside, *[None] * len(made[name])]
            made[name] = [None, *made[name]]
        else:
            made[f"_{name}"] = beside
    return made


@st.composite
def resources(draw: Any, name: str) -> dict[str, Any]:
    """Return a rich resource of a type, every element of which the type's schema declares."""
    resource = draw(object_of(SERVED[name].schema.checks, 3))
    resource = {"resourceType": name, **resource, "id": "r"}
    for attachment in attachments(resource):
        # size and hash follow from the data.
        for element in ("size", "hash", "_size", "_hash", "_data", "url", "_url"):
            attachment.pop(element, None)
        attachment["contentType"] = "text/plain"
    if name == "AllergyIntolerance":
        resource["patient"]["reference"] = "Patient/p1"
    return resource


def attachments(resource: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the attachments whose bytes go to Binary."""
    if resource["resourceType"] != "DocumentReference":
        return []
    return [one["attachment"] for one in resource.get("content", ())]
