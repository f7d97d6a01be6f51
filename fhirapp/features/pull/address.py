"""Addresses of other servers: which are taken, where their FHIR base is, which belong together.

Errors of another server are one sentence; its own words are shortened and made harmless.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit, urlunsplit

from fhirapp.config import ConfigurationError
from fhirapp.features.imports.export_address import EXPORT, sanitize
from fhirapp.fhir import json as fhir_json
from fhirapp.url_syntax import PORTS, split_address


class RemoteError(ConfigurationError):
    """Another server's records cannot be fetched; str() is a sentence that says why."""


class ExportExpired(RemoteError):
    """An export, or a file of one, is not there any more."""


class TransientError(Exception):
    """An attempt failed, and another may not; str() says why.

    wait is what the server asked for, in seconds.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def diagnostics_of(body: bytes) -> tuple[str, bool]:
    """Return what an OperationOutcome or OAuth error says, and whether it says that it passes.

    The text begins with ": " where there is one.
    """
    try:
        content = fhir_json.loads(body)
    except ValueError:
        return "", False
    if not isinstance(content, dict):
        return "", False
    issues = [issue for issue in _as_list(content.get("issue")) if isinstance(issue, dict)]
    texts = [_words(issue) for issue in issues]
    texts += [content.get("error"), content.get("error_description")]
    text = sanitize(" ".join(part for part in texts if isinstance(part, str)))
    passes = any(issue.get("code") == "transient" for issue in issues)
    return f": {text.rstrip('.')}" if text else "", passes


def _words(issue: dict[str, Any]) -> Any:
    details = issue.get("details")
    text = details.get("text") if isinstance(details, dict) else None
    return issue.get("diagnostics") or text or issue.get("code")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_READABLE = re.compile(r"[!-~]+")


class Origin(NamedTuple):
    """What a token is kept to: scheme, host and port."""

    scheme: str
    host: str
    port: int


def origin(address: str) -> Origin:
    """Return the origin of an address. Raises RemoteError where it cannot be asked."""
    parts = split_address(address)
    host, port = parts.hostname, parts.port
    if not host or parts.scheme not in PORTS or not _READABLE.fullmatch(address):
        raise RemoteError(f"{sanitize(address)} is not an http:// or https:// address.")
    if "@" in parts.netloc:
        raise RemoteError("An address must not hold a user name or a password; leave them out.")
    return Origin(parts.scheme, host.lower(), PORTS[parts.scheme] if port is None else port)


def following(address: str, named: str) -> str:
    """Resolve an address against the one that named it. Raises RemoteError from https to http."""
    try:
        found = urljoin(address, named.strip())
    except ValueError:
        raise RemoteError(f"{sanitize(named)} is not an http:// or https:// address.") from None
    if origin(found).scheme == "http" and origin(address).scheme == "https":
        raise RemoteError(
            f"{place(address)} leads to {place(found)}, without the encryption that it has itself; "
            "nothing is fetched there."
        )
    return found


def place(address: str) -> str:
    """Return an address for messages: shortened, without its query, which may hold a secret."""
    try:
        parts = urlsplit(address)
        return sanitize(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")))
    except ValueError:
        return sanitize(address)


def is_export(address: str) -> bool:
    """Say whether an address begins an export: …/$export on the system, Patient or a Group."""
    return fhir_base(address) is not None


def fhir_base(address: str) -> str | None:
    """Return the base of the FHIR server that an export address belongs to, None for others."""
    parts = split_address(address)
    found = EXPORT.fullmatch(parts.path)
    if found is None:
        return None
    base: str = found["base"]
    return urlunsplit((parts.scheme, parts.netloc, base, "", ""))


def possible_bases(address: str) -> list[str]:
    """Return where the FHIR base of any address of a server may be, the most likely first."""
    known = fhir_base(address)
    if known is not None:
        return [known]
    parts = urlsplit(address)
    steps = parts.path.rstrip("/").split("/")[:-1] or [""]
    paths = ["/".join(steps[:count]) for count in range(len(steps), 0, -1)]
    return [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in paths]
