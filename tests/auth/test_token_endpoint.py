"""Forms of /oauth/token, /introspect and /revoke; client_credentials and the scopes it grants.

RFC 6749 §2.3, §3.2, §4.4, §5; decisions §6.
"""

from __future__ import annotations

import base64
import logging
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from fhirapp.auth.models import AccessToken, Client, digest
from fhirapp.auth.throttle import PER_MINUTE
from fhirapp.db import db, writing
from tests.support.helpers import Fhir
from tests.support.token_endpoint import DEMO, assert_error

GRANT = {"grant_type": "client_credentials", "scope": "system/*.rs"}
# Failures are counted by address: each request of these tests comes from one of its own.
_ADDRESSES = (f"203.0.{n // 250}.{n % 250}" for n in count())


def ask(app: Flask, form: Any = None, *, auth: Any = DEMO, **options: Any) -> TestResponse:
    """Ask for a token, with Basic unless auth is None."""
    return app.test_client().post(
        options.pop("path", "/oauth/token"),
        data=GRANT if form is None else form,
        auth=auth,
        environ_base={"REMOTE_ADDR": next(_ADDRESSES)},
        **options,
    )


def test_client_credentials_get_a_valid_token(oauth):
    response = ask(oauth)
    assert response.status_code == 200
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Pragma"] == "no-cache"
    answer = response.get_json()
    token = answer.pop("access_token")
    # 256 random bits in base64url; expires_in is a number.
    assert len(token) == 43
    assert answer == {"token_type": "Bearer", "expires_in": 300, "scope": "system/*.rs"}
    assert Fhir(oauth, token).read("AllergyIntolerance?status=active")["total"] == 0
    assert ask(oauth).get_json()["access_token"] != token


def test_granted_scope_is_in_the_answer(oauth):
    narrow = "system/AllergyIntolerance.rs?clinical-status=active"
    expected = {
        "system/*.rs": "system/*.rs",
        "system/*.read": "system/*.read",
        "system/AllergyIntolerance.cruds": "system/AllergyIntolerance.rs",
        "system/*.read system/*.write": "system/*.read",
        "openid patient/*.rs system/*.rs user/*.rs nonsense": "system/*.rs",
        narrow: narrow,
    }
    granted = {
        scope: ask(oauth, {**GRANT, "scope": scope}).get_json()["scope"] for scope in expected
    }
    assert granted == expected


def test_scope_of_which_nothing_can_be_granted_is_invalid(oauth):
    for scope in (
        *("system/*.write", "patient/*.rs", "user/AllergyIntolerance.rs", "openid fhirUser"),
        *("nonsense", "system/DocumentReferenceX.rs", "xsystem/DocumentReference.rs"),
        *("system/documentreference.rs", "system/AllergyIntolerance.rs?nonsense=1", ""),
    ):
        told = f"The client may not have: {scope}" if scope else "scope is missing."
        assert_error(ask(oauth, {**GRANT, "scope": scope}), "invalid_scope", told)
    assert_error(ask(oauth, {"grant_type": "client_credentials"}), "invalid_scope", "is missing.")


def test_stranger_learns_no_scope_of_a_client(oauth):
    answers = []
    for scope in ("system/*.rs", "patient/*.rs", "nonsense"):
        form = {**GRANT, "scope": scope}
        for auth in ((DEMO[0], "wrong"), ("unknown", "demo")):
            answers.append(oauth.test_client().post("/oauth/token", data=form, auth=auth))
            assert_error(answers[-1], "invalid_client", status=401)
    assert len({answer.data for answer in answers}) == 1


def test_client_that_does_not_prove_its_identity_gets_no_token(oauth):
    backend = DEMO[0]
    for auth in (
        *((backend, "wrong"), (backend, ""), (backend, "démo"), ("unknown", "demo"), ("", "demo")),
        *(("operator", ""), ("operator", "demo"), (f"{backend}\0", "demo")),
    ):
        response = ask(oauth, auth=auth)
        assert_error(response, "invalid_client", status=401)
        # RFC 6749 §5.2: the answer to an Authorization header names the scheme.
        assert response.headers["WWW-Authenticate"].startswith("Basic")
    for form in ({}, {"client_id": backend}, {"client_id": backend, "client_secret": DEMO[1]}):
        assert_error(ask(oauth, GRANT | form, auth=None), "invalid_client", status=401)


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/introspect", "/oauth/revoke"])
def test_malformed_form_is_refused(oauth, path):
    valid = {**GRANT, "token": "x"}
    for changes, words in (
        ({"client_id": "operator"}, "client_id contradicts"),
        ({"client_secret": "demo"}, "in one way only"),
        ({"anything": ["x", "x"]}, "repeated"),
        ({"scope": ["x", "x"]}, "repeated"),
        ({"token": ["x", "y"], "grant_type": ["x", "y"]}, "repeated"),
        ({"token": "", "grant_type": ""}, "is missing."),
        *(({"scope": text}, "printable") for text in ("é", "a\tb", 'a"b', "a\\b", "a\n", "\x7f")),
        *(({name: "a\0b"}, "printable") for name in ("client_id", "grant_type", "token")),
    ):
        assert_error(ask(oauth, valid | changes, path=path), "invalid_request", words)
    for query in ("scope=system/*.rs", "client_id=x", "x"):
        response = ask(oauth, valid, path=f"{path}?{query}")
        assert_error(response, "invalid_request", "belong in the body")
    for header in (
        *("Basic", "Basic !", "Basic ", "Bearer", 'Digest username="demo-backend", realm="x"'),
        *("Basic " + base64.b64encode(text).decode() for text in (b"demo-backend", b"\xff:\xff")),
        "Bearer a b",
    ):
        response = ask(oauth, valid, auth=None, path=path, headers={"Authorization": header})
        assert_error(response, "invalid_request", "not readable")
    for media_type in ("application/json", "text/plain", "application/xml"):
        response = ask(oauth, b'{"token": "x"}', content_type=media_type, path=path)
        assert_error(response, "invalid_request", "is missing.")
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        response = oauth.test_client().open(path, method=method)
        assert response.status_code == 405
        assert "POST" in response.headers["Allow"]


def test_grant_type_that_is_unsupported_or_not_for_a_backend_is_refused(oauth):
    for grant in ("password", "implicit", "x", "client_credentials "):
        assert_error(ask(oauth, {**GRANT, "grant_type": grant}), "unsupported_grant_type")
    for grant in ("authorization_code", "refresh_token"):
        form = {**GRANT, "grant_type": grant, "code": "x", "refresh_token": "x"}
        assert_error(ask(oauth, form), "unauthorized_client")


def test_tokens_and_secrets_are_stored_as_digests_and_never_logged(make_app, caplog):
    app = make_app(seed=False)
    secret = "a-secret-that-only-this-test-knows"
    with app.app_context(), writing() as connection:
        table = Client.__table__
        connection.execute(table.update().values(secret_digest=digest(secret)))
    with caplog.at_level(logging.DEBUG):
        token = ask(app, auth=(DEMO[0], secret)).get_json()["access_token"]
        assert Fhir(app, token).get("AllergyIntolerance").status_code == 200
        ask(app, auth=(DEMO[0], secret + "x"))
    with app.app_context(), db.engine.connect() as connection:
        stored = connection.execute(select(AccessToken.digest)).scalars().all()
        file = Path(str(db.engine.url.database))
        written = b"".join(path.read_bytes() for path in file.parent.glob(f"{file.name}*"))
    assert stored == [digest(token)]
    assert digest(token) in written
    for private in (token, secret):
        assert private.encode() not in written
        assert private not in caplog.text


def test_failures_are_throttled_and_the_right_secret_is_not(oauth, monkeypatch):
    """Eleven failures are more than the limit of the two minutes that they could spread over."""
    failures = oauth.extensions["fhirapp.oauth"].failures
    assert failures._per_minute == PER_MINUTE == 60
    monkeypatch.setattr(failures, "_per_minute", 5)
    client = oauth.test_client()
    origin = {"REMOTE_ADDR": "192.0.2.78"}
    wrong = {"data": GRANT, "auth": ("x", "y"), "environ_base": origin}
    answers = [client.post("/oauth/token", **wrong) for _ in range(11)]
    throttled = [answer for answer in answers if answer.status_code == 429]
    assert_error(throttled[0], "invalid_client", status=429)
    assert 1 <= int(throttled[0].headers["Retry-After"]) <= 60
    right = {"data": GRANT, "auth": DEMO, "environ_base": origin}
    assert client.post("/oauth/token", **right).status_code == 200


def test_busy_database_is_a_503_and_reads_go_on(make_app):
    app = make_app(seed=False, threads=2)
    with app.app_context(), writing():
        answer = ask(app)
        assert app.test_client().get("/fhir/metadata").status_code == 200
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.get_json()["error"] == "temporarily_unavailable"
