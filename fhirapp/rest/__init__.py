"""The FHIR interactions, once for all types."""

from __future__ import annotations

from flask import Flask

from fhirapp.auth import scopes
from fhirapp.rest import access, capability, definitions, errors, openapi, paging


def init_app(app: Flask) -> None:
    """Give the app its errors, its memory of totals, its page links and what describes it."""
    errors.init_app(app)
    scopes.init_app(app, scopes.ServedTypes(access.enforceable, access.types_of_scopes))
    paging.totals_init_app(app)
    paging.init_app(app)
    capability.init_app(app)
    definitions.init_app(app)
    openapi.init_app(app)
