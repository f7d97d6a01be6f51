"""Text of JSON: its strings, each on a line; not the names of its members."""

from __future__ import annotations

import json
from typing import Any

from fhirapp.text.media import Unreadable
from fhirapp.text.words import decode


def read_json(data: bytes, codec: str) -> str:
    """Return the strings in JSON, in order. Raises Unreadable."""
    try:
        root: Any = json.loads(decode(data, codec))
    except (ValueError, RecursionError):
        raise Unreadable("broken JSON") from None
    strings = []
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            strings.append(value)
        elif isinstance(value, dict):
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
    return "\n".join(strings)
