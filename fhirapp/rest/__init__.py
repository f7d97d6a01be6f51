"""The FHIR interactions, once for all types."""

from __future__ import annotations

from flask import Flask

from fhirapp.auth import scopes
from fhirapp.rest import (
    access,
    batch,
    capability,
    definitions,
    errors,
    history,
    middleware,
    openapi,
    paging,
    system,
)


def init_app(app: Flask) -> None:
    """Give the app its errors, scopes, pages and descriptions of itself."""
    middleware.init_app(app)
    errors.init_app(app)
    access.init_app(app)
    scopes.init_app(app, scopes.ServedTypes(access.enforceable, access.types_of_scopes))
    paging.init_app(app)
    capability.init_app(app)
    app.register_blueprint(batch.blueprint)
    app.register_blueprint(system.blueprint)
    app.register_blueprint(history.blueprint)
    definitions.init_app(app)
    openapi.init_app(app)
