"""EHR launch: our own pages start an app with a patient in context. SMART App Launch 2.2.

The launch id is known to the app only as a secret that it shows at /oauth/authorize, once.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from fhirapp.address import base_url, fhir_url, with_parameters
from fhirapp.auth.models import Launch, digest
from fhirapp.auth.tokens import new_token

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
    address = base_url() + launch_uri if launch_uri.startswith("/") else launch_uri
    return with_parameters(address, [("iss", fhir_url()), ("launch", launch)])


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
    found = connection.execute(
        select(Launch.user_id, Launch.patient_id, Launch.encounter_id, Launch.document_id).where(
            Launch.digest == digest(launch)
        )
    ).one()
    return dict(found._mapping)
