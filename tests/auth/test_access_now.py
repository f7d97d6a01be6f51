"""What changes of a user, a consent, a link or a client holds from the next request on.

decisions §6: access = scope ∩ what the client registered ∩ what the user may see now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Grant
from fhirapp.auth.users import sessions
from fhirapp.auth.users.accounts import link, set_role, set_user_disabled, unlink
from fhirapp.db import writing
from tests.support.access import ALLERGY, DOCUMENT, P1_ALLERGIES
from tests.support.authorizing import Flow, add_person, add_program, alter, set_client, set_user
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.helpers import Fhir, assert_outcome

pytestmark = pytest.mark.databases(SQLITE, THREE_SERVERS)

OWN = "AllergyIntolerance/al-p1-penicillin"
INVALID = "The access token is not valid."


@pytest.fixture(scope="module")
def records(make_app: Callable[..., Flask]) -> Flask:
    """Return a seeded app of these tests' own."""
    return make_app()


@pytest.fixture
def clinician(records: Flask) -> Flow:
    """Return a clinician with a public app."""
    user_id = add_person(records, CLINICIAN, fhir_user="Practitioner/dr-adeyemi")
    return Flow(records, add_program(records), user_id)


@pytest.fixture
def patient(records: Flask) -> Flow:
    """Return a patient, p1, who may see p2's record too, with a public app."""
    return Flow(records, add_program(records), add_person(records, PATIENT, "p1", "p2"))


def in_database(flow: Flow, do: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Change something as the administrator's pages do."""
    with flow.app.app_context(), writing() as connection:
        do(connection, *args, **options)


def statuses(fhir: Fhir, *paths: str) -> list[int]:
    """Return what each address answers."""
    return [fhir.get(path).status_code for path in paths]


def test_a_user_who_becomes_a_patient_sees_their_own_record_alone(clinician):
    everyone = clinician.fhir("user/*.rs")
    one = clinician.fhir("patient/*.rs", patient="p2")
    assert statuses(everyone, "AllergyIntolerance", OWN, DOCUMENT) == [200, 200, 200]
    assert statuses(one, ALLERGY) == [200]
    in_database(clinician, set_role, clinician.user_id, PATIENT, keep_apps=True)
    assert statuses(everyone, "AllergyIntolerance", OWN, DOCUMENT) == [403, 403, 403]
    # Nor the patient whom they had chosen as a clinician.
    assert statuses(one, ALLERGY, "AllergyIntolerance") == [403, 403]
    in_database(clinician, link, clinician.user_id, "p2")
    assert statuses(one, ALLERGY, OWN) == [200, 404]
    assert statuses(everyone, ALLERGY) == [403]
    in_database(clinician, set_role, clinician.user_id, ADMINISTRATOR, keep_apps=True)
    assert statuses(everyone, "AllergyIntolerance", OWN, DOCUMENT) == [200, 200, 200]
    in_database(clinician, set_role, clinician.user_id, PATIENT)
    assert statuses(everyone, "AllergyIntolerance") == statuses(one, ALLERGY) == [401]


def test_a_disabled_user_sees_nothing_until_enabled(clinician):
    fhir = clinician.fhir("user/*.rs")
    assert fhir.get(OWN).status_code == 200
    in_database(clinician, set_user_disabled, clinician.user_id, disabled=True)
    assert_outcome(fhir.get(OWN), 401, "login", INVALID)
    in_database(clinician, set_user_disabled, clinician.user_id, disabled=False)
    assert fhir.get(OWN).status_code == 200


def test_a_record_that_is_not_linked_any_more_is_out_of_reach(patient):
    own = patient.fhir("openid fhirUser patient/*.rs", patient="p1")
    child = patient.fhir("openid fhirUser patient/*.rs", patient="p2")
    assert statuses(child, ALLERGY, "AllergyIntolerance", "Patient/p2") == [200, 200, 200]
    in_database(patient, unlink, patient.user_id, "p2")
    forbidden = "The token's scope does not cover search of AllergyIntolerance."
    assert_outcome(child.get("AllergyIntolerance"), 403, "forbidden", forbidden)
    assert statuses(child, ALLERGY, f"{ALLERGY}/_history", DOCUMENT) == [403, 403, 403]
    assert statuses(child, "Patient/p2") == [404]
    # Of the record that is still theirs another token tells.
    assert statuses(child, OWN) == [403]
    assert set(own.ids("AllergyIntolerance")) == P1_ALLERGIES
    in_database(patient, unlink, patient.user_id, "p1")
    assert statuses(own, OWN, "Patient/p1") == [403, 403]
    in_database(patient, link, patient.user_id, "p2", is_self=False)
    assert statuses(child, ALLERGY, "Patient/p1") == [200, 404]


def test_a_revoked_consent_ends_its_tokens(clinician):
    fhir = clinician.fhir("user/*.rs")
    assert fhir.get(OWN).status_code == 200
    mine = update(Grant).where(Grant.user_id == clinician.user_id)
    alter(clinician.app, mine.values(revoked_at=int(time.time())))
    other = clinician.fhir("user/*.rs")
    assert_outcome(fhir.get(OWN), 401, "login", INVALID)
    assert other.get(OWN).status_code == 200


def test_a_session_that_ends_takes_what_hung_on_it_along(clinician):
    online, hour = clinician.fhir("user/*.rs online_access"), clinician.fhir("user/*.rs")
    in_database(clinician, sessions.end_all, clinician.user_id)
    assert_outcome(online.get(OWN), 401, "login", INVALID)
    assert hour.get(OWN).status_code == 200


@pytest.mark.parametrize(
    ("scope", "answers"),
    [
        ("user/*.rs patient/*.rs", [200, 200, 200, 200]),
        ("user/AllergyIntolerance.rs", [200, 200, 403, 403]),
        ("user/*.r", [403, 200, 200, 200]),
        ("user/*.s", [200, 403, 403, 403]),
        ("user/DocumentReference.rs", [403, 403, 200, 200]),
        ("user/AllergyIntolerance.rs?category=food", [200, 404, 403, 403]),
        ("patient/*.rs openid", [403, 403, 403, 403]),
        ("openid", [403, 403, 403, 403]),
    ],
)
def test_a_registration_that_is_narrowed_narrows_tokens(clinician, scope, answers):
    fhir = clinician.fhir("user/*.rs")
    paths = ("AllergyIntolerance", OWN, DOCUMENT, "Binary/bin-p2-pathology-2023")
    assert statuses(fhir, *paths) == [200, 200, 200, 200]
    set_client(clinician.app, clinician.program, scope=scope)
    assert statuses(fhir, *paths) == answers


def test_a_registration_that_is_widened_widens_no_token(records, clinician):
    flow = Flow(records, add_program(records, scope="user/AllergyIntolerance.r"), clinician.user_id)
    fhir = flow.fhir("user/*.rs")
    set_client(records, flow.program, scope="user/*.rs patient/*.rs")
    assert statuses(fhir, OWN, "AllergyIntolerance", DOCUMENT) == [200, 403, 403]


def test_a_disabled_client_sees_nothing(clinician):
    fhir = clinician.fhir("user/*.rs")
    assert fhir.get(OWN).status_code == 200
    set_client(clinician.app, clinician.program, disabled=True)
    assert_outcome(fhir.get(OWN), 401, "login", INVALID)


def test_a_patient_reads_who_they_are_with_the_same_token(patient):
    fhir = patient.fhir("openid fhirUser patient/AllergyIntolerance.rs", patient="p1")
    assert statuses(fhir, "Patient/p1", "Patient/p1/_history/1") == [200, 200]
    # Reading who one is is no search, and nobody else's record.
    assert statuses(fhir, "Patient", "Patient?_id=p1", "Patient/p2") == [403, 403, 404]
    without = patient.fhir("openid patient/AllergyIntolerance.rs", patient="p1")
    assert statuses(without, "Patient/p1") == [403]


@pytest.mark.parametrize(
    ("scope", "chosen"),
    [("openid fhirUser", None), ("openid fhirUser patient/*.rs", "p2")],
)
def test_a_patient_reads_who_they_are_whatever_record_is_in_context(patient, scope, chosen):
    fhir = patient.fhir(scope, patient=chosen)
    assert statuses(fhir, "Patient/p1", "Patient/p1/_history/1") == [200, 200]


def test_whose_own_record_is_another_is_somebody_else_now(patient):
    fhir = patient.fhir("openid fhirUser patient/AllergyIntolerance.rs", patient="p1")
    in_database(patient, link, patient.user_id, "p3")
    assert statuses(fhir, "Patient/p3", "Patient/p1") == [200, 404]


def test_who_sees_a_childs_record_sees_no_more_of_their_own(patient):
    fhir = patient.fhir("openid fhirUser patient/*.rs", patient="p2")
    assert statuses(fhir, "Patient/p2", ALLERGY, OWN) == [200, 200, 404]
    assert fhir.ids("Patient") == ["p2"]
    assert P1_ALLERGIES.isdisjoint(fhir.ids("AllergyIntolerance"))


def test_a_clinician_reads_who_they_are_with_the_same_token(clinician):
    fhir = clinician.fhir("openid fhirUser user/AllergyIntolerance.rs")
    assert statuses(fhir, "Practitioner/dr-adeyemi", "Patient/p1") == [200, 403]


def test_a_clinician_with_a_patient_chosen_sees_that_one_alone(clinician):
    fhir = clinician.fhir("patient/*.rs", patient="p1")
    assert statuses(fhir, OWN, ALLERGY, "Patient/p2") == [200, 404, 404]
    set_user(clinician.app, clinician.user_id, fhir_user=None)
    assert statuses(fhir, OWN) == [200]
