"""Register an app, and manage one that was registered: its state, its secret, its refusals.

Whoever registered an app manages it at an address that nobody else knows; there is no account.
"""

from __future__ import annotations

from flask import Response, request
from werkzeug.exceptions import NotFound

from fhirapp.auth.access.refusals import refusals_of
from fhirapp.auth.attempts import TooOften
from fhirapp.auth.clients import registered
from fhirapp.auth.clients.applications import apply
from fhirapp.auth.clients.diagnosis import Finding, diagnose
from fhirapp.auth.clients.registration import METHODS, register
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.models import Client
from fhirapp.auth.models.client import SIGNED
from fhirapp.auth.models.user import ADMINISTRATOR
from fhirapp.db import db, writing
from fhirapp.web import clients as shown
from fhirapp.web.errors import wait
from fhirapp.web.first_steps import MAKE_KEYS, discovery_url, first_steps
from fhirapp.web.pages import PageError, blueprint_of, page, see_other, signed
from fhirapp.web.registering import (
    COMMON_SCOPES,
    KEPT,
    Draft,
    PrivateKey,
    draft_of,
    empty_draft,
    registration_of,
)
from fhirapp.web.texts import _, said
from fhirapp.web.typed import keeps, typed
from fhirapp.web.words import in_words

blueprint = blueprint_of("apps", __name__)


@blueprint.get("/apps/register")
def form() -> Response:
    """Ask what kind of client it is, then for the rest."""
    kept = typed()
    kind = kept.get("kind", request.args.get("kind", ""))
    if kind not in shown.KINDS:
        return page("apps/kind.html", kinds={one: shown.kind_named(one) for one in shown.KINDS})
    return _form(draft_of(kept) if kept else empty_draft(kind))


@blueprint.post("/apps/register")
@keeps(*KEPT)
def send() -> Response:
    """Register a client: an administrator's is approved at once."""
    if request.form.get("kind") not in shown.KINDS:
        raise PageError(400, _("Choose first what kind of app it is."))
    draft = draft_of(request.form)
    try:
        registration = registration_of(draft)
        if _is_administrator():
            db.session.rollback()
            with writing() as connection:
                client_id = register(connection, registration)
            return see_other(f"/admin/clients/{client_id}?done=registered")
        return see_other(f"/apps/{apply(registration, request.remote_addr or '')}")
    except PrivateKey as error:
        return _form(draft._replace(jwks=""), said(error), 400)
    except RefusedCommand as error:
        return _form(draft, said(error), 400)
    except TooOften as error:
        return _form(draft, f"{_('There were too many from your address.')} {wait(error)}", 429)


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
        raise PageError(429, f"{_('It was tested too often.')} {wait(error)}") from None
    return _owned(code, client, findings)


@blueprint.post("/apps/<code>/secret")
def new_secret(code: str) -> Response:
    """Make a new secret, and show it this once."""
    client = _client(code)
    if client.approved_at is None or client.disabled or not shown.has_secret(client):
        raise PageError(409, _("There is no secret to be made for this app now."))
    client_id, name = client.client_id, client.name
    db.session.rollback()
    with writing() as connection:
        secret = registered.new_secret(connection, client_id)
    return page("once.html", kind="secret", secret=secret, name=name, back=f"/apps/{code}")


def _client(code: str) -> Client:
    found = registered.find_owned(code)
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
        kind=shown.kind_named(draft.kind),
        proofs=[(method, shown.proof_named(method)) for method in METHODS[draft.kind]],
        can_sign=SIGNED in METHODS[draft.kind],
        scopes=[in_words(text) for text in COMMON_SCOPES[draft.kind]],
        make_keys=MAKE_KEYS,
        is_administrator=_is_administrator(),
        message=message,
    )


def _is_administrator() -> bool:
    found = signed()
    return found is not None and found.complete and found.user.role == ADMINISTRATOR
