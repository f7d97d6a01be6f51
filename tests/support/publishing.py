"""Publishes and deletes versions of resources at given times."""

from __future__ import annotations

from typing import Any

from flask import Flask

from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change
from fhirapp.store.write import Rendering

RENDERING = Rendering(inline_max=32_768, empty_content="omit")


TIMES = [f"2026-01-01T00:00:0{second}.000+00:00" for second in range(6)]


def publish(
    app: Flask,
    now: str,
    *resources: dict[str, Any],
    source_id: int | None = None,
    hold_older: bool = False,
) -> list[Change]:
    """Publish resources of one type at a time of our choice."""
    with app.app_context(), writing() as connection:
        publisher = Publisher(
            connection, now=now, rendering=RENDERING, binary=types()["Binary"], source_id=source_id
        )
        definition = types()[resources[0]["resourceType"]]
        prepared = [prepare(definition, one) for one in resources]
        return publisher.publish(prepared, hold_older=hold_older)


def delete(app: Flask, now: str, path: str) -> bool:
    """Publish the deletion of a resource; say whether there was something to delete."""
    type_name, _, resource_id = path.partition("/")
    with app.app_context(), writing() as connection:
        publisher = Publisher(connection, now=now, rendering=RENDERING, binary=types()["Binary"])
        return publisher.delete(types()[type_name], resource_id) is Change.DELETED
