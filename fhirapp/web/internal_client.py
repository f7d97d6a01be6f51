"""Requests to our own FHIR addresses, as an app sends them: with the signed-in person's token.

Pages read records in no other way. So no page shows what the person may not read over FHIR, and the
same requests are refused, logged and audited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from flask import current_app, request
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder, run_wsgi_app

from fhirapp.audit.write import VIA
from fhirapp.auth.clients.first_party import OwnToken, own_token
from fhirapp.auth.clients.overview import links_of
from fhirapp.auth.models import PATIENT
from fhirapp.config import base_url
from fhirapp.db import db
from fhirapp.fhir import json as fhir_json
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


class Answer(NamedTuple):
    """The answer of an address of ours, and how long it took.

    line is the status line: 200 OK. is_cut: the body is longer than was wanted, and cut.
    """

    line: str
    headers: Headers
    body: bytes
    seconds: float
    is_cut: bool = False

    @property
    def status(self) -> int:
        return int(self.line[:3])

    @property
    def size(self) -> int:
        """The bytes of the whole body."""
        length = self.headers.get("Content-Length", type=int)
        return length if self.is_cut and length else len(self.body)

    def json(self) -> Any:
        """Return the body as JSON. Raises ValueError where it is none."""
        return fhir_json.loads(self.body)


def token_of(patient_id: str | None = None) -> OwnToken:
    """Return the signed-in person's token; a patient's is for one record, by default their own.

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
) -> Answer:
    """Send a request to an address of ours, path with its query: /fhir/Patient/p1.

    It goes through the whole application, as if it came over HTTP. via names the page that asks,
    for the audit trail. A body of more than most bytes is cut at the chunk that exceeds them.
    """
    path, _mark, query = path.partition("?")
    sent = Headers(headers)
    sent["Authorization"] = f"Bearer {token}"
    server = urlsplit(base_url())
    builder = EnvironBuilder(
        path,
        f"{server.scheme}://{server.netloc}",
        query_string=query,
        method=method,
        headers=sent,
        data=body or None,
        environ_base={"REMOTE_ADDR": request.remote_addr or "", VIA: via},
    )
    began = time.perf_counter()
    # In a context of its own: snapshot, token and line in the audit trail belong to one request.
    with current_app.app_context():
        chunks, line, answered = run_wsgi_app(current_app.wsgi_app, builder.get_environ())
        content, is_cut = _body(chunks, most)
        if close := getattr(chunks, "close", None):
            close()
    return Answer(line, answered, content, time.perf_counter() - began, is_cut)


def _body(chunks: Iterable[bytes], most: int | None) -> tuple[bytes, bool]:
    """Return the body as far as it is wanted, and whether it is cut."""
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if most is not None and size > most:
            return b"".join(pieces), True
    return b"".join(pieces), False


def read(path: str, token: OwnToken | None = None, via: str = "pages") -> dict[str, Any]:
    """Return the resource at an address of ours, for the signed-in person. Raises PageError."""
    accept = {"Accept": "application/fhir+json"}
    answer = ask(path, (token or token_of()).secret, headers=accept, via=via)
    if answer.status != 200:
        raise PageError(answer.status, _reason(answer))
    resource: dict[str, Any] = answer.json()
    return resource


def _reason(answer: Answer) -> str:
    """Return why a request was refused: in our words, or those of its OperationOutcome."""
    if answer.status in _REFUSED:
        return _(_REFUSED[answer.status])
    try:
        issue = answer.json()["issue"][0]
        return str(issue.get("diagnostics") or issue["details"]["text"])
    except (ValueError, LookupError, TypeError):
        return _("The server answered %(line)s.", line=answer.line)


def kept_for_state(key: Hashable, make: Callable[[], T], *, is_whole: Callable[[T], bool]) -> T:
    """Return what make() returns, which is asked once for each state of the records.

    What is not whole, since something was refused or too busy, is asked for again next time.
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
