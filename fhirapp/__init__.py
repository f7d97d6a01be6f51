"""fhirapp: a small FHIR R4 server for clinical notes and allergies."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from fhirapp.config import Settings

__all__ = ["create_app"]


def create_app(settings: Settings | None = None) -> Flask:
    """Return the application, all that is served. Raises ConfigurationError.

    settings default to those of the environment. The database is not opened yet: server/prepare.py
    makes it ready to be served.
    """
    was_enabled = gc.isenabled()
    # Hardly anything made now is garbage: to look for it takes a tenth of the start.
    gc.disable()
    try:
        return _all_parts(settings)
    finally:
        if was_enabled:
            gc.enable()


def _all_parts(settings: Settings | None) -> Flask:
    # Imported here: commands and background tasks are without pages (core.py), and start sooner.
    from fhirapp import audit, auth, db, resources, rest, web
    from fhirapp.core import bare_app
    from fhirapp.environment import load_settings
    from fhirapp.feature import features, imported
    from fhirapp.jobs import worker
    from fhirapp.rest import recorder
    from fhirapp.server import access_log
    from fhirapp.web import below

    app = bare_app(settings or load_settings())
    # After rest/: Flask then logs an answer before CORS is added to it.
    for part in (
        db,
        auth,
        audit,
        rest,
        recorder,
        resources,
        worker,
        web,
        access_log,
    ):
        part.init_app(app)
    for feature in features():
        for reference in feature.init:
            imported(reference)(app)
    below.init_app(app)
    return app
