"""Records of different people stay separate, whatever ids and numbers their sources use."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from fhirapp.fhir.identity import ranked
from tests.support.bundles import asked, bundle, history, put
from tests.support.ccda_samples import sample
from tests.support.importing import lines, load, write
from tests.support.records import allergy, binary, document, patient, practitioner
from tests.support.stored import current, stored, versions

ALLERGY = "AllergyIntolerance"
ONE, TWO = patient("one"), patient("two")


def owner(app: Flask, allergy_id: str) -> str | None:
    """Return the patient of the current version of an allergy."""
    (found,) = [
        patient_id
        for (_, own_id, _), (_, is_current, _, patient_id) in stored(app).items()
        if own_id == allergy_id and is_current
    ]
    return found


def test_id_of_records_of_two_patients_is_the_firsts_in_every_import(take, empty):
    for _ in range(3):
        report = take(ONE, TWO, allergy("a"), allergy("a", "Patient/two", criticality="high"))
        assert report.rejected_lines == 1
        assert owner(empty, "a") == "one"
        assert len(versions(empty, ALLERGY)) == 1


def test_record_that_a_later_import_files_with_another_patient_is_moved(take, empty):
    """The source corrected it."""
    take(ONE, TWO, allergy("a"))
    assert take(ONE, TWO, allergy("a", "Patient/two")).complete
    assert owner(empty, "a") == "two"


def test_record_keeps_its_patient_when_a_second_one_has_the_number(take, empty):
    by_number = "Patient?identifier=urn:mrn|1"
    take(patient("one", "1"), allergy("a", by_number))
    take(patient("two", "1"))
    assert take(allergy("a", by_number, type="allergy")).rejected_lines == 1
    assert owner(empty, "a") == "one"


def test_record_that_one_source_deleted_cannot_become_another_patients_by_another_source(
    take, empty
):
    take(ONE, TWO, allergy("a"), source="ehr")
    take(bundle("transaction", asked("DELETE", f"{ALLERGY}/a")), source="ehr")
    assert take(allergy("a", "Patient/two"), source="lab").rejected_lines == 1
    assert current(empty, ALLERGY) == []
    # The same source may restore it, and file it with another patient.
    assert take(allergy("a", "Patient/two"), source="ehr").complete
    assert owner(empty, "a") == "two"


def version(number: int, year: int, of: str = "Patient/one") -> dict[str, Any]:
    instant = f"{year}-01-01T00:00:00.000+00:00"
    return allergy("a", of, meta={"versionId": str(number), "lastUpdated": instant})


@pytest.mark.parametrize(
    ("further", "source", "is_taken"),
    [
        (version(2, 2001), "", False),
        (version(2, 9999), "", False),
        (version(2, 2021, "Patient/two"), "", False),
        (version(2, 2021), "lab", False),
        (version(2, 2021), "", True),
    ],
    ids=["from before", "from the future", "of another patient", "of another source", "next"],
)
def test_history_is_continued_by_its_own_next_version_only(take, empty, further, source, is_taken):
    assert take(ONE, TWO, history(version(1, 2020)), source=source and "ehr").complete
    assert take(history(further), source=source).rejected_lines == (not is_taken)
    assert len(versions(empty, ALLERGY)) == 1 + is_taken


def test_record_that_a_later_folder_has_again_is_not_deleted(empty, tmp_path):
    write(tmp_path / "full", lines(ONE, allergy("a")), "x.ndjson")
    gone = bundle("transaction", asked("DELETE", f"{ALLERGY}/a"))
    write(tmp_path / "first", gone, "deleted.json")
    write(tmp_path / "second", lines(allergy("a", type="allergy")), "x.ndjson")
    load(empty, *(tmp_path / name for name in ("full", "first", "second")))
    assert current(empty, ALLERGY) == ["a"]


def test_bundle_that_deletes_and_puts_adds_no_version_when_it_is_imported_again(empty, tmp_path):
    both = bundle("transaction", asked("DELETE", f"{ALLERGY}/a"), put(allergy("a")))
    file = write(tmp_path, both, "both.json")
    load(empty, write(tmp_path, lines(ONE, allergy("a", type="allergy")), "x.ndjson"), file)
    before = versions(empty)
    for _ in range(2):
        load(empty, file)
        assert current(empty, ALLERGY) == ["a"]
    assert versions(empty) == before


# Documents, and the numbers of their patients


def test_social_security_numbers_that_nobody_has_do_not_identify():
    expected = {
        "561-45-6780": True,
        "561456780": True,
        "999-99-9999": False,
        "000-12-3456": False,
        "123-45-6789": False,
        "111-11-1111": False,
        "561-00-6780": False,
        "561-45-0000": False,
        "none": False,
    }
    system = "http://hl7.org/fhir/sid/us-ssn"
    found = {value: bool(ranked([{"system": system, "value": value}])) for value in expected}
    assert found == expected


@pytest.mark.parametrize("names", [("a.xml", "b.xml"), ("b.xml", "a.xml")])
def test_newer_of_two_documents_counts_whatever_their_names(empty, tmp_path, names):
    text = sample("ccd")
    made = text.partition('<effectiveTime value="')[2][:8]
    older = text.replace(f'<effectiveTime value="{made}', '<effectiveTime value="20010101', 1)
    for name, content in zip(names, (older, text), strict=True):
        write(tmp_path / "documents", content.encode(), name)
    load(empty, tmp_path / "documents")
    together = stored(empty)
    assert [value for key, value in together.items() if key[0] == "Patient" and value[1]]
    assert load(empty, tmp_path / "documents").complete
    assert stored(empty) == together


# Two named sources may use one id for two people, whatever refers to it


def carrier(resource_id: str, patient_id: str) -> dict[str, Any]:
    """Return a document whose bytes are a Binary of its source."""
    return document(resource_id, {"url": "Binary/77"}, of=patient_id, type={"text": "Note"})


def present(app: Flask) -> set[str]:
    """Return the resources that are here."""
    names = ("Patient", ALLERGY, "DocumentReference", "Binary")
    return {f"{name}/{own_id}" for name in names for own_id in current(app, name)}


ANNA, BEN = patient("1", gender="female"), patient("9", gender="male")
ANNAS = {"Patient/1", "DocumentReference/a1", "Binary/77"}
SECRET = binary("77", "Anna's secret")


def test_records_of_a_patient_who_is_another_person_here_are_rejected(take, empty, small_batches):
    small_batches(10)
    take(ANNA, allergy("a", "Patient/1"), source="ehr")
    report = take(patient("1", gender="male"), allergy("b", "Patient/1"), source="lab")
    assert report.rejected_lines == 2
    # Also in a later import, and where the namesake comes in a later batch.
    assert take(allergy("b", "Patient/1"), source="lab").rejected_lines == 1
    many = [allergy(f"b{number}", "Patient/1") for number in range(30)]
    assert take(*many, patient("1", gender="male"), source="lab").rejected_lines == 31
    assert take(history(version(1, 2020, "Patient/1")), source="lab").rejected_lines == 1
    assert present(empty) == {"Patient/1", f"{ALLERGY}/a"}


@pytest.mark.parametrize("apart", [False, True], ids=["together", "in a later import"])
def test_document_of_one_source_does_not_get_the_bytes_of_another(take, empty, apart):
    take(ANNA, SECRET, carrier("a1", "1"), source="ehr")
    if apart:
        assert take(BEN, source="lab").complete
        report = take(carrier("b1", "9"), source="lab")
        assert report.rejected_lines == 1
    else:
        report = take(BEN, binary("77", "Ben's note"), carrier("b1", "9"), source="lab")
        assert report.rejected_lines == 2
    assert "Binary/77 belongs to another source here" in report.faults[-1].message
    assert present(empty) == ANNAS | {"Patient/9"}


def test_bytes_that_both_sources_have_belong_to_documents_of_both(take, empty):
    leaflet = binary("77", "A leaflet")
    take(ANNA, leaflet, carrier("a1", "1"), source="ehr")
    assert take(carrier("b1", "9"), BEN, leaflet, source="lab").complete
    # That is stored: the next import has only what is new.
    assert take(carrier("b2", "9"), source="lab").complete
    assert "DocumentReference/b2" in present(empty)


def test_patient_whom_records_of_another_source_refer_to_is_rejected(take):
    """The first source never sent the patient of its records."""
    take(allergy("a", "Patient/1"), source="lab")
    report = take(ANNA, allergy("b", "Patient/1"), source="ehr")
    assert report.rejected_lines == 2
    assert "records of another source refer to" in report.faults[0].message
    assert take(ANNA, allergy("b", "Patient/1"), source="lab").complete


def test_bytes_that_a_document_of_another_source_refers_to_are_rejected(take, empty):
    take(BEN, carrier("b1", "9"), source="lab")
    report = take(ANNA, SECRET, carrier("a1", "1"), source="ehr")
    assert report.rejected_lines == 1
    assert "Binary/77" not in present(empty)


@pytest.mark.parametrize("number", ["urn:mrn|1", "urn%3Amrn%7C1"])
def test_number_matches_the_patient_of_another_source(take, empty, number):
    """A number that two sources write means one person: an id need not."""
    take(patient("1", "1"), source="ehr")
    of = f"Patient?identifier={number}"
    assert take(allergy("b", of), source="lab").complete
    # Also where the record waits for another reference.
    waits = allergy("c", of, recorder={"reference": "Practitioner?identifier=urn:doctor|7"})
    assert take(waits, practitioner("p7", "7"), source="lab").complete
    assert (owner(empty, "b"), owner(empty, "c")) == ("1", "1")


def test_address_within_a_bundle_does_not_lead_to_a_record_of_another_source(take, empty):
    take(bundle("transaction", put(ANNA), put(SECRET)), source="ehr")
    url = "https://lab.example/fhir/Binary/77"
    bens = document("b1", {"url": url}, of="9", type={"text": "Note"})
    entries = [put(resource) for resource in (BEN, binary("77", "Ben's note"), bens)]
    for entry in entries:
        entry["fullUrl"] = f"https://lab.example/fhir/{entry['request']['url']}"
    report = take(bundle("transaction", *entries), source="lab")
    assert report.rejected_lines == 2
    assert present(empty) == {"Patient/1", "Binary/77", "Patient/9"}


def test_sources_without_a_name_are_one(take):
    take(ANNA)
    assert take(allergy("b", "Patient/1"), source="lab").complete


@pytest.mark.parametrize(
    ("cells", "foreign"),
    [
        (b"1,,,", "Patient/1"),
        (b"9,,visit,", "Encounter/visit"),
        (b"9,,,Practitioner/dr", "Practitioner/dr"),
    ],
)
def test_row_of_a_table_does_not_refer_to_a_record_of_another_source_by_its_id(
    take, empty, tmp_path, cells, foreign
):
    visit = {"resourceType": "Encounter", "id": "visit", "status": "finished"}
    visit["class"] = {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB"}
    take(ANNA, visit, practitioner("dr"), source="ehr")
    take(BEN, source="lab")
    heading = b"patient_id,patient_family,encounter,recorder,id,substance\n"
    table = write(tmp_path, heading + cells + b",b,Latex\n", "x.csv")
    for _ in range(2):
        report = load(empty, table, source="lab")
        assert report.rejected_lines == 1
        assert f"{foreign} belongs to another source here" in report.faults[0].message
    assert current(empty, ALLERGY) == []
