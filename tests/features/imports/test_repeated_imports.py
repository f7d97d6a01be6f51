"""Repeated imports: no version where nothing changed, the next one where something did."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.definition import Definition, types
from fhirapp.features.imports.importer import import_paths
from fhirapp.features.imports.report import Report
from fhirapp.store.import_models import ImportRun
from fhirapp.store.prepare import PreparedResource, prepare
from tests.support.archives import zipped
from tests.support.bundles import asked, bundle, plain, put
from tests.support.ccda_people import RECORD
from tests.support.ccda_people import document as clinical_document
from tests.support.contract import publish
from tests.support.importing import asking, interrupted_import, lines, load, write
from tests.support.records import URN, allergy, binary, document, inline, patient, practitioner
from tests.support.stored import content_and_index, current, stored, versions

# A resource with a letter as its content, as an allergy and as a document with its bytes inline.
FORMS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "AllergyIntolerance": lambda own_id, letter: allergy(own_id, note=[{"text": letter}]),
    "DocumentReference": lambda own_id, letter: document(own_id, inline(letter)),
}
TIME = "2026-01-01T00:00:00.000+00:00"


def letters(app: Flask, form: str, own_id: str) -> str:
    """Return the letters of all versions of a resource, oldest first, - for a deletion."""
    found = []
    history = asking(app).get(f"{form}/{own_id}/_history").get_json()
    for entry in reversed(history.get("entry", ())):
        resource = entry.get("resource")
        if resource is None:
            found.append("-")
        elif form == "AllergyIntolerance":
            found.append(resource["note"][0]["text"])
        else:
            found.append(base64.b64decode(resource["content"][0]["attachment"]["data"]).decode())
    return "".join(found)


# The contents of each import, of which the last counts, and the versions that follow from them.
REPEATED = {
    # Content that returns in a later import is the next version.
    ("A", "B", "A", "A"): "ABA",
    # The last content of an input is here: its earlier ones are not added.
    ("AB", "AB"): "B",
    ("AAB", "B"): "B",
    ("B", "AB", "CB"): "B",
    ("A", "AB"): "AB",
    ("AB", "BA"): "BA",
    ("AB", "ABC", "AB"): "BCB",
    # A deletion that comes last deletes what is here.
    ("A", "B-", "-"): "A-",
    ("A-", "A"): "A",
    # The same content after its deletion is a new version.
    ("A", "-", "A", "A"): "A-A",
    ("A", "-A"): "A",
}


@pytest.mark.parametrize("form", FORMS)
def test_versions_follow_from_the_contents_of_each_import(take, empty, form):
    """Each case is a resource of its own; the cases share their imports."""
    take(patient("one"))
    cases = {f"d{place}": case for place, case in enumerate(REPEATED.items())}
    found = dict.fromkeys(REPEATED, "")
    for round_number in range(4):
        records = []
        unchanged = 0
        for own_id, (imports, expected) in cases.items():
            for letter in imports[round_number] if round_number < len(imports) else "":
                deletion = bundle("batch", asked("DELETE", f"{form}/{own_id}"))
                records.append(deletion if letter == "-" else FORMS[form](own_id, letter))
                unchanged += found[imports] == expected
        report = take(*records)
        assert report.complete
        assert report.changes[form].total() == len(records)
        assert report.changes[form]["same"] >= unchanged
        for own_id, (imports, _) in cases.items():
            found[imports] = letters(empty, form, own_id)
    assert found == REPEATED


def test_id_with_two_contents_in_one_input_is_reported_as_a_duplicate(take):
    report = take(patient("one"), allergy("a"), allergy("a", criticality="low"), allergy("b"))
    assert [*report.twice] == ["AllergyIntolerance/a"]
    assert report.twice.counts.total() == 1
    assert "twice in the input" in report.table()
    assert take(patient("one"), patient("one")).twice == {}


def test_content_of_a_killed_run_is_no_duplicate(take, empty):
    take(patient("one"))
    with empty.app_context(), writing() as connection:
        connection.execute(update(ImportRun).values(ended_at=None))
    report = take(patient("one", gender="female"))
    assert report.changes == {"Patient": {"changed": 1}}
    assert report.twice == {}


def test_content_of_a_concurrent_writer_is_no_duplicate(empty, tmp_path):
    path = write(tmp_path, lines(patient("one", gender="male"), allergy("a", type="allergy")))

    def publish_others(_report: Report) -> None:
        publish(empty, patient("one"), now=TIME)
        publish(empty, allergy("a"), now=TIME)

    with empty.app_context():
        report = import_paths([path], types(), settings_of(empty), on_begin=publish_others)
    assert report.changes == {"Patient": {"changed": 1}, "AllergyIntolerance": {"changed": 1}}
    assert report.twice == {}


def test_document_that_is_rendered_again_for_its_bytes_is_no_duplicate(take):
    carrier = document("d", {"url": "Binary/b"})
    take(carrier)
    report = take(binary("b"), {**carrier, "description": "changed"})
    assert report.changes["DocumentReference"] == {"changed": 1}
    assert report.twice == {}


# Another release reads the same files in another way


def test_files_that_are_read_in_another_way_make_new_versions(empty, tmp_path, monkeypatch):
    load(empty, write(tmp_path, b"patient_id,substance,note\none,Latex,x\n", "x.csv"))
    of_the_table = {*current(empty, "AllergyIntolerance")}
    write(tmp_path, clinical_document("one", (RECORD, "1")), "x.xml")
    records = lines({**document("d", inline("hello")), "date": "2024"}, allergy("a"))
    write(tmp_path, records, "x.ndjson")
    load(empty, tmp_path)
    assert all(number == 1 for *_, number, _ in versions(empty))
    report = load(empty, tmp_path)
    assert not any(counts["changed"] for counts in report.changes.values())

    def read_otherwise(definition: Definition, resource: Any) -> PreparedResource:
        if definition.name in FORMS:
            resource = {**resource, "language": "en"}
        return prepare(definition, resource)

    monkeypatch.setattr("fhirapp.features.imports.admission.prepare", read_otherwise)
    report = load(empty, tmp_path)
    for type_name in FORMS:
        ids = current(empty, type_name)
        assert report.changes[type_name]["changed"] == len(ids)
        for resource_id in ids:
            found = asking(empty).read(f"{type_name}/{resource_id}")
            assert (found["meta"]["versionId"], found["language"]) == ("2", "en")
    # Where the reading is again what it was, so are the records; a table takes nothing away.
    monkeypatch.undo()
    load(empty, tmp_path)
    for resource_id in current(empty, "AllergyIntolerance"):
        found = asking(empty).read(f"AllergyIntolerance/{resource_id}")
        assert found["meta"]["versionId"] == ("2" if resource_id in of_the_table else "3")


# The same records in other transactions, orders and files


def test_import_that_is_repeated_after_interruptions_ends_as_one_that_is_not_interrupted(
    make_app, tmp_path, small_batches
):
    small_batches(1)
    by_number = {"reference": "Practitioner?identifier=urn:doctor|1"}
    new = asked("POST", "Patient", patient(mrn="9"), f"{URN}77", ifNoneExist="identifier=urn:mrn|9")
    records = [
        *(allergy(f"w{number}", recorder=by_number) for number in range(5)),
        *(FORMS["AllergyIntolerance"]("d", letter) for letter in "ABA"),
        *(FORMS["DocumentReference"]("d", letter) for letter in "AB"),
        bundle("transaction", put(allergy("gone")), asked("DELETE", "AllergyIntolerance/gone")),
        bundle("collection", plain(patient("two")), plain(allergy("b", of="Patient/two"))),
        bundle("transaction", new),
        practitioner("dr"),
        patient("one"),
    ]
    whole, interrupted = make_app(seed=False), make_app(seed=False)
    path = write(tmp_path, lines(*records), "x.ndjson")
    load(whole, path)
    for count in range(1, len(records), 5):
        interrupted_import(interrupted, path, batches=count)
    load(interrupted, path)
    assert stored(interrupted) == stored(whole)
    before = stored(whole)
    assert load(whole, path).complete
    assert stored(whole) == before


def packed(folder: Path, records: Sequence[Any], chance: random.Random) -> Path:
    """Write records in a random order into files, archives and Bundles of any kind."""
    records = [*records]
    chance.shuffle(records)
    while records:
        part = [records.pop() for _ in range(min(len(records), chance.randint(1, 4)))]
        name = f"{len(records)}"
        wrapped = json.dumps(bundle("collection", *map(plain, part)), indent=2).encode()
        kind = chance.randrange(5)
        if kind == 0:
            write(folder, lines(*part), f"{name}.ndjson")
        elif kind == 1:
            write(folder, gzip.compress(wrapped), f"{name}.json.gz")
        elif kind == 2:
            write(folder, json.dumps(part, indent=1).encode(), f"{name}.json")
        elif kind == 3:
            write(folder, lines(bundle("batch", *map(put, part))), f"deep/{name}.ndjson")
        else:
            folder.mkdir(exist_ok=True)
            zipped(folder / f"{name}.zip", {"x.ndjson": lines(*part)})
    return folder


def test_order_and_packing_of_the_records_do_not_matter(make_app, tmp_path):
    by_number = "Practitioner?identifier=urn:doctor|{}"
    records = [
        *(patient(f"p{number}") for number in range(4)),
        *(practitioner(f"dr{number}", str(number)) for number in range(3)),
        *(
            allergy(
                f"a{number}",
                of=f"Patient/p{number % 4}",
                recorder={"reference": by_number.format(number % 3)},
            )
            for number in range(8)
        ),
        document("d", inline("words")),
    ]
    found = []
    for seed in range(2):
        app = make_app(seed=False)
        folder = packed(tmp_path / str(seed), records, random.Random(seed))
        assert load(app, folder).complete
        found.append(content_and_index(app))
        load(app, folder)
        assert content_and_index(app) == found[-1]
    assert found[0] == found[1]
