"""Names on pages: the current one of several, and none that reverses the direction of text."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Client
from tests.support.allergies import allergy
from tests.support.authorizing import Flow, add_program, alter
from tests.support.browsing import Browser, add_person, id_of
from tests.support.helpers import Fhir, token_for
from tests.support.noted import add, attached, note
from tests.support.pages import browser_of

CURRENT, FORMER = "Anna Weber", "Anna Muster"
# In each the current name is not the first.
NAMES = {
    "maiden-first": [
        {"use": "maiden", "family": "Muster", "given": ["Anna"]},
        {"use": "official", "family": "Weber", "given": ["Anna"]},
    ],
    "old-first": [
        {"use": "old", "family": "Muster", "given": ["Anna"]},
        {"use": "official", "text": CURRENT},
    ],
    "official-ended": [
        {"use": "official", "text": FORMER, "period": {"end": "2010-05-01"}},
        {"use": "usual", "text": CURRENT, "period": {"start": "2010-05-01"}},
    ],
    "official-later": [
        {"use": "official", "text": FORMER, "period": {"start": "1999"}},
        {"use": "official", "text": CURRENT, "period": {"start": "2010"}},
    ],
}
# A code without a display.
CODE = {"system": "http://loinc.org", "code": "99999-9"}
PATHS = {
    CLINICIAN: (
        *("/patients?name={name}", "/patients/{id}", "/patients/{id}/viewers"),
        *("/patients/{id}/allergies/allergy-{id}", "/notes?patient={id}"),
        *("/notes?q=weekly&patient={id}", "/notes/note-{id}", "/launch?name={name}"),
        "/launch?patient={id}",
    ),
    ADMINISTRATOR: (
        *("/admin/patients?find={name}", "/admin/patients/{id}", "/admin/audit?patient={id}"),
    ),
}
# Characters that reverse the direction of text.
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def reversing(word: str) -> str:
    return f"{word} {BIDI}lived"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    app = make_app(seed=False)
    for patient_id, names in NAMES.items():
        subject = {"reference": f"Patient/{patient_id}"}
        latex = allergy("Latex") | {"id": f"allergy-{patient_id}", "patient": subject}
        patient = {"resourceType": "Patient", "id": patient_id, "name": names}
        visit = note(f"note-{patient_id}", attached("Weekly visit."), subject=subject)
        folder = tmp_path_factory.mktemp(patient_id)
        add(app, folder, patient | {"birthDate": "1970-02-03"}, latex, visit)
    subject = {"reference": "Patient/maiden-first"}
    coded = note("note-coded", attached("Seen."), subject=subject, type={"coding": [CODE]})
    add(app, tmp_path_factory.mktemp("coded"), coded)
    subject = {"reference": "Patient/reversed"}
    name = {"family": reversing("Turned"), "given": [reversing("Ada")]}
    patient = {"resourceType": "Patient", "id": "reversed", "name": [name]}
    latex = allergy(
        reversing("Latex"),
        recorder={"display": reversing("Dr.")},
        note=[{"text": reversing("Comment")}],
        reaction=[{"manifestation": [{"text": reversing("Hives")}]}],
    )
    latex |= {"id": "allergy-reversed", "patient": subject}
    for number in (1, 2):
        visit = note(
            "note-reversed",
            attached("Weekly visit.", title=reversing(f"Title {number}")),
            subject=subject,
            type={"text": reversing(f"Type {number}")},
            author=[{"display": reversing(f"Author {number}")}],
            custodian={"display": reversing("Custodian")},
            description=reversing(f"About {number}"),
            category=[{"text": reversing("Category")}],
            securityLabel=[{"text": reversing("Label")}],
        )
        first = (patient | {"identifier": [{"value": reversing("MRN")}]}, latex)
        folder = tmp_path_factory.mktemp(f"reversed-{number}")
        add(app, folder, *(first if number == 1 else ()), visit)
    add_program(app)
    alter(app, update(Client).values(launch_uri="https://app.example/launch"))
    return app


@pytest.mark.parametrize("patient_id", NAMES)
@pytest.mark.parametrize(("role", "part"), [(CLINICIAN, 0), (CLINICIAN, 1), (ADMINISTRATOR, 0)])
def test_page_shows_the_current_name_alone(clinic, role, part, patient_id):
    browser = browser_of(clinic, role)
    for path in PATHS[role][part :: 2 if role == CLINICIAN else 1]:
        page = browser.get(path.format(id=patient_id, name="anna"))
        assert (page.status, CURRENT in page.words, FORMER in page.words) == (
            *(200, True, False),
        ), path


@pytest.mark.parametrize("patient_id", NAMES)
def test_account_consent_and_resources_have_the_current_name_first(clinic, patient_id):
    patient = add_person(clinic, PATIENT, patient_id)
    browser, administrator = Browser(clinic).resume(patient), browser_of(clinic, ADMINISTRATOR)
    flow = Flow(clinic, add_program(clinic), id_of(clinic, patient))
    query = flow.parameters("launch/patient patient/*.rs")
    for page in (
        browser.get("/patients"),
        administrator.get(f"/admin/users/{id_of(clinic, patient)}"),
        browser.get("/oauth/authorize", query_string=query),
    ):
        assert (CURRENT in page.words, FORMER in page.words) == (True, False), page.path
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    for resource in (
        fhir.read(f"Patient/{patient_id}"),
        fhir.read(f"Patient/{patient_id}/$summary")["entry"][1]["resource"],
    ):
        assert f"<td>{CURRENT}, {FORMER}</td>" in resource["text"]["div"]
    page = browser_of(clinic, CLINICIAN).get("/explore?address=/fhir/Patient?_id=maiden-first")
    assert f"{CURRENT}, {FORMER}" in page.words


def test_code_without_words_has_the_name_of_its_system_everywhere(clinic):
    browser = browser_of(clinic, CLINICIAN)
    for path in (
        *("/notes/note-coded", "/notes?patient=maiden-first", "/patients/maiden-first"),
        "/explore?address=/fhir/DocumentReference?_id=note-coded",
    ):
        assert "LOINC 99999-9" in browser.get(path).words, path
    page = browser.get("/launch?patient=maiden-first")
    assert "LOINC 99999-9, 1 June 2025" in page.response.text
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    assert "LOINC 99999-9" in fhir.read("DocumentReference/note-coded")["text"]["div"]


def test_text_of_a_record_reverses_no_page_and_is_stored_as_it_was(clinic):
    explorer = "/explore?address=/fhir/"
    more = (
        *("/notes/note-{id}/versions", "/notes/note-{id}/difference?from=1&to=2"),
        *("/notes?q=weekly", "/notes/note-{id}?q=weekly", f"{explorer}Patient?_id={{id}}"),
        *(
            f"{explorer}DocumentReference?patient={{id}}",
            f"{explorer}AllergyIntolerance?patient={{id}}",
        ),
    )
    for role, paths in PATHS.items():
        browser = browser_of(clinic, role)
        for path in (*paths, *(more if role == CLINICIAN else ())):
            page = browser.get(path.format(id="reversed", name="turned"))
            assert (page.status, "lived" in page.response.text) == (200, True), path
            assert not re.search(f"[{BIDI}]", page.response.text), path
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    document = fhir.read("DocumentReference/note-reversed")
    assert document["author"] == [{"display": reversing("Author 2")}]
    assert document["content"][0]["attachment"]["title"] == reversing("Title 2")
    assert fhir.read("Patient/reversed")["name"][0]["given"] == [reversing("Ada")]
