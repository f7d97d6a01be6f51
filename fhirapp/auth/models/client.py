"""Clients, the programs that may request tokens, and the digest under which secrets are stored."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.address import base_url
from fhirapp.auth.scopes import CONTEXTS_OF_KIND, enforceable, grantable
from fhirapp.config import is_loopback
from fhirapp.db import Base


def digest(secret: str) -> bytes:
    """Return the SHA-256 under which a token or secret is stored."""
    return hashlib.sha256(secret.encode()).digest()


# How a client proves who it is at the token endpoint.
BASIC, SIGNED, NONE = "client_secret_basic", "private_key_jwt", "none"
# The kinds of clients that are this server's own, and ask for no tokens: they are not registered.
OF_SHELL, OF_PAGES = "operator", "pages"
# What the demo's apps have registered beside addresses: any one of this machine, on whatever port.
# A path is one of this server's own; whoever registers an app can give neither.
ANY_LOOPBACK = "loopback"


class Client(Base):
    """A registered client, as Authlib asks for it (its ClientMixin's methods)."""

    __tablename__ = "oauth_client"

    client_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    # public: an app that can keep no secret; confidential: one that can; backend: a system without
    # a user; operator and pages: the shell and our own pages.
    kind: Mapped[str] = mapped_column(default="backend")
    # NONE, BASIC, SIGNED, or the last two with a space.
    auth_method: Mapped[str]
    secret_digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    # A JSON Web Key Set of public keys, or the https address of one.
    jwks: Mapped[Any | None]
    jwks_uri: Mapped[str | None]
    # What it may ask for, space-separated.
    scope: Mapped[str]
    # Where a user's browser may be sent back to: a list, each compared to the letter.
    redirect_uris: Mapped[Any | None]
    # Where our own pages start it, with a patient in context.
    launch_uri: Mapped[str | None]
    # Who made it, and how to reach them, in their own words.
    developer: Mapped[str | None]
    contact: Mapped[str | None]
    registered_at: Mapped[int] = mapped_column(Integer, default=0)
    # None until an administrator approves what somebody registered on the page.
    approved_at: Mapped[int | None] = mapped_column(Integer)
    # Of the address of the page on which whoever registered it manages it.
    owner_digest: Mapped[bytes | None] = mapped_column(LargeBinary, unique=True)
    disabled: Mapped[bool] = mapped_column(default=False)

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> None:
        """Return nothing: each request names its own, to be compared."""

    def get_allowed_scope(self, scope: str | None) -> str | None:
        """Return what of the asked scopes the client may have; None, an invalid_scope, if nothing.

        A backend may have system/ scopes only, an app those of its users.
        """
        contexts = CONTEXTS_OF_KIND.get(self.kind, ())
        return " ".join(grantable((scope or "").split(), self.scope, contexts, enforceable)) or None

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Say whether an address is registered, to the letter."""
        registered = self.redirect_uris or ()
        if ANY_LOOPBACK in registered and _is_loopback(redirect_uri):
            return True
        return redirect_uri in [base_url() + uri if uri[0] == "/" else uri for uri in registered]

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code" and self.kind in ("public", "confidential")

    def check_client_secret(self, client_secret: str) -> bool:
        stored = self.secret_digest or b""
        return hmac.compare_digest(stored, digest(client_secret))

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:  # noqa: ARG002
        """Say whether it may prove who it is in this way, at whichever endpoint."""
        return method in self.auth_method.split() and (method != NONE or self.kind == "public")

    def check_grant_type(self, grant_type: str) -> bool:
        if self.kind == "backend":
            return grant_type == "client_credentials"
        if self.kind in (OF_SHELL, OF_PAGES):
            return False
        return grant_type in ("authorization_code", "refresh_token")


def _is_loopback(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme == "http" and is_loopback(parts.netloc) and not parts.fragment


class UsedAssertion(Base):
    """The jti of a client assertion that was used; kept until the assertion expires."""

    __tablename__ = "oauth_used_assertion"

    client_id: Mapped[str] = mapped_column(primary_key=True)
    jti: Mapped[str] = mapped_column(primary_key=True)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
