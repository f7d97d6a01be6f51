"""What a person asked lately with the explorer: from the audit trail, the newest first.

/explore/history?before=<number>    what is older
/explore/history?compare=<number>   one of them asked again: what is different now?
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from flask import Response, request

from fhirapp.audit.read import Entry, entries
from fhirapp.rest.negotiation import FHIR_JSON
from fhirapp.web.explore.address import SENT_VIA, NoAddressError, read_address
from fhirapp.web.internal_client import ask, token_of
from fhirapp.web.labels import moment
from fhirapp.web.pages import PageError, blueprint_of, for_signed_in, page, signed_in
from fhirapp.web.texts import _

blueprint = blueprint_of("explore_history", __name__)
# Which of our pages asks, for the audit trail: what is asked again is not asked by hand.
VIA = "history"
_ON_A_PAGE = 25
# As much as the audit trail keeps of an address or a form: what is as long may be cut off.
_LONGEST = 4_000
_MOST_NAMED = 20
_FORM = "application/x-www-form-urlencoded"


class Asked(NamedTuple):
    """A request of the person's; link leads back into the explorer, empty where it cannot."""

    number: int
    when: str
    at: str
    method: str
    address: str
    link: str
    status: int
    # How many resources stood in the answer.
    resources: int
    milliseconds: float


class Difference(NamedTuple):
    """What a request was answered then, and now: each resource as Type/id."""

    asked: Asked
    status: int
    resources: int
    new: Sequence[str]
    # In another version.
    changed: Sequence[str]
    gone: Sequence[str]

    @property
    def is_same(self) -> bool:
        return self.status == self.asked.status and not (self.new or self.changed or self.gone)


@blueprint.get("/explore/history")
@for_signed_in
def asked_lately() -> Response:
    """Show what the person asked lately. 400 for a number that is none, 404 for no such request."""
    user_id = signed_in().user.id
    before, compare = _number("before"), _number("compare")
    found = entries(user_id=user_id, via=SENT_VIA, before=before, limit=_ON_A_PAGE + 1)
    return page(
        "explore/history.html",
        scripts=True,
        asked=[_asked(entry) for entry in found[:_ON_A_PAGE]],
        older=found[_ON_A_PAGE - 1].number if len(found) > _ON_A_PAGE else None,
        before=before,
        difference=None if compare is None else _difference(_entry(user_id, compare)),
        most=_MOST_NAMED,
    )


def _number(name: str) -> int | None:
    text = request.args.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise PageError(400, _("That is no number of a request."))
    return int(text)


def _entry(user_id: str, number: int) -> Entry:
    """Return a request of this person's. Raises PageError."""
    found = entries(user_id=user_id, via=SENT_VIA, before=number + 1, limit=1)
    if not found or found[0].number != number:
        raise PageError(404, _("Your recent requests have none of that number."))
    return found[0]


def _asked(entry: Entry) -> Asked:
    address, by_post = _address(entry)
    return Asked(
        number=entry.number,
        when=moment(int(datetime.fromisoformat(entry.at).timestamp())),
        at=entry.at,
        method=entry.method,
        address=address or entry.path,
        link=link(address, by_post=by_post) if address else "",
        status=entry.status,
        resources=len(entry.served),
        milliseconds=entry.milliseconds,
    )


def _address(entry: Entry) -> tuple[str, bool]:
    """Return what to write into the explorer to ask it again, empty where it was cut off.

    A search by POST is written as its address, and sent as POST.
    """
    path = entry.path
    if len(path) >= _LONGEST or len(entry.body) >= _LONGEST:
        return "", False
    by_post = entry.method == "POST"
    if by_post:
        path = path.partition("?")[0].removesuffix("/_search")
        path = f"{path}?{entry.body}" if entry.body else path
    try:
        return str(read_address(path)), by_post
    except NoAddressError:
        return "", False


def link(address: str, *, by_post: bool = False) -> str:
    """Return where the explorer asks for an address."""
    sent = {"address": address} | ({"method": "POST"} if by_post else {})
    return f"/explore?{urlencode(sent)}"


def _difference(entry: Entry) -> Difference:
    """Ask again, and tell what is different. Raises PageError."""
    asked = _asked(entry)
    if not asked.link:
        raise PageError(400, _("It is too long to be kept in full; it cannot be repeated."))
    headers = {"Accept": FHIR_JSON} | ({"Content-Type": _FORM} if entry.body else {})
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
    noted = entries(user_id=signed_in().user.id, via=VIA, limit=_ON_A_PAGE)
    again = next((one for one in noted if read_address(one.path) == address), None)
    if again is None:
        raise PageError(503, _("The answer was not noted; try again in a moment."))
    then, now = set(entry.served), set(again.served)
    new, gone = _names(now - then), _names(then - now)
    return Difference(
        asked=asked,
        status=again.status,
        resources=len(again.served),
        new=sorted(new - gone),
        changed=sorted(new & gone),
        gone=sorted(gone - new),
    )


def _names(served: set[str]) -> set[str]:
    """Return Type/id of each Type/id/version."""
    return {one.rpartition("/")[0] for one in served}
