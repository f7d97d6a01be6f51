"""The grants of RFC 6749 that this server knows, as subclasses of Authlib's.

    BackendGrant   client_credentials    SMART Backend Services
    CodeGrant      authorization_code    SMART App Launch, with PKCE and OpenID Connect
    RefreshGrant   refresh_token         rotated: each serves once

Where an override replaces one of Authlib's defaults, its docstring says why.
"""

from __future__ import annotations

import time
from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidScopeError
from authlib.oauth2.rfc6749.grants import (
    AuthorizationCodeGrant,
    ClientCredentialsGrant,
    RefreshTokenGrant,
)
from sqlalchemy import insert

from fhirapp.audit.events import record
from fhirapp.auth import models, reasons, tokens
from fhirapp.db import db
from fhirapp.url_syntax import with_parameters

_AUTH_METHODS = ["client_secret_basic", "private_key_jwt", "none"]


class BackendGrant(ClientCredentialsGrant):  # type: ignore[misc]
    """client_credentials, by signed assertion or (demo clients) secret."""

    TOKEN_ENDPOINT_AUTH_METHODS = ["private_key_jwt", "client_secret_basic"]


class _OfUser:
    """What the grants share whose tokens act for a user: request.grant is the user's consent."""

    request: Any

    def check_consent(self, spent: models.AuthorizationCode | models.RefreshToken) -> None:
        """Raise InvalidGrantError where the consent has ended; Authlib's own answers vary."""
        if self.authenticate_user(spent) is None:
            raise InvalidGrantError("The access was revoked, or has ended.")

    def authenticate_user(
        self, spent: models.AuthorizationCode | models.RefreshToken
    ) -> models.User | None:
        """Return the user whose grant a code or refresh token belongs to, while it lasts."""
        grant = db.session.get(models.Grant, spent.grant_id)
        user = None if grant is None else db.session.get(models.User, grant.user_id)
        if any(reasons.of_consent(grant, user)):
            return None
        self.request.grant = grant
        return user

    def lifetime(self) -> int:
        """Return how many seconds an access token lives: not longer than its grant."""
        seconds: int = self.request.grant.expires_at - int(time.time())
        return max(1, min(tokens.USER_SECONDS, seconds))

    def can_refresh(self) -> bool:
        """Say whether user and client, as it is registered now, allow access beyond this hour."""
        allowed = self.request.client.get_allowed_scope(self.request.grant.scope)
        return tokens.has_refresh(allowed or "")


class CodeGrant(_OfUser, AuthorizationCodeGrant):  # type: ignore[misc]
    """authorization_code. authorize.py brings the user's consent as request.grant."""

    TOKEN_ENDPOINT_AUTH_METHODS = _AUTH_METHODS

    def validate_token_request(self) -> None:
        super().validate_token_request()
        self.check_consent(self.request.authorization_code)

    def save_authorization_code(self, code: str, request: Any) -> None:
        """Store the grant and its code, in the transaction that used up the parked request."""
        parameters, grant = request.payload.data, request.grant
        request.connection.execute(insert(models.Grant), [grant])
        record(
            "app-allowed",
            about=f"app/{request.client.client_id}",
            what=grant["scope"],
            user_id=grant["user_id"],
            named=() if grant["patient_id"] is None else (grant["patient_id"],),
        )
        row = {
            "digest": models.digest(code),
            "grant_id": grant["id"],
            "client_id": request.client.client_id,
            "redirect_uri": parameters["redirect_uri"],
            "scope": grant["scope"],
            "nonce": parameters.get("nonce"),
            "code_challenge": parameters["code_challenge"],
            "expires_at": int(time.time()) + tokens.CODE_SECONDS,
        }
        request.connection.execute(insert(models.AuthorizationCode), [row])

    def create_authorization_response(
        self, redirect_uri: str, grant_user: models.User
    ) -> tuple[int, str, list[tuple[str, str]]]:
        """Return where to send the browser with a code; Authlib would write the query anew."""
        self.request.user = grant_user
        code = self.generate_authorization_code()
        self.save_authorization_code(code, self.request)
        answer = [("code", code)]
        if state := self.request.payload.state:
            answer.append(("state", state))
        return 302, "", [("Location", with_parameters(redirect_uri, answer))]

    def query_authorization_code(
        self, code: str, client: models.Client
    ) -> models.AuthorizationCode | None:
        """Return a code that still serves; one that was used ends its grant."""
        row = db.session.get(models.AuthorizationCode, models.digest(code))
        if row is None or row.client_id != client.client_id:
            return None
        if row.used_at is not None:
            tokens.revoke_replayed(row)
            return None
        return row if row.expires_at > time.time() else None

    def delete_authorization_code(self, authorization_code: models.AuthorizationCode) -> None:
        """Do nothing: saving the tokens used it up, and a second use must be recognised."""

    def generate_token(self, **options: Any) -> Any:
        options["include_refresh_token"] = self.can_refresh()
        return super().generate_token(**options, expires_in=self.lifetime())


class RefreshGrant(_OfUser, RefreshTokenGrant):  # type: ignore[misc]
    """refresh_token: each serves once; its use again ends the grant."""

    TOKEN_ENDPOINT_AUTH_METHODS = _AUTH_METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def validate_token_request(self) -> None:
        super().validate_token_request()
        self.check_consent(self.request.refresh_token)
        if not self.can_refresh():
            raise InvalidGrantError("The client may not have access beyond an hour any more.")

    def _validate_token_scope(self, token: models.RefreshToken) -> None:
        """Refuse scopes that the user did not allow (RFC 6749 §6), and name them."""
        requested, allowed = (self.request.payload.scope or "").split(), token.scope.split()
        beyond = [text for text in requested if text not in allowed]
        if beyond:
            more = reasons.quotable(" ".join(beyond), 500)
            raise InvalidScopeError(f"The user did not allow: {more}")

    def authenticate_refresh_token(self, refresh_token: str) -> models.RefreshToken | None:
        token = db.session.get(models.RefreshToken, models.digest(refresh_token))
        if token is None or not token.check_client(self.request.client):
            return None
        now = time.time()
        if token.used_at is not None:
            if token.used_at < now - tokens.GRACE_SECONDS:
                tokens.revoke_replayed(token)
            return None
        return token if token.expires_at > now else None

    def revoke_old_credential(self, refresh_token: models.RefreshToken) -> None:
        """Do nothing: saving the new tokens used it up."""

    def generate_token(self, **options: Any) -> Any:
        return super().generate_token(**options, expires_in=self.lifetime())
