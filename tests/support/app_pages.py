"""Clients that are registered on the open page, and the pages of their owners."""

from __future__ import annotations

import json
import re
from typing import Any

from flask import Flask
from joserfc.jwk import ECKey
from sqlalchemy import select

from fhirapp.auth.clients import administration
from fhirapp.auth.models import BASIC, Client, digest
from fhirapp.db import writing
from tests.support.authorizing import rows
from tests.support.browsing import Browser, Page

KEY = ECKey.generate_key("P-384", {"kid": "ec", "use": "sig", "alg": "ES384"})
JWKS = json.dumps({"keys": [KEY.as_dict(private=False)]})
REDIRECT = "https://app.example/callback"
APP = {
    "name": "Allergy Card",
    "redirect_uris": REDIRECT,
    "scope": ["launch/patient", "patient/AllergyIntolerance.rs"],
}
BACKEND = {"name": "Export", "jwks": JWKS, "scope": ["system/*.rs"]}
USUAL: dict[str, dict[str, Any]] = {
    "public": APP,
    "confidential": {**APP, "auth_method": BASIC},
    "backend": BACKEND,
}


def register(app: Flask, kind: str, browser: Browser | None = None, **filled: Any) -> Page:
    """Fill in the form for a kind of client, as usual but for what is given."""
    form = (browser or Browser(app)).get(f"/apps/register?kind={kind}")
    return form.submit("Register app", **(USUAL[kind] | filled))


def code_of(page: Page) -> str:
    found = re.fullmatch(r"/apps/([A-Za-z0-9_-]{43})", page.path)
    assert found is not None, page.words
    return found[1]


def client_of(app: Flask, page: Page) -> Client:
    """Return the client whose owner's page this is."""
    mine = select(Client).where(Client.owner_digest == digest(code_of(page)))
    ((found,),) = rows(app, mine)
    return found


def approved(app: Flask, kind: str, **filled: Any) -> Page:
    """Register a client, and approve it; return its owner's page."""
    page = register(app, kind, **filled)
    client_id = client_of(app, page).client_id
    with app.app_context(), writing() as connection:
        administration.approve(connection, client_id)
    return page.browser.get(page.path)


def secret_of(page: Page) -> str:
    """Return the secret that a page shows."""
    found = re.search(r"[A-Za-z0-9_-]{43}", page.words)
    assert found is not None, page.words
    assert page.headers["Cache-Control"] == "no-store"
    return found[0]
