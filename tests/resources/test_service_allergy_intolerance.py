"""service.md 2.3 and 3: AllergyIntolerance, field by field, in every entry that is served."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.support.importing import asking, load_lines

ID = r"[A-Za-z0-9\-.]{1,64}"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?\+00:00")
DATE_TIME = re.compile(rf"\d{{4}}(-\d\d(-\d\d)?)?|{INSTANT.pattern}")
CLINICAL = "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical"
VERIFICATION = "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification"
SNOMED = "http://snomed.info/sct"
ABSENT = "http://hl7.org/fhir/StructureDefinition/data-absent-reason"


@pytest.fixture
def allergies(fhir):
    """Every entry that a search answers, by id."""
    found = [entry["resource"] for entry in fhir.read("AllergyIntolerance")["entry"]]
    assert len(found) > 35
    return {allergy["id"]: allergy for allergy in found}


def codes(concept):
    """Return the (system, code) pairs of a CodeableConcept."""
    return [(coding.get("system"), coding["code"]) for coding in concept["coding"]]


def test_each_entry_is_named_and_versioned_as_it_is_read(allergies, fhir):
    # 2.3 resourceType: AllergyIntolerance.
    assert {allergy["resourceType"] for allergy in allergies.values()} == {"AllergyIntolerance"}
    # 2.3 id: the id of the entry.
    # 2.3 meta.versionId: the version of the entry, a string.
    assert allergies["al-p3-egg"]["meta"]["versionId"] == "3"
    for row_id in ("al-p3-egg", "al-p2-morphine", "al-p1-latex"):
        response = fhir.get(f"AllergyIntolerance/{row_id}")
        assert response.get_json(force=True) == allergies[row_id]
        assert response.headers["ETag"] == f'W/"{allergies[row_id]["meta"]["versionId"]}"'
    for row_id, allergy in allergies.items():
        assert re.fullmatch(ID, row_id)
        # 2.3 meta.lastUpdated: a full time, in the +00:00 form.
        assert INSTANT.fullmatch(allergy["meta"]["lastUpdated"])


def test_type_and_statuses_are_of_their_code_systems(allergies):
    # 2.3 type: allergy occurs, and intolerance.
    types = {allergy["type"] for allergy in allergies.values() if "type" in allergy}
    assert types == {"allergy", "intolerance"}
    # 2.3 clinicalStatus: absent only on what was entered in error (FHIR R4 invariant ait-2).
    found = set()
    for allergy in allergies.values():
        if "clinicalStatus" in allergy:
            found.update(codes(allergy["clinicalStatus"]))
        else:
            assert codes(allergy["verificationStatus"]) == [(VERIFICATION, "entered-in-error")]
    assert found == {(CLINICAL, code) for code in ("active", "inactive", "resolved")}
    # 2.3 verificationStatus: confirmation of the entry on the chart.
    found = {
        pair for allergy in allergies.values() for pair in codes(allergy["verificationStatus"])
    }
    assert found == {
        (VERIFICATION, code) for code in ("unconfirmed", "confirmed", "refuted", "entered-in-error")
    }
    # 3 AllergyIntolerance.clinicalStatus code: active.
    # 3 AllergyIntolerance.verificationStatus code: confirmed.
    penicillin = allergies["al-p1-penicillin"]
    assert codes(penicillin["clinicalStatus"]) == [(CLINICAL, "active")]
    assert codes(penicillin["verificationStatus"]) == [(VERIFICATION, "confirmed")]


def test_patient_and_encounter_are_references_to_resources_here(allergies, fhir):
    # 2.3 patient: of the form Patient/<patient_id>.
    # 2.3 encounter: of the form Encounter/<encounter_id>.
    for name, type_name in (("patient", "Patient"), ("encounter", "Encounter")):
        found = {allergy[name]["reference"] for allergy in allergies.values() if name in allergy}
        assert len(found) >= 10
        for reference in found:
            assert re.fullmatch(rf"{type_name}/{ID}", reference)
            fhir.read(reference)


def test_a_reaction_is_coded_in_snomed_ct(allergies):
    """2.3 reaction[].manifestation: SNOMED CT, and 261665006 where the reaction is unknown."""
    coded = [
        (row_id, pair)
        for row_id, one in allergies.items()
        for reaction in one.get("reaction", ())
        for manifestation in reaction["manifestation"]
        for pair in codes(manifestation)
    ]
    assert [pair for _, pair in coded if pair[0] != SNOMED] == []
    assert ("al-p2-lidocaine", (SNOMED, "261665006")) in coded


def test_an_unknown_route_carries_the_reason_for_its_absence(allergies):
    """2.3 reaction[].exposureRoute: coded, or an extension with valueCode unknown."""
    (reaction,) = allergies["al-p2-lidocaine"]["reaction"]
    assert reaction["exposureRoute"] == {"extension": [{"url": ABSENT, "valueCode": "unknown"}]}
    routes = [
        reaction["exposureRoute"]
        for allergy in allergies.values()
        for reaction in allergy.get("reaction", ())
        if "exposureRoute" in reaction
    ]
    assert len(routes) > 20
    for route in routes:
        assert "coding" in route or route == reaction["exposureRoute"]


def test_every_entry_has_a_narrative(allergies):
    """2.3 text: status and div, an HTML fragment; generated where the source brings none."""
    assert {allergy["text"]["status"] for allergy in allergies.values()} == {
        "generated",
        "additional",
    }
    for allergy in allergies.values():
        assert allergy["text"].keys() == {"status", "div"}
        div = ElementTree.fromstring(allergy["text"]["div"])
        assert div.tag == "{http://www.w3.org/1999/xhtml}div"
        assert "".join(div.itertext()).strip()


def test_the_onset_is_a_date_time(allergies):
    """2.3 onsetDateTime: as precise as it was noted."""
    onsets = {
        allergy["onsetDateTime"] for allergy in allergies.values() if "onsetDateTime" in allergy
    }
    assert {len(onset) for onset in onsets} == {4, 7, 10, 25}
    for onset in onsets:
        assert DATE_TIME.fullmatch(onset)


def test_no_known_drug_allergy_is_unable_to_assess(allergies):
    """2.3 criticality: unable-to-assess when the record is NKDA."""
    nkda = [
        allergy
        for allergy in allergies.values()
        if codes(allergy["code"]) == [(SNOMED, "409137002")]
    ]
    assert [allergy["id"] for allergy in nkda] == ["al-p4-nkda"]
    assert [allergy["criticality"] for allergy in nkda] == ["unable-to-assess"]
    risks = {allergy["criticality"] for allergy in allergies.values() if "criticality" in allergy}
    assert risks == {"low", "high", "unable-to-assess"}


def test_a_risk_that_cannot_be_told_is_unable_to_assess(fhir):
    """3 AllergyIntolerance.criticality: unable-to-assess."""
    found = fhir.ids("AllergyIntolerance?criticality=unable-to-assess")
    assert sorted(found) == ["al-p13-nka", "al-p2-lidocaine", "al-p4-nkda", "al-p5-antibiotic"]


def test_the_recorder_is_a_practitioner_with_a_name(allergies, fhir):
    """2.3 recorder: reference and display; one of them stands in the entry itself."""
    recorders = {row_id: one["recorder"] for row_id, one in allergies.items() if "recorder" in one}
    assert recorders.pop("al-p7-bee")["reference"] == "#camp-doctor"
    assert allergies["al-p7-bee"]["contained"][0]["id"] == "camp-doctor"
    for recorder in recorders.values():
        assert re.fullmatch(rf"Practitioner/{ID}", recorder["reference"])
        assert recorder["display"]
    for reference in {recorder["reference"] for recorder in recorders.values()}:
        fhir.read(reference)


def test_the_code_is_of_a_system_that_service_md_names(allergies):
    """2.3 code: SNOMED CT or RxNorm; text with a name."""
    found = {
        (system, row_id) for row_id, one in allergies.items() for system, _ in codes(one["code"])
    }
    assert {system for system, _ in found} == {
        SNOMED,
        "http://www.nlm.nih.gov/research/umls/rxnorm",
        "http://terminology.hl7.org/CodeSystem/v3-NullFlavor",
        "http://terminology.hl7.org/CodeSystem/data-absent-reason",
    }
    for allergy in allergies.values():
        assert allergy["code"]["text"]


def test_substance_codes_of_service_md_are_kept_and_found(make_app, tmp_path):
    """2.3 code: a value set's address, which validators refuse; so the demo has none."""
    app = make_app()
    system = "http://hl7.org/fhir/ValueSet/substance-code"
    code = {"coding": [{"system": system, "code": "256303006"}], "text": "Ragweed"}
    ragweed = {
        "resourceType": "AllergyIntolerance",
        "id": "ragweed",
        "code": code,
        "patient": {"reference": "Patient/p9"},
    }
    load_lines(app, tmp_path, ragweed)
    found = asking(app).read(f"AllergyIntolerance?code={system}|256303006")
    assert [entry["resource"]["code"] for entry in found["entry"]] == [code]


def test_no_information_is_coded_as_service_md_says(allergies):
    assert allergies["al-p6-no-information"]["code"]["coding"] == [
        {
            "system": "http://terminology.hl7.org/CodeSystem/v3-NullFlavor",
            "code": "NI",
            "display": "NoInformation",
            "userSelected": False,
        }
    ]
