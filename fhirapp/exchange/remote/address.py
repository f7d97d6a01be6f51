"""Addresses of other servers: which are taken, where their FHIR base is, which belong together."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urljoin, urlsplit, urlunsplit

from fhirapp.exchange.remote.faults import RemoteError, shown

_EXPORT = re.compile(r"(?P<base>.*?)/+(?P<level>Patient/+|Group/+[^/]+/+)?(?:\$|%24)export/*")
# Parameters of an export that say how it is written; any other may leave something out.
_OF_FORM = frozenset(
    {"_format", "_outputFormat", "_pretty", "allowPartialManifests", "organizeOutputBy"}
)
_READABLE = re.compile(r"[!-~]+")
_PORTS = {"http": 80, "https": 443}
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Origin(NamedTuple):
    """What a token is kept to: scheme, host and port."""

    scheme: str
    host: str
    port: int


def origin(address: str) -> Origin:
    """Return the origin of an address. Raises RemoteError where it cannot be asked."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or parts.scheme not in _PORTS or not _READABLE.fullmatch(address):
        raise RemoteError(f"{shown(address)} is not an http:// or https:// address.")
    if "@" in parts.netloc:
        raise RemoteError("An address must not hold a user name or a password; leave them out.")
    return Origin(parts.scheme, host.lower(), _PORTS[parts.scheme] if port is None else port)


def following(address: str, named: str) -> str:
    """Return an address that an answer from another one names, absolute or relative to it.

    Raises RemoteError where it leads from https to http.
    """
    try:
        found = urljoin(address, named.strip())
    except ValueError:
        raise RemoteError(f"{shown(named)} is not an http:// or https:// address.") from None
    if origin(found).scheme == "http" and origin(address).scheme == "https":
        raise RemoteError(
            f"{place(address)} leads to {place(found)}, without the encryption that it has itself; "
            "nothing is fetched there."
        )
    return found


def place(address: str) -> str:
    """Return an address as it is told: without its query, which may hold a secret, and cut."""
    try:
        parts = urlsplit(address)
        return shown(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")))
    except ValueError:
        return shown(address)


def is_export(address: str) -> bool:
    """Say whether an address begins an export: …/$export on the system, Patient or a Group."""
    return fhir_base(address) is not None


def fhir_base(address: str) -> str | None:
    """Return the base of the FHIR server that an export address belongs to, None for others."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    found = _EXPORT.fullmatch(parts.path)
    if found is None:
        return None
    base: str = found["base"]
    return urlunsplit((parts.scheme, parts.netloc, base, "", ""))


def left_out(address: str) -> str:
    """Return by what the address of an export asks for less than all, empty where by nothing."""
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    found = _EXPORT.fullmatch(parts.path)
    if found is None:
        return "another address than …/$export"
    asked = parse_qsl(parts.query, keep_blank_values=True)
    narrows = [shown(name, 64) for name, _ in asked if name not in _OF_FORM]
    if address.endswith("…"):
        narrows.append("more than can be read")
    if level := found["level"]:
        narrows.insert(0, f"{level.partition('/')[0]}/…$export")
    return " and ".join(dict.fromkeys(narrows))


def possible_bases(address: str) -> list[str]:
    """Return where the FHIR base of any address of a server may be, the most likely first."""
    known = fhir_base(address)
    if known is not None:
        return [known]
    parts = urlsplit(address)
    steps = parts.path.rstrip("/").split("/")[:-1] or [""]
    paths = ["/".join(steps[:count]) for count in range(len(steps), 0, -1)]
    return [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in paths]
