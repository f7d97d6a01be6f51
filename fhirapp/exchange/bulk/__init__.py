"""Bulk Data Access: `$export` of the whole server, of all patients, or of a group of them.

asked       what a kick-off asks for           access   who may export, and how far
jobs        the table of exports, and claims   parts    what is written: rows as of one instant
work        one export, from claim to end      worker   the thread in which a server works
folder      an export's files                  routes   kick-off, status, files

Source: http://hl7.org/fhir/uv/bulkdata/STU2/
"""

from __future__ import annotations

from flask import Flask

from fhirapp.exchange.bulk import operations, routes, run


def init_app(app: Flask) -> None:
    """Serve `$export`, and tell of it where the server describes itself."""
    run.init_app(app)
    app.register_blueprint(routes.blueprint)
    operations.init_app(app)
