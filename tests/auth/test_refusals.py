"""Why was I denied? What is kept of each refusal, and who reads it. Issue 4."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from flask import Flask
from joserfc import jwt
from joserfc.jwk import ECKey
from sqlalchemy import delete, func, insert, select, update
from werkzeug.test import TestResponse

from fhirapp.auth.clients.registration import owner_code
from fhirapp.auth.models import (
    ADMINISTRATOR,
    BASIC,
    CLINICIAN,
    NONE,
    PATIENT,
    SIGNED,
    AccessToken,
    AuthorizationCode,
    Client,
    Grant,
    RefreshToken,
    Refusal,
    User,
    UserPatient,
)
from fhirapp.auth.protector import REQUEST_ID_HEADER
from fhirapp.auth.refusals import (
    KEPT,
    KEPT_SECONDS,
    LONGEST_REASON,
    PER_MINUTE,
    UNPROVED,
    find_refusals,
    newest_refusals,
    refusals_of,
)
from fhirapp.db import writing
from tests.support.authorizing import (
    KEY,
    Flow,
    Program,
    add_backend,
    add_person,
    add_program,
    alter,
    rows,
    set_client,
    set_user,
)
from tests.support.browsing import Browser
from tests.support.browsing import add_person as add_somebody
from tests.support.helpers import BASE_URL, Fhir

SCOPE = "openid offline_access launch/patient patient/*.rs user/*.rs"
UNKNOWN = "unknown" * 6
NO_SCOPE = "(no scope that this server knows)"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app whose rows these tests change."""
    return make_app()


class Denied(NamedTuple):
    """What the tests know of the one who is refused."""

    flow: Flow
    tokens: dict[str, Any]

    @property
    def fhir(self) -> Fhir:
        return Fhir(self.flow.app, self.tokens["access_token"])

    def change(self, *statements: Any) -> None:
        alter(self.flow.app, *statements)


@pytest.fixture
def patient(app: Flask) -> Denied:
    """A patient whose record is p1, and an app that the patient allowed everything."""
    flow = Flow(app, add_program(app), add_person(app, PATIENT, "p1"))
    return Denied(flow, flow.tokens(SCOPE))


@pytest.fixture
def clinician(app: Flask) -> Denied:
    """A clinician, and an app that was allowed everything for p1."""
    flow = Flow(app, add_program(app), add_person(app, CLINICIAN))
    return Denied(flow, flow.tokens(SCOPE, patient="p1"))


def kept(app: Flask, response: TestResponse) -> Refusal:
    """Return what is kept of a refused request, found by the id in its answer."""
    with app.app_context():
        found = find_refusals(response.headers[REQUEST_ID_HEADER])
        assert found, response.text
        return found[0]


def token_of(app: Flask, program: Program, scope: str) -> str:
    """Return a token of a backend's."""
    flow = Flow(app, program, add_person(app, CLINICIAN))
    answer = flow.ask("/oauth/token", grant_type="client_credentials", scope=scope)
    token: str = answer.get_json()["access_token"]
    return token


def expired(one: Denied) -> None:
    past = int(time.time()) - 5
    one.change(
        update(AccessToken)
        .where(AccessToken.client_id == one.flow.program.client_id)
        .values(expires_at=past)
    )


def revoked(one: Denied) -> None:
    one.flow.revoke(one.tokens["access_token"])


def consent_ended(one: Denied) -> None:
    one.flow.revoke(one.tokens["refresh_token"])


def client_disabled(one: Denied) -> None:
    set_client(one.flow.app, one.flow.program, disabled=True)


def client_narrowed(one: Denied) -> None:
    set_client(one.flow.app, one.flow.program, scope="patient/DocumentReference.rs")


def user_disabled(one: Denied) -> None:
    set_user(one.flow.app, one.flow.user_id, disabled=True)


def unlinked(one: Denied) -> None:
    one.change(delete(UserPatient).where(UserPatient.user_id == one.flow.user_id))


@pytest.mark.parametrize(
    ("happened", "status", "reason"),
    [
        (expired, 401, "The token expired at "),
        (revoked, 401, "The token was revoked."),
        (consent_ended, 401, "The user, or the client, ended the consent that the token came of."),
        (client_disabled, 401, "The client is disabled."),
        (user_disabled, 401, "The user is disabled."),
        (client_narrowed, 403, "The client is registered for: patient/DocumentReference.rs"),
        (unlinked, 403, "The patient in context is not linked to the user any more."),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_happened_to_a_token_is_kept_as_a_reason(patient, happened, status, reason):
    assert patient.fhir.get("AllergyIntolerance").status_code == 200
    happened(patient)
    response = patient.fhir.get("AllergyIntolerance")
    assert response.status_code == status
    refusal = kept(patient.flow.app, response)
    assert (refusal.client_id, refusal.user_id, refusal.status, refusal.asked) == (
        patient.flow.program.client_id,
        patient.flow.user_id,
        status,
        "GET /fhir/AllergyIntolerance",
    )
    assert [one for one in refusal.reasons if one.startswith(reason)], refusal.reasons
    assert refusal.reasons[0] == response.get_json(force=True)["issue"][0]["diagnostics"]


def test_a_scope_that_does_not_reach_is_kept_with_what_is_left(app):
    program = add_backend(app, "system/*.rs")
    fhir = Fhir(app, token_of(app, program, "system/AllergyIntolerance.rs"))
    refusal = kept(app, fhir.get("DocumentReference?patient=p1"))
    assert refusal.user_id is None
    assert refusal.reasons == [
        "The token's scope does not cover search of DocumentReference.",
        "It would have needed: system/DocumentReference.s",
        "The token's scope: system/AllergyIntolerance.rs",
        "The client is registered for: system/*.rs",
        "What is left of these together: system/AllergyIntolerance.rs",
    ]


@pytest.mark.parametrize(
    ("role", "scope", "needed"),
    [
        (PATIENT, "patient/Patient.rs", "patient/AllergyIntolerance.s"),
        (CLINICIAN, "user/Patient.rs", "patient/AllergyIntolerance.s or user/AllergyIntolerance.s"),
    ],
)
def test_the_scope_that_is_missing_is_one_that_this_user_could_allow(app, role, scope, needed):
    flow = Flow(app, add_program(app), add_person(app, role, *["p1"] * (role == PATIENT)))
    refusal = kept(app, flow.fhir(scope).get("AllergyIntolerance"))
    assert refusal.reasons[1] == f"It would have needed: {needed}"


def test_where_no_scope_would_do_none_is_named(patient):
    """A patient's token for one record, asked for another."""
    refusal = kept(patient.flow.app, patient.fhir.get("AllergyIntolerance?patient=p2"))
    assert not [one for one in refusal.reasons if one.startswith("It would have needed")]


def test_another_patient_is_reached_by_staff_with_a_scope_on_all(app):
    flow = Flow(app, add_program(app), add_person(app, CLINICIAN))
    refused = flow.fhir("patient/*.rs", patient="p1").get("AllergyIntolerance?patient=p2")
    assert kept(app, refused).reasons[1] == "It would have needed: user/AllergyIntolerance.s"


def test_a_scope_that_is_about_no_type_is_named_as_it_is(app):
    flow = Flow(app, add_program(app), add_person(app, CLINICIAN))
    headers = {"Authorization": f"Bearer {flow.tokens('user/*.rs')['access_token']}"}
    refusal = kept(app, app.test_client().get("/oauth/userinfo", headers=headers))
    assert (refusal.asked, refusal.status) == ("GET /oauth/userinfo", 403)
    assert refusal.reasons[1] == "It would have needed: openid"


@pytest.mark.parametrize(
    "happened", [expired, revoked, consent_ended, client_disabled, user_disabled]
)
def test_of_a_token_that_serves_no_more_nothing_is_said_to_be_left(patient, happened):
    happened(patient)
    refusal = kept(patient.flow.app, patient.fhir.get("AllergyIntolerance"))
    assert not [one for one in refusal.reasons if "What is left" in one]


def test_of_a_record_that_is_not_linked_any_more_nothing_is_left(patient):
    unlinked(patient)
    refusal = kept(patient.flow.app, patient.fhir.get("AllergyIntolerance"))
    assert refusal.reasons[-1] == "What is left of these together: nothing"


def test_another_patient_than_the_one_in_context_is_kept_without_either(patient):
    refusal = kept(patient.flow.app, patient.fhir.get("AllergyIntolerance?patient=p2"))
    assert refusal.reasons[0] == "patient: the token is for one patient, and this is another."
    assert "The user's role: patient" in refusal.reasons


def test_a_role_that_cannot_allow_the_scope_any_more_is_kept(clinician):
    set_user(clinician.flow.app, clinician.flow.user_id, role=PATIENT)
    refusal = kept(clinician.flow.app, clinician.fhir.get("Encounter"))
    assert "The user's role: patient" in refusal.reasons
    # No record is linked to the account.
    assert refusal.reasons[-1] == "What is left of these together: nothing"


def test_the_answer_itself_stays_terse(patient):
    unlinked(patient)
    response = patient.fhir.get("AllergyIntolerance")
    (issue,) = response.get_json(force=True)["issue"]
    assert issue["diagnostics"] == (
        "The token's scope does not cover search of AllergyIntolerance."
    )
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("header", [None, "Bearer unknown", "Basic eDp5"])
def test_of_whoever_is_not_known_nothing_is_kept(app, http, header):
    with app.app_context():
        before = len(newest_refusals(1000))
    headers = {} if header is None else {"Authorization": header}
    response = http.get("/fhir/AllergyIntolerance", headers=headers)
    assert response.status_code == 401
    with app.app_context():
        assert not find_refusals(response.headers[REQUEST_ID_HEADER])
        assert len(newest_refusals(1000)) == before


def unknown_code(_one: Denied) -> dict[str, Any]:
    return {"code": UNKNOWN}


def code_of(one: Denied) -> dict[str, Any]:
    return {"code": one.flow.code(SCOPE, patient="p1")}


def used_code(one: Denied) -> dict[str, Any]:
    code = one.flow.code(SCOPE, patient="p1")
    assert one.flow.redeem(code).status_code == 200
    return {"code": code}


def expired_code(one: Denied) -> dict[str, Any]:
    code = one.flow.code(SCOPE, patient="p1")
    mine = AuthorizationCode.client_id == one.flow.program.client_id
    one.change(update(AuthorizationCode).where(mine).values(expires_at=int(time.time()) - 5))
    return {"code": code}


def others_code(one: Denied) -> dict[str, Any]:
    app = one.flow.app
    other = Flow(app, add_program(app), add_person(app, CLINICIAN))
    return {"code": other.code(SCOPE, patient="p1")}


def ended_code(one: Denied) -> dict[str, Any]:
    code = one.flow.code(SCOPE, patient="p1")
    mine = Grant.client_id == one.flow.program.client_id
    one.change(update(Grant).where(mine).values(revoked_at=int(time.time())))
    return {"code": code}


def over_code(one: Denied) -> dict[str, Any]:
    code = one.flow.code(SCOPE, patient="p1")
    mine = Grant.client_id == one.flow.program.client_id
    one.change(update(Grant).where(mine).values(expires_at=int(time.time()) - 5))
    return {"code": code}


def code_of_disabled(one: Denied) -> dict[str, Any]:
    code = one.flow.code(SCOPE, patient="p1")
    one.change(update(User).where(User.id == one.flow.user_id).values(disabled=True))
    return {"code": code}


@pytest.mark.parametrize(
    ("make", "changes", "reason"),
    [
        (unknown_code, {}, "The code was not issued here, or more than a day"),
        (others_code, {}, "The code was issued to another client."),
        (used_code, {}, "The code was used before, at "),
        (expired_code, {}, "The code expired at "),
        (code_of, {"redirect_uri": "https://app.example/other"}, "redirect_uri is not the one"),
        (code_of, {"code_verifier": "w" * 43}, "code_verifier does not match the code_challenge"),
        (ended_code, {}, "The consent ended at "),
        (over_code, {}, "The consent expired at "),
        (code_of_disabled, {}, "The user is disabled."),
    ],
)
def test_a_code_that_is_refused_is_kept_with_what_is_wrong(clinician, make, changes, reason):
    sent = make(clinician)
    response = clinician.flow.redeem(sent["code"], **changes)
    assert (response.status_code, response.get_json()["error"]) == (400, "invalid_grant")
    refusal = kept(clinician.flow.app, response)
    assert (refusal.status, refusal.asked) == (400, "POST /oauth/token")
    assert refusal.reasons[0].startswith("invalid_grant: ")
    assert [one for one in refusal.reasons if one.startswith(reason)], refusal.reasons


def refresh_set(one: Denied, **values: Any) -> str:
    mine = RefreshToken.client_id == one.flow.program.client_id
    one.change(update(RefreshToken).where(mine).values(**values))
    token: str = one.tokens["refresh_token"]
    return token


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: UNKNOWN, "The refresh token was not issued here"),
        (lambda one: refresh_set(one, used_at=int(time.time())), "The refresh token was used"),
        (lambda one: refresh_set(one, expires_at=1), "The refresh token expired at 1 January 1970"),
        (lambda one: refresh_set(one, client_id="other"), "The refresh token was issued to ano"),
    ],
)
def test_a_refresh_token_that_is_refused_is_kept_with_what_is_wrong(clinician, make, reason):
    response = clinician.flow.refresh(make(clinician))
    assert response.get_json()["error"] == "invalid_grant"
    refusal = kept(clinician.flow.app, response)
    # Authlib says no more than the error: the first reason stands beside it.
    assert refusal.reasons[0].startswith(f"invalid_grant: {reason}")


def asked_as(app: Flask, program: Program, proof: dict[str, Any]) -> TestResponse:
    """Ask for a token with another proof than the client's own."""
    flow = Flow(app, program, add_person(app, CLINICIAN))
    return flow.ask("/oauth/token", proof, grant_type="refresh_token", refresh_token="x")


@pytest.mark.parametrize(
    ("method", "changes", "proof", "reason"),
    [
        (BASIC, {}, "secret", "The secret is not the current one."),
        (BASIC, {"secret_digest": None}, "secret", "It has no secret yet."),
        (NONE, {}, "secret", "It sent a secret, but is registered for none."),
        (NONE, {"disabled": True}, "id", "The client is disabled."),
        (SIGNED, {"disabled": True}, "assertion", "The client is disabled."),
        (SIGNED, {}, "other key", "invalid_client: The signature does not fit a registered key."),
    ],
)
def test_a_client_that_cannot_prove_who_it_is_finds_out_why(app, method, changes, proof, reason):
    program = add_program(app, method)
    if changes:
        set_client(app, program, **changes)
    other = ECKey.generate_key("P-384", {"kid": "app"})
    response = asked_as(
        app,
        program,
        {
            "secret": {"auth": (program.client_id, "wrong")},
            "id": {"client_id": program.client_id},
            "assertion": program.proof(),
            "other key": program._replace(secret=None, key=other).proof(),
        }[proof],
    )
    assert response.get_json()["error"] == "invalid_client"
    refusal = kept(app, response)
    assert (refusal.client_id, refusal.status) == (program.client_id, response.status_code)
    assert reason in refusal.reasons


@pytest.mark.parametrize(
    ("aud", "came"),
    [
        ("https://other.example/oauth/token", "is https://other.example/oauth/token"),
        (BASE_URL, f"is {BASE_URL}"),
        (None, "is missing"),
        ([], "is empty"),
        (["a", 7, "c", "d"], "is a, no text, c"),
        ("x" * 3000, f"is {'x' * 100}..."),
        ("<b>\u202e\0é</b>", "is <b>???</b>"),
    ],
)
def test_another_audience_is_told_with_the_one_that_would_be_right(app, administrator, aud, came):
    program = add_program(app, SIGNED)
    claims = {"iss": program.client_id, "sub": program.client_id, "jti": str(uuid4())}
    claims |= {"exp": int(time.time()) + 240} | ({} if aud is None else {"aud": aud})
    signed = jwt.encode({"alg": "ES384", "kid": "app"}, claims, KEY, algorithms=["ES384"])
    proof = program.proof() | {"client_assertion": signed}
    refusal = kept(app, asked_as(app, program, proof))
    said = f"aud of the assertion must be {BASE_URL}/oauth/token; it {came}."
    assert said in refusal.reasons
    page = administrator.get(f"/admin/refusals?id={refusal.request_id}")
    assert said in page.words
    assert "<b>" not in page.response.text


def test_of_the_right_audience_nothing_is_said(app):
    program = add_program(app, SIGNED)
    set_client(app, program, disabled=True)
    refusal = kept(app, asked_as(app, program, program.proof()))
    assert not [one for one in refusal.reasons if one.startswith("aud of")]


@pytest.mark.parametrize(
    "proof",
    [
        {"auth": ("nobody", "x")},
        {"client_id": "nobody"},
        {"client_id": "\0"},
        {"client_assertion": "x", "client_assertion_type": "x"},
        {"client_assertion": "e30.W10.eA", "client_assertion_type": "x"},
        {},
    ],
)
def test_of_a_client_that_is_not_there_nothing_is_kept(app, proof):
    response = asked_as(app, add_program(app), proof)
    assert response.status_code in (400, 401)
    with app.app_context():
        assert not find_refusals(response.headers[REQUEST_ID_HEADER])


def test_whoever_only_says_that_it_is_a_client_writes_less_often(app):
    program = add_program(app, BASIC)
    for _ in range(UNPROVED + 2):
        asked_as(app, program, {"auth": (program.client_id, "wrong")})
    assert count_of(app, program.client_id) == UNPROVED


def test_a_scope_that_is_refused_is_kept_with_those_registered(app):
    flow = Flow(app, add_backend(app, "system/Patient.rs"), add_person(app, CLINICIAN))
    asked = "system/AllergyIntolerance.rs user/*.rs p2 openid"
    response = flow.ask("/oauth/token", grant_type="client_credentials", scope=asked)
    assert response.get_json()["error"] == "invalid_scope"
    assert kept(app, response).reasons[1:] == [
        f"It requested: system/AllergyIntolerance.rs user/*.rs {NO_SCOPE} openid",
        "The client is registered for: system/Patient.rs",
    ]


def test_neither_ids_nor_names_nor_secrets_are_kept(clinician):
    flow, app = clinician.flow, clinician.flow.app
    narrow = "patient/Patient.rs?name=Hartwell"
    token = flow.tokens(f"launch/patient {narrow}", patient="p1")["access_token"]
    named = Fhir(app, token)
    responses = [
        named.get("AllergyIntolerance/al-p1-penicillin"),
        named.get("AllergyIntolerance/al-p1-penicillin/_history/1"),
        named.get("AllergyIntolerance?patient=p2&code:text=penicillin"),
        named.post("DocumentReference/_search", {"patient": "p2"}),
        flow.redeem("a-code-of-hers"),
        flow.refresh("a-token-of-hers"),
    ]
    for response in responses:
        refusal = kept(app, response)
        text = f"{refusal.asked} {refusal.reasons}"
        for secret in ("p1", "p2", "penicillin", "Hartwell", "hers", token):
            assert secret not in text
    assert kept(app, responses[0]).asked == "GET /fhir/AllergyIntolerance/<resource_id>"
    assert "The token's scope: launch/patient patient/Patient.rs?name=…" in (
        kept(app, responses[0]).reasons
    )


def test_a_long_reason_is_kept_in_part(patient):
    scope = " ".join(f"patient/AllergyIntolerance.rs?code=a{n}" for n in range(60))
    set_client(patient.flow.app, patient.flow.program, scope=scope)
    refusal = kept(patient.flow.app, patient.fhir.get("DocumentReference"))
    assert max(map(len, refusal.reasons)) == LONGEST_REASON


def count_of(app: Flask, client_id: str) -> int:
    ((count,),) = rows(app, select(func.count()).where(Refusal.client_id == client_id))
    return int(count)


def refused_before(client_id: str, number: int, at: int) -> dict[str, Any]:
    """Return the row of an earlier refusal."""
    return {
        "request_id": f"{number:016x}",
        "at": at,
        "client_id": client_id,
        "status": 403,
        "asked": "GET /fhir/Patient",
        "reasons": ["It was."],
    }


def test_of_a_client_the_newest_are_kept(app):
    program = add_backend(app)
    client_id, now = program.client_id, int(time.time())
    earlier = [refused_before(client_id, 1000 + number, now) for number in range(KEPT)]
    alter(app, insert(Refusal).values(earlier))
    set_client(app, program, scope="system/Patient.rs")
    response = Fhir(app, token_of(app, program, "system/*.rs")).get("AllergyIntolerance")
    assert count_of(app, client_id) == KEPT
    with app.app_context():
        assert refusals_of(client_id)[0].request_id == response.headers[REQUEST_ID_HEADER]
        assert not find_refusals(f"{1000:016x}")
        assert find_refusals(f"{1001:016x}")


def test_none_is_kept_for_more_than_a_month(app, patient):
    old = int(time.time()) - KEPT_SECONDS - 5
    alter(app, insert(Refusal).values([refused_before("somebody", 1, old)]))
    kept(app, patient.fhir.get("AllergyIntolerance?patient=p2"))
    assert count_of(app, "somebody") == 0


def test_a_client_that_asks_in_a_loop_writes_so_often_and_no_more(app, patient):
    for _ in range(PER_MINUTE + 3):
        assert patient.fhir.get("AllergyIntolerance?patient=p2").status_code == 403
    assert count_of(app, patient.flow.program.client_id) == PER_MINUTE


def test_where_the_database_is_busy_the_answer_is_the_same_and_nothing_is_kept(app, patient):
    places = app.extensions["fhirapp.writers"]
    held = 0
    while places.acquire(blocking=False):
        held += 1
    try:
        response = patient.fhir.get("AllergyIntolerance?patient=p2")
    finally:
        places.release(held)
    assert response.status_code == 403
    with app.app_context():
        assert not find_refusals(response.headers[REQUEST_ID_HEADER])


@pytest.mark.parametrize("asked", ["", "x", "0" * 15, "0" * 17, "\0" * 16, "g" * 16, "é" * 16])
def test_what_is_no_request_id_finds_nothing(app, asked):
    with app.app_context():
        assert not find_refusals(asked)


def test_request_ids_sort_by_time(app, patient):
    ids = [
        patient.fhir.get("AllergyIntolerance?patient=p2").headers[REQUEST_ID_HEADER]
        for _ in range(3)
    ]
    with app.app_context():
        found = [one.request_id for one in refusals_of(patient.flow.program.client_id)]
    assert sorted(found, reverse=True) == found
    assert set(ids) == set(found)


@pytest.fixture(scope="module")
def administrator(app: Flask) -> Browser:
    browser = Browser(app)
    browser.sign_in(add_somebody(app, ADMINISTRATOR))
    return browser


def test_the_administrator_looks_a_refusal_up(patient, administrator):
    request_id = patient.fhir.get("AllergyIntolerance?patient=p2").headers[REQUEST_ID_HEADER]
    page = administrator.get("/admin/refusals")
    assert request_id in page.words
    page = page.submit("Look up request", id=f" {request_id.upper()} ")
    assert page.status == 200
    assert "patient: the token is for one patient, and this is another." in page.words
    assert "The user's role: patient" in page.words
    assert page.links[patient.flow.program.client_id] == (
        f"/admin/clients/{patient.flow.program.client_id}"
    )


@pytest.mark.parametrize("asked", ["0" * 16, "<script>alert(1)</script>", "\0", "é" * 300])
def test_an_id_of_which_nothing_is_kept_is_told(administrator, asked):
    page = administrator.get("/admin/refusals", query_string={"id": asked})
    assert page.status == 200
    assert "No refused request with this id." in page.words
    assert "<script" not in page.response.text


def test_the_owner_of_a_client_reads_its_refusals_and_no_others(app, patient, clinician):
    with app.app_context(), writing() as connection:
        code = owner_code(connection, patient.flow.program.client_id)
    mine = patient.fhir.get("AllergyIntolerance?patient=p2").headers[REQUEST_ID_HEADER]
    assert clinician.fhir.get("AllergyIntolerance").status_code == 200
    expired(clinician)
    other = clinician.fhir.get("AllergyIntolerance").headers[REQUEST_ID_HEADER]
    page = Browser(app).get(f"/apps/{code}")
    assert mine in page.words
    assert other not in page.words
    assert patient.flow.user_id not in page.response.text


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_than_administrators_read_no_refusals(app, role):
    browser = Browser(app)
    browser.sign_in(add_somebody(app, role))
    assert browser.get("/admin/refusals").status == 403


def test_whoever_is_not_signed_in_signs_in_first(app):
    page = Browser(app).get("/admin/refusals?id=0123456789abcdef")
    assert page.heading == "Sign in"


def test_a_client_that_is_deleted_leaves_its_refusals_readable(app, administrator):
    alter(app, insert(Refusal).values([refused_before("gone", 77, int(time.time()))]))
    assert rows(app, select(Client).where(Client.client_id == "gone")) == []
    assert "It was." in administrator.get(f"/admin/refusals?id={77:016x}").words
