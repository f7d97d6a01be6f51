"""What a person sent lately with the explorer: from the audit trail, the newest first.

/explore/history?before=<number>    what is older
/explore/history?compare=<number>   sends a request again: what is different now?
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from flask import Response, request

from fhirapp.audit.entries import AuditEntry, entries
from fhirapp.features.explore.address import (
    SENT_VIA,
    NoAddressError,
    explorer_link,
    read_address,
)
from fhirapp.features.explore.answer import FORM
from fhirapp.rest.response import FHIR_JSON
from fhirapp.web.internal_client import ask, token_of
from fhirapp.web.pages import PageError, blueprint_of, for_signed_in, page, signed_in
from fhirapp.web.texts import _
from fhirapp.web.times import moment

blueprint = blueprint_of("explore_history", __name__)
# The audit trail's name for requests that are sent again by this page.
VIA = "history"
_ON_A_PAGE = 25
# As much as the audit trail keeps of an address or a form: what is as long may be cut off.
_LONGEST = 4_000
_MOST_NAMED = 20


class SentRequest(NamedTuple):
    """A request of the person's; link leads back into the explorer, empty where it cannot."""

    number: int
    when: str
    at: str
    method: str
    address: str
    link: str
    status: int
    # How many resources the answer had.
    resources: int
    milliseconds: float


class _Difference(NamedTuple):
    """A request's answer then, and now: each resource as Type/id."""

    sent: SentRequest
    status: int
    resources: int
    new: Sequence[str]
    # Present with another version.
    changed: Sequence[str]
    gone: Sequence[str]

    @property
    def is_same(self) -> bool:
        return self.status == self.sent.status and not (self.new or self.changed or self.gone)


@blueprint.get("/explore/history")
@for_signed_in
def history() -> Response:
    """Show the latest requests. 400 for a number that is none, 404 for no such request."""
    user_id = signed_in().user.id
    before, compare = _number("before"), _number("compare")
    listed = entries(user_id=user_id, via=SENT_VIA, before=before, limit=_ON_A_PAGE + 1)
    return page(
        "explore/history.html",
        scripts=True,
        requests=[_sent_request(entry) for entry in listed[:_ON_A_PAGE]],
        older=listed[_ON_A_PAGE - 1].number if len(listed) > _ON_A_PAGE else None,
        before=before,
        difference=None if compare is None else _difference(_entry(user_id, compare)),
        most=_MOST_NAMED,
    )


def _number(name: str) -> int | None:
    text = request.args.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise PageError(400, _("A request number must be a whole number."))
    return int(text)


def _entry(user_id: str, number: int) -> AuditEntry:
    """Return a request of this person's. Raises PageError."""
    for entry in entries(user_id=user_id, via=SENT_VIA, before=number + 1, limit=1):
        if entry.number == number:
            return entry
    raise PageError(404, _("None of your recent requests has this number."))


def _sent_request(entry: AuditEntry) -> SentRequest:
    address, link = _address(entry)
    return SentRequest(
        number=entry.number,
        when=moment(int(datetime.fromisoformat(entry.at).timestamp())),
        at=entry.at,
        method=entry.method,
        address=address or entry.path,
        link=link,
        status=entry.status,
        resources=len(entry.served),
        milliseconds=entry.milliseconds,
    )


def _address(entry: AuditEntry) -> tuple[str, str]:
    """Return the address of a request, and the page that sends it again; empty if truncated.

    A search by POST is shown as an address, and sent as POST.
    """
    path = entry.path
    if len(path) >= _LONGEST or len(entry.body) >= _LONGEST:
        return "", ""
    is_post = entry.method == "POST"
    if is_post:
        path = path.partition("?")[0].removesuffix("/_search")
        path = f"{path}?{entry.body}" if entry.body else path
    try:
        address = str(read_address(path))
    except NoAddressError:
        return "", ""
    return address, explorer_link(address, method="POST" if is_post else "")


def _difference(entry: AuditEntry) -> _Difference:
    """Send a request again, and compare the answers. Raises PageError."""
    sent = _sent_request(entry)
    if not sent.link:
        raise PageError(
            400, _("This request was too long to store in full, so it cannot be repeated.")
        )
    headers = {"Accept": FHIR_JSON} | ({"Content-Type": FORM} if entry.body else {})
    address = read_address(entry.path)
    ask(
        str(address),
        token_of().secret,
        method=entry.method,
        headers=headers,
        body=entry.body.encode(),
        via=VIA,
    )
    # As the audit trail counts, then and now.
    recorded = entries(user_id=signed_in().user.id, via=VIA, limit=_ON_A_PAGE)
    again = next((repeat for repeat in recorded if read_address(repeat.path) == address), None)
    if again is None:
        raise PageError(503, _("The response was not recorded. Try again in a moment."))
    then, now = set(entry.served), set(again.served)
    new, gone = _names(now - then), _names(then - now)
    return _Difference(
        sent=sent,
        status=again.status,
        resources=len(again.served),
        new=sorted(new - gone),
        changed=sorted(new & gone),
        gone=sorted(gone - new),
    )


def _names(served: set[str]) -> set[str]:
    """Return Type/id of each Type/id/version."""
    return {name.rpartition("/")[0] for name in served}
