"""Consent: the scopes that a user can allow an app, the patient they are about, and the answer.

decisions §6; SMART App Launch 2.2 scopes and launch context; OpenID Connect Core §3.1.2.1.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import select, update

from fhirapp.auth.models import (
    ADMINISTRATOR,
    CLINICIAN,
    PATIENT,
    AuthorizationCode,
    Grant,
    Session,
)
from fhirapp.auth.oauth import authorize
from fhirapp.auth.oauth.authorize import SendBack, Unanswerable
from fhirapp.auth.scopes import SESSION_SCOPES
from fhirapp.auth.users.accounts import unlink
from fhirapp.db import writing
from tests.auth.grants import row_of
from tests.support.authorizing import (
    EVERYTHING,
    REDIRECT,
    STATE,
    Flow,
    add_person,
    add_program,
    alter,
    parameters_of,
    rows,
    set_client,
    told,
)
from tests.support.helpers import Fhir
from tests.support.id_tokens import DOCTOR


@pytest.fixture
def flow(oauth: Flask) -> Flow:
    """A clinician with a public app."""
    return Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN, fhir_user=DOCTOR))


@pytest.fixture
def of_patient(oauth: Flask) -> Callable[..., Flow]:
    """Return a maker of patients with these records, each with a public app."""

    def make(*patients: str) -> Flow:
        return Flow(oauth, add_program(oauth), add_person(oauth, PATIENT, *patients))

    return make


def grant_row(flow: Flow) -> Grant:
    """Return the one consent of the flow's user."""
    ((found,),) = rows(flow.app, select(Grant).where(Grant.user_id == flow.user_id))
    return found


def test_scopes_that_can_be_allowed_depend_on_the_role(oauth):
    of_staff = SESSION_SCOPES - {"launch", "online_access"} | {"patient/*.rs", "user/*.rs"}
    of_patients = {"openid", "fhirUser", "launch/patient", "launch/encounter", "offline_access"}
    for role, patients, who, expected in (
        (CLINICIAN, [], DOCTOR, of_staff),
        (ADMINISTRATOR, [], DOCTOR, of_staff),
        # Without a practitioner there is no fhirUser.
        (ADMINISTRATOR, [], None, of_staff - {"fhirUser"}),
        (PATIENT, ["p1"], None, of_patients | {"patient/*.rs"}),
    ):
        user_id = add_person(oauth, role, *patients, fhir_user=who)
        flow = Flow(oauth, add_program(oauth), user_id)
        assert set(flow.offer(flow.park(f"{EVERYTHING} system/*.rs")).scopes) == expected


def test_scopes_are_offered_as_far_as_the_client_is_registered(oauth):
    program = add_program(oauth, scope="openid patient/AllergyIntolerance.rs user/*.read")
    flow = Flow(oauth, program, add_person(oauth, CLINICIAN))
    asked = (
        "openid profile offline_access patient/*.rs patient/AllergyIntolerance "
        "user/DocumentReference.read user/AllergyIntolerance.rs?clinical-status=active"
    )
    assert flow.offer(flow.park(asked)).scopes == [
        "openid",
        "patient/AllergyIntolerance.rs",
        "patient/AllergyIntolerance",
        "user/DocumentReference.read",
        "user/AllergyIntolerance.rs?clinical-status=active",
    ]


def test_scopes_that_would_do_nothing_are_not_offered(flow):
    for asked, left in (
        ("online_access user/*.rs", {"online_access", "user/*.rs"}),
        ("online_access offline_access user/*.rs", {"offline_access", "user/*.rs"}),
        ("launch openid", {"openid"}),
    ):
        assert set(flow.offer(flow.park(asked)).scopes) == left


def test_request_of_which_a_user_can_allow_nothing_is_invalid_scope(of_patient):
    without_record, patient = of_patient(), of_patient("p1")
    for flow, scope in (
        (patient, "user/*.rs offline_access"),
        (patient, "user/*.rs profile online_access offline_access"),
        (patient, "launch profile"),
        (without_record, "launch/patient patient/*.rs"),
    ):
        with pytest.raises(SendBack) as raised:
            flow.offer(flow.park(scope))
        assert told(raised)[0] == "invalid_scope"
    offered = without_record.offer(without_record.park("openid launch/patient patient/*.rs"))
    assert (offered.scopes, offered.needs_patient) == (["openid"], False)


def test_patient_with_one_record_need_not_choose(of_patient):
    flow = of_patient("p1")
    offered = flow.offer(flow.park("patient/*.rs"))
    assert (offered.patients, offered.patient_id) == (["p1"], "p1")
    assert not offered.needs_patient
    flow.code("patient/*.rs")
    assert grant_row(flow).patient_id == "p1"


def test_patient_with_two_records_chooses_one_and_no_other(of_patient):
    flow = of_patient("p2", "p1")
    handle = flow.park("launch/patient openid")
    # The own one first.
    assert flow.offer(handle).patients == ["p2", "p1"]
    assert flow.offer(handle).needs_patient
    for foreign in ("p3", "", "P1", "p1 ", "' OR 1=1"):
        flow.choose(handle, foreign)
        assert flow.offer(handle).needs_patient
    flow.choose(handle, "p1")
    assert flow.offer(handle).patient_id == "p1"
    flow.decide(handle)
    assert grant_row(flow).patient_id == "p1"


def test_staff_choose_any_patient_but_must_choose(flow):
    handle = flow.park("patient/*.rs user/*.rs")
    offered = flow.offer(handle)
    assert (offered.patients, offered.patient_id) == (None, None)
    assert offered.needs_patient
    with pytest.raises(Unanswerable, match="Choose a patient record"):
        flow.decide(handle)
    flow.choose(handle, "p7")
    flow.decide(handle)
    assert grant_row(flow).patient_id == "p7"


def test_encounter_is_chosen_and_comes_with_its_patient(flow):
    handle = flow.park("openid launch/encounter offline_access")
    assert flow.offer(handle).needs_patient
    with pytest.raises(Unanswerable, match="Choose a patient record"):
        flow.decide(handle)
    flow.choose(handle, "p1")
    offered = flow.offer(handle)
    assert (offered.needs_patient, offered.picks_encounter, offered.encounter_id) == (
        False,
        True,
        None,
    )
    with pytest.raises(Unanswerable, match="Choose a visit"):
        flow.decide(handle)
    flow.choose(handle, "p1", "e1")
    answer = flow.redeem(parameters_of(flow.decide(handle))["code"]).get_json()
    context = {"patient": "p1", "encounter": "e1"}
    assert answer["scope"] == "openid launch/encounter offline_access"
    assert {name: answer[name] for name in context} == context
    again = flow.refresh(answer["refresh_token"]).get_json()
    assert {name: again[name] for name in context} == context
    # To know of a visit is not to see it.
    assert Fhir(flow.app, answer["access_token"]).get("Encounter/e1").status_code == 403


def test_encounter_that_is_not_chosen_is_not_granted(flow):
    handle = flow.park("openid launch/encounter patient/*.rs")
    flow.choose(handle, "p1", "")
    offered = flow.offer(handle)
    assert (offered.picks_encounter, offered.encounter_id) == (True, None)
    flow.decide(handle, ticked=["openid", "launch/encounter", "patient/*.rs"])
    row = grant_row(flow)
    assert (row.scope, row.patient_id, row.encounter_id) == ("openid patient/*.rs", "p1", None)


def test_encounter_is_granted_where_its_scope_is_ticked(oauth):
    for ticked, scope, patient_id, encounter_id in (
        (["openid"], "openid", None, None),
        (["patient/*.rs"], "launch/patient patient/*.rs", "p1", None),
        (["openid", "launch/encounter"], "openid launch/patient launch/encounter", "p1", "e1"),
    ):
        flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))
        handle = flow.park("openid launch/patient launch/encounter patient/*.rs")
        flow.choose(handle, "p1", "e1")
        flow.decide(handle, ticked)
        row = grant_row(flow)
        assert (row.scope, row.patient_id, row.encounter_id) == (scope, patient_id, encounter_id)


def test_encounter_is_dropped_with_its_patient(of_patient):
    flow = of_patient("p1", "p2", "p3")
    handle = flow.park("launch/encounter patient/*.rs")
    flow.choose(handle, "p2", "e1")
    assert flow.offer(handle).encounter_id == "e1"
    # In another tab another record is chosen.
    flow.choose(handle, "p1")
    assert flow.offer(handle).encounter_id is None
    flow.choose(handle, "p2", "e1")
    with flow.app.app_context(), writing() as connection:
        unlink(connection, flow.user_id, "p2")
    offered = flow.offer(handle)
    assert (offered.needs_patient, offered.encounter_id) == (True, None)
    assert offered.patients == ["p1", "p3"]
    # Somebody else goes on with the request, whose one record is not the one that was chosen.
    other = Flow(flow.app, flow.program, add_person(flow.app, PATIENT, "p9"))
    offered = other.offer(handle)
    assert (offered.patient_id, offered.encounter_id) == ("p9", None)
    with pytest.raises(Unanswerable, match="Choose a visit"):
        other.decide(handle)


def test_encounter_of_a_launch_cannot_be_changed(flow):
    handle = flow.park("launch launch/encounter user/*.rs", launch=flow.launch("p1", "e1"))
    flow.choose(handle, "p1", "e2")
    offered = flow.offer(handle)
    assert (offered.picks_encounter, offered.encounter_id) == (False, "e1")


def test_only_scopes_that_were_offered_and_ticked_are_granted(flow):
    handle = flow.park("openid user/AllergyIntolerance.rs user/DocumentReference.rs")
    flow.decide(handle, ticked=["user/DocumentReference.rs", "user/*.rs", "offline_access", "x"])
    assert grant_row(flow).scope == "user/DocumentReference.rs"


def test_refusal_or_no_ticked_access_is_access_denied(flow):
    for ticked in ([], ["fhirUser"], ["user/*.cruds", "system/*.rs"]):
        handle = flow.park("openid fhirUser user/*.rs")
        with pytest.raises(SendBack) as raised:
            flow.decide(handle, ticked=ticked)
        assert told(raised)[0] == "access_denied"
    handle = flow.park("user/*.rs")
    answer = parameters_of(flow.refuse(handle))
    assert answer.pop("error_description")
    assert answer == {"error": "access_denied", "state": STATE}
    with flow.app.app_context():
        assert authorize.find(handle) is None


def test_first_of_two_answers_holds(flow):
    handle = flow.park("user/*.rs")
    with flow.app.test_request_context():
        parked, signed = authorize.find(handle), flow.signed()
        offered = authorize.offer(parked, signed.user)
        authorize.decide(parked, offered, signed, offered.scopes, 1)
        with pytest.raises(Unanswerable, match="already answered"):
            authorize.decide(parked, offered, signed, offered.scopes, 1)
        with pytest.raises(Unanswerable, match="already answered"):
            authorize.refuse(parked)
        assert authorize.find(handle) is None
    # That there is one grant, and one code.
    codes = select(AuthorizationCode).where(AuthorizationCode.grant_id == grant_row(flow).id)
    assert len(rows(flow.app, codes)) == 1


def test_code_is_stored_as_its_digest_and_expires_after_a_minute(flow):
    handle = flow.park("user/*.rs", nonce="n-1")
    answer = parameters_of(flow.decide(handle))
    assert answer.keys() == {"code", "state"}
    code = answer["code"]
    row = row_of(flow, AuthorizationCode, code)
    assert len(code) == 48
    assert (row.nonce, row.redirect_uri, row.used_at) == ("n-1", REDIRECT, None)
    assert 58 <= row.expires_at - time.time() <= 60


def test_client_that_is_disabled_or_moved_meanwhile_gets_no_answer(oauth):
    for values, words in (
        ({"disabled": True}, "is not registered on this server"),
        ({"approved_at": None}, "has not been approved"),
        ({"redirect_uris": ["https://app.example/other"]}, "(redirect_uri) that is not registered"),
    ):
        flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))
        handle = flow.park("openid user/*.rs", prompt="none")
        set_client(oauth, flow.program, **values)
        for answer in (flow.offer, flow.refuse):
            with pytest.raises(Unanswerable) as raised:
                answer(handle)
            assert words in str(raised.value)
        with oauth.test_request_context(), pytest.raises(Unanswerable):
            authorize.wants_sign_in(authorize.find(handle), None)


def test_registration_that_is_narrowed_meanwhile_narrows_the_offer(flow):
    handle = flow.park("openid user/*.rs")
    set_client(flow.app, flow.program, scope="user/AllergyIntolerance.rs")
    assert flow.offer(handle).scopes == ["user/AllergyIntolerance.rs"]


def test_consent_lasts_as_many_days_as_chosen_at_most_half_a_year(oauth):
    for scope, days, lasts in (
        ("user/*.rs offline_access", 1, 86_400),
        ("user/*.rs offline_access", 180, 180 * 86_400),
        ("user/*.rs offline_access", 9999, 180 * 86_400),
        # The hour of an access token, and the minute of its code.
        ("user/*.rs", 90, 3660),
    ):
        flow = Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))
        flow.decide(flow.park(scope), days=days)
        row = grant_row(flow)
        assert abs(row.expires_at - row.created_at - lasts) <= 1
        assert row.session_id is None


def test_online_access_ends_with_the_session(flow):
    signed_in_at = int(time.time()) - 7200
    mine = update(Session).where(Session.user_id == flow.user_id)
    alter(flow.app, mine.values(signed_in_at=signed_in_at))
    flow.decide(flow.park("user/*.rs online_access"))
    row = grant_row(flow)
    assert row.expires_at == signed_in_at + 12 * 3600
    ((session,),) = rows(flow.app, select(Session).where(Session.user_id == flow.user_id))
    assert row.session_id == session.id
