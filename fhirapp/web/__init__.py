"""The pages that people use: explorer, charts, notes, lessons, sign-in, consent, administration.

pages.py renders each page and decides who may see it, internal_client.py reads records through our
own API; most other modules and folders have a blueprint each.
"""

from __future__ import annotations

from flask import Flask

from fhirapp.feature import features, imported
from fhirapp.web import (
    account,
    apps,
    authorize,
    home,
    launch,
    pages,
    provider,
    sign_in,
    static_files,
    texts,
)
from fhirapp.web.admin import (
    audit,
    backups,
    checkup,
    consents,
    exports,
    imports,
    jobs,
    overview,
    patients,
    schedules,
    settings,
    users,
)
from fhirapp.web.admin import clients as admin_clients

_OF_PEOPLE = (sign_in, provider, authorize, account, apps, launch)
_OF_ADMINISTRATORS = (
    *(overview, checkup, users, admin_clients, consents, imports, jobs, exports, backups),
    *(schedules, audit, settings, patients),
)


def init_app(app: Flask) -> None:
    """Serve the pages."""
    pages.init_app(app)
    texts.init_app(app)
    static_files.init_app(app)
    for part in (home, *_OF_PEOPLE, *_OF_ADMINISTRATORS):
        app.register_blueprint(part.blueprint)
    for feature in features():
        for reference in feature.blueprints:
            app.register_blueprint(imported(reference))
