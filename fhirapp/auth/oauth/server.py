"""The authorization server: Authlib's, with the grants of SMART App Launch and Backend Services.

    /oauth/authorize     RFC 6749 §3.1         authorization_request.py, authorize.py, launch.py
    /oauth/token         RFC 6749 §3.2         client_authentication.py, grants.py, pkce.py
    /oauth/introspect    RFC 7662              introspection.py
    /oauth/revoke        RFC 7009              revocation.py
    /oauth/register      RFC 7591              client_registration.py
    /oauth/userinfo      OpenID Connect Core   openid.py
    /oauth/jwks.json     RFC 7517              signing_keys.py
    /.well-known/…       RFC 8414              discovery.py

The pages for people are in features/apps. Where Authlib's defaults are wrong for us, the override
says so.
"""

from __future__ import annotations

from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer as FlaskAuthorizationServer
from authlib.integrations.flask_oauth2.requests import FlaskOAuth2Payload, FlaskOAuth2Request
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import InvalidClientError, InvalidScopeError, UnauthorizedClientError
from flask import Blueprint, Flask, Request, Response, current_app, jsonify, request

from fhirapp.auth import refusals
from fhirapp.auth.models import BASIC, SIGNED, Client
from fhirapp.auth.oauth import grants, signing_keys
from fhirapp.auth.oauth import openid as oauth_openid
from fhirapp.auth.oauth.client_assertion import ClientAssertion
from fhirapp.auth.oauth.client_authentication import (
    ClientAuthentication,
    check_form,
    client_secret_basic,
    find_client,
)
from fhirapp.auth.oauth.discovery import openid_configuration, smart_configuration
from fhirapp.auth.oauth.introspection import Introspection
from fhirapp.auth.oauth.launch import LaunchContext
from fhirapp.auth.oauth.pkce import S256Challenge
from fhirapp.auth.oauth.revocation import Revocation
from fhirapp.auth.protector import require_oauth
from fhirapp.auth.reasons import denied_scopes
from fhirapp.auth.throttle import Failures
from fhirapp.auth.tokens import BACKEND_SECONDS, exchange, new_token, save_backend_token


class AuthorizationServer(FlaskAuthorizationServer):  # type: ignore[misc]
    """Issues access tokens; clients and tokens are in the database."""

    def __init__(self) -> None:
        super().__init__(query_client=find_client, save_token=save_token)
        self._client_auth = ClientAuthentication(find_client)
        self.register_client_auth_method(BASIC, client_secret_basic)
        self.register_client_auth_method(SIGNED, ClientAssertion())
        self.register_grant(grants.BackendGrant)
        self.register_grant(
            grants.CodeGrant, [S256Challenge(), oauth_openid.IdToken(), LaunchContext()]
        )
        self.register_grant(grants.RefreshGrant, [LaunchContext()])
        self.register_endpoint(Introspection)
        self.register_endpoint(Revocation)
        self.failures = Failures(purpose="client")

    def create_oauth2_request(self, _request: Any) -> FlaskOAuth2Request:
        return _Request(request)

    def generate_token(
        self, grant_type: str, client: Client, scope: str | None = None, **options: Any
    ) -> Any:
        """Return a new token; a client that may have none of its scopes is told which they are."""
        if client.get_allowed_scope(scope) is None:
            raise InvalidScopeError(denied_scopes(scope or ""))
        return super().generate_token(grant_type, client, scope=scope, **options)

    def handle_error_response(self, oauth_request: Any, error: OAuth2Error) -> Response:
        is_unproved = error.error == InvalidClientError.error
        if is_unproved and refusals.is_waiting(refusals.claimed_client()):
            # No proof of one that waits is looked at, nor are its keys fetched.
            error = UnauthorizedClientError(description=refusals.WAITS)
        response: Response = super().handle_error_response(oauth_request, error)
        client = getattr(oauth_request, "client", None)
        refusals.record_oauth(response, None if client is None else client.client_id, error)
        if not is_unproved:
            return response
        wait = self.failures.count(request.remote_addr or "")
        return _throttled(wait) if wait else response


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


def save_token(token: dict[str, Any], oauth_request: Any) -> None:
    """Store what a grant issued, as hashes. Raises InvalidGrantError."""
    spent = oauth_request.authorization_code or oauth_request.refresh_token
    if spent is None:
        save_backend_token(token, oauth_request.client.client_id)
    else:
        exchange(token, oauth_request.grant, spent)


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


def _throttled(wait: int) -> Response:
    return Response(
        '{"error": "invalid_client", "error_description": "Too many failures; wait."}',
        429,
        headers={"Retry-After": str(wait), "Cache-Control": "no-store"},
        mimetype="application/json",
    )


blueprint = Blueprint("oauth", __name__)


@blueprint.errorhandler(OAuth2Error)
def refuse(error: OAuth2Error) -> Response:
    """Answer a request whose form is refused (RFC 6749 §5.2)."""
    return authorization_server().handle_error_response(None, error)


@blueprint.post("/oauth/token")
def token() -> Response:
    """Issue an access token (RFC 6749 §3.2); errors as its §5.2 has them."""
    check_form("grant_type")
    response: Response = authorization_server().create_token_response()
    return response


@blueprint.post("/oauth/introspect")
def introspect() -> Response:
    """Say what a token is (RFC 7662); of one that is none, nothing but that."""
    return _endpoint_response(Introspection.ENDPOINT_NAME)


@blueprint.post("/oauth/revoke")
def revoke() -> Response:
    """End a token (RFC 7009)."""
    return _endpoint_response(Revocation.ENDPOINT_NAME)


def _endpoint_response(name: str) -> Response:
    check_form("token")
    response: Response = authorization_server().create_endpoint_response(name)
    return response


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
    response = jsonify(signing_keys.public_keys())
    response.headers["Cache-Control"] = f"max-age={signing_keys.JWKS_SECONDS}"
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
