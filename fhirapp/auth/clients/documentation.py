"""The app that the documentation of the API is: people try searches there, signed in by OAuth.

It is a public client like any other, and asks for consent; it is there on every server, for its
code comes with the server and its one redirect address is a page of ours. An administrator may
disable it.
"""

from __future__ import annotations

import time

from sqlalchemy import insert

from fhirapp.auth.clients.registered import find
from fhirapp.auth.clients.registration import API_DOCS
from fhirapp.auth.models import Client
from fhirapp.auth.models.client import NONE
from fhirapp.auth.scopes import FHIR_USER, LAUNCH_PATIENT, OPENID
from fhirapp.db import db, writing

# Where its user comes back to.
REDIRECT_PATH = "/api-docs/signed-in"
_SCOPE = f"{OPENID} {FHIR_USER} {LAUNCH_PATIENT} patient/*.rs user/*.rs"


def add_documentation() -> None:
    """Add the client, where it is not there yet."""
    if db.session.get(Client, API_DOCS) is not None:
        return
    db.session.rollback()
    now = int(time.time())
    row = {
        "client_id": API_DOCS,
        "name": "Documentation of the API",
        "kind": "public",
        "auth_method": NONE,
        "scope": _SCOPE,
        "redirect_uris": [REDIRECT_PATH],
        "developer": "this server",
        "registered_at": now,
        "approved_at": now,
        "disabled": False,
    }
    with writing() as connection:
        # Another request may have been first.
        if find(connection, API_DOCS) is None:
            connection.execute(insert(Client), [row])
