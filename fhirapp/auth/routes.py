"""The addresses of the authorization server."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from fhirapp.auth import server
from fhirapp.auth.discovery import smart_configuration

blueprint = Blueprint("oauth", __name__)


@blueprint.post("/oauth/token")
def token() -> Response:
    """Issue an access token (RFC 6749 §3.2); errors as its §5.2 has them."""
    return server.token_response()


@blueprint.get("/.well-known/smart-configuration")
@blueprint.get("/fhir/.well-known/smart-configuration")
def discovery() -> Response:
    """Tell where and how to get a token."""
    return jsonify(smart_configuration())
