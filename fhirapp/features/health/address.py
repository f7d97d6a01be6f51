"""Probes of the server's address, TLS and proxy, and the step that sets them."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from flask import current_app, has_request_context, request

from fhirapp.config import settings
from fhirapp.feature import N_
from fhirapp.probe import GOOD, NOTE, WRONG, Cost, Finding, Probe, SetupStep
from fhirapp.rest.middleware import UNNAMED_PROXY
from fhirapp.server import proxies

_CERTIFICATE_DAYS = 14
_DAY = 86_400
# The timeout of the requests to this server's own address.
_SECONDS = 5.0


def _address() -> Iterator[Finding]:
    now = settings()
    reach = proxies.reach_of(now)
    is_tls = has_request_context() and request.environ.get(proxies.SCHEME) == "https"
    values = {"address": now.base_url}
    if reach == proxies.NO_ADDRESS:
        yield Finding(
            WRONG,
            N_("The server accepts connections from other machines but has no base URL."),
            N_("Set FHIRAPP_BASE_URL to the address that clients use."),
            "/docs/deploy",
        )
    elif not now.base_url:
        yield Finding(GOOD, N_("Only this machine can connect: FHIRAPP_BASE_URL is not set."))
    elif reach == proxies.PLAIN and is_tls:
        text = N_(
            "You are connected through TLS, but FHIRAPP_BASE_URL is %(address)s, so browsers "
            "also send the session cookie unencrypted."
        )
        advice = N_("Set FHIRAPP_BASE_URL to the https:// address.")
        yield Finding(WRONG, text, advice, "/docs/deploy", values)
    elif reach == proxies.PLAIN:
        text = N_(
            "%(address)s is not encrypted: others on the network can read passwords and records."
        )
        advice = N_(
            "Put a reverse proxy with TLS in front, and set FHIRAPP_BASE_URL to an https:// "
            "address."
        )
        yield Finding(WRONG, text, advice, "/docs/deploy", values)
    else:
        yield Finding(GOOD, N_("The base URL is %(address)s."), values=values)
    unnamed = current_app.extensions.get(UNNAMED_PROXY)
    if unnamed or proxies.seems_behind_proxy(now):
        text = (
            N_("%(address)s sends X-Forwarded-For and seems to be a reverse proxy.")
            if unnamed
            else N_("There seems to be a reverse proxy, but FHIRAPP_TRUSTED_PROXY is not set.")
        )
        advice = N_(
            "Set FHIRAPP_TRUSTED_PROXY to the proxy's address or network. Until then, all its "
            "clients count as one, and one client's wrong passwords lock out the others."
        )
        yield Finding(WRONG, text, advice, "/docs/deploy", {"address": unnamed})


def _request_to_base_url() -> Iterator[Finding]:
    if settings().base_url:
        yield _answer_of(settings().base_url)


def _answer_of(base_url: str) -> Finding:
    """Send requests to the address that clients use; judge the answers and the certificate."""
    parts = urlsplit(base_url)
    host, days = parts.hostname or "", None
    values: dict[str, object] = {"address": base_url, "host": parts.netloc}

    def connect() -> HTTPConnection:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return HTTPSConnection(host, parts.port, timeout=_SECONDS, context=context)
        return HTTPConnection(host, parts.port, timeout=_SECONDS)

    connection = connect()
    try:
        with closing(connection):
            connection.request("GET", f"{parts.path}/health/live")
            if isinstance(connection.sock, ssl.SSLSocket):
                days = _days_left(connection.sock)
            answer = connection.getresponse()
            body = answer.read(1000)
    except ssl.SSLCertVerificationError as error:
        text = N_("The certificate of %(host)s is not trusted (%(reason)s).")
        advice = N_("Renew it, or install its issuer's certificate.")
        return Finding(WRONG, text, advice, values=values | {"reason": error.verify_message})
    except (OSError, HTTPException, socket.gaierror) as error:
        text = N_("%(address)s does not answer requests from this machine (%(reason)s).")
        advice = N_("Try the address from another machine.")
        return Finding(NOTE, text, advice, values=values | {"reason": type(error).__name__})
    if answer.status != 200 or b"alive" not in body:
        text = N_("%(address)s/health/live answers %(status)s, but not as this server would.")
        advice = N_("Check where the proxy sends requests.")
        return Finding(WRONG, text, advice, values=values | {"status": answer.status})
    if _is_misdirected(connect(), parts):
        return Finding(
            WRONG,
            N_("Requests for %(host)s arrive here with another name in their Host header."),
            N_(
                "Let the proxy pass on the Host header, or set FHIRAPP_TRUSTED_PROXY to its "
                "address. Until then every page is refused with 421."
            ),
            values=values,
        )
    if days is not None and days < _CERTIFICATE_DAYS:
        text = N_("The certificate of %(host)s expires in %(days)s days.")
        state = WRONG if days < 3 else NOTE
        return Finding(state, text, N_("Renew it."), values=values | {"days": days})
    return Finding(GOOD, N_("%(address)s reaches this server."), values=values)


def _is_misdirected(connection: HTTPConnection, parts: SplitResult) -> bool:
    """Return whether the server refuses its pages because of the Host header that arrives."""
    try:
        with closing(connection):
            connection.request("GET", f"{parts.path}/sign-in")
            return connection.getresponse().status == HTTPStatus.MISDIRECTED_REQUEST
    except (OSError, HTTPException):
        return False


def _days_left(connection: ssl.SSLSocket) -> int | None:
    certificate = connection.getpeercert() or {}
    until = certificate.get("notAfter")
    return int((ssl.cert_time_to_seconds(str(until)) - time.time()) // _DAY) if until else None


def set_time_zone() -> SetupStep:
    """Return the step that sets the clinic's time zone."""
    description = N_("Pages show times in it, and schedules run by it. Now it is the machine's.")
    is_done = bool(settings().timezone) or str(settings().zone) not in ("UTC", "Etc/UTC")
    return SetupStep(
        45, N_("Choose the time zone"), description, "/admin/settings#timezone", is_done
    )


def name_clinic() -> SetupStep:
    """Return the step that names the clinic."""
    description = N_("Shown at the head of pages, on paper, and where an app asks for access.")
    is_done = settings().clinic_name != ""
    path = "/admin/settings#clinic_name"
    return SetupStep(46, N_("Name the clinic"), description, path, is_done, is_optional=True)


def set_address() -> SetupStep:
    """Return the step that sets the address and TLS."""
    description = N_(
        "Needed if other machines use this server: a reverse proxy with TLS, and FHIRAPP_BASE_URL "
        "with https://. Links for new users contain the address, so do this first."
    )
    is_done = proxies.reach_of(settings()) == proxies.ENCRYPTED
    name = N_("Set the address and TLS")
    return SetupStep(10, name, description, "/docs/deploy", is_done, is_optional=True)


PROBES = (
    Probe(N_("Address"), _address, reads_database=False),
    Probe(N_("Address"), _request_to_base_url, Cost.SLOW, reads_database=False),
)
