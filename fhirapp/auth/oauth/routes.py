"""The addresses of the authorization server that programs ask; people's are in fhirapp/web."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from fhirapp.auth.oauth import openid as oauth_openid
from fhirapp.auth.oauth import server
from fhirapp.auth.oauth.discovery import openid_configuration, smart_configuration

blueprint = Blueprint("oauth", __name__)


@blueprint.post("/oauth/token")
def token() -> Response:
    """Issue an access token (RFC 6749 §3.2); errors as its §5.2 has them."""
    return server.token_response()


@blueprint.post("/oauth/introspect")
def introspect() -> Response:
    """Say what a token is (RFC 7662); of one that is none, nothing but that."""
    return server.introspection_response()


@blueprint.post("/oauth/revoke")
def revoke() -> Response:
    """End a token (RFC 7009)."""
    return server.revocation_response()


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
