"""Imports of clinical documents: whose they are, what is reported, what API and chart show.

People who share a number, and visits that share one, stay apart.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from fhirapp.fhir.identity import contradiction
from tests.support.browsing import Browser, add_person
from tests.support.ccda_people import HOUSEHOLD, RECORD, document
from tests.support.ccda_rules import cases, rules
from tests.support.ccda_samples import SSN, only, read, sample
from tests.support.importing import asking, current, lines, load, patient, write

pytestmark = pytest.mark.usefixtures("_unread_documents")


def refused(report: Any) -> list[str]:
    """Return why people are refused; one line counts what is refused with each of them."""
    messages = [fault.message for fault in report.faults]
    followers = [message for message in messages if message.startswith("rejected too, because")]
    assert len(followers) == len(messages) - len(followers)
    return [message for message in messages if message not in followers]


def titles(app: Flask) -> list[str]:
    """Return the titles of the documents that are there."""
    return [
        asking(app).read(f"DocumentReference/{document_id}")["content"][0]["attachment"]["title"]
        for document_id in current(app, "DocumentReference")
    ]


@pytest.mark.parametrize(
    ("twin", "why", "together", "order"),
    [
        ({"number": "1002"}, "has another number of urn:oid:2.999.2 than this patient", True, 1),
        ({"gender": "F"}, "has another gender than this patient", True, -1),
        ({"born": "20150302"}, "was born on another day than this patient", True, 1),
        ({"given": "Eve"}, "has another given name than this patient", True, -1),
        ({"number": "1002"}, "has another number of urn:oid:2.999.2 than this patient", False, -1),
        ({"given": "Eve"}, "has another given name than this patient", False, 1),
    ],
    ids=["number", "gender", "born", "given", "number later", "given name later"],
)
def test_twins_who_share_a_number_stay_apart(empty, tmp_path, together, order, twin, why):
    """together: in one import. order: of the number that they share and of their own."""
    household = (HOUSEHOLD, "H-7")
    told = {**twin}
    number = told.pop("number", "")
    eves = [household, *([(RECORD, number)] if number else [])][::order]
    adam = document("adam", *[household, (RECORD, "1001")][::order])
    paths = [
        write(tmp_path, adam, "1.xml"),
        write(tmp_path, document("eve", *eves, **told), "2.xml"),
    ]
    if together:
        report = load(empty, *paths)
    else:
        assert load(empty, paths[0]).complete
        report = load(empty, paths[1])
    (said,) = refused(report)
    assert said.startswith(f"has the number urn:oid:{HOUSEHOLD}|H-7 of Patient/")
    assert f", who {why}: birth date " in said
    assert [len(current(empty, name)) for name in ("Patient", "AllergyIntolerance")] == [1, 1]
    assert titles(empty) == ["adam"]


def test_twins_with_nothing_but_a_shared_number_stay_apart_in_one_batch(empty, tmp_path):
    for number, given in enumerate(("Adam", "Eve")):
        content = document(given, (HOUSEHOLD, "H-7"), given=given)
        write(tmp_path / "documents", content, f"{number}.xml")
    report = load(empty, tmp_path / "documents")
    assert [message.rpartition(", who ")[2] for message in refused(report)] == [
        "has another given name than this patient: birth date 2015-03-01, there 2015-03-01"
    ]
    assert len(current(empty, "AllergyIntolerance")) == 1


def test_patient_of_another_source_and_a_twin_stay_apart(empty, tmp_path):
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


def visit_of(app: Flask, document_id: str) -> tuple[str, str]:
    """Return the visit of a document, and its patient."""
    found = asking(app).read(f"DocumentReference/{document_id}")
    return found["context"]["encounter"][0]["reference"], found["subject"]["reference"]


def test_two_patients_with_the_same_encounter_number_have_two_encounters(empty, tmp_path):
    for name in ("1001", "1002"):
        write(tmp_path / "documents", document(name, (RECORD, name)), f"{name}.xml")
    assert load(empty, tmp_path / "documents").complete
    assert len(current(empty, "Encounter")) == 2
    for document_id in current(empty, "DocumentReference"):
        visit, whose = visit_of(empty, document_id)
        assert asking(empty).read(visit)["subject"]["reference"] == whose


def test_encounter_of_another_patient_with_the_same_number_is_not_used(empty, tmp_path):
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
    assert visit_of(empty, found)[0] != "Encounter/theirs"


def person(*given: str, **more: Any) -> dict[str, Any]:
    """Return a patient of these given names."""
    return patient(name=[{"given": [*given], "family": "Doe"}], **more)


def numbered(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Return a patient with these identifiers: (system, value)."""
    return patient(identifier=[{"system": system, "value": value} for system, value in pairs])


OTHERS = (
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
)
SAME = (
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
    (patient(name=[{"given": ["Bob"]}, {"given": ["Robert"]}]), person("Robert")),
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
    (numbered(("urn:ietf:rfc:3986", "urn:uuid:1")), numbered(("urn:ietf:rfc:3986", "urn:uuid:2"))),
    # The same patient in two documents.
    tuple(only(read(sample(name)), "Patient") for name in ("ccd", "discharge-summary")),
)


def test_details_that_contradict_a_patient_and_those_that_do_not():
    for known, other in OTHERS:
        assert contradiction(known, other), (known, other)
        assert contradiction(other, known), (known, other)
        assert not contradiction(known, known), known
    for known, other in SAME:
        assert (contradiction(known, other), contradiction(other, known)) == ("", ""), (
            known,
            other,
        )


# What an import reports and what is shown then.


def of_patient(text: str, number: str) -> bytes:
    """Return a document as another one, of another patient."""
    without_ssn = text.replace('<id extension="561-45-6780" root="2.16.840.1.113883.4.1"/>', "")
    other = without_ssn.replace("MRN-40081", f"MRN-{number}")
    return other.replace('<id root="11d1cf2a', f'<id extension="{number}" root="11d1cf2a').encode()


class Clinic(NamedTuple):
    """An app, and the patient whose document has a rule's case."""

    app: Flask
    patients: dict[str, str]


SHOWN = [rule for rule, given in rules("shapes").items() if "chart" in given]


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    """An app with a document of a patient of their own for each rule about a chart."""
    app = make_app(seed=False)
    folder = tmp_path_factory.mktemp("documents")
    for number, rule in enumerate(SHOWN):
        text = next(cases("shapes", rule)).document
        write(folder, of_patient(text, f"S{number}"), f"{number}.xml")
    assert load(app, folder).rejected == []
    fhir = asking(app)
    identified = {rule: f"Patient?identifier=MRN-S{number}" for number, rule in enumerate(SHOWN)}
    return Clinic(app, {rule: fhir.ids(search)[0] for rule, search in identified.items()})


def test_the_chart_shows_what_a_document_says(clinic):
    browser = Browser(clinic.app).resume(add_person(clinic.app, CLINICIAN))
    lost = set()
    for rule, patient_id in clinic.patients.items():
        shown = browser.get(f"/patients/{patient_id}").words
        lost |= {(rule, words) for words in rules("shapes")[rule]["chart"] if words not in shown}
    assert lost == set()


def test_the_summary_concludes_what_a_document_says(clinic):
    fhir, found = asking(clinic.app), {}
    for rule, patient_id in clinic.patients.items():
        answer = fhir.read(f"AllergyIntolerance/$summary?patient={patient_id}")
        (conclusion,) = [
            parameter for parameter in answer["parameter"] if parameter["name"] == "conclusion"
        ]
        (code,) = [part["valueCode"] for part in conclusion["part"] if part["name"] == "code"]
        found[rule] = (code, len(fhir.ids(f"AllergyIntolerance?patient={patient_id}")))
    assert found == {
        rule: (rules("shapes")[rule]["conclusion"], len(rules("shapes")[rule]["groups"]))
        for rule in SHOWN
    }


def test_all_names_of_one_substance_are_searched(empty, tmp_path: Path):
    _, case = cases("shapes", "all names are kept")
    load(empty, write(tmp_path, case.document.encode(), "names.xml"))
    assert len(asking(empty).ids("AllergyIntolerance?code:text=pen-vee")) == 1


def test_none_known_in_words_is_searched_by_its_code_and_is_not_unconfirmed(empty, tmp_path: Path):
    case = next(cases("shapes", "a narrative that only says that none is known"))
    load(empty, write(tmp_path, case.document.encode(), "document.xml"))
    fhir = asking(empty)
    assert fhir.ids("AllergyIntolerance?verification-status=unconfirmed") == []
    assert len(fhir.ids("AllergyIntolerance?code=http://snomed.info/sct|716186003")) == 1
