"""From the chart on: an allergy, where it comes from and how it changed; and who has looked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from fhirapp.web.admin.audit_descriptions import PLACES
from fhirapp.web.chart import viewers as listing
from fhirapp.web.chart.versions import changes
from tests.support.allergies import NKA, REFUTED, SEVERE, allergy, patient_with
from tests.support.browsing import Browser, Page, add_person
from tests.support.helpers import Fhir, token_for
from tests.support.publishing import TIMES, delete, publish
from tests.web.test_chart import as_patient, in_order


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app, in which tests put patients of their own."""
    return make_app()


@pytest.fixture
def clinician(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


# An allergy.


def test_an_allergy_tells_what_is_recorded_and_who_recorded_it(clinician):
    page = clinician.get("/patients/p1/allergies/al-p1-penicillin")
    assert page.heading == "Penicillin high criticality"
    assert in_order(
        page.words,
        "record of Amelia Rose Hartwell · born 12 April 1958 · LGH-100237",
        "Same class code Penicillins: amoxicillin, ampicillin, penicillin G, penicillin V. Whoever"
        " reacts to one need not react to the others.",
        *("Recorded by recorder Dr. Folake Adeyemi", "Reported by asserter Amelia Hartwell"),
        *("Carries an alert card.", "Anaphylaxis", "severe", "Urticaria", "moderate"),
        *("Created, 14 February 2023 UTC", "written by Northgate Family Medicine"),
        *(
            "sent by Lakeside General Hospital",
            "Version 1 14 February 2023 UTC · First version.",
        ),
    )


def test_who_acted_for_whom_and_why_is_told(clinic, clinician):
    one = allergy("Nuts", verified=None)
    patient = patient_with(clinic, one)
    agent = {
        "type": {"text": "scribe"},
        "who": {"reference": "#a"},
        "onBehalfOf": {"display": "Dr. Osei"},
    }
    publish(
        clinic,
        TIMES[0],
        {
            "resourceType": "Provenance",
            "id": f"of-{one['id']}",
            "contained": [{"resourceType": "Practitioner", "id": "a", "name": [{"family": "Ó"}]}],
            "target": [{"reference": f"AllergyIntolerance/{one['id']}"}],
            "recorded": "2024-05-06T07:08:09.000+00:00",
            "agent": [agent],
            "reason": [{"text": "Told at the desk"}],
            "entity": [
                {"role": "source", "what": {"reference": "DocumentReference/doc-p1-hp-2024"}}
            ],
        },
    )
    page = clinician.get(f"/patients/{patient}/allergies/{one['id']}")
    assert "Recorded, 6 May 2024 UTC scribe: Ó, on behalf of Dr. Osei" in page.words
    assert "reason: Told at the desk" in page.words
    assert page.links["from Admission history and physical, 18 Jan 2024"] == "/notes/doc-p1-hp-2024"
    assert "Verification verificationStatus not recorded" in page.words
    assert "Reaction not recorded." in page.words


def test_an_allergy_without_origin_is_told_so(clinician):
    page = clinician.get("/patients/p1/allergies/al-p1-ragweed")
    assert "Source not recorded." in page.words


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("p1/allergies/al-p1-metformin", "Entered in error. This entry is not valid."),
        ("p12/allergies/al-p12-penicillin", "Refuted. This is recorded as not true."),
        ("p3/allergies/al-p3-egg", "Resolved or inactive. This is recorded as no longer active."),
    ],
)
def test_an_allergy_that_does_not_hold_says_so_above_all(clinician, path, words):
    page = clinician.get(f"/patients/{path}")
    assert in_order(page.words, words, "What is recorded")
    assert words not in clinician.get("/patients/p1/allergies/al-p1-latex").words


def test_what_is_severe_and_does_not_hold_is_not_red(clinic, clinician):
    one = allergy("Nuts", **SEVERE, **REFUTED)
    path = f"/patients/{patient_with(clinic, one)}/allergies/{one['id']}"
    page = clinician.get(path)
    assert page.heading == "Nuts severe reaction"
    assert "tag risk" not in page.response.text
    assert "tag risk" in clinician.get("/patients/p1/allergies/al-p1-penicillin").response.text


def test_who_wrote_beside_it_is_told_by_name(clinic, clinician):
    author = {"reference": "Practitioner/dr-sato"}
    note = [{"text": "Tolerated.", "authorReference": author, "time": "2024-05-06T07:08:09+00:00"}]
    one = allergy("Nuts", note=note, recorder={"reference": "Practitioner/nobody"})
    words = clinician.get(f"/patients/{patient_with(clinic, one)}/allergies/{one['id']}").words
    assert "Keiko Sato, 6 May 2024 UTC)" in words
    assert "Recorded by recorder Practitioner/nobody" in words


def test_what_contradicts_itself_is_told_on_the_page_of_the_allergy_too(clinic, clinician):
    one = allergy(NKA, criticality="high")
    page = clinician.get(f"/patients/{patient_with(clinic, one)}/allergies/{one['id']}")
    assert "Check This entry is coded as “none known” and as something else." in page.words


def test_the_visit_is_told_in_words_in_each_version(clinician):
    words = clinician.get("/patients/p12/allergies/al-p12-penicillin").words
    assert "Visit encounter Consultation for treatment, 9 Sep 2025" in words
    assert in_order(words, "visit", "→ changed to Consultation for treatment, 9 Sep 2025")
    assert "Encounter/" not in words


def test_what_changed_between_versions_is_told_in_words(clinician):
    page = clinician.get("/patients/p3/allergies/al-p3-egg")
    assert in_order(
        page.words,
        *("Version 3 25 June 2024", "clinical status active → changed to resolved"),
        *("criticality high → changed to low", "Version 2 27 February 2024"),
        *("verification unconfirmed → changed to confirmed", "Version 1 9 March 2023 UTC"),
        "First version.",
    )


def test_an_allergy_that_was_deleted_and_recorded_again_tells_it(clinic, clinician):
    one = allergy("Nuts")
    patient = patient_with(clinic, one)
    delete(clinic, TIMES[1], f"AllergyIntolerance/{one['id']}")
    path = f"/patients/{patient}/allergies/{one['id']}"
    assert clinician.get(path).status == 404
    publish(clinic, TIMES[2], {**one, "patient": {"reference": f"Patient/{patient}"}})
    words = clinician.get(path).words
    assert in_order(words, "Recorded again after deletion.", "Deleted.", "First")


NUTS: Mapping[str, Any] = {"id": "a", "code": {"text": "Nuts"}}


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({}, []),
        ({"code": {"text": "Peanut"}}, [("substance", "Nuts", "Peanut")]),
        ({"criticality": "high"}, [("criticality", "not recorded", "high")]),
        ({"onsetString": "as a child"}, [("onset", "not recorded", "as a child")]),
        ({"category": ["food"]}, [("category", "not recorded", "food")]),
        (
            {"patient": {"reference": "Patient/p2"}},
            [("patient", "not recorded", "Patient/p2")],
        ),
        (
            {"code": {"text": "Nuts", "coding": [{"code": "1"}]}},
            [("substance", "same wording", "recorded differently")],
        ),
        ({"extension": [{"url": "http://x"}]}, [("other details", "", "extension")]),
        ({"modifierExtension": []}, [("other details", "", "modifierExtension")]),
        ({"meta": {"versionId": "2"}, "text": {"div": "x"}}, []),
    ],
)
def test_no_change_is_left_out(after, told):
    assert [tuple(one) for one in changes(NUTS, {**NUTS, **after})] == told


# Who viewed it.


def viewers(browser: Browser, patient: str, query: str = "") -> Page:
    page = browser.get(f"/patients/{patient}/viewers{query}")
    assert page.status == 200
    return page


def test_a_patient_sees_who_looked_through_what_and_at_what(clinic):
    patient = patient_with(clinic, allergy("Nuts"), allergy("Eggs"))
    name = "Dr. Looking Closely"
    Browser(clinic).resume(add_person(clinic, CLINICIAN, name=name)).get(f"/patients/{patient}")
    app = Fhir(clinic, token_for(clinic, "system/*.rs"))
    app.read(f"AllergyIntolerance?patient={patient}&code:text=nuts")
    words = viewers(as_patient(clinic, patient), patient).words
    assert in_order(words, "System (no user)", "an allergy", name)
    assert in_order(
        words, name, "this site: the chart", "2 allergies and intolerances, personal details"
    )


def test_every_page_that_asks_has_a_name():
    assert set(PLACES) - {"pages"} <= set(listing._PAGES)


def test_what_others_records_were_looked_at_is_not_told(clinic):
    patient = patient_with(clinic, allergy("Nuts"))
    other = patient_with(clinic, allergy("Eggs"), allergy("Milk"))
    app = Fhir(clinic, token_for(clinic, "system/*.rs"))
    assert app.read(f"AllergyIntolerance?patient={patient},{other}")["total"] == 3
    page = viewers(as_patient(clinic, patient), patient)
    assert "an allergy" in page.words
    assert "3 allergies and intolerances" not in page.words
    assert other not in page.response.text


def test_who_looked_is_told_page_by_page(clinic, monkeypatch):
    monkeypatch.setattr(listing, "SHOWN", 4)
    patient = patient_with(clinic)
    apps = [
        Browser(clinic).resume(add_person(clinic, CLINICIAN, name=f"Looker {number}"))
        for number in range(5)
    ]
    for one in apps:
        one.get(f"/patients/{patient}/allergies/none")
    page = viewers(Browser(clinic).resume(add_person(clinic, CLINICIAN)), patient)
    words = page.words
    while "Older" in page.links:
        page = page.browser.get(page.links["Older"])
        words += page.words
    for number in range(5):
        assert f"Looker {number}" in words


@pytest.mark.parametrize("before", ["x", "-1", "1" * 16, "²"])
def test_a_page_that_is_none_is_refused(clinician, before):
    page = clinician.get(f"/patients/p1/viewers?before={before}")
    assert page.status == 400
    assert "Start at the first page." in page.words
