"""Accounts of related persons: fhirUser, and access that ends with the relation.

SMART App Launch 2.2 §fhirUser; FHIR R4 RelatedPerson; decisions §6.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth import links
from fhirapp.auth.links import RecordLink, all_links, lapse_of, linked_patients, related_to
from fhirapp.auth.models import CLINICIAN, PATIENT, digest
from fhirapp.auth.oauth.authorize import SendBack
from fhirapp.auth.protector import look_up
from fhirapp.auth.users.accounts import link
from fhirapp.db import writing
from tests.support.access import refusal_of_request, related_person
from tests.support.authorizing import Flow, add_backend, add_person, add_program, set_user
from tests.support.contract import delete, publish
from tests.support.helpers import BASE_URL, Fhir
from tests.support.id_tokens import claims_of, user_info

MOTHER = "RelatedPerson/rp-lindqvist"
ALLERGY_OF_CHILD = "AllergyIntolerance/al-p3-egg"
SCOPE = "openid fhirUser launch/patient patient/*.rs"
_MOMENTS = count()
# Every test runs at noon of this day, so that none depends on when it runs.
TODAY = datetime(2026, 6, 15, tzinfo=UTC)
NOON = TODAY + timedelta(hours=12)


def moment() -> str:
    """Return an instant for a new version, later than all before."""
    then = datetime(2026, 2, 1, tzinfo=UTC) + timedelta(seconds=next(_MOMENTS))
    return then.isoformat(timespec="milliseconds")


@pytest.fixture(autouse=True)
def set_clock(monkeypatch) -> Callable[[datetime], None]:
    """Set the clock that links are judged by to noon; return what sets it anew."""

    def set_to(then: datetime) -> None:
        monkeypatch.setattr(links, "time", SimpleNamespace(time=then.timestamp))

    set_to(NOON)
    return set_to


@pytest.fixture
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """Return a seeded app of one test."""
    return make_app()


def mother(app: Flask, *own: str, **linked: Any) -> Flow:
    """Return the mother of p3 with an app; own are records of her own, or linked as proxy."""
    user_id = add_person(app, PATIENT, *own)
    with app.app_context(), writing() as connection:
        link(connection, user_id, "p3", related_person="rp-lindqvist", **linked)
    return Flow(app, add_program(app), user_id)


def fhir_user(flow: Flow, answer: dict[str, Any]) -> str | None:
    """Return who the user is, as the id token, userinfo and introspection all tell it."""
    who = claims_of(flow, answer).get("fhirUser")
    assert user_info(flow, answer["access_token"]).get_json().get("fhirUser") == who
    backend = Flow(flow.app, add_backend(flow.app), flow.user_id)
    content = backend.introspect(answer["access_token"]).get_json()
    assert (content["active"], content.get("fhirUser")) == (True, who)
    return who and who.removeprefix(f"{BASE_URL}/fhir/")


def test_fhir_user_of_a_proxy_is_the_related_person(clinic):
    flow = mother(clinic)
    answer = flow.tokens(SCOPE)
    assert (answer["patient"], fhir_user(flow, answer)) == ("p3", MOTHER)
    fhir = Fhir(clinic, answer["access_token"])
    resource = fhir.get(MOTHER).get_json(force=True)
    assert (resource["patient"]["reference"], resource["name"][0]["given"]) == (
        "Patient/p3",
        ["Sara"],
    )
    assert fhir.get(ALLERGY_OF_CHILD).status_code == 200


def test_related_person_reads_themselves_and_no_other(clinic):
    publish(clinic, related_person(row_id="father"), now=moment())
    flow = mother(clinic)
    fhir = flow.fhir("openid fhirUser patient/AllergyIntolerance.rs", patient="p3")
    assert fhir.get(MOTHER).status_code == 200
    assert fhir.get(f"{MOTHER}/_history/1").status_code == 200
    assert fhir.get("RelatedPerson/father").status_code == 404
    assert fhir.get("RelatedPerson").status_code == 403
    assert fhir.get("RelatedPerson?_id=rp-lindqvist").status_code == 403
    without = flow.fhir("openid patient/AllergyIntolerance.rs", patient="p3")
    assert without.get(MOTHER).status_code == 403
    # All of the child's record: the other parent is a part of it.
    whole = flow.fhir("patient/*.rs", patient="p3")
    assert sorted(whole.ids("RelatedPerson")) == ["father", "rp-lindqvist"]


def test_related_person_who_is_a_patient_too_is_the_one_that_the_context_makes_them(clinic):
    flow = mother(clinic, "p1")
    for chosen, who in (("p3", MOTHER), ("p1", "Patient/p1"), (None, "Patient/p1")):
        answer = flow.tokens(SCOPE if chosen else "openid fhirUser", patient=chosen)
        assert fhir_user(flow, answer) == who
        assert Fhir(clinic, answer["access_token"]).get(who).status_code == 200


def test_app_for_one_child_learns_nothing_of_another(clinic):
    flow = mother(clinic)
    with clinic.app_context(), writing() as connection:
        link(connection, flow.user_id, "p2", is_self=False)
    answer = flow.tokens(SCOPE, patient="p2")
    assert (fhir_user(flow, answer), answer["patient"]) == (None, "p2")
    assert "fhirUser" not in answer["scope"]
    assert Fhir(clinic, answer["access_token"]).get(MOTHER).status_code == 404


def test_app_without_a_patient_in_context_is_told_of_no_child(clinic):
    flow = mother(clinic)
    ticked = {"patient": "p3", "ticked": ["openid", "fhirUser"]}
    for scope, options in (("openid fhirUser", {}), (SCOPE, ticked)):
        answer = flow.tokens(scope, **options)
        assert (fhir_user(flow, answer), answer["scope"]) == (None, "openid")
        assert "patient" not in answer
        assert Fhir(clinic, answer["access_token"]).get(MOTHER).status_code == 403


def test_version_that_was_related_to_another_patient_is_hidden(clinic):
    name = {"reference": "Patient/p1", "display": "Amelia Hartwell"}
    publish(clinic, related_person(patient=name), now=moment())
    publish(clinic, related_person(), now=moment())
    flow = mother(clinic)
    for scope in ("openid fhirUser patient/AllergyIntolerance.rs", SCOPE):
        fhir = flow.fhir(scope, patient="p3")
        assert fhir.get(MOTHER).status_code == fhir.get(f"{MOTHER}/_history/3").status_code == 200
        assert fhir.get(f"{MOTHER}/_history/2").status_code == 404
        for path in (f"{MOTHER}/_history", "_history"):
            text = fhir.get(path).text
            assert "rp-lindqvist" in text
            assert "Hartwell" not in text


def test_related_person_is_not_the_patient(clinic):
    flow = mother(clinic, is_self=True)
    with clinic.app_context():
        assert all_links(flow.user_id) == [RecordLink("p3", False, "rp-lindqvist", "")]


ENDS = [
    ({"period": {"end": "2026-06-14"}}, links.ENDED),
    ({"period": {"start": "2017", "end": "2025"}}, links.ENDED),
    ({"period": {"start": "2026-06-16"}}, links.NOT_BEGUN),
    ({"active": False}, links.INACTIVE),
    ({"patient": {"reference": "Patient/p2"}}, links.ANOTHER),
    ({"patient": {"identifier": {"value": "p3"}}}, links.ANOTHER),
    ({"patient": {"reference": "https://else.example/fhir/Patient/p3"}}, links.ANOTHER),
    ({"modifierExtension": [{"url": "urn:not", "valueBoolean": True}]}, links.MODIFIED),
    ({"implicitRules": "urn:rules"}, links.MODIFIED),
]


def test_change_of_the_related_person_ends_the_access_at_once(clinic):
    fhir = mother(clinic).fhir(SCOPE)
    reasons = []
    for change, _why in ENDS:
        publish(clinic, related_person(**change), now=moment())
        response = fhir.get(ALLERGY_OF_CHILD)
        assert response.status_code == 403, change
        reasons.append(refusal_of_request(clinic, response).reasons)
        # It is restored with the record.
        publish(clinic, related_person(), now=moment())
        assert fhir.get(ALLERGY_OF_CHILD).status_code == 200
    assert [why for (_, why), found in zip(ENDS, reasons, strict=True) if why not in found] == []


@pytest.mark.parametrize("is_deleted", [False, True])
def test_ended_relation_tells_nothing_of_the_record(clinic, is_deleted):
    flow = mother(clinic)
    answer = flow.tokens(f"{SCOPE} offline_access")
    fhir = Fhir(clinic, answer["access_token"])
    assert fhir.get(ALLERGY_OF_CHILD).status_code == 200
    if is_deleted:
        delete(clinic, "RelatedPerson", "rp-lindqvist", now=moment())
    else:
        publish(clinic, related_person(active=False), now=moment())
    assert_no_access(flow, answer, fhir, links.UNKNOWN if is_deleted else links.INACTIVE)


def assert_no_access(flow: Flow, answer: dict[str, Any], fhir: Fhir, why: str) -> None:
    """Assert that nothing of the record is told, by a token of before or of now."""
    for path in (ALLERGY_OF_CHILD, f"{ALLERGY_OF_CHILD}/_history", "Patient/p3", MOTHER):
        assert fhir.get(path).status_code == 403, path
    assert fhir.get("AllergyIntolerance").status_code == 403
    assert fhir.get("AllergyIntolerance?patient=p3").status_code == 403
    assert "fhirUser" not in user_info(flow, answer["access_token"]).get_json()
    later = flow.refresh(answer["refresh_token"]).get_json()
    assert "patient" not in later
    assert Fhir(flow.app, later["access_token"]).get(ALLERGY_OF_CHILD).status_code == 403
    with pytest.raises(SendBack):
        flow.offer(flow.park("launch/patient patient/*.rs"))
    with flow.app.app_context():
        assert linked_patients(flow.user_id) == []
        assert [link.lapse for link in all_links(flow.user_id)] == [why]
        assert related_to("p3") == []
    assert why in refusal_of_request(flow.app, fhir.get("AllergyIntolerance")).reasons


def test_period_lasts_to_the_end_of_its_end(clinic):
    flow = mother(clinic)
    for elements in (
        *({"period": {"end": end}} for end in ("2026", "2026-06", "9999-12-31")),
        {"period": {"start": "2026-06-15", "end": "2026-06-15"}},
        {"period": {"start": "2017", "end": "2099-01-01"}},
        *({"period": {}}, {"active": None}),
    ):
        resource = related_person(**elements)
        valid = {name: value for name, value in resource.items() if value not in (None, {})}
        publish(clinic, valid, now=moment())
        with clinic.app_context():
            assert lapse_of("p3", "rp-lindqvist") == "", elements
        assert flow.fhir(SCOPE).get(ALLERGY_OF_CHILD).status_code == 200


def test_period_ends_without_a_write(clinic, set_clock):
    flow = mother(clinic)
    publish(clinic, related_person(period={"end": "2026-06-15"}), now=moment())
    token = flow.tokens(SCOPE)["access_token"]
    set_clock(TODAY + timedelta(days=1, milliseconds=-1))
    with clinic.test_request_context():
        found = look_up(digest(token))
        assert found is not None
        assert found.is_linked
    set_clock(TODAY + timedelta(days=1))
    with clinic.test_request_context():
        found = look_up(digest(token))
        assert found is not None
        assert (found.is_linked, found.fhir_user) == (False, None)


def test_other_links_stay_when_a_relation_ends(clinic):
    flow, guardian = mother(clinic, "p1", "p2"), add_person(clinic, PATIENT)
    with clinic.app_context(), writing() as connection:
        # Not as a related person.
        link(connection, guardian, "p3", is_self=False)
    publish(clinic, related_person(active=False), now=moment())
    with clinic.app_context():
        assert linked_patients(flow.user_id) == ["p1", "p2"]
    fhir = flow.fhir(SCOPE, patient="p2")
    assert fhir.get("Patient/p2").status_code == 200
    assert fhir.get("Patient/p3").status_code == 404
    of_guardian = Flow(clinic, add_program(clinic), guardian).fhir("patient/*.rs", patient="p3")
    assert of_guardian.get(ALLERGY_OF_CHILD).status_code == 200


def test_fhir_user_of_staff_is_their_practitioner(clinic):
    flow = mother(clinic)
    set_user(clinic, flow.user_id, role=CLINICIAN, fhir_user="Practitioner/dr-adeyemi")
    assert fhir_user(flow, flow.tokens("openid fhirUser")) == "Practitioner/dr-adeyemi"
