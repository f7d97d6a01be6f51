"""An allergy's page, with its origin and versions; and the page of who has viewed a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.features.chart import viewers as listing
from fhirapp.features.chart.versions import changes
from tests.support.allergies import REFUTED, SEVERE, allergy, patient_with
from tests.support.helpers import Fhir, token_for
from tests.support.pages import browser_of, elements, in_order, links, texts
from tests.support.publishing import TIMES, delete, publish

METFORMIN, LATEX = "/patients/p1/allergies/al-p1-metformin", "/patients/p1/allergies/al-p1-latex"


def test_page_shows_what_is_recorded_and_by_whom(clinician):
    page = clinician.get("/patients/p1/allergies/al-p1-penicillin")
    assert page.heading.startswith("Penicillin")
    assert texts(page, "span.tag.risk") == ["high criticality"]
    assert in_order(
        page.words,
        *("Amelia Rose Hartwell", "12 April 1958", "LGH-100237"),
        "Penicillins: amoxicillin, ampicillin, penicillin G, penicillin V",
        *("recorder Dr. Folake Adeyemi", "asserter Amelia Hartwell", "Carries an alert card."),
        *("Anaphylaxis", "severe", "Urticaria", "moderate", "14 February 2023 UTC"),
        *("Northgate Family Medicine", "Lakeside General Hospital", "14 February 2023 UTC"),
    )


def test_provenance_names_agent_principal_reason_and_source(clinic, clinician):
    nuts = allergy("Nuts", verified=None)
    patient = patient_with(clinic, nuts)
    agent = {"type": {"text": "scribe"}, "who": {"reference": "#a"}}
    source = {"reference": "DocumentReference/doc-p1-hp-2024"}
    provenance = {
        "resourceType": "Provenance",
        "id": f"of-{nuts['id']}",
        "contained": [{"resourceType": "Practitioner", "id": "a", "name": [{"family": "Ó"}]}],
        "target": [{"reference": f"AllergyIntolerance/{nuts['id']}"}],
        "recorded": "2024-05-06T07:08:09.000+00:00",
        "agent": [agent | {"onBehalfOf": {"display": "Dr. Osei"}}],
        "reason": [{"text": "Told at the desk"}],
        "entity": [{"role": "source", "what": source}],
    }
    publish(clinic, TIMES[0], provenance)
    page = clinician.get(f"/patients/{patient}/allergies/{nuts['id']}")
    (origin,) = texts(page, "div.origin")
    assert in_order(origin, "6 May 2024 UTC", "scribe: Ó", "Dr. Osei", "Told at the desk")
    assert links(page, "/notes/") == ["/notes/doc-p1-hp-2024"]


def test_allergy_that_does_not_hold_says_so_above_its_facts_and_is_not_red(clinic, clinician):
    nuts = allergy("Nuts", **SEVERE, **REFUTED)
    refuted = f"/patients/{patient_with(clinic, nuts)}/allergies/{nuts['id']}"
    for path in (METFORMIN, refuted, "/patients/p3/allergies/al-p3-egg"):
        page = clinician.get(path)
        assert len(elements(page, "p.standing")) == 1
        assert page.response.text.index('"standing"') < page.response.text.index('id="what"')
        assert elements(page, "span.tag.risk") == []
    assert clinician.get(refuted).heading == "Nuts severe reaction"
    assert elements(clinician.get(LATEX), "p.standing") == []


def test_authors_are_shown_by_name_and_as_a_reference_where_they_are_unknown(clinic, clinician):
    author = {"reference": "Practitioner/dr-sato"}
    note = [{"text": "Tolerated.", "authorReference": author, "time": "2024-05-06T07:08:09+00:00"}]
    nuts = allergy("Nuts", note=note, recorder={"reference": "Practitioner/nobody"})
    words = clinician.get(f"/patients/{patient_with(clinic, nuts)}/allergies/{nuts['id']}").words
    assert "Keiko Sato, 6 May 2024 UTC)" in words
    assert "recorder Practitioner/nobody" in words


def test_versions_show_what_changed_in_words(clinician):
    egg = clinician.get("/patients/p3/allergies/al-p3-egg")
    versions = [texts(version, "dd")[:2] for version in elements(egg, "ol.plain")[0]]
    assert versions[0] == ["active → changed to resolved", "high → changed to low"]
    assert "unconfirmed → changed to confirmed" in versions[1]
    assert versions[2] == []
    words = clinician.get("/patients/p12/allergies/al-p12-penicillin").words
    visit = "Consultation for treatment, 9 Sep 2025"
    assert in_order(words, f"encounter {visit}", f"changed to {visit}")
    assert "Encounter/" not in words


def test_allergy_that_was_deleted_and_recorded_again_shows_both(clinic, clinician):
    nuts = allergy("Nuts")
    patient = patient_with(clinic, nuts)
    path = f"/patients/{patient}/allergies/{nuts['id']}"
    delete(clinic, TIMES[1], f"AllergyIntolerance/{nuts['id']}")
    assert clinician.get(path).status == 404
    publish(clinic, TIMES[2], {**nuts, "patient": {"reference": f"Patient/{patient}"}})
    (versions,) = texts(clinician.get(path), "ol.plain")
    assert in_order(versions, "Recorded again after deletion.", "Deleted.", "First")


def test_no_change_between_versions_is_left_out():
    nuts: Mapping[str, Any] = {"id": "a", "code": {"text": "Nuts"}}
    recoded = {"code": {"text": "Nuts", "coding": [{"code": "1"}]}}
    cases: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
        ({}, []),
        ({"code": {"text": "Peanut"}}, [("Substance", "Nuts", "Peanut")]),
        ({"criticality": "high"}, [("Criticality", "not recorded", "high")]),
        (
            {"clinicalStatus": {"text": "dormant"}},
            [("Clinical status", "not recorded", "dormant")],
        ),
        ({"onsetString": "as a child"}, [("Onset", "not recorded", "as a child")]),
        ({"category": ["food"]}, [("Category", "not recorded", "food")]),
        ({"patient": {"reference": "Patient/p2"}}, [("Patient", "not recorded", "Patient/p2")]),
        (recoded, [("Substance", "same wording", "recorded differently")]),
        ({"extension": [{"url": "http://x"}]}, [("other details", "", "extension")]),
        ({"modifierExtension": []}, [("other details", "", "modifierExtension")]),
        ({"meta": {"versionId": "2"}, "text": {"div": "x"}}, []),
    ]
    found = [[tuple(change) for change in changes(nuts, {**nuts, **after})] for after, _ in cases]
    assert found == [expected for _, expected in cases]


# Who has viewed a record.


def test_patient_sees_who_viewed_what_with_which_app(clinic):
    patient = patient_with(clinic, allergy("Nuts"), allergy("Eggs"))
    other = patient_with(clinic, allergy("Eggs"), allergy("Milk"))
    name = "Dr. Looking Closely"
    browser_of(clinic, CLINICIAN, name=name).get(f"/patients/{patient}")
    app = Fhir(clinic, token_for(clinic, "system/*.rs"))
    search = f"AllergyIntolerance?patient={patient},{other}&code:text=eggs"
    assert app.read(search)["total"] == 2
    page = browser_of(clinic, PATIENT, patient).get(f"/patients/{patient}/viewers")
    shown = {texts(row, "th")[0]: texts(row, "td")[1:] for row in elements(page, "tr")[1:]}
    # Of a search for two patients only this one's allergy is counted.
    assert "an allergy" in shown["System (no user)"][1]
    assert in_order(shown[name][1], "2 allergies", "personal details")
    assert other not in page.response.text


def test_viewers_are_listed_page_by_page(clinic, clinician, monkeypatch):
    monkeypatch.setattr(listing, "SHOWN", 4)
    patient = patient_with(clinic)
    for number in range(5):
        viewer = browser_of(clinic, CLINICIAN, name=f"Viewer {number}")
        viewer.get(f"/patients/{patient}/allergies/none")
    path = f"/patients/{patient}/viewers"
    page = clinician.get(path)
    words = page.words
    while older := links(page, f"{path}?before="):
        page = clinician.get(older[0])
        words += page.words
    assert [number for number in range(5) if f"Viewer {number}" not in words] == []


def test_page_number_that_is_none_is_refused(clinician):
    numbers = ("x", "-1", "1" * 16, "²")
    found = {number: clinician.get(f"/patients/p1/viewers?before={number}") for number in numbers}
    assert {page.status for page in found.values()} == {400}
