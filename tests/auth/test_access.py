"""Who may see what, through HTTP: contexts, the patient compartment, naming a patient.

p1 and p2 of seed.sql have allergies, documents, encounters and provenances each.
"""

from __future__ import annotations

import pytest

from tests.support.access import ALLERGY, DOCUMENT, P1_ALLERGIES, as_scope
from tests.support.helpers import assert_outcome, ids, lasting

ANOTHER = "the token is for one patient, and this is another."


@pytest.mark.parametrize("context", ["system", "user"])
def test_a_system_or_user_scope_sees_every_patient(app, context):
    fhir = as_scope(app, f"{context}/AllergyIntolerance.rs")
    assert fhir.read("AllergyIntolerance?_count=0")["total"] == 39
    assert fhir.get(ALLERGY).status_code == 200


def test_a_patient_scope_sees_its_own_patient_without_naming_one(as_patient):
    assert set(as_patient("p1").ids("AllergyIntolerance")) == P1_ALLERGIES


@pytest.mark.parametrize(
    "path",
    [
        ALLERGY,
        f"{ALLERGY}/_history",
        f"{ALLERGY}/_history/1",
        DOCUMENT,
        "Binary/bin-p2-pathology-2023",
        "Encounter/enc-p2-2023-ed",
        "Encounter/enc-p2-2023-ed/_history",
        "Patient/p2",
        "Patient/p2/_history/1",
        "Provenance/prov-p2-mariscos",
        "Provenance/prov-p2-mariscos/_history",
        "Provenance/prov-p2-pathology/_history/1",
    ],
)
def test_what_is_another_patients_answers_as_if_it_were_unknown(fhir, as_patient, path):
    assert fhir.get(path).status_code == 200
    resource_id = path.split("/")[1]
    name = path.removesuffix("/_history") if path.endswith("/_history") else path
    another = as_patient("p1").get(path)
    assert_outcome(another, 404, "not-found", f"{name} is not known here.")
    unknown_id = "x" * len(resource_id)
    unknown = as_patient("p1").get(path.replace(resource_id, unknown_id))
    assert unknown.data.replace(unknown_id.encode(), resource_id.encode()) == another.data
    assert lasting(unknown) == lasting(another)


@pytest.mark.parametrize(
    "path",
    [
        "AllergyIntolerance/al-p1-metformin",
        "AllergyIntolerance/al-p1-metformin/_history",
        "AllergyIntolerance/al-p1-metformin/_history/1",
        "DocumentReference/doc-p1-discharge-2024/_history/2",
        "Binary/bin-p1-discharge-2024-v1",
        "Binary/bin-p1-discharge-2024-v3",
        "Encounter/enc-p1-2024-ed",
        "Patient/p1",
        "Provenance/prov-p1-list",
        "Practitioner/dr-adeyemi",
        "Organization/org-lakeside",
    ],
)
def test_a_patient_reads_what_is_theirs_and_who_treated_them(as_patient, path):
    assert as_patient("p1").get(path).status_code == 200


def test_a_patient_gets_the_provenance_of_their_own_entries_alone(as_patient):
    bundle = as_patient("p1").read("AllergyIntolerance?_revinclude=Provenance:target")
    assert set(ids(bundle, "include")) == {
        "prov-p1-penicillin",
        "prov-p1-list",
        "prov-p1-metformin",
    }


def test_a_deleted_entry_is_gone_for_its_own_patient_and_unknown_to_others(as_patient):
    path = "AllergyIntolerance/al-p5-codeine"
    assert_outcome(as_patient("p5").get(path), 410, "deleted", f"{path} was deleted.")
    assert_outcome(as_patient("p1").get(path), 404, "not-found", f"{path} is not known here.")


OWN = ["p1", "Patient/p1", "https://fhir.example/fhir/Patient/p1", "p1,p1"]
OTHER = [
    "p2",
    "Patient/p2",
    "https://fhir.example/fhir/Patient/p2",
    "https://other.example/fhir/Patient/p1",
    "urn:uuid:0e1c2f6a-7b7a-4d8e-9a53-9c6d2d0f6a11",
    "Patient/p2/_history/1",
    "p1,p2",
    "p2,p1",
    "nobody",
    "P1",
    r"p1\,p2",
]


@pytest.mark.parametrize("value", OWN)
@pytest.mark.parametrize("name", ["patient", "patient:Patient"])
def test_a_patient_may_name_themselves(as_patient, name, value):
    query = {name: value}
    found = as_patient("p1").get("AllergyIntolerance", query_string=query)
    assert found.get_json(force=True)["total"] == len(P1_ALLERGIES)


@pytest.mark.parametrize("value", [one for one in OTHER if "\\" not in one])
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("AllergyIntolerance", "patient"),
        ("AllergyIntolerance", "patient:Patient"),
        ("DocumentReference", "patient"),
        ("DocumentReference", "subject"),
        ("DocumentReference", "subject:Patient"),
    ],
)
def test_another_patient_is_forbidden_in_every_spelling(as_patient, path, name, value):
    message = f"{name}: {ANOTHER}"
    by_get = as_patient("p1").get(path, query_string={name: value})
    parameter = name.partition(":")[0]
    assert_outcome(by_get, 403, "forbidden", message, parameter)
    challenge = by_get.headers["WWW-Authenticate"]
    assert 'error="insufficient_scope"' in challenge
    for address in (path, f"{path}/_search"):
        by_post = as_patient("p1").post(address, {name: value})
        assert_outcome(by_post, 403, "forbidden", message, parameter)


def test_an_own_patient_does_not_cover_another_named_beside_it(as_patient):
    message = f"patient: {ANOTHER}"
    repeated = as_patient("p1").get("AllergyIntolerance?patient=p1&patient=p2")
    assert_outcome(repeated, 403, "forbidden", message, "patient")
    merged = as_patient("p1").post("AllergyIntolerance/_search?patient=p1", {"patient": "p2"})
    assert_outcome(merged, 403, "forbidden", message, "patient")


def test_a_token_with_a_system_scope_beside_may_name_any_patient(app):
    fhir = as_scope(app, "patient/AllergyIntolerance.rs system/AllergyIntolerance.rs", "p1")
    assert fhir.read("AllergyIntolerance?patient=p2")["total"] == 4


def test_contexts_of_one_token_hold_for_their_own_types(app):
    fhir = as_scope(app, "patient/AllergyIntolerance.rs system/DocumentReference.rs", "p1")
    assert set(fhir.ids("AllergyIntolerance")) == P1_ALLERGIES
    assert fhir.get(ALLERGY).status_code == 404
    assert fhir.get(DOCUMENT).status_code == 200
    assert fhir.read("DocumentReference?patient=p2")["total"] == 5


@pytest.mark.parametrize(
    ("scope", "path", "diagnostics", "needed"),
    [
        (
            "system/DocumentReference.rs",
            "AllergyIntolerance",
            "search of AllergyIntolerance",
            "system/AllergyIntolerance.s",
        ),
        ("system/DocumentReference.rs", ALLERGY, "read of AllergyIntolerance", None),
        ("system/AllergyIntolerance.r", "AllergyIntolerance", "search of AllergyIntolerance", None),
        ("system/AllergyIntolerance.s", ALLERGY, "read of AllergyIntolerance", None),
        ("system/AllergyIntolerance.s", f"{ALLERGY}/_history", "read of AllergyIntolerance", None),
        (
            "system/AllergyIntolerance.s",
            f"{ALLERGY}/_history/1",
            "read of AllergyIntolerance",
            None,
        ),
        ("system/AllergyIntolerance.rs", "Patient/p1", "read of Patient", "system/Patient.r"),
        ("system/AllergyIntolerance.rs", "Binary/bin-p1-ed-2024", "read of Binary", None),
        ("system/DocumentReference.s", "Binary/bin-p1-ed-2024", "read of Binary", None),
        ("system/*.s", "Practitioner/dr-adeyemi", "read of Practitioner", None),
        ("system/DocumentReference.rs", "AllergyIntolerance/unknown", None, None),
    ],
)
def test_a_scope_on_another_type_or_interaction_is_forbidden(app, scope, path, diagnostics, needed):
    response = as_scope(app, scope).get(path)
    covered = diagnostics or "read of AllergyIntolerance"
    assert_outcome(response, 403, "forbidden", f"The token's scope does not cover {covered}.")
    challenge = response.headers["WWW-Authenticate"]
    assert challenge.startswith('Bearer realm="fhirapp", error="insufficient_scope", scope="')
    if needed:
        assert f'scope="{needed}"' in challenge


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ("system/AllergyIntolerance.r", ALLERGY),
        ("system/AllergyIntolerance.r", f"{ALLERGY}/_history"),
        ("system/AllergyIntolerance.s", "AllergyIntolerance"),
        ("system/AllergyIntolerance.read", f"{ALLERGY}/_history/1"),
        ("system/AllergyIntolerance", "AllergyIntolerance"),
        ("system/DocumentReference.r", "Binary/bin-p1-ed-2024"),
        ("system/AllergyIntolerance.rs", "Provenance/prov-p1-list"),
        ("user/AllergyIntolerance.r", "Organization/org-lakeside"),
    ],
)
def test_a_scope_covers_its_type_and_interaction(app, scope, path):
    assert as_scope(app, scope).get(path).status_code == 200


def test_a_provenance_needs_a_scope_on_the_type_of_every_target(app):
    fhir = as_scope(app, "system/DocumentReference.rs")
    path = "Provenance/prov-p1-list"
    assert_outcome(fhir.get(path), 404, "not-found", f"{path} is not known here.")
