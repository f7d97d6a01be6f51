"""The administrator's page of clients: approve, reject, switch off, change, revoke. Issue 4."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from joserfc.jwk import ECKey
from sqlalchemy import insert, select, update

from fhirapp.audit.read import ADMINISTRATION, entries
from fhirapp.auth.clients import administration
from fhirapp.auth.clients.administration import find, issue_token
from fhirapp.auth.clients.registration import Registration, owner_code, register
from fhirapp.auth.models import (
    ADMINISTRATOR,
    BASIC,
    CLINICIAN,
    NONE,
    PATIENT,
    SIGNED,
    Client,
    Refusal,
)
from fhirapp.db import writing
from tests.support.authorizing import (
    EVERYTHING,
    REDIRECT,
    Flow,
    Program,
    add_backend,
    add_program,
    alter,
    rows,
    set_client,
)
from tests.support.authorizing import add_person as add_user
from tests.support.browsing import Browser, Page, add_person
from tests.support.helpers import BASE_URL, Fhir

ACTIONS = ("approve", "reject", "disable", "enable", "revoke", "change", "secret", "owner")
SCOPE = "launch/patient offline_access patient/*.rs"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app whose clients these tests change."""
    return make_app()


@pytest.fixture(scope="module")
def admin(app: Flask) -> Browser:
    browser = Browser(app)
    browser.sign_in(add_person(app, ADMINISTRATOR))
    return browser


def waiting(app: Flask, name: str = "Waits", **changes: object) -> str:
    """Register a client as anybody can; return its id."""
    said = {"kind": "public", "auth_method": NONE, "scope": EVERYTHING}
    said |= {"redirect_uris": (REDIRECT,)}
    registration = Registration(name=name, **(said | changes))
    with app.app_context(), writing() as connection:
        return register(connection, registration, approved=False)


def row_of(app: Flask, client_id: str) -> dict[str, object]:
    with app.app_context(), writing() as connection:
        return dict(find(connection, client_id) or {})


def page_of(admin: Browser, program: Program | str) -> Page:
    client_id = program if isinstance(program, str) else program.client_id
    return admin.get(f"/admin/clients/{client_id}")


def someone_with(app: Flask, program: Program) -> tuple[Flow, Fhir]:
    """Have a patient allow an app everything; return both."""
    flow = Flow(app, program, add_user(app, PATIENT, "p1"))
    return flow, Fhir(app, flow.tokens(SCOPE)["access_token"])


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_than_administrators_see_and_do_nothing(app, role):
    client_id = waiting(app)
    browser = Browser(app)
    form = {"form_token": _token(browser.sign_in(add_person(app, role)))}
    for path in ("/admin/clients", f"/admin/clients/{client_id}"):
        assert browser.get(path).status == 403
    before = row_of(app, client_id)
    for action in ACTIONS:
        assert browser.post(f"/admin/clients/{client_id}/{action}", form).status == 403
    assert row_of(app, client_id) == before


def test_whoever_is_not_signed_in_signs_in_first_and_comes_back(app):
    client_id = waiting(app)
    browser = Browser(app)
    page = browser.get(f"/admin/clients/{client_id}")
    assert page.heading == "Sign in"
    page = page.submit("Sign in", username=add_person(app, ADMINISTRATOR), password="demo")
    assert page.heading == "Waits"
    for action in ACTIONS:
        stranger = Browser(app)
        form = {"form_token": _token(stranger.get("/sign-in"))}
        assert stranger.post(f"/admin/clients/{client_id}/{action}", form).heading == "Sign in"
    assert row_of(app, client_id)["approved_at"] is None


@pytest.mark.parametrize("action", ACTIONS)
def test_a_form_of_another_site_does_nothing(app, admin, action):
    client_id = waiting(app)
    before = row_of(app, client_id)
    assert admin.post(f"/admin/clients/{client_id}/{action}", {"form_token": "x"}).status == 400
    assert row_of(app, client_id) == before


def test_those_that_wait_are_listed_first(app, admin):
    add_program(app)
    waiting(app, "Zebra")
    page = admin.get("/admin/clients")
    states = re.findall(r"waiting for approval|approved|disabled", page.words)
    assert states.index("approved") > states.index("waiting for approval")
    assert "waiting for approval" not in states[states.index("approved") :]
    assert "A mobile or browser app" in page.words
    assert page.links["Zebra"].startswith("/admin/clients/app-")


def test_the_last_token_is_told(app, admin):
    program = add_backend(app)
    flow = Flow(app, program, add_user(app, CLINICIAN))
    line = rf"{re.escape(program.client_id)} approved A backend system (.*?) system/\*\.rs"

    def last() -> str:
        found = re.search(line, admin.get("/admin/clients").words)
        assert found is not None
        return found[1]

    assert last() == "none recently"
    flow.ask("/oauth/token", grant_type="client_credentials", scope="system/*.rs")
    assert re.fullmatch(r"\d+ \w+ \d{4}, \d\d:\d\d UTC", last())


@pytest.mark.parametrize(
    ("is_backend", "said", "not_said"),
    [
        (True, "read the records of every patient", "check its redirect URIs"),
        (False, "check its redirect URIs", "every patient within its scopes"),
    ],
)
def test_who_approves_is_warned_of_what_the_kind_can_do(app, admin, is_backend, said, not_said):
    if is_backend:
        client_id = add_backend(app).client_id
        alter(app, update(Client).where(Client.client_id == client_id).values(approved_at=None))
    else:
        client_id = waiting(app)
    page = page_of(admin, client_id)
    assert page.form("Approve app")
    assert said in page.words
    assert not_said not in page.words


def test_an_approved_app_can_ask_for_tokens(app, admin):
    client_id = waiting(app)
    flow = Flow(app, Program(client_id), add_user(app, PATIENT, "p1"))
    assert Browser(app).get("/oauth/authorize", query_string=flow.parameters(SCOPE)).status == 400
    page = page_of(admin, client_id).submit("Approve app")
    assert "The app is approved and can request tokens." in page.words
    assert "Approve app" not in {label for form in page.forms for label in form.buttons}
    assert flow.fhir(SCOPE).get("AllergyIntolerance").status_code == 200


def test_a_rejected_app_is_deleted(app, admin):
    client_id = waiting(app)
    page = page_of(admin, client_id).submit("Reject and delete app")
    assert (page.heading, page.status) == ("All apps", 200)
    assert "The app was rejected and deleted." in page.words
    assert row_of(app, client_id) == {}
    assert page_of(admin, client_id).status == 404


def test_what_somebody_approved_meanwhile_is_not_deleted(app, admin):
    client_id = waiting(app)
    page = page_of(admin, client_id)
    page.submit("Approve app")
    late = page.submit("Reject and delete app")
    assert late.status == 409
    assert "This app is already approved. Disable it instead." in late.words
    assert row_of(app, client_id)["approved_at"] is not None


def test_an_app_that_is_switched_off_reads_nothing_until_it_is_switched_on(app, admin):
    program = add_program(app)
    _, fhir = someone_with(app, program)
    page = page_of(admin, program).submit("Disable")
    assert "The app is disabled" in page.words
    assert fhir.get("AllergyIntolerance").status_code == 401
    page = page.submit("Enable")
    assert "The app is enabled again." in page.words
    assert fhir.get("AllergyIntolerance").status_code == 200


def test_revoking_ends_every_consent_and_token(app, admin):
    program = add_program(app)
    flow, fhir = someone_with(app, program)
    refresh_token = flow.tokens(SCOPE)["refresh_token"]
    page = page_of(admin, program)
    assert "2 consents give it access." in page.words
    page = page.submit("Revoke all consents and tokens")
    assert "No user has given this app access." in page.words
    assert fhir.get("AllergyIntolerance").status_code == 401
    assert flow.refresh(refresh_token).get_json()["error"] == "invalid_grant"
    assert flow.fhir(SCOPE).get("AllergyIntolerance").status_code == 200


def test_revoking_ends_tokens_without_a_user_too(app, admin):
    program = add_backend(app)
    with app.app_context(), writing() as connection:
        token = issue_token(connection, scope="system/*.rs", client_id=program.client_id)
    fhir = Fhir(app, token)
    assert fhir.get("Patient/p1").status_code == 200
    page_of(admin, program).submit("Revoke all consents and tokens")
    assert fhir.get("Patient/p1").status_code == 401


def test_a_narrower_scope_holds_for_tokens_at_once(app, admin):
    program = add_program(app)
    _, fhir = someone_with(app, program)
    page = page_of(admin, program)
    assert page.form("Save").fields["scope"].split() == EVERYTHING.split()
    page = page.submit("Save", scope=" launch/patient  patient/AllergyIntolerance.rs ")
    assert "Registration changed." in page.words
    assert row_of(app, program.client_id)["scope"] == "launch/patient patient/AllergyIntolerance.rs"
    assert fhir.get("AllergyIntolerance").status_code == 200
    assert fhir.get("DocumentReference").status_code == 403


def test_other_redirect_uris_hold_at_once(app, admin):
    program = add_program(app)
    flow = Flow(app, program, add_user(app, PATIENT, "p1"))
    other = "https://other.example/callback"
    page_of(admin, program).submit("Save", redirect_uris=f"{other}\r\n\r\n{other}\r\n")
    assert row_of(app, program.client_id)["redirect_uris"] == [other]
    asked = flow.parameters(SCOPE)
    assert Browser(app).get("/oauth/authorize", query_string=asked).status == 400
    assert flow.code(SCOPE, redirect_uri=other)


@pytest.mark.parametrize("action", ["approve", "enable", "revoke", "change"])
def test_a_form_that_changes_nothing_says_so_and_is_not_in_the_trail(app, admin, action):
    program = add_program(app)
    page = page_of(admin, program)
    with app.app_context():
        before = entries(kind=ADMINISTRATION)
    # The form to change it as it stands.
    sent = page.form("Save").fields
    done = admin.post(f"/admin/clients/{program.client_id}/{action}", sent)
    assert "Nothing was changed." in done.words
    with app.app_context():
        assert entries(kind=ADMINISTRATION) == before


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"scope": "system/*.rs"}, "A public client cannot have the scope system/*.rs"),
        ({"scope": "patient/Nonsense.rs"}, "cannot have the scope patient/Nonsense.rs"),
        ({"scope": ""}, "No scopes: select or enter at least one"),
        ({"redirect_uris": ""}, "An app needs at least one redirect URI."),
        ({"redirect_uris": "http://other.example/"}, "must begin with https://"),
        ({"redirect_uris": "https://ä.example/"}, "is too long or not a valid URI."),
        ({"redirect_uris": " ".join(["https://a.example/"] * 11)}, "At most 10 redirect URIs."),
    ],
)
def test_what_cannot_be_is_told_and_stays_as_typed(app, admin, typed, message):
    program = add_program(app)
    before = row_of(app, program.client_id)
    page = page_of(admin, program).submit("Save", **typed)
    assert page.status == 400
    assert message in page.words
    ((name, value),) = typed.items()
    assert page.form("Save").fields[name].split() == value.split()
    assert row_of(app, program.client_id) == before


def test_a_new_secret_is_shown_once_and_voids_the_one_before(app, admin):
    program = add_program(app, BASIC)
    flow, fhir = someone_with(app, program)
    page = page_of(admin, program).submit("Create secret")
    found = re.search(r"[A-Za-z0-9_-]{43}", page.words)
    assert found is not None
    assert page.headers["Cache-Control"] == "no-store"
    assert found[0] not in admin.get(page.links["I have copied it"]).response.text
    assert fhir.get("AllergyIntolerance").status_code == 401
    code = flow.code(SCOPE)
    assert flow.redeem(code).get_json()["error"] == "invalid_client"
    flow.program = program._replace(secret=found[0])
    assert flow.redeem(code).status_code == 200


def test_only_a_client_with_a_secret_gets_one(app, admin):
    program = add_program(app)
    page = page_of(admin, program)
    assert "secret" not in [label for form in page.forms for label in form.buttons]
    form = {"form_token": _token(page)}
    page = admin.post(f"/admin/clients/{program.client_id}/secret", form)
    assert page.status == 409
    assert "has no secret to replace" in page.words


def test_a_new_owners_address_voids_the_one_before(app, admin):
    client_id = waiting(app, "Mine")
    with app.app_context(), writing() as connection:
        old = owner_code(connection, client_id)
    page = page_of(admin, client_id).submit("Create link")
    found = re.search(rf"{BASE_URL}(/apps/[A-Za-z0-9_-]{{43}})", page.words)
    assert found is not None
    assert Browser(app).get(found[1]).heading == "Mine"
    assert Browser(app).get(f"/apps/{old}").status == 404


def test_everything_that_an_administrator_decides_by_is_shown(app, admin):
    client_id = waiting(
        app,
        "Riverside",
        redirect_uris=(
            "https://app.riverside.example.evil.example:8443/callback?x=1",
            "https://xn--rverside-thh.example/",
            "http://localhost:3000/cb",
            "com.example.app:/cb",
        ),
        launch_uri="https://app.riverside.example/launch",
        scope="openid patient/DocumentReference.rs?category=clinical-note user/*.rs",
        developer="Riverside Apps",
        contact="dev@riverside.example",
    )
    words = page_of(admin, client_id).words
    for shown in (
        client_id,
        "app.riverside.example.evil.example:8443 https://app.riverside.example.evil.example:8443/",
        "xn--rverside-thh.example",
        "Browsers may show it as r\u0456verside.example",
        "localhost:3000",
        "The user's own computer; for development.",
        "com.example.app:",
        "https://app.riverside.example/launch",
        "See clinical notes and documents, only where category is clinical-note",
        "patient/DocumentReference.rs?category=clinical-note everyone",
        "user/*.rs clinicians and administrators",
        "Riverside Apps",
        "dev@riverside.example",
        "waiting for approval",
        "has not been verified",
    ):
        assert shown in words


def itself(app: Flask, **changes: Any) -> str:
    """Register a client as a program does itself; return its id."""
    said = {"name": "Riverside", "kind": "public", "auth_method": NONE, "scope": EVERYTHING}
    said |= {"redirect_uris": (REDIRECT,)}
    with app.test_request_context():
        registration = Registration(**(said | changes))
        return administration.apply(registration, "192.0.2.9", by_itself=True).client_id


def test_a_program_that_registered_itself_is_marked_with_where_it_came_from(app, admin):
    name = "Kidney Watch"
    client_id, other = itself(app, name=name), waiting(app, f"{name} 2")
    page = page_of(admin, client_id)
    assert "registered by itself" in page.words
    assert "Sends users back to app.example A program registered itself" in page.words
    assert re.search(r"From the address 192\.0\.2\.9, \d+ \w+ \d{4}, \d\d:\d\d UTC\.", page.words)
    assert "Another app has the same" not in page.words
    words = admin.get("/admin/clients").words
    assert f"{name} {client_id} waiting for approval registered by itself A mobile" in words
    assert f"{name} 2 {other} waiting for approval A mobile" in words
    page = page.submit("Approve app")
    assert "registered by itself" in page.words
    assert "Another app" not in page_of(admin, other).words


def test_a_backend_that_registered_itself_is_told_loudly(app, admin):
    jwks = ECKey.generate_key("P-384", {"kid": "x"}).as_dict(private=False)
    scope = {"kind": "backend", "auth_method": SIGNED, "scope": "system/*.rs", "jwks": jwks}
    page = page_of(admin, itself(app, name="Lab", redirect_uris=(), **scope))
    assert 'class="notice">Once approved, this system can read' in page.response.text
    assert "records of every patient within its scopes" in page.words


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("Moore Card", "Moore Card"),
        ("Müller-App", "  mullerapp"),
        ("\uff26ull App", "Full App"),
        ("\u2728", "\u2728"),
    ],
)
def test_a_name_that_another_app_has_is_told_with_where_that_leads(app, admin, name, alike):
    known = add_program(app, redirect_uris=["https://known.example/cb"])
    set_client(app, known, name=name)
    page = page_of(admin, itself(app, name=alike))
    told = f"Another app has the same or a similar name: {name} ({known.client_id}, approved, "
    assert f"{told}known.example). Users could take one for the other." in page.words
    assert page.links[name] == f"/admin/clients/{known.client_id}"


@pytest.mark.parametrize(
    ("name", "is_mixed"),
    [
        ("P\u0430tient Portal", True),
        ("Patient Portal", False),
        ("\u041f\u043e\u0440\u0442\u0430\u043b", False),
        ("患者 App", False),
    ],
)
def test_a_name_of_letters_that_look_alike_is_told(app, admin, name, is_mixed):
    words = page_of(admin, itself(app, name=name)).words
    assert ("mixes letters of several alphabets" in words) == is_mixed


def test_what_a_client_says_of_itself_is_no_markup(app, admin):
    client_id = waiting(app, "<script>alert(1)</script>", developer="<b>x</b>", contact="'\"><i>")
    for page in (page_of(admin, client_id), admin.get("/admin/clients")):
        assert "<script" not in page.response.text
        assert "<b>x" not in page.response.text
        assert "<i>" not in page.response.text
        assert "<script>alert(1)</script>" in page.words


@pytest.mark.parametrize("client_id", ["demo-backend", "demo-app", "operator"])
def test_the_demos_and_the_shells_clients_are_shown_and_not_changed(app, admin, client_id):
    with app.app_context(), writing() as connection:
        issue_token(connection, scope="system/*.rs")
    page = page_of(admin, client_id)
    assert page.status == 200
    assert "Save" not in {label for form in page.forms for label in form.buttons}
    form = {"form_token": _token(page), "scope": "patient/*.rs", "redirect_uris": REDIRECT}
    before = row_of(app, client_id)
    assert admin.post(f"/admin/clients/{client_id}/change", form).status == 400
    assert row_of(app, client_id) == before


@pytest.mark.parametrize("client_id", ["nobody", "x" * 300, "é", "%00", "a%0Ab", ".."])
def test_a_client_that_is_not_there_is_404(app, admin, client_id):
    assert admin.get(f"/admin/clients/{client_id}").status == 404
    form = {"form_token": _token(admin.get("/admin/clients"))}
    for action in ACTIONS:
        assert admin.post(f"/admin/clients/{client_id}/{action}", form).status == 404


def test_an_action_that_is_not_there_is_404(app, admin):
    client_id = waiting(app)
    form = {"form_token": _token(page_of(admin, client_id))}
    assert admin.post(f"/admin/clients/{client_id}/nonsense", form).status == 404


@pytest.mark.parametrize("path", ["/admin/clients", "/admin/clients/demo-app"])
@pytest.mark.parametrize("done", ["<b>paid</b>", "You won", "\0", "é"])
def test_a_confirmation_is_one_of_ours(admin, path, done):
    page = admin.get(path, query_string={"done": done})
    assert page.status == 200
    assert 'role="status"' not in page.response.text
    assert "won" not in page.words


def test_rejecting_deletes_what_was_kept_of_refusals(app, admin):
    client_id = waiting(app)
    row = {"request_id": "0" * 16, "at": 1, "client_id": client_id, "status": 401}
    alter(app, insert(Refusal).values([row | {"asked": "POST /oauth/token", "reasons": ["x"]}]))
    page_of(admin, client_id).submit("Reject and delete app")
    assert rows(app, select(Refusal).where(Refusal.client_id == client_id)) == []


def _token(page: Page) -> str:
    return next(form.fields["form_token"] for form in page.forms if "form_token" in form.fields)


def test_keys_are_told_apart_by_what_nobody_chooses(app, admin):
    key = ECKey.generate_key("P-384", {"kid": "lab-1"})
    client_id = waiting(
        app,
        kind="backend",
        auth_method=SIGNED,
        scope="system/*.rs",
        redirect_uris=(),
        jwks={"keys": [key.as_dict(private=False)]},
    )
    page = admin.get(f"/admin/clients/{client_id}")
    # RFC 7638.
    assert f"kid lab-1; thumbprint {key.thumbprint()}" in page.words
