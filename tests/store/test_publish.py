"""Publishing versions: their numbers, which one is current, and what is written with them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.db import db, reader
from fhirapp.definition import types
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.prepare import PreparedResource
from fhirapp.store.version import Change, StoredVersion, Version
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import assert_outcome
from tests.support.importing import ALLERGY, PATIENT, asking
from tests.support.publishing import TIMES, delete, publish
from tests.support.records import document, inline


@pytest.fixture(scope="module")
def store(make_app: Callable[..., Flask]) -> Flask:
    """Return an app with one patient; each test publishes resources of its own."""
    app = make_app(seed=False)
    publish(app, TIMES[0], PATIENT)
    return app


def allergy(resource_id: str, **elements: Any) -> dict[str, Any]:
    """Return an allergy of the patient."""
    return {**ALLERGY, "id": resource_id, **elements}


def rows(app: Flask, type_name: str, resource_id: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a resource's versions, oldest first."""
    with app.app_context(), db.engine.connect() as connection:
        table = types()[type_name].table
        found = select(*(table.c[name] for name in columns)).where(table.c.id == resource_id)
        return [tuple(row) for row in connection.execute(found.order_by(table.c.version_id))]


def indexed(app: Flask, resource_id: str) -> set[tuple[int, str, str]]:
    """Return (version, parameter, code) of an allergy's tokens."""
    with app.app_context(), db.engine.connect() as connection:
        definition = types()["AllergyIntolerance"]
        table, token = definition.table, definition.tables.token
        found = select(table.c.version_id, token.c.param, token.c.code).join(
            token, token.c.pk == table.c.pk
        )
        found = found.where(table.c.id == resource_id)
        return {(version, param, code) for version, param, code in connection.execute(found)}


BOTH = pytest.mark.databases(SQLITE, POSTGRESQL)


def test_versions_are_numbered_and_the_newest_is_current(store):
    for number, criticality in enumerate(["low", "high", "low"], 1):
        change = publish(store, TIMES[number], allergy("counted", criticality=criticality))
        assert change == [Change.NEW if number == 1 else Change.CHANGED]
    assert rows(store, "AllergyIntolerance", "counted", "version_id", "is_current") == [
        (1, False),
        (2, False),
        (3, True),
    ]


def test_same_content_makes_no_version(store):
    assert publish(store, TIMES[1], allergy("same")) == [Change.NEW]
    (published,) = rows(store, "AllergyIntolerance", "same", "version_id", "last_updated")
    assert publish(store, TIMES[2], allergy("same")) == [Change.SAME]
    assert rows(store, "AllergyIntolerance", "same", "version_id", "last_updated") == [published]


def test_later_version_never_has_an_earlier_time(store):
    """So that who asks for what changed since the newest that they know misses nothing."""
    publish(store, "2030-01-01T00:00:00.000+00:00", allergy("ahead"))
    publish(store, TIMES[1], allergy("behind"))
    ((ahead,),) = rows(store, "AllergyIntolerance", "ahead", "last_updated")
    ((behind,),) = rows(store, "AllergyIntolerance", "behind", "last_updated")
    assert behind >= ahead


@BOTH
def test_decimal_with_other_digits_is_other_content(store):
    for number, value in enumerate(["1.0", "1.00"], 1):
        extension = [{"url": "urn:dose", "valueDecimal": Decimal(value)}]
        publish(store, TIMES[number], allergy("digits", extension=extension))
    assert len(rows(store, "AllergyIntolerance", "digits", "pk")) == 2


@BOTH
def test_versions_of_one_batch_follow_each_other(store):
    batch = [allergy("batch", criticality=level) for level in ("low", "high", "high", "low")]
    changes = publish(store, TIMES[1], *batch)
    assert changes == [Change.NEW, Change.CHANGED, Change.SAME, Change.CHANGED]
    assert rows(
        store, "AllergyIntolerance", "batch", "version_id", "is_current", "criticality"
    ) == [(1, False, "low"), (2, False, "high"), (3, True, "low")]


def test_published_version_never_changes(store):
    publish(store, TIMES[1], allergy("fixed", criticality="low"))
    fhir = asking(store)
    before = fhir.get("AllergyIntolerance/fixed/_history/1").data
    tokens = indexed(store, "fixed")
    publish(store, TIMES[2], allergy("fixed", criticality="high"))
    delete(store, TIMES[3], "AllergyIntolerance/fixed")
    assert fhir.get("AllergyIntolerance/fixed/_history/1").data == before
    assert {row for row in indexed(store, "fixed") if row[0] == 1} == tokens


@BOTH
def test_each_version_has_its_index_rows_and_a_deletion_none(store):
    publish(store, TIMES[1], allergy("index", criticality="low", category=["food", "biologic"]))
    publish(store, TIMES[2], allergy("index", criticality="high"))
    delete(store, TIMES[3], "AllergyIntolerance/index")
    assert indexed(store, "index") == {
        # decisions 2.19: where nothing is said, that there is no information
        (1, "code", "NI"),
        (2, "code", "NI"),
        (1, "criticality", "low"),
        (1, "category", "food"),
        (1, "category", "biologic"),
        (2, "criticality", "high"),
    }


@BOTH
def test_deletion_is_a_version_that_no_search_finds(store):
    publish(store, TIMES[1], allergy("gone"))
    assert delete(store, TIMES[2], "AllergyIntolerance/gone")
    assert rows(
        store, "AllergyIntolerance", "gone", "version_id", "is_current", "deleted", "patient_id"
    ) == [(1, False, False, "one"), (2, False, True, "one")]
    fhir = asking(store)
    path = "AllergyIntolerance/gone"
    assert_outcome(fhir.get(path), 410, "deleted", f"{path} was deleted.")
    deletion = f"{path}/_history/2"
    assert_outcome(fhir.get(deletion), 410, "deleted", f"{deletion} was deleted.")
    assert fhir.get(f"{path}/_history/1").status_code == 200
    assert fhir.read("AllergyIntolerance?_id=gone")["total"] == 0
    newest = fhir.read(f"{path}/_history")["entry"][0]
    assert newest["request"]["method"] == "DELETE"
    assert "resource" not in newest


def test_deleted_or_unknown_resource_cannot_be_deleted(store):
    publish(store, TIMES[1], allergy("twice"))
    assert delete(store, TIMES[2], "AllergyIntolerance/twice")
    assert not delete(store, TIMES[3], "AllergyIntolerance/twice")
    assert not delete(store, TIMES[3], "AllergyIntolerance/never-was")
    assert len(rows(store, "AllergyIntolerance", "twice", "pk")) == 2


def test_deleted_resource_returns_as_the_next_version(store):
    publish(store, TIMES[1], allergy("back"))
    delete(store, TIMES[2], "AllergyIntolerance/back")
    assert publish(store, TIMES[3], allergy("back")) == [Change.CHANGED]
    assert rows(store, "AllergyIntolerance", "back", "version_id", "is_current", "deleted") == [
        (1, False, False),
        (2, False, True),
        (3, True, False),
    ]
    fhir = asking(store)
    assert fhir.read("AllergyIntolerance/back")["meta"]["versionId"] == "3"
    assert fhir.read("AllergyIntolerance?_id=back")["total"] == 1


@BOTH
def test_change_of_data_raises_the_generation_and_totals_are_counted_again(store):
    def now() -> int:
        with store.app_context():
            return reader().generation()

    fhir, total = asking(store), "AllergyIntolerance?_summary=count"
    before, counted = now(), fhir.read(total)["total"]
    publish(store, TIMES[1], allergy("generation"))
    first = now()
    assert first > before
    assert fhir.read(total)["total"] == counted + 1
    publish(store, TIMES[2], allergy("generation"))
    assert now() == first
    delete(store, TIMES[3], "AllergyIntolerance/generation")
    assert now() > first


def test_compartment_follows_relative_and_versioned_references(store):
    for name, reference in {
        "relative": "Patient/one",
        "versioned": "Patient/one/_history/3",
    }.items():
        publish(store, TIMES[1], allergy(name, patient={"reference": reference}))
        assert rows(store, "AllergyIntolerance", name, "patient_id") == [("one",)]
    elsewhere = {"reference": "https://other.example/fhir/Patient/one"}
    publish(store, TIMES[1], allergy("elsewhere", patient=elsewhere))
    assert rows(store, "AllergyIntolerance", "elsewhere", "patient_id") == [(None,)]


def test_invalid_resource_is_refused_before_anything_is_written(store):
    with pytest.raises(InvalidResource) as raised:
        publish(store, TIMES[1], allergy("never", type="x"))
    assert raised.value.faults == [
        ("AllergyIntolerance.type", "must be one of allergy, intolerance")
    ]
    assert rows(store, "AllergyIntolerance", "never", "pk") == []


@BOTH
def test_concurrent_writers_make_versions_without_gaps_or_duplicates(make_app):
    # A place for each of them: one more than the writers there are.
    app = make_app(seed=False, threads=7)
    publish(app, TIMES[0], PATIENT)

    def write(number: int) -> None:
        publish(app, TIMES[1], allergy("busy", extension=[{"url": "u", "valueInteger": number}]))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(24)))
    found = rows(app, "AllergyIntolerance", "busy", "version_id", "is_current")
    assert found == [(number, number == 24) for number in range(1, 25)]


def test_decide_says_what_becomes_of_each_resource_after_the_one_before_it(store):
    low, high = allergy("decided", criticality="low"), allergy("decided", criticality="high")
    seen: list[tuple[str, bool]] = []

    def decide(prepared: PreparedResource, latest: StoredVersion | Version | None) -> Change | str:
        seen.append((prepared.columns["criticality"], latest is not None))
        return "is refused" if prepared.columns["criticality"] == "high" else Change.NEW

    assert publish(store, TIMES[1], high, low, high, decide=decide) == [
        "is refused",
        Change.NEW,
        "is refused",
    ]
    assert seen == [("high", False), ("low", False), ("high", True)]
    found = rows(store, "AllergyIntolerance", "decided", "version_id", "criticality")
    assert found == [(1, "low")]


def test_bytes_of_a_document_that_is_refused_are_not_stored(store):
    def refuse(prepared: PreparedResource, _latest: object) -> Change | str:
        return "is refused" if prepared.id == "refused" else Change.NEW

    taken, refused = (document(name, inline(name)) for name in ("taken", "refused"))
    assert publish(store, TIMES[1], refused, taken, decide=refuse) == ["is refused", Change.NEW]
    with store.app_context(), db.engine.connect() as connection:
        stored = connection.execute(select(types()["Binary"].table.c.data)).scalars().all()
    assert [data for data in stored if data in (b"taken", b"refused")] == [b"taken"]


def test_resource_without_source_gets_the_first_that_publishes_it(store):
    publish(store, TIMES[1], allergy("adopted"))
    assert publish(store, TIMES[2], allergy("adopted"), source_id=7) == [Change.SAME]
    assert rows(store, "AllergyIntolerance", "adopted", "source_id", "version_id") == [(7, 1)]
    assert publish(store, TIMES[3], allergy("adopted"), source_id=8) == [Change.SAME]
    assert rows(store, "AllergyIntolerance", "adopted", "source_id", "version_id") == [(7, 1)]
    publish(store, TIMES[1], allergy("gone-before"))
    delete(store, TIMES[2], "AllergyIntolerance/gone-before")
    assert not delete(store, TIMES[3], "AllergyIntolerance/gone-before", source_id=7)
    found = rows(store, "AllergyIntolerance", "gone-before", "source_id", "version_id")
    assert found == [(None, 1), (None, 2)]
