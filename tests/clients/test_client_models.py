"""Models that nobody here wrote read every answer of the real server and keep all of it:
fhir.resources, and those of SMART's fhirclient.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest
from fhir.resources.R4B import get_fhir_model_class
from fhirclient.models.fhirelementfactory import FHIRElementFactory

from fhirapp.fhir import json as fhir_json

pytest_plugins = ["tests.support.live"]


def by_fhir_resources(body: bytes) -> Any:
    """Return a resource as fhir.resources reads and writes it; R4B is its nearest to 4.0.1."""
    kind = json.loads(body)["resourceType"]
    read = get_fhir_model_class(kind).model_validate_json(body)
    return fhir_json.loads(read.model_dump_json())


def by_smart(body: bytes) -> Any:
    """Return a resource as SMART's models read and write it."""
    content = json.loads(body)
    read = FHIRElementFactory.instantiate(content["resourceType"], content)
    return fhir_json.loads(json.dumps(read.as_json()))


def without_primitive_extensions(content: Any) -> Any:
    """Leave out what SMART's models accept and do not keep."""
    if isinstance(content, dict):
        kept = {name: one for name, one in content.items() if name[0] != "_"}
        return {name: without_primitive_extensions(one) for name, one in kept.items()} or None
    if isinstance(content, list):
        return [without_primitive_extensions(item) for item in content]
    return content


def same_times(content: Any) -> Any:
    """Make times comparable: fhir.resources writes Z for +00:00, and other fractions."""
    if isinstance(content, dict):
        return {name: same_times(one) for name, one in content.items()}
    if isinstance(content, list):
        return [same_times(item) for item in content]
    if isinstance(content, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\S{8,}", content):
        return datetime.fromisoformat(content)
    return content


READERS = [
    pytest.param(by_fhir_resources, same_times, id="fhir.resources"),
    pytest.param(by_smart, without_primitive_extensions, id="smart"),
]


def refused(
    answers: Mapping[str, bytes], read: Callable[[bytes], Any], same: Any
) -> dict[str, str]:
    """Return what a reader refuses, by path, and why; of all the others nothing may be lost."""
    found = {}
    for path, body in answers.items():
        try:
            kept = read(body)
        except Exception as error:  # noqa: BLE001  # each reader has its own
            found[path] = str(error)
        else:
            assert same(kept) == same(fhir_json.loads(body)), path
    return found


@pytest.mark.parametrize(("read", "same"), READERS)
def test_every_answer_is_read_and_nothing_of_it_is_lost(complete_demo, read, same):
    assert refused(complete_demo.answers, read, same) == {}


def lacks_content(resource: Mapping[str, Any]) -> bool:
    """Say whether a resource, or one in a Bundle, is a document without content."""
    inside = [entry["resource"] for entry in resource.get("entry", ()) if "resource" in entry]
    return (resource["resourceType"] == "DocumentReference" and "content" not in resource) or any(
        map(lacks_content, inside)
    )


@pytest.mark.parametrize(("read", "same"), READERS)
def test_by_default_documents_without_content_are_refused_and_nothing_else(demo, read, same):
    """decisions 2.12: service.md wants these so, and FHIR wants at least one content."""
    lacking = {path for path, body in demo.answers.items() if lacks_content(json.loads(body))}
    assert lacking
    found = refused(demo.answers, read, same)
    assert found.keys() == lacking
    assert {why for why in found.values() if "content" not in why} == set()


def test_decimals_are_read_to_the_last_digit(complete_demo):
    body = complete_demo.answers["AllergyIntolerance/al-p14-measured"]
    read = get_fhir_model_class("AllergyIntolerance").model_validate(fhir_json.loads(body))
    bounds = (read.onsetRange.low.value, read.onsetRange.high.value)
    assert [f"{bound:f}" for bound in bounds] == ["1.50", "0.000001"]
