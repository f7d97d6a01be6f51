"""Addresses of this server in their normal form. RFC 3986 §6.2.2, §6.2.3."""

from __future__ import annotations

import re
import unicodedata
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::([0-9]{0,5}))?")


def normalise_address(address: str) -> str:
    """Return an http(s) address in its normal form; what is none stays as it is.

    Scheme and host are in lower case, an international name is in ASCII, an IPv6 address is in its
    shortest form. The scheme's own port, the final dot of the host and slashes at the end go.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    authority = normalise_authority(parts.netloc, parts.scheme)
    if parts.scheme not in _PORTS or not authority or parts.query or parts.fragment:
        return address
    return f"{parts.scheme}://{authority}{parts.path.rstrip('/')}"


def normalise_authority(authority: str, scheme: str) -> str:
    """Return host[:port] of an address or a Host header in its normal form; "" for what is none."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return ""
    host = _normalise_host(match[1])
    port = int(match[2] or _PORTS.get(scheme, 0))
    return host if not host or port == _PORTS.get(scheme, 0) else f"{host}:{port}"


def _normalise_host(host: str) -> str:
    if host.startswith("["):
        try:
            return f"[{IPv6Address(host[1:-1]).compressed}]"
        except AddressValueError:
            return ""
    # The ideographic full stop is a dot too.
    labels = unicodedata.normalize("NFKC", host).lower().replace("\u3002", ".").split(".")
    if len(labels) > 1 and not labels[-1]:
        del labels[-1]
    return ".".join(map(_in_ascii, labels)) if all(labels) else ""


def _in_ascii(label: str) -> str:
    """Return a label as DNS has it. RFC 3492: xn-- and Punycode where it is not ASCII."""
    return label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}"
