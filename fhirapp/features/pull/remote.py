"""Requests to another server: addresses and errors, retries, and bounds of size and time.

Redirects are followed here, since requests would send a token along and read a body of any size.
Nothing is fetched from http where https led to it. Certificates are checked against the system's
authorities, or those in the file that SSL_CERT_FILE names; proxies are those of the environment
(https_proxy, no_proxy).

A message is one sentence; text of the other server in it is sanitized.
"""

from __future__ import annotations

import re
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from gzip import BadGzipFile, GzipFile
from http.client import HTTPResponse
from io import BufferedReader, RawIOBase
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit, urlunsplit

from requests import PreparedRequest, Request, RequestException, Response
from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidURL
from requests.utils import get_environ_proxies
from urllib3.exceptions import HTTPError
from werkzeug.http import parse_date

from fhirapp.config import ConfigurationError
from fhirapp.features.imports.export_address import EXPORT, sanitize
from fhirapp.fhir import json as fhir_json
from fhirapp.url_syntax import PORTS, normalise_authority, split_address

_READABLE = re.compile(r"[!-~]+")
_FIRST_SECONDS = 1.0
_MOST_SECONDS = 60.0
# A server that asks for more is not waited for: the next run continues.
_LONGEST_SECONDS = 6 * 3600.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_TRANSIENT = frozenset({408, 425, 429, 502, 503, 504})
_BLOCK = 1 << 20
GZIP = ("gzip", "x-gzip")
_GZIP_MAGIC = b"\x1f\x8b"
_HEADERS = {"User-Agent": "fhirapp", "Accept-Encoding": "gzip", "Connection": "close"}
_LOST = "the connection was lost"
Got = TypeVar("Got")


class RemoteError(ConfigurationError):
    """Another server's records cannot be fetched; str() is a sentence that says why."""


class ExportExpired(RemoteError):
    """The server no longer has the export."""


class FileGone(RemoteError):
    """A file of an export is not available at its address, or not any more."""


class TransientError(Exception):
    """A request failed, and a retry may succeed; str() says why.

    wait is the server's Retry-After, in seconds.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class DamagedError(TransientError):
    """The content that came is damaged, though the connection was not lost."""


def diagnostics_of(body: bytes) -> tuple[str, bool]:
    """Return the text of an OperationOutcome or OAuth error, and whether it is called transient.

    The text begins with ": " unless it is empty.
    """
    try:
        content = fhir_json.loads(body)
        issues = content.get("issue") or []
        texts = [
            issue.get("diagnostics") or issue.get("details", {}).get("text") or issue.get("code")
            for issue in issues
        ]
        texts += [content.get("error"), content.get("error_description")]
        is_transient = any(issue.get("code") == "transient" for issue in issues)
    except (ValueError, TypeError, AttributeError):
        return "", False
    text = sanitize(" ".join(part for part in texts if isinstance(part, str)))
    return f": {text.rstrip('.')}" if text else "", is_transient


def origin(address: str) -> str:
    """Return scheme://host[:port] of an address. Raises RemoteError if it cannot be requested."""
    parts = split_address(address)
    authority = normalise_authority(parts.netloc.rpartition("@")[2], parts.scheme)
    if parts.scheme not in PORTS or not authority or not _READABLE.fullmatch(address):
        raise RemoteError(f"{sanitize(address)} is not an http:// or https:// address.")
    if "@" in parts.netloc:
        raise RemoteError("An address must not hold a user name or a password; leave them out.")
    return f"{parts.scheme}://{authority}"


def resolve_url(address: str, reference: str) -> str:
    """Resolve a reference in the answer of an address. Raises RemoteError from https to http."""
    try:
        url = urljoin(address, reference.strip())
    except ValueError:
        raise RemoteError(f"{sanitize(reference)} is not an http:// or https:// address.") from None
    if origin(url).startswith("http:") and origin(address).startswith("https:"):
        raise RemoteError(
            f"{redact_url(address)} leads to {redact_url(url)}, without the encryption that it has "
            "itself; nothing is fetched there."
        )
    return url


def redact_url(address: str) -> str:
    """Return an address for messages: shortened, and without its query, which may hold a secret."""
    try:
        parts = urlsplit(address)
        return sanitize(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")))
    except ValueError:
        return sanitize(address)


def is_export(address: str) -> bool:
    """Say whether a request to an address starts an export: …/$export of the system, a Group…"""
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
    """Return the possible FHIR bases of an address of a server, the most likely first."""
    known = fhir_base(address)
    if known is not None:
        return [known]
    parts = urlsplit(address)
    steps = parts.path.rstrip("/").split("/")[:-1] or [""]
    paths = ["/".join(steps[:count]) for count in range(len(steps), 0, -1)]
    return [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in paths]


@dataclass(frozen=True)
class Clock:
    """The time in seconds since 1970, and a function that waits."""

    now: Callable[[], float] = time.time
    wait: Callable[[float], None] = time.sleep


def parse_retry_after(retry_after: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After asks for, at least one; None if it is invalid.

    Source: RFC 9110 §10.2.3.
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        # Nine digits are more than any wait that is accepted.
        return max(1.0, float(text[:9]))
    moment = parse_date(text)
    return max(1.0, moment.timestamp() - now) if moment else None


def next_wait(failures: int, requested: float | None = None) -> float:
    """Return the seconds to wait after so many failures. Raises RemoteError for too many."""
    if requested is None:
        return float(min(_FIRST_SECONDS * 2 ** min(failures - 1, 10), _MOST_SECONDS))
    if requested > _LONGEST_SECONDS:
        raise RemoteError(
            f"The server asks to come back in {round(requested / 3600)} hours; run this again "
            "then, and it continues."
        )
    return requested


def retry(what: str, attempts: int, clock: Clock, attempt: Callable[[], Got]) -> Got:
    """Try until an attempt succeeds; raises RemoteError after so many failures, or two damages."""
    failures = damages = 0
    while True:
        try:
            return attempt()
        except TransientError as failure:
            failures += 1
            damages += isinstance(failure, DamagedError)
            if damages > 1:
                raise RemoteError(f"{what}: {failure}, twice.") from None
            if failures >= attempts:
                raise RemoteError(
                    f"{what} ({failure}), after {failures} attempts; run this again later, and it "
                    "continues."
                ) from None
            clock.wait(next_wait(failures, failure.wait))


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


class RemoteServer:
    """Another server, without credentials; each request has a connection of its own."""

    # Added to the message where the server answers 401.
    _advice = "; the server wants a client that it knows (--client-id and --key)"

    def __init__(self, bounds: Bounds, clock: Clock) -> None:
        self.bounds, self.clock = bounds, clock

    def trusts(self, _address: str) -> bool:
        """Say whether the credentials may be sent to an address."""
        return True

    def _credentials(self, _address: str) -> dict[str, str]:
        """Return the headers that authorize a request to an address."""
        return {}

    def _renew(self) -> bool:
        """Drop credentials that were refused; return whether there are others."""
        return False

    @contextmanager
    def open(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        *,
        form: Mapping[str, str] | None = None,
        with_token: bool = True,
    ) -> Iterator[Response]:
        """Open an answer of any status; the redirects of a GET are followed.

        A refused token is renewed once. Raises TransientError, RemoteError.
        """
        redirects, is_renewed = 0, False
        while redirects <= _MOST_REDIRECTS:
            credentials = self._credentials(address) if with_token else {}
            request = Request(method, address, {**_HEADERS, **headers, **credentials}, data=form)
            # Closed, lest another request is sent over a connection that the server closes now.
            with (
                closing(_SteadyAdapter(self.bounds)) as adapter,
                self._send(adapter, request, address) as answer,
            ):
                location = answer.headers.get("Location")
                if answer.status_code == 401 and credentials and not is_renewed and self._renew():
                    is_renewed = True
                elif method == "GET" and answer.status_code in _REDIRECTS and location:
                    redirects += 1
                    address = resolve_url(address, location)
                else:
                    yield answer
                    return
        raise RemoteError(
            f"{redact_url(address)} is redirected again and again; nothing was fetched."
        )

    def _send(self, adapter: HTTPAdapter, request: Request, address: str) -> Response:
        origin(address)
        name = redact_url(address)
        authorities = ssl.get_default_verify_paths()
        try:
            # No session: it would send what .netrc has, keep cookies, and follow redirects.
            prepared = request.prepare()
            return adapter.send(
                prepared,
                stream=True,
                timeout=self.bounds.seconds,
                verify=authorities.cafile or authorities.capath or True,
                proxies=get_environ_proxies(address),
            )
        except InvalidURL:
            raise RemoteError(f"{name} names no host.") from None
        except RequestException as error:
            for cause in _causes(error):
                if isinstance(cause, ssl.SSLCertVerificationError):
                    raise RemoteError(
                        f"The certificate of {name} is not trusted ({cause.verify_message}); "
                        "SSL_CERT_FILE names a file of authorities that are."
                    ) from None
            raise TransientError(f"{name}: {_reason(error)}") from None

    def retry_after(self, answer: Response) -> float | None:
        """Return the seconds that an answer asks to wait."""
        return parse_retry_after(answer.headers.get("Retry-After"), self.clock.now())

    def fault(self, what: str, address: str, answer: Response) -> Exception:
        """Return the error for an answer of an unexpected status."""
        status = answer.status_code
        try:
            text, is_transient = diagnostics_of(
                self.read(answer, address, self.bounds.answer_bytes)
            )
        except (TransientError, RemoteError):
            text, is_transient = "", False
        reason = f"{redact_url(address)} answers {status}{text}"
        if status in _TRANSIENT or (is_transient and status >= 500):
            return TransientError(reason, self.retry_after(answer))
        return RemoteError(f"{what}{self._advice if status == 401 else ''}: {reason}.")

    def read(self, answer: Response, address: str, most: int) -> bytes:
        """Return a small body, decoded. Raises TransientError; RemoteError where it is larger."""
        too_large = (
            f"{redact_url(address)} answers with more than {most} bytes; nothing was fetched."
        )
        return b"".join(Body(answer, most, too_large).decoded("answer"))


class Body(RawIOBase):
    """The body of an answer as it is received; length is what the server announces, if it does.

    Raises TransientError if the connection is lost or too slow, and RemoteError with the message
    too_large if more than `most` bytes are announced, received or decoded.
    """

    def __init__(self, answer: Response, most: int, too_large: str) -> None:
        self._raw, self._most, self._too_large = answer.raw, most, too_large
        self.encoding = answer.headers.get("Content-Encoding", "").strip().lower()
        self.length: int | None = answer.raw.length_remaining
        # Whether the server marks the end, so that a body that ends too soon is noticed.
        self.is_framed = self.length is not None or bool(answer.raw.chunked)
        self.received = 0
        self._check_size(self.length or 0)

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise RemoteError(self._too_large)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._raw.read1(len(buffer), decode_content=False)
        except HTTPError as error:
            reason = _reason(error)
            if reason == _LOST and self.length is not None:
                reason += f" after {self.received} of {self.length} bytes"
            raise TransientError(reason) from None
        self.received += len(block)
        self._check_size(self.received)
        buffer[: len(block)] = block
        return len(block)

    def decoded(self, noun: str) -> Iterator[bytes]:
        """Yield the body without gzip, of any number of members, which some servers do not tell.

        Raises DamagedError too.
        """
        reader = BufferedReader(self, _BLOCK)
        is_packed = self.encoding in GZIP or reader.peek(2).startswith(_GZIP_MAGIC)
        file = GzipFile(fileobj=reader) if is_packed else reader
        size = 0
        try:
            while block := file.read(_BLOCK):
                size += len(block)
                self._check_size(size)
                yield block
        except EOFError:
            raise DamagedError(f"the {noun} ends too soon") from None
        except (BadGzipFile, zlib.error):
            raise DamagedError(f"the {noun} is damaged") from None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error of requests, and those that led to it."""
    while error is not None:
        yield error
        error = error.__context__


def _reason(error: Exception) -> str:
    """Return the system's reason why a connection was lost; the server's words are not in it."""
    for cause in _causes(error):
        if isinstance(cause, TimeoutError):
            return "it takes too long"
        if isinstance(cause, OSError) and cause.strerror:
            return str(cause.strerror)
    return _LOST


class _SteadyAdapter(HTTPAdapter):
    """Sends requests whose answers, headers included, must come steadily."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self._bounds = bounds

    def get_connection_with_tls_context(
        self, request: PreparedRequest, *settings: Any, **named: Any
    ) -> Any:
        pool: Any = super().get_connection_with_tls_context(request, *settings, **named)
        kind = type(pool).ConnectionCls
        steady = {"response_class": partial(_SteadyResponse, self._bounds)}
        pool.ConnectionCls = type("SteadyConnection", (kind,), steady)
        return pool


class _SteadyResponse(HTTPResponse):
    def __init__(self, bounds: Bounds, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fp = BufferedReader(_SteadySocket(self.fp.detach(), bounds), 1 << 16)


class _SteadySocket(RawIOBase):
    """A connection that times out if too little is received in a stretch of time."""

    def __init__(self, raw: RawIOBase, bounds: Bounds) -> None:
        self._raw, self._bounds = raw, bounds
        self._since, self._count = time.monotonic(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._raw.readinto(buffer) or 0
        self._count += count
        now = time.monotonic()
        if now - self._since >= self._bounds.seconds:
            if self._count < self._bounds.least_bytes:
                raise TimeoutError
            self._since, self._count = now, 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
