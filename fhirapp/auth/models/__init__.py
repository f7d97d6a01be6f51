"""The authorization server's tables.

client  who may ask for tokens         user   who signs in, and the sessions
grant   what a user allowed a client   attempt, refusal  what went wrong

Secrets and tokens are stored as SHA-256: they are 256 random bits, or in demo mode no secret at
all, so a slow hash would protect nothing; passwords, which people choose, as argon2id. Times are
seconds since 1970.
"""

from __future__ import annotations

from fhirapp.auth.models.client import Client, UsedAssertion, digest
from fhirapp.auth.models.grant import (
    AccessToken,
    AuthorizationCode,
    Grant,
    Launch,
    ParkedRequest,
    RefreshToken,
)
from fhirapp.auth.models.user import (
    Attempt,
    RecoveryCode,
    Refusal,
    Session,
    SetupCode,
    User,
    UserPatient,
)

__all__ = [
    "AccessToken",
    "Attempt",
    "AuthorizationCode",
    "Client",
    "Grant",
    "Launch",
    "ParkedRequest",
    "RecoveryCode",
    "RefreshToken",
    "Refusal",
    "Session",
    "SetupCode",
    "UsedAssertion",
    "User",
    "UserPatient",
    "digest",
]
