"""Send what the address says, with the token of who signed in, as an app would; keep both sides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from werkzeug.datastructures import Headers

from fhirapp.address import base_url
from fhirapp.rest.negotiation import FHIR_JSON
from fhirapp.web.ask import Answer, ask
from fhirapp.web.explore.address import Address, NoAddressError
from fhirapp.web.explore.suggestions import SENT_VIA
from fhirapp.web.texts import _

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
