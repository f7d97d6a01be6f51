"""Provenance of imports: which versions were imported, when and from where, but no file or user."""

from __future__ import annotations

import json

from sqlalchemy import select

from fhirapp.db import db
from fhirapp.store.import_models import ImportRun
from tests.support.helpers import Fhir, token_for
from tests.support.importing import asking, interrupted_import, lines, load, write
from tests.support.records import allergy, document, inline, organization, origin, patient
from tests.support.stored import provenance_targets, stored, versions

ONES = ["AllergyIntolerance/a/_history/1", "Patient/one/_history/1"]
TWOS = ["AllergyIntolerance/b/_history/1", "Patient/two/_history/1"]


def people() -> list[dict]:
    """Return the records of two patients, and one of nobody."""
    return [
        patient("one"),
        patient("two"),
        allergy("a"),
        allergy("b", of="Patient/two"),
        organization("clinic"),
    ]


def test_each_patient_has_a_provenance_and_other_records_share_one(take, empty):
    take(*people(), document("d", inline("words")), who="nurse")
    assert provenance_targets(empty) == [
        [ONES[0], "DocumentReference/d/_history/1", ONES[1]],
        TWOS,
        ["Organization/clinic/_history/1"],
    ]
    for entry in asking(empty).read("Provenance")["entry"]:
        provenance = entry["resource"]
        assert provenance["agent"][0]["who"]["display"] == "fhirapp import"
        assert provenance["entity"][0]["what"]["display"] == "import 1"


def test_provenance_names_neither_files_nor_the_user(empty, tmp_path):
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
    # The administrator finds both.
    with empty.app_context(), db.engine.connect() as connection:
        (run,) = connection.execute(select(ImportRun.inputs, ImportRun.who)).all()
    assert run.inputs == [str(path) for path in paths]
    assert run.who == "root-of-clinic"


def test_many_records_of_a_patient_are_in_several_provenances(take, empty):
    take(patient("one"), *(allergy(f"a{number}") for number in range(1_100)))
    found = provenance_targets(empty)
    assert sorted(map(len, found)) == [101, 500, 500]
    assert len({target for targets in found for target in targets}) == 1_101


def test_records_of_an_interrupted_import_are_in_the_provenance_of_the_next(take, empty, tmp_path):
    path = write(tmp_path, lines(patient("one"), allergy("a")), "part.ndjson")
    interrupted_import(empty, path)
    assert provenance_targets(empty) == []
    before = stored(empty)
    load(empty, path)
    assert stored(empty) == before
    assert provenance_targets(empty) == [ONES]
    assert len(versions(empty, "Provenance")) == 1
    with empty.app_context(), db.engine.connect() as connection:
        assert None not in connection.execute(select(ImportRun.ended_at)).scalars().all()


def test_record_that_moves_to_another_patient_is_in_the_provenance_of_that_one(take, empty):
    take(patient("one"), patient("two"), allergy("a"))
    take(allergy("a", of="Patient/two"))
    assert ["AllergyIntolerance/a/_history/2"] in provenance_targets(empty)
    whose = {"one": {"Patient/one"}, "two": {"Patient/two", "AllergyIntolerance/a"}}
    for patient_id, visible in whose.items():
        fhir = Fhir(empty, token_for(empty, "patient/*.rs", patient=patient_id))
        for provenance in fhir.read("Provenance").get("entry", ()):
            targets = provenance["resource"]["target"]
            assert {target["reference"].partition("/_")[0] for target in targets} <= visible


def test_imported_provenance_is_not_overwritten(take, empty):
    """As from another server like this one, whose imports are counted from 1 too."""
    theirs = origin("import-1-1", "Patient/one", agent=[{"who": {"display": "them"}}])
    for one in (patient("one"), patient("one", gender="male")):
        take(one, theirs)
        held = asking(empty).read("Provenance/import-1-1")
        assert held["agent"][0]["who"]["display"] == "them"
        assert held["meta"]["versionId"] == "1"
