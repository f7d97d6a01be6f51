"""fhirapp: a small FHIR R4 server for clinical notes and allergies."""

from __future__ import annotations

from flask import Flask

from fhirapp import auth, db, resources, rest, web
from fhirapp.config import Settings, load_settings
from fhirapp.ops import health

__all__ = ["create_app"]


def create_app(settings: Settings | None = None) -> Flask:
    """Return the application. Raises ConfigurationError.

    settings default to those of the environment. The database is not opened yet: ops/prepare.py
    makes it ready to be served.
    """
    settings = settings or load_settings()
    app = Flask(__name__, instance_path=str(settings.instance), static_folder=None)
    app.config["FHIRAPP"] = settings
    # A redirect would name whatever host the client named.
    app.url_map.merge_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    db.init_app(app, settings)
    auth.init_app(app)
    rest.init_app(app)
    resources.init_app(app)
    web.init_app(app)
    health.init_app(app)
    return app
