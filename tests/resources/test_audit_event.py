"""AuditEvent: the trail as FHIR has it, for administrators whose app asked for it by name."""

from __future__ import annotations

import base64

import pytest

from fhirapp.audit.events import EVENTS, record
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN
from tests.support.audit_events import SCOPE, administrator, listed
from tests.support.helpers import Fhir, token_for
from tests.support.r4 import faults


@pytest.fixture
def with_events(watched, own_app):
    """An app whose trail has requests of each interaction, and each event."""
    for path in (
        *("Patient/p1", "AllergyIntolerance?patient=p1", "Patient/p1/_history/1", "metadata"),
        *("Patient/p1/$everything", "Patient/nobody", "Patient/p1/_history", "Patient/_history"),
    ):
        watched.get(path)
    Fhir(own_app, "nobody's").get("Patient/p1")
    with own_app.app_context():
        for event in EVENTS:
            if event != "head":
                record(event, about="user/u1", what="more", named=["p1"], user_id="u2")
    return own_app


def test_requests_and_events_are_valid_resources(with_events):
    client = administrator(with_events)
    found = listed(client)
    of_each_kind = {event["subtype"][0]["code"]: event for event in found}
    assert {fault for event in of_each_kind.values() for fault in faults(event)} == set()
    assert {event["subtype"][0]["code"] for event in found} >= {
        *("read", "search-type", "vread", "capabilities", "operation", "history-instance"),
        *("history-type", "110122", "110136", "110137", "110106"),
    }
    assert len({event["id"] for event in found}) == len(found)
    for event in found[:5]:
        assert client.read(f"AuditEvent/{event['id']}") == event


def test_audit_event_of_a_read_names_agent_patient_and_query(watched, own_app):
    watched.get("AllergyIntolerance/al-p1-penicillin")
    (one,) = listed(administrator(own_app), "patient=p1")
    assert (one["type"]["code"], one["action"], one["outcome"]) == ("rest", "R", "0")
    (agent,) = one["agent"]
    assert agent["who"]["identifier"]["value"] == "operator"
    assert agent["network"] == {"address": "127.0.0.1", "type": "2"}
    patient, served, query = one["entity"]
    assert patient["what"] == {"reference": "Patient/p1"}
    assert served["what"]["reference"].startswith("AllergyIntolerance/al-p1-penicillin/_history/")
    asked = base64.b64decode(query["query"]).decode()
    assert asked == "GET /fhir/AllergyIntolerance/al-p1-penicillin"


def test_audit_events_are_paged_and_searched_by_date(watched, own_app):
    for count in range(5):
        watched.get(f"Patient?_count={count}")
    client = administrator(own_app)
    first = client.read("AuditEvent?_count=3&patient=p1")
    assert "entry" not in first
    page, seen = client.read("AuditEvent?_count=3"), []
    while True:
        seen += [entry["resource"]["id"] for entry in page["entry"]]
        following = [link["url"] for link in page["link"] if link["relation"] == "next"]
        if not following:
            break
        page = client.read(following[0].partition("/fhir/")[2])
    assert len(seen) == len({*seen}) > 6
    assert listed(client, "date=ge2999") == listed(client, "date=lt2020") == []
    assert len(listed(client, "date=ge2020&date=lt2999&_count=1000")) > 6


@pytest.mark.parametrize(
    ("role", "scope"),
    [
        (CLINICIAN, f"{SCOPE} user/*.rs"),
        (ADMINISTRATOR, "user/*.rs"),
        (ADMINISTRATOR, "user/Patient.rs"),
    ],
)
@pytest.mark.parametrize("path", ["AuditEvent", "AuditEvent/1"])
def test_audit_events_need_an_administrator_and_the_named_scope(own_app, role, scope, path):
    assert administrator(own_app, scope, role).get(path).status_code == 403


def test_audit_events_are_refused_to_systems_and_without_a_token(own_app):
    for path in ["AuditEvent", "AuditEvent/1"]:
        everything = Fhir(own_app, token_for(own_app, "system/*.rs"))
        assert everything.get(path).status_code == 403
        assert Fhir(own_app, "").get(path).status_code == 401


UNKNOWN = ["agent=x", "_sort=date", "date=x", "date=ap2020", "_count=x", "patient=a/b", "x=1"]
UNKNOWN += ["patient=", "patient=p1&patient=", "date=", "_count=", "_before=9"]


def test_unknown_parameter_of_audit_events_is_refused(own_app):
    client = administrator(own_app)
    statuses = {query: client.get(f"AuditEvent?{query}").status_code for query in UNKNOWN}
    assert statuses == dict.fromkeys(UNKNOWN, 400)


def test_unknown_audit_event_is_not_found(own_app):
    client = administrator(own_app)
    for event_id in ["unknown", "%00", "a" * 65]:
        assert client.get(f"AuditEvent/{event_id}").status_code == 404


def test_capability_statement_lists_audit_events(own_app):
    statement = Fhir(own_app, "").read("metadata")
    (own,) = [
        definition
        for definition in statement["rest"][0]["resource"]
        if definition["type"] == "AuditEvent"
    ]
    assert [interaction["code"] for interaction in own["interaction"]] == ["read", "search-type"]
    assert not [*faults(statement)]
