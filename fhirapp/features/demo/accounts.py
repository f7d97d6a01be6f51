"""The people and clients that exist only in demo mode; their secrets are no secrets.

The manual's page try.md lists them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from joserfc.jwk import ECKey
from sqlalchemy import Connection, delete, insert, select

from fhirapp.audit.events import record
from fhirapp.auth import models
from fhirapp.auth.clients.administration import find
from fhirapp.auth.clients.public_keys import public_keys
from fhirapp.auth.public_accounts import PublicAccount, PublicAccounts
from fhirapp.auth.scopes import SESSION_SCOPES
from fhirapp.auth.users import passwords
from fhirapp.auth.users.accounts import add_user, link
from fhirapp.keys import write_new

SECRET = "demo"
# Where the demo serves the app that is registered as demo-app.
SAMPLE_PATH = "/demo/app"
BACKEND, APP, CONFIDENTIAL = "demo-backend", "demo-app", "demo-confidential"
# In the instance folder: the private key of the backend.
DEMO_KEY = "demo-backend.jwk.json"
# What a client of the demo has unless it has another.
_COMMON: dict[str, Any] = {
    "developer": "The demo",
    "contact": None,
    "launch_uri": None,
    "jwks_uri": None,
    "jwks": None,
    "secret_digest": None,
    "redirect_uris": None,
    "disabled": False,
}
_BACKEND_SCOPE = "system/DocumentReference system/AllergyIntolerance system/*.read system/*.rs"
_APP_SCOPE = " ".join([*sorted(SESSION_SCOPES), "patient/*.rs", "user/*.rs"])


class DemoPerson(NamedTuple):
    """A person of the demo; all have the password `demo`."""

    username: str
    name: str
    role: str
    # Who it is in seed.sql: a Practitioner's or Patient's id.
    record: str | None
    # Where the record is another patient's: the RelatedPerson that the link depends on.
    related_person: str | None = None


PEOPLE = (
    DemoPerson("clinician", "Dr. Folake Adeyemi", models.CLINICIAN, "dr-adeyemi"),
    DemoPerson("admin", "Alex Admin", models.ADMINISTRATOR, None),
    DemoPerson("patient", "Amelia Hartwell", models.PATIENT, "p1"),
    DemoPerson("parent", "Sara Lindqvist", models.PATIENT, "p3", "rp-lindqvist"),
)
# The first of each role.
BY_ROLE = {person.role: person for person in reversed(PEOPLE)}
PUBLIC = PublicAccounts(
    [
        PublicAccount(person.username, person.name, person.role, person.related_person is not None)
        for person in PEOPLE
    ],
    BACKEND,
    SECRET,
)


def demo_key(instance: Path) -> dict[str, Any]:
    """Return the private key (a JWK for ES384) of the demo's backend client, making it at first."""
    path = instance / DEMO_KEY
    if not path.exists():
        key = ECKey.generate_key("P-384", {"kid": "demo", "alg": "ES384", "use": "sig"})
        write_new(path, json.dumps(key.as_dict(private=True), indent=2).encode())
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def add_own_backend(connection: Connection, client_id: str, *, name: str, secret: str) -> None:
    """Add a backend like the demo's, of one person alone."""
    row = _COMMON | {
        "client_id": client_id,
        "name": name,
        "kind": "backend",
        "auth_method": models.BASIC,
        "secret_digest": models.digest(secret),
        "scope": _BACKEND_SCOPE,
    }
    now = int(time.time())
    connection.execute(insert(models.Client), [row | {"registered_at": now, "approved_at": now}])
    record("app-registered", about=f"app/{client_id}", what=f"backend: {_BACKEND_SCOPE}")


def remove_backends(connection: Connection, client_ids: Collection[str]) -> None:
    """Remove such backends with their tokens."""
    for model in (models.AccessToken, models.UsedAssertion, models.Refusal, models.Client):
        connection.execute(delete(model).where(model.client_id.in_(client_ids)))
    for client_id in client_ids:
        record("app-ended", about=f"app/{client_id}", what="removed, with every token")


def add_demo(connection: Connection, jwks: Mapping[str, Any]) -> None:
    """Add the demo's people and clients, unless they are there; jwks is the backend's key."""
    now = int(time.time())
    common = _COMMON | {"registered_at": now, "approved_at": now}
    clients: list[dict[str, Any]] = [
        {
            "client_id": BACKEND,
            "name": "Demo backend",
            "kind": "backend",
            "auth_method": f"{models.BASIC} {models.SIGNED}",
            "secret_digest": models.digest(SECRET),
            "jwks": public_keys(jwks),
            "scope": _BACKEND_SCOPE,
        },
        {
            "client_id": APP,
            "name": "Sample app",
            "kind": "public",
            "auth_method": models.NONE,
            "scope": _APP_SCOPE,
            "redirect_uris": [models.ANY_LOOPBACK, SAMPLE_PATH],
            "launch_uri": SAMPLE_PATH,
        },
        {
            "client_id": CONFIDENTIAL,
            "name": "Demo confidential app",
            "kind": "confidential",
            "auth_method": models.BASIC,
            "secret_digest": models.digest(SECRET),
            "scope": _APP_SCOPE,
            "redirect_uris": [models.ANY_LOOPBACK],
        },
    ]
    for client in clients:
        if find(connection, client["client_id"]) is None:
            connection.execute(insert(models.Client), [common | client])
    known = set(connection.execute(select(models.User.username)).scalars())
    missing = [person for person in PEOPLE if person.username not in known]
    # One for all: a hash takes as long as the rest of this.
    password_hash = passwords.hashed(SECRET) if missing else None
    for person in missing:
        user_id = add_user(
            connection,
            person.username,
            name=person.name,
            role=person.role,
            password_hash=password_hash,
            fhir_user=f"Practitioner/{person.record}" if person.role == models.CLINICIAN else None,
        )
        if person.role == models.PATIENT and person.record:
            link(connection, user_id, person.record, related_person=person.related_person)
