"""A patient with several names has one name on every page: the current one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from tests.support.authorizing import Flow, add_program
from tests.support.browsing import Browser, add_person, id_of
from tests.support.helpers import Fhir, token_for
from tests.support.noted import add, attached, note

CURRENT, FORMER = "Anna Weber", "Anna Muster"
# In each the current name is not the first.
RECORDS = {
    "maiden-first": [
        {"use": "maiden", "family": "Muster", "given": ["Anna"]},
        {"use": "official", "family": "Weber", "given": ["Anna"]},
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
CLINICIANS = (
    "/patients?name=anna&born=1970-02-03",
    "/patients/{id}",
    "/patients/{id}/allergies/allergy-{id}",
    "/patients/{id}/viewers",
    "/notes?patient={id}",
    "/notes?q=weekly&patient={id}",
    "/notes/note-{id}",
    "/launch?name=anna&born=1970-02-03",
    "/launch?patient={id}",
)
ADMINISTRATORS = (
    "/admin/patients?find=anna",
    "/admin/patients/{id}",
    "/admin/audit?patient={id}",
)


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    app = make_app(seed=False)
    for patient_id, names in RECORDS.items():
        subject = {"reference": f"Patient/{patient_id}"}
        add(
            app,
            tmp_path_factory.mktemp(patient_id),
            {
                "resourceType": "Patient",
                "id": patient_id,
                "name": names,
                "birthDate": "1970-02-03",
            },
            {
                "resourceType": "AllergyIntolerance",
                "id": f"allergy-{patient_id}",
                "patient": subject,
                "code": {"text": "Latex"},
                "clinicalStatus": {
                    "coding": [
                        {
                            "system": "http://terminology.hl7.org/CodeSystem/"
                            "allergyintolerance-clinical",
                            "code": "active",
                        }
                    ]
                },
            },
            note(f"note-{patient_id}", attached("Weekly visit."), subject=subject),
        )
    return app


@pytest.mark.parametrize("patient_id", RECORDS)
@pytest.mark.parametrize(
    ("role", "path"),
    [
        *((CLINICIAN, path) for path in CLINICIANS),
        *((ADMINISTRATOR, one) for one in ADMINISTRATORS),
    ],
)
def test_a_page_shows_the_current_name_alone(clinic, patient_id, role, path):
    page = Browser(clinic).resume(add_person(clinic, role)).get(path.format(id=patient_id))
    assert page.status == 200
    assert CURRENT in page.words
    assert FORMER not in page.words


@pytest.mark.parametrize("patient_id", RECORDS)
def test_account_and_consent_show_the_current_name(clinic, patient_id):
    patient = add_person(clinic, PATIENT, patient_id)
    assert CURRENT in Browser(clinic).resume(patient).get("/patients").words
    administrator = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    account = administrator.get(f"/admin/users/{id_of(clinic, patient)}").words
    assert CURRENT in account
    assert FORMER not in account
    flow = Flow(clinic, add_program(clinic), id_of(clinic, patient))
    consent = (
        Browser(clinic)
        .resume(patient)
        .get("/oauth/authorize", query_string=flow.parameters("launch/patient patient/*.rs"))
    )
    assert CURRENT in consent.words
    assert FORMER not in consent.words


@pytest.mark.parametrize("patient_id", RECORDS)
def test_narrative_and_summary_name_the_current_name_first(clinic, patient_id):
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    for patient in (
        fhir.read(f"Patient/{patient_id}"),
        fhir.read(f"Patient/{patient_id}/$summary")["entry"][1]["resource"],
    ):
        assert f"<td>{CURRENT}, {FORMER}</td>" in patient["text"]["div"]


def test_the_explorer_lists_the_current_name_first(clinic):
    browser = Browser(clinic).resume(add_person(clinic, CLINICIAN))
    address = "/fhir/Patient?_id=maiden-first"
    page = browser.get("/explore", query_string={"address": address})
    assert f"{CURRENT}, {FORMER}" in page.words
