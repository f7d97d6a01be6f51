"""Ids of requests that a named proxy gives: refusals and AuditEvents are found by them."""

from __future__ import annotations

import re

from flask import Flask
from werkzeug.test import TestResponse

from fhirapp.audit.entries import entries
from fhirapp.auth.protector import VIA_PROXY
from fhirapp.auth.refusals import find_refusals
from tests.support.audit_events import administrator, listed
from tests.support.helpers import assert_outcome, token_for
from tests.support.r4 import faults
from tests.support.trails import noted

TRACE = "ab" * 16


IDS = (
    "req_2024_abc",
    "A1B2-c3d4.E5",
    "8f14e45f-ceea-467f-a5b1-1c6e4a2f9b30",
    "_" * 64,
    "0123456789abcdef",
    "100._of_",
)


def ask(app: Flask, path: str, proxy_id: str = "", **headers: str) -> TestResponse:
    """Return the answer to a request that a named proxy brings, by a token for Patient alone."""
    headers["Authorization"] = f"Bearer {token_for(app, 'system/Patient.rs')}"
    if proxy_id:
        headers["X-Request-Id"] = proxy_id
    return app.test_client().get(
        f"/fhir/{path}", headers=headers, environ_overrides={VIA_PROXY: "10.0.0.7"}
    )


def reasons(app: Flask, shown_id: str) -> list[str]:
    """Return the first reason of each refusal that is found by an id."""
    with app.app_context():
        return [refusal.reasons[0].partition(" of ")[2] for refusal in find_refusals(shown_id)]


def test_refusal_is_found_by_the_id_of_the_proxy(own_app):
    for proxy_id in IDS:
        answer = ask(own_app, "AllergyIntolerance", proxy_id)
        assert (answer.status_code, answer.headers["X-Request-Id"]) == (403, proxy_id)
        assert reasons(own_app, proxy_id) == ["AllergyIntolerance."]
    answer = ask(own_app, "AllergyIntolerance", traceparent=f"00-{TRACE}-{'cd' * 8}-01")
    assert answer.headers["X-Request-Id"] == TRACE
    assert reasons(own_app, TRACE) == ["AllergyIntolerance."]


def test_refusals_with_the_same_id_are_all_found_newest_first(own_app):
    for name in ("AllergyIntolerance", "DocumentReference", "Encounter"):
        assert ask(own_app, name, "retry_0001").status_code == 403
    found = ["Encounter.", "DocumentReference.", "AllergyIntolerance."]
    assert reasons(own_app, "retry_0001") == found


def test_refusal_is_not_found_by_another_id(own_app):
    ask(own_app, "AllergyIntolerance", "req_2024_abc")
    for other in (
        *("reqX2024_abc", "2024_abc", "xreq_2024_abc", "REQ_2024_ABC", "%2024_abc", "%%%%%%%%"),
    ):
        assert reasons(own_app, other) == []


def test_audit_events_have_valid_ids_of_their_own(own_app):
    for proxy_id in (*IDS, "retry_0001", "retry_0001", ""):
        assert ask(own_app, "Patient/p1", proxy_id).status_code == 200
    client = administrator(own_app)
    found = listed(client)
    assert {fault for event in found for fault in faults(event)} == set()
    assert len({event["id"] for event in found}) == len(found)
    for event in found:
        assert client.read(f"AuditEvent/{event['id']}") == event
    assert_outcome(
        client.get("AuditEvent/req_2024_abc"),
        404,
        "not-found",
        "AuditEvent/req_2024_abc is not known here.",
    )


def test_trail_records_the_id_of_the_proxy(own_app):
    ask(own_app, "Patient/p1", "req_2024_abc")
    ask(own_app, "Patient/p1")
    with own_app.app_context():
        own, named = entries()
    assert named.request_id == "req_2024_abc"
    assert re.fullmatch("[0-9a-f]{16}", named.id)
    assert own.request_id == own.id
    lines = [line for line in noted(own_app) if line.get("path") == "/fhir/Patient/p1"]
    assert [(line["request"], line.get("id")) for line in lines] == [
        ("req_2024_abc", named.id),
        (own.id, None),
    ]
