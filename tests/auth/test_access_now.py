"""Changes of a user, a consent, a link or a client take effect at the next request.

decisions §6: access = scope ∩ what the client registered ∩ what the user may see now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.auth.users.accounts import link, set_role, set_user_disabled, unlink
from fhirapp.db import writing
from tests.auth.grants import end_sessions, set_grant
from tests.support.access import ALLERGY, DOCUMENT, P1_ALLERGIES
from tests.support.authorizing import (
    Flow,
    add_person,
    add_program,
    set_client,
)
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.helpers import Fhir, assert_outcome
from tests.support.id_tokens import DOCTOR

pytestmark = pytest.mark.databases(SQLITE, THREE_SERVERS)

OWN = "AllergyIntolerance/al-p1-penicillin"
SEARCH = "AllergyIntolerance"


@pytest.fixture(scope="module")
def records(make_app: Callable[..., Flask]) -> Flask:
    """A seeded app of these tests' own."""
    return make_app()


@pytest.fixture
def clinician(records: Flask) -> Flow:
    """A clinician with a public app."""
    user_id = add_person(records, CLINICIAN, fhir_user=DOCTOR)
    return Flow(records, add_program(records), user_id)


@pytest.fixture
def patient(records: Flask) -> Flow:
    """A patient, p1, who may see p2's record too, with a public app."""
    return Flow(records, add_program(records), add_person(records, PATIENT, "p1", "p2"))


def in_database(flow: Flow, change: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Change something as the administrator's pages do."""
    with flow.app.app_context(), writing() as connection:
        change(connection, *args, **options)


def statuses(fhir: Fhir, *paths: str) -> list[int]:
    return [fhir.get(path).status_code for path in paths]


def test_user_who_becomes_a_patient_sees_only_their_own_record(clinician):
    everyone = clinician.fhir("user/*.rs")
    chosen = clinician.fhir("patient/*.rs", patient="p2")
    assert statuses(everyone, SEARCH, OWN, DOCUMENT) == [200, 200, 200]
    assert statuses(chosen, ALLERGY) == [200]
    in_database(clinician, set_role, clinician.user_id, PATIENT, keep_apps=True)
    assert statuses(everyone, SEARCH, OWN, DOCUMENT) == [403, 403, 403]
    # Nor the patient whom they had chosen as a clinician.
    assert statuses(chosen, ALLERGY, SEARCH) == [403, 403]
    in_database(clinician, link, clinician.user_id, "p2")
    assert statuses(chosen, ALLERGY, OWN) == [200, 404]
    assert statuses(everyone, ALLERGY) == [403]
    in_database(clinician, set_role, clinician.user_id, ADMINISTRATOR, keep_apps=True)
    assert statuses(everyone, SEARCH, OWN, DOCUMENT) == [200, 200, 200]
    in_database(clinician, set_role, clinician.user_id, PATIENT)
    assert statuses(everyone, SEARCH) == statuses(chosen, ALLERGY) == [401]


def test_disabled_user_or_client_sees_nothing_until_enabled(clinician):
    fhir = clinician.fhir("user/*.rs")
    changes = (
        lambda disabled: in_database(
            clinician, set_user_disabled, clinician.user_id, disabled=disabled
        ),
        lambda disabled: set_client(clinician.app, clinician.program, disabled=disabled),
    )
    for change in changes:
        assert fhir.get(OWN).status_code == 200
        change(True)
        assert_outcome(fhir.get(OWN), 401, "login", "The access token is not valid.")
        change(False)
    assert fhir.get(OWN).status_code == 200


def test_record_that_is_no_longer_linked_is_out_of_reach(patient):
    own = patient.fhir("openid fhirUser patient/*.rs", patient="p1")
    child = patient.fhir("openid fhirUser patient/*.rs", patient="p2")
    assert statuses(child, ALLERGY, SEARCH, "Patient/p2") == [200, 200, 200]
    in_database(patient, unlink, patient.user_id, "p2")
    paths = (SEARCH, ALLERGY, f"{ALLERGY}/_history", DOCUMENT)
    assert statuses(child, *paths) == [403, 403, 403, 403]
    assert statuses(child, "Patient/p2") == [404]
    # The record that is still theirs is for another token.
    assert statuses(child, OWN) == [403]
    assert set(own.ids(SEARCH)) == P1_ALLERGIES
    in_database(patient, unlink, patient.user_id, "p1")
    assert statuses(own, OWN, "Patient/p1") == [403, 403]
    in_database(patient, link, patient.user_id, "p2", is_self=False)
    assert statuses(child, ALLERGY, "Patient/p1") == [200, 404]


def test_revoked_consent_ends_its_tokens(clinician):
    fhir = clinician.fhir("user/*.rs")
    assert fhir.get(OWN).status_code == 200
    set_grant(clinician, revoked_at=int(time.time()))
    other = clinician.fhir("user/*.rs")
    assert (statuses(fhir, OWN), statuses(other, OWN)) == ([401], [200])


def test_session_that_ends_ends_online_access(clinician):
    online, hour = clinician.fhir("user/*.rs online_access"), clinician.fhir("user/*.rs")
    end_sessions(clinician)
    assert (statuses(online, OWN), statuses(hour, OWN)) == ([401], [200])


def test_registration_that_is_narrowed_narrows_tokens(records, clinician):
    fhir = clinician.fhir("user/*.rs")
    paths = (SEARCH, OWN, DOCUMENT, "Binary/bin-p2-pathology-2023")
    assert statuses(fhir, *paths) == [200, 200, 200, 200]
    expected = {
        "user/*.rs patient/*.rs": [200, 200, 200, 200],
        "user/AllergyIntolerance.rs": [200, 200, 403, 403],
        "user/*.r": [403, 200, 200, 200],
        "user/*.s": [200, 403, 403, 403],
        "user/DocumentReference.rs": [403, 403, 200, 200],
        "user/AllergyIntolerance.rs?category=food": [200, 404, 403, 403],
        "patient/*.rs openid": [403, 403, 403, 403],
        "openid": [403, 403, 403, 403],
    }
    found = {}
    for scope in expected:
        set_client(records, clinician.program, scope=scope)
        found[scope] = statuses(fhir, *paths)
    assert found == expected
    set_client(records, clinician.program, scope="user/AllergyIntolerance.rs?category=environment")
    assert set(fhir.ids(f"{SEARCH}?patient=p1")) == {"al-p1-latex", "al-p1-ragweed"}


def test_registration_that_is_widened_widens_no_token(records, clinician):
    flow = Flow(records, add_program(records, scope="user/AllergyIntolerance.r"), clinician.user_id)
    fhir = flow.fhir("user/*.rs")
    set_client(records, flow.program, scope="user/*.rs patient/*.rs")
    assert statuses(fhir, OWN, SEARCH, DOCUMENT) == [200, 403, 403]


def test_user_reads_their_own_resource_with_fhir_user(clinician, patient):
    fhir = patient.fhir("openid fhirUser patient/AllergyIntolerance.rs", patient="p1")
    assert statuses(fhir, "Patient/p1", "Patient/p1/_history/1") == [200, 200]
    # Reading oneself is no search, and nobody else's record.
    assert statuses(fhir, "Patient", "Patient?_id=p1", "Patient/p2") == [403, 403, 404]
    without = patient.fhir("openid patient/AllergyIntolerance.rs", patient="p1")
    assert statuses(without, "Patient/p1") == [403]
    # Whatever record is in context.
    for scope, chosen in (("openid fhirUser", None), ("openid fhirUser patient/*.rs", "p2")):
        own = patient.fhir(scope, patient=chosen)
        assert statuses(own, "Patient/p1", "Patient/p1/_history/1") == [200, 200]
    staff = clinician.fhir("openid fhirUser user/AllergyIntolerance.rs")
    assert statuses(staff, DOCTOR, "Patient/p1") == [200, 403]
    alone = clinician.fhir("openid fhirUser")
    assert statuses(alone, DOCTOR, "Practitioner/dr-okafor", OWN) == [200, 403, 403]
    in_database(patient, link, patient.user_id, "p3")
    assert statuses(fhir, "Patient/p3", "Patient/p1") == [200, 404]
