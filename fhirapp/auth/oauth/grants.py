"""The grants of RFC 6749 that this server knows, as subclasses of Authlib's.

    BackendGrant   client_credentials    SMART Backend Services
    CodeGrant      authorization_code    SMART App Launch, with PKCE and OpenID Connect
    RefreshGrant   refresh_token         rotated: each serves once

Every client uses PKCE with S256 (RFC 7636; SMART App Launch 2.2). Where an override replaces one of
Authlib's defaults, its docstring says why.
"""

from __future__ import annotations

import re
import time
from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc6749.grants import (
    AuthorizationCodeGrant,
    ClientCredentialsGrant,
    RefreshTokenGrant,
)
from authlib.oauth2.rfc7636 import CodeChallenge
from sqlalchemy import insert

from fhirapp import urls
from fhirapp.audit.events import record
from fhirapp.auth import models, tokens
from fhirapp.auth.links import linked_patients
from fhirapp.auth.scopes import LAUNCH
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
        if grant is None or grant.revoked_at is not None or grant.expires_at <= time.time():
            return None
        user = db.session.get(models.User, grant.user_id)
        if user is None or user.disabled:
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
    """authorization_code. authorize.py brings the user's decision as request.decision."""

    TOKEN_ENDPOINT_AUTH_METHODS = _AUTH_METHODS

    def validate_token_request(self) -> None:
        super().validate_token_request()
        self.check_consent(self.request.authorization_code)

    def save_authorization_code(self, code: str, request: Any) -> None:
        """Store the grant and its code, in the transaction that used up the parked request."""
        decision = request.decision
        parameters = request.payload.data
        grant = decision.grant
        decision.connection.execute(insert(models.Grant), [grant])
        record(
            "app-allowed",
            about=f"app/{request.client.client_id}",
            what=grant["scope"],
            user_id=grant["user_id"],
            named=() if grant["patient_id"] is None else (grant["patient_id"],),
        )
        row = {
            "digest": models.digest(code),
            "grant_id": decision.grant["id"],
            "client_id": request.client.client_id,
            "redirect_uri": parameters["redirect_uri"],
            "scope": decision.grant["scope"],
            "nonce": parameters.get("nonce"),
            "code_challenge": parameters["code_challenge"],
            "expires_at": int(time.time()) + tokens.CODE_SECONDS,
        }
        decision.connection.execute(insert(models.AuthorizationCode), [row])

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


class LaunchContext:
    """Adds to the token's answer whose record it is about. SMART App Launch 2.2 §scopes."""

    def __call__(self, grant: Any) -> None:
        grant.register_hook("after_create_token_response", self.add)

    def add(self, grant: Any, response: Any) -> None:
        """Add patient and encounter, and how the app should look in our own pages."""
        _, token, _ = response
        token.update(launch_parameters(grant.request.grant, grant.request.user))


def launch_parameters(grant: models.Grant, user: models.User) -> dict[str, Any]:
    """Return what is in context, as the answer and the introspection of a token tell it.

    Nothing is where the user may not see the patient's record any more.
    """
    if user.role == models.PATIENT and grant.patient_id not in linked_patients(user.id):
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


METHOD = "S256"
# SHA-256 in base64url without padding.
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


class S256Challenge(CodeChallenge):  # type: ignore[misc]
    """Asks for a challenge with each authorization request, and for its verifier with the code."""

    SUPPORTED_CODE_CHALLENGE_METHOD = [METHOD]

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:  # noqa: ARG002
        """Check an authorization request. Raises InvalidRequestError."""
        parameters = grant.request.payload.data
        challenge = parameters.get("code_challenge")
        if not challenge:
            raise InvalidRequestError("code_challenge is missing: PKCE with S256 is required.")
        if parameters.get("code_challenge_method") != METHOD:
            raise InvalidRequestError("code_challenge_method must be S256.")
        if not _CHALLENGE.fullmatch(challenge):
            raise InvalidRequestError("code_challenge must be 43 characters of base64url.")

    def get_authorization_code_challenge_method(self, authorization_code: Any) -> str:  # noqa: ARG002
        return METHOD
