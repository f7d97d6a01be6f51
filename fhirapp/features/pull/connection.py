"""One request to another server: bounded in size and patience, redirects followed with care.

No token goes with a redirect to another origin, nothing from https to http. Certificates are
checked against the system's authorities, or those in the file that SSL_CERT_FILE names; proxies are
those of the environment (https_proxy, no_proxy).

When to try again: what the server asks for, or longer each time. RFC 9110 §10.2.3
"""

from __future__ import annotations

import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from fhirapp.features.pull.address import (
    RemoteError,
    TransientError,
    diagnostics_of,
    following,
    origin,
    place,
)

FIRST_SECONDS = 1.0
MOST_SECONDS = 60.0
# Who asks for more is left alone: the next run goes on.
LONGEST_SECONDS = 6 * 3600.0
Got = TypeVar("Got")


@dataclass(frozen=True)
class Clock:
    """What time it is, in seconds since 1970, and how to let some pass."""

    now: Callable[[], float] = time.time
    wait: Callable[[float], None] = time.sleep


def parse_retry_after(retry_after: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After asks for, at least one; None where it is unreadable."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        # Longer than that is as good as never.
        return max(1.0, float(text[:9]))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(1.0, moment.timestamp() - now)


def next_wait(failures: int, requested: float | None = None) -> float:
    """Return how long to wait after so many failures. Raises RemoteError where that is too long."""
    if requested is None:
        return float(min(FIRST_SECONDS * 2 ** min(failures - 1, 10), MOST_SECONDS))
    if requested > LONGEST_SECONDS:
        raise RemoteError(
            f"The server asks to come back in {round(requested / 3600)} hours; run this again "
            "then, and it continues."
        )
    return requested


def retry(what: str, attempts: int, clock: Clock, attempt: Callable[[], Got]) -> Got:
    """Try until an attempt succeeds; raises RemoteError after so many failures."""
    failures = 0
    while True:
        try:
            return attempt()
        except TransientError as failure:
            failures += 1
            if failures >= attempts:
                raise RemoteError(
                    f"{what} ({failure}), after {failures} attempts; run this again later, and it "
                    "continues."
                ) from None
            clock.wait(next_wait(failures, failure.wait))


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_PASSING = frozenset({408, 425, 429, 502, 503, 504})
_BLOCK = 1 << 16
GZIP = ("gzip", "x-gzip")

# Returns what proves to an address that we may ask there; None for nothing.
Authorize = Callable[[str], str | None]


@dataclass(frozen=True)
class Bounds:
    """Limits for another server: bytes and seconds.

    A connection that sends less than least_bytes in `seconds` counts as lost.
    """

    seconds: float = 60.0
    least_bytes: int = 1024
    answer_bytes: int = 1 << 20
    manifest_bytes: int = 16 << 20
    file_bytes: int = 100 << 30
    # Left for others on the disk.
    free_bytes: int = 256 << 20


class Wire:
    """Sends requests, each over a connection of its own."""

    def __init__(self, bounds: Bounds, clock: Clock) -> None:
        self.bounds = bounds
        self._clock = clock
        self._opener = OpenerDirector()
        self._opener.addheaders = [("User-Agent", "fhirapp")]
        for handler in (ProxyHandler(), _Plain(bounds), _Secure(bounds)):
            self._opener.add_handler(handler)

    @contextmanager
    def open(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        *,
        authorize: Authorize = lambda _address: None,
        body: bytes | None = None,
    ) -> Iterator[HTTPResponse]:
        """Open an answer, whatever its status; the redirects of a GET are followed.

        authorize is asked anew for each address. Raises TransientError, RemoteError.
        """
        for _ in range(_MOST_REDIRECTS + 1):
            proof = authorize(address)
            more = {"Authorization": proof} if proof else {}
            with self._send(Request(address, body, {**headers, **more}, method=method)) as answer:
                location = answer.getheader("Location")
                if method != "GET" or answer.status not in _REDIRECTS or not location:
                    yield answer
                    return
            address = following(address, location)
        raise RemoteError(f"{place(address)} is redirected again and again; nothing was fetched.")

    def fault(self, what: str, address: str, answer: HTTPResponse) -> Exception:
        """Return what to raise for an answer that is none of those that were hoped for."""
        try:
            text, passes = diagnostics_of(
                self.read(answer, self.bounds.answer_bytes, place(address))
            )
        except (TransientError, RemoteError):
            text, passes = "", False
        reason = f"{place(address)} answers {answer.status}{text}"
        if answer.status in _PASSING or (passes and answer.status >= 500):
            wait = parse_retry_after(answer.getheader("Retry-After"), self._clock.now())
            return TransientError(reason, wait)
        return RemoteError(f"{what}: {reason}.")

    def read(self, answer: HTTPResponse, most: int, name: str) -> bytes:
        """Return a small body, decoded.

        Raises TransientError, and RemoteError where it is larger.
        """
        too_large = RemoteError(f"{name} answers with more than {most} bytes; nothing was fetched.")
        if (answer.length or 0) > most:
            raise too_large
        body = b""
        for block in blocks(answer):
            body += block
            if len(body) > most:
                raise too_large
        if answer.length:
            raise TransientError("the connection was lost")
        if (answer.getheader("Content-Encoding") or "").lower() in GZIP:
            try:
                body = zlib.decompressobj(31).decompress(body, most + 1)
            except zlib.error:
                raise TransientError("the answer is damaged") from None
            if len(body) > most:
                raise too_large
        return body

    def _send(self, request: Request) -> HTTPResponse:
        origin(request.full_url)
        try:
            answer: Any = self._opener.open(request, timeout=self.bounds.seconds)
        except (OSError, HTTPException) as error:
            raise _failure(request.full_url, error) from None
        except ValueError:
            raise RemoteError(f"{place(request.full_url)} names no host.") from None
        found: HTTPResponse = answer
        return found


def blocks(answer: HTTPResponse) -> Iterator[bytes]:
    """Yield a body as it comes. Raises TransientError where the connection is lost or too slow."""
    try:
        while block := answer.read1(_BLOCK):
            yield block
    except (OSError, HTTPException) as error:
        raise TransientError(_reason(error)) from None


def _failure(address: str, error: Exception) -> Exception:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return RemoteError(
            f"The certificate of {place(address)} is not trusted ({cause.verify_message}); "
            "SSL_CERT_FILE names a file of authorities that are."
        )
    return TransientError(f"{place(address)}: {_reason(cause)}")


def _reason(cause: Any) -> str:
    if isinstance(cause, TimeoutError):
        return "it takes too long"
    # http.client's words may be what the server said.
    reason = getattr(cause, "strerror", None) if isinstance(cause, OSError) else None
    return str(reason or "the connection was lost")


class _Steady(RawIOBase):
    """What a socket receives, as long as enough comes in each stretch of time."""

    def __init__(self, line: Any, bounds: Bounds) -> None:
        self._line, self._bounds = line, bounds
        self._since, self._count = time.monotonic(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._line.readinto(buffer) or 0
        self._count += count
        now = time.monotonic()
        if now - self._since >= self._bounds.seconds:
            if self._count < self._bounds.least_bytes:
                raise TimeoutError
            self._since, self._count = now, 0
        return count

    def close(self) -> None:
        self._line.close()
        super().close()


def _steady(kind: type[HTTPConnection], bounds: Bounds) -> type[HTTPConnection]:
    """Return a kind of connection whose answers must come steadily."""

    class Steady(HTTPResponse):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.fp = BufferedReader(_Steady(self.fp.detach(), bounds), _BLOCK)

    class Connection(kind):  # type: ignore[valid-type, misc]
        response_class = Steady

    return Connection


class _Plain(HTTPHandler):
    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self._kind = _steady(HTTPConnection, bounds)

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._kind, req)


class _Secure(HTTPSHandler):
    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self._kind = _steady(HTTPSConnection, bounds)
        # Made here, so that it reads what SSL_CERT_FILE names now.
        self._authorities = ssl.create_default_context()

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._kind, req, context=self._authorities)
