"""The rules of an import for its source: what is published or refused."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.features.imports.sources import SourceRules
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.publishing import RENDERING, TIMES, delete
from tests.support.records import allergy

LOW, HIGH = (allergy("a", criticality=level) for level in ("low", "high"))


def publish(
    app: Flask,
    now: str,
    *resources: dict[str, Any],
    source_id: int | None = None,
) -> list[Change | str]:
    """Publish allergies of a source by the rules of an import of its own."""
    with app.app_context(), writing() as connection:
        rules = SourceRules(types(), source_id, {})
        publisher = Publisher(
            connection, now=now, rendering=RENDERING, source_id=source_id, decide=rules.decide
        )
        batch = [prepare(types()["AllergyIntolerance"], resource) for resource in resources]
        latest = publisher.latest(batch)
        rules.look_up(connection, batch, latest)
        return publisher.publish(batch, latest)


def sources(app: Flask) -> list[int | None]:
    """Return the sources of the allergy's versions, oldest first."""
    table = types(app)["AllergyIntolerance"].table
    with app.app_context(), db.engine.connect() as connection:
        return [*connection.execute(select(table.c.source_id).order_by(table.c.pk)).scalars()]


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_different_content_of_another_source_is_refused(empty):
    assert publish(empty, TIMES[1], LOW, source_id=1) == [Change.NEW]
    (reason,) = publish(empty, TIMES[2], HIGH, source_id=2)
    assert str(reason).startswith("is known from another source, with other content")
    assert publish(empty, TIMES[2], LOW, source_id=2) == [Change.SAME]
    assert publish(empty, TIMES[2], HIGH) == [Change.CHANGED]
    assert publish(empty, TIMES[3], LOW, source_id=1) == [Change.CHANGED]
    delete(empty, TIMES[4], "AllergyIntolerance/a")
    assert publish(empty, TIMES[5], HIGH, source_id=2) == [Change.CHANGED]
    assert sources(empty) == [1, 1, 1, 1, 2]
