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
    return {one["id"]: one for one in found}


def codes(concept):
    """Return the (system, code) pairs of a CodeableConcept."""
    return [(coding.get("system"), coding["code"]) for coding in concept["coding"]]


def test_the_type_is_named(allergies):
    """2.3 resourceType: AllergyIntolerance."""
    assert {one["resourceType"] for one in allergies.values()} == {"AllergyIntolerance"}


def test_the_id_is_the_one_it_is_read_by(allergies, fhir):
    """2.3 id: the id of the entry."""
    for row_id in list(allergies)[:5]:
        assert re.fullmatch(ID, row_id)
        assert fhir.read(f"AllergyIntolerance/{row_id}") == allergies[row_id]


def test_the_version_id_is_that_of_the_etag(allergies, fhir):
    """2.3 meta.versionId: the version of the entry, a string."""
    assert allergies["al-p3-egg"]["meta"]["versionId"] == "3"
    for row_id in ("al-p3-egg", "al-p2-morphine", "al-p1-latex"):
        etag = fhir.get(f"AllergyIntolerance/{row_id}").headers["ETag"]
        assert etag == f'W/"{allergies[row_id]["meta"]["versionId"]}"'


def test_the_time_of_the_last_update_has_an_offset(allergies):
    """2.3 meta.lastUpdated: a full time, in the +00:00 form."""
    for one in allergies.values():
        assert INSTANT.fullmatch(one["meta"]["lastUpdated"])


def test_the_kind_of_entry(allergies):
    """2.3 type: allergy occurs, and intolerance."""
    assert {one["type"] for one in allergies.values() if "type" in one} == {
        "allergy",
        "intolerance",
    }


def test_the_clinical_status_is_of_its_code_system(allergies):
    """2.3 clinicalStatus: absent only on what was entered in error (FHIR R4 invariant ait-2)."""
    found = set()
    for one in allergies.values():
        if "clinicalStatus" in one:
            found.update(codes(one["clinicalStatus"]))
        else:
            assert codes(one["verificationStatus"]) == [(VERIFICATION, "entered-in-error")]
    assert found == {(CLINICAL, code) for code in ("active", "inactive", "resolved")}


def test_an_entry_that_holds_is_active(allergies):
    """3 AllergyIntolerance.clinicalStatus code: active."""
    assert codes(allergies["al-p1-penicillin"]["clinicalStatus"]) == [(CLINICAL, "active")]


def test_the_verification_status_is_of_its_code_system(allergies):
    """2.3 verificationStatus: confirmation of the entry on the chart."""
    found = {pair for one in allergies.values() for pair in codes(one["verificationStatus"])}
    assert found == {
        (VERIFICATION, code) for code in ("unconfirmed", "confirmed", "refuted", "entered-in-error")
    }


def test_an_entry_on_the_chart_is_confirmed(allergies):
    """3 AllergyIntolerance.verificationStatus code: confirmed."""
    assert codes(allergies["al-p1-penicillin"]["verificationStatus"]) == [
        (VERIFICATION, "confirmed")
    ]


def test_the_patient_is_one_here(allergies, fhir):
    """2.3 patient: of the form Patient/<patient_id>."""
    for patient in {one["patient"]["reference"] for one in allergies.values()}:
        assert re.fullmatch(rf"Patient/{ID}", patient)
        fhir.read(patient)


def test_the_encounter_is_one_here(allergies, fhir):
    """2.3 encounter: of the form Encounter/<encounter_id>."""
    encounters = {one["encounter"]["reference"] for one in allergies.values() if "encounter" in one}
    assert len(encounters) > 10
    for encounter in encounters:
        assert re.fullmatch(rf"Encounter/{ID}", encounter)
        fhir.read(encounter)


def test_a_reaction_is_coded_in_snomed_ct(allergies):
    """2.3 reaction[].manifestation: SNOMED CT, and 261665006 where the reaction is unknown."""
    coded = [
        (row_id, pair)
        for row_id, one in allergies.items()
        for reaction in one.get("reaction", ())
        for manifestation in reaction["manifestation"]
        for pair in codes(manifestation)
    ]
    assert [one for one in coded if one[1][0] != SNOMED] == []
    assert ("al-p2-lidocaine", (SNOMED, "261665006")) in coded


def test_an_unknown_route_carries_the_reason_for_its_absence(allergies):
    """2.3 reaction[].exposureRoute: coded, or an extension with valueCode unknown."""
    (reaction,) = allergies["al-p2-lidocaine"]["reaction"]
    assert reaction["exposureRoute"] == {"extension": [{"url": ABSENT, "valueCode": "unknown"}]}
    routes = [
        reaction["exposureRoute"]
        for one in allergies.values()
        for reaction in one.get("reaction", ())
        if "exposureRoute" in reaction
    ]
    assert len(routes) > 20
    for route in routes:
        assert "coding" in route or route == reaction["exposureRoute"]


def test_every_entry_has_a_narrative(allergies):
    """2.3 text: status and div, an HTML fragment; generated where the source brings none."""
    assert {one["text"]["status"] for one in allergies.values()} == {"generated", "additional"}
    for one in allergies.values():
        assert one["text"].keys() == {"status", "div"}
        div = ElementTree.fromstring(one["text"]["div"])
        assert div.tag == "{http://www.w3.org/1999/xhtml}div"
        assert "".join(div.itertext()).strip()


def test_the_onset_is_a_date_time(allergies):
    """2.3 onsetDateTime: as precise as it was noted."""
    onsets = {one["onsetDateTime"] for one in allergies.values() if "onsetDateTime" in one}
    assert {len(onset) for onset in onsets} == {4, 7, 10, 25}
    for onset in onsets:
        assert DATE_TIME.fullmatch(onset)


def test_no_known_drug_allergy_is_unable_to_assess(allergies):
    """2.3 criticality: unable-to-assess when the record is NKDA."""
    nkda = [one for one in allergies.values() if codes(one["code"]) == [(SNOMED, "409137002")]]
    assert [one["id"] for one in nkda] == ["al-p4-nkda"]
    assert [one["criticality"] for one in nkda] == ["unable-to-assess"]
    risks = {one["criticality"] for one in allergies.values() if "criticality" in one}
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
    for one in allergies.values():
        assert one["code"]["text"]


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
    assert [one["resource"]["code"] for one in found["entry"]] == [code]


def test_no_information_is_coded_as_service_md_says(allergies):
    assert allergies["al-p6-no-information"]["code"]["coding"] == [
        {
            "system": "http://terminology.hl7.org/CodeSystem/v3-NullFlavor",
            "code": "NI",
            "display": "NoInformation",
            "userSelected": False,
        }
    ]
