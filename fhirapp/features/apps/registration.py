"""Register an app, and manage one that was registered: its state, its secret, its refusals.

Whoever registers an app manages it at an address that nobody else knows; there is no account.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flask import Response, request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import NotFound

from fhirapp.auth.clients import administration
from fhirapp.auth.clients.administration import apply
from fhirapp.auth.clients.diagnosis import AppFinding, diagnose
from fhirapp.auth.clients.public_keys import has_private_part
from fhirapp.auth.clients.registration import METHODS, Registration, register
from fhirapp.auth.models import ADMINISTRATOR, SIGNED, Client
from fhirapp.auth.refusals import refusals_of
from fhirapp.auth.scopes import (
    FHIR_USER,
    LAUNCH,
    LAUNCH_ENCOUNTER,
    LAUNCH_PATIENT,
    OFFLINE,
    ONLINE,
    OPENID,
    PROFILE,
)
from fhirapp.auth.throttle import TooOften
from fhirapp.config import RefusedCommand
from fhirapp.db import writing
from fhirapp.definition import featured_types
from fhirapp.features.apps import clients as shown
from fhirapp.features.apps.first_steps import MAKE_KEYS, discovery_url, first_steps
from fhirapp.fhir import json as fhir_json
from fhirapp.web import pages
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.labels import in_words
from fhirapp.web.texts import _, reason_of, sentence

# The scopes that an app's form offers beside those of the featured types; others are typed.
_APP_SCOPES = (
    *(OPENID, FHIR_USER, PROFILE),
    *(LAUNCH_PATIENT, LAUNCH, LAUNCH_ENCOUNTER),
    *(OFFLINE, ONLINE),
)
# Of a field, in characters.
LONGEST = 2000
_LONG = {"redirect_uris": 12_000, "jwks": 50_000}
_GIVEN_AWAY = _(
    "The keys contain a private key, which must stay secret. It was not stored. Create a "
    "new key pair and enter only the public key."
)


class PrivateKey(RefusedCommand):
    """The keys of the form contain a private one."""


class Draft(NamedTuple):
    """A registration as it is typed, to be shown again where something is wrong with it."""

    kind: str
    auth_method: str
    name: str = ""
    developer: str = ""
    contact: str = ""
    redirect_uris: str = ""
    launch_uri: str = ""
    scopes: Sequence[str] = ()
    other_scopes: str = ""
    jwks: str = ""
    jwks_uri: str = ""


_FIELDS = tuple(name for name in Draft._fields if name != "scopes")
# What is kept of a form that is sent too late: no keys, which may be private by mistake.
SAVED_FIELDS = (*(name for name in _FIELDS if name != "jwks"), "scope")


def empty_draft(kind: str) -> Draft:
    """Return the draft of a kind of client before anything is typed."""
    return Draft(kind, METHODS[kind][0])


def draft_of(form: MultiDict[str, str]) -> Draft:
    """Return the draft that a form holds. Raises PageError where a field is too long."""
    texts = {name: pages.field(name, _LONG.get(name, LONGEST), form) for name in _FIELDS}
    draft = Draft(**texts, scopes=tuple(map(pages.plain, form.getlist("scope"))))
    # The page hides the fields of keys from an app that does not sign with one.
    return draft if draft.auth_method == SIGNED else draft._replace(jwks="", jwks_uri="")


def registration_of(draft: Draft) -> Registration:
    """Return the registration of a draft. Raises RefusedCommand for wrong or secret keys."""
    return Registration(
        name=draft.name,
        kind=draft.kind,
        auth_method=draft.auth_method,
        scope=" ".join([*draft.scopes, *draft.other_scopes.split()]),
        redirect_uris=tuple(draft.redirect_uris.split()),
        launch_uri=draft.launch_uri or None,
        jwks=_keys(draft.jwks),
        jwks_uri=draft.jwks_uri or None,
        developer=draft.developer or None,
        contact=draft.contact or None,
    )


def _keys(text: str) -> Any:
    if not text:
        return None
    if "PRIVATE KEY-" in text:
        raise PrivateKey(_(_GIVEN_AWAY))
    try:
        content = fhir_json.loads(text)
    except ValueError:
        raise RefusedCommand(_("The keys are not JSON. Enter a JSON Web Key Set.")) from None
    if has_private_part(content):
        raise PrivateKey(_(_GIVEN_AWAY))
    return content


blueprint = pages.blueprint_of("apps", __name__)


@blueprint.get("/apps/register")
def form() -> Response:
    """Ask what kind of client it is, then for the rest."""
    kept = form_fields()
    kind = kept.get("kind", request.args.get("kind", ""))
    if kind not in shown.KINDS:
        return pages.page(
            "apps/kind.html", kinds={kind: shown.kind_by_name(kind) for kind in shown.KINDS}
        )
    return _form(draft_of(kept) if kept else empty_draft(kind))


@blueprint.post("/apps/register")
@keeps(*SAVED_FIELDS)
def send() -> Response:
    """Register a client: an administrator's is approved at once."""
    if request.form.get("kind") not in shown.KINDS:
        raise pages.PageError(400, _("Choose the kind of app first."))
    draft = draft_of(request.form)
    try:
        registration = registration_of(draft)
        if _is_administrator():
            with writing() as connection:
                client_id = register(connection, registration)
            return pages.acted(f"/admin/clients/{client_id}", "registered")
        return pages.see_other(f"/apps/{apply(registration, request.remote_addr or '').owner_code}")
    except PrivateKey as error:
        return _form(draft._replace(jwks=""), reason_of(error), 400)
    except RefusedCommand as error:
        return _form(draft, reason_of(error), 400)
    except TooOften as error:
        return _form(
            draft, f"{_('Too many registrations from your address.')} {pages.wait(error)}", 429
        )


@blueprint.get("/apps/<code>")
def owned(code: str) -> Response:
    """Show an app to whoever registered it. 404 for an unknown code."""
    return _owner_page(code, _client(code))


@blueprint.post("/apps/<code>/test")
def test(code: str) -> Response:
    """Show what keeps the app from working."""
    client = _client(code)
    try:
        findings = [
            finding._replace(text=sentence(finding.text, finding.values))
            for finding in diagnose(client)
        ]
    except TooOften as error:
        raise pages.PageError(
            429, f"{_('This app was tested too often.')} {pages.wait(error)}"
        ) from None
    return _owner_page(code, client, findings)


@blueprint.post("/apps/<code>/secret")
def new_secret(code: str) -> Response:
    """Make a new secret, and show it this once."""
    client = _client(code)
    if client.approved_at is None or client.disabled or not shown.has_secret(client):
        raise pages.PageError(
            409,
            _(
                "A secret can't be created for this app: it must be approved, not disabled, and "
                "use a client secret."
            ),
        )
    with writing() as connection:
        secret = administration.new_secret(connection, client.client_id)
    back = f"/apps/{code}"
    return pages.page("once.html", kind="secret", secret=secret, name=client.name, back=back)


def _client(code: str) -> Client:
    client = administration.find_owned(code)
    if client is None:
        # The same as for an address that never existed.
        raise NotFound
    return client


def _owner_page(code: str, client: Client, findings: list[AppFinding] | None = None) -> Response:
    works = client.approved_at is not None and not client.disabled
    return pages.page(
        "apps/owned.html",
        code=code,
        client=client,
        shown=shown,
        findings=findings,
        works=works,
        steps=first_steps(client) if works else None,
        discovery=discovery_url(),
        refusals=refusals_of(client.client_id),
    )


def _form(draft: Draft, message: str = "", status: int = 200) -> Response:
    return pages.page(
        "apps/register.html",
        status,
        draft=draft,
        kind=shown.kind_by_name(draft.kind),
        proofs=[(method, shown.proof_by_name(method)) for method in METHODS[draft.kind]],
        can_sign=SIGNED in METHODS[draft.kind],
        scopes=[in_words(text) for text in _offered_scopes(draft.kind)],
        make_keys=MAKE_KEYS,
        is_administrator=_is_administrator(),
        message=message,
    )


def _offered_scopes(kind: str) -> Sequence[str]:
    """Return the scopes that most clients of a kind need."""
    names = (*featured_types(), "*")
    if kind == "backend":
        return [f"system/{name}.rs" for name in names]
    clinical = [f"{context}/{name}.rs" for context in ("patient", "user") for name in names]
    return [*_APP_SCOPES, *clinical]


def _is_administrator() -> bool:
    session = pages.current_session()
    return session is not None and session.complete and session.user.role == ADMINISTRATOR
