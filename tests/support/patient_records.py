"""Records of patients that tests delete, erase and merge: notes with their text."""

from __future__ import annotations

import base64
from typing import Any


def note(resource_id: str, of: str, **attachment: Any) -> dict[str, Any]:
    """Return a note of a patient with one attachment."""
    return {
        "resourceType": "DocumentReference",
        "id": resource_id,
        "status": "current",
        "subject": {"reference": f"Patient/{of}"},
        "content": [{"attachment": {"contentType": "text/plain", **attachment}}],
    }


def data(text: str) -> str:
    """Return a text as an attachment holds it."""
    return base64.b64encode(text.encode()).decode()
