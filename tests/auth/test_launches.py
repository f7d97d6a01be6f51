"""Apps that our own pages start with a patient in context: SMART App Launch 2.2, EHR launch."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select, update

from fhirapp.auth.models import CLINICIAN, Launch, digest
from fhirapp.auth.oauth import authorization_request, authorize
from fhirapp.auth.oauth.authorize import SendBack
from fhirapp.db import writing
from tests.support.authorizing import (
    AUD,
    Flow,
    add_person,
    add_program,
    alter,
    parameters_of,
    rows,
    told,
)

SCOPE = "launch openid patient/*.rs"
SPENT = "launch is not known, was used, has expired, or is another app's."


@pytest.mark.parametrize(
    "launch_uri", ["https://app.example/start", "https://app.example/start?clinic=1&x=%2F"]
)
def test_the_app_is_told_where_it_is_and_a_launch_id(flow, launch_uri):
    with flow.app.test_request_context(), writing() as connection:
        address = authorization_request.start(
            connection,
            client_id=flow.program.client_id,
            launch_uri=launch_uri,
            user_id=flow.user_id,
            patient_id="p1",
        )
    answer = parameters_of(address, launch_uri)
    assert answer["iss"] == AUD
    assert len(answer["launch"]) == 43


def launch_row(flow: Flow, launch: str) -> Launch:
    """Return the row of a launch id, kept as a hash."""
    ((found,),) = rows(flow.app, select(Launch).where(Launch.digest == digest(launch)))
    return found


def test_a_launch_puts_its_patient_and_encounter_in_context(flow):
    launch = flow.launch("p1", "enc-p1-2024-ed")
    handle = flow.park(f"{SCOPE} launch/patient launch/encounter", launch=launch)
    offered = flow.offer(handle)
    assert (offered.patient_id, offered.encounter_id) == ("p1", "enc-p1-2024-ed")
    assert not offered.needs_patient
    assert {"launch", "launch/patient", "launch/encounter"} < set(offered.scopes)
    code = parameters_of(flow.decide(handle))["code"]
    answer = flow.redeem(code).get_json()
    assert (answer["patient"], answer["encounter"]) == ("p1", "enc-p1-2024-ed")


def test_a_launch_without_an_encounter_offers_none(flow):
    handle = flow.park(f"{SCOPE} launch/encounter", launch=flow.launch("p1"))
    offered = flow.offer(handle)
    assert (offered.scopes, offered.encounter_id) == (SCOPE.split(), None)


def test_the_patient_of_a_launch_is_told_where_no_scope_is_about_one(flow):
    """The app is told whose record is open, and sees nothing of it that user/ does not show."""
    answer = flow.tokens("launch user/*.rs", launch=flow.launch("p1"))
    assert answer["patient"] == "p1"


def test_the_patient_of_a_launch_cannot_be_changed(flow):
    handle = flow.park(SCOPE, launch=flow.launch("p1"))
    flow.choose(handle, "p2")
    assert flow.offer(handle).patient_id == "p1"


def test_a_launch_is_for_the_user_who_started_it(flow):
    handle = flow.park(SCOPE, launch=flow.launch("p1"))
    other = Flow(flow.app, flow.program, add_person(flow.app, CLINICIAN))
    with pytest.raises(SendBack) as raised:
        other.offer(handle)
    assert told(raised) == ("access_denied", "The app was launched by another user.")
    assert flow.offer(handle).patient_id == "p1"


def test_a_launch_serves_once_and_only_its_own_app(flow):
    launch = flow.launch("p1")
    other = Flow(flow.app, add_program(flow.app), flow.user_id)
    with pytest.raises(SendBack) as raised:
        other.park(SCOPE, launch=launch)
    assert told(raised) == ("invalid_request", SPENT)
    assert launch_row(flow, launch).used_at is None
    flow.park(SCOPE, launch=launch)
    with pytest.raises(SendBack) as raised:
        flow.park(SCOPE, launch=launch)
    assert told(raised) == ("invalid_request", SPENT)


def test_a_request_that_is_wrong_spends_no_launch(flow):
    launch = flow.launch("p1")
    with pytest.raises(SendBack):
        flow.park(SCOPE, launch=launch, aud="https://other.example/fhir")
    assert flow.park(SCOPE, launch=launch)


def test_a_launch_serves_for_five_minutes(flow):
    launch = flow.launch("p1")
    assert 298 <= launch_row(flow, launch).expires_at - time.time() <= 300
    past = update(Launch).where(Launch.digest == digest(launch))
    alter(flow.app, past.values(expires_at=int(time.time())))
    with pytest.raises(SendBack) as raised:
        flow.park(SCOPE, launch=launch)
    assert told(raised) == ("invalid_request", SPENT)
    alter(flow.app, past.values(expires_at=int(time.time()) - 2))
    flow.launch("p1")
    assert rows(flow.app, select(Launch).where(Launch.digest == digest(launch))) == []


def test_who_is_launched_must_be_signed_in_like_everybody(flow):
    with flow.app.test_request_context():
        parked = authorize.find(flow.park(SCOPE, launch=flow.launch("p1")))
        assert authorize.wants_sign_in(parked, None)
