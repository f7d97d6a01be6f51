"""What a token lets its bearer see: its grants, and granular scopes through HTTP."""

from __future__ import annotations

import pytest
from sqlalchemy import insert

from fhirapp.auth.clients.administration import OPERATOR
from fhirapp.auth.models import AccessToken
from fhirapp.auth.oauth.server import new_token
from fhirapp.auth.scopes import Grant, access_of
from fhirapp.auth.tokens import token_row
from fhirapp.db import writing
from tests.support.access import ALLERGY, P1_ALLERGIES, as_scope
from tests.support.helpers import Fhir, assert_outcome

LAB = "http://terminology.hl7.org/CodeSystem/v2-0074|LAB"
EVERYTHING = "patient/*.rs user/*.rs system/*.rs"


@pytest.mark.parametrize(
    ("scope", "registered", "patient", "resource_type", "permission", "grants"),
    [
        ("system/*.rs", EVERYTHING, None, "Patient", "r", (Grant(None),)),
        ("system/Patient.r", EVERYTHING, None, "Patient", "s", ()),
        ("system/Patient.r", EVERYTHING, None, "Encounter", "r", ()),
        ("patient/*.rs", EVERYTHING, "p1", "Patient", "s", (Grant("p1"),)),
        # A patient scope without a patient reaches nobody, rather than everybody.
        ("patient/*.rs", EVERYTHING, None, "Patient", "s", ()),
        ("patient/*.rs system/*.rs", EVERYTHING, "p1", "Patient", "s", (Grant(None),)),
        ("patient/*.rs system/*.rs", "patient/*.rs", "p1", "Patient", "s", (Grant("p1"),)),
        ("system/*.rs", "system/*.r", None, "Patient", "s", ()),
        ("system/*.rs", "user/*.rs patient/*.rs", None, "Patient", "s", ()),
        ("system/*.rs", "", None, "Patient", "s", ()),
        ("openid launch", EVERYTHING, "p1", "Patient", "s", ()),
        (
            "system/Patient.rs?a=1 system/Patient.rs?b=2",
            EVERYTHING,
            None,
            "Patient",
            "s",
            (Grant(None, (("a", "1"),)), Grant(None, (("b", "2"),))),
        ),
        ("system/Patient.rs?a=1 system/*.s", EVERYTHING, None, "Patient", "s", (Grant(None),)),
        (
            "system/Patient.rs?a=1 system/*.s",
            EVERYTHING,
            None,
            "Patient",
            "r",
            (Grant(None, (("a", "1"),)),),
        ),
    ],
)
def test_the_grants_of_a_scope_within_a_registration(
    scope, registered, patient, resource_type, permission, grants
):
    assert access_of(scope, registered, patient).grants(resource_type, permission) == grants


@pytest.mark.parametrize(
    ("scope", "patient", "allowed"),
    [
        ("system/Patient.r", None, {"r"}),
        ("patient/Patient.rs", "p1", {"r", "s"}),
        ("patient/Patient.rs", None, set()),
        ("openid", None, set()),
    ],
)
def test_whether_any_clinical_scope_is_in_force(scope, patient, allowed):
    access = access_of(scope, EVERYTHING, patient)
    assert {permission for permission in "rs" if access.allows_any(permission)} == allowed


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (
            "patient/AllergyIntolerance.rs?category=environment",
            {"al-p1-latex", "al-p1-ragweed"},
        ),
        (
            "patient/AllergyIntolerance.rs?clinical-status=active",
            P1_ALLERGIES - {"al-p1-metformin"},
        ),
        (
            "patient/AllergyIntolerance.rs?category=environment&clinical-status=inactive",
            set(),
        ),
        (
            " ".join(
                f"patient/AllergyIntolerance.rs?category={category}"
                for category in ("environment", "medication")
            ),
            P1_ALLERGIES,
        ),
        (
            "patient/AllergyIntolerance.rs?category=environment,food",
            {"al-p1-latex", "al-p1-ragweed"},
        ),
        (f"patient/DocumentReference.rs?category={LAB}", {"doc-p1-lab-2024"}),
    ],
)
def test_a_granular_scope_narrows_the_answer(app, scope, expected):
    fhir = as_scope(app, scope, "p1")
    type_name = scope.split("/")[1].split(".")[0]
    assert set(fhir.ids(type_name)) == expected


@pytest.mark.parametrize(
    "scope",
    [
        "system/AllergyIntolerance.rs?nonsense=1",
        "system/AllergyIntolerance.rs?_filter=code",
        "system/AllergyIntolerance.rs?category:in=http://example.org/ValueSet/x",
        "system/AllergyIntolerance.rs?date=soon",
        "system/AllergyIntolerance.rs?patient.name=Hartwell",
        "system/AllergyIntolerance.rs?category=environment&nonsense=1",
    ],
)
def test_a_filter_that_cannot_be_enforced_gives_nothing(app, scope):
    """Such a token is not issued; but a parameter may go while tokens that name it live on."""
    token = new_token()
    row = token_row(token, client_id=OPERATOR, scope=scope, lifetime=60)
    as_scope(app, "system/*.rs")
    with app.app_context(), writing() as connection:
        connection.execute(insert(AccessToken), [row])
    fhir = Fhir(app, token)
    assert fhir.read("AllergyIntolerance")["total"] == 0
    for path in (ALLERGY, f"{ALLERGY}/_history", f"{ALLERGY}/_history/1"):
        assert fhir.get(path).status_code == 404


def test_a_granular_scope_hides_what_it_does_not_name_from_read_too(app):
    fhir = as_scope(app, "system/AllergyIntolerance.rs?category=environment")
    assert fhir.get("AllergyIntolerance/al-p1-latex").status_code == 200
    path = "AllergyIntolerance/al-p1-sulfa"
    assert_outcome(fhir.get(path), 404, "not-found", f"{path} is not known here.")


def test_what_a_granular_scope_no_longer_covers_has_no_history_either(app):
    """The second version of this allergy, entered in error, has no clinical status."""
    fhir = as_scope(app, "system/AllergyIntolerance.rs?clinical-status=active")
    path = "AllergyIntolerance/al-p1-metformin"
    for tail in ("", "/_history", "/_history/1", "/_history/2"):
        assert fhir.get(path + tail).status_code == 404


def test_a_granular_scope_reaches_binary_and_provenance(app):
    fhir = as_scope(app, f"system/DocumentReference.rs?category={LAB}")
    assert fhir.get("Binary/bin-p1-lab-2024").status_code == 200
    assert fhir.get("Binary/bin-p1-ed-2024").status_code == 404
    assert fhir.get("Provenance/prov-p9-labs").status_code == 200
    assert fhir.get("Provenance/prov-p1-discharge").status_code == 404


def test_a_granular_scope_and_the_search_both_narrow(app):
    fhir = as_scope(app, "system/AllergyIntolerance.rs?category=environment")
    assert fhir.ids("AllergyIntolerance?patient=p1&clinical-status=active") == [
        "al-p1-ragweed",
        "al-p1-latex",
    ]
    assert fhir.read("AllergyIntolerance?patient=p1&category=medication")["total"] == 0
