"""EHR launches, and the launch context that a token's answer tells.

Source: SMART App Launch 2.2 §launch, §scopes for requesting context data.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from fhirapp import urls
from fhirapp.auth.links import linked_patients
from fhirapp.auth.models import PATIENT, Grant, Launch, User, digest
from fhirapp.auth.scopes import LAUNCH
from fhirapp.auth.tokens import new_token
from fhirapp.url_syntax import with_parameters

SECONDS = 300


def start(
    connection: Connection,
    *,
    client_id: str,
    launch_uri: str,
    user_id: str,
    patient_id: str,
    encounter_id: str | None = None,
    document_id: str | None = None,
) -> str:
    """Return the address that starts the app: its launch_uri, with iss and launch."""
    launch = new_token()
    now = int(time.time())
    connection.execute(delete(Launch).where(Launch.expires_at < now))
    row = {
        "digest": digest(launch),
        "client_id": client_id,
        "user_id": user_id,
        "patient_id": patient_id,
        "encounter_id": encounter_id,
        "document_id": document_id,
        "expires_at": now + SECONDS,
    }
    connection.execute(insert(Launch), [row])
    # The demo's own app is registered by its path.
    address = urls.base_url() + launch_uri if launch_uri.startswith("/") else launch_uri
    return with_parameters(address, [("iss", urls.fhir_url()), ("launch", launch)])


def spend(connection: Connection, launch: str, client_id: str) -> dict[str, Any] | None:
    """Use a launch id up; return user_id, patient_id, encounter_id and document_id.

    None where it is not known, was used, has expired, or is another client's.
    """
    now = int(time.time())
    mine = (
        Launch.digest == digest(launch),
        Launch.client_id == client_id,
        Launch.expires_at > now,
        Launch.used_at.is_(None),
    )
    if connection.execute(update(Launch).where(*mine).values(used_at=now)).rowcount == 0:
        return None
    row = connection.execute(
        select(Launch.user_id, Launch.patient_id, Launch.encounter_id, Launch.document_id).where(
            Launch.digest == digest(launch)
        )
    ).one()
    return dict(row._mapping)


class LaunchContext:
    """Adds to the token's answer whose record it is about. SMART App Launch 2.2 §scopes."""

    def __call__(self, grant: Any) -> None:
        grant.register_hook("after_create_token_response", self.add)

    def add(self, grant: Any, response: Any) -> None:
        """Add patient and encounter, and how the app should look in our own pages."""
        _, token, _ = response
        token.update(launch_parameters(grant.request.grant, grant.request.user))


def launch_parameters(grant: Grant, user: User) -> dict[str, Any]:
    """Return what is in context, as the answer and the introspection of a token tell it.

    Nothing is where the user may not see the patient's record any more.
    """
    if user.role == PATIENT and grant.patient_id not in linked_patients(user.id):
        return {}
    context: dict[str, Any] = {}
    if grant.patient_id is not None:
        context["patient"] = grant.patient_id
    if grant.encounter_id is not None:
        context["encounter"] = grant.encounter_id
    if grant.document_id is not None:
        # SMART App Launch 2.2 §fhirContext: neither patient nor encounter may stand there.
        context["fhirContext"] = [{"reference": f"DocumentReference/{grant.document_id}"}]
    if LAUNCH in grant.scope.split() or grant.patient_id is not None:
        context["need_patient_banner"] = grant.need_patient_banner
        context["smart_style_url"] = f"{urls.base_url()}/smart-style.json"
    return context
