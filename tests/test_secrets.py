"""No secret that was used stands in the database's files, or in the logs at DEBUG."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
from flask import Flask

from fhirapp.auth.clients.administration import new_secret
from fhirapp.auth.clients.registration import owner_code
from fhirapp.auth.models import BASIC, CLINICIAN, PATIENT
from fhirapp.auth.users import second_factor, sessions
from fhirapp.auth.users.accounts import add_user, new_setup_code, set_password
from fhirapp.db import db, writing
from tests.support.authorizing import STATE, VERIFIER, Flow, add_backend, add_person, add_program
from tests.support.browsing import cookie_name
from tests.support.helpers import token_for

PASSWORD = "plum-teapot-lantern-42"
WRONG = "plum-teapot-lantern-43"


@pytest.fixture(scope="module")
def app(make_app) -> Flask:
    return make_app(dynamic_registration=True)


@pytest.fixture(autouse=True)
def _all_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield


def use_everything(app: Flask) -> dict[str, str]:
    """Use a secret of each kind; return them by name."""
    used: dict[str, str] = {"password": PASSWORD, "wrong password": WRONG, "verifier": VERIFIER}
    program = add_program(app, BASIC)
    used["client secret"] = program.secret or ""
    flow = Flow(app, program, add_person(app, PATIENT, "p1"))
    used["session"] = flow.session
    code = flow.code("openid launch/patient patient/*.rs offline_access")
    used["code"] = code
    answer = flow.redeem(code).get_json()
    again = flow.refresh(answer["refresh_token"]).get_json()
    for number, one in enumerate((answer, again)):
        used[f"access token {number}"] = one["access_token"]
        used[f"refresh token {number}"] = one["refresh_token"]
    used["id token"] = answer["id_token"]
    used["launch"] = Flow(app, program, add_person(app, CLINICIAN)).launch("p1")
    used["operator's token"] = token_for(app, "system/*.rs")
    http = app.test_client()
    backend = add_backend(app).proof()
    used["assertion"] = backend["client_assertion"]
    form = {"grant_type": "client_credentials", "scope": "system/*.rs", **backend}
    used["backend's token"] = http.post("/oauth/token", data=form).get_json()["access_token"]
    for name, token in list(used.items()):
        if "token" in name:
            http.get("/fhir/Patient", headers={"Authorization": f"Bearer {token}"})
            auth = (program.client_id, program.secret or "")
            http.post("/oauth/introspect", data={"token": token}, auth=auth)
    http.post("/oauth/revoke", data={"token": again["access_token"]}, auth=auth)
    itself = {"client_name": "X", "scope": "openid", "redirect_uris": ["https://app.example/"]}
    told = http.post("/oauth/register", json=itself).get_json()
    used["secret of who registered itself"] = told["client_secret"]
    used["its owner's code"] = told["approval_page"].rpartition("/")[2]
    http.post(
        "/oauth/token", data={"grant_type": "x"}, auth=(told["client_id"], told["client_secret"])
    )
    http.get(urlsplit(told["approval_page"]).path, base_url="https://fhir.example")
    http.post("/oauth/token", data={"grant_type": "refresh_token"}, auth=(program.client_id, WRONG))
    return used | sign_in(app) | shell_codes(app, program.client_id)


def sign_in(app: Flask) -> dict[str, str]:
    """Sign in at the pages, once with the wrong password, then with a second factor."""
    secret = pyotp.random_base32()
    with app.test_request_context(), writing() as connection:
        user_id = add_user(connection, "robin", name="Robin", role=CLINICIAN, password=PASSWORD)
        set_password(connection, user_id, PASSWORD)
        recovery = second_factor.enable(connection, user_id, secret, 0)
    http = app.test_client()
    used = {"second factor": secret} | {f"recovery {one}": one for one in recovery}
    for password in (WRONG, PASSWORD):
        form = {"form_token": form_token(http, "/sign-in"), "username": "robin"}
        http.post("/sign-in", data=form | {"password": password}, base_url="https://fhir.example")
    first = http.get_cookie(cookie_name(app), domain="fhir.example")
    assert first is not None
    used["session before the code"] = first.value
    form = {"form_token": form_token(http, "/sign-in/code"), "code": pyotp.TOTP(secret).now()}
    answer = http.post("/sign-in/code", data=form, base_url="https://fhir.example")
    assert answer.status_code == 303
    second = http.get_cookie(cookie_name(app), domain="fhir.example")
    assert second is not None
    assert second.value != first.value
    used["session after the code"] = second.value
    return used


def form_token(http, path: str) -> str:
    """Return the token of a page's form."""
    text = http.get(path, base_url="https://fhir.example").text
    found = re.search(r'name="form_token" value="([^"]+)"', text)
    assert found is not None, text
    return found[1]


def shell_codes(app: Flask, client_id: str) -> dict[str, str]:
    """Make what the shell and the administrator hand out."""
    with app.test_request_context(), writing() as connection:
        return {
            "setup code": new_setup_code(connection),
            "owner's code": owner_code(connection, client_id),
            "another secret": new_secret(connection, client_id),
            "another session": sessions.begin(connection, user_of(connection), complete=True),
        }


def user_of(connection) -> str:
    return connection.exec_driver_sql("SELECT id FROM auth_user LIMIT 1").scalar()


def test_no_secret_is_stored_or_logged(app, caplog):
    used = use_everything(app)
    assert all(len(secret) > 12 for secret in used.values())
    with app.app_context():
        path = Path(str(db.engine.url.database))
    stored = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    # Values that are not secret are found: so the search would find a secret.
    assert STATE.encode() in stored
    assert b"robin" in stored
    logging.getLogger("fhirapp").debug("robin was here")
    said = caplog.text
    assert "robin was here" in said
    for name, secret in used.items():
        assert secret.encode() not in stored, f"{name} is stored"
        assert secret not in said, f"{name} is logged"


def test_no_url_holds_a_secret_but_the_redirect_its_code(app):
    flow = Flow(app, add_program(app), add_person(app, PATIENT, "p1"))
    handle = flow.park("patient/*.rs launch/patient")
    address = urlsplit(flow.decide(handle))
    assert address.netloc == "app.example"
    assert set(parse_qs(address.query)) == {"code", "state"}
