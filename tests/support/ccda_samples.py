"""The sample C-CDA documents in tests/ccda, and the resources read from them."""

from __future__ import annotations

import json
from typing import Any

from fhirapp.features.imports.ccda import resources_of
from fhirapp.fhir import json as fhir_json
from tests import TESTS

SAMPLES = TESTS / "ccda"


NAMES = sorted(path.stem for path in SAMPLES.glob("*.xml"))


Resource = dict[str, Any]


SSN = "http://hl7.org/fhir/sid/us-ssn"


def sample(name: str) -> str:
    """Return the text of a sample."""
    document = (SAMPLES / f"{name}.xml").read_bytes()
    return document.decode("latin-1" if name == "ccd-1.1" else "utf-8")


def read(document: str | bytes) -> list[Resource]:
    """Return the resources of a document."""
    return resources_of(document if isinstance(document, bytes) else document.encode())


def served(resources: list[Resource]) -> list[Resource]:
    """Return resources as JSON has them."""
    found: list[Resource] = json.loads(fhir_json.dumps(resources))
    return found


def labelled(resources: list[Resource]) -> dict[str, Resource]:
    """Return resources by Type/number, which replaces their ids, without the document itself."""
    text = fhir_json.dumps(resources).decode()
    numbers: dict[str, int] = {}
    labels: list[str] = []
    for resource in resources:
        name = resource["resourceType"]
        numbers[name] = numbers.get(name, 0) + 1
        labels.append(f"{name}/{numbers[name]}")
        text = text.replace(f"{name}/{resource['id']}", labels[-1])
    found = dict(zip(labels, json.loads(text), strict=True))
    for resource in found.values():
        del resource["id"], resource["resourceType"]
        if "content" in resource:
            del resource["content"][0]["attachment"]["data"]
    return found


def of_type(resources: list[Resource], name: str) -> list[Resource]:
    return [resource for resource in resources if resource["resourceType"] == name]


def only(resources: list[Resource], name: str) -> Resource:
    """Return the one resource of a type."""
    (found,) = of_type(resources, name)
    return found
