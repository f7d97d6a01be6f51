"""For orchestrators: is the process alive, and can it answer. decisions §1."""

from __future__ import annotations

import logging

from flask import Blueprint, Flask, Response, jsonify

from fhirapp.db import database_errors, reader

blueprint = Blueprint("health", __name__)
_log = logging.getLogger(__name__)


@blueprint.get("/health/live")
def live() -> Response:
    """Say that this process answers."""
    return jsonify(status="alive")


@blueprint.get("/health/ready")
def ready() -> tuple[Response, int]:
    """Say whether the database can be read: 200, or 503."""
    try:
        reader().first("SELECT name FROM store_state LIMIT 1")
    except database_errors() as error:
        _log.warning("not ready: %s", type(error).__name__)
        return jsonify(status="no database"), 503
    return jsonify(status="ready"), 200


def init_app(app: Flask) -> None:
    """Serve /health/live and /health/ready."""
    app.register_blueprint(blueprint)
