"""Apps that our own pages start with a patient in context: SMART App Launch 2.2, EHR launch."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select

from fhirapp.auth.models import CLINICIAN, Launch, digest
from fhirapp.auth.oauth import launch
from fhirapp.auth.oauth.authorize import SendBack
from fhirapp.db import writing
from tests.auth.grants import expire, row_of
from tests.support.authorizing import (
    AUD,
    Flow,
    add_person,
    add_program,
    parameters_of,
    rows,
    told,
)

SCOPE = "launch openid patient/*.rs"


def refusal_of(flow: Flow, launch: str, **changes: str) -> tuple[str, str]:
    """Return the error of a request with a launch id, and its description."""
    with pytest.raises(SendBack) as raised:
        flow.park(SCOPE, launch=launch, **changes)
    return told(raised)


def test_launch_uri_gets_the_issuer_and_a_launch_id(flow):
    for launch_uri in ("https://app.example/start", "https://app.example/start?clinic=1&x=%2F"):
        with flow.app.test_request_context(), writing() as connection:
            address = launch.start(
                connection,
                client_id=flow.program.client_id,
                launch_uri=launch_uri,
                user_id=flow.user_id,
                patient_id="p1",
            )
        answer = parameters_of(address, launch_uri)
        assert answer["iss"] == AUD
        assert len(answer["launch"]) == 43


def test_launch_puts_its_patient_and_encounter_in_context(flow):
    launch = flow.launch("p1", "enc-p1-2024-ed")
    handle = flow.park(f"{SCOPE} launch/patient launch/encounter", launch=launch)
    offered = flow.offer(handle)
    assert (offered.patient_id, offered.encounter_id) == ("p1", "enc-p1-2024-ed")
    assert not offered.needs_patient
    assert {"launch", "launch/patient", "launch/encounter"} < set(offered.scopes)
    code = parameters_of(flow.decide(handle))["code"]
    answer = flow.redeem(code).get_json()
    assert (answer["patient"], answer["encounter"]) == ("p1", "enc-p1-2024-ed")


def test_launch_without_an_encounter_offers_none(flow):
    handle = flow.park(f"{SCOPE} launch/encounter", launch=flow.launch("p1"))
    offered = flow.offer(handle)
    assert (offered.scopes, offered.encounter_id) == (SCOPE.split(), None)


def test_patient_of_a_launch_is_fixed_and_in_context_without_a_patient_scope(flow):
    answer = flow.tokens("launch user/*.rs", launch=flow.launch("p1"))
    assert answer["patient"] == "p1"
    handle = flow.park(SCOPE, launch=flow.launch("p1"))
    flow.choose(handle, "p2")
    assert flow.offer(handle).patient_id == "p1"


def test_launch_is_for_the_user_who_started_it(flow):
    handle = flow.park(SCOPE, launch=flow.launch("p1"))
    other = Flow(flow.app, flow.program, add_person(flow.app, CLINICIAN))
    with pytest.raises(SendBack) as raised:
        other.offer(handle)
    assert told(raised)[0] == "access_denied"
    assert flow.offer(handle).patient_id == "p1"


def test_launch_is_used_once_by_its_own_app_with_a_valid_request(flow):
    launch = flow.launch("p1")
    other = Flow(flow.app, add_program(flow.app), flow.user_id)
    error, words = refusal_of(other, launch)
    assert (error, "launch is not known" in words) == ("invalid_request", True)
    assert refusal_of(flow, launch, aud="https://other.example/fhir")[0] == "invalid_request"
    assert row_of(flow, Launch, launch).used_at is None
    flow.park(SCOPE, launch=launch)
    assert refusal_of(flow, launch) == (error, words)


def test_launch_expires_after_five_minutes(flow):
    launch = flow.launch("p1")
    assert 298 <= row_of(flow, Launch, launch).expires_at - time.time() <= 300
    expire(flow, Launch, launch)
    assert refusal_of(flow, launch)[0] == "invalid_request"
    expire(flow, Launch, launch, 2)
    flow.launch("p1")
    assert rows(flow.app, select(Launch).where(Launch.digest == digest(launch))) == []
