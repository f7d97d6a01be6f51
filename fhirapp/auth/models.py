"""The authorization server's tables: clients, access tokens, and assertions already used.

Secrets and tokens are stored as SHA-256: they are 256 random bits, or in demo mode no secret at
all, so a slow hash would protect nothing. Times are seconds since 1970.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ForeignKey, Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.auth.enforce import enforceable
from fhirapp.auth.scopes import grantable
from fhirapp.db import Base


def digest(secret: str) -> bytes:
    """Return the SHA-256 under which a token or secret is stored."""
    return hashlib.sha256(secret.encode()).digest()


class Client(Base):
    """A registered client, as Authlib asks for it (its ClientMixin's methods)."""

    __tablename__ = "oauth_client"

    client_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    # client_secret_basic, private_key_jwt, or both with a space; none cannot ask for tokens.
    auth_method: Mapped[str]
    secret_digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    # A JSON Web Key Set of public keys.
    jwks: Mapped[Any | None]
    # What it may ask for, space-separated.
    scope: Mapped[str]
    disabled: Mapped[bool] = mapped_column(default=False)

    def get_client_id(self) -> str:
        return self.client_id

    def get_allowed_scope(self, scope: str | None) -> str | None:
        """Return what of the asked scopes the client may have; None, an invalid_scope, if nothing.

        client_credentials gives system/ scopes only.
        """
        asked = (scope or "").split()
        return " ".join(grantable(asked, self.scope, ("system",), enforceable)) or None

    def check_client_secret(self, client_secret: str) -> bool:
        stored = self.secret_digest or b""
        return hmac.compare_digest(stored, digest(client_secret))

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:  # noqa: ARG002
        return method in self.auth_method.split()

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "client_credentials"


class AccessToken(Base):
    """An opaque access token, as Authlib asks for it (its TokenMixin's methods)."""

    __tablename__ = "oauth_access_token"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id), index=True)
    scope: Mapped[str]
    # The patient in context.
    patient_id: Mapped[str | None]
    issued_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    revoked: Mapped[bool] = mapped_column(default=False)


class UsedAssertion(Base):
    """The jti of a client assertion that was used; kept until the assertion expires."""

    __tablename__ = "oauth_used_assertion"

    client_id: Mapped[str] = mapped_column(primary_key=True)
    jti: Mapped[str] = mapped_column(primary_key=True)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)


def token_row(
    token: str, *, client_id: str, scope: str, lifetime: int, patient_id: str | None = None
) -> Mapping[str, Any]:
    """Return the row of a new access token; lifetime is in seconds."""
    now = int(time.time())
    return {
        "digest": digest(token),
        "client_id": client_id,
        "scope": scope,
        "patient_id": patient_id,
        "issued_at": now,
        "expires_at": now + lifetime,
        "revoked": False,
    }
