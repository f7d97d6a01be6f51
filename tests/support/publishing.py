"""Publishes and deletes versions of resources at given times."""

from __future__ import annotations

from typing import Any

from flask import Flask

from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.store.prepare import deletion, prepare
from fhirapp.store.publish import Decide, Publisher, by_content
from fhirapp.store.version import Change
from fhirapp.store.write import Rendering

RENDERING = Rendering(inline_max=32_768, empty_content="omit")


TIMES = [f"2026-01-01T00:00:0{second}.000+00:00" for second in range(6)]


def publish(
    app: Flask,
    now: str,
    *resources: dict[str, Any],
    source_id: int | None = None,
    decide: Decide = by_content,
) -> list[Change | str]:
    """Publish resources of one type at a time of our choice."""
    with app.app_context(), writing() as connection:
        publisher = Publisher(
            connection, now=now, rendering=RENDERING, source_id=source_id, decide=decide
        )
        definition = types()[resources[0]["resourceType"]]
        return publisher.publish([prepare(definition, resource) for resource in resources])


def delete(app: Flask, now: str, path: str, source_id: int | None = None) -> bool:
    """Publish the deletion of a resource; say whether there was something to delete."""
    type_name, _, resource_id = path.partition("/")
    with app.app_context(), writing() as connection:
        publisher = Publisher(connection, now=now, rendering=RENDERING, source_id=source_id)
        return publisher.publish([deletion(types()[type_name], resource_id)]) == [Change.DELETED]
