"""Imports that come again: nothing new where nothing changed, and the next version where it did."""

from __future__ import annotations

import base64
import gzip
import json
import random
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.definition import Definition, types
from fhirapp.exchange.imports.archives import Archives
from fhirapp.exchange.imports.importer import Import
from fhirapp.exchange.imports.inputs import find_inputs
from fhirapp.exchange.imports.records import Scratch
from fhirapp.exchange.imports.runs import Options
from fhirapp.exchange.models import ImportRun
from fhirapp.exchange.tables import Row, rows_of
from fhirapp.store.prepare import Notes, Prepared, prepare
from tests.support.ccda_samples import sample
from tests.support.contract import publish
from tests.support.importing import (
    URN,
    allergy,
    asked,
    asking,
    bundle,
    current,
    lines,
    load,
    patient,
    plain,
    put,
    stored,
    versions,
    write,
)
from tests.support.repeated_imports import begin, document

# What a resource is at different times, as an allergy and as a document with its bytes inline.
FORMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "allergy": lambda name: allergy("d", note=[{"text": name}]),
    "document": document,
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def numbers(app: Flask) -> list[int]:
    """Return the numbers of the versions of the resource d."""
    return [number for _, name, number, _ in versions(app) if name == "d"]


def written(app: Flask, form: Callable[[str], dict[str, Any]]) -> list[str]:
    """Return the names that d had, oldest version first."""
    type_name = form("")["resourceType"]
    history = asking(app).read(f"{type_name}/d/_history")["entry"]
    found = []
    for entry in reversed(history):
        resource = entry.get("resource")
        if resource is None:
            found.append("")
        elif type_name == "AllergyIntolerance":
            found.append(resource["note"][0]["text"])
        else:
            data = resource["content"][0]["attachment"]["data"]
            found.append(base64.b64decode(data).decode())
    return found


@forms
def test_content_that_comes_back_in_a_later_import_is_the_next_version(take, empty, form):
    for name in ("A", "B", "A"):
        assert take(patient("one"), form(name)).complete
    assert written(empty, form) == ["A", "B", "A"]
    take(form("A"))
    assert written(empty, form) == ["A", "B", "A"]


@forms
@pytest.mark.parametrize("names", ["AB", "ABA", "ABAB", "AAB", "ABBA", "ABC"])
def test_versions_in_one_input_come_again_as_nothing(take, empty, form, names):
    contents = [patient("one"), *map(form, names)]
    take(*contents)
    wanted = [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]
    assert written(empty, form) == wanted
    before = stored(empty)
    again = take(*contents)
    assert stored(empty) == before
    assert {name: {*counts} for name, counts in again.changes.items()} == {
        "Patient": {"same"},
        form("")["resourceType"]: {"same"},
    }
    assert again.changes[form("")["resourceType"]].total() == len(names)
    assert again.complete


@forms
@pytest.mark.parametrize("names", ["AB", "ABA", "ABC"])
def test_versions_in_several_inputs_come_again_as_nothing(empty, tmp_path, form, names):
    write(tmp_path, lines(patient("one")), "0.ndjson")
    for place, name in enumerate(names, 1):
        write(tmp_path, lines(form(name)), f"{place}.ndjson")
    load(empty, tmp_path)
    assert "".join(written(empty, form)) == names
    before = stored(empty)
    assert load(empty, tmp_path).complete
    assert stored(empty) == before


@forms
@pytest.mark.parametrize(
    ("first", "then", "wanted"),
    [
        ("A", "AB", "AB"),
        ("AB", "ABA", "ABA"),
        ("AB", "BA", "ABA"),
        ("AB", "ABC", "ABC"),
        ("ABC", "AB", "ABCAB"),
        ("AB", "B", "AB"),
        ("ABA", "AB", "ABAB"),
    ],
)
def test_an_input_that_goes_on_from_what_is_here_adds_what_is_new(
    take, empty, form, first, then, wanted
):
    take(patient("one"), *map(form, first))
    take(patient("one"), *map(form, then))
    assert "".join(written(empty, form)) == wanted


@forms
def test_the_same_content_after_its_deletion_is_there_again(take, empty, form):
    name = f"{form('')['resourceType']}/d"
    take(patient("one"), form("A"))
    take(bundle("batch", asked("DELETE", name)))
    take(form("A"))
    assert written(empty, form) == ["A", "", "A"]
    assert asking(empty).get(name).status_code == 200
    before = stored(empty)
    take(form("A"))
    assert stored(empty) == before


def test_what_is_twice_in_the_input_with_other_content_is_told(take):
    report = take(patient("one"), allergy("a"), allergy("a", criticality="low"), allergy("b"))
    assert report.twice == ["AllergyIntolerance/a"]
    assert report.twice_count == 1
    assert "twice in the input" in report.table()
    assert take(patient("one"), patient("one")).twice == []


def test_what_a_killed_run_left_is_not_told_as_twice(take, empty):
    take(patient("one"))
    kill_last_run(empty)
    report = take(patient("one", gender="female"))
    assert report.changes == {"Patient": {"changed": 1}}
    assert report.twice == []


def test_what_another_import_stored_meanwhile_is_not_told_as_twice(empty, tmp_path):
    path = write(tmp_path, lines(patient("one", gender="male"), allergy("a", type="allergy")))
    settings = settings_of(empty)
    with (
        empty.app_context(),
        Archives() as archives,
        Scratch() as scratch,
        Notes(types()["Binary"]) as notes,
    ):
        run = Import(types(), settings, Options(), notes, scratch)
        run.begin([str(path)])
        publish(empty, patient("one"), now="2026-01-01T00:00:00.000+00:00")
        publish(empty, allergy("a"), now="2026-01-01T00:00:00.000+00:00")
        for one in find_inputs([path], path.parent, archives):
            run.take(one, lambda _bytes: None)
        run.finish()
    assert {name: dict(counts) for name, counts in run.report.changes.items()} == {
        "Patient": {"changed": 1},
        "AllergyIntolerance": {"changed": 1},
    }
    assert run.report.twice == []


def test_a_document_whose_bytes_came_before_it_is_not_told_as_twice(take):
    carrier = {**document("x"), "content": [{"attachment": {"url": "Binary/b"}}]}
    binary = {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "data": "QUJD"}
    take(carrier)
    report = take(binary, {**carrier, "description": "changed"})
    assert report.changes["DocumentReference"] == {"changed": 1}
    assert report.twice == []


SOURCES = {
    "x.csv": b"patient_id,substance,note\none,Latex,x\n",
    "x.xml": sample("ccd").encode(),
    "x.ndjson": lines({**document("hello"), "date": "2024"}, allergy("a")),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_files_read_in_another_way_make_new_versions(empty, tmp_path, monkeypatch, name):
    path = write(tmp_path, SOURCES[name], name)
    load(empty, path)
    assert all(number == 1 for *_, number, _ in versions(empty))
    report = load(empty, path)
    assert not any(counts["changed"] for counts in report.changes.values())

    def read_otherwise(definition: Definition, resource: Any) -> Prepared:
        if definition.name in ("AllergyIntolerance", "DocumentReference"):
            resource = {**resource, "language": "en"}
        return prepare(definition, resource)

    monkeypatch.setattr("fhirapp.exchange.imports.admission.prepare", read_otherwise)
    report = load(empty, path)
    for type_name in ("AllergyIntolerance", "DocumentReference"):
        ids = current(empty, type_name)
        assert report.changes.get(type_name, {}).get("changed", 0) == len(ids)
        for one in ids:
            found = asking(empty).read(f"{type_name}/{one}")
            assert (found["meta"]["versionId"], found["language"]) == ("2", "en")
    # Where the reading goes back to what it was, so do the records; a table takes nothing away.
    monkeypatch.undo()
    report = load(empty, path)
    for one in current(empty, "AllergyIntolerance"):
        found = asking(empty).read(f"AllergyIntolerance/{one}")
        assert found["meta"]["versionId"] == ("2" if name == "x.csv" else "3")


def test_what_files_of_a_source_are_not_read_into_any_more_is_deleted(empty, tmp_path, monkeypatch):
    rows = b"patient_id,substance,note\none,Latex,x\none,Nickel,y\none,Dust,z\n"
    path = write(tmp_path, rows, "x.csv")
    load(empty, path, source="clinic")
    before = current(empty, "AllergyIntolerance")

    def read_otherwise(*given: Any) -> Iterator[Row]:
        for row in rows_of(*given):
            for resource in row.resources or []:
                if "Nickel" in str(resource):
                    resource["id"] = "other"
            yield row

    monkeypatch.setattr("fhirapp.exchange.tables.rows_of", read_otherwise)
    assert len(current(empty, "AllergyIntolerance")) == 3
    report = load(empty, path, source="clinic", delete_missing=True)
    counts = report.changes["AllergyIntolerance"]
    assert (counts["new"], counts["same"], counts["deleted"]) == (1, 2, 1)
    after = current(empty, "AllergyIntolerance")
    assert "other" in after
    assert len(set(before) & set(after)) == 2


def kill_last_run(app: Flask) -> None:
    """Make of the runs what they are where they were killed."""
    with app.app_context(), writing() as connection:
        connection.execute(update(ImportRun).values(ended_at=None))


def mixed() -> list[dict[str, Any]]:
    """Return records of each kind, some twice, some that wait, some in Bundles."""
    recorder = {"reference": "Practitioner?identifier=urn:x|1"}
    return [
        *(allergy(f"w{number}", recorder=recorder) for number in range(5)),
        *map(FORMS["allergy"], "ABA"),
        document("first"),
        document("second"),
        bundle("transaction", put(allergy("gone")), asked("DELETE", "AllergyIntolerance/gone")),
        bundle("collection", plain(patient("two")), plain(allergy("b", of="Patient/two"))),
        bundle(
            "transaction",
            asked(
                "POST", "Patient", patient(mrn="9"), f"{URN}77", ifNoneExist="identifier=urn:mrn|9"
            ),
        ),
        {
            "resourceType": "Practitioner",
            "id": "dr",
            "identifier": [{"system": "urn:x", "value": "1"}],
        },
        patient("one"),
    ]


@pytest.mark.parametrize("many", [1, 3, 1_000])
def test_a_run_that_is_killed_and_one_that_is_not_come_to_the_same(
    make_app, tmp_path, many, monkeypatch
):
    monkeypatch.setattr("fhirapp.exchange.imports.batches.MAX_RECORDS", many)
    whole, killed = make_app(seed=False), make_app(seed=False)
    records = mixed()
    load(whole, write(tmp_path, lines(*records), "x.ndjson"))
    for count in range(0, len(records), 2):
        begin(killed, write(tmp_path, lines(*records[:count]), "part.ndjson"))
    load(killed, write(tmp_path, lines(*records), "x.ndjson"))
    assert stored(killed) == stored(whole)
    before = stored(whole)
    assert load(whole, tmp_path / "x.ndjson").complete
    assert stored(whole) == before


def packed(folder: Path, records: Sequence[Any], chance: random.Random) -> Path:
    """Write records in any order into files, archives and Bundles of any kind."""
    records = [*records]
    chance.shuffle(records)
    while records:
        part = [records.pop() for _ in range(min(len(records), chance.randint(1, 4)))]
        name = f"{len(records)}"
        wrapped = bundle("collection", *map(plain, part))
        kind = chance.randrange(5)
        if kind == 0:
            write(folder, lines(*part), f"{name}.ndjson")
        elif kind == 1:
            write(folder, gzip.compress(json.dumps(wrapped, indent=2).encode()), f"{name}.json.gz")
        elif kind == 2:
            write(folder, json.dumps(part, indent=1).encode(), f"{name}.json")
        elif kind == 3:
            write(folder, lines(bundle("batch", *map(put, part))), f"deep/{name}.ndjson")
        else:
            folder.mkdir(exist_ok=True)
            with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
                archive.writestr("x.ndjson", lines(*part))
    return folder


def test_records_in_any_order_and_any_packing_are_the_same_records(make_app, tmp_path):
    """None of them twice, of course: then the order says which comes last."""
    doctors = [
        {
            "resourceType": "Practitioner",
            "id": f"dr{number}",
            "identifier": [{"system": "urn:x", "value": str(number)}],
        }
        for number in range(3)
    ]
    records = [
        *(patient(f"p{number}") for number in range(4)),
        *doctors,
        *(
            allergy(
                f"a{number}",
                of=f"Patient/p{number % 4}",
                recorder={"reference": f"Practitioner?identifier=urn:x|{number % 3}"},
            )
            for number in range(12)
        ),
        document("words"),
    ]
    orders = [random.Random(seed) for seed in range(4)]
    found = []
    for place, chance in enumerate(orders):
        app = make_app(seed=False)
        folder = packed(tmp_path / str(place), records, chance)
        assert load(app, folder).complete
        found.append(stored(app))
        load(app, folder)
        assert stored(app) == found[-1]
    assert all(one == found[0] for one in found)
