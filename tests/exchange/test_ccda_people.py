"""Documents of people who share a number, and of visits that share one: nobody becomes another."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from fhirapp.fhir.identity import contradiction
from tests.support.ccda_people import HOUSEHOLD, RECORD, document
from tests.support.ccda_samples import SSN, only, read, sample
from tests.support.importing import asking, current, lines, load, patient, stored, write


def refused(report: Any) -> list[str]:
    """Return why people are refused; one line counts what is refused with each of them."""
    messages = [one.message for one in report.faults]
    followers = [one for one in messages if one.startswith("rejected too, because")]
    assert len(followers) == len(messages) - len(followers)
    return [one for one in messages if one not in followers]


@pytest.mark.parametrize("together", [True, False], ids=["in one import", "one after the other"])
@pytest.mark.parametrize("order", [1, -1], ids=["household first", "household last"])
@pytest.mark.parametrize(
    ("twin", "why"),
    [
        ({"number": "1002"}, "has another number of urn:oid:2.999.2 than this patient"),
        ({"gender": "F"}, "has another gender than this patient"),
        ({"born": "20150302"}, "was born on another day than this patient"),
        ({"given": "Eve"}, "has another given name than this patient"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_twins_who_share_a_number_stay_apart(empty, tmp_path, together, order, twin, why):
    household = (HOUSEHOLD, "H-7")
    adams = [household, (RECORD, "1001")][::order]
    told = {**twin}
    number = told.pop("number", "")
    eves = [household, *([(RECORD, number)] if number else [])][::order]
    adam = write(tmp_path, document("adam", *adams), "1.xml")
    eve = write(tmp_path, document("eve", *eves, **told), "2.xml")
    if together:
        report = load(empty, adam, eve)
    else:
        assert load(empty, adam).complete
        report = load(empty, eve)
    (said,) = refused(report)
    assert said.startswith(f"has the number urn:oid:{HOUSEHOLD}|H-7 of Patient/")
    assert f", who {why}: birth date " in said
    assert [len(current(empty, name)) for name in ("Patient", "AllergyIntolerance")] == [1, 1]
    assert [one["title"] for one in documents(empty)] == ["adam"]


def documents(app: Flask) -> list[dict[str, Any]]:
    """Return the attachments of the documents that are there."""
    fhir = asking(app)
    return [
        fhir.read(f"DocumentReference/{one}")["content"][0]["attachment"]
        for one in current(app, "DocumentReference")
    ]


def test_twins_with_nothing_but_a_shared_number_stay_apart_in_one_batch(empty, tmp_path):
    for number, given in enumerate(("Adam", "Eve")):
        content = document(given, (HOUSEHOLD, "H-7"), given=given)
        write(tmp_path / "documents", content, f"{number}.xml")
    report = load(empty, tmp_path / "documents")
    assert [one.rpartition(", who ")[2] for one in refused(report)] == [
        "has another given name than this patient: birth date 2015-03-01, there 2015-03-01"
    ]
    assert len(current(empty, "AllergyIntolerance")) == 1


def test_a_patient_of_another_source_is_not_taken_for_a_twin_either(empty, tmp_path):
    identified = [{"system": f"urn:oid:{HOUSEHOLD}", "value": "H-7"}]
    adam = patient("adam", identifier=identified, name=[{"given": ["Adam"], "family": "Doe"}])
    load(empty, write(tmp_path, lines(adam), "x.ndjson"))
    numbers = [(HOUSEHOLD, "H-7"), (RECORD, "1002")]
    eve = write(tmp_path, document("eve", *numbers, given="Eve"), "1.xml")
    assert len(refused(load(empty, eve))) == 1
    assert current(empty, "AllergyIntolerance") == []
    # The same with his own name is his.
    assert load(empty, write(tmp_path, document("adam", *numbers), "2.xml")).complete
    assert current(empty, "Patient") == ["adam"]
    (found,) = current(empty, "AllergyIntolerance")
    held = asking(empty).read(f"AllergyIntolerance/{found}")
    assert held["patient"]["reference"] == "Patient/adam"


def test_a_visit_is_another_for_another_patient(empty, tmp_path):
    for name in ("1001", "1002"):
        write(tmp_path / "documents", document(name, (RECORD, name)), f"{name}.xml")
    assert load(empty, tmp_path / "documents").complete
    fhir = asking(empty)
    visits = {one: fhir.read(f"Encounter/{one}") for one in current(empty, "Encounter")}
    assert len(visits) == 2
    for one in current(empty, "DocumentReference"):
        found = fhir.read(f"DocumentReference/{one}")
        (visit,) = found["context"]["encounter"]
        whose = visits[visit["reference"].partition("/")[2]]["subject"]["reference"]
        assert whose == found["subject"]["reference"]


def test_a_visit_that_another_patient_is_known_to_have_had_is_not_meant(empty, tmp_path):
    theirs = {
        "resourceType": "Encounter",
        "id": "theirs",
        "status": "finished",
        "class": {"code": "AMB"},
        "identifier": [{"system": "urn:oid:2.999.8", "value": "V1"}],
        "subject": {"reference": "Patient/them"},
    }
    load(empty, write(tmp_path, lines(patient("them"), theirs), "x.ndjson"))
    assert load(empty, write(tmp_path, document("1", (RECORD, "1001")), "1.xml")).complete
    assert len(current(empty, "Encounter")) == 2
    (found,) = current(empty, "DocumentReference")
    (visit,) = asking(empty).read(f"DocumentReference/{found}")["context"]["encounter"]
    assert visit["reference"] != "Encounter/theirs"


def test_documents_of_one_visit_of_a_patient_have_the_same(empty, tmp_path):
    for name in ("a", "b"):
        write(tmp_path / "documents", document(name, (RECORD, "1001")), f"{name}.xml")
    assert load(empty, tmp_path / "documents").complete
    assert len(current(empty, "Encounter")) == 1
    before = stored(empty)
    assert load(empty, tmp_path / "documents").complete
    assert stored(empty) == before


def person(*given: str, **more: Any) -> dict[str, Any]:
    """Return a patient of these given names."""
    return patient(name=[{"given": [*given], "family": "Doe"}], **more)


def numbered(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Return a patient with these identifiers: (system, value)."""
    return patient(identifier=[{"system": system, "value": value} for system, value in pairs])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (person("Adam"), person("Eve")),
        (person("Adam", "Lee"), person("Eve", "Lee")),
        (person("Boy A"), person("Boy B")),
        (person("A"), person("E")),
        (person("Adam John"), person("Adam", "James")),
        (person("Ева"), person("Адам")),
        (person("Adam", gender="male"), person("Adam", gender="female")),
        (person(gender="other"), person(gender="female")),
        (person(birthDate="2015-03-01"), person(birthDate="2015-03-02")),
        (person(birthDate="2015"), person(birthDate="2016-03-02")),
        (numbered(("urn:a", "1"), ("urn:b", "7")), numbered(("urn:a", "2"), ("urn:b", "7"))),
        (numbered((SSN, "561-45-6780")), numbered((SSN, "561-45-6781"))),
        (patient(name=[{"text": "Adam Doe"}]), person("Eve")),
        (patient(name=[{"text": "Doe, Adam"}, {"text": "A. Doe"}]), person("Eve")),
    ],
)
def test_details_that_prove_another_person(one, other):
    assert contradiction(one, other)
    assert contradiction(other, one)
    assert not contradiction(one, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (patient(), person("Adam", gender="male", birthDate="2015-03-01")),
        (person("Adam"), person("ADAM")),
        (person("José"), person("Jose")),
        (person("Mary", "Ann"), person("Mary")),
        (person("Mary", "Ann"), person("Ann")),
        (person("Mary Jane"), person("Maryjane")),
        (person("Anne-Marie"), person("Anne", "Marie")),
        (person("J."), person("Jane")),
        (person("J", "A"), person("Jane", "Ann")),
        (person("太郎"), person("Taro")),
        (person("Adam", gender="unknown"), person("Adam", gender="male")),
        (person(birthDate="2015"), person(birthDate="2015-03-02")),
        (
            patient(name=[{"given": ["Bob"]}, {"given": ["Robert"]}]),
            person("Robert"),
        ),
        (patient(name=[{"text": "Adam Doe"}]), person("Adam")),
        (patient(name=[{"text": "DOE, ADAM"}]), person("Adam", "Lee")),
        (patient(name=[{"text": "Doe, A."}]), person("Adam")),
        (patient(name=[{"text": "Адам Доу"}]), person("Adam")),
        (patient(name=[{"text": "Adam Doe"}]), patient(name=[{"text": "Eve Doe"}])),
        (patient(name=[{"_given": [{"id": "x"}], "given": [None]}]), person("Adam")),
        (numbered(("urn:a", "1"), ("urn:a", "2")), numbered(("urn:a", "2"))),
        (numbered(("urn:a", "1")), numbered(("urn:b", "2"))),
        (numbered((SSN, "561-45-6780")), numbered((SSN, "561456780"))),
        (numbered((SSN, "999-99-9999")), numbered((SSN, "561-45-6780"))),
        # Addresses of one form, and no two numbers of one kind.
        (
            numbered(("urn:ietf:rfc:3986", "urn:uuid:1")),
            numbered(("urn:ietf:rfc:3986", "urn:uuid:2")),
        ),
    ],
)
def test_what_tells_nothing(one, other):
    assert contradiction(one, other) == ""
    assert contradiction(other, one) == ""


def test_a_patient_who_is_imported_again_does_not_contradict_herself():
    one, other = (only(read(sample(name)), "Patient") for name in ("ccd", "discharge-summary"))
    assert contradiction(one, other) == ""


@pytest.mark.parametrize(
    "guardian",
    [
        "<guardian/>",
        '<guardian nullFlavor="UNK"/>',
        '<guardian><guardianPerson><name nullFlavor="UNK"/></guardianPerson></guardian>',
        '<guardian><addr nullFlavor="NI"/><telecom nullFlavor="NI"/></guardian>',
        "<guardian><guardianPerson><name><given/></name></guardianPerson></guardian>",
        "<guardian><guardianOrganization/></guardian>",
    ],
)
def test_a_guardian_of_whom_nothing_is_known_is_no_contact(guardian):
    text = document("a", (RECORD, "1")).decode().replace("</patient>", f"{guardian}</patient>")
    assert "contact" not in only(read(text), "Patient")


@pytest.mark.parametrize(
    ("guardian", "name"),
    [
        ("<guardianPerson><name><family>Doe</family></name></guardianPerson>", "name"),
        ('<telecom value="tel:+1-555-1"/>', "telecom"),
        ("<addr><city>Ulm</city></addr>", "address"),
        ("<guardianOrganization><name>Home</name></guardianOrganization>", "organization"),
    ],
)
def test_a_guardian_with_any_detail_is_a_contact(guardian, name):
    text = document("a", (RECORD, "1")).decode()
    text = text.replace("</patient>", f"<guardian>{guardian}</guardian></patient>")
    (contact,) = only(read(text), "Patient")["contact"]
    assert contact.keys() == {"relationship", name}
