"""Bulk Data Access: `$export` of the whole server, of all patients, or of a group.

routes          kick-off, status, files       kickoff     the parameters of a kick-off
export_request  a checked request, access     run         one export, from kick-off to removal
ndjson          the rows of one instant       files       the folder of an export
operations      CapabilityStatement, OpenAPI

Source: http://hl7.org/fhir/uv/bulkdata/STU2/
"""

from __future__ import annotations

from flask import Flask

from fhirapp.features.exports.bulk import operations, routes


def init_app(app: Flask) -> None:
    """Serve `$export`, and describe it in the server's metadata."""
    app.register_blueprint(routes.blueprint)
    operations.init_app(app)
