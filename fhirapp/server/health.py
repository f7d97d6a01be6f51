"""How orchestrators and operators see the server: health addresses and log lines.

Logs never hold patient data or tokens. decisions §1.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from datetime import UTC, datetime
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, jsonify

from fhirapp.config import Settings, settings_of
from fhirapp.rest.middleware import HEALTH_PATHS
from fhirapp.server import readiness
from fhirapp.server.last_errors import LogHandler
from fhirapp.server.readiness import why_not_ready

blueprint = Blueprint("health", __name__)
_log = logging.getLogger(__name__)
_OF = ("live", "ready")


@blueprint.get("/health/live")
def live() -> Response:
    """Say that this process answers."""
    return jsonify(status="alive")


@blueprint.get("/health/ready")
def ready() -> tuple[Response, int]:
    """Say whether requests can be answered: 200, or 503 with the reason."""
    if reason := why_not_ready():
        _log.warning("not ready: %s", reason)
        return jsonify(status="not ready", reason=reason), 503
    return jsonify(status="ready"), 200


def init_app(app: Flask) -> None:
    """Serve /health/live and /health/ready."""
    app.register_blueprint(blueprint)
    roots = {"", urlsplit(settings_of(app).base_url).path}
    app.extensions[HEALTH_PATHS] = tuple(f"{root}/health/{of}" for root in roots for of in _OF)
    readiness.init_app(app)


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content)


class Sparing(logging.Filter):
    """Lets a message through ten times a minute; what is left out is counted.

    A stranger who finds what makes the server log something could fill the disk by it.
    """

    PER_MINUTE = 10

    def __init__(self) -> None:
        super().__init__()
        self._since = 0.0
        self._counts: Counter[tuple[str, str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is logged: by where in the code it comes from."""
        if record.created - self._since >= 60:
            left_out = sum(max(0, count - self.PER_MINUTE) for count in self._counts.values())
            self._since = record.created
            self._counts.clear()
            if left_out:
                record.msg = f"{record.getMessage()} ({left_out} like earlier ones were left out)"
                record.args = ()
        place = _place(record)
        self._counts[place] += 1
        return self._counts[place] <= self.PER_MINUTE


def _place(record: logging.LogRecord) -> tuple[str, str, int]:
    """Return where in the code a record comes from; of an exception, where that was raised."""
    kind, _, trace = record.exc_info or (None, None, None)
    if kind is None or trace is None:
        return record.name, record.pathname, record.lineno
    while trace.tb_next is not None:
        trace = trace.tb_next
    return kind.__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno


def configure(settings: Settings) -> None:
    """Send logs to standard error, as the settings say; warnings and errors are kept too."""
    handler = LogHandler(sys.stderr, settings.instance)
    if settings.log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(Sparing())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    # It warns of every request that waits for a thread.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
