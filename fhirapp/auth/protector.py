"""The resource protector: from the Authorization header to what its bearer may see.

`@require_oauth()` protects a view, which finds the token in `current_token`. Authlib reads the
header and the token's state; SMART scopes are decided by Access (Authlib's own scope check compares
words). Each process keeps the tokens that it looked up until anything is written, for at most
TOKEN_CACHE_SECONDS.
Source: RFC 6750; decisions §4, §6.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, cast

from authlib.integrations import flask_oauth2
from authlib.integrations.flask_oauth2 import ResourceProtector
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import MissingAuthorizationError, UnsupportedTokenTypeError
from authlib.oauth2.rfc6750 import BearerTokenValidator
from flask import Flask, current_app, g, request

from fhirapp.audit.events import RequestKey, new_id
from fhirapp.auth.links import link_of_user, links_of
from fhirapp.auth.models import PATIENT, digest
from fhirapp.auth.scopes import Access, OwnRecords, access_of
from fhirapp.auth.throttle import Failures
from fhirapp.db import reader
from fhirapp.db.generation import generation
from fhirapp.db.reader import note_cache, read_since
from fhirapp.fhir.outcome import Forbidden, LoginRequired, Throttled, TokenExpired

TOKEN_CACHE_SECONDS = 1.0
_MAX_CACHED_TOKENS = 10_000
Value = TypeVar("Value")


class _CachedValue(NamedTuple, Generic[Value]):
    value: Value
    generation: bytes
    until: float


class DigestCache(Generic[Value]):
    """What was found by a digest, in this process."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _CachedValue[Value]] = {}

    def get(self, digest: bytes, look_up: Callable[[bytes], Value | None]) -> Value | None:
        """Return what belongs to a digest; look_up finds it where it is not known to hold."""
        entry = self._entries.get(digest)
        is_valid = (
            entry is not None
            and entry.generation == generation().now()
            and entry.until > time.monotonic()
        )
        note_cache("tokens", hit=is_valid)
        if entry is not None and is_valid:
            return entry.value
        # Not that of now: the request's snapshot may be older.
        since = read_since()
        value = look_up(digest)
        if value is not None:
            if len(self._entries) >= _MAX_CACHED_TOKENS:
                self._entries.clear()
            self._entries[digest] = _CachedValue(
                value, since, time.monotonic() + TOKEN_CACHE_SECONDS
            )
        return value


REALM = "fhirapp"

# A change to the client, the user, the consent, the link between user and patient or the
# RelatedPerson that it depends on takes effect at the next request: every write ends what
# DigestCache keeps.
_TOKEN = (
    "SELECT t.client_id, t.scope, t.patient_id, t.expires_at, t.revoked, c.disabled, c.scope,"
    " g.revoked_at IS NOT NULL, u.disabled, u.id, u.role, u.fhir_user"
    " FROM oauth_access_token t JOIN oauth_client c ON c.client_id = t.client_id"
    " LEFT JOIN oauth_grant g ON g.id = t.grant_id LEFT JOIN auth_user u ON u.id = g.user_id"
    " WHERE t.digest = ?"
)
_USED = "used_token"
# Where current_token of Authlib looks.
_CURRENT = "authlib_server_oauth2_token"
_EXTENSION = "fhirapp.protector"


class BearerToken(NamedTuple):
    """A token that was found, as Authlib asks for it; user_id and role are None of a backend's."""

    client_id: str
    scope: str
    patient_id: str | None
    expires_at: int
    revoked: bool
    client_disabled: bool
    registered: str
    grant_revoked: bool
    user_disabled: bool | None
    user_id: str | None
    role: str | None
    # Who the user is in the records, as <type>/<id>.
    fhir_user: str | None
    # Of a patient: in whose record that stands, and whether the token's is one they may see.
    own_patient: str | None = None
    is_linked: bool = True

    def is_expired(self) -> bool:
        return self.expires_at <= time.time()

    def is_revoked(self) -> bool:
        return bool(
            self.revoked or self.client_disabled or self.grant_revoked or self.user_disabled
        )

    def get_scope(self) -> str:
        return self.scope

    def access(self) -> Access:
        """Return what the token lets its bearer see now."""
        return access_of(
            self.scope,
            self.registered,
            self.patient_id,
            self.role,
            self.is_linked,
            self._own(),
        )

    def _own(self) -> OwnRecords | None:
        resource_type, _, resource_id = (self.fhir_user or "").partition("/")
        return OwnRecords(resource_type, resource_id, self.own_patient) if resource_id else None


class _Validator(BearerTokenValidator):  # type: ignore[misc]
    def authenticate_token(self, token_string: str) -> BearerToken | None:
        token = _state().tokens.get(digest(token_string), look_up)
        if token is not None:
            setattr(g, _USED, token)
        return token


def look_up(key: bytes) -> BearerToken | None:
    """Return the token of a digest as it is stored now, whatever its state."""
    row = reader().first(_TOKEN, (key,))
    if row is None:
        return None
    token = BearerToken(*row)
    if token.user_id is None or token.role != PATIENT:
        return token
    links = links_of(token.user_id)
    own = link_of_user(links, token.patient_id)
    return token._replace(
        fhir_user=own and own.fhir_user,
        own_patient=own and own.patient_id,
        is_linked=any(link.patient_id == token.patient_id for link in links),
    )


View = TypeVar("View", bound=Callable[..., Any])


class _ResourceProtector(ResourceProtector):  # type: ignore[misc]
    """Authlib's protector, which raises our errors. rest/access.py decides what a token may see."""

    def __call__(self) -> Callable[[View], View]:
        """Return the decorator of views that need a token.

        The view finds it in current_token. Raises LoginRequired, TokenExpired or Throttled.
        """
        decorator: Callable[[View], View] = super().__call__()
        return decorator

    def acquire_token(self, scopes: Any = None) -> BearerToken:
        """Return the request's token, and make it current_token. Raises OAuth2Error."""
        # Not Authlib's method: it also computes the request's URL, which nothing needs.
        token: BearerToken = self.validate_request(scopes, request)
        setattr(g, _CURRENT, token)
        return token

    def raise_error_response(self, error: OAuth2Error) -> NoReturn:
        """Count the failure, and raise our error for Authlib's with its WWW-Authenticate header."""
        wait = _state().failures.count(request.remote_addr or "")
        if wait:
            raise Throttled(
                "Too many requests without a valid access token; wait before the next one.",
                headers={"Retry-After": str(wait)},
            )
        challenge = f'Bearer realm="{REALM}"'
        if isinstance(error, MissingAuthorizationError):
            raise LoginRequired(
                "An access token is needed: send Authorization: Bearer <token>.",
                headers={"WWW-Authenticate": challenge},
            )
        if isinstance(error, UnsupportedTokenTypeError):
            raise LoginRequired(
                "The Authorization header must be: Bearer <token>.",
                headers={"WWW-Authenticate": challenge},
            )
        headers = {"WWW-Authenticate": f'{challenge}, error="invalid_token"'}
        token = used_token()
        if token is not None and token.is_expired() and not token.is_revoked():
            raise TokenExpired("The access token has expired; ask for a new one.", headers=headers)
        raise LoginRequired("The access token is not valid.", headers=headers)


require_oauth = _ResourceProtector()
require_oauth.register_token_validator(_Validator(realm=REALM))
# The token of the request, in a view that require_oauth protects.
current_token = cast(BearerToken, flask_oauth2.current_token)


class _State(NamedTuple):
    """The state of an app: its cache of tokens and its counts of failures."""

    tokens: DigestCache[BearerToken]
    failures: Failures


def init_app(app: Flask) -> None:
    """Give the app its cache of tokens and its counts of failures."""
    app.extensions[_EXTENSION] = _State(DigestCache(), Failures(purpose="token"))


def _state() -> _State:
    state: _State = current_app.extensions[_EXTENSION]
    return state


REQUEST_ID_HEADER = "X-Request-Id"
# In the environ of a request that a named proxy brings: server/connections.py.
VIA_PROXY = "fhirapp.via_proxy"
_ID_OF_REQUEST = re.compile(r"[A-Za-z0-9._-]{8,64}")
_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def used_token() -> BearerToken | None:
    """Return the token that the request came with; None where it has none that is known."""
    token: BearerToken | None = g.get(_USED)
    return token


def request_id() -> str:
    """Return the id of the request that is served, by which its refusal is found.

    That of a named proxy, whose own log has it: X-Request-Id, or the trace of traceparent (W3C).
    """
    return request_key().shown


def request_key() -> RequestKey:
    """Return the key of the request that is served, in tables and in the audit trail."""
    known: RequestKey | None = g.get("request_key")
    if known is None:
        own = new_id()
        known = g.request_key = RequestKey(own, _id_of_proxy() or own)
    return known


def is_request_id(text: str) -> bool:
    """Say whether a text may be the id of a request: ours, or a proxy's."""
    return _ID_OF_REQUEST.fullmatch(text) is not None


def _id_of_proxy() -> str:
    environ = request.environ
    if not environ.get(VIA_PROXY):
        return ""
    if is_request_id(request_id := environ.get("HTTP_X_REQUEST_ID", "")):
        return str(request_id)
    trace = _TRACE_PARENT.fullmatch(environ.get("HTTP_TRACEPARENT", ""))
    return trace[1] if trace else ""


def insufficient_scope(diagnostics: str, needed: str, parameter: str | None = None) -> Forbidden:
    """Return the error for a token whose scope does not reach, with a scope that would."""
    # RFC 6750 §3.
    challenge = f'Bearer realm="{REALM}", error="insufficient_scope", scope="{needed}"'
    headers = {"WWW-Authenticate": challenge}
    error = Forbidden(diagnostics, parameter=parameter, headers=headers)
    error.needed_scope = needed
    return error
