"""The pages that people use: explorer, charts, notes, lessons, sign-in, consent, administration.

pages.py renders each page and decides who may see it, internal_client.py reads records through our
own API; most other modules and folders have a blueprint each.
"""

from __future__ import annotations

from flask import Flask

from fhirapp.feature import features, imported
from fhirapp.web import home, pages, static_files, texts
from fhirapp.web.admin import audit, jobs, schedules, settings

_CORE = (home, jobs, schedules, audit, settings)


def init_app(app: Flask) -> None:
    """Serve the pages."""
    pages.init_app(app)
    texts.init_app(app)
    static_files.init_app(app)
    # Templates word the state of jobs by its functions.
    app.jinja_env.globals["running"] = jobs
    for part in _CORE:
        app.register_blueprint(part.blueprint)
    for feature in features():
        for reference in feature.blueprints:
            app.register_blueprint(imported(reference))
