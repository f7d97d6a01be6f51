"""The app without its pages: database, access, types. What the shell and background tasks use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, tzinfo

from flask import Flask, current_app

from fhirapp import auth, resources, rest
from fhirapp import db as database
from fhirapp.config import Settings, settings
from fhirapp.db import db
from fhirapp.fhir.temporal import init_zone


def bare_app(settings: Settings) -> Flask:
    """Return an app that knows its settings, and no address."""
    app = Flask("fhirapp", instance_path=str(settings.instance), static_folder=None)
    app.config["FHIRAPP"] = settings
    init_zone(_clinic_zone)
    # A redirect would name whatever host the client named.
    app.url_map.merge_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    return app


def core_app(settings: Settings) -> Flask:
    """Return an app that is not served; its database is not opened yet. Raises ConfigurationError.

    Commands ask for no page, and do not wait until all are imported.
    """
    app = bare_app(settings)
    for part in (database, auth, rest, resources):
        part.init_app(app)
    return app


def _clinic_zone() -> tzinfo:
    return settings().zone if current_app else UTC


@contextmanager
def current_core(settings: Settings) -> Iterator[Flask]:
    """Return such an app, current meanwhile, on a database that was made ready."""
    app = core_app(settings)
    with app.app_context():
        try:
            yield app
        finally:
            db.engine.dispose()
