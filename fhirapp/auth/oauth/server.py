"""The authorization server: Authlib's, with the grants of SMART App Launch and Backend Services.

Source: RFC 6749, 7009, 7523, 7636, 7662; SMART App Launch 2.2; decisions §6. Where Authlib's
defaults are wrong for us, the override says so.

The routes for programs are at the end; the pages for people are in fhirapp/web.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from authlib.integrations.flask_oauth2 import AuthorizationServer as FlaskAuthorizationServer
from authlib.integrations.flask_oauth2.requests import FlaskOAuth2Payload, FlaskOAuth2Request
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import (
    ClientAuthentication,
    InvalidClientError,
    InvalidRequestError,
    UnauthorizedClientError,
)
from flask import Blueprint, Flask, Request, Response, current_app, jsonify, request
from flask import request as current_request
from sqlalchemy import select

from fhirapp.auth import refusals
from fhirapp.auth.models import Client, RefreshToken, digest
from fhirapp.auth.oauth import grants
from fhirapp.auth.oauth import openid as oauth_openid
from fhirapp.auth.oauth.client_assertion import ClientAssertion
from fhirapp.auth.oauth.discovery import openid_configuration, smart_configuration
from fhirapp.auth.oauth.endpoints import Introspection, Revocation
from fhirapp.auth.oauth.openid import IdToken
from fhirapp.auth.protector import require_oauth
from fhirapp.auth.throttle import Failures
from fhirapp.auth.tokens import BACKEND_SECONDS, exchange, new_token, save_backend_token
from fhirapp.db import db

_ASSERTION = "client_assertion"
_PRINTABLE = re.compile(r"[ !#-\[\]-~]*")


class AuthorizationServer(FlaskAuthorizationServer):  # type: ignore[misc]
    """Issues access tokens; clients and tokens are in the database."""

    def __init__(self) -> None:
        super().__init__(query_client=find_client, save_token=save_token)
        self._client_auth = _ClientAuthentication(find_client)
        self.register_client_auth_method("private_key_jwt", ClientAssertion())
        self.register_grant(grants.BackendGrant)
        self.register_grant(
            grants.CodeGrant, [grants.S256Challenge(), IdToken(), grants.LaunchContext()]
        )
        self.register_grant(grants.RefreshGrant, [grants.LaunchContext()])
        self.register_endpoint(Introspection)
        self.register_endpoint(Revocation)
        self.failures = Failures(purpose="client")

    def create_oauth2_request(self, _request: Any) -> FlaskOAuth2Request:
        return _Request(request)

    def handle_error_response(self, request: Any, error: OAuth2Error) -> Response:
        is_unproved = error.error == InvalidClientError.error
        if is_unproved and refusals.is_waiting(refusals.claimed_client()):
            # No proof of one that waits is looked at, nor are its keys fetched.
            error = UnauthorizedClientError(description=refusals.WAITS)
        response: Response = super().handle_error_response(request, error)
        client = getattr(request, "client", None)
        refusals.record_oauth(response, None if client is None else client.client_id, error)
        if not is_unproved:
            return response
        wait = self.failures.count(current_request.remote_addr or "")
        return _throttled(wait) if wait else response


class _ClientAuthentication(ClientAuthentication):  # type: ignore[misc]
    """Authenticates a client by the one method that its request uses.

    Authlib tries one method after the other, so that an app whose proof is wrong could pass as a
    public client, and lists the methods where none fits.
    """

    def authenticate(self, request: Any, methods: Any, endpoint: str) -> Client:
        """Return the client. Raises InvalidClientError."""
        method = _method(request)
        client: Client | None = _public_refresher(request, methods)
        if client is None and method in methods:
            client = self._methods[method](self.query_client, request)
            if client is not None and not client.check_endpoint_auth_method(method, endpoint):
                client = None
        if client is None:
            raise InvalidClientError(
                description="No client proved who it is: by Basic, or by a signed assertion.",
                status_code=401,
            )
        request.auth_method = method
        return client


class _Request(FlaskOAuth2Request):  # type: ignore[misc]
    """The request as Authlib takes it, whatever address it came to.

    Authlib refuses http; whether the way to us is safe is for the operator to say, in
    FHIRAPP_BASE_URL, and behind a proxy the last hop is plain http.
    """

    def __init__(self, flask_request: Request) -> None:
        super(FlaskOAuth2Request, self).__init__(
            method=flask_request.method,
            uri="https://authorization.invalid" + flask_request.path,
            headers=flask_request.headers,
        )
        self._request = flask_request
        self.payload = FlaskOAuth2Payload(flask_request)


def find_client(client_id: str) -> Client | None:
    """Return a client that is registered, approved and not disabled."""
    if not _PRINTABLE.fullmatch(client_id):
        return None
    return db.session.scalars(
        select(Client).where(
            Client.client_id == client_id,
            Client.disabled.is_(False),
            Client.approved_at.is_not(None),
        )
    ).one_or_none()


def save_token(token: dict[str, Any], oauth_request: Any) -> None:
    """Store what a grant issued, as hashes. Raises InvalidGrantError."""
    spent = oauth_request.authorization_code or oauth_request.refresh_token
    if spent is None:
        save_backend_token(token, oauth_request.client.client_id)
    else:
        exchange(token, oauth_request.grant, spent)


def _method(request: Any) -> str:
    """Return the way in which the sender of a request says who it is."""
    if "Authorization" in request.headers:
        return "client_secret_basic"
    return "private_key_jwt" if _ASSERTION in request.form else "none"


def _public_refresher(request: Any, methods: Any) -> Client | None:
    """Return the public client of a refresh token that comes without client_id.

    SMART's own client for JavaScript sends none; the token alone proves as much.
    """
    token = request.form.get("refresh_token")
    if token is None or "none" not in methods or request.form.get("client_id"):
        return None
    if _method(request) != "none":
        return None
    refresh_token = db.session.get(RefreshToken, digest(token))
    client = None if refresh_token is None else find_client(refresh_token.client_id)
    return client if client is not None and client.kind == "public" else None


def check_form(needed: str) -> None:
    """Refuse what Authlib lets pass: repeated or misplaced parameters, two ways to authenticate.

    needed is the parameter without which nothing is asked for. Raises InvalidRequestError.
    RFC 6749 §2.3, §3.2.
    """
    if request.query_string:
        raise InvalidRequestError("Parameters belong in the body.")
    form = request.form
    for name in form:
        if len(form.getlist(name)) > 1:
            raise InvalidRequestError("A parameter is repeated.")
    for value in form.values():
        # Authlib quotes values in its answers, where RFC 6749 §5.2 allows no others.
        if not _PRINTABLE.fullmatch(value):
            raise InvalidRequestError("A parameter has characters outside printable ASCII.")
    header = request.headers.get("Authorization", "")
    basic = header.lower().startswith("basic ")
    user = _basic_user() if basic else None
    if header and (len(header.split()) != 2 or (basic and user is None)):
        raise InvalidRequestError("The Authorization header is not readable.")
    if user is not None and form.get("client_id", user) != user:
        raise InvalidRequestError("client_id contradicts the Authorization header.")
    if bool(header) + (_ASSERTION in form) + ("client_secret" in form) > 1:
        raise InvalidRequestError("Authenticate in one way only.")
    if not form.get(needed):
        raise InvalidRequestError(f"{needed} is missing.")


def _basic_user() -> str | None:
    """Return the user of the Basic header, None where it cannot be read. RFC 6749 §2.3.1."""
    text = request.headers["Authorization"].split(None, 1)[-1]
    try:
        user, colon, _ = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return unquote(user) if colon else None


_EXTENSION = "fhirapp.oauth"


def init_app(app: Flask) -> None:
    """Give the app its authorization server, with tokens of our kind and lifetime."""
    app.config["OAUTH2_ACCESS_TOKEN_GENERATOR"] = lambda **_: new_token()
    app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = lambda **_: new_token()
    app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {"client_credentials": BACKEND_SECONDS}
    server = AuthorizationServer()
    server.init_app(app)
    app.extensions[_EXTENSION] = server


def authorization_server() -> AuthorizationServer:
    """Return the app's authorization server."""
    server: AuthorizationServer = current_app.extensions[_EXTENSION]
    return server


def token_response() -> Response:
    """Answer POST /oauth/token."""
    return _answer("grant_type", lambda server: server.create_token_response())


def introspection_response() -> Response:
    """Answer POST /oauth/introspect."""
    name = Introspection.ENDPOINT_NAME
    return _answer("token", lambda server: server.create_endpoint_response(name))


def revocation_response() -> Response:
    """Answer POST /oauth/revoke."""
    name = Revocation.ENDPOINT_NAME
    return _answer("token", lambda server: server.create_endpoint_response(name))


def _answer(needed: str, respond: Callable[[AuthorizationServer], Response]) -> Response:
    server = authorization_server()
    try:
        check_form(needed)
    except OAuth2Error as error:
        return server.handle_error_response(None, error)
    answer = respond(server)
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer


def _throttled(wait: int) -> Response:
    return Response(
        '{"error": "invalid_client", "error_description": "Too many failures; wait."}',
        429,
        headers={"Retry-After": str(wait)},
        mimetype="application/json",
    )


blueprint = Blueprint("oauth", __name__)


@blueprint.post("/oauth/token")
def token() -> Response:
    """Issue an access token (RFC 6749 §3.2); errors as its §5.2 has them."""
    return token_response()


@blueprint.post("/oauth/introspect")
def introspect() -> Response:
    """Say what a token is (RFC 7662); of one that is none, nothing but that."""
    return introspection_response()


@blueprint.post("/oauth/revoke")
def revoke() -> Response:
    """End a token (RFC 7009)."""
    return revocation_response()


@blueprint.route("/oauth/userinfo", methods=["GET", "POST"])
@require_oauth()
def userinfo() -> Response:
    """Say who the user of an access token is (OpenID Connect Core §5.3)."""
    response = jsonify(oauth_openid.user_info())
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.get("/oauth/jwks.json")
def jwks() -> Response:
    """Return the keys that id tokens are checked with (RFC 7517)."""
    response = jsonify(oauth_openid.public_keys())
    response.headers["Cache-Control"] = f"max-age={oauth_openid.JWKS_SECONDS}"
    return response


@blueprint.get("/.well-known/smart-configuration")
@blueprint.get("/fhir/.well-known/smart-configuration")
def discovery() -> Response:
    """Tell where and how to get a token."""
    return jsonify(smart_configuration())


@blueprint.get("/.well-known/openid-configuration")
@blueprint.get("/fhir/.well-known/openid-configuration")
@blueprint.get("/.well-known/oauth-authorization-server")
def openid() -> Response:
    """Tell the same to clients of OpenID Connect, and of RFC 8414."""
    return jsonify(openid_configuration())
