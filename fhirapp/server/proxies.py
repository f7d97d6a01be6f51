"""Who asks, where a reverse proxy stands in front: the address that the proxy names.

`FHIRAPP_TRUSTED_PROXY` lists the proxies, as addresses or networks. X-Forwarded-For of anybody else
is dropped, and noticed: a proxy that is not listed makes all its clients one, whose failed attempts
are counted together. Source: decisions §4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from fhirapp.config import Settings
from fhirapp.url_syntax import LOOPBACK

_log = logging.getLogger(__name__)
HEADER = "X_FORWARDED_FOR"
# What proxies say of a request and nobody reads here: it would be believed by mistake.
FORWARDED = ("X_FORWARDED_HOST", "X_FORWARDED_PROTO", "X_FORWARDED_PORT", "X_FORWARDED_BY")
DROPPED = (HEADER, *FORWARDED, "FORWARDED")
# In the environ: the scheme by which a named proxy says that its client came, to tell of and
# nothing else.
SCHEME = "fhirapp.scheme"
# How clients reach the server: see reach_of().
ENCRYPTED, PLAIN, THIS_MACHINE, NO_ADDRESS = "encrypted", "plain", "this machine", "no address"


class Proxies:
    """The proxies that are believed."""

    def __init__(self, settings: Settings, notice: Callable[[str], None]) -> None:
        """notice gets the address of a proxy that seems to be one and is not named."""
        self._networks = settings.proxies
        self._notice_it = notice
        self._noticed = False

    def __contains__(self, address: str) -> bool:
        """Say whether an address is a proxy's."""
        parsed = _parse(address) if self._networks else None
        return parsed is not None and self._is_proxy(parsed)

    def client(self, peer: str, forwarded: str) -> str:
        """Return whose request a peer brings, which names its client in X-Forwarded-For.

        The last address that is no proxy's: whatever stands before it the client may have written.
        """
        if peer not in self:
            if forwarded:
                self._notice(peer)
            return peer
        client = peer
        for hop in reversed(forwarded.split(",")):
            parsed = _parse(_without_port(hop.strip()))
            if parsed is None:
                break
            client = str(parsed)
            if not self._is_proxy(parsed):
                break
        return client

    def _is_proxy(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)

    def _notice(self, peer: str) -> None:
        if not self._noticed:
            self._noticed = True
            self._notice_it(peer)
            _log.warning(
                "%s sends X-Forwarded-For, and FHIRAPP_TRUSTED_PROXY does not name it: if it is "
                "your reverse proxy, all its clients count as one here, and wrong passwords of one "
                "lock out the others",
                peer,
            )


def _without_port(hop: str) -> str:
    """Return the address of a hop: some proxies write its port too, and IPv6 in brackets."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def seems_behind_proxy(settings: Settings) -> bool:
    """Say whether the base URL is not what this server listens at, and yet no proxy is named."""
    if not settings.base_url or settings.trusted_proxy:
        return False
    parts = urlsplit(settings.base_url)
    return parts.scheme == "https" or (parts.port or 80) != settings.port


def reach_of(settings: Settings) -> str:
    """Return how clients reach the server, as its base URL says.

    ENCRYPTED; PLAIN, where others can read passwords and records on the way; THIS_MACHINE, which
    needs no TLS; NO_ADDRESS, where it listens for others and knows none of its own.
    """
    if not settings.base_url:
        return THIS_MACHINE if settings.host in LOOPBACK else NO_ADDRESS
    parts = urlsplit(settings.base_url)
    if parts.scheme == "https":
        return ENCRYPTED
    return THIS_MACHINE if parts.hostname in LOOPBACK else PLAIN
