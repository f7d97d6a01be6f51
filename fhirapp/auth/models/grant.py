"""What a user allowed a client to do, and the codes and tokens that came of it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.auth.models.client import Client
from fhirapp.auth.models.user import User
from fhirapp.db import Base


class Grant(Base):
    """A user's consent to a client's request: what its tokens hang on, until it is revoked."""

    __tablename__ = "oauth_grant"

    id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), index=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id), index=True)
    # What was ticked, in the syntax asked for.
    scope: Mapped[str]
    # The patient and encounter in context.
    patient_id: Mapped[str | None]
    encounter_id: Mapped[str | None]
    # A document that the app was started from (fhirContext).
    document_id: Mapped[str | None]
    # Whether an app started by our own pages must show whose record it is.
    need_patient_banner: Mapped[bool] = mapped_column(default=True)
    # When the user typed the password: id tokens tell it.
    signed_in_at: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[int] = mapped_column(Integer)
    # The absolute limit of whatever comes of it.
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    # With online_access it ends with this session.
    session_id: Mapped[str | None] = mapped_column(index=True)
    revoked_at: Mapped[int | None] = mapped_column(Integer)


class AuthorizationCode(Base):
    """A code (RFC 6749 §4.1), as Authlib asks for it; serves once, for 60 seconds."""

    __tablename__ = "oauth_code"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    grant_id: Mapped[str] = mapped_column(ForeignKey(Grant.id))
    client_id: Mapped[str]
    redirect_uri: Mapped[str]
    scope: Mapped[str]
    nonce: Mapped[str | None]
    # RFC 7636, S256.
    code_challenge: Mapped[str]
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    used_at: Mapped[int | None] = mapped_column(Integer)

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> None:
        """Return nothing: the grant knows, and openid.py tells."""

    def get_acr(self) -> None: ...

    def get_amr(self) -> None: ...


class AccessToken(Base):
    """An opaque access token."""

    __tablename__ = "oauth_access_token"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id), index=True)
    # None for a backend's, and for the operator's.
    grant_id: Mapped[str | None] = mapped_column(ForeignKey(Grant.id), index=True)
    scope: Mapped[str]
    # The patient in context.
    patient_id: Mapped[str | None]
    issued_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    revoked: Mapped[bool] = mapped_column(default=False)


class RefreshToken(Base):
    """A refresh token, as Authlib asks for it; serves once, and another takes its place."""

    __tablename__ = "oauth_refresh_token"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    grant_id: Mapped[str] = mapped_column(ForeignKey(Grant.id), index=True)
    client_id: Mapped[str]
    scope: Mapped[str]
    issued_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    used_at: Mapped[int | None] = mapped_column(Integer)

    def check_client(self, client: Client) -> bool:
        return self.client_id == client.client_id

    def get_scope(self) -> str:
        return self.scope


class Launch(Base):
    """An app's start from our own pages (SMART's EHR launch); serves once, for five minutes."""

    __tablename__ = "oauth_launch"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id))
    user_id: Mapped[str] = mapped_column(ForeignKey(User.id))
    patient_id: Mapped[str]
    encounter_id: Mapped[str | None]
    # A document that the app was started from (fhirContext).
    document_id: Mapped[str | None]
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    used_at: Mapped[int | None] = mapped_column(Integer)


class ParkedRequest(Base):
    """An authorization request that was checked and waits for the user's answer."""

    __tablename__ = "oauth_request"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    # Its parameters, by name.
    parameters: Mapped[Any]
    # From a launch: whose it is, and what it is about; patient_id also from the picker.
    user_id: Mapped[str | None]
    patient_id: Mapped[str | None]
    encounter_id: Mapped[str | None]
    # A document that the app was started from (fhirContext).
    document_id: Mapped[str | None]
    created_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    used_at: Mapped[int | None] = mapped_column(Integer)
