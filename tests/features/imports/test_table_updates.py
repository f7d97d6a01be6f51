"""Rows of CSV tables about known records: nobody is renamed, and no known detail is deleted."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.config import settings_of
from fhirapp.features.imports.report import Report
from fhirapp.features.imports.tables.update import merge_row
from fhirapp.features.patients.deletion import correct_patient
from fhirapp.features.patients.merge import merge_patients
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
)  # fmt: skip  # isort: skip

NAME = [{"family": "Meier", "given": ["Ute"]}]
DETAILS = {
    "name": NAME,
    "telecom": [{"system": "phone", "value": "+49 30 1234"}],
    "birthDate": "1970-01-02",
    "gender": "female",
    "address": [{"city": "Bonn"}],
}
UTE = patient("p30", "30", **DETAILS)
TERMINOLOGY = "http://terminology.hl7.org/CodeSystem/allergyintolerance-"
SNOMED = "http://snomed.info/sct"
PEOPLE = (
    "patient_id,patient_identifier,patient_family,patient_given,patient_birth_date,"
    "patient_gender,id,substance"
)
SUBSTANCES = "patient_id,id,substance"
REACTIONS = f"{SUBSTANCES},reaction,severity"
DOCUMENTS = "patient_id,id,type,text"


@pytest.fixture
def rows(empty: Flask, tmp_path: Path) -> Callable[..., Report]:
    """Return what imports rows of a table below a header."""

    def take(*cells: str, header: str = PEOPLE, **options: Any) -> Report:
        table = "".join(f"{row}\n" for row in (header, *cells)).encode()
        return load(empty, write(tmp_path, table, "x.csv"), **options)

    return take


def read(app: Flask, name: str) -> dict[str, Any]:
    """Return a resource as its source stated it."""
    resource = asking(app).read(name)
    return {name: value for name, value in resource.items() if name not in ("meta", "text")}


def allergies_of(app: Flask, patient_id: str) -> list[str]:
    return sorted(asking(app).ids(f"AllergyIntolerance?patient={patient_id}"))


def rejected_rows(report: Report) -> list[str]:
    """Return the rows in the file of rejected lines."""
    (path,) = report.rejected_file.split()
    return Path(path).read_text().splitlines()[1:]


# Rows about another person.

OTHER_PEOPLE = [
    "Brandt,Karl,1941-11-30,",
    "Meier,Ute,1970-02-01,",
    "Meier,Ute,1971,",
    "Meier,Karl,,",
    "Meier,Ute,1970-01-02,male",
    "Brandt,Karl,,m",
    "Meier,,1941-11-30,",
]


def test_row_about_another_person_is_rejected_with_its_allergy(take, rows, empty):
    known = range(len(OTHER_PEOPLE))
    take(
        *(patient(f"p{number}", **DETAILS) for number in known),
        *(allergy(f"a{number}", of=f"Patient/p{number}") for number in known),
    )
    table = [f"p{number},,{cells},b{number},Aspirin" for number, cells in enumerate(OTHER_PEOPLE)]
    report = rows(*table)
    assert rejected_rows(report) == table
    for number, cells in enumerate(OTHER_PEOPLE):
        fault, follower = report.faults[2 * number : 2 * number + 2]
        assert fault.message.startswith(f"has the id of Patient/p{number}, who "), cells
        assert "give another person another id or number" in fault.message, cells
        assert follower.message == "rejected too, because their patient is not clear: 1"
        assert read(empty, f"Patient/p{number}") == patient(f"p{number}", **DETAILS)
        assert allergies_of(empty, f"p{number}") == [f"a{number}"], cells


@pytest.mark.parametrize("first", ["table", "same table", "deleted and returned"])
def test_row_about_another_person_than_a_row_is_rejected(take, rows, empty, first):
    meier, other = "p30,,Meier,Ute,1970-01-02,female,a30,Penicillin", "p30,,Meier,Karl,,,a31,Latex"
    if first == "table":
        rows(meier)
    elif first == "deleted and returned":
        rows(meier, source="s")
        take(patient("x"), source="s", delete_missing=True, force=True)
        assert current(empty, "Patient") == ["x"]
    report = rows(other) if first == "table" else rows(meier, other)
    assert (report.rejected_lines, rejected_rows(report)) == (2, [other])
    assert read(empty, "Patient/p30")["name"] == NAME
    assert allergies_of(empty, "p30") == ["a30"]


def test_row_about_the_patient_of_a_document_is_checked(empty, tmp_path, rows):
    assert load(empty, write(tmp_path, document("adam", (RECORD, "1")), "x.xml")).complete
    (adam,) = current(empty, "Patient")
    (known,) = allergies_of(empty, adam)
    report = rows(
        f"{adam},,Doe,Eve,2015-03-01,,b1,Latex", f",urn:oid:{RECORD}|1,Doe,Eve,2015-03-01,,b2,Latex"
    )
    assert report.rejected_lines == 4
    assert f"has the number urn:oid:{RECORD}|1 of Patient/{adam}" in report.faults[2].message
    assert allergies_of(empty, adam) == [known]
    assert rows(f"{adam},,Doe,Adam,2015-03-01,,b1,Latex").complete
    assert allergies_of(empty, adam) == sorted([known, "b1"])


@pytest.mark.parametrize("name", ["Ute Meier", "Meier, Ute"])
def test_patient_whose_name_is_one_text_is_not_renamed(take, rows, empty, name):
    take(patient("p30", name=[{"text": name}], birthDate="1970"))
    assert rows("p30,,Brandt,Karl,,,a31,Aspirin").rejected_lines == 2
    assert rows("p30,,Meier,Ute,1970-01-02,,a30,Aspirin").complete
    assert read(empty, "Patient/p30")["name"] == [{"text": name}]


def test_other_rows_beside_a_rejected_row_are_taken(rows, empty):
    report = rows(
        "p30,,Meier,Ute,1970-01-02,,a1,Penicillin",
        "p30,,Brandt,Karl,1941-11-30,,a2,Aspirin",
        "p30,,Meier,Ute,1970-01-02,,a3,Latex",
        "p30,,,,,,a4,Nickel",
    )
    assert report.rejected_lines == 2
    assert allergies_of(empty, "p30") == ["a1", "a3", "a4"]


def test_document_of_a_row_about_another_person_is_rejected(take, rows, empty):
    take(UTE)
    header = "patient_id,patient_family,patient_given,id,type,text"
    report = rows("p30,Brandt,Karl,d,11506-3,Hello", header=header)
    assert report.rejected_types == {"Patient": 1, "DocumentReference": 1}
    assert current(empty, "DocumentReference") == []


def test_patient_of_another_source_is_not_changed(take, rows, empty):
    """Whether the row adds something or not: the id may mean another person there."""
    take(UTE, source="ehr")
    for cells in ("Meier,Ute,1970-01-02,female", "Meier,Ute,,", "Brandt,Ute,,"):
        assert rows(f"p30,,{cells},a31,Aspirin", source="lab").rejected_lines == 2
    assert versions(empty, "Patient") == [("Patient", "p30", 1, False)]
    assert allergies_of(empty, "p30") == []


def test_changed_family_name_alone_is_taken(take, rows, empty):
    take(UTE, allergy("a30", of="Patient/p30"))
    assert rows("p30,,Brandt,Ute,1970-01-02,,a31,Aspirin").complete
    assert read(empty, "Patient/p30") == {**UTE, "name": [{"family": "Brandt", "given": ["Ute"]}]}
    assert allergies_of(empty, "p30") == ["a30", "a31"]


def test_names_that_change_within_a_table_are_unchanged_by_its_repetition(rows, empty):
    table = [f"p30,,{name},Ute,1970-01-02,,{name},Aspirin" for name in ("Meier", "Brandt")]
    assert rows(*table).complete
    settled = stored(empty)
    for _ in range(2):
        assert rows(*table).complete
        assert stored(empty) == settled
    assert read(empty, "Patient/p30")["name"][0]["family"] == "Brandt"


def test_rejected_row_leaves_no_details_for_the_next(rows, empty):
    cells = ["p1,a,Latex,", "p2,a,Latex,Of the other", "p1,a,Latex,"]
    assert rows(*cells, header=f"{SUBSTANCES},note").rejected_lines == 1
    assert "note" not in read(empty, "AllergyIntolerance/a")


# Rows with fewer details.


def test_row_with_fewer_details_changes_nothing(take, rows, empty):
    take(UTE)
    for cells in (
        "p30,,Meier,Ute,1970-01-02,",
        "p30,,Meier,Ute,,",
        "p30,,Meier,,,",
        "p30,,,Ute,,",
        "p30,,,U.,1970,unknown",
        "p30,urn:mrn|30,Meier,Ute,1970-01,female",
    ):
        assert rows(f"{cells},a30,Penicillin").complete, cells
    header = "patient_id,patient_family,id,substance"
    assert rows("p30,Meier,a30,Penicillin", header=header).complete
    assert read(empty, "Patient/p30") == UTE
    assert versions(empty, "Patient") == [("Patient", "p30", 1, False)]


def test_details_of_one_patient_add_up_in_any_order_of_rows(rows, empty):
    for order, patient_id in ((1, "q1"), (-1, "q2")):
        table = [
            f"{patient_id},,Meier,Ute,1970-01-02,female,{order}b1,Penicillin",
            f"{patient_id},,Meier,Ute,,,{order}b2,Aspirin",
            f"{patient_id},urn:mrn|{patient_id},Meier,Ute Maria,1970,,{order}b3,Latex",
        ]
        assert rows(*table[::order]).complete
        assert rows(*table).complete
        assert read(empty, f"Patient/{patient_id}") == {
            "resourceType": "Patient",
            "id": patient_id,
            "name": [{"family": "Meier", "given": ["Ute Maria"]}],
            "birthDate": "1970-01-02",
            "gender": "female",
            "identifier": [{"system": "urn:mrn", "value": patient_id}],
        }


def test_row_adds_what_was_unknown(take, rows, empty):
    reason = "http://hl7.org/fhir/StructureDefinition/data-absent-reason"
    absent = {"extension": [{"url": reason, "valueCode": "unknown"}]}
    take(patient("p30", name=[absent], _gender=absent, maritalStatus={"text": "Married"}))
    assert rows("p30,urn:mrn|30,Meier,Ute,1970-01-02,female,a30,Penicillin").complete
    expected = patient("p30", "30", **DETAILS, maritalStatus={"text": "Married"})
    assert read(empty, "Patient/p30") == {
        name: value for name, value in expected.items() if name not in ("telecom", "address")
    }


def named(family, *given, **more):
    return {"family": family, "given": [*given], **more}


MAIDEN = {"use": "maiden", "family": "Muster"}
OFFICIAL = named("Meier", "Ute", use="official")
FORMER = {"family": "Muster", "period": {"end": "2001"}}
SINCE_2010 = {"period": {"start": "2010"}}
EARLIER = named("Frei", "Ute", use="official", period={"start": "1999"})
CYRILLIC = named("Мейер", "Уте")
NAMES = [
    # The name in use changes, and a former one stays.
    ([MAIDEN, OFFICIAL], "Huber,Ute", [MAIDEN, named("Huber", "Ute", use="official")]),
    ([MAIDEN, OFFICIAL], "Muster,", [MAIDEN, OFFICIAL]),
    ([FORMER, *NAME], "Huber,Ute", [FORMER, named("Huber", "Ute")]),
    # Of two official names the later one is the current one.
    ([EARLIER, OFFICIAL | SINCE_2010], "Huber,Ute",
     [EARLIER, named("Huber", "Ute", use="official") | SINCE_2010]),
    # The name in one text would contradict the new parts.
    ([named("Meier", "Ute", text="Dr. Ute Meier", prefix=["Dr."])], "Huber,Ute", [named("Huber",
     "Ute", prefix=["Dr."])]),
    ([named("Meier", "Ute", "Maria")], "Huber,Ute", [named("Huber", "Ute", "Maria")]),
    ([named("Müller", "Ute")], "Müller,Ute", [named("Müller", "Ute")]),
    ([named("Muller", "Ute")], "Müller,Ute", [named("Müller", "Ute")]),
    ([CYRILLIC], "Meier,Ute", [CYRILLIC, *NAME]),
]  # fmt: skip


def test_name_in_use_changes_and_other_names_stay(take, rows, empty):
    take(*(patient(f"p{number}", name=names) for number, (names, _, _) in enumerate(NAMES)))
    assert rows(
        *(f"p{number},,{row},,,a{number},Latex" for number, (_, row, _) in enumerate(NAMES))
    ).complete
    found = [read(empty, f"Patient/p{number}")["name"] for number in range(len(NAMES))]
    assert found == [names for _, _, names in NAMES]


# Details of an allergy.

RICH = allergy(
    "a30",
    of="Patient/p30",
    code={
        "coding": [
            {"system": SNOMED, "code": "764146007", "display": "Penicillin"},
            {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "7980"},
        ],
        "text": "Penicillin G",
    },
    clinicalStatus={"coding": [{"system": f"{TERMINOLOGY}clinical", "code": "resolved"}]},
    type="allergy",
    criticality="high",
    onsetPeriod={"start": "2009"},
    recordedDate="2024-03-01T10:00:00+00:00",
    recorder={"reference": "Practitioner/dr"},
    note=[{"text": "Carries a kit", "time": "2024-03-01"}],
    reaction=[
        {"manifestation": [{"text": "Anaphylaxis"}], "severity": "severe", "description": "Soon"},
        {"manifestation": [{"text": "Hives"}], "severity": "mild"},
    ],
)
COLUMNS = (
    f"{SUBSTANCES},clinical_status,verification_status,reaction,severity,note,recorded_date,onset"
)


def test_allergy_keeps_what_its_row_does_not_state(take, rows, empty):
    take(UTE, RICH)
    before = read(empty, "AllergyIntolerance/a30")
    assert rows("p30,a30,Penicillin,,,,,,2024-03-01,", header=COLUMNS).complete
    assert rows("p30,a30,unknown,,,Hives,,Carries a kit,,", header=COLUMNS).complete
    assert rows("p30,a30,Penicillin", header=SUBSTANCES).complete
    assert read(empty, "AllergyIntolerance/a30") == before
    assert versions(empty, "AllergyIntolerance") == [("AllergyIntolerance", "a30", 1, False)]


def test_allergy_changes_in_what_its_row_states(take, rows, empty):
    take(UTE, RICH)
    row = "p30,a30,Penicillin,active,confirmed,Wheezing,moderate,New note,2024-05,2010"
    assert rows(row, header=COLUMNS).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert found["clinicalStatus"]["coding"][0]["code"] == "active"
    assert found["verificationStatus"]["coding"][0]["code"] == "confirmed"
    assert (found["recordedDate"], found["onsetDateTime"]) == ("2024-05", "2010")
    assert "onsetPeriod" not in found
    assert [note["text"] for note in found["note"]] == ["Carries a kit", "New note"]
    assert found["reaction"][:2] == RICH["reaction"]
    assert found["reaction"][2]["severity"] == "moderate"
    assert found["criticality"] == "high"
    settled = stored(empty)
    assert rows(row, header=COLUMNS).complete
    assert stored(empty) == settled


# Known reactions, the cells of a row (reaction,severity), the reactions then.
SEVERITIES = [
    # The row's reaction is the known one.
    ("Hives severe", "Hives,", "Hives severe"),
    ("Hives severe", "HIVES,severe", "Hives severe"),
    ("Hives severe", ",", "Hives severe"),
    ("Hives severe", "unknown,", "Hives severe"),
    # A correction.
    ("Hives severe", "hives,mild", "Hives mild"),
    ("Hives severe", ",mild", "Hives mild"),
    ("Hives severe", "unknown,mild", "Hives mild"),
    ("Hives severe", "Hives; Rash,mild", "Hives mild; Rash mild"),
    # Other reactions are added.
    ("Hives severe", "Rash,", "Hives severe; Rash None"),
    ("Hives severe", "Rash,moderate", "Hives severe; Rash moderate"),
    ("Hives severe", "Hives; Rash,", "Hives severe; Rash None"),
    # The severity of the other manifestation is not stated.
    ("Hives+Wheezing severe", "Hives,mild", "Hives+Wheezing severe; Hives mild"),
    ("Hives+Wheezing severe", "Hives,", "Hives+Wheezing severe"),
    ("Hives+Wheezing severe", "Wheezing; Hives,mild", "Hives+Wheezing mild"),
    # Which of two reactions the row is about is not stated.
    ("Hives severe; Hives mild", "Hives,moderate", "Hives severe; Hives mild; Hives moderate"),
    ("Hives severe; Hives mild", "Hives,mild", "Hives severe; Hives mild"),
    ("Hives severe; Rash mild", ",moderate", "Hives severe; Rash mild; Unknown moderate"),
    ("Hives severe; Rash mild", "Rash,moderate", "Hives severe; Rash moderate"),
    ("Hives severe; Rash mild", "unknown,mild", "Hives severe; Rash mild"),
]


def reactions_from(text):
    """Return FHIR reactions of a text such as `Hives+Wheezing severe; Rash mild`."""
    pairs = [reaction.split(" ") for reaction in text.split("; ")]
    return [
        {"manifestation": [{"text": name} for name in names.split("+")], "severity": severity}
        for names, severity in pairs
    ]


def reactions_text(allergy):
    """Return the reactions of an allergy as such a text."""
    return "; ".join(
        "+".join(concept.get("text", "Unknown") for concept in reaction["manifestation"])
        + f" {reaction.get('severity')}"
        for reaction in allergy["reaction"]
    )


@pytest.mark.parametrize("first", ["FHIR", "table"])
def test_row_corrects_a_severity_only_where_it_is_clear_which(take, rows, empty, first):
    cases = [case for case in SEVERITIES if first == "FHIR" or case[0] == "Hives severe"]
    ids = range(len(cases))
    if first == "table":
        rows(*(f"p30,a{number},Latex,Hives,severe" for number in ids), header=REACTIONS)
    else:
        known = [
            allergy(f"a{number}", of="Patient/p30", code={"text": "Latex"},
                    reaction=reactions_from(before))
            for number, (before, _, _) in enumerate(cases)
        ]  # fmt: skip
        take(UTE, *known)
    table = [f"p30,a{number},Latex,{cells}" for number, (_, cells, _) in enumerate(cases)]
    for _ in range(2):
        assert rows(*table, header=REACTIONS).complete
        found = [reactions_text(read(empty, f"AllergyIntolerance/a{number}")) for number in ids]
        assert [(*case[:2], text) for case, text in zip(cases, found, strict=True)] == cases


@pytest.mark.parametrize("first", ["table", "FHIR"])
def test_note_of_a_row_is_added(take, rows, empty, first):
    header = f"{SUBSTANCES},note"
    if first == "table":
        rows("p30,a30,Latex,ICU", header=header)
    else:
        take(UTE, allergy("a30", of="Patient/p30", code={"text": "Latex"}, note=[{"text": "ICU"}]))
    for text in ("seen", "", "ICU") * 2:
        assert rows(f"p30,a30,Latex,{text}", header=header).complete
    notes = read(empty, "AllergyIntolerance/a30")["note"]
    assert [note["text"] for note in notes] == ["ICU", "seen"]


# Substances.

CRITICAL = {"criticality": "high", "reaction": RICH["reaction"]}
BY_CODE = f"{SUBSTANCES},substance_code,substance_system"
PENICILLIN_ALLERGY = {"coding": [{"system": SNOMED, "code": "416098002"}], "text": "Codeine"}
OTHER_SUBSTANCES = [
    ({"text": "Pénicilline"}, "Penicillin"),
    ({"text": "Latex"}, "NKDA"),
    ({"text": "Latex"}, "No known allergies"),
    ({"text": "Latex"}, "Aspirin"),
    ({"coding": [{"system": SNOMED, "code": "1003755004"}]}, "Penicillin"),
    # A code of a kind of allergy is no substance.
    (PENICILLIN_ALLERGY, "Aspirin,416098002,SNOMED CT"),
]


def with_code(number, code):
    return allergy(f"a{number}", of="Patient/p30", code=code, **CRITICAL)


def test_row_about_another_substance_is_rejected(take, rows, empty):
    cases = [*enumerate(OTHER_SUBSTANCES)]
    take(UTE, *(with_code(number, code) for number, (code, _) in cases))
    before = [read(empty, f"AllergyIntolerance/a{number}") for number, _ in cases]
    report = rows(*(f"p30,a{number},{row}" for number, (_, row) in cases), header=BY_CODE)
    assert report.rejected_lines == len(cases)
    for fault in report.faults:
        assert "but this id has another allergy here" in fault.message
        assert "or first set the other one to entered-in-error" in fault.message
    assert [read(empty, f"AllergyIntolerance/a{number}") for number, _ in cases] == before
    assert rows(*(f"p30,b{number},{row}" for number, (_, row) in cases), header=BY_CODE).complete


def test_rows_of_one_table_about_other_substances_are_rejected(rows, empty):
    cells = ["p30,a30,Penicillin", "p30,a30,Latex", "p30,a30,NKDA"]
    assert rows(*cells, header=SUBSTANCES).rejected_lines == 2
    assert read(empty, "AllergyIntolerance/a30")["code"]["text"] == "Penicillin"


SAME_SUBSTANCES = [
    ({"text": "PENICILLIN"}, "Penicillin", {"PENICILLIN", "Penicillin"}),
    ({"text": "Bétadine"}, "Betadine", {"Bétadine"}),
    ({"text": "Substance unknown"}, "Latex", {"Latex"}),
    ({"text": "Allergy to substance"}, "Latex", {"Latex"}),
    # The name of the row is kept beside the other names.
    ({"coding": [{"system": "urn:x", "code": "7"}], "text": "Co-amoxiclav"}, "Augmentin,7,urn:x",
     {"Co-amoxiclav", "Augmentin"}),
]  # fmt: skip


def test_row_about_the_same_substance_keeps_its_details(take, rows, empty):
    take(UTE, *(with_code(number, code) for number, (code, *_) in enumerate(SAME_SUBSTANCES)))
    table = [f"p30,a{number},{row}" for number, (_, row, _) in enumerate(SAME_SUBSTANCES)]
    for _ in range(2):
        assert rows(*table, header=BY_CODE).complete
    for number, (_, _, names) in enumerate(SAME_SUBSTANCES):
        found = read(empty, f"AllergyIntolerance/a{number}")
        assert (found["criticality"], found["reaction"]) == ("high", RICH["reaction"])
        displays = [coding.get("display") for coding in found["code"].get("coding", ())]
        assert names <= {found["code"]["text"], *displays}
    assert max(version for _, _, version, _ in versions(empty, "AllergyIntolerance")) <= 2


@pytest.mark.parametrize("first", ["NKDA,", "unknown,", "Penicillin,entered-in-error"])
def test_record_that_states_no_allergy_becomes_one(rows, empty, first):
    for cells in (first, "Latex,"):
        assert rows(f"p30,a30,{cells}", header=f"{SUBSTANCES},verification_status").complete
    found = read(empty, "AllergyIntolerance/a30")
    assert found["code"]["text"] == "Latex"
    assert not {"criticality", "verificationStatus"} & {*found}


def test_unknown_substance_keeps_its_reactions_when_it_is_named(rows, empty):
    for cells in ("unknown,Anaphylaxis,severe", "Latex,,"):
        assert rows(f"p30,a30,{cells}", header=REACTIONS).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert (found["code"]["text"], found["reaction"][0]["severity"]) == ("Latex", "severe")
    assert rows("p30,a31,unknown,Anaphylaxis,severe", header=REACTIONS).complete
    assert rows("p30,a31,NKDA,,", header=REACTIONS).rejected_lines == 1


# Other patients' ids, and records of the same import.


@pytest.mark.parametrize("first", ["before", "same import"])
def test_row_with_the_id_of_another_patients_record_is_rejected(
    take, rows, empty, tmp_path, first
):  # fmt: skip
    known = [UTE, patient("p31"), RICH]
    if first == "before":
        take(*known)
        report = rows("p31,a30,Penicillin", header=SUBSTANCES)
    else:
        table = write(tmp_path, f"{SUBSTANCES}\np31,a30,Penicillin\n".encode(), "x.csv")
        report = load(empty, write(tmp_path, lines(*known), "1.ndjson"), table)
    (fault,) = report.faults
    assert (report.rejected_lines, fault.path) == (1, "AllergyIntolerance.id")
    assert "is the id of another patient's record" in fault.message
    assert (allergies_of(empty, "p30"), allergies_of(empty, "p31")) == (["a30"], [])


def test_row_with_the_id_of_another_patients_document_is_rejected(take, rows, empty):
    take(UTE, patient("p31"), letter())
    assert rows("p31,d,11506-3,Hello", header=DOCUMENTS).rejected_lines == 1
    assert read(empty, "DocumentReference/d")["subject"]["reference"] == "Patient/p30"


UNRESOLVED = {"reference": "Practitioner?identifier=http://x|1"}


@pytest.mark.parametrize("waits", [True, False])
def test_row_keeps_details_that_arrive_in_the_same_import(empty, tmp_path, waits):
    confirmed = {"coding": [{"code": "confirmed", "system": f"{TERMINOLOGY}verification"}]}
    coming = {
        **RICH,
        "verificationStatus": confirmed,
        **({"recorder": UNRESOLVED} if waits else {}),
    }
    note = letter(authenticator=UNRESOLVED) if waits else letter()
    files = [
        write(tmp_path, lines(UTE, coming, note), "1.ndjson"),
        write(tmp_path, f"{COLUMNS}\np30,a30,Penicillin,,,,,seen,,\n".encode(), "x.csv"),
        write(tmp_path, f"{DOCUMENTS}\np30,d,11506-3,Hello\n".encode(), "y.csv"),
    ]
    assert load(empty, *files).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert (found["criticality"], found["reaction"]) == ("high", RICH["reaction"])
    assert found["verificationStatus"] == confirmed
    assert [note["text"] for note in found["note"]] == ["Carries a kit", "seen"]
    found = read(empty, "DocumentReference/d")
    assert (found["status"], found["author"][0]["display"]) == ("superseded", "Dr. Keller")


def test_row_after_a_deletion_in_the_same_import_is_a_new_record(empty, tmp_path):
    deletion = bundle("transaction", asked("DELETE", "AllergyIntolerance/a30"))
    write(tmp_path, lines(UTE, {**RICH, "recorder": UNRESOLVED}), "1/a.ndjson")
    write(tmp_path, deletion, "2/a.json")
    write(tmp_path, b"patient_id,id,substance\np30,a30,Latex\n", "3/a.csv")
    assert load(empty, *(tmp_path / name for name in "123")).complete
    found = read(empty, "AllergyIntolerance/a30")
    assert (found["code"]["text"], "reaction" in found) == ("Latex", False)


# Statuses of a first row and of a second one (clinical,verification), and the statuses then.
STATUSES = [
    ("resolved,", ",", ["resolved", None]),
    ("resolved,", ",confirmed", ["resolved", "confirmed"]),
    ("resolved,", "active,", ["active", None]),
    (",refuted", ",", ["inactive", "refuted"]),
    (",refuted", ",confirmed", ["active", "confirmed"]),
    ("active,", ",refuted", ["inactive", "refuted"]),
    (",entered-in-error", ",", [None, "entered-in-error"]),
    (",entered-in-error", "active,", ["active", None]),
    (",entered-in-error", ",confirmed", ["active", "confirmed"]),
    ("active,confirmed", ",entered-in-error", [None, "entered-in-error"]),
]


def test_statuses_stay_until_a_row_states_others(rows, empty):
    header = f"{SUBSTANCES},clinical_status,verification_status"
    for place in (0, 1):
        cells = [f"p30,a{number},Latex,{case[place]}" for number, case in enumerate(STATUSES)]
        assert rows(*cells, header=header).complete
    found = []
    for number, case in enumerate(STATUSES):
        entry = read(empty, f"AllergyIntolerance/a{number}")
        concepts = [entry.get(name) for name in ("clinicalStatus", "verificationStatus")]
        found.append(
            (*case[:2], [concept and concept["coding"][0]["code"] for concept in concepts])
        )
    assert found == STATUSES


# Documents.


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def letter(**more: Any) -> dict[str, Any]:
    content = {"contentType": "text/plain; charset=utf-8", "data": encoded(b"Hello")}
    return {
        "resourceType": "DocumentReference",
        "id": "d",
        "status": "superseded",
        "subject": {"reference": "Patient/p30"},
        "type": {"coding": [{"system": "http://loinc.org", "code": "11506-3"}]},
        "author": [{"display": "Dr. Keller"}],
        "content": [{"attachment": {**content, "title": "Visit"}}],
        "context": {"period": {"start": "2024-03-01"}, "facilityType": {"text": "Ward"}},
        **more,
    }


def test_document_keeps_what_its_row_does_not_state(take, rows, empty):
    take(UTE, letter())
    before = read(empty, "DocumentReference/d")
    header = f"{DOCUMENTS},period_end"
    assert rows("p30,d,11506-3,Hello,", header=header).complete
    found = read(empty, "DocumentReference/d")
    for name in ("status", "author", "content", "context"):
        assert found[name] == before[name]
    assert rows("p30,d,11506-3,Bye,2024-03-02", header=header).complete
    found = read(empty, "DocumentReference/d")
    attachment = found["content"][0]["attachment"]
    assert (attachment["data"], attachment["title"]) == (encoded(b"Bye"), "Visit")
    assert found["context"]["period"] == {"start": "2024-03-01", "end": "2024-03-02"}
    assert found["context"]["facilityType"] == {"text": "Ward"}


def test_document_keeps_its_other_attachments(take, rows, empty):
    second = {"attachment": {"contentType": "text/plain", "data": encoded(b"2")}}
    take(UTE, letter(content=[*letter()["content"], second]))
    for _ in range(2):
        assert rows("p30,d,11506-3,Third", header=DOCUMENTS).complete
        found = read(empty, "DocumentReference/d")["content"]
        data = [content["attachment"]["data"] for content in found]
        assert data == [encoded(b"Hello"), encoded(b"2"), encoded(b"Third")]


def test_narrative_that_would_contradict_a_change_is_dropped():
    text = {"status": "generated", "div": "<div>Ute Meier</div>"}
    known, renamed = {**UTE, "text": text}, patient("p30", name=[{"family": "Huber"}])
    assert "text" not in merge_row(known, renamed, ())
    assert merge_row(known, patient("p30", name=NAME), ())["text"] == text
    additional = {**text, "status": "additional"}
    assert merge_row({**known, "text": additional}, renamed, ())["text"] == additional


# Repeated imports, corrections and merged patients.


def test_tables_and_other_files_in_one_import(empty, tmp_path):
    fhir = write(tmp_path, lines(UTE), "1.ndjson")
    waits = {**UTE, "managingOrganization": {"reference": "Organization?identifier=urn:x|1"}}
    waiting = write(tmp_path, lines(waits), "2.ndjson")
    rows = ["p30,,Meier,Ute,,,a30,Penicillin", "p30,,Brandt,Karl,1941-11-30,,a31,Aspirin"]
    table = write(tmp_path, "\n".join([PEOPLE, *rows, ""]).encode(), "x.csv")
    for files in ([fhir, table], [waiting, table]):
        report = load(empty, *files)
        assert report.rejected_lines == 2
        assert read(empty, "Patient/p30")["birthDate"] == "1970-01-02"
        assert allergies_of(empty, "p30") == ["a30"]
        assert rejected_rows(report) == rows[1:]


def test_rejected_row_is_kept_without_the_prefix_of_ids(rows):
    cells = ["p1,,Meier,Ute,1970-01-02,,a,Latex", "p1,,Brandt,Karl,1941,,b,Latex"]
    assert rejected_rows(rows(*cells, prefix="n-")) == cells[1:]


@pytest.mark.parametrize("fhir", [True, False], ids=["from FHIR too", "from tables alone"])
def test_correction_by_an_administrator_stays(take, rows, empty, fhir):
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
        assert read(empty, "Patient/p30")["name"] == [{"family": "Hubert"}]


def test_rows_of_merged_patients_are_about_one_patient(rows, empty):
    cells = ["p1,,Meier,Ute,,,a,Latex", "p2,,Meier,Ute,1970,,b,Nickel"]
    rows(*cells)
    with empty.app_context():
        settings = settings_of(empty)
        merge_patients(settings, "p1", "p2", "One person", "admin", move_accounts=False)
    settled = stored(empty)
    assert rows(*cells).complete
    assert stored(empty) == settled
    header = f"{SUBSTANCES},note"
    assert rows("p2,a,Latex,seen", "p1,b,Nickel,seen", header=header).complete
    assert allergies_of(empty, "p2") == ["a", "b"]
