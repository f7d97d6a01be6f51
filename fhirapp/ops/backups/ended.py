"""What a backup holds that was good for its own time alone: sessions, tokens, what was begun.

Some of it may have been taken back since the backup: a restore gives none of it back.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, update

from fhirapp.auth.models import AccessToken, Launch, ParkedRequest, Session, SetupCode
from fhirapp.auth.tokens import revoke_grants

# What is told of all else.
AS_OF_THEN = (
    "Accounts with their passwords, links to records, and clients with their secrets and keys are "
    "as of then too: who was disabled, unlinked or changed since must be again. Everybody signs in "
    "anew, and apps ask for consent and tokens anew."
)


def end_all(connection: Connection, now: int) -> None:
    """End all sessions, consents, tokens, codes, launches and setup codes; now is in seconds.

    Codes and refresh tokens end with the consent that they hang on.
    """
    connection.execute(update(Session).where(Session.ended_at.is_(None)).values(ended_at=now))
    revoke_grants(connection)
    connection.execute(update(AccessToken).values(revoked=True))
    for begun in (Launch, ParkedRequest):
        connection.execute(update(begun).where(begun.used_at.is_(None)).values(used_at=now))
    connection.execute(delete(SetupCode))
