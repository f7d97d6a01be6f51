"""The faults that the R4 schema finds in a resource."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from fhirapp.definition import types
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.prepare import prepare


def faults(app: Flask, resource: dict[str, Any]) -> list[str]:
    """Return where a resource is faulty, without its type."""
    with pytest.raises(InvalidResource) as raised:
        prepare(types(app)[resource["resourceType"]], resource)
    return [path.partition(".")[2] for path, _ in raised.value.faults]
