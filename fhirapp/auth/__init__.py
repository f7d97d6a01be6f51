"""Who may see what: SMART scopes, access tokens, and the authorization server that issues them."""

from __future__ import annotations

import logging

from flask import Flask

from fhirapp import keys
from fhirapp.auth import protector, server_secrets
from fhirapp.auth.oauth import client_registration, server
from fhirapp.auth.users import provider


def init_app(app: Flask) -> None:
    """Give the app its keys, its protector and its authorization server."""
    # At DEBUG Authlib logs the tokens that it issues.
    logging.getLogger("authlib").setLevel(logging.INFO)
    logging.getLogger("urllib3").setLevel(logging.INFO)
    keys.init_app(app)
    server_secrets.init_app(app)
    protector.init_app(app)
    server.init_app(app)
    client_registration.init_app(app)
    provider.init_app(app)
    app.register_blueprint(server.blueprint)
