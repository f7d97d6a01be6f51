"""Tables and the records that are here: nobody is renamed, and nothing known is deleted."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.config import settings_of
from fhirapp.exchange.imports.report import Report
from fhirapp.exchange.tables.update import updated
from fhirapp.ops.patient_merge import merge_patients
from fhirapp.ops.patients import correct_patient
from tests.support.ccda_people import RECORD, document
from tests.support.importing import (
    allergy,
    asked,
    asking,
    bundle,
    current,
    lines,
    load,
    patient,
    stored,
    versions,
    write,
)

NAME = [{"family": "Meier", "given": ["Ute"]}]
UTE = patient(
    "p30",
    "30",
    name=NAME,
    telecom=[{"system": "phone", "value": "+49 30 1234"}],
    birthDate="1970-01-02",
    gender="female",
    address=[{"city": "Bonn"}],
)
VERIFICATION = "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification"
HEADING = b"patient_id,patient_identifier,patient_family,patient_given,patient_birth_date"
HEADING += b",patient_gender,id,substance\n"


@pytest.fixture
def rows(empty: Flask, tmp_path: Path) -> Callable[..., Report]:
    """Return what imports rows of a table of allergies below HEADING, or one's own."""

    def take(*cells: str, heading: bytes = HEADING, **options: Any) -> Report:
        table = heading + "".join(f"{row}\n" for row in cells).encode()
        return load(empty, write(tmp_path, table, "x.csv"), **options)

    return take


def read(app: Flask, name: str) -> dict[str, Any]:
    """Return a resource as its source stated it."""
    resource = asking(app).read(name)
    return {
        element: value for element, value in resource.items() if element not in ("meta", "text")
    }


def allergies_of(app: Flask, patient_id: str) -> list[str]:
    return sorted(asking(app).ids(f"AllergyIntolerance?patient={patient_id}"))


# Rows about another person.

OTHER_PEOPLE = {
    "other name and birth date": "Brandt,Karl,1941-11-30,",
    "other birth date": "Meier,Ute,1970-02-01,",
    "other year": "Meier,Ute,1971,",
    "other given name": "Meier,Karl,,",
    "other gender": "Meier,Ute,1970-01-02,male",
    "other name and gender": "Brandt,Karl,,m",
    "birth date alone, name left out in part": "Meier,,1941-11-30,",
}


@pytest.mark.parametrize("first", ["FHIR", "table", "same table", "deleted and returned"])
@pytest.mark.parametrize("cells", OTHER_PEOPLE.values(), ids=OTHER_PEOPLE.keys())
def test_a_row_about_another_person_is_rejected_with_its_allergy(take, rows, empty, cells, first):
    meier = "p30,,Meier,Ute,1970-01-02,female,a30,Penicillin"
    other = f"p30,,{cells},a31,Aspirin"
    if first == "FHIR":
        take(UTE, allergy("a30", of="Patient/p30"))
    elif first == "table":
        rows(meier)
    elif first == "deleted and returned":
        rows(meier, source="s")
        take(patient("x"), source="s", delete_missing=True, force=True)
        assert current(empty, "Patient") == ["x"]
    report = rows(meier, other) if first in ("same table", "deleted and returned") else rows(other)
    assert report.rejected_lines == 2
    fault, follower = report.faults
    assert fault.message.startswith("has the id of Patient/p30, who ")
    assert "; give another person another id or number; for the same person correct the row" in (
        fault.message
    )
    assert follower.message == "rejected too, because their patient is not clear: 1"
    assert asking(empty).read("Patient/p30")["name"] == NAME
    assert allergies_of(empty, "p30") == ["a30"]
    (path,) = report.rejected_file.split()
    assert Path(path).read_text().splitlines()[1:] == [other]


def test_a_row_about_the_patient_of_a_document_is_checked(empty, tmp_path, rows):
    assert load(empty, write(tmp_path, document("adam", (RECORD, "1")), "x.xml")).complete
    (adam,) = current(empty, "Patient")
    (known,) = allergies_of(empty, adam)
    by_id = f"{adam},,Doe,Eve,2015-03-01,,b1,Latex"
    by_number = f",urn:oid:{RECORD}|1,Doe,Eve,2015-03-01,,b2,Latex"
    report = rows(by_id, by_number)
    assert report.rejected_lines == 4
    assert f"has the number urn:oid:{RECORD}|1 of Patient/{adam}" in report.faults[2].message
    assert allergies_of(empty, adam) == [known]
    assert rows(f"{adam},,Doe,Adam,2015-03-01,,b1,Latex").complete
    assert allergies_of(empty, adam) == sorted([known, "b1"])


@pytest.mark.parametrize(
    "here",
    [
        patient("p30", name=[{"text": "Ute Meier"}]),
        patient("p30", name=[{"text": "Meier, Ute"}], birthDate="1970"),
    ],
)
def test_a_row_does_not_rename_a_patient_whose_name_is_one_text(take, rows, empty, here):
    take(here)
    assert rows("p30,,Brandt,Karl,,,a31,Aspirin").rejected_lines == 2
    assert rows("p30,,Meier,Ute,1970-01-02,,a30,Aspirin").complete
    assert read(empty, "Patient/p30")["name"] == here["name"]


def test_other_rows_of_the_patient_are_taken(rows, empty):
    report = rows(
        "p30,,Meier,Ute,1970-01-02,,a1,Penicillin",
        "p30,,Brandt,Karl,1941-11-30,,a2,Aspirin",
        "p30,,Meier,Ute,1970-01-02,,a3,Latex",
        "p30,,,,,,a4,Nickel",
    )
    assert report.rejected_lines == 2
    assert allergies_of(empty, "p30") == ["a1", "a3", "a4"]


def test_a_document_of_a_rejected_row_is_rejected_too(take, empty, tmp_path):
    take(UTE)
    table = (
        b"patient_id,patient_family,patient_given,id,type,text\np30,Brandt,Karl,d,11506-3,Hello\n"
    )
    report = load(empty, write(tmp_path, table, "x.csv"))
    assert report.rejected_types == {"Patient": 1, "DocumentReference": 1}
    assert current(empty, "DocumentReference") == []


def test_the_patient_of_another_source_is_not_changed(take, rows, empty):
    """Whether the row adds something or not: the id may mean another person there."""
    take(UTE, source="ehr")
    for cells in ("Meier,Ute,1970-01-02,female", "Meier,Ute,,", "Brandt,Ute,,"):
        report = rows(f"p30,,{cells},a31,Aspirin", source="lab")
        assert report.rejected_lines == 2
    assert versions(empty, "Patient") == [("Patient", "p30", 1, False)]
    assert allergies_of(empty, "p30") == []


def test_a_changed_family_name_alone_is_taken(take, rows, empty):
    take(UTE, allergy("a30", of="Patient/p30"))
    assert rows("p30,,Brandt,Ute,1970-01-02,,a31,Aspirin").complete
    found = read(empty, "Patient/p30")
    assert found == {**UTE, "name": [{"family": "Brandt", "given": ["Ute"]}]}
    assert allergies_of(empty, "p30") == ["a30", "a31"]


def test_names_that_change_within_a_table_come_again_as_nothing(rows, empty):
    table = [f"p30,,{name},Ute,1970-01-02,,{name},Aspirin" for name in ("Meier", "Brandt")]
    assert rows(*table).complete
    settled = stored(empty)
    for _ in range(2):
        assert rows(*table).complete
        assert stored(empty) == settled
    assert read(empty, "Patient/p30")["name"][0]["family"] == "Brandt"


def test_a_row_that_is_rejected_leaves_no_details_for_the_next(rows, empty):
    heading = b"patient_id,id,substance,note\n"
    cells = ["p1,a,Latex,", "p2,a,Latex,Of the other", "p1,a,Latex,"]
    report = rows(*cells, heading=heading)
    assert report.rejected_lines == 1
    assert "note" not in read(empty, "AllergyIntolerance/a")


# Rows with fewer details.


@pytest.mark.parametrize(
    "row",
    [
        "p30,,Meier,Ute,1970-01-02,",
        "p30,,Meier,Ute,,",
        "p30,,Meier,,,",
        "p30,,,Ute,,",
        "p30,,,U.,1970,unknown",
        "p30,urn:mrn|30,Meier,Ute,1970-01,female",
    ],
)
def test_a_row_with_fewer_details_changes_nothing(take, rows, empty, row):
    take(UTE)
    assert rows(f"{row},a30,Penicillin").complete
    assert read(empty, "Patient/p30") == UTE
    assert versions(empty, "Patient") == [("Patient", "p30", 1, False)]


def test_a_table_without_columns_changes_nothing(take, rows, empty):
    take(UTE)
    heading = b"patient_id,patient_family,id,substance\n"
    assert rows("p30,Meier,a30,Penicillin", heading=heading).complete
    assert read(empty, "Patient/p30") == UTE


def test_rows_of_one_patient_add_up_in_any_order(rows, empty):
    table = [
        "q1,,Meier,Ute,1970-01-02,female,b1,Penicillin",
        "q1,,Meier,Ute,,,b2,Aspirin",
        "q1,urn:mrn|9,Meier,Ute Maria,1970,,b3,Latex",
    ]
    for order in (1, -1):
        assert rows(*table[::order]).complete
        found = read(empty, "Patient/q1")
        assert found["name"] == [{"family": "Meier", "given": ["Ute Maria"]}]
        assert (found["birthDate"], found["gender"]) == ("1970-01-02", "female")
        assert found["identifier"] == [{"system": "urn:mrn", "value": "9"}]


def test_a_row_adds_what_was_not_known(take, rows, empty):
    absent = {
        "extension": [
            {
                "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason",
                "valueCode": "unknown",
            }
        ]
    }
    take(patient("p30", name=[absent], _gender=absent, maritalStatus={"text": "Married"}))
    assert rows("p30,urn:mrn|30,Meier,Ute,1970-01-02,female,a30,Penicillin").complete
    found = read(empty, "Patient/p30")
    assert found["name"] == NAME
    assert found["identifier"] == [{"system": "urn:mrn", "value": "30"}]
    assert (found["birthDate"], found["gender"]) == ("1970-01-02", "female")
    assert "_gender" not in found
    assert found["maritalStatus"] == {"text": "Married"}


@pytest.mark.parametrize(
    ("here", "row", "names"),
    [
        # Known by a former name too: the one in use changes.
        (
            [{"use": "maiden", "family": "Muster"}, {"use": "official", **NAME[0]}],
            "Huber,Ute",
            [
                {"use": "maiden", "family": "Muster"},
                {"use": "official", "family": "Huber", "given": ["Ute"]},
            ],
        ),
        (
            [{"use": "maiden", "family": "Muster"}, {"use": "official", **NAME[0]}],
            "Muster,",
            [{"use": "maiden", "family": "Muster"}, {"use": "official", **NAME[0]}],
        ),
        (
            [{"family": "Muster", "period": {"end": "2001"}}, *NAME],
            "Huber,Ute",
            [
                {"family": "Muster", "period": {"end": "2001"}},
                {"family": "Huber", "given": ["Ute"]},
            ],
        ),
        # What was written as one text would contradict the new parts.
        (
            [{"text": "Dr. Ute Meier", "prefix": ["Dr."], **NAME[0]}],
            "Huber,Ute",
            [{"prefix": ["Dr."], "family": "Huber", "given": ["Ute"]}],
        ),
        ([{"family": "Meier", "given": ["Ute", "Maria"]}], "Huber,Ute", None),
        ([{"family": "Müller", "given": ["Ute"]}], "Müller,Ute", None),
        ([{"family": "Muller", "given": ["Ute"]}], "Müller,Ute", None),
        (
            [{"family": "Мейер", "given": ["Уте"]}],
            "Meier,Ute",
            [{"family": "Мейер", "given": ["Уте"]}, *NAME],
        ),
    ],
)
def test_the_name_in_use_changes_and_the_others_stay(take, rows, empty, here, row, names):
    take(patient("p30", name=here))
    assert rows(f"p30,,{row},,,a30,Penicillin").complete
    if names is None:
        names = [{**here[0], "family": row.partition(",")[0]}]
    assert read(empty, "Patient/p30")["name"] == names


RICH = allergy(
    "a30",
    of="Patient/p30",
    code={
        "coding": [
            {"system": "http://snomed.info/sct", "code": "764146007", "display": "Penicillin"},
            {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "7980"},
        ],
        "text": "Penicillin G",
    },
    clinicalStatus={
        "coding": [
            {
                "system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical",
                "code": "resolved",
            }
        ]
    },
    type="allergy",
    criticality="high",
    onsetPeriod={"start": "2009"},
    recordedDate="2024-03-01T10:00:00+00:00",
    recorder={"reference": "Practitioner/dr"},
    note=[{"text": "Carries a kit", "time": "2024-03-01"}],
    reaction=[
        {
            "manifestation": [{"text": "Anaphylaxis"}],
            "severity": "severe",
            "description": "Within minutes",
        },
        {"manifestation": [{"text": "Hives"}], "severity": "mild"},
    ],
)
COLUMNS = b"patient_id,id,substance,clinical_status,verification_status,reaction,severity,note"
COLUMNS += b",recorded_date,onset\n"


def test_an_allergy_keeps_what_its_row_does_not_state(take, rows, empty):
    take(UTE, RICH)
    before = read(empty, "AllergyIntolerance/a30")
    assert rows("p30,a30,Penicillin,,,,,,2024-03-01,", heading=COLUMNS).complete
    assert rows("p30,a30,unknown,,,Hives,,Carries a kit,,", heading=COLUMNS).complete
    assert read(empty, "AllergyIntolerance/a30") == before
    assert rows("p30,a30,Penicillin", heading=b"patient_id,id,substance\n").complete
    assert versions(empty, "AllergyIntolerance") == [("AllergyIntolerance", "a30", 1, False)]


def test_an_allergy_changes_in_what_its_row_states(take, rows, empty):
    take(UTE, RICH)
    row = "p30,a30,Penicillin,active,confirmed,Wheezing,moderate,New note,2024-05,2010"
    assert rows(row, heading=COLUMNS).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert found["clinicalStatus"]["coding"][0]["code"] == "active"
    assert found["verificationStatus"]["coding"][0]["code"] == "confirmed"
    assert found["recordedDate"] == "2024-05"
    assert found["onsetDateTime"] == "2010"
    assert "onsetPeriod" not in found
    assert [one["text"] for one in found["note"]] == ["Carries a kit", "New note"]
    assert found["reaction"][:2] == RICH["reaction"]
    assert found["reaction"][2]["severity"] == "moderate"
    assert found["criticality"] == "high"
    settled = stored(empty)
    assert rows(row, heading=COLUMNS).complete
    assert stored(empty) == settled


@pytest.mark.parametrize(
    ("then", "reactions"),
    [
        ("Hives,", [("Hives", "severe")]),
        ("HIVES,severe", [("Hives", "severe")]),
        (",", [("Hives", "severe")]),
        # A correction.
        ("hives,mild", [("Hives", "mild")]),
        (",mild", [("Hives", "mild")]),
        ("unknown,mild", [("Hives", "mild")]),
        ("unknown,", [("Hives", "severe")]),
        ("Hives; Rash,mild", [("Hives", "mild"), ("Rash", "mild")]),
        # Others are added.
        ("Rash,", [("Hives", "severe"), ("Rash", None)]),
        ("Rash,moderate", [("Hives", "severe"), ("Rash", "moderate")]),
        ("Hives; Rash,", [("Hives", "severe"), ("Rash", None)]),
    ],
)
@pytest.mark.parametrize("first", ["table", "FHIR"])
def test_a_row_corrects_the_severity_of_its_reaction_and_keeps_others(
    take, rows, empty, first, then, reactions
):
    heading = b"patient_id,id,substance,reaction,severity\n"
    if first == "table":
        rows("p30,a30,Penicillin,Hives,severe", heading=heading)
    else:
        hives = [{"manifestation": [{"text": "Hives"}], "severity": "severe"}]
        take(UTE, allergy("a30", of="Patient/p30", code={"text": "Penicillin"}, reaction=hives))
    for _ in range(2):
        assert rows(f"p30,a30,Penicillin,{then}", heading=heading).complete
        found = read(empty, "AllergyIntolerance/a30")["reaction"]
        known = [(one["manifestation"][0]["text"], one.get("severity")) for one in found]
        assert known == reactions


@pytest.mark.parametrize(
    ("here", "then", "severities"),
    [
        # The severity of the other manifestation is not stated.
        ([("Hives", "Wheezing", "severe")], "Hives,mild", ["severe", "mild"]),
        ([("Hives", "Wheezing", "severe")], "Hives,", ["severe"]),
        ([("Hives", "Wheezing", "severe")], "Wheezing; Hives,mild", ["mild"]),
        # Which of two it is about is not stated.
        (
            [("Hives", "severe"), ("Hives", "mild")],
            "Hives,moderate",
            ["severe", "mild", "moderate"],
        ),
        ([("Hives", "severe"), ("Hives", "mild")], "Hives,mild", ["severe", "mild"]),
        ([("Hives", "severe"), ("Rash", "mild")], ",moderate", ["severe", "mild", "moderate"]),
        ([("Hives", "severe"), ("Rash", "mild")], "Rash,moderate", ["severe", "moderate"]),
        ([("Hives", "severe"), ("Rash", "mild")], "unknown,mild", ["severe", "mild"]),
    ],
)
def test_a_severity_changes_only_where_it_is_clear_which(take, rows, empty, here, then, severities):
    reactions = [
        {"manifestation": [{"text": name} for name in names], "severity": severity}
        for *names, severity in here
    ]
    take(UTE, allergy("a30", of="Patient/p30", code={"text": "Latex"}, reaction=reactions))
    heading = b"patient_id,id,substance,reaction,severity\n"
    for _ in range(2):
        assert rows(f"p30,a30,Latex,{then}", heading=heading).complete
        found = read(empty, "AllergyIntolerance/a30")["reaction"]
        assert [one["severity"] for one in found] == severities


@pytest.mark.parametrize("first", ["table", "FHIR"])
def test_a_note_of_a_row_is_added(take, rows, empty, first):
    heading = b"patient_id,id,substance,note\n"
    if first == "table":
        rows("p30,a30,Latex,ICU", heading=heading)
    else:
        take(UTE, allergy("a30", of="Patient/p30", code={"text": "Latex"}, note=[{"text": "ICU"}]))
    for _ in range(2):
        for text in ("seen", "", "ICU"):
            assert rows(f"p30,a30,Latex,{text}", heading=heading).complete
    notes = read(empty, "AllergyIntolerance/a30")["note"]
    assert [one["text"] for one in notes] == ["ICU", "seen"]


CRITICAL = {"criticality": "high", "reaction": RICH["reaction"]}
BY_CODE = b"patient_id,id,substance,substance_code,substance_system\n"


@pytest.mark.parametrize(
    ("here", "row"),
    [
        ({"text": "Pénicilline"}, "Penicillin"),
        ({"text": "Latex"}, "NKDA"),
        ({"text": "Latex"}, "No known allergies"),
        ({"text": "Latex"}, "Aspirin"),
        ({"coding": [{"system": "http://snomed.info/sct", "code": "1003755004"}]}, "Penicillin"),
        # Codes that say of what kind it is are no substance.
        (
            {
                "coding": [{"system": "http://snomed.info/sct", "code": "416098002"}],
                "text": "Codeine",
            },
            "Aspirin,416098002,SNOMED CT",
        ),
    ],
)
def test_a_row_about_another_substance_is_rejected(take, rows, empty, here, row):
    take(UTE, allergy("a30", of="Patient/p30", code=here, **CRITICAL))
    before = read(empty, "AllergyIntolerance/a30")
    report = rows(f"p30,a30,{row}", heading=BY_CODE)
    assert report.rejected_lines == 1
    message = report.faults[0].message
    assert "but this id has another allergy here" in message
    assert "give this one another id, or first set the other one to entered-in-error" in message
    assert read(empty, "AllergyIntolerance/a30") == before
    assert rows(f"p30,a31,{row}", heading=BY_CODE).complete
    assert allergies_of(empty, "p30") == ["a30", "a31"]


def test_a_row_of_the_same_table_about_another_substance_is_rejected(rows, empty):
    heading = b"patient_id,id,substance\n"
    report = rows("p30,a30,Penicillin", "p30,a30,Latex", "p30,a30,NKDA", heading=heading)
    assert report.rejected_lines == 2
    assert read(empty, "AllergyIntolerance/a30")["code"]["text"] == "Penicillin"


@pytest.mark.parametrize(
    ("here", "row", "names"),
    [
        ({"text": "PENICILLIN"}, "Penicillin", {"PENICILLIN", "Penicillin"}),
        ({"text": "Bétadine"}, "Betadine", {"Bétadine"}),
        ({"text": "Substance unknown"}, "Latex", {"Latex"}),
        ({"text": "Allergy to substance"}, "Latex", {"Latex"}),
        # The name of the row is kept beside the others.
        (
            {"coding": [{"system": "urn:x", "code": "7"}], "text": "Co-amoxiclav"},
            "Augmentin,7,urn:x",
            {"Co-amoxiclav", "Augmentin"},
        ),
    ],
)
def test_a_row_about_the_same_substance_keeps_its_details(take, rows, empty, here, row, names):
    take(UTE, allergy("a30", of="Patient/p30", code=here, **CRITICAL))
    for _ in range(2):
        assert rows(f"p30,a30,{row}", heading=BY_CODE).complete
        settled = versions(empty, "AllergyIntolerance")
        found = read(empty, "AllergyIntolerance/a30")
        assert (found["criticality"], found["reaction"]) == ("high", RICH["reaction"])
        code = found["code"]
        found_names = {code["text"], *(one.get("display") for one in code.get("coding", ()))}
        assert names <= found_names
    assert len(settled) <= 2


@pytest.mark.parametrize("first", ["NKDA,", "unknown,", "Penicillin,entered-in-error"])
def test_a_record_that_is_no_valid_allergy_becomes_one(rows, empty, first):
    heading = b"patient_id,id,substance,verification_status\n"
    for cells in (first, "Latex,"):
        assert rows(f"p30,a30,{cells}", heading=heading).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert found["code"]["text"] == "Latex"
    assert not {"criticality", "verificationStatus"} & {*found}


def test_an_unknown_substance_keeps_its_reactions_when_it_is_named(rows, empty):
    heading = b"patient_id,id,substance,reaction,severity\n"
    for cells in ("unknown,Anaphylaxis,severe", "Latex,,"):
        assert rows(f"p30,a30,{cells}", heading=heading).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert (found["code"]["text"], found["reaction"][0]["severity"]) == ("Latex", "severe")
    assert rows("p30,a31,unknown,Anaphylaxis,severe", heading=heading).complete
    assert rows("p30,a31,NKDA,,", heading=heading).rejected_lines == 1


@pytest.mark.parametrize("where", ["before", "in the same import"])
def test_a_row_with_the_id_of_another_patients_record_is_rejected(
    take, rows, empty, tmp_path, where
):
    cells = COLUMNS + b"p31,a30,Penicillin,,,,,,,\n"
    if where == "before":
        take(UTE, patient("p31"), RICH)
        report = rows("p31,a30,Penicillin,,,,,,,", heading=COLUMNS)
    else:
        fhir = write(tmp_path, lines(UTE, patient("p31"), RICH), "1.ndjson")
        report = load(empty, fhir, write(tmp_path, cells, "x.csv"))
    assert report.rejected_lines == 1
    (fault,) = report.faults
    assert fault.path == "AllergyIntolerance.id"
    assert "is the id of another patient's record" in fault.message
    assert "another id" in fault.message or "an id of its own" in fault.message
    assert (allergies_of(empty, "p30"), allergies_of(empty, "p31")) == (["a30"], [])


def test_a_row_with_the_id_of_another_patients_document_is_rejected(take, rows, empty):
    take(UTE, patient("p31"), note())
    heading = b"patient_id,id,type,text\n"
    assert rows("p31,d,11506-3,Hello", heading=heading).rejected_lines == 1
    assert read(empty, "DocumentReference/d")["subject"]["reference"] == "Patient/p30"


WAITS = {"reference": "Practitioner?identifier=http://x|1"}


@pytest.mark.parametrize("waits", [True, False])
def test_a_row_keeps_the_details_that_come_in_the_same_import(empty, tmp_path, waits):
    coming = {**RICH, "recorder": WAITS} if waits else RICH
    confirmed = {"coding": [{"code": "confirmed", "system": VERIFICATION}]}
    coming = {**coming, "verificationStatus": confirmed}
    fhir = write(tmp_path, lines(UTE, coming), "1.ndjson")
    row = COLUMNS + b"p30,a30,Penicillin,,,,,seen,,\n"
    assert load(empty, fhir, write(tmp_path, row, "x.csv")).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert (found["criticality"], found["reaction"]) == ("high", RICH["reaction"])
    assert found["verificationStatus"] == confirmed
    assert [one["text"] for one in found["note"]] == ["Carries a kit", "seen"]


@pytest.mark.parametrize("waits", [True, False])
def test_a_row_keeps_the_details_of_a_document_in_the_same_import(empty, tmp_path, waits):
    coming = note(authenticator=WAITS) if waits else note()
    fhir = write(tmp_path, lines(UTE, coming), "1.ndjson")
    row = b"patient_id,id,type,text\np30,d,11506-3,Hello\n"
    assert load(empty, fhir, write(tmp_path, row, "x.csv")).complete
    found = read(empty, "DocumentReference/d")
    assert (found["status"], found["author"][0]["display"]) == ("superseded", "Dr. Keller")


def test_a_row_after_a_deletion_in_the_same_import_is_a_new_record(empty, tmp_path):
    coming = lines(UTE, {**RICH, "recorder": WAITS})
    deletion = bundle("transaction", asked("DELETE", "AllergyIntolerance/a30"))
    row = b"patient_id,id,substance\np30,a30,Latex\n"
    write(tmp_path, coming, "1/a.ndjson")
    write(tmp_path, deletion, "2/a.json")
    write(tmp_path, row, "3/a.csv")
    assert load(empty, *(tmp_path / name for name in "123")).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert (found["code"]["text"], "reaction" in found) == ("Latex", False)


@pytest.mark.parametrize(
    ("first", "then", "statuses"),
    [
        ("resolved,", ",", ("resolved", None)),
        ("resolved,", ",confirmed", ("resolved", "confirmed")),
        ("resolved,", "active,", ("active", None)),
        (",refuted", ",", ("inactive", "refuted")),
        (",refuted", ",confirmed", ("active", "confirmed")),
        ("active,", ",refuted", ("inactive", "refuted")),
        (",entered-in-error", ",", (None, "entered-in-error")),
        (",entered-in-error", "active,", ("active", None)),
        (",entered-in-error", ",confirmed", ("active", "confirmed")),
        ("active,confirmed", ",entered-in-error", (None, "entered-in-error")),
    ],
)
def test_statuses_stay_until_a_row_states_another(rows, empty, first, then, statuses):
    heading = b"patient_id,id,substance,clinical_status,verification_status\n"
    for cells in (first, then):
        assert rows(f"p30,a30,Penicillin,{cells}", heading=heading).complete
    found = read(empty, "AllergyIntolerance/a30")
    names = ("clinicalStatus", "verificationStatus")
    codes = [found[name]["coding"][0]["code"] if name in found else None for name in names]
    assert tuple(codes) == statuses


def note(**more: Any) -> dict[str, Any]:
    data = base64.b64encode(b"Hello").decode()
    attachment = {"contentType": "text/plain; charset=utf-8", "data": data, "title": "Visit"}
    return {
        "resourceType": "DocumentReference",
        "id": "d",
        "status": "superseded",
        "subject": {"reference": "Patient/p30"},
        "type": {"coding": [{"system": "http://loinc.org", "code": "11506-3"}]},
        "author": [{"display": "Dr. Keller"}],
        "content": [{"attachment": attachment}],
        "context": {"period": {"start": "2024-03-01"}, "facilityType": {"text": "Ward"}},
        **more,
    }


def test_a_document_keeps_what_its_row_does_not_state(take, empty, tmp_path):
    take(UTE, note())
    before = read(empty, "DocumentReference/d")
    table = b"patient_id,id,type,text,period_end\np30,d,11506-3,%s,%s\n"
    assert load(empty, write(tmp_path, table % (b"Hello", b""), "x.csv")).complete
    found = read(empty, "DocumentReference/d")
    assert (found["status"], found["author"]) == ("superseded", before["author"])
    assert (found["content"], found["context"]) == (before["content"], before["context"])
    assert load(empty, write(tmp_path, table % (b"Bye", b"2024-03-02"), "x.csv")).complete
    found = read(empty, "DocumentReference/d")
    attachment = found["content"][0]["attachment"]
    assert base64.b64decode(attachment["data"]) == b"Bye"
    assert attachment["title"] == "Visit"
    assert found["context"]["period"] == {"start": "2024-03-01", "end": "2024-03-02"}
    assert found["context"]["facilityType"] == {"text": "Ward"}


def test_a_document_keeps_the_other_attachments(take, empty, tmp_path):
    more = {"attachment": {"contentType": "text/plain", "data": base64.b64encode(b"2").decode()}}
    take(UTE, note(content=[*note()["content"], more]))
    table = b"patient_id,id,type,text\np30,d,11506-3,Third\n"
    for _ in range(2):
        assert load(empty, write(tmp_path, table, "x.csv")).complete
        found = read(empty, "DocumentReference/d")["content"]
        data = [base64.b64decode(one["attachment"]["data"]) for one in found]
        assert data == [b"Hello", b"2", b"Third"]


def test_a_narrative_that_would_contradict_a_change_is_dropped():
    text = {"status": "generated", "div": "<div>Ute Meier</div>"}
    here, stated = {**UTE, "text": text}, patient("p30", name=[{"family": "Huber"}])
    assert "text" not in updated(here, stated, ())
    assert updated(here, patient("p30", name=NAME), ())["text"] == text
    more = {**here, "text": {**text, "status": "additional"}}
    assert updated(more, stated, ())["text"] == more["text"]


def test_tables_and_other_files_in_one_import(empty, tmp_path):
    fhir = write(tmp_path, lines(UTE), "1.ndjson")
    waits = {**UTE, "managingOrganization": {"reference": "Organization?identifier=urn:x|1"}}
    waiting = write(tmp_path, lines(waits), "2.ndjson")
    rows = ["p30,,Meier,Ute,,,a30,Penicillin", "p30,,Brandt,Karl,1941-11-30,,a31,Aspirin"]
    table = write(tmp_path, HEADING + "\n".join(rows).encode() + b"\n", "x.csv")
    for files in ([fhir, table], [waiting, table]):
        report = load(empty, *files)
        assert report.rejected_lines == 2
        assert read(empty, "Patient/p30")["birthDate"] == "1970-01-02"
        assert allergies_of(empty, "p30") == ["a30"]
        (path,) = report.rejected_file.split()
        assert Path(path).read_text().splitlines()[1:] == rows[1:]


def test_a_rejected_row_is_kept_as_it_came_with_a_prefix_too(rows):
    cells = ["p1,,Meier,Ute,1970-01-02,,a,Latex", "p1,,Brandt,Karl,1941,,b,Latex"]
    report = rows(*cells, prefix="n-")
    (path,) = report.rejected_file.split()
    assert Path(path).read_text().splitlines()[1:] == cells[1:]


@pytest.mark.parametrize("fhir", [True, False], ids=["from FHIR too", "from tables alone"])
def test_a_correction_by_an_administrator_stays(take, rows, empty, fhir):
    if fhir:
        take(UTE)
    row = "p30,,Huber,Ute,1970-01-02,,a30,Penicillin"
    rows(row)
    corrected = {**asking(empty).read("Patient/p30"), "name": [{"family": "Hubert"}]}
    corrected.pop("text", None)
    with empty.app_context():
        assert correct_patient(settings_of(empty), corrected, ["family"], "A typing error", "admin")
    for _ in range(2):
        report = rows(row)
        assert report.complete
        assert "was corrected here" in "".join(report.remarks)
        assert asking(empty).read("Patient/p30")["name"] == [{"family": "Hubert"}]


def test_rows_of_patients_who_were_merged_are_about_one_patient(rows, empty):
    heading = b"patient_id,id,substance,note\n"
    rows("p1,,Meier,Ute,,,a,Latex", "p2,,Meier,Ute,1970,,b,Nickel")
    with empty.app_context():
        settings = settings_of(empty)
        merge_patients(settings, "p1", "p2", "One person", "admin", move_accounts=False)
    assert rows("p2,a,Latex,seen", "p1,b,Nickel,seen", heading=heading).complete
    assert allergies_of(empty, "p2") == ["a", "b"]


def test_rows_of_patients_who_were_merged_come_again_as_nothing(rows, empty):
    cells = ["p1,,Meier,Ute,,,a,Latex", "p2,,Meier,Ute,1970,,b,Nickel"]
    rows(*cells)
    with empty.app_context():
        settings = settings_of(empty)
        merge_patients(settings, "p1", "p2", "One person", "admin", move_accounts=False)
    settled = stored(empty)
    assert rows(*cells).complete
    assert stored(empty) == settled
    assert allergies_of(empty, "p2") == ["a", "b"]
