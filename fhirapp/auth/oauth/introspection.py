"""Token introspection. Source: RFC 7662."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from authlib.oauth2.rfc7662 import IntrospectionEndpoint

from fhirapp import urls
from fhirapp.auth import reasons
from fhirapp.auth.models import AccessToken, Client, Grant, RefreshToken, User, digest
from fhirapp.auth.oauth.launch import launch_parameters
from fhirapp.auth.scopes import FHIR_USER, enforceable, grantable, of_role
from fhirapp.auth.users.accounts import fhir_user_of
from fhirapp.db import db

# Of whatever kind its client is: the operator's tokens may have any.
_CONTEXTS = ("patient", "user", "system", "session")


class TokenRecord(NamedTuple):
    """A token of either kind, with what it hangs on, as Authlib asks for it."""

    token: AccessToken | RefreshToken
    client: Client
    grant: Grant | None
    user: User | None

    def is_expired(self) -> bool:
        return self.token.expires_at <= time.time()

    def is_revoked(self) -> bool:
        used = isinstance(self.token, RefreshToken) and self.token.used_at is not None
        revoked = isinstance(self.token, AccessToken) and self.token.revoked
        ended = self.grant is not None and any(reasons.of_consent(self.grant, self.user))
        return used or revoked or ended or self.client.disabled

    def check_client(self, client: Client) -> bool:
        return self.client.client_id == client.client_id

    def scope(self) -> str:
        """Return what is left of its scope, as client and user are now (decisions §6)."""
        scopes = grantable(self.token.scope.split(), self.client.scope, _CONTEXTS, enforceable)
        return " ".join(scopes if self.user is None else of_role(scopes, self.user.role))

    def context(self) -> dict[str, Any]:
        """Return the patient in context, and what else its app got with the token."""
        if self.grant is None or self.user is None:
            patient_id = self.token.patient_id if isinstance(self.token, AccessToken) else None
            return {} if patient_id is None else {"patient": patient_id}
        return launch_parameters(self.grant, self.user)


def find_token(text: str) -> TokenRecord | None:
    """Return a token of either kind, whatever the hint: it is looked for in both tables."""
    key = digest(text)
    token = db.session.get(AccessToken, key) or db.session.get(RefreshToken, key)
    if token is None:
        return None
    client = db.session.get_one(Client, token.client_id)
    grant = None if token.grant_id is None else db.session.get(Grant, token.grant_id)
    user = None if grant is None else db.session.get(User, grant.user_id)
    return TokenRecord(token, client, grant, user)


class TokenQuery:
    """How both endpoints look a token up."""

    def check_params(self, request: Any, client: Client) -> None:
        """Do nothing: server.py asked for the token; a wrong hint is no fault (RFC 7009 §2.1)."""

    def query_token(self, token_string: str, token_type_hint: str | None) -> TokenRecord | None:  # noqa: ARG002
        return find_token(token_string)


class Introspection(TokenQuery, IntrospectionEndpoint):  # type: ignore[misc]
    """Tells the client that holds a token what it is; whoever else asks learns that it is none."""

    CLIENT_AUTH_METHODS = ["client_secret_basic", "private_key_jwt"]

    def authenticate_endpoint_client(self, request: Any) -> Client:
        """Return the client, known by its secret, its key, or an access token of its own."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = find_token(bearer.strip())
            is_access = token is not None and isinstance(token.token, AccessToken)
            if token is not None and is_access and not (token.is_expired() or token.is_revoked()):
                request.client = token.client
                return token.client
        client: Client = super().authenticate_endpoint_client(request)
        return client

    def check_permission(self, token: TokenRecord, client: Client, request: Any) -> bool:  # noqa: ARG002
        """Let a backend, which acts for the clinic, ask about any; an app about its own."""
        return token.check_client(client) or client.kind == "backend"

    def introspect_token(self, token: TokenRecord) -> dict[str, Any]:
        scope = token.scope()
        if not scope:
            return {"active": False}
        content: dict[str, Any] = {
            "active": True,
            "iss": urls.base_url(),
            "client_id": token.client.client_id,
            "scope": scope,
            "iat": token.token.issued_at,
            "exp": token.token.expires_at,
            "sub": token.user.id if token.user is not None else token.client.client_id,
            **token.context(),
        }
        if isinstance(token.token, AccessToken):
            content["token_type"] = "Bearer"
        if token.user is not None and FHIR_USER in scope.split():
            who = fhir_user_of(token.user, token.grant.patient_id if token.grant else None)
            if who is not None:
                content["fhirUser"] = f"{urls.base_url()}/fhir/{who}"
        return content
