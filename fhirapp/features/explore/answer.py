"""Send a request as the explorer's form has it, and describe the answer in words.

The request goes out with the token of the signed-in person, as an app would send it; the page shows
both sides. The description says first what happened, how much came and how long it took, or why the
request was refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http.client import responses
from typing import Any, NamedTuple

from werkzeug.datastructures import Headers

from fhirapp import urls
from fhirapp.features.explore.address import HEADERS, SENT_VIA, Address, NoAddressError
from fhirapp.features.explore.explanation import Note, issues_of, note_of
from fhirapp.rest.internal import InternalResponse
from fhirapp.rest.response import FHIR_JSON, FHIR_XML
from fhirapp.web.internal_client import ask
from fhirapp.web.texts import _, numeral

# Larger bodies are not parsed or shown; they are saved as a file, up to MOST_WHOLE.
MOST_BYTES = 8 * 1024 * 1024
MOST_WHOLE = 64 * 1024 * 1024
MOST_RAW = 20_000
_LONGEST_HEADER = 1000
_TEXT = ("text/", "application/json", FHIR_JSON, FHIR_XML, "application/fhir+ndjson")
FORM = "application/x-www-form-urlencoded"
# What a status means for the person; nothing where the answer speaks for itself.
_MEANINGS = {
    202: _("The request was accepted and is in progress. Poll the address in Content-Location."),
    304: _("Not modified: the copy you have is current, so no body was sent."),
    400: _("The server could not read this request."),
    401: _("The token is not valid, or has expired. Sign in again."),
    403: _("Your token does not give access to this."),
    404: _("This resource or address does not exist, or you don't have access to it."),
    405: _("This server is read-only and does not support this request."),
    406: _("This server supports none of the formats in the Accept header or _format."),
    410: _("This resource was deleted. You can still read its history."),
    412: _("A precondition in your headers was not met."),
    413: _("The request is too long."),
    414: _("The address is too long. Send the search as POST."),
    429: _("Too many requests. Wait, then try again."),
    431: _("The headers are too long."),
    503: _("The server is busy. Wait a moment, and send it again."),
}


class Sent(NamedTuple):
    """A request as it was sent, and its answer; the token is cut short."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: str
    answer: InternalResponse

    @property
    def request_lines(self) -> Sequence[str]:
        """The request as HTTP writes it, line by line."""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return [*lines, "", self.body] if self.body else lines

    @property
    def answer_lines(self) -> Sequence[str]:
        """The status line of the answer and its headers."""
        headers = [f"{name}: {value}" for name, value in self.answer.headers.items()]
        return [f"HTTP/1.1 {self.answer.line}", *headers]


def send(
    address: Address, secret: str, form: Mapping[str, str], most: int, *, by_post: bool = False
) -> Sent:
    """Send a request with the headers of the form. See ask() for most.

    Raises NoAddressError where a header cannot be sent, or the POST is no search.
    """
    headers = Headers([("Accept", FHIR_JSON)])
    for header, value in _typed_headers(form).items():
        if not _can_be_sent(value):
            raise NoAddressError(
                _(
                    "The header %(header)s accepts up to %(most)s printable ASCII characters.",
                    header=header,
                    most=_LONGEST_HEADER,
                )
            )
        headers[header] = value
    method, target, body = "GET", str(address), ""
    if by_post:
        if address.searched is None:
            raise NoAddressError(
                _("Only a search can be sent as POST: /fhir/ followed by a resource type.")
            )
        method, target, body = "POST", f"/fhir/{address.searched.name}/_search", address.query
        headers["Content-Type"] = FORM
    shown = [
        ("Host", urls.base_url().partition("://")[2].partition("/")[0]),
        ("Authorization", f"Bearer {secret[:6]}…"),
        *headers.items(),
    ]
    content = body.encode()
    answer = ask(
        target, secret, method=method, headers=headers, body=content, via=SENT_VIA, most=most
    )
    return Sent(method, target, shown, body, answer)


def headers_of(form: Mapping[str, str], *, is_binary: bool = False) -> dict[str, str]:
    """Return the headers with which a program gets the answer of the explorer.

    The default Accept matters only for a Binary: other Accept headers get its bytes.
    """
    default = {"Accept": FHIR_JSON} if is_binary else {}
    typed = _typed_headers(form).items()
    return default | {header: value for header, value in typed if _can_be_sent(value)}


def _typed_headers(form: Mapping[str, str]) -> dict[str, str]:
    values = {header: form.get(name, "").strip() for name, header in HEADERS.items()}
    return {header: value for header, value in values.items() if value}


def _can_be_sent(value: str) -> bool:
    return len(value) <= _LONGEST_HEADER and re.fullmatch(r"[\x20-\x7e]+", value) is not None


class ResponseDescription(NamedTuple):
    """An answer in words; content is its JSON, None where it has none.

    raw is the body as text, as far as it is shown; None where it is not text.
    """

    line: str
    sentence: str
    total: str
    size: str
    time: str
    content: Any
    issues: Sequence[Mapping[str, Any]]
    # Why it was refused.
    refused: Sequence[Note]
    raw: str | None
    is_cut: bool

    @property
    def finds_nothing(self) -> bool:
        return isinstance(self.content, dict) and self.content.get("total") == 0


def described(answer: InternalResponse, *, is_bytes: bool = False) -> ResponseDescription:
    """Describe an answer; is_bytes: the body may be a Binary with any JSON, and is not parsed."""
    phrase = responses.get(answer.status)
    is_refused = answer.status >= 400
    content = None if is_bytes and not is_refused else _content(answer)
    issues = issues_of(content)
    is_text = answer.headers.get("Content-Type", "").startswith(_TEXT) or not answer.body
    return ResponseDescription(
        line=f"{answer.status} {phrase}" if phrase else answer.line,
        sentence=_meaning(answer.status),
        total=_total(content),
        size=_size(answer.size),
        time=_time(answer.seconds),
        content=content,
        issues=issues,
        refused=[*filter(lambda note: note.sentence, map(note_of, issues))] if is_refused else (),
        raw=answer.body[:MOST_RAW].decode(errors="replace") if is_text else None,
        is_cut=is_text and len(answer.body) > MOST_RAW,
    )


def _content(answer: InternalResponse) -> Any:
    if "json" not in answer.headers.get("Content-Type", "") or len(answer.body) > MOST_BYTES:
        return None
    try:
        return answer.json()
    except ValueError:
        return None


def _meaning(status: int) -> str:
    if status in _MEANINGS:
        return _(_MEANINGS[status])
    if status >= 500:
        return _("This is a server error, not a problem with your request.")
    return _("The request was rejected.") if status >= 400 else ""


def _total(content: Any) -> str:
    """Return how many resources an answer has, or which one it is."""
    if not isinstance(content, dict):
        return ""
    kind = content.get("resourceType", "")
    if kind == "Bundle":
        return _total_of_bundle(content)
    if kind == "OperationOutcome" or "id" not in content:
        return ""
    version = content.get("meta", {}).get("versionId")
    name = f"{kind}/{content['id']}"
    return _("%(name)s, version %(version)s", name=name, version=version) if version else name


def _total_of_bundle(bundle: Mapping[str, Any]) -> str:
    entries, total = bundle.get("entry", ()), bundle.get("total")
    if bundle.get("type") == "history":
        versions = len(entries) if total is None else total
        return _("1 version") if versions == 1 else _("%(count)s versions", count=versions)
    matches = sum(entry.get("search", {}).get("mode") == "match" for entry in entries)
    if total is None:
        return _("%(count)s on this page", count=matches or len(entries))
    hits = _("1 match") if total == 1 else _("%(count)s matches", count=total)
    if matches in (0, total):
        return hits
    return _("%(hits)s, %(count)s on this page", hits=hits, count=matches)


def _size(count: int) -> str:
    """Return a number of bytes as people say it; no line breaks before its unit."""
    if count < 1000:
        return _("%(count)s bytes", count=count)
    return (
        f"{numeral(count / 1000, 1)}\N{NO-BREAK SPACE}kB"
        if count < 999_950
        else f"{numeral(count / 1_000_000, 1)}\N{NO-BREAK SPACE}MB"
    )


def _time(seconds: float) -> str:
    """Return a duration as people say it."""
    return f"{numeral(seconds * 1000)} ms" if seconds < 9.9995 else f"{numeral(seconds, 1)} s"
