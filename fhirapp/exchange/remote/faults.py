"""What goes wrong with another server, in one sentence; its own words are cut and made harmless.

ConfigurationError
└── RemoteError     it cannot be fetched
    └── Expired     its export is not there any more
Passing             it may go well at the next attempt
"""

from __future__ import annotations

import unicodedata
from typing import Any

from fhirapp.config import ConfigurationError
from fhirapp.fhir import json as fhir_json

_LONGEST = 300


class RemoteError(ConfigurationError):
    """Another server's records cannot be fetched; str() is a sentence that says why."""


class Expired(RemoteError):
    """An export, or a file of one, is not there any more."""


class Passing(Exception):
    """An attempt failed, and another may not; str() says why.

    wait is what the server asked for, in seconds; progress, that something was brought forward.
    """

    def __init__(self, reason: str, wait: float | None = None, *, progress: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.progress = progress


def shown(text: str, longest: int = _LONGEST) -> str:
    """Return another server's text on one line, without control characters, and cut."""
    # Cut first: it may be megabytes. Twice as much, since spaces may fall away.
    plain = "".join(
        " " if unicodedata.category(one)[0] in "CZ" else one for one in text[: 2 * longest]
    )
    words = " ".join(plain.split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def told(body: bytes) -> tuple[str, bool]:
    """Return what an OperationOutcome or OAuth error says, and whether it says that it passes.

    The text begins with ": " where there is one.
    """
    try:
        content = fhir_json.loads(body)
    except ValueError:
        return "", False
    if not isinstance(content, dict):
        return "", False
    issues = [one for one in _listed(content.get("issue")) if isinstance(one, dict)]
    said = [_words(one) for one in issues]
    said += [content.get("error"), content.get("error_description")]
    text = shown(" ".join(one for one in said if isinstance(one, str)))
    passes = any(one.get("code") == "transient" for one in issues)
    return f": {text.rstrip('.')}" if text else "", passes


def _words(issue: dict[str, Any]) -> Any:
    details = issue.get("details")
    text = details.get("text") if isinstance(details, dict) else None
    return issue.get("diagnostics") or text or issue.get("code")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
