"""Register an app, and manage one that was registered: its state, its secret, its refusals.

Whoever registered an app manages it at an address that nobody else knows; there is no account.
"""

from __future__ import annotations

from flask import Response, request
from werkzeug.exceptions import NotFound

from fhirapp.auth import clients
from fhirapp.auth.applications import apply
from fhirapp.auth.diagnosis import Finding, diagnose
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.models import Client
from fhirapp.auth.models.user import ADMINISTRATOR
from fhirapp.auth.refusals import refusals_of
from fhirapp.auth.registration import METHODS, SIGNED, register
from fhirapp.auth.sign_in import TooOften
from fhirapp.db import db, writing
from fhirapp.web import clients as shown
from fhirapp.web.first_steps import MAKE_KEYS, discovery_url, first_steps
from fhirapp.web.pages import PageError, blueprint_of, page, see_other, signed
from fhirapp.web.registering import (
    COMMON_SCOPES,
    Draft,
    PrivateKey,
    empty_draft,
    registration_of,
    sent_draft,
)
from fhirapp.web.words import in_words

blueprint = blueprint_of("apps", __name__)


@blueprint.get("/apps/register")
def form() -> Response:
    """Ask what kind of client it is, then for the rest."""
    kind = request.args.get("kind", "")
    if kind not in shown.KINDS:
        return page("apps/kind.html", kinds=shown.KINDS)
    return _form(empty_draft(kind))


@blueprint.post("/apps/register")
def send() -> Response:
    """Register a client: an administrator's is approved at once."""
    if request.form.get("kind") not in shown.KINDS:
        raise PageError(400, "Choose first what kind of app it is.")
    draft = sent_draft()
    try:
        registration = registration_of(draft)
        if _is_administrator():
            db.session.rollback()
            with writing() as connection:
                client_id = register(connection, registration)
            return see_other(f"/admin/clients/{client_id}?done=registered")
        return see_other(f"/apps/{apply(registration, request.remote_addr or '')}")
    except PrivateKey as error:
        return _form(draft._replace(jwks=""), str(error), 400)
    except RefusedCommand as error:
        return _form(draft, str(error), 400)
    except TooOften as error:
        return _form(draft, f"There were too many from your address. {_wait(error)}", 429)


@blueprint.get("/apps/<code>")
def owned(code: str) -> Response:
    """Show an app to whoever registered it; what is no code of one is 404."""
    return _owned(code, _client(code))


@blueprint.post("/apps/<code>/test")
def test(code: str) -> Response:
    """Tell what keeps the app from working."""
    client = _client(code)
    try:
        findings = diagnose(client)
    except TooOften as error:
        raise PageError(429, f"It was tested too often. {_wait(error)}") from None
    return _owned(code, client, findings)


@blueprint.post("/apps/<code>/secret")
def new_secret(code: str) -> Response:
    """Make a new secret, and show it this once."""
    client = _client(code)
    if client.approved_at is None or client.disabled or not shown.has_secret(client):
        raise PageError(409, "There is no secret to be made for this app now.")
    client_id, name = client.client_id, client.name
    db.session.rollback()
    with writing() as connection:
        secret = clients.new_secret(connection, client_id)
    return page("once.html", kind="secret", secret=secret, name=name, back=f"/apps/{code}")


def _client(code: str) -> Client:
    found = clients.find_owned(code)
    if found is None:
        # The same as for an address that never was.
        raise NotFound
    return found


def _owned(code: str, client: Client, findings: list[Finding] | None = None) -> Response:
    works = client.approved_at is not None and not client.disabled
    return page(
        "apps/owned.html",
        code=code,
        client=client,
        shown=shown,
        findings=findings,
        works=works,
        steps=first_steps(client) if works else [],
        discovery=discovery_url(),
        refusals=refusals_of(client.client_id),
    )


def _form(draft: Draft, message: str = "", status: int = 200) -> Response:
    return page(
        "apps/register.html",
        status,
        draft=draft,
        kind=shown.KINDS[draft.kind],
        proofs=[(method, shown.PROOFS[method]) for method in METHODS[draft.kind]],
        can_sign=SIGNED in METHODS[draft.kind],
        scopes=[in_words(text) for text in COMMON_SCOPES[draft.kind]],
        make_keys=MAKE_KEYS,
        is_administrator=_is_administrator(),
        message=message,
    )


def _is_administrator() -> bool:
    found = signed()
    return found is not None and found.complete and found.user.role == ADMINISTRATOR


def _wait(error: TooOften) -> str:
    minutes = -(-error.seconds // 60)
    return f"Wait {minutes} minute{'s' if minutes > 1 else ''}."
