"""Requests to our own FHIR addresses, as an app sends them: with the signed-in person's token.

Pages read records in no other way. So no page shows what the person may not read over FHIR, and the
same requests are refused, logged and audited.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from flask import current_app
from werkzeug.datastructures import Headers

from fhirapp.auth.clients.first_party import OwnToken, own_token
from fhirapp.auth.links import links_of
from fhirapp.auth.models import PATIENT
from fhirapp.db import db
from fhirapp.rest import internal
from fhirapp.rest.internal import InternalResponse
from fhirapp.store.version import GENERATION, get_state
from fhirapp.web.pages import PageError, signed_in
from fhirapp.web.texts import _

_KEPT = "fhirapp.internal_client.kept"
T = TypeVar("T")
_REFUSED = {
    401: _("Sign in again, then try again."),
    403: _("You don't have access to this record."),
    404: _("This record does not exist, or you don't have access to it."),
    410: _("This record was deleted."),
}


def token_of(patient_id: str | None = None) -> OwnToken:
    """Return the token of the user; a patient's is for one record, by default their own.

    Raises PageError for a record that is not linked to them.
    """
    signed = signed_in()
    if signed.user.role != PATIENT:
        return own_token(signed, signed.user)
    linked = [link.patient_id for link in links_of(signed.user.id)]
    if patient_id is None:
        patient_id = next(iter(linked), None)
    if patient_id not in linked:
        raise PageError(403, _("This record is not linked to your account."))
    return own_token(signed, signed.user, patient_id)


def ask(
    path: str,
    token: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | Headers | None = None,
    body: bytes = b"",
    via: str = "pages",
    most: int | None = None,
) -> InternalResponse:
    """Send a request to an address of ours, as rest/internal.py does, with a token."""
    return internal.ask(
        path, f"Bearer {token}", method=method, headers=headers, body=body, via=via, most=most
    )


def read(path: str, token: OwnToken | None = None, via: str = "pages") -> dict[str, Any]:
    """Return the resource at an address of ours, for the signed-in person. Raises PageError."""
    accept = {"Accept": "application/fhir+json"}
    answer = ask(path, (token or token_of()).secret, headers=accept, via=via)
    if answer.status != 200:
        raise PageError(answer.status, _reason(answer))
    resource: dict[str, Any] = answer.json()
    return resource


def cursor_of(bundle: dict[str, Any]) -> str:
    """Return the cursor of the next page of a search, empty on the last."""
    for link in bundle.get("link", ()):
        if link["relation"] == "next":
            query = parse_qs(urlsplit(str(link["url"])).query)
            return query.get("_cursor", [""])[0]
    return ""


def _reason(answer: InternalResponse) -> str:
    """Return why a request was refused: in our words, or those of its OperationOutcome."""
    if answer.status in _REFUSED:
        return _(_REFUSED[answer.status])
    try:
        issue = answer.json()["issue"][0]
        return str(issue.get("diagnostics") or issue["details"]["text"])
    except (ValueError, LookupError, TypeError):
        return _("The server answered %(line)s.", line=answer.line)


def kept_for_state(key: Hashable, make: Callable[[], T], *, is_whole: Callable[[T], bool]) -> T:
    """Return the cached result of make() for the present state of the records.

    Incomplete results, after a refusal or overload, are not cached.
    """
    state = get_state(db.session.connection(), GENERATION)
    kept = current_app.extensions.get(_KEPT)
    if kept is None or kept[0] != state:
        # Of what the records were, nothing is kept.
        kept = current_app.extensions[_KEPT] = (state, dict[Hashable, Any]())
    values: dict[Hashable, Any] = kept[1]
    if key not in values:
        made = make()
        if not is_whole(made):
            return made
        values[key] = made
    found: T = values[key]
    return found
