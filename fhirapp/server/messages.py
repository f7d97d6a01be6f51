"""How a request is read and an answer written, where waitress's own way is not ours."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import ErrorTask, WSGITask

from fhirapp.auth.protector import VIA_PROXY
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import outcome
from fhirapp.rest.middleware import MAX_BODY, MAX_HEADERS
from fhirapp.rest.response import FHIR_JSON
from fhirapp.server.proxies import DROPPED, SCHEME

RETRY_SECONDS = 5
# Where the environment of a request says how long it waited for a thread.
WAITED = "fhirapp.waited"


class ServerBusy:
    """What waitress calls a request's error."""

    code = HTTPStatus.SERVICE_UNAVAILABLE


class Request(HTTPRequestParser):  # type: ignore[misc]
    """A request as it is read; what waitress cannot read is refused, not broken off."""

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
        except ParsingError:
            raise
        except ValueError:
            # An address that urlsplit() refuses: http://[/
            raise ParsingError("Request target is invalid") from None
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            # RFC 9112 §6.3: it may be an attempt at smuggling; nothing after it is read.
            self.connection_close = True


class RefusalTask(ErrorTask):  # type: ignore[misc]
    """Waitress's own refusals (431, 413, a request that is no HTTP) as OperationOutcomes.

    Of a form of the pages, which is read by a person, a sentence.
    """

    def execute(self) -> None:
        error = _REFUSALS.get(self.request.error.code) or outcome.InvalidParameter(
            "request", "is not HTTP that this server can read"
        )
        body, media = fhir_json.dumps_indented(error.outcome()), FHIR_JSON
        sentence = _SENTENCES.get(error.status)
        if sentence and not self.request.path.startswith(("/fhir", "/api", "/oauth")):
            body, media = sentence.encode(), "text/plain; charset=utf-8"
        self.status = f"{error.status} {HTTPStatus(error.status).phrase}"
        self.response_headers.append(("Content-Type", media))
        self.response_headers += error.headers.items()
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


_SENTENCES = {
    413: (
        "What you sent is larger than 1 MB, so nothing was done. Go back. To import larger files,"
        " allow JavaScript for this site, or copy them to the server and run there: fhirapp import"
        " FILES\n"
    ),
    503: "So much is asked of this server that your turn did not come. Try again in a moment.\n",
}
_REFUSALS: dict[int, outcome.FhirError] = {
    413: outcome.BodyTooLong(f"The body is longer than {MAX_BODY} bytes."),
    431: outcome.HeadersTooLong(f"The headers are longer than {MAX_HEADERS} bytes."),
    500: outcome.InternalError("Something went wrong here."),
    503: outcome.Unavailable(
        "So much is asked of this server that this request's turn did not come; try again.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    ),
}


class ResponseTask(WSGITask):  # type: ignore[misc]
    """An answer that leaves the connection open where waitress closes it, and the other way."""

    def get_environment(self) -> dict[str, Any]:
        """Return the environ, with the client that a proxy names and nothing else of it."""
        environ: dict[str, Any] = super().get_environment()
        # RFC 9112 §3.2.2: the path may be empty. Flask would redirect to the host that it names.
        environ["PATH_INFO"] = environ["PATH_INFO"] or "/"
        environ["REMOTE_ADDR"] = self.channel.client
        environ[VIA_PROXY] = self.channel.is_proxy
        environ[WAITED] = time.monotonic() - self.channel.waiting_since
        scheme = environ.get("HTTP_X_FORWARDED_PROTO", "") if self.channel.is_proxy else ""
        environ[SCHEME] = scheme.strip().lower()
        for name in DROPPED:
            environ.pop(f"HTTP_{name}", None)
        return environ

    def set_close_on_finish(self) -> None:
        """Close, but not because there is no body: each 304 would cost a new connection."""
        wanted = self.request.headers.get("CONNECTION", "").lower()
        if self.has_body or self.version != "1.1" or wanted == "close":
            super().set_close_on_finish()

    def build_response_header(self) -> bytes:
        """Close after a body that is larger than what is buffered, and where others wait for room.

        Else a client that sends its next requests at once, and reads nothing, holds the thread.
        """
        is_large = (self.content_length or 0) > self.channel.adj.outbuf_high_watermark
        if (
            (is_large and self.request.command != "HEAD")
            or self.request.connection_close
            or not self.channel.server.has_room
        ):
            super().set_close_on_finish()
        header: bytes = super().build_response_header()
        return header
