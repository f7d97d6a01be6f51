"""Provenance: who made or sent a resource, and who may know. decisions 2.16, §6."""

from __future__ import annotations

import pytest

from tests.conftest import token_for
from tests.contract import publish
from tests.helpers import BASE_URL, Fhir, assert_outcome, ids, link

ROLE = "http://terminology.hl7.org/CodeSystem/provenance-participant-type"
US_CORE_ROLE = "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type"
WITH = "_revinclude=Provenance:target"
LATER = "2026-03-01T00:00:00.000+00:00"


@pytest.mark.parametrize(
    ("path", "included"),
    [
        ("AllergyIntolerance?patient=p4", ["prov-p4-nkda"]),
        ("AllergyIntolerance?patient=p1", ["prov-p1-metformin", "prov-p1-list",
                                           "prov-p1-penicillin"]),
        ("AllergyIntolerance?_id=al-p1-latex", ["prov-p1-list"]),
        # one Provenance for two documents comes once
        ("DocumentReference?_id=doc-p12-discharge-2023,doc-p12-discharge-2023-corrected",
         ["prov-p12-knee"]),
        ("DocumentReference?patient=p1", ["prov-p1-consult", "prov-p1-discharge"]),
        ("AllergyIntolerance?patient=p8", []),
        ("AllergyIntolerance?_id=nobody", []),
        ("AllergyIntolerance?patient=p4&_summary=count", []),
    ],
)  # fmt: skip
def test_a_search_brings_the_provenance_of_its_matches(fhir, path, included):
    alone, bundle = fhir.read(path), fhir.read(f"{path}&{WITH}")
    assert ids(bundle, "include") == included
    assert bundle["total"] == alone["total"]
    assert ids(bundle) == ids(alone)
    for entry in bundle.get("entry", ()):
        if entry["search"]["mode"] == "include":
            row_id = entry["resource"]["id"]
            assert entry["fullUrl"] == f"{BASE_URL}/fhir/Provenance/{row_id}"
            assert entry["resource"] == fhir.read(f"Provenance/{row_id}")


def test_each_page_brings_that_of_its_own_matches(fhir):
    address, pages = f"AllergyIntolerance?patient=p1&_count=2&{WITH}", []
    while address is not None:
        page = fhir.read(address)
        pages.append((ids(page), ids(page, "include")))
        address = link(page, "next")
    assert pages == [
        (["al-p1-ragweed", "al-p1-metformin"], ["prov-p1-metformin"]),
        (["al-p1-ibuprofen", "al-p1-latex"], ["prov-p1-list"]),
        (["al-p1-sulfa", "al-p1-penicillin"], ["prov-p1-list", "prov-p1-penicillin"]),
    ]


def test_a_provenance_names_author_and_transmitter(fhir):
    provenance = fhir.read("Provenance/prov-p1-penicillin")
    roles = {agent["type"]["coding"][0]["code"]: agent for agent in provenance["agent"]}
    assert roles.keys() == {"author", "transmitter"}
    assert roles["author"]["type"]["coding"][0]["system"] == ROLE
    assert roles["transmitter"]["type"]["coding"][0]["system"] == US_CORE_ROLE
    assert roles["transmitter"]["who"]["reference"].startswith("Organization/")
    assert provenance["target"] == [{"reference": "AllergyIntolerance/al-p1-penicillin"}]


def test_a_patient_reads_the_provenance_of_the_own_record(as_patient):
    fhir = as_patient("p1")
    assert fhir.get("Provenance/prov-p1-list").status_code == 200
    assert fhir.get("Provenance/prov-p1-list/_history/1").status_code == 200
    assert fhir.read("Provenance/prov-p1-list/_history")["total"] == 1
    for tail in ("", "/_history", "/_history/1"):
        assert fhir.get(f"Provenance/prov-p4-nkda{tail}").status_code == 404


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ("system/AllergyIntolerance.rs", 200),
        ("system/DocumentReference.rs", 404),
        ("system/AllergyIntolerance.rs?code=http://snomed.info/sct|409137002", 200),
        ("system/AllergyIntolerance.rs?code=http://snomed.info/sct|1", 404),
        ("system/AllergyIntolerance.s", 403),
    ],
)
def test_a_provenance_is_read_by_whoever_may_read_its_target(app, scope, status):
    fhir = Fhir(app, token_for(app, scope))
    assert fhir.get("Provenance/prov-p4-nkda").status_code == status


@pytest.fixture(scope="module")
def mixed(make_app):
    """An app with a Provenance of two patients' entries, and one of an allergy and a document."""
    app = make_app()
    agent = [{"who": {"reference": "Organization/org-lakeside"}}]
    targets = {
        "prov-two-patients": ["AllergyIntolerance/al-p4-nkda", "AllergyIntolerance/al-p1-latex"],
        "prov-two-types": ["AllergyIntolerance/al-p4-nkda", "DocumentReference/doc-p4-hp-2025"],
        "prov-elsewhere": ["AllergyIntolerance/al-p4-nkda", "Observation/o1"],
    }
    provenances = [
        {
            "resourceType": "Provenance",
            "id": row_id,
            "target": [{"reference": reference} for reference in references],
            "recorded": LATER,
            "agent": agent,
        }
        for row_id, references in targets.items()
    ]
    publish(app, *provenances, now=LATER)
    return app


@pytest.mark.parametrize(
    ("scope", "patient", "seen"),
    [
        ("system/*.rs", None, ["prov-two-types", "prov-two-patients", "prov-p4-nkda"]),
        ("patient/*.rs", "p4", ["prov-two-types", "prov-p4-nkda"]),
        ("system/AllergyIntolerance.rs", None, ["prov-two-patients", "prov-p4-nkda"]),
        ("patient/AllergyIntolerance.rs", "p4", ["prov-p4-nkda"]),
    ],
)
def test_every_target_must_be_visible(mixed, scope, patient, seen):
    fhir = Fhir(mixed, token_for(mixed, scope, patient=patient))
    bundle = fhir.read(f"AllergyIntolerance?_id=al-p4-nkda&{WITH}")
    assert ids(bundle, "include") == seen
    for row_id in ("prov-two-types", "prov-two-patients", "prov-p4-nkda", "prov-elsewhere"):
        status = 200 if row_id in seen else 404
        for tail in ("", "/_history/1", "/_history"):
            assert fhir.get(f"Provenance/{row_id}{tail}").status_code == status


def test_provenance_itself_is_not_searched(fhir):
    assert_outcome(
        fhir.get("Provenance?target=AllergyIntolerance/al-p4-nkda"),
        404,
        "not-supported",
        "There is no such resource type or operation here.",
    )
