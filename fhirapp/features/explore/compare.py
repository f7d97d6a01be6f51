"""One request as two or three people of the demo send it, their answers side by side.

/explore/compare?address=/fhir/AllergyIntolerance&people=clinician&people=patient
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from fhirapp.auth.models import PATIENT
from fhirapp.features.explore.address import NoAddressError, again, link, pages_of, read_address
from fhirapp.features.explore.answer import MOST_BYTES, described, send
from fhirapp.features.explore.routes import is_sent_by_post, other_accounts, token_for
from fhirapp.features.explore.tables import MOST_ROWS, name_of
from fhirapp.features.explore.views import summary_of, visible
from fhirapp.web.pages import PageError, blueprint_of, for_signed_in, page, signed_in
from fhirapp.web.texts import _

blueprint = blueprint_of("explore_compare", __name__)
_MOST_PEOPLE = 3


@blueprint.get("/explore/compare")
@for_signed_in
def compare() -> Response:
    """Show what each person gets. 404 outside the demo, 400 for what cannot be sent."""
    others = other_accounts()
    if not others:
        raise PageError(404, _("People can be compared only in the demo."))
    user = signed_in().user
    people = {user.username: (user.name, user.role)}
    people |= {account.username: (account.name, account.role) for account in others}
    chosen = [name for name in people if name in request.args.getlist("people")]
    message = ""
    if "people" not in request.args:
        # Patients first: they may see least.
        shown = sorted(others, key=lambda account: account.role != PATIENT)
        wanted = {request.args.get("as", ""), *(account.username for account in shown[:2])}
        chosen = [user.username, *(name for name in people if name in wanted - {user.username})]
        chosen = chosen[:_MOST_PEOPLE]
    elif not 2 <= len(chosen) <= _MOST_PEOPLE:
        chosen, message = [], _("Choose two or three people.")
    answers = {username: _answer(username) for username in chosen}
    # Each resource in a few words, by its name, in the order of the answers.
    resources: dict[str, str] = {}
    for answer in answers.values():
        resources = answer.get("resources", {}) | resources
    return page(
        "explore/compare.html",
        400 if message else 200,
        address=request.args.get("address", ""),
        people=people,
        chosen=chosen,
        message=message,
        answers=answers,
        resources=[*resources.items()][:MOST_ROWS],
        left_out=len(resources) - MOST_ROWS,
        again=again,
        link=link,
        visible=visible,
    )


def _answer(username: str) -> Mapping[str, Any]:
    """Send the request as somebody, and return what the page shows of the answer."""
    try:
        address = read_address(request.args.get("address", ""))
        secret = token_for(username).secret
        sent = send(address, secret, request.args, MOST_BYTES, by_post=is_sent_by_post())
    except NoAddressError:
        raise
    except PageError as error:
        return {"message": str(error)}
    answer = described(sent.answer)
    return {
        "line": answer.line,
        "total": answer.total,
        "message": answer.sentence,
        "refused": answer.refused,
        "resources": _resources(answer.content),
        "is_all": not pages_of(answer.content),
    }


def _resources(content: Any) -> Mapping[str, str]:
    """Return the resources of an answer by name, Patient/p1, each in a few words."""
    if not isinstance(content, dict) or content.get("resourceType") == "OperationOutcome":
        return {}
    is_bundle = content.get("resourceType") == "Bundle"
    entries = content.get("entry", ()) if is_bundle else [{"resource": content}]
    return {
        name_of(entry["resource"]): summary_of(entry)
        for entry in entries
        if "resource" in entry and entry.get("search", {}).get("mode") != "outcome"
    }
