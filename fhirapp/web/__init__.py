"""The pages that people use: sign in, allow an app, take it back, manage users and clients.

pages.py is how each is rendered, and who may see it; the other modules are a blueprint each.
"""

from __future__ import annotations

from flask import Blueprint, Flask

from fhirapp.web import account, apps, authorize, launch, pages, sample, sign_in
from fhirapp.web.admin import clients, refusals, users


def init_app(app: Flask) -> None:
    """Serve the pages."""
    pages.init_app(app)
    app.register_blueprint(Blueprint("static_files", __name__, static_folder="static"))
    for part in (sign_in, authorize, account, apps, launch, sample, users, clients, refusals):
        app.register_blueprint(part.blueprint)
