"""Refused requests: the reasons that are recorded, for how long, and who may read them."""

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
    Grant,
    RefreshToken,
    Refusal,
    UserPatient,
)
from fhirapp.auth.protector import REQUEST_ID_HEADER
from fhirapp.auth.refusals import (
    KEPT_SECONDS,
    LONGEST_REASON,
    MAX_REFUSALS,
    PER_MINUTE,
    UNPROVED,
    find_refusals,
    newest_refusals,
    refusals_of,
)
from fhirapp.db import writing
from tests.auth.grants import token_of_backend
from tests.support.access import refusal_of_request
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
from tests.support.browsing import add_person as add_account
from tests.support.helpers import BASE_URL, Fhir

SCOPE = "openid offline_access launch/patient patient/*.rs user/*.rs"
UNKNOWN = "unknown" * 6


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app whose rows these tests change."""
    return make_app()


class Denied(NamedTuple):
    """A user and an app whose requests are refused, and the tokens that it had."""

    flow: Flow
    tokens: dict[str, Any]

    @property
    def fhir(self) -> Fhir:
        return Fhir(self.flow.app, self.tokens["access_token"])

    def set_rows(self, model: Any, **values: Any) -> None:
        """Change the rows of the app in a table."""
        mine = model.client_id == self.flow.program.client_id
        alter(self.flow.app, update(model).where(mine).values(**values))

    def set_client(self, **values: Any) -> None:
        set_client(self.flow.app, self.flow.program, **values)

    def set_user(self, **values: Any) -> None:
        set_user(self.flow.app, self.flow.user_id, **values)

    def unlink(self) -> None:
        alter(self.flow.app, delete(UserPatient).where(UserPatient.user_id == self.flow.user_id))


def denied(app: Flask, role: str, *patients: str) -> Denied:
    """Return a user and an app that was allowed everything for p1."""
    flow = Flow(app, add_program(app), add_person(app, role, *patients))
    return Denied(flow, flow.tokens(SCOPE, patient=None if patients else "p1"))


@pytest.fixture
def patient(app: Flask) -> Denied:
    """A patient whose record is p1, and an app that the patient allowed everything."""
    return denied(app, PATIENT, "p1")


@pytest.fixture
def clinician(app: Flask) -> Denied:
    """A clinician, and an app that was allowed everything for p1."""
    return denied(app, CLINICIAN)


def backend_token(app: Flask, program: Program, scope: str) -> str:
    return token_of_backend(Flow(app, program, add_person(app, CLINICIAN)), scope)


def reason_of(refusal: Refusal, beginning: str) -> str | None:
    return next((reason for reason in refusal.reasons if reason.startswith(beginning)), None)


OTHER_SCOPE = "patient/DocumentReference.rs"
# What happened to a token: the status of the next request, the reason, and the change.
CHANGES: dict[str, tuple[int, str, Callable[[Denied], Any]]] = {
    "expired": (401, "The token expired at ", lambda it: it.set_rows(AccessToken, expires_at=1)),
    "revoked": (401, "The token was rev", lambda it: it.flow.revoke(it.tokens["access_token"])),
    "ended": (401, "The user, or the cl", lambda it: it.flow.revoke(it.tokens["refresh_token"])),
    "client off": (401, "The client is disabled.", lambda it: it.set_client(disabled=True)),
    "user off": (401, "The user is disabled.", lambda it: it.set_user(disabled=True)),
    "narrowed": (403, "The client is reg", lambda it: it.set_client(scope=OTHER_SCOPE)),
    "unlinked": (403, "The patient in context is not linked", lambda it: it.unlink()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_to_a_token_is_recorded_as_a_reason(patient, name):
    status, reason, change = CHANGES[name]
    assert patient.fhir.get("AllergyIntolerance").status_code == 200
    change(patient)
    response = patient.fhir.get("AllergyIntolerance")
    assert response.status_code == status
    assert response.headers["Cache-Control"] == "no-store"
    refusal = refusal_of_request(patient.flow.app, response)
    assert (refusal.client_id, refusal.user_id, refusal.status, refusal.asked) == (
        patient.flow.program.client_id,
        patient.flow.user_id,
        status,
        "GET /fhir/AllergyIntolerance",
    )
    assert reason_of(refusal, reason), refusal.reasons
    # The answer itself holds the first reason only.
    (issue,) = response.get_json(force=True)["issue"]
    assert refusal.reasons[0] == issue["diagnostics"]
    left = reason_of(refusal, "What is left of these together: ")
    assert (left is None) == (status == 401)
    assert name != "unlinked" or str(left).endswith("nothing")


def test_missing_scope_is_recorded_with_the_scopes_that_are_left(app):
    program = add_backend(app, "system/*.rs")
    fhir = Fhir(app, backend_token(app, program, "system/AllergyIntolerance.rs"))
    refusal = refusal_of_request(app, fhir.get("DocumentReference?patient=p1"))
    assert refusal.user_id is None
    assert refusal.reasons == [
        "The token's scope does not cover search of DocumentReference.",
        "It would have needed: system/DocumentReference.s",
        "The token's scope: system/AllergyIntolerance.rs",
        "The client is registered for: system/*.rs",
        "What is left of these together: system/AllergyIntolerance.rs",
    ]


def test_needed_scope_is_one_that_this_user_could_allow(app):
    name = "It would have needed: "
    of_type, other = "AllergyIntolerance", "AllergyIntolerance?patient=p2"
    for role, scope, path, needed in (
        (PATIENT, "patient/Patient.rs", of_type, "patient/AllergyIntolerance.s"),
        (
            CLINICIAN,
            "user/Patient.rs",
            of_type,
            "patient/AllergyIntolerance.s or user/AllergyIntolerance.s",
        ),
        (PATIENT, "patient/*.rs", other, None),
        (CLINICIAN, "patient/*.rs", other, "user/AllergyIntolerance.s"),
        (CLINICIAN, "user/*.rs", "/oauth/userinfo", "openid"),
    ):
        is_patient = role == PATIENT
        flow = Flow(app, add_program(app), add_person(app, role, *["p1"] * is_patient))
        in_context = "p1" if scope.startswith("patient/") and not is_patient else None
        refusal = refusal_of_request(app, flow.fhir(scope, patient=in_context).get(path))
        expected = None if needed is None else f"{name}{needed}"
        assert reason_of(refusal, name) == expected, (role, scope, path)
        assert reason_of(refusal, f"The user's role: {role}")
    assert (refusal.asked, refusal.status) == ("GET /oauth/userinfo", 403)


def test_request_without_a_known_token_or_client_is_not_recorded(app, http):
    with app.app_context():
        before = len(newest_refusals(1000))
    headers = ({}, {"Authorization": "Bearer unknown"}, {"Authorization": "Basic eDp5"})
    answers = [http.get("/fhir/AllergyIntolerance", headers=header) for header in headers]
    proofs = (
        *({"auth": ("nobody", "x")}, {"client_id": "nobody"}, {"client_id": "\0"}, {}),
        {"client_assertion": "x", "client_assertion_type": "x"},
        {"client_assertion": "e30.W10.eA", "client_assertion_type": "x"},
    )
    answers += [refresh_as(app, add_program(app), proof) for proof in proofs]
    assert {answer.status_code for answer in answers} <= {400, 401}
    with app.app_context():
        for answer in answers:
            assert not find_refusals(answer.headers[REQUEST_ID_HEADER])
        assert len(newest_refusals(1000)) == before


def unchanged(_: Denied) -> None:
    """Change nothing."""


# Why a code is refused: the reason, a change before it is redeemed, and fields of the request.
CODES: dict[str, tuple[str, Callable[[Denied], Any], dict[str, Any]]] = {
    "used": ("The code was used", lambda it: it.set_rows(AuthorizationCode, used_at=1), {}),
    "old": ("The code expired at", lambda it: it.set_rows(AuthorizationCode, expires_at=1), {}),
    "another client's": (
        "The code was issued to another client.",
        lambda it: it.set_rows(AuthorizationCode, client_id="demo-app"),
        {},
    ),
    "ended": ("The consent ended at ", lambda it: it.set_rows(Grant, revoked_at=1), {}),
    "over": ("The consent expired at ", lambda it: it.set_rows(Grant, expires_at=1), {}),
    "user off": ("The user is disabled.", lambda it: it.set_user(disabled=True), {}),
    "URI": ("redirect_uri is not the", unchanged, {"redirect_uri": "https://app.example/other"}),
    "verifier": ("code_verifier does not match", unchanged, {"code_verifier": "w" * 43}),
    "unknown": ("The code was not issued here, or more than a", unchanged, {"code": UNKNOWN}),
}


@pytest.mark.parametrize("name", CODES)
def test_refused_code_is_recorded_with_what_is_wrong(clinician, name):
    reason, change, fields = CODES[name]
    code = clinician.flow.code(SCOPE, patient="p1")
    change(clinician)
    response = clinician.flow.redeem(**{"code": code} | fields)
    assert (response.status_code, response.get_json()["error"]) == (400, "invalid_grant")
    refusal = refusal_of_request(clinician.flow.app, response)
    assert (refusal.status, refusal.asked) == (400, "POST /oauth/token")
    assert refusal.reasons[0].startswith("invalid_grant: ")
    assert reason_of(refusal, reason), refusal.reasons


def test_refused_refresh_token_is_recorded_with_what_is_wrong(app):
    for values, reason in (
        ({"used_at": int(time.time())}, "The refresh token was used"),
        ({"expires_at": 1}, "The refresh token expired at 1 January 1970"),
        ({"client_id": "demo-app"}, "The refresh token was issued to another"),
        ({}, "The refresh token was not issued here"),
    ):
        user = denied(app, CLINICIAN)
        if values:
            user.set_rows(RefreshToken, **values)
        response = user.flow.refresh(user.tokens["refresh_token"] if values else UNKNOWN)
        assert response.get_json()["error"] == "invalid_grant"
        refusal = refusal_of_request(app, response)
        # Authlib says no more than the error: the first reason stands beside it.
        assert refusal.reasons[0].startswith(f"invalid_grant: {reason}")


def refresh_as(app: Flask, program: Program, proof: dict[str, Any]) -> TestResponse:
    """Ask for a token with another proof than the client's own."""
    flow = Flow(app, program, add_person(app, CLINICIAN))
    return flow.ask("/oauth/token", proof, grant_type="refresh_token", refresh_token="x")


def test_client_that_does_not_prove_its_identity_is_recorded_with_why(app):
    other_key = ECKey.generate_key("P-384", {"kid": "app"})
    proofs: dict[str, Callable[[Program], dict[str, Any]]] = {
        "secret": lambda program: {"auth": (program.client_id, "wrong")},
        "id": lambda program: {"client_id": program.client_id},
        "assertion": lambda program: program.proof(),
        "other key": lambda program: program._replace(secret=None, key=other_key).proof(),
    }
    for method, values, proof, reason in (
        (BASIC, {}, "secret", "The secret is not the current one."),
        (BASIC, {"secret_digest": None}, "secret", "It has no secret yet."),
        (NONE, {}, "secret", "It sent a secret, but is registered for none."),
        (NONE, {"disabled": True}, "id", "The client is disabled."),
        (SIGNED, {"disabled": True}, "assertion", "The client is disabled."),
        (SIGNED, {}, "other key", "invalid_client: The signature does not fit a registered key."),
    ):
        program = add_program(app, method)
        if values:
            set_client(app, program, **values)
        response = refresh_as(app, program, proofs[proof](program))
        assert response.get_json()["error"] == "invalid_client"
        refusal = refusal_of_request(app, response)
        assert (refusal.client_id, refusal.status) == (program.client_id, response.status_code)
        assert reason in refusal.reasons
        # Nothing is wrong with the audience of these.
        assert reason_of(refusal, "aud of") is None


def test_wrong_audience_of_an_assertion_is_recorded_with_the_right_one(app, administrator):
    for aud, found in (
        ("https://other.example/oauth/token", "is https://other.example/oauth/token"),
        (BASE_URL, f"is {BASE_URL}"),
        (None, "is missing"),
        ([], "is empty"),
        (["a", 7, "c", "d"], "is a, no text, c"),
        ("x" * 3000, f"is {'x' * 100}..."),
        ("<b>\u202e\0é</b>", "is <b>???</b>"),
    ):
        program = add_program(app, SIGNED)
        claims = {"iss": program.client_id, "sub": program.client_id, "jti": str(uuid4())}
        claims |= {"exp": int(time.time()) + 240} | ({} if aud is None else {"aud": aud})
        signed = jwt.encode({"alg": "ES384", "kid": "app"}, claims, KEY, algorithms=["ES384"])
        proof = program.proof() | {"client_assertion": signed}
        refusal = refusal_of_request(app, refresh_as(app, program, proof))
        reason = f"aud of the assertion must be {BASE_URL}/oauth/token; it {found}."
        assert reason in refusal.reasons
    page = administrator.get(f"/admin/refusals?id={refusal.request_id}")
    assert reason in page.words
    assert "<b>" not in page.response.text


def test_refused_scope_is_recorded_with_the_registered_ones(app):
    flow = Flow(app, add_backend(app, "system/Patient.rs"), add_person(app, CLINICIAN))
    requested = "system/AllergyIntolerance.rs user/*.rs p2 openid"
    response = flow.ask("/oauth/token", grant_type="client_credentials", scope=requested)
    assert response.get_json()["error"] == "invalid_scope"
    unknown = "(no scope that this server knows)"
    assert refusal_of_request(app, response).reasons[1:] == [
        f"It requested: system/AllergyIntolerance.rs user/*.rs {unknown} openid",
        "The client is registered for: system/Patient.rs",
    ]


def test_neither_ids_nor_names_nor_secrets_are_recorded(clinician):
    flow, app = clinician.flow, clinician.flow.app
    narrow = "patient/Patient.rs?name=Hartwell"
    token = flow.tokens(f"launch/patient {narrow}", patient="p1")["access_token"]
    fhir = Fhir(app, token)
    responses = [
        fhir.get("AllergyIntolerance/al-p1-penicillin"),
        fhir.get("AllergyIntolerance/al-p1-penicillin/_history/1"),
        fhir.get("AllergyIntolerance?patient=p2&code:text=penicillin"),
        fhir.post("DocumentReference/_search", {"patient": "p2"}),
        flow.redeem("a-code-of-hers"),
        flow.refresh("a-token-of-hers"),
    ]
    refusals = [refusal_of_request(app, response) for response in responses]
    for refusal in refusals:
        text = f"{refusal.asked} {refusal.reasons}"
        for secret in ("p1", "p2", "penicillin", "Hartwell", "hers", token):
            assert secret not in text
    assert refusals[0].asked == "GET /fhir/AllergyIntolerance/<resource_id>"
    scope = "The token's scope: launch/patient patient/Patient.rs?name=…"
    assert scope in refusals[0].reasons


def test_long_reason_is_cut(patient):
    scope = " ".join(f"patient/AllergyIntolerance.rs?code=a{n}" for n in range(60))
    set_client(patient.flow.app, patient.flow.program, scope=scope)
    refusal = refusal_of_request(patient.flow.app, patient.fhir.get("DocumentReference"))
    assert max(map(len, refusal.reasons)) == LONGEST_REASON


# Limits.


def count_of(app: Flask, client_id: str) -> int:
    ((count,),) = rows(app, select(func.count()).where(Refusal.client_id == client_id))
    return int(count)


def earlier_refusal(client_id: str, number: int, at: int) -> dict[str, Any]:
    return {
        "request_id": f"{number:016x}",
        "at": at,
        "client_id": client_id,
        "status": 403,
        "asked": "GET /fhir/Patient",
        "reasons": ["It was."],
    }


def test_newest_refusals_of_a_client_are_kept_for_a_month(app):
    program = add_backend(app)
    client_id, now = program.client_id, int(time.time())
    earlier = [earlier_refusal(client_id, 1000 + number, now) for number in range(MAX_REFUSALS)]
    old = earlier_refusal("somebody", 1, now - KEPT_SECONDS - 5)
    alter(app, insert(Refusal).values([*earlier, old]))
    set_client(app, program, scope="system/Patient.rs")
    response = Fhir(app, backend_token(app, program, "system/*.rs")).get("AllergyIntolerance")
    assert (count_of(app, client_id), count_of(app, "somebody")) == (MAX_REFUSALS, 0)
    with app.app_context():
        assert refusals_of(client_id)[0].request_id == response.headers[REQUEST_ID_HEADER]
        assert not find_refusals(f"{1000:016x}")
        assert find_refusals(f"{1001:016x}")


def test_refusals_of_a_client_are_limited_by_the_minute(app, patient):
    for _ in range(PER_MINUTE + 3):
        assert patient.fhir.get("AllergyIntolerance?patient=p2").status_code == 403
    assert count_of(app, patient.flow.program.client_id) == PER_MINUTE
    with app.app_context():
        ids = [refusal.request_id for refusal in refusals_of(patient.flow.program.client_id)]
    # Request ids sort by time.
    assert sorted(ids, reverse=True) == ids
    program = add_program(app, BASIC)
    for _ in range(UNPROVED + 2):
        refresh_as(app, program, {"auth": (program.client_id, "wrong")})
    assert count_of(app, program.client_id) == UNPROVED


def test_nothing_is_recorded_while_the_database_is_busy(app, patient):
    writers = app.extensions["fhirapp.writers"]
    held = 0
    while writers.acquire(blocking=False):
        held += 1
    try:
        response = patient.fhir.get("AllergyIntolerance?patient=p2")
    finally:
        writers.release(held)
    assert response.status_code == 403
    with app.app_context():
        assert not find_refusals(response.headers[REQUEST_ID_HEADER])


# Readers.


@pytest.fixture(scope="module")
def administrator(app: Flask) -> Browser:
    return Browser(app).resume(add_account(app, ADMINISTRATOR))


def test_administrator_looks_a_refusal_up(patient, administrator):
    request_id = patient.fhir.get("AllergyIntolerance?patient=p2").headers[REQUEST_ID_HEADER]
    page = administrator.get("/admin/refusals")
    assert request_id in page.words
    page = page.submit("Look up request", id=f" {request_id.upper()} ")
    assert page.status == 200
    assert "patient: the token is for one patient, and this is another." in page.words
    assert "The user's role: patient" in page.words
    client_id = patient.flow.program.client_id
    assert page.links[client_id] == f"/admin/clients/{client_id}"


def test_unknown_request_id_finds_nothing(app, administrator):
    with app.app_context():
        for text in ("", "x", "0" * 15, "0" * 17, "\0" * 16, "g" * 16, "é" * 16):
            assert not find_refusals(text)
    for text in ("0" * 16, "<script>alert(1)</script>", "\0", "é" * 300):
        page = administrator.get("/admin/refusals", query_string={"id": text})
        assert page.status == 200
        assert "No refused request" in page.words
        assert "<script" not in page.response.text


def test_owner_of_a_client_reads_its_refusals_and_no_others(app, patient, clinician):
    with app.app_context(), writing() as connection:
        code = owner_code(connection, patient.flow.program.client_id)
    own = patient.fhir.get("AllergyIntolerance?patient=p2").headers[REQUEST_ID_HEADER]
    clinician.set_rows(AccessToken, expires_at=int(time.time()) - 5)
    other = clinician.fhir.get("AllergyIntolerance").headers[REQUEST_ID_HEADER]
    page = Browser(app).get(f"/apps/{code}")
    assert own in page.words
    assert other not in page.words
    assert patient.flow.user_id not in page.response.text
