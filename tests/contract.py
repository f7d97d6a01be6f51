"""What every resource type owes, whatever it is: the cases that are run for each one.

Also how a test brings in resources of its own.
"""

from __future__ import annotations

from typing import Any

from flask import Flask

from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.store.definition import types
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.render import Rendering


def publish(app: Flask, *resources: dict[str, Any], now: str) -> None:
    """Publish resources of one type at an instant: 2026-02-01T00:00:00.000+00:00."""
    with app.app_context(), writing() as connection:
        served = types()
        publisher = Publisher(
            connection, now=now, rendering=Rendering.of(settings_of(app)), binary=served["Binary"]
        )
        definition = served[resources[0]["resourceType"]]
        publisher.publish([prepare(definition, resource) for resource in resources])


def delete(app: Flask, resource_type: str, resource_id: str, *, now: str) -> None:
    """Publish a deletion at an instant."""
    with app.app_context(), writing() as connection:
        served = types()
        publisher = Publisher(
            connection, now=now, rendering=Rendering.of(settings_of(app)), binary=served["Binary"]
        )
        assert publisher.delete(served[resource_type], resource_id)


def allergy(row_id: str, patient: str = "p1", **elements: Any) -> dict[str, Any]:
    """Return a small AllergyIntolerance."""
    return {
        "resourceType": "AllergyIntolerance",
        "id": row_id,
        "patient": {"reference": f"Patient/{patient}"},
        **elements,
    }
