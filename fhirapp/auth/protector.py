"""The resource protector: from the Authorization header to what its bearer may see.

Authlib reads the header and the token's state; SMART scopes are decided by Access (Authlib's own
scope check compares words). Source: RFC 6750; decisions §4, §6.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, NoReturn

from authlib.integrations.flask_oauth2 import ResourceProtector
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import MissingAuthorizationError, UnsupportedTokenTypeError
from authlib.oauth2.rfc6750 import BearerTokenValidator
from flask import Flask, current_app, request

from fhirapp.auth.compartment import Access, access_of
from fhirapp.auth.models import digest
from fhirapp.auth.throttle import Failures
from fhirapp.db import reader
from fhirapp.fhir.outcome import Forbidden, LoginRequired, Throttled, TokenExpired

REALM = "fhirapp"

_TOKEN = (
    "SELECT t.client_id, t.scope, t.patient_id, t.expires_at, t.revoked, c.disabled, c.scope"
    " FROM oauth_access_token t JOIN oauth_client c ON c.client_id = t.client_id"
    " WHERE t.digest = ?"
)


class Token(NamedTuple):
    """A token that was found, as Authlib asks for it."""

    client_id: str
    scope: str
    patient_id: str | None
    expires_at: int
    revoked: bool
    disabled: bool
    registered: str

    def is_expired(self) -> bool:
        return self.expires_at <= time.time()

    def is_revoked(self) -> bool:
        return bool(self.revoked or self.disabled)

    def get_scope(self) -> str:
        return self.scope

    def access(self) -> Access:
        """Return what the token lets its bearer see now."""
        return access_of(self.scope, self.registered, self.patient_id)


class _Validator(BearerTokenValidator):  # type: ignore[misc]
    def authenticate_token(self, token_string: str) -> Token | None:
        row = reader().first(_TOKEN, (digest(token_string),))
        return Token(*row) if row else None

    def validate_token(self, token: Token | None, scopes: Any, request: Any) -> None:
        if token is not None and token.is_expired() and not token.is_revoked():
            raise TokenExpired(
                "The access token has expired; ask for a new one.",
                headers={"WWW-Authenticate": f'Bearer realm="{REALM}", error="invalid_token"'},
            )
        super().validate_token(token, scopes, request)


class Protector(ResourceProtector):  # type: ignore[misc]
    """Authenticates requests under /fhir."""

    def __init__(self) -> None:
        super().__init__()
        self.register_token_validator(_Validator(realm=REALM))
        self._failures = Failures()

    def authenticate(self) -> Token:
        """Return the request's token. Raises LoginRequired, TokenExpired or Throttled."""
        try:
            # Not acquire_token: it works out the request's whole address, which nobody asks for.
            token: Token = self.validate_request(None, request)
        except TokenExpired:
            self._count_failure()
            raise
        except OAuth2Error as error:
            self._count_failure()
            self.raise_error_response(error)
        return token

    def raise_error_response(self, error: OAuth2Error) -> NoReturn:
        """Raise our own error for Authlib's, with its WWW-Authenticate header alone."""
        if isinstance(error, MissingAuthorizationError):
            raise LoginRequired(
                "An access token is needed: send Authorization: Bearer <token>.",
                headers={"WWW-Authenticate": f'Bearer realm="{REALM}"'},
            )
        if isinstance(error, UnsupportedTokenTypeError):
            raise LoginRequired(
                "The Authorization header must be: Bearer <token>.",
                headers={"WWW-Authenticate": f'Bearer realm="{REALM}"'},
            )
        raise LoginRequired(
            "The access token is not valid.",
            headers={"WWW-Authenticate": f'Bearer realm="{REALM}", error="invalid_token"'},
        )

    def _count_failure(self) -> None:
        wait = self._failures.count(request.remote_addr or "")
        if wait:
            raise Throttled(
                "Too many requests without a valid access token; wait before the next one.",
                headers={"Retry-After": str(wait)},
            )


_EXTENSION = "fhirapp.protector"


def init_app(app: Flask) -> None:
    """Give the app its protector."""
    app.extensions[_EXTENSION] = Protector()


def authenticate() -> Token:
    """Return the token of the request that is served. Raises FhirError."""
    protector: Protector = current_app.extensions[_EXTENSION]
    return protector.authenticate()


def insufficient_scope(diagnostics: str, needed: str, parameter: str | None = None) -> Forbidden:
    """Return the refusal of a token whose scope does not reach, naming one that would."""
    challenge = f'Bearer realm="{REALM}", error="insufficient_scope", scope="{needed}"'
    headers = {"WWW-Authenticate": challenge}
    return Forbidden(diagnostics, parameter=parameter, headers=headers)
