"""The chart: whose it is, and the allergies first; to whom it is shown.

What the allergies come to is tested in test_summary.py, an allergy's own page and who has looked in
test_chart_details.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from xml.etree import ElementTree

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.web.chart.elements import born, died
from tests.support.allergies import (
    NKDA,
    PENICILLIN,
    SEVERE,
    SNOMED,
    allergy,
    coded,
    patient_with,
    rich,
)
from tests.support.browsing import Browser, add_person
from tests.support.publishing import TIMES, delete

UNKNOWN = "This record does not exist, or you don't have access to it."
HOSTILE = "<script>alert(1)</script>\u202e&quot;'--"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app, in which tests put patients of their own."""
    return make_app()


@pytest.fixture
def clinician(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def as_patient(app: Flask, *patients: str) -> Browser:
    return Browser(app).resume(add_person(app, PATIENT, *patients, name="Pat Example"))


def in_order(words: str, *said: str) -> bool:
    """Say whether these stand in a text, one after the other."""
    at = 0
    for one in said:
        at = words.find(one, at)
        if at < 0:
            return False
        at += len(one)
    return True


# Finding a patient.


def test_a_patient_is_found_by_name_and_birth_date(clinician):
    page = clinician.get("/patients").submit("Search", name="hart amel", born="1958")
    assert page.heading == "Patients"
    chart = clinician.get(page.links["Amelia Rose Hartwell born 12 April 1958 · LGH-100237"])
    assert (chart.status, chart.heading) == (200, "Amelia Rose Hartwell")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("name=nobody", "No matching patients."),
        ("born=12.4.1958", "Enter the date as 1958-04-12, 1958-04 or 1958."),
        ("name=%00", "Amelia Rose Hartwell"),
        ("name=,", "Amelia Rose Hartwell"),
        ("name=LGH-100274", "Luis Fernando Ortega Ruiz"),
        ("name=LGH-100274&born=1990", "No matching patients."),
        ("name=LGH-1", "No matching patients."),
        ("name=a%5C%7C%24,b", "No matching patients."),
        ("name=" + "%EF%B7%BA" * 200, "No matching patients."),
    ],
)
def test_what_is_asked_for_is_found_or_it_is_told(clinician, asked, words):
    page = clinician.get(f"/patients?{asked}")
    assert page.status == 200
    assert words in page.words


def test_who_has_one_record_is_shown_it_at_once(clinic):
    page = as_patient(clinic, "p1").get("/patients")
    assert (page.path, page.heading) == ("/patients/p1", "Amelia Rose Hartwell")
    assert "Open in app…" not in page.links


def test_who_has_several_records_chooses_and_sees_no_other(clinic):
    browser = as_patient(clinic, "p4", "p13", "not-here")
    page = browser.get("/patients?name=hartwell")
    assert page.heading == "Your records"
    found = [address for address in page.links.values() if address.startswith("/patients/")]
    assert found == ["/patients/p4", "/patients/p13"]


def test_who_has_no_record_is_told_whom_to_ask(clinic):
    page = as_patient(clinic).get("/patients")
    assert "Ask your clinic to link it." in page.words


# Who may see a record.


PATHS = ["", "/allergies/al-p1-penicillin", "/summary", "/summary/document", "/viewers"]


@pytest.mark.parametrize("tail", PATHS)
@pytest.mark.parametrize("patient", ["nobody", "p2", "p 1", "x" * 65, "%F0%9F%92%8A"])
def test_who_is_not_here_and_who_may_not_be_seen_are_answered_alike(clinic, patient, tail):
    page = as_patient(clinic, "p1").get(f"/patients/{patient}{tail}")
    assert (page.status, page.heading) == (404, "Record not found")
    assert UNKNOWN in page.words


@pytest.mark.parametrize("tail", PATHS)
def test_a_clinician_sees_no_record_that_is_not_there(clinic, clinician, tail):
    gone = patient_with(clinic)
    delete(clinic, TIMES[1], f"Patient/{gone}")
    for patient in ("nobody", gone):
        page = clinician.get(f"/patients/{patient}{tail}")
        assert (page.status, page.heading) == (404, "Record not found")


def test_an_allergy_of_another_patient_is_not_shown(clinic, clinician):
    assert clinician.get("/patients/p1/allergies/al-p2-morphine").status == 404
    assert clinician.get("/patients/p1/allergies/nothing").status == 404
    page = as_patient(clinic, "p1").get("/patients/p1/allergies/al-p2-morphine")
    assert (page.status, page.heading) == (404, "Record not found")


@pytest.mark.parametrize("path", ["/patients", *(f"/patients/p1{tail}" for tail in PATHS)])
def test_who_has_not_signed_in_signs_in_first(clinic, path):
    assert Browser(clinic).get(path).path.startswith("/sign-in")


@pytest.mark.parametrize("role", [CLINICIAN, ADMINISTRATOR])
@pytest.mark.parametrize("tail", PATHS)
def test_staff_see_a_record(clinic, role, tail):
    page = Browser(clinic).resume(add_person(clinic, role)).get(f"/patients/p1{tail}")
    assert page.status == 200


# The International Patient Summary, to print and to take along.


def test_a_chart_leads_to_the_summary_which_says_what_its_document_says(clinician):
    page = clinician.get(clinician.get("/patients/p1").links["Patient summary (IPS)"])
    assert (page.status, page.heading) == (200, "Amelia Rose Hartwell")
    assert in_order(
        page.words,
        "born 12 April 1958",
        "record number LGH-100237",
        "International Patient Summary",
        "Allergies and intolerances",
        "1 of them is recorded as severe",
        "Penicillin (high criticality)",
        "Anaphylaxis, Bronchospasm, Angioedema · Collapse minutes after",
        "recorded by Dr. Folake Adeyemi",
        "Medications Medications are not held on this server.",
        "Problems Problems and diagnoses are not held on this server.",
        "Record as of",
    )
    sent = clinician.get(page.links["Download as FHIR"]).response
    assert sent.content_type == "application/fhir+json"
    assert sent.headers["Content-Disposition"] == 'attachment; filename="patient-summary-p1.json"'
    composition = sent.get_json(force=True)["entry"][0]["resource"]
    for section in composition["section"]:
        words = ElementTree.fromstring(section["text"]["div"]).itertext()
        assert in_order(page.words, section["title"], *map(str.strip, words))


def test_a_summary_is_in_the_language_of_its_reader(clinician):
    german = {"headers": {"Accept-Language": "de"}}
    page = clinician.get("/patients/p1/summary", **german)
    assert "Die Medikation wird auf diesem Server nicht geführt." in page.words
    assert "5 aktive oder nicht abgeklungene Allergien" in page.words
    sent = clinician.get("/patients/p1/summary/document", **german).response
    composition = sent.get_json(force=True)["entry"][0]["resource"]
    assert composition["language"] == "de"
    for section in composition["section"]:
        assert ' lang="de">' in section["text"]["div"]
    # Nor does the next answer keep it.
    english = clinician.get("/patients/p1/summary/document").response.get_json(force=True)
    assert english["entry"][0]["resource"]["language"] == "en"


def test_what_a_record_says_is_text_in_a_summary(clinic, clinician):
    patient = patient_with(clinic, allergy(HOSTILE), name=[{"family": HOSTILE}])
    page = clinician.get(f"/patients/{patient}/summary")
    assert "<script>alert" not in page.response.text
    assert "<script>alert(1)</script>" in page.words


# The chart.


def test_what_may_hurt_stands_first_and_what_never_was_last(clinician):
    page = clinician.get("/patients/p1")
    assert in_order(
        page.words,
        "born 12 April 1958",
        "female · record number LGH-100237",
        "Severe: Penicillin (Anaphylaxis, Bronchospasm, Angioedema)",
        "active, confirmed · onset 2 June 1974 UTC · last occurred 20 November 1998 · recorded 14"
        " February 2023 UTC · recorded by Dr. Folake Adeyemi",
        "not clinical decision support",
        "5 active or unresolved allergies or intolerances; 1 of them is recorded as severe, as"
        " anaphylaxis or with high criticality.",
        "Active 5",
        "Penicillin high criticality allergy, medication",
        "same class · Penicillins: amoxicillin, ampicillin, penicillin G, penicillin V",
        "Anaphylaxis, Bronchospasm, Angioedema: Collapse minutes after an injection before surgery"
        " (severe) · Urticaria, Itching of skin: Hives on the trunk, two hours after the second"
        " tablet (moderate)",
        "Note: Carries an alert card.",
        "active, confirmed onset 2 June 1974 UTC last occurred 20 November 1998 recorded",
        "Ibuprofen intolerance, medication",
        "Co-trimoxazole coded as sulfamethoxazole / trimethoprim",
        "Ragweed",
        "Entered in error 1: Metformin Metformin ·",
        "entered in error",
        "Notes",
    )


@pytest.mark.parametrize(
    ("patient", "words"),
    [
        (
            "p11",
            "No allergy entries are recorded. This does not mean that there are no",
        ),
        ("p6", "Recorded: no information about allergies."),
        ("p13", "Recorded: no known allergies."),
        ("p4", "Recorded: no known drug allergies. Nothing is recorded about"),
        ("p5", "born 2 November 1941 (83) · male · record number LGH-100385 died 2 March 2025"),
        (
            "p3",
            "Walnut and pecan coded as Tree nut high criticality allergy, food same class",
        ),
        (
            "p14",
            "This record was replaced by another record of the same patient. Allergies in that",
        ),
    ],
)
def test_absence_and_what_is_not_known_are_told_in_words(clinician, patient, words):
    assert words in clinician.get(f"/patients/{patient}").words


def test_what_was_refuted_tells_since_when_and_why(clinician):
    words = clinician.get("/patients/p12").words
    assert "Refuted 1: Penicillin" in words
    assert "· inactive, refuted · onset 1972" in words
    assert "Note: Skin tests negative" in words


def test_anaphylaxis_stands_first_though_nobody_wrote_how_severe_it_was(clinic, clinician):
    reaction = [{"manifestation": [{"text": "Anaphylaxis (disorder)"}]}]
    mild = [{"manifestation": [{"text": "Rash"}], "severity": "mild"}]
    patient = patient_with(
        clinic, allergy("Mold", reaction=mild), allergy("Tree nut", reaction=reaction)
    )
    words = clinician.get(f"/patients/{patient}").words
    assert in_order(
        words,
        "Free text describes 1 of them as severe",
        "Tree nut described as “Anaphylaxis (disorder)”",
        "Mold",
    )


def test_an_entry_with_a_reaction_and_no_code_is_an_allergy_to_something(clinic, clinician):
    reaction = [{"manifestation": [{"text": "Hives"}]}]
    entry = {**allergy("x", reaction=reaction), "code": None}
    patient = patient_with(clinic, {name: value for name, value in entry.items() if value})
    words = clinician.get(f"/patients/{patient}").words
    assert in_order(
        words, "1 active or unresolved allergy or intolerance", "Substance not recorded"
    )


def test_a_code_that_nothing_names_is_told_with_its_system(clinic, clinician):
    patient = patient_with(clinic, allergy(coded((SNOMED, "764146007"))))
    words = clinician.get(f"/patients/{patient}").words
    assert "SNOMED CT 764146007" in words
    assert "coded as" not in words


def test_what_contradicts_is_told_above_and_leads_to_the_entries(clinic, clinician):
    entries = [allergy(NKDA, recordedDate="2016-05-02"), allergy(PENICILLIN, **SEVERE)]
    patient = patient_with(clinic, *entries)
    page = clinician.get(f"/patients/{patient}")
    assert in_order(
        page.words,
        "Check: “No known drug allergy”, recorded on 2 May 2016, is still active alongside",
        "active or unresolved",
    )
    addresses = set(page.links.values())
    for one in entries:
        assert f"/patients/{patient}/allergies/{one['id']}" in addresses


def test_every_allergy_of_five_hundred_is_shown(clinic, clinician):
    patient = patient_with(clinic, *(allergy(f"Substance {number}") for number in range(500)))
    page = clinician.get(f"/patients/{patient}")
    assert all(f"Substance {number}" in page.links for number in range(500))


def test_a_patient_of_whom_nothing_is_known_is_told_so(clinic, clinician):
    page = clinician.get(f"/patients/{patient_with(clinic)}")
    assert page.heading == "Name not recorded"
    assert "date of birth not recorded · sex not recorded · no record number" in page.words


def test_a_record_that_is_not_in_use_is_marked(clinic, clinician):
    page = clinician.get(f"/patients/{patient_with(clinic, active=False)}")
    assert "This record is marked as not in active use." in page.words


def test_what_a_record_says_is_shown_and_never_run(clinic, clinician):
    person = {"name": [{"text": HOSTILE}], "identifier": [{"value": HOSTILE}]}
    reaction = {"manifestation": [{"text": HOSTILE}], "description": "x" * 100_000}
    note = [{"text": HOSTILE, "authorString": HOSTILE}]
    one = allergy(HOSTILE, reaction=[reaction], note=note, onsetString=HOSTILE)
    patient = patient_with(clinic, one, **person)
    for path in ("", f"/allergies/{one['id']}", "/viewers"):
        page = clinician.get(f"/patients/{patient}{path}")
        assert page.status == 200
        assert "<script>alert" not in page.response.text
        assert "alert(1)" in page.words
        assert len(page.response.text) < 200_000
        policy = page.headers["Content-Security-Policy"]
        assert "unsafe" not in policy


def test_every_entry_that_r4_allows_is_shown_and_opens(clinic, clinician):
    patient, published = rich(clinic)
    chart = clinician.get(f"/patients/{patient}").response.text
    for row_id in published:
        path = f"/patients/{patient}/allergies/{row_id}"
        assert f'href="{path}"' in chart
        page = clinician.get(path)
        assert (page.status, bool(page.heading)) == (200, True)


def test_a_name_of_a_million_letters_leaves_the_page_small(clinic, clinician):
    patient = patient_with(clinic, allergy("y" * 500_000), name=[{"text": "x" * 900_000}])
    page = clinician.get(f"/patients/{patient}")
    assert page.status == 200
    assert len(page.response.text) < 100_000


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ({"birthDate": "1958-04-12"}, "born 12 April 1958 (68)"),
        ({"birthDate": "1958-11-23"}, "born 23 November 1958 (67)"),
        ({"birthDate": "1958-11"}, "born November 1958 (about 68)"),
        ({"birthDate": "1958"}, "born 1958 (about 68)"),
        ({"birthDate": "2026-11-01"}, "born 1 November 2026 (21 days)"),
        ({"birthDate": "2026-05-01"}, "born 1 May 2026 (6 months)"),
        ({"birthDate": "2027-01-01"}, "born 1 January 2027"),
        ({"birthDate": "1958-04-12", "deceasedDateTime": "2000-04-11"}, "born 12 April 1958 (41)"),
        ({"birthDate": "1958-04-12", "deceasedBoolean": True}, "born 12 April 1958"),
        ({}, "date of birth not recorded"),
    ],
)
def test_an_age_is_told_as_far_as_it_is_known(elements, words):
    assert born(elements, date(2026, 11, 22)) == words


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ({"deceasedDateTime": "2025-03-02T10:00:00+00:00"}, "died 2 March 2025 UTC"),
        ({"deceasedBoolean": True}, "died, date not recorded"),
        ({"deceasedBoolean": False}, ""),
        ({}, ""),
    ],
)
def test_that_somebody_died_is_told(elements, words):
    assert died(elements) == words
