"""The administrator's pages of apps: approved, rejected, disabled, changed, revoked.

Who may open them is tested in tests/web/test_pages.py, which registrations are refused in
tests/auth/test_registration.py.
"""

from __future__ import annotations

import re
from typing import Any

from flask import Flask
from joserfc.jwk import ECKey
from sqlalchemy import insert, select

from fhirapp.audit.entries import ADMINISTRATION, entries
from fhirapp.auth.clients import administration
from fhirapp.auth.clients.administration import find, issue_token
from fhirapp.auth.clients.registration import Registration, owner_code, register
from fhirapp.auth.models import (
    BASIC,
    CLINICIAN,
    NONE,
    PATIENT,
    SIGNED,
    Refusal,
)
from fhirapp.db import writing
from tests.support.app_pages import secret_of
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
from tests.support.browsing import Browser, Page
from tests.support.helpers import BASE_URL, Fhir

SCOPE = "launch/patient offline_access patient/*.rs"
KEY = ECKey.generate_key("P-384", {"kid": "lab-1"})
BACKEND: dict[str, Any] = {"kind": "backend", "auth_method": SIGNED, "scope": "system/*.rs"}
BACKEND |= {"redirect_uris": (), "jwks": {"keys": [KEY.as_dict(private=False)]}}


def registration(**changes: Any) -> Registration:
    usual = {"name": "Waits", "kind": "public", "auth_method": NONE, "scope": EVERYTHING}
    return Registration(**(usual | {"redirect_uris": (REDIRECT,)} | changes))


def waiting(clinic: Flask, name: str = "Waits", **changes: Any) -> str:
    """Register a client as anybody can; return its id."""
    with clinic.app_context(), writing() as connection:
        return register(connection, registration(name=name, **changes), approved=False)


def registered_itself(clinic: Flask, **changes: Any) -> str:
    """Register a client as a program does itself; return its id."""
    with clinic.test_request_context():
        applied = administration.apply(registration(**changes), "192.0.2.9", by_itself=True)
        return applied.client_id


def row_of(clinic: Flask, client_id: str) -> dict[str, Any]:
    with clinic.app_context(), writing() as connection:
        return dict(find(connection, client_id) or {})


def page_of(admin: Browser, client_id: str) -> Page:
    return admin.get(f"/admin/clients/{client_id}")


def test_list_has_the_apps_that_wait_first_and_the_last_token_of_each(clinic, admin):
    program = add_backend(clinic)
    waiting(clinic, "Zebra")
    line = rf"{re.escape(program.client_id)} approved A backend system (.*?) system/\*\.rs"
    page = admin.get("/admin/clients")
    states = re.findall(r"waiting for approval|approved|disabled", page.words)
    assert "waiting for approval" not in states[states.index("approved") :]
    assert page.links["Zebra"].startswith("/admin/clients/app-")
    assert re.findall(line, page.words) == ["none recently"]
    flow = Flow(clinic, program, add_user(clinic, CLINICIAN))
    flow.ask("/oauth/token", grant_type="client_credentials", scope="system/*.rs")
    (last,) = re.findall(line, admin.get("/admin/clients").words)
    assert re.fullmatch(r"\d+ \w+ \d{4}, \d\d:\d\d UTC", last)


def test_administrator_is_warned_of_what_the_kind_of_app_can_do(clinic, admin):
    backend = page_of(admin, registered_itself(clinic, **BACKEND))
    assert "records of every patient within its scopes" in backend.words
    # RFC 7638.
    assert f"kid lab-1; thumbprint {KEY.thumbprint()}" in backend.words
    public = page_of(admin, waiting(clinic))
    assert "check its redirect URIs" in public.words
    assert "every patient within its scopes" not in public.words


def test_app_that_registered_itself_is_marked_with_its_origin(clinic, admin):
    name = "Kidney Watch"
    client_id, other = registered_itself(clinic, name=name), waiting(clinic, f"{name} 2")
    page = page_of(admin, client_id)
    assert re.search(r"From the address 192\.0\.2\.9, \d+ \w+ \d{4}, \d\d:\d\d UTC\.", page.words)
    words = admin.get("/admin/clients").words
    assert f"{name} {client_id} waiting for approval registered by itself A mobile" in words
    assert f"{name} 2 {other} waiting for approval A mobile" in words
    assert "registered by itself" in page.send("/approve").words


def test_each_form_of_an_app_changes_its_registration(clinic, admin):
    """That it applies at once is tested in tests/auth/test_access_now.py."""
    client_id = waiting(clinic)
    path = f"/admin/clients/{client_id}"
    waits = page_of(admin, client_id)
    for action, name, expected in (
        ("approve", "approved_at", True),
        ("disable", "disabled", True),
        ("enable", "disabled", False),
    ):
        assert f"{path}/{action}" in page_of(admin, client_id).actions
        page = page_of(admin, client_id).send(f"/{action}")
        assert page.path == f"{path}?done={action}"
        assert len(page.confirmations) == 1
        assert bool(row_of(clinic, client_id)[name]) is expected
        assert f"{path}/{action}" not in page.actions
    # An approved app is not rejected, from a page that was open before.
    assert waits.send("/reject").status == 409
    assert row_of(clinic, client_id)
    # It asks for tokens now.
    flow = Flow(clinic, Program(client_id), add_user(clinic, PATIENT, "p1"))
    assert flow.fhir(SCOPE).get("AllergyIntolerance").status_code == 200


def test_rejected_app_is_deleted_with_its_refusals(clinic, admin):
    client_id = waiting(clinic)
    row = {"request_id": "0" * 16, "at": 1, "client_id": client_id, "status": 401}
    alter(clinic, insert(Refusal).values([row | {"asked": "POST /oauth/token", "reasons": ["x"]}]))
    assert page_of(admin, client_id).send("/reject").path == "/admin/clients?done=rejected"
    assert row_of(clinic, client_id) == {}
    assert rows(clinic, select(Refusal).where(Refusal.client_id == client_id)) == []
    assert page_of(admin, client_id).status == 404


def test_revoking_ends_every_consent_and_token(clinic, admin):
    program, backend = add_program(clinic), add_backend(clinic).client_id
    flow = Flow(clinic, program, add_user(clinic, PATIENT, "p1"))
    tokens = [flow.tokens(SCOPE) for _ in range(2)]
    with clinic.app_context(), writing() as connection:
        without_user = issue_token(connection, scope="system/*.rs", client_id=backend)
    clients = [Fhir(clinic, token["access_token"]) for token in tokens] + [
        Fhir(clinic, without_user)
    ]
    assert [client.get("Patient/p1").status_code for client in clients] == [200] * 3
    page = page_of(admin, program.client_id)
    assert "2 consents give it access." in page.words
    assert "No user has given this app access." in page.send("/revoke").words
    page_of(admin, backend).send("/revoke")
    assert [client.get("Patient/p1").status_code for client in clients] == [401] * 3
    assert flow.refresh(tokens[0]["refresh_token"]).get_json()["error"] == "invalid_grant"


def test_changed_scope_and_redirect_uris_are_stored(clinic, admin):
    client_id = add_program(clinic).client_id
    page = page_of(admin, client_id)
    assert page.form_to("/change").fields["scope"].split() == EVERYTHING.split()
    other = "https://other.example/callback"
    narrow, uris = " launch/patient  patient/AllergyIntolerance.rs ", f"{other}\r\n\r\n{other}\r\n"
    page = page.send("/change", scope=narrow, redirect_uris=uris)
    assert page.path.endswith("done=changed")
    changed = row_of(clinic, client_id)
    assert (changed["scope"], changed["redirect_uris"]) == (" ".join(narrow.split()), [other])
    # What is refused stays as it was typed.
    for name, value in (("scope", "system/*.rs"), ("redirect_uris", "http://other.example/")):
        page = page_of(admin, client_id).send("/change", **{name: value})
        assert (page.status, len(page.alerts)) == (400, 1)
        assert page.form_to("/change").fields[name].strip() == value
    assert row_of(clinic, client_id) == changed


def test_form_that_changes_nothing_says_so_and_writes_no_audit_entry(clinic, admin):
    program = add_program(clinic)
    page = page_of(admin, program.client_id)
    with clinic.app_context():
        before = entries(kind=ADMINISTRATION)
    for action in ("approve", "enable", "revoke", "change"):
        sent = admin.post(f"{page.path}/{action}", page.form_to("/change").fields)
        assert sent.path.endswith("done=nothing"), action
    with clinic.app_context():
        assert entries(kind=ADMINISTRATION) == before


def test_new_secret_is_shown_once_and_voids_the_one_before(clinic, admin):
    program = add_program(clinic, BASIC)
    flow = Flow(clinic, program, add_user(clinic, PATIENT, "p1"))
    fhir, page = flow.fhir(SCOPE), page_of(admin, program.client_id)
    secret = secret_of(page.send("/secret"))
    assert secret not in page_of(admin, program.client_id).response.text
    assert fhir.get("AllergyIntolerance").status_code == 401
    code = flow.code(SCOPE)
    assert flow.redeem(code).get_json()["error"] == "invalid_client"
    flow.program = program._replace(secret=secret)
    assert flow.redeem(code).status_code == 200
    # A public client has none.
    path = f"/admin/clients/{add_program(clinic).client_id}"
    assert f"{path}/secret" not in admin.get(path).actions
    assert admin.post_with_token(f"{path}/secret").status == 409


def test_secret_is_the_next_step_of_a_new_app_that_needs_one(clinic, admin):
    client_id = waiting(clinic, kind="confidential", auth_method=BASIC)
    assert "Next step" not in page_of(admin, client_id).words
    page = page_of(admin, client_id).send("/approve")
    assert "Next step: create the secret" in page.words
    shown = page.submit("Create the secret")
    # Ours alone: it copies what is shown once.
    assert (shown.heading, "/static/copy.js" in shown.response.text) == (
        "New client secret for Waits",
        True,
    )
    page = page_of(admin, client_id)
    assert "Next step" not in page.words
    assert page.submit("Create secret").heading == "New client secret for Waits"


def test_new_owner_address_voids_the_one_before(clinic, admin):
    client_id = waiting(clinic, "Mine")
    with clinic.app_context(), writing() as connection:
        old = owner_code(connection, client_id)
    page = page_of(admin, client_id).send("/owner")
    (path,) = re.findall(rf"{BASE_URL}(/apps/[A-Za-z0-9_-]{{43}})", page.words)
    assert Browser(clinic).get(path).heading == "Mine"
    assert Browser(clinic).get(f"/apps/{old}").status == 404


def test_everything_that_an_administrator_decides_by_is_shown(clinic, admin):
    host = "app.riverside.example.evil.example:8443"
    uris = (f"https://{host}/callback?x=1", "https://xn--rverside-thh.example/")
    client_id = waiting(
        clinic,
        redirect_uris=(*uris, "http://localhost:3000/cb", "com.example.app:/cb"),
        launch_uri="https://app.riverside.example/launch",
        scope="openid patient/DocumentReference.rs?category=clinical-note user/*.rs",
        developer="Riverside Apps",
        contact="dev@riverside.example",
    )
    words = page_of(admin, client_id).words
    for shown in (
        client_id,
        f"{host} https://{host}/callback?x=1",
        "Browsers may show it as r\u0456verside.example",
        *("localhost:3000", "com.example.app:", "https://app.riverside.example/launch"),
        "only where category is clinical-note",
        "patient/DocumentReference.rs?category=clinical-note everyone",
        "user/*.rs clinicians and administrators",
        *("Riverside Apps", "dev@riverside.example", "waiting for approval"),
        "has not been verified",
    ):
        assert shown in words


def test_name_that_may_imitate_another_is_pointed_out(clinic, admin):
    for name, alike in (
        ("Moore Card", "Moore Card"),
        ("Müller-App", "  mullerapp"),
        ("\uff26ull App", "Full App"),
        ("\u2728", "\u2728"),
    ):
        known = add_program(clinic, redirect_uris=["https://known.example/cb"])
        set_client(clinic, known, name=name)
        page = page_of(admin, registered_itself(clinic, name=alike))
        assert f"{name} ({known.client_id}, approved, known.example)" in page.words
        assert page.links[name] == f"/admin/clients/{known.client_id}"
    # Letters of several alphabets that look alike.
    for name, is_mixed in (
        ("P\u0430tient Portal", True),
        ("Patient Portal", False),
        ("\u041f\u043e\u0440\u0442\u0430\u043b", False),
        ("患者 App", False),
    ):
        page = page_of(admin, registered_itself(clinic, name=name))
        assert ("letters of several alphabets" in page.words) is is_mixed, name


def test_clients_of_demo_and_shell_are_shown_and_not_changed(clinic, admin):
    with clinic.app_context(), writing() as connection:
        issue_token(connection, scope="system/*.rs")
    for client_id in ("demo-backend", "demo-app", "operator"):
        page, before = page_of(admin, client_id), row_of(clinic, client_id)
        assert page.status == 200
        assert f"{page.path}/change" not in page.actions
        form = {"scope": "patient/*.rs", "redirect_uris": REDIRECT}
        assert admin.post_with_token(f"{page.path}/change", **form).status == 400
        assert row_of(clinic, client_id) == before


def test_unknown_client_and_unknown_action_are_404(clinic, admin):
    for client_id in ("nobody", "x" * 300, "%00"):
        assert admin.get(f"/admin/clients/{client_id}").status == 404
        for action in ("approve", "reject", "change", "secret", "owner"):
            page = admin.post_with_token(f"/admin/clients/{client_id}/{action}")
            assert page.status == 404, (client_id, action)
    assert admin.post_with_token(f"/admin/clients/{waiting(clinic)}/nonsense").status == 404
