"""What a user allowed apps to do, as the user looks at it and takes it back."""

from __future__ import annotations

import time

from sqlalchemy import Connection, select

from fhirapp.auth.models import Client, Grant
from fhirapp.auth.models.client import OF_PAGES
from fhirapp.auth.tokens import revoke_grants
from fhirapp.db import db


def active_grants(user_id: str) -> list[tuple[Grant, Client]]:
    """Return what a user allows now, with whom, the newest first."""
    rows = db.session.execute(
        select(Grant, Client)
        .join(Client, Client.client_id == Grant.client_id)
        .where(
            Grant.user_id == user_id,
            Client.kind != OF_PAGES,
            Grant.revoked_at.is_(None),
            Grant.expires_at > int(time.time()),
        )
        .order_by(Grant.created_at.desc(), Grant.id)
    )
    return [(grant, client) for grant, client in rows]


def take_back(connection: Connection, grant_id: str, user_id: str) -> bool:
    """Revoke what this user allowed the same app about the same record, however often.

    False where the consent is not the user's, or there is no such thing. What was taken back
    already stays so.
    """
    mine = Grant.user_id == user_id
    found = select(Grant.client_id, Grant.patient_id).where(Grant.id == grant_id, mine)
    row = connection.execute(found).first()
    if row is None:
        return False
    client_id, patient_id = row
    # Without a record it IS NULL, which = never is.
    of_record = Grant.patient_id.is_not_distinct_from(patient_id)
    revoke_grants(connection, mine, Grant.client_id == client_id, of_record)
    return True
