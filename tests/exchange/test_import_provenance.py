"""What imports tell of themselves: what was loaded, when, from where; no file, and nobody."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.db import db, insert_rows, writing
from fhirapp.definition import types
from fhirapp.exchange.imports import runs
from fhirapp.exchange.models import ImportRun
from fhirapp.store.publish import Publisher
from tests.support.helpers import Fhir, ids, token_for
from tests.support.importing import (
    allergy,
    asking,
    current,
    lines,
    load,
    patient,
    stored,
    versions,
    write,
)
from tests.support.publishing import RENDERING, TIMES
from tests.support.repeated_imports import begin, document

CLINIC: dict[str, Any] = {"resourceType": "Organization", "id": "clinic", "name": "Clinic"}


def told(app: Flask) -> dict[str, list[str]]:
    """Return what each Provenance tells of, by its id."""
    fhir = asking(app)
    return {
        one: sorted(target["reference"] for target in fhir.read(f"Provenance/{one}")["target"])
        for one in current(app, "Provenance")
    }


def test_each_patient_has_one_and_what_is_nobodys_another(take, empty):
    take(
        patient("one"),
        patient("two"),
        allergy("a"),
        allergy("b", of="Patient/two"),
        document("words"),
        CLINIC,
        who="nurse",
    )
    assert sorted(told(empty).values()) == [
        [
            "AllergyIntolerance/a/_history/1",
            "DocumentReference/d/_history/1",
            "Patient/one/_history/1",
        ],
        ["AllergyIntolerance/b/_history/1", "Patient/two/_history/1"],
        ["Organization/clinic/_history/1"],
    ]
    for one in current(empty, "Provenance"):
        provenance = asking(empty).read(f"Provenance/{one}")
        assert provenance["agent"][0]["who"]["display"] == "fhirapp import"
        assert provenance["entity"][0]["what"]["display"] == "import 1"


def test_no_patient_reads_of_anothers_file_or_of_who_loaded_it(empty, tmp_path):
    paths = [
        write(tmp_path, lines(patient("one")), "DOE_JANE_1970_HIV-clinic.ndjson"),
        write(tmp_path, lines(patient("two")), "two.ndjson"),
    ]
    load(empty, *paths, who="root-of-clinic", source="HIV\tlab")
    found = asking(empty).read("Provenance")["entry"]
    assert len(found) == 2
    for entry in found:
        text = json.dumps(entry["resource"])
        assert not any(said in text for said in ("DOE", "ndjson", "root-of-clinic", str(tmp_path)))
        what = entry["resource"]["entity"][0]["what"]
        assert what == {"display": "import 1, from HIV\ufffdlab"}
    # Who looks after the server still finds both.
    with empty.app_context(), db.engine.connect() as connection:
        (run,) = connection.execute(select(ImportRun.inputs, ImportRun.who)).all()
    assert run.inputs == [str(one) for one in paths]
    assert run.who == "root-of-clinic"


def test_an_identical_import_and_one_that_is_told_not_to_write_none(take, empty):
    take(patient("one"), provenance=False)
    assert told(empty) == {}
    take(patient("one"))
    assert told(empty) == {}
    take(patient("one", gender="female"))
    before = told(empty)
    assert [*before.values()] == [["Patient/one/_history/2"]]
    take(patient("one", gender="female"))
    assert told(empty) == before


def test_many_records_of_a_patient_are_told_in_several(take, empty):
    take(patient("one"), *(allergy(f"a{number}") for number in range(1_100)))
    found = [*told(empty).values()]
    assert sorted(map(len, found)) == [101, 500, 500]
    assert len({one for targets in found for one in targets}) == 1_101


def test_what_a_killed_run_loaded_the_next_one_tells(take, empty, tmp_path):
    begin(empty, write(tmp_path, lines(patient("one"), allergy("a")), "part.ndjson"))
    assert told(empty) == {}
    take(patient("one"), allergy("a"), allergy("b"))
    assert [*told(empty).values()] == [
        [
            "AllergyIntolerance/a/_history/1",
            "AllergyIntolerance/b/_history/1",
            "Patient/one/_history/1",
        ]
    ]
    before = told(empty)
    take(patient("one"), allergy("a"), allergy("b"))
    assert told(empty) == before
    with empty.app_context(), db.engine.connect() as connection:
        assert None not in connection.execute(select(ImportRun.ended_at)).scalars().all()


def test_a_record_that_moves_to_another_patient_is_told_with_that_one(take, empty):
    take(patient("one"), patient("two"), allergy("a"))
    take(allergy("a", of="Patient/two"))
    assert ["AllergyIntolerance/a/_history/2"] in told(empty).values()
    whose = {"one": {"Patient/one"}, "two": {"Patient/two", "AllergyIntolerance/a"}}
    for one, seen in whose.items():
        fhir = Fhir(empty, token_for(empty, "patient/*.rs", patient=one))
        for provenance in fhir.read("Provenance").get("entry", ()):
            targets = provenance["resource"]["target"]
            assert {target["reference"].partition("/_")[0] for target in targets} <= seen


@pytest.mark.parametrize(
    ("scope", "of"), [("system/*.rs", None), ("patient/*.rs", "one"), ("patient/*.rs", "two")]
)
def test_a_search_brings_it_to_whoever_may_see_it(take, empty, scope, of):
    take(patient("one"), patient("two"), allergy("a"), allergy("b", of="Patient/two"), CLINIC)
    fhir = Fhir(empty, token_for(empty, scope, patient=of))
    found = fhir.read("AllergyIntolerance?_revinclude=Provenance:target")
    targets = {
        target["reference"].partition("/_")[0]
        for entry in found["entry"]
        if entry["search"]["mode"] == "include"
        for target in entry["resource"]["target"]
    }
    mine = {"one": {"Patient/one", "AllergyIntolerance/a"}}
    mine["two"] = {"Patient/two", "AllergyIntolerance/b"}
    assert targets == (mine[of] if of else mine["one"] | mine["two"])
    assert len(ids(found, "include")) == (1 if of else 2)


def test_provenance_that_is_imported_is_not_overwritten(take, empty, tmp_path):
    """As from another server like this one, whose runs are counted from 1 too."""
    theirs = {
        "resourceType": "Provenance",
        "id": "import-1-1",
        "target": [{"reference": "Patient/one"}],
        "recorded": "2020-01-01T00:00:00Z",
        "agent": [{"who": {"display": "them"}}],
    }
    for contents in ([patient("one"), theirs], [patient("one", gender="male"), theirs]):
        take(*contents)
        held = asking(empty).read("Provenance/import-1-1")
        assert held["agent"][0]["who"]["display"] == "them"
        assert held["meta"]["versionId"] == "1"


def test_runs_of_two_sources_do_not_hide_each_others(take, empty):
    take(patient("one"), source="s")
    take(patient("two"), source="other")
    assert sorted(told(empty).values()) == [["Patient/one/_history/1"], ["Patient/two/_history/1"]]


@pytest.mark.parametrize("name", [" x", "x\ty", "x\x07", "n" * 240, "é"])
def test_any_name_of_a_file_or_source_can_be_told(empty, tmp_path, name):
    load(empty, write(tmp_path, lines(patient("one")), f"{name}.ndjson"), source=name)
    assert len(told(empty)) == 1


def test_what_it_takes_to_tell_does_not_grow_with_what_was_loaded(empty):
    """A million patients are a million of them."""
    with empty.app_context():
        table = types()["Patient"].table
        row = dict.fromkeys(table.columns.keys())
        row.update(version_id=1, last_updated=TIMES[0], is_current=True, deleted=False, body=b"{}")
        with writing() as connection:
            made = (dict(row, pk=pk, id=f"p{pk}", patient_id=f"p{pk}") for pk in range(1, 3_001))
            insert_rows(connection, table, [*made])
        with writing() as connection:
            publisher = Publisher(
                connection, now=TIMES[1], rendering=RENDERING, binary=types()["Binary"]
            )
            run = runs.Run(1, None, {"Patient": 0}, {"Patient": 0})
            tracemalloc.start()
            try:
                runs.write_provenance(publisher, connection, types(), run, TIMES[1])
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            connection.rollback()
    assert peak < 8_000_000, peak


def test_a_second_import_of_a_killed_one_changes_nothing_else(take, empty, tmp_path):
    path = write(tmp_path, lines(patient("one"), allergy("a")), "part.ndjson")
    begin(empty, path)
    before = stored(empty)
    load(empty, path)
    assert stored(empty) == before
    assert len(versions(empty, "Provenance")) == 1
