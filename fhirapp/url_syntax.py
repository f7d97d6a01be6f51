"""Syntax of http(s) addresses: their normal form (RFC 3986 §6.2.2, §6.2.3), and loopback."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import SplitResult, urlencode, urlsplit

PORTS = {"http": 80, "https": 443}
LAST_PORT = 65_535
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# urlsplit() finds the host ::1 in http://evil[::1]/ too; browsers do not.
_LOOPBACK_AUTHORITY = re.compile(r"(127\.0\.0\.1|\[::1\]|localhost)(:[0-9]{1,5})?", re.I)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::([0-9]{0,5}))?")


def split_address(address: str) -> SplitResult:
    """Return the parts of an address; all are empty if the address or its port is invalid."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return urlsplit("")
    return parts


def normalise_address(address: str) -> str:
    """Return an http(s) address in its normal form; any other text is returned unchanged.

    Scheme and host are in lower case, an international name is in ASCII, an IPv6 address is in its
    shortest form. The scheme's default port, the host's final dot and final slashes are removed.
    """
    parts = split_address(address)
    authority = normalise_authority(parts.netloc, parts.scheme)
    if parts.scheme not in PORTS or not authority or parts.query or parts.fragment:
        return address
    return f"{parts.scheme}://{authority}{parts.path.rstrip('/')}"


def normalise_authority(authority: str, scheme: str) -> str:
    """Return host[:port] of an address or a Host header in its normal form; "" if it is invalid."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return ""
    host = _normalise_host(match[1])
    port = int(match[2] or PORTS.get(scheme, 0))
    return host if not host or port == PORTS.get(scheme, 0) else f"{host}:{port}"


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
    """Return a label of a host name in ASCII: xn-- and Punycode if necessary. RFC 3492."""
    return label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}"


def is_loopback(authority: str) -> bool:
    """Say whether host[:port] of an address names this machine, and nothing else."""
    match = _LOOPBACK_AUTHORITY.fullmatch(authority)
    return match is not None and int((match[2] or ":0")[1:]) <= LAST_PORT


def is_http_address(text: str) -> bool:
    """Say whether text is http(s)://host[:port][/path], and nothing after that."""
    parts = split_address(text)
    has_host = bool(parts.hostname) and parts.port != 0
    is_printable = re.fullmatch(r"[!#-;=?-\[\]_a-z~]+", text) is not None
    is_plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and has_host and is_printable and is_plain


def with_parameters(uri: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return an address, which has no fragment, with parameters added to its query.

    The present query stays as it is. RFC 6749 §3.1.2.
    """
    separator = "?" if "?" not in uri else "" if uri.endswith(("?", "&")) else "&"
    return f"{uri}{separator}{urlencode(parameters)}"
