"""An authorization from an app's request to its tokens, without pages in between.

A Flow is one user's browser and one app:

    flow = Flow(app, add_program(app), add_person(app, CLINICIAN))
    code = flow.code("openid patient/*.rs", patient="p1")
    answer = flow.redeem(code).get_json()
    flow.refresh(answer["refresh_token"])

What is sent is right but for what a test changes; a value of None is left out.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from flask import Flask
from joserfc import jwt
from joserfc.jwk import ECKey
from sqlalchemy import Executable, func, select, update
from werkzeug.datastructures import MultiDict
from werkzeug.test import TestResponse

from fhirapp.auth.clients.administration import new_secret
from fhirapp.auth.clients.registration import Registration, register
from fhirapp.auth.models import BASIC, NONE, SIGNED, Client, ParkedRequest, User
from fhirapp.auth.oauth import authorize, launch
from fhirapp.auth.oauth.authorize import Offer, SendBack
from fhirapp.auth.scopes import SESSION_SCOPES
from fhirapp.auth.users import sessions
from fhirapp.auth.users.accounts import add_user, link
from fhirapp.db import db, writing
from tests.support.helpers import BASE_URL, Fhir

REDIRECT = "https://app.example/callback"
AUD = f"{BASE_URL}/fhir"
VERIFIER = "a-verifier-of-43-characters-or-more-0123456789"
STATE = "state of the app's"
EVERYTHING = " ".join([*sorted(SESSION_SCOPES), "patient/*.rs", "user/*.rs"])
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
KEY = ECKey.generate_key("P-384", {"kid": "app", "alg": "ES384", "use": "sig"})
# Failures are counted by address: each request comes from one of its own.
_ADDRESSES = (f"198.18.{n // 250 % 250}.{n % 250}" for n in count())


def challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier. RFC 7636 §4.2"""
    hashed = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()


class Program(NamedTuple):
    """A registered client, and what proves that it is it."""

    client_id: str
    secret: str | None = None
    key: ECKey | None = None

    def proof(self) -> dict[str, Any]:
        """Return what goes with a request to prove who sends it: form fields, or `auth`."""
        if self.secret is not None:
            return {"auth": (self.client_id, self.secret)}
        if self.key is None:
            return {"client_id": self.client_id}
        claims = {"iss": self.client_id, "sub": self.client_id, "jti": str(uuid4())}
        claims |= {"aud": f"{BASE_URL}/oauth/token", "exp": int(time.time()) + 240}
        header = {"alg": "ES384", "kid": self.key.kid}
        signed = jwt.encode(header, claims, self.key, algorithms=["ES384"])
        return {"client_assertion_type": _JWT_BEARER, "client_assertion": signed}


def add_program(
    app: Flask,
    method: str = NONE,
    *,
    scope: str = EVERYTHING,
    redirect_uris: Iterable[str] = (REDIRECT,),
) -> Program:
    """Register an app: public (NONE), confidential with a secret (BASIC) or a key (SIGNED)."""
    registration = Registration(
        name="An app",
        kind="public" if method == NONE else "confidential",
        auth_method=method,
        scope=scope,
        redirect_uris=tuple(redirect_uris),
        jwks=KEY.as_dict(private=False) if method == SIGNED else None,
    )
    with app.app_context(), writing() as connection:
        client_id = register(connection, registration)
        secret = new_secret(connection, client_id) if method == BASIC else None
    return Program(client_id, secret, KEY if method == SIGNED else None)


def add_backend(app: Flask, scope: str = "system/*.rs") -> Program:
    """Register a backend client, which signs."""
    registration = Registration(
        name="A backend",
        kind="backend",
        auth_method=SIGNED,
        scope=scope,
        jwks=KEY.as_dict(private=False),
    )
    with app.app_context(), writing() as connection:
        return Program(register(connection, registration), key=KEY)


def add_person(app: Flask, role: str, *patients: str, fhir_user: str | None = None) -> str:
    """Add a user; return the id. The records are linked, the first as the user's own."""
    username = f"u{uuid4().hex}"
    with app.app_context(), writing() as connection:
        user_id = add_user(
            connection, username, name="Robin Example", role=role, fhir_user=fhir_user
        )
        for patient_id in patients:
            link(connection, user_id, patient_id, is_self=patient_id == patients[0])
    return user_id


class Flow:
    """One user, signed in, and one app."""

    def __init__(self, app: Flask, program: Program, user_id: str) -> None:
        self.app, self.program, self.user_id = app, program, user_id
        with app.app_context(), writing() as connection:
            # What the browser's cookie holds.
            self.session = sessions.begin(connection, user_id, complete=True)

    def signed(self) -> sessions.Signed:
        """Return who is signed in; within a request."""
        found = sessions.find(self.session)
        assert found is not None
        return found

    def park(self, scope: str | None, **changes: Any) -> str:
        """Send the user to the server; return the handle. Raises SendBack, Unanswerable."""
        parameters = self.parameters(scope, **changes)
        with self.app.test_request_context("/oauth/authorize"):
            return authorize.park(MultiDict(parameters))

    def parameters(self, scope: str | None, **changes: Any) -> dict[str, Any]:
        """Return an authorization request that is right but for changes; a list is repeated."""
        right = {
            "response_type": "code",
            "client_id": self.program.client_id,
            "redirect_uri": REDIRECT,
            "scope": scope,
            "state": STATE,
            "aud": AUD,
            "code_challenge": challenge(VERIFIER),
            "code_challenge_method": "S256",
        }
        return {name: value for name, value in (right | changes).items() if value is not None}

    def offer(self, handle: str) -> Offer:
        """Return what the user could allow. Raises SendBack, Unanswerable."""
        with self.app.test_request_context():
            return authorize.offer(_parked(handle), self.signed().user)

    def choose(self, handle: str, patient_id: str, encounter_id: str | None = None) -> None:
        """Choose whose record it is about, and which visit."""
        with self.app.test_request_context():
            authorize.choose(_parked(handle), patient_id, encounter_id)

    def decide(self, handle: str, ticked: Iterable[str] | None = None, days: int = 90) -> str:
        """Allow selected, all unless given; return where the browser is sent.

        Raises SendBack, Unanswerable.
        """
        with self.app.test_request_context():
            parked, signed = _parked(handle), self.signed()
            offered = authorize.offer(parked, signed.user)
            chosen = offered.scopes if ticked is None else ticked
            return authorize.decide(parked, offered, signed, chosen, days)

    def refuse(self, handle: str) -> str:
        """Refuse; return where the browser is sent. Raises Unanswerable."""
        with self.app.test_request_context():
            return authorize.refuse(_parked(handle))

    def launch(self, patient_id: str, encounter_id: str | None = None) -> str:
        """Start the app from our own pages; return the launch id that it is told."""
        uri = "https://app.example/launch"
        with self.app.test_request_context(), writing() as connection:
            address = launch.start(
                connection,
                client_id=self.program.client_id,
                launch_uri=uri,
                user_id=self.user_id,
                patient_id=patient_id,
                encounter_id=encounter_id,
            )
        told = parameters_of(address, uri)
        assert told["iss"] == AUD
        return told["launch"]

    def code(
        self,
        scope: str,
        *,
        patient: str | None = None,
        encounter: str | None = None,
        ticked: Iterable[str] | None = None,
        days: int = 90,
        **changes: Any,
    ) -> str:
        """Have the user allow what the app asks for, for this patient; return the code."""
        handle = self.park(scope, **changes)
        if patient is not None:
            self.choose(handle, patient, encounter)
        location = self.decide(handle, ticked, days)
        return parameters_of(location, changes.get("redirect_uri", REDIRECT))["code"]

    def ask(self, path: str, proof: dict[str, Any] | None = None, **form: Any) -> TestResponse:
        """Post a form to the server, with the app's proof unless another is given."""
        fields = self.program.proof() if proof is None else dict(proof)
        auth, headers = fields.pop("auth", None), fields.pop("headers", None)
        return self.app.test_client().post(
            path,
            data={name: value for name, value in (fields | form).items() if value is not None},
            auth=auth,
            headers=headers,
            environ_base={"REMOTE_ADDR": next(_ADDRESSES)},
        )

    def redeem(self, code: str | None, **form: Any) -> TestResponse:
        """Exchange a code at the token endpoint."""
        right = {"grant_type": "authorization_code", "code": code}
        right |= {"redirect_uri": REDIRECT, "code_verifier": VERIFIER}
        return self.ask("/oauth/token", **(right | form))

    def refresh(self, token: str | None, **form: Any) -> TestResponse:
        """Exchange a refresh token."""
        right = {"grant_type": "refresh_token", "refresh_token": token}
        return self.ask("/oauth/token", **(right | form))

    def introspect(self, token: str | None, **form: Any) -> TestResponse:
        """Ask what a token is."""
        return self.ask("/oauth/introspect", token=token, **form)

    def revoke(self, token: str | None, **form: Any) -> TestResponse:
        """Give a token back."""
        return self.ask("/oauth/revoke", token=token, **form)

    def tokens(self, scope: str, **options: Any) -> dict[str, Any]:
        """Return the token answer of a whole authorization; options are those of code()."""
        answer = self.redeem(self.code(scope, **options), redirect_uri=_redirect(options))
        assert answer.status_code == 200, answer.text
        content: dict[str, Any] = answer.get_json()
        return content

    def fhir(self, scope: str, **options: Any) -> Fhir:
        """Return a client of /fhir with the access token of a whole authorization."""
        return Fhir(self.app, self.tokens(scope, **options)["access_token"])


def parameters_of(location: str, redirect_uri: str = REDIRECT) -> dict[str, str]:
    """Return the parameters of an address that begins with this one; each is there once."""
    bare, query = urlsplit(redirect_uri).query, urlsplit(location).query
    assert location.startswith(f"{redirect_uri}{'&' if bare else '?'}"), location
    return {
        name: text
        for name, (text,) in parse_qs(query, keep_blank_values=True, strict_parsing=True).items()
    }


def told(raised: pytest.ExceptionInfo[SendBack]) -> tuple[str, str]:
    """Return error and description of what goes back to the client, with its state."""
    answer = parameters_of(raised.value.location)
    assert answer.pop("state") == STATE
    assert answer.keys() == {"error", "error_description"}
    return answer["error"], answer["error_description"]


def alter(app: Flask, *statements: Executable) -> None:
    """Change rows: time passes for them, or somebody changes their mind."""
    with app.app_context(), writing() as connection:
        for statement in statements:
            connection.execute(statement)


def set_client(app: Flask, program: Program, **values: Any) -> None:
    """Change a client's registration."""
    alter(app, update(Client).where(Client.client_id == program.client_id).values(**values))


def set_user(app: Flask, user_id: str, **values: Any) -> None:
    """Change a user."""
    alter(app, update(User).where(User.id == user_id).values(**values))


def rows(app: Flask, statement: Any) -> list[Any]:
    """Return what a SELECT finds."""
    with app.app_context():
        return list(db.session.execute(statement))


def parked_requests(flow: Flow) -> int:
    """Return how many authorization requests wait for an answer."""
    return int(rows(flow.app, select(func.count()).select_from(ParkedRequest))[0][0])


def _parked(handle: str) -> Any:
    parked = authorize.find(handle)
    assert parked is not None, "the request was answered, or has expired"
    return parked


def _redirect(options: dict[str, Any]) -> str:
    found: str = options.get("redirect_uri", REDIRECT)
    return found
