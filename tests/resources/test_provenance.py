"""Provenance: who made or sent a resource, and who may know. decisions 2.16, §6."""

from __future__ import annotations

import pytest

from tests.support.contract import allergy, delete, publish, versions_held
from tests.support.helpers import BASE_URL, Fhir, ids, token_for

ROLE = "http://terminology.hl7.org/CodeSystem/provenance-participant-type"
US_CORE_ROLE = "http://hl7.org/fhir/us/core/CodeSystem/us-core-provenance-participant-type"
WITH = "_revinclude=Provenance:target"
LATER = "2026-03-01T00:00:00.000+00:00"


INCLUDED = [
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
]  # fmt: skip


def test_a_search_brings_the_provenance_of_its_matches(fhir):
    for path, included in INCLUDED:
        alone, bundle = fhir.read(path), fhir.read(f"{path}&{WITH}")
        assert ids(bundle, "include") == included
        assert bundle["total"] == alone["total"]
        assert ids(bundle) == ids(alone)
        for entry in bundle.get("entry", ()):
            if entry["search"]["mode"] == "include":
                row_id = entry["resource"]["id"]
                assert entry["fullUrl"] == f"{BASE_URL}/fhir/Provenance/{row_id}"
                assert entry["resource"] == fhir.read(f"Provenance/{row_id}")


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


AGENT = [{"who": {"reference": "Organization/org-lakeside"}}]
# Targets of every kind, by the id of their Provenance.
TARGETS = {
    "allergy": ["AllergyIntolerance/al-p4-nkda"],
    "version": ["AllergyIntolerance/al-p1-latex/_history/1"],
    "own-address": [f"{BASE_URL}/fhir/AllergyIntolerance/al-p1-latex"],
    "document": ["DocumentReference/doc-p4-hp-2025"],
    "two-patients": ["AllergyIntolerance/al-p4-nkda", "AllergyIntolerance/al-p1-latex"],
    "two-types": ["AllergyIntolerance/al-p4-nkda", "DocumentReference/doc-p4-hp-2025"],
    "patient": ["Patient/p4", "Encounter/enc-p4-2025-birth"],
    "staff": ["Practitioner/dr-novak", "Organization/org-harbor"],
    "bytes": ["Binary/bin-p1-discharge-2024-v3"], "deleted": ["AllergyIntolerance/gone"],
    "moved": ["AllergyIntolerance/moved"], "unknown": ["AllergyIntolerance/nobody"],
    "unserved": ["AllergyIntolerance/al-p4-nkda", "Observation/o1"],
    "elsewhere": ["https://elsewhere.example/fhir/AllergyIntolerance/al-p4-nkda"],
    "urn": ["urn:uuid:0b9a7b3c-3a52-4c3c-9d6f-6c1c3e0e5d11"],
    "of-allergy": ["Provenance/allergy"], "of-unserved": ["Provenance/unserved"],
    "of-of-allergy": ["Provenance/of-allergy"], "circle-1": ["Provenance/circle-2"],
    "circle-2": ["Provenance/circle-1"],
}  # fmt: skip
WITHOUT_REFERENCE = {
    "identifier": {"identifier": {"system": "urn:ids", "value": "1"}},
    "display": {"display": "A note"},
    "contained": {"reference": "#one"},
    "beside": {"reference": "AllergyIntolerance/al-p4-nkda"},
}


def provenance(row_id: str, *targets: dict[str, object]) -> dict[str, object]:
    return {
        "resourceType": "Provenance",
        "id": row_id,
        "target": list(targets),
        "recorded": LATER,
        "agent": AGENT,
    }


@pytest.fixture(scope="module")
def many(make_app):
    """An app with Provenances whose targets are of every kind, and what these name."""
    app = make_app()
    publish(app, *(allergy(row_id, "p1") for row_id in ("gone", "moved")), now=LATER)
    publish(app, allergy("moved", "p4"), now=LATER)
    delete(app, "AllergyIntolerance", "gone", now=LATER)
    given = {
        **{
            name: [{"reference": reference} for reference in ones] for name, ones in TARGETS.items()
        },
        **{name: [one] for name, one in WITHOUT_REFERENCE.items() if name != "beside"},
        # One that may be seen hides none that may not.
        **{
            f"beside-{name}": [WITHOUT_REFERENCE["beside"], one]
            for name, one in WITHOUT_REFERENCE.items()
        },
    }
    publish(app, *(provenance(name, *targets) for name, targets in given.items()), now=LATER)
    return app


TOKENS = [
    ("system/*.rs", None), ("system/AllergyIntolerance.rs", None),
    ("system/DocumentReference.rs", None), ("system/Patient.rs system/Encounter.rs", None),
    ("system/Provenance.rs", None), ("system/AllergyIntolerance.rs?clinical-status=active", None),
    ("system/AllergyIntolerance.rs?category:not=food", None),
    ("system/AllergyIntolerance.rs?_id=gone", None),
    ("system/DocumentReference.rs?type=http://loinc.org|18842-5", None), ("user/*.rs", None),
    *(("patient/*.rs", f"p{number}") for number in (1, 2, 4, 12)),
    ("patient/AllergyIntolerance.rs", "p4"),
    ("patient/AllergyIntolerance.rs patient/DocumentReference.rs", "p1"),
    ("patient/DocumentReference.rs?type=http://loinc.org|18842-5", "p1"),
    ("patient/AllergyIntolerance.rs system/DocumentReference.rs", "p4"),
    ("patient/*.rs", "nobody"),
]  # fmt: skip


def reads(fhir: Fhir, target: dict[str, str]) -> bool:
    """Tell whether a client may read what a target names."""
    reference = target.get("reference", "#").removeprefix(f"{BASE_URL}/fhir/")
    path = reference.partition("/_history/")[0]
    return ":" not in path and "#" not in path and fhir.get(path).status_code in (200, 410)


@pytest.mark.parametrize(("scope", "patient"), TOKENS)
def test_a_search_finds_those_whose_every_target_can_be_read(many, scope, patient):
    everything = versions_held(many)["Provenance"]
    assert len(everything) > 30
    fhir = Fhir(many, token_for(many, scope, patient=patient))
    expected = {
        row_id
        for row_id, (resource,) in everything.items()
        # A third Provenance in a row is not shown to anyone.
        if row_id != "of-of-allergy" and all(reads(fhir, target) for target in resource["target"])
    }
    bundle = fhir.read("Provenance")
    assert set(ids(bundle)) == expected
    assert bundle["total"] == len(expected) == len(ids(bundle))
    assert fhir.read("Provenance?_summary=count")["total"] == len(expected)


@pytest.mark.parametrize(("scope", "patient"), [TOKENS[2], ("patient/*.rs", "p4")])
def test_search_finds_exactly_the_readable_provenance(many, scope, patient):
    fhir = Fhir(many, token_for(many, scope, patient=patient))
    found = fhir.ids("Provenance")
    for row_id in versions_held(many)["Provenance"]:
        status = 200 if row_id in found else 404
        assert fhir.get(f"Provenance/{row_id}").status_code == status


INCLUDED_BY_TOKEN = [
    ("system/*.rs", None, {"allergy", "two-types", "two-patients", "prov-p4-nkda"}),
    ("patient/*.rs", "p4", {"allergy", "two-types", "prov-p4-nkda"}),
    ("system/AllergyIntolerance.rs", None, {"allergy", "two-patients", "prov-p4-nkda"}),
    ("patient/AllergyIntolerance.rs", "p4", {"allergy", "prov-p4-nkda"}),
]


def test_revinclude_brings_those_whose_every_target_can_be_read(many):
    ours = {*TARGETS, "prov-p4-nkda"}
    for scope, patient, expected in INCLUDED_BY_TOKEN:
        fhir = Fhir(many, token_for(many, scope, patient=patient))
        bundle = fhir.read(f"AllergyIntolerance?_id=al-p4-nkda&{WITH}")
        assert ours & set(ids(bundle, "include")) == expected
        for row_id in ("two-types", "two-patients", "allergy", "unserved"):
            status = 200 if row_id in expected else 404
            for tail in ("", "/_history/1", "/_history"):
                assert fhir.get(f"Provenance/{row_id}{tail}").status_code == status


def test_provenance_of_unreadable_targets_is_hidden(many):
    found = set(Fhir(many, token_for(many, "system/*.rs")).ids("Provenance"))
    given = {*TARGETS, *WITHOUT_REFERENCE, *(f"beside-{name}" for name in WITHOUT_REFERENCE)}
    hidden = {
        *("unknown", "unserved", "elsewhere", "urn", "circle-1", "circle-2"),
        *("of-unserved", "of-of-allergy"),
        *(name for name in given if name.endswith(("identifier", "display", "contained"))),
    }
    assert given & found == given - hidden - {"beside"}


FOUND = [
    ("target=DocumentReference/doc-p12-discharge-2023", ["prov-p12-knee"]),
    ("target=al-p4-nkda", ["prov-p4-nkda"]),
    ("agent=Organization/org-meridian", ["prov-p9-labs", "prov-p2-pathology"]),
    ("recorded=2023-06", ["prov-p2-pathology", "prov-p2-mariscos"]),
    ("when=2024-08-17", ["prov-p7-bee"]),
    ("entity=DocumentReference/doc-p12-consult-2025", ["prov-p12-penicillin"]),
    ("signature-type:missing=false", ["prov-p1-discharge"]),
    # R4: the patient must be a target
    ("patient=p4", []),
]


def test_a_search_of_provenance(fhir):
    for query, found in FOUND:
        assert fhir.ids(f"Provenance?{query}") == found


def test_the_provenance_of_a_patient_is_that_of_the_patient_resource(many):
    fhir = Fhir(many, token_for(many, "system/*.rs"))
    assert fhir.ids("Provenance?patient=p4") == fhir.ids("Provenance?target=Patient/p4")
    assert fhir.ids("Provenance?patient=p4") == ["patient"]
