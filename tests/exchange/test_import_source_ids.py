"""Records of different people stay apart, whatever a source says and however often it does."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from flask import Flask

from fhirapp.config import load_settings
from fhirapp.exchange.ccda.record import ranked
from tests.support.ccda_samples import sample
from tests.support.importing import (
    allergy,
    asked,
    asking,
    bundle,
    current,
    lines,
    load,
    patient,
    put,
    stored,
    versions,
    write,
)

ALLERGY = "AllergyIntolerance"
ONE, TWO = patient("one"), patient("two")


def owner(app: Flask, resource_id: str) -> str | None:
    """Return whose the current version of an allergy is."""
    (found,) = [
        patient_id
        for (_, one, _), (_, is_current, _, patient_id) in stored(app).items()
        if one == resource_id and is_current
    ]
    return found


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_an_id_that_stands_for_records_of_two_patients_is_the_firsts_in_every_run(
    take, empty, runs
):
    for _ in range(runs):
        report = take(ONE, TWO, allergy("a"), allergy("a", "Patient/two", criticality="high"))
        assert report.rejected_lines == 1
    assert owner(empty, "a") == "one"
    assert len(versions(empty, ALLERGY)) == 1


def test_a_record_that_a_later_export_has_under_another_patient_is_moved(take, empty):
    """Somebody corrected it there."""
    take(ONE, TWO, allergy("a"))
    assert take(ONE, TWO, allergy("a", "Patient/two")).complete
    assert owner(empty, "a") == "two"


def test_records_of_a_patient_who_is_somebody_else_here_are_refused_too(take, empty):
    take(patient("1", gender="female"), allergy("a", "Patient/1"), source="ehr")
    report = take(patient("1", gender="male"), allergy("b", "Patient/1"), source="lab")
    assert report.rejected_lines == 2
    assert current(empty, ALLERGY) == ["a"]


def test_a_record_does_not_leave_its_patient_because_two_have_the_number_now(take, empty):
    take(patient("one", "1"), allergy("a", "Patient?identifier=urn:mrn|1"))
    take(patient("two", "1"))
    report = take(allergy("a", "Patient?identifier=urn:mrn|1", type="allergy"))
    assert report.rejected_lines == 1
    assert owner(empty, "a") == "one"


def test_what_one_source_deleted_is_not_another_patients_from_another(take, empty, tmp_path):
    take(ONE, TWO, allergy("a"), source="ehr")
    gone = write(tmp_path, bundle("transaction", asked("DELETE", f"{ALLERGY}/a")), "gone.json")
    load(empty, gone, source="ehr")
    report = take(allergy("a", "Patient/two"), source="lab")
    assert report.rejected_lines == 1
    assert current(empty, ALLERGY) == []
    # The same source may take it up again, and say that it was another's.
    assert take(allergy("a", "Patient/two"), source="ehr").complete
    assert owner(empty, "a") == "two"


def history(*versions: dict[str, Any]) -> dict[str, Any]:
    """Return a history Bundle of resources with meta."""
    return bundle(
        "history",
        *(
            {
                "fullUrl": f"https://x.example/fhir/{one['resourceType']}/{one['id']}",
                "resource": one,
                "request": {"method": "PUT", "url": f"{one['resourceType']}/{one['id']}"},
                "response": {"status": "200", "lastModified": one["meta"]["lastUpdated"]},
            }
            for one in reversed(versions)
        ),
    )


def version(number: int, year: int, of: str = "Patient/one") -> dict[str, Any]:
    instant = f"{year}-01-01T00:00:00.000+00:00"
    return allergy("a", of, meta={"versionId": str(number), "lastUpdated": instant})


@pytest.mark.parametrize(
    ("further", "options"),
    [
        (version(2, 2001), {}),
        (version(2, 9999), {}),
        (version(2, 2021, "Patient/two"), {}),
        (version(2, 2021), {"source": "lab"}),
    ],
    ids=["from before", "from the future", "of another patient", "of another source"],
)
def test_a_history_goes_on_only_where_it_may(take, empty, further, options):
    source = {"source": "ehr"} if options else {}
    assert take(ONE, TWO, history(version(1, 2020)), **source).complete
    assert take(history(further), **options).rejected_lines == 1
    assert len(versions(empty, ALLERGY)) == 1


def test_the_next_version_of_a_history_is_taken(take, empty):
    take(ONE, history(version(1, 2020)))
    assert take(history(version(2, 2021))).complete
    assert len(versions(empty, ALLERGY)) == 2


def test_what_a_later_folder_has_again_is_not_deleted(empty, tmp_path):
    write(tmp_path / "full", lines(ONE, allergy("a")), "x.ndjson")
    gone = bundle("transaction", asked("DELETE", f"{ALLERGY}/a"))
    write(tmp_path / "first", gone, "deleted.json")
    write(tmp_path / "second", lines(allergy("a", type="allergy")), "x.ndjson")
    load(empty, *(tmp_path / name for name in ("full", "first", "second")))
    assert current(empty, ALLERGY) == ["a"]


def test_a_bundle_that_deletes_and_puts_adds_no_versions_when_it_is_imported_again(empty, tmp_path):
    both = bundle("transaction", asked("DELETE", f"{ALLERGY}/a"), put(allergy("a")))
    file = write(tmp_path, both, "both.json")
    load(empty, write(tmp_path, lines(ONE, allergy("a", type="allergy")), "x.ndjson"), file)
    before = versions(empty)
    for _ in range(2):
        load(empty, file)
        assert current(empty, ALLERGY) == ["a"]
    assert versions(empty) == before


def test_what_is_refused_may_be_written_over_what_is_read(empty, tmp_path):
    """The file is mended, and imported under the same name: it is longer than one batch."""
    kept = write(tmp_path, lines(*(patient(f"p{n}", gender="x") for n in range(2_500))), "x.ndjson")
    load(empty, kept, rejected=kept)
    assert len(kept.read_bytes().splitlines()) == 2_500
    mended = kept.read_bytes().replace(b'"x"', b'"male"')
    kept.write_bytes(mended.replace(b'"male"', b'"x"', 1))
    load(empty, kept, rejected=kept)
    assert len(current(empty, "Patient")) == 2_499
    assert len(kept.read_bytes().splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "tells"),
    [
        ("561-45-6780", True),
        ("561456780", True),
        ("999-99-9999", False),
        ("000-12-3456", False),
        ("123-45-6789", False),
        ("111-11-1111", False),
        ("561-00-6780", False),
        ("561-45-0000", False),
        ("none", False),
    ],
)
def test_a_number_that_stands_for_none_tells_nobody_apart(value, tells):
    system = "http://hl7.org/fhir/sid/us-ssn"
    assert bool(ranked([{"system": system, "value": value}])) is tells


def test_a_document_of_somebody_with_anothers_number_is_refused(empty, tmp_path):
    first = write(tmp_path, sample("ccd").encode(), "1.xml")
    load(empty, first)
    before = stored(empty)
    other = sample("ccd").replace("db734647-fc99-424c-a864-7e3cda82e703", "other")
    born = sample("ccd").partition('<birthTime value="')[2][:8]
    other = other.replace(f'<birthTime value="{born}"', '<birthTime value="19010203"')
    report = load(empty, write(tmp_path, other.encode(), "2.xml"))
    refused, followers = report.faults
    identifiers = asking(empty).read("Patient")["entry"][0]["resource"]["identifier"]
    (number,) = [one for one in identifiers if f"{one['system']}|{one['value']}" in refused.message]
    assert number
    assert "born on another day" in refused.message
    assert refused.message.endswith(
        f"birth date 1901-02-03, there {born[:4]}-{born[4:6]}-{born[6:]}"
    )
    count = report.rejected_lines - 1
    assert count > 5
    assert followers.message == f"rejected too, because their patient is not clear: {count}"
    assert report.table().splitlines()[-1].split()[:2] == ["rejected", str(count + 1)]
    assert stored(empty) == before


@pytest.mark.parametrize("names", [("a.xml", "b.xml"), ("b.xml", "a.xml")])
def test_the_newer_of_two_documents_counts_whatever_they_are_called(empty, tmp_path, names):
    text = sample("ccd")
    made = text.partition('<effectiveTime value="')[2][:8]
    older = text.replace(f'<effectiveTime value="{made}', '<effectiveTime value="20010101', 1)
    for name, content in zip(names, (older, text), strict=True):
        write(tmp_path / "documents", content.encode(), name)
    load(empty, tmp_path / "documents")
    together = stored(empty)
    newest = [value for key, value in together.items() if key[0] == "Patient" and value[1]]
    assert newest
    again = load(empty, tmp_path / "documents")
    assert again.complete
    assert stored(empty) == together


def test_one_entry_on_a_line_of_its_own_is_not_a_file_of_lines(empty, tmp_path):
    text = '{"resourceType": "Bundle", "type": "collection", "entry": [\n'
    text += json.dumps({"resource": ONE}) + "\n]}"
    assert load(empty, write(tmp_path, text.encode(), "one.json")).complete
    assert current(empty, "Patient") == ["one"]


def test_the_demo_has_its_own_folder_in_that_of_a_clinic(tmp_path):
    folder = {"FHIRAPP_INSTANCE_PATH": str(tmp_path)}
    clinic, demo = load_settings(folder), load_settings({**folder, "FHIRAPP_DEMO": "1"})
    assert (clinic.instance, demo.instance) == (tmp_path, tmp_path / "demo")
    assert demo.database_uri == f"sqlite:///{tmp_path}/demo.db"


# Two sources that have a name may use one id for two people, whatever refers to it.


def document(resource_id: str, patient_id: str, **further: Any) -> dict[str, Any]:
    """Return a document whose bytes are a Binary of its source's."""
    return {
        "resourceType": "DocumentReference",
        "id": resource_id,
        "status": "current",
        "type": {"text": "Note"},
        "subject": {"reference": f"Patient/{patient_id}"},
        "content": [{"attachment": {"contentType": "text/plain", "url": "Binary/77"}}],
        **further,
    }


def bytes_of(text: str) -> dict[str, Any]:
    data = b64encode(text.encode()).decode()
    return {"resourceType": "Binary", "id": "77", "contentType": "text/plain", "data": data}


def kept(app: Flask) -> set[tuple[str, str]]:
    """Return what is here, as (type, id)."""
    names = ("Patient", ALLERGY, "DocumentReference", "Binary")
    return {(name, one) for name in names for one in current(app, name)}


ANNA, BEN = patient("1", gender="female"), patient("9", gender="male")
ANNAS = {("Patient", "1"), ("DocumentReference", "a1"), ("Binary", "77")}


@pytest.mark.parametrize("apart", [False, True], ids=["together", "in a later run"])
def test_a_document_of_one_source_does_not_take_anothers_bytes(take, empty, apart):
    take(ANNA, bytes_of("Anna's secret"), document("a1", "1"), source="ehr")
    bens = [bytes_of("Ben's note"), document("b1", "9")]
    if apart:
        assert take(BEN, source="lab").complete
        report = take(document("b1", "9"), source="lab")
        assert report.rejected_lines == 1
    else:
        report = take(BEN, *bens, source="lab")
        assert report.rejected_lines == 2
    assert "Binary/77 is a record of another source here" in report.faults[-1].message
    assert kept(empty) == ANNAS | {("Patient", "9")}


def test_bytes_that_both_sources_have_are_both_their_documents(take, empty):
    take(ANNA, bytes_of("A leaflet"), document("a1", "1"), source="ehr")
    assert take(document("b1", "9"), BEN, bytes_of("A leaflet"), source="lab").complete
    # That is remembered: the next time only what is new comes.
    assert take(document("b2", "9"), source="lab").complete
    assert ("DocumentReference", "b2") in kept(empty)


def test_records_are_not_filed_with_a_namesake_who_comes_later_in_the_file(take, empty):
    take(ANNA, source="ehr")
    many = [allergy(f"b{number}", "Patient/1") for number in range(1_200)]
    report = take(*many, patient("1", gender="male"), source="lab")
    assert report.rejected_lines == 1_201
    assert kept(empty) == {("Patient", "1")}


def test_records_are_not_filed_with_a_namesake_in_a_later_run(take, empty):
    take(ANNA, source="ehr")
    take(patient("1", gender="male"), source="lab")
    report = take(allergy("b", "Patient/1"), source="lab")
    assert report.rejected_lines == 1
    assert kept(empty) == {("Patient", "1")}


def test_histories_are_not_filed_with_a_namesake(take, empty):
    take(patient("one", gender="female"), source="ehr")
    report = take(history(version(1, 2020)), source="lab")
    assert report.rejected_lines == 1
    assert kept(empty) == {("Patient", "one")}


def test_a_patient_whom_records_of_another_source_wait_for_is_not_theirs(take, empty):
    """The first source never brought the patient of its records."""
    take(allergy("a", "Patient/1"), source="lab")
    report = take(ANNA, allergy("b", "Patient/1"), source="ehr")
    assert report.rejected_lines == 2
    assert "records of another source refer to" in report.faults[0].message
    assert take(ANNA, allergy("b", "Patient/1"), source="lab").complete


def test_bytes_that_a_document_of_another_source_waits_for_are_not_its(take, empty):
    take(BEN, document("b1", "9"), source="lab")
    report = take(ANNA, bytes_of("Anna's secret"), document("a1", "1"), source="ehr")
    assert report.rejected_lines == 1
    assert ("Binary", "77") not in kept(empty)


@pytest.mark.parametrize("number", ["urn:mrn|1", "urn%3Amrn%7C1"])
def test_a_number_finds_the_patient_of_another_source(take, empty, number):
    """A number that two sources write means one person: an id need not."""
    take(patient("1", "1"), source="ehr")
    by_number = allergy("b", f"Patient?identifier={number}")
    assert take(by_number, source="lab").complete
    # Whatever else it waits for.
    waits = allergy("c", f"Patient?identifier={number}")
    waits["recorder"] = {"reference": "Practitioner?identifier=urn:x|7"}
    physician = {"resourceType": "Practitioner", "id": "p7"}
    physician["identifier"] = [{"system": "urn:x", "value": "7"}]
    assert take(waits, physician, source="lab").complete
    assert (owner(empty, "b"), owner(empty, "c")) == ("1", "1")


def test_an_address_within_a_bundle_leads_to_no_other_sources_record(empty, tmp_path):
    first = [put(ANNA), put(bytes_of("Anna's secret"))]
    load(empty, write(tmp_path, bundle("transaction", *first), "a.json"), source="ehr")
    bens = document("b1", "9")
    bens["content"][0]["attachment"]["url"] = "https://lab.example/fhir/Binary/77"
    entries = [put(one) for one in (BEN, bytes_of("Ben's note"), bens)]
    for entry in entries:
        entry["fullUrl"] = f"https://lab.example/fhir/{entry['request']['url']}"
    report = load(empty, write(tmp_path, bundle("transaction", *entries), "b.json"), source="lab")
    assert report.rejected_lines == 2
    assert kept(empty) == {("Patient", "1"), ("Binary", "77"), ("Patient", "9")}


def test_sources_without_a_name_are_one(take, empty):
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
@pytest.mark.parametrize("apart", [False, True], ids=["in one run", "in two runs"])
def test_a_row_of_a_table_refers_to_no_other_sources_record_by_its_id(
    take, empty, tmp_path, cells, foreign, apart
):
    visit = {"resourceType": "Encounter", "id": "visit", "status": "finished"}
    visit["class"] = {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB"}
    take(ANNA, visit, {"resourceType": "Practitioner", "id": "dr"}, source="ehr")
    take(BEN, source="lab")
    heading = b"patient_id,patient_family,encounter,recorder,id,substance\n"
    table = write(tmp_path, heading + cells + b",b,Latex\n", "x.csv")
    reports = [load(empty, table, source="lab") for _ in range(2 if apart else 1)]
    for report in reports:
        assert report.rejected_lines == 1
        assert f"{foreign} is a record of another source here" in report.faults[0].message
    assert current(empty, ALLERGY) == []
