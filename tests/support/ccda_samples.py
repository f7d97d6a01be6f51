"""The sample C-CDA documents in tests/ccda, and the resources read from them."""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.ccda import resources_of
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
    return resources_of(document if isinstance(document, bytes) else document.encode(), "sample")


def of_type(resources: list[Resource], name: str) -> list[Resource]:
    return [one for one in resources if one["resourceType"] == name]


def only(resources: list[Resource], name: str) -> Resource:
    """Return the one resource of a type."""
    (found,) = of_type(resources, name)
    return found
