"""Binaries of the tests' own, each with a document of patient p1 that carries it."""

from __future__ import annotations

import base64
from typing import Any

from flask import Flask

from tests.support.contract import publish

PUBLISHED = "2026-01-31T12:00:00.250+00:00"
PUBLISHED_DATE = "Sat, 31 Jan 2026 12:00:00 GMT"


def store(
    app: Flask, row_id: str, content: bytes, *, now: str = PUBLISHED, **elements: Any
) -> dict[str, Any]:
    """Publish a Binary and its document; return the Binary."""
    binary = {
        "resourceType": "Binary",
        "id": row_id,
        "contentType": "application/pdf",
        **({"data": base64.b64encode(content).decode()} if content else {}),
        **elements,
    }
    document = {
        "resourceType": "DocumentReference",
        "id": f"of-{row_id}",
        "status": "current",
        "subject": {"reference": "Patient/p1"},
        "content": [{"attachment": {"url": f"Binary/{row_id}"}}],
    }
    publish(app, binary, now=now)
    publish(app, document, now=now)
    return binary
