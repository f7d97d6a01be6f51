"""Histories that are imported: as they were, continued, and what does not fit."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from tests.support.contract import delete, publish
from tests.support.exporting import export
from tests.support.importing import allergy, asked, asking, bundle, current, load, patient, write

TIMES = [f"2026-0{month}-01T00:00:00.000+00:00" for month in range(1, 10)]


def version(resource: dict[str, Any] | str, number: int, time: str = "") -> dict[str, Any]:
    """Return an entry of a history; of a deletion resource is Type/id."""
    moment = time or TIMES[number]
    response = {"etag": f'W/"{number}"', "lastModified": moment}
    if isinstance(resource, str):
        return {**asked("DELETE", resource), "response": response}
    meta = {"versionId": str(number), "lastUpdated": moment}
    name = f"{resource['resourceType']}/{resource['id']}"
    return {**asked("PUT", name, {**resource, "meta": meta}), "response": response}


def history(*versions: Any) -> dict[str, Any]:
    """Return a history, newest first as servers send it."""
    return bundle("history", *reversed(versions))


def made(number: int) -> dict[str, Any]:
    """Return what the allergy was in a version."""
    return version(allergy("a", note=[{"text": str(number)}]), number)


def bodies(app: Flask) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    """Return every version as it is stored, Provenance left out."""
    found = {}
    with app.app_context(), db.engine.connect() as connection:
        for name, definition in types().items():
            columns = definition.table.c
            asked_for = (columns.body, columns.deleted, columns.is_current, columns.last_updated)
            key = (columns.id, columns.version_id)
            for row in connection.execute(select(*key, *asked_for, columns.patient_id)):
                found[name, row[0], row[1]] = tuple(row[2:])
    return {key: row for key, row in found.items() if key[0] != "Provenance"}


def test_a_history_is_brought_back_as_it_was(take, empty):
    report = take(history(made(1), version("AllergyIntolerance/a", 2), made(3)))
    assert report.changes == {"AllergyIntolerance": {"new": 1}}
    entries = asking(empty).read("AllergyIntolerance/a/_history")["entry"]
    assert [one["response"]["etag"] for one in entries] == ['W/"3"', 'W/"2"', 'W/"1"']
    assert [one["response"]["lastModified"] for one in entries] == TIMES[3:0:-1]
    assert asking(empty).get("AllergyIntolerance/a/_history/2").status_code == 410
    assert asking(empty).ids("AllergyIntolerance?patient=one") == ["a"]


def test_it_comes_again_as_the_same_and_is_continued(take, empty):
    take(history(made(1), made(2)))
    before = bodies(empty)
    assert take(history(made(1), made(2))).changes == {"AllergyIntolerance": {"same": 1}}
    assert bodies(empty) == before
    # An earlier part of it, and one that overlaps.
    assert take(history(made(1))).changes == {"AllergyIntolerance": {"same": 1}}
    assert take(history(made(2), made(3))).changes == {"AllergyIntolerance": {"changed": 1}}
    assert take(history(made(4))).changes == {"AllergyIntolerance": {"changed": 1}}
    after = bodies(empty)
    changed = {"AllergyIntolerance": 2}
    assert {key for key in before if before[key] != after[key]} == {
        (name, "a", number) for name, number in changed.items()
    }
    assert asking(empty).read("AllergyIntolerance/a")["note"] == [{"text": "4"}]


def test_a_history_that_ends_in_a_deletion_is_gone(take, empty):
    take(history(made(1), version("AllergyIntolerance/a", 2)))
    assert asking(empty).get("AllergyIntolerance/a").status_code == 410
    assert current(empty, "AllergyIntolerance") == []
    take(history(made(3)))
    assert current(empty, "AllergyIntolerance") == ["a"]


@pytest.mark.parametrize(
    ("stored", "coming", "message"),
    [
        ([], [2], "continues with version 2, but 1 would be next; import those before it first"),
        (
            [1],
            [1, 3],
            "continues with version 3, but 2 would be next; import those before it first",
        ),
        (
            [1, 2],
            [4],
            "continues with version 4, but 3 would be next; import those before it first",
        ),
    ],
)
def test_a_gap_is_refused(take, empty, stored, coming, message):
    if stored:
        take(history(*map(made, stored)))
    before = bodies(empty)
    report = take(history(*map(made, coming)), patient("beside"))
    assert [(one.path, one.message) for one in report.faults] == [("AllergyIntolerance", message)]
    after = bodies(empty)
    after.pop(("Patient", "beside", 1))
    assert after == before


def test_another_history_is_refused(take, empty):
    take(history(made(1), made(2)))
    other = version(allergy("a", note=[{"text": "other"}]), 2, TIMES[5])
    before = bodies(empty)
    report = take(history(made(1), other, made(6)))
    assert (
        "has another version 2 than this server, so these are two histories" in report.rejected[0]
    )
    assert bodies(empty) == before


def test_another_content_at_the_same_time_is_another_history(take, empty):
    """Two servers that loaded the same demo have the same times."""
    take(history(made(1)))
    other = version(allergy("a", note=[{"text": "other"}]), 1)
    report = take(history(other, made(2)))
    assert report.rejected_lines == 1
    assert len(bodies(empty)) == 1


def test_a_history_does_not_replace_what_came_without_one(take, empty):
    take(allergy("a"))
    report = take(history(made(1), made(2)))
    assert report.rejected_lines == 1
    assert len([one for one in bodies(empty) if one[0] == "AllergyIntolerance"]) == 1


def test_a_deletion_belongs_to_the_patient_of_the_version_before_it(take, empty):
    take(history(made(1)))
    take(history(version("AllergyIntolerance/a", 2)))
    rows = bodies(empty)
    assert rows["AllergyIntolerance", "a", 2][-1] == "one"


def test_a_version_of_another_patient_closes_the_earlier_ones(take, empty):
    moved = version(allergy("a", of="Patient/two"), 2)
    take(history(made(1), moved))
    rows = bodies(empty)
    assert [rows["AllergyIntolerance", "a", number][-1] for number in (1, 2)] == [None, "two"]


def document(number: int) -> dict[str, Any]:
    """Return a document whose bytes are a Binary of their own."""
    return {
        "resourceType": "DocumentReference",
        "id": "d",
        "status": "current",
        "description": str(number),
        "content": [{"attachment": {"url": "Binary/b"}}],
    }


def binary(words: str) -> dict[str, Any]:
    """Return the bytes of the document."""
    content = base64.b64encode(words.encode()).decode()
    return {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "data": content}


@pytest.fixture(scope="module")
def exported(make_app, tmp_path_factory):
    """Return a folder of histories, of documents whose bytes changed, and the versions' bodies."""
    app = make_app(seed=False)
    publish(app, binary("first"), now=TIMES[0])
    publish(app, document(1), now=TIMES[1])
    publish(app, binary("second, longer"), now=TIMES[2])
    publish(app, document(2), now=TIMES[3])
    delete(app, "Binary", "b", now=TIMES[4])
    publish(app, binary("third"), now=TIMES[5])
    publish(app, patient("one"), now=TIMES[6])
    folder = tmp_path_factory.mktemp("exported")
    export(app, folder, history=True)
    return folder, bodies(app)


def test_documents_are_made_with_the_bytes_of_their_time(exported, empty):
    folder, wanted = exported
    assert load(empty, folder, provenance=False).complete
    assert bodies(empty) == wanted
    assert load(empty, folder, provenance=False).complete
    assert bodies(empty) == wanted


@pytest.mark.parametrize("many", [1, 2, 1_000])
def test_histories_come_in_any_order(exported, empty, tmp_path, monkeypatch, many):
    """Documents before their bytes too."""
    monkeypatch.setattr("fhirapp.exchange.imports.batches.MAX_RECORDS", many)
    folder, wanted = exported
    together = b"".join(
        (folder / f"{name}.ndjson").read_bytes()
        for name in ("DocumentReference", "Patient", "Binary")
    )
    path = write(tmp_path, together, "together.ndjson")
    with empty.app_context():
        import_paths([path], types(), settings_of(empty))
    assert bodies(empty) == wanted


def test_what_does_not_have_histories_afterwards_is_told(take):
    came = history(version(allergy("a"), 1))
    # Into an empty database there is nobody who followed it.
    assert not take(patient("one"), came).remarks
    (said,) = take(history(version(allergy("b"), 1))).remarks
    assert "an export --since the last one lacks them" in said
    assert not take(came).remarks
