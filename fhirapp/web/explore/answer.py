"""An answer in words, before anything else: what came, how much, how long; or what was refused.

Send what the address says, with the token of who signed in, as an app would; keep both sides.
Where the explorer's page leads on to: other addresses, asked as this one was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import request
from werkzeug.datastructures import Headers

from fhirapp.config import base_url
from fhirapp.definition import Definition, types
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.rest.negotiation import FHIR_JSON
from fhirapp.web.explore.address import Address, NoAddressError
from fhirapp.web.explore.explanation import issues_of, note_of
from fhirapp.web.explore.suggestions import SENT_VIA
from fhirapp.web.internal_client import Answer, ask
from fhirapp.web.texts import _

# A body is parsed and shown up to here; what is longer is fetched whole, up to there.
MOST_BYTES = 8 * 1024 * 1024
MOST_WHOLE = 64 * 1024 * 1024
MOST_RAW = 60_000
_TEXT = ("text/", "application/json", "application/fhir+json", "application/fhir+ndjson")


class Refused(NamedTuple):
    """Why a request was refused: the parameter, where it lies in one, and what may be right."""

    parameter: str
    sentence: str
    advice: str = ""


class Shown(NamedTuple):
    """An answer, told: in a sentence, then what there is of it; content is its JSON, if it has any.

    raw is the body as text, as far as it is shown, None where it is no text.
    """

    line: str
    sentence: str
    found: str
    size: str
    time: str
    content: Any
    issues: Sequence[Mapping[str, Any]]
    refused: Sequence[Refused]
    raw: str | None
    is_cut: bool


def shown(answer: Answer, searched: Definition | None, *, is_bytes: bool = False) -> Shown:
    """Return what an answer says.

    Of is_bytes, which may be those of a Binary, nothing is made: they may be any JSON.
    """
    content = None if is_bytes and answer.status < 400 else _content(answer)
    issues = issues_of(content) if content is not None else ()
    kind = answer.headers.get("Content-Type", "")
    is_text = kind.startswith(_TEXT) or not answer.body
    raw = answer.body[:MOST_RAW].decode(errors="replace") if is_text else None
    return Shown(
        _line(answer),
        _sentence(answer.status),
        _found(content),
        _size(answer.size),
        _time(answer.seconds),
        content,
        issues,
        _refused(issues, searched) if answer.status >= 400 else (),
        raw,
        is_text and len(answer.body) > MOST_RAW,
    )


def _content(answer: Answer) -> Any:
    if "json" not in answer.headers.get("Content-Type", "") or len(answer.body) > MOST_BYTES:
        return None
    try:
        return answer.json()
    except ValueError:
        return None


def _line(answer: Answer) -> str:
    """Return the status as people know it: 404 Not Found."""
    try:
        return f"{answer.status} {HTTPStatus(answer.status).phrase}"
    except ValueError:
        return answer.line


def _sentence(status: int) -> str:
    """Return what a status means, for whoever asked; empty where the answer speaks for itself."""
    told = {
        202: _("It was taken on, and goes on by itself: Content-Location says where to ask."),
        304: _("Nothing changed: the copy you have still holds, so no body came."),
        400: _("The server could not read this request as it stands."),
        401: _("The token is not valid, or not valid any more. Sign in again."),
        403: _("Your token does not reach this far."),
        404: _("There is no such record or address here, or you may not see it."),
        405: _("This server only reads: such a request it does not take."),
        406: _("The Accept header, or _format, allows nothing that this server can answer."),
        410: _("This record was deleted. Its history may still be read."),
        412: _("The condition in your headers does not hold."),
        413: _("What you sent is too long."),
        414: _("The address is too long. Send the search as POST."),
        429: _("Too many requests. Wait a while."),
        431: _("The headers are too long."),
        503: _("The server is busy. Wait a moment, and send it again."),
    }
    if status in told:
        return told[status]
    if status >= 500:
        return _("It was a mistake of this server's, not yours.")
    return _("The request was refused.") if status >= 400 else ""


def _refused(issues: Sequence[Mapping[str, Any]], searched: Definition | None) -> Sequence[Refused]:
    notes = map(note_of, issues)
    return [
        Refused(note.parameter, note.sentence, _advice(note.parameter, searched))
        for note in notes
        if note.sentence
    ]


def _advice(parameter: str, searched: Definition | None) -> str:
    """Return what to do about a chained parameter; the server itself suggests a similar name."""
    name, dot, _rest = parameter.partition(":")[0].partition(".")
    if searched is None or not dot:
        return ""
    return _("No chain is followed here: find the id first, then search by %(name)s.", name=name)


def _found(content: Any) -> str:
    """Return how many there are in an answer, or which record it is."""
    if not isinstance(content, dict):
        return ""
    kind = content.get("resourceType", "")
    if kind == "Bundle":
        entries = content.get("entry", ())
        if content.get("type") == "history":
            total = content.get("total", len(entries))
            return _("1 version") if total == 1 else _("%(count)s versions", count=total)
        matches = [one for one in entries if one.get("search", {}).get("mode") == "match"]
        total = content.get("total")
        if total is None:
            return _("%(count)s on this page", count=len(matches) or len(entries))
        hits = _("1 hit") if total == 1 else _("%(count)s hits", count=total)
        return (
            hits
            if len(matches) in (0, total)
            else _("%(hits)s, %(count)s of them here", hits=hits, count=len(matches))
        )
    if kind == "OperationOutcome" or "id" not in content:
        return ""
    version = content.get("meta", {}).get("versionId")
    name = f"{kind}/{content['id']}"
    return _("%(name)s, version %(version)s", name=name, version=version) if version else name


def _size(count: int) -> str:
    if count < 1000:
        return _("%(count)s bytes", count=count)
    return f"{count / 1000:.1f} kB" if count < 999_950 else f"{count / 1_000_000:.1f} MB"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 9.9995 else f"{seconds:.1f} s"


# What can be said beside the address: the header, and how the form names it.
HEADERS: Mapping[str, str] = {
    "accept": "Accept",
    "prefer": "Prefer",
    "if_none_match": "If-None-Match",
}
_LONGEST = 1000
_FORM = "application/x-www-form-urlencoded"


class Sent(NamedTuple):
    """A request, as it went over, and its answer; the token is cut short."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: str
    answer: Answer

    @property
    def request_lines(self) -> Sequence[str]:
        """The request as HTTP writes it, line by line."""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return [*lines, "", self.body] if self.body else lines

    @property
    def answer_lines(self) -> Sequence[str]:
        """The first line of the answer and its headers."""
        named = [f"{name}: {value}" for name, value in self.answer.headers.items()]
        return [f"HTTP/1.1 {self.answer.line}", *named]


def send(
    address: Address, secret: str, given: Mapping[str, str], most: int, *, by_post: bool = False
) -> Sent:
    """Send a request; given are the headers by the form's names. See ask() for most.

    Raises NoAddressError where a header cannot be sent, or what is no search should be posted.
    """
    headers = Headers([("Accept", FHIR_JSON)])
    for header, value in _typed(given).items():
        headers[header] = _checked(header, value)
    method, target, body = "GET", str(address), ""
    if by_post:
        searched = address.searched
        if searched is None:
            raise NoAddressError(
                _("Only a search can be sent as POST: /fhir/, then the name of a type.")
            )
        method, target, body = "POST", f"/fhir/{searched.name}/_search", address.query
        headers["Content-Type"] = _FORM
    shown = [
        ("Host", base_url().partition("://")[2].partition("/")[0]),
        ("Authorization", f"Bearer {secret[:6]}…"),
        *headers.items(),
    ]
    answer = ask(
        target,
        secret,
        method=method,
        headers=headers,
        body=body.encode(),
        via=SENT_VIA,
        most=most,
    )
    return Sent(method, target, shown, body, answer)


def said(given: Mapping[str, str], *, is_binary: bool = False) -> dict[str, str]:
    """Return the headers that a program has to send to be answered as the explorer is.

    Which type is accepted by default matters for a Binary alone: others get its bytes.
    """
    own = {"Accept": FHIR_JSON} if is_binary else {}
    typed = {header: value for header, value in _typed(given).items() if _can_be_sent(value)}
    return own | typed


def _typed(given: Mapping[str, str]) -> dict[str, str]:
    values = {header: given.get(name, "").strip() for name, header in HEADERS.items()}
    return {header: value for header, value in values.items() if value}


def _can_be_sent(value: str) -> bool:
    return len(value) <= _LONGEST and re.fullmatch(r"[\x20-\x7e]+", value) is not None


def _checked(header: str, value: str) -> str:
    if not _can_be_sent(value):
        raise NoAddressError(
            _(
                "The header %(header)s takes up to %(most)s letters, digits and signs of ASCII.",
                header=header,
                most=_LONGEST,
            )
        )
    return value


PAGE = "/explore"
# What goes with an address from page to page, beside it.
BESIDE = ("view", "method", "as", "lesson", *HEADERS)
# What another record is not asked for with: it is about the one that is shown.
_OF_THIS = {"method": "", "narrow": "", "if_none_match": ""}
_LESSON = re.compile(r"[a-z0-9-]{1,100}")
_RELATIVE = re.compile(rf"([A-Z][A-Za-z]+)/{ID_PATTERN}(?:/_history(?:/{ID_PATTERN})?)?")


def pages_of(content: Any) -> list[tuple[str, str]]:
    """Return the links of a Bundle to its other pages, in words."""
    words = {"previous": _("Page before"), "next": _("Next page")}
    is_bundle = isinstance(content, dict) and content.get("resourceType") == "Bundle"
    links = content.get("link", ()) if is_bundle else ()
    found = {one.get("relation"): link(str(one.get("url"))) for one in links}
    return [(words[name], href) for name in words if (href := found.get(name))]


def lesson() -> str:
    """Return the name of the lesson that led here; empty where none did."""
    name = request.args.get("lesson", "")
    return name if _LESSON.fullmatch(name) else ""


def link(text: str) -> str | None:
    """Return the page that asks for an address of ours, or what a reference names; else None."""
    own = base_url()
    relative = _RELATIVE.fullmatch(text)
    if relative and relative[1] in types():
        return again(f"/fhir/{text}", **_OF_THIS)
    # A self link may name the type alone: it is no search to repeat, it would find everybody's.
    if text.startswith(f"{own}/fhir/") or (text.startswith(f"{own}/api/") and "?" in text):
        return again(text.removeprefix(own), **_OF_THIS)
    return None


def again(address: str, path: str = PAGE, **changed: str) -> str:
    """Return a link that asks for an address as this page did, but for what is changed."""
    beside = {name: request.args.get(name, "") for name in BESIDE} | changed
    given = [("address", address), *((name, value) for name, value in beside.items() if value)]
    return f"{path}?{urlencode(given, safe='/:?=,$')}"
