"""The pages that people use: explorer, charts, notes, lessons, sign-in, consent, administration.

pages.py renders each page and decides who may see it, internal_client.py reads records through our
own API; most other modules and folders have a blueprint each.
"""

from __future__ import annotations

from flask import Flask

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
from fhirapp.web.chart import routes as chart
from fhirapp.web.explore import history, inspector, why
from fhirapp.web.explore import routes as explore
from fhirapp.web.learn import class_pages, recap
from fhirapp.web.learn import routes as learn
from fhirapp.web.notes import routes as notes

_OF_RECORDS = (home, explore, chart, notes, learn, class_pages, recap)
_OF_EXPLORER = (history, inspector, why)
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
    for part in (*_OF_RECORDS, *_OF_EXPLORER, *_OF_PEOPLE, *_OF_ADMINISTRATORS):
        app.register_blueprint(part.blueprint)
