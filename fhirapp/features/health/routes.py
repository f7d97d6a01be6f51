"""/health/live and /health/ready: for load balancers and orchestrators, without authorization."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, jsonify

from fhirapp.config import settings_of
from fhirapp.features.health import readiness
from fhirapp.rest.middleware import HEALTH_PATHS

blueprint = Blueprint("health", __name__)
_log = logging.getLogger(__name__)


@blueprint.get("/health/live")
def live() -> Response:
    """Answer that this process is alive."""
    return jsonify(status="alive")


@blueprint.get("/health/ready")
def ready() -> tuple[Response, int]:
    """Answer whether requests can be answered: 200, or 503 with the reason."""
    fault = readiness.fault()
    if fault is None:
        return jsonify(status="ready"), 200
    reason, _advice = fault.in_english()
    _log.warning("not ready: %s", reason)
    return jsonify(status="not ready", reason=reason), 503


def init_app(app: Flask) -> None:
    """Reserve threads for these paths, which may not wait behind other requests."""
    roots = {"", urlsplit(settings_of(app).base_url).path}
    app.extensions[HEALTH_PATHS] = tuple(
        f"{root}/health/{name}" for root in roots for name in ("live", "ready")
    )
    readiness.init_app(app)
