"""Logs: one line an event, as text or JSON; never patient data, never a token."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from fhirapp.config import Settings


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


def configure(settings: Settings) -> None:
    """Send logs to standard error, as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    # It warns of every request that waits for a thread.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
