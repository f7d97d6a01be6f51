"""Ask our own FHIR addresses, as an app would: with the token of the person who signed in.

No page reads records in another way, so what a person may not read over FHIR no page shows, and
whatever is refused, noted or audited there is so here too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from flask import current_app, request
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder, run_wsgi_app

from fhirapp.address import base_url
from fhirapp.audit.write import VIA
from fhirapp.auth.clients.first_party import OwnToken, own_token
from fhirapp.auth.clients.overview import links_of
from fhirapp.auth.models.user import PATIENT
from fhirapp.fhir import json as fhir_json
from fhirapp.web.pages import PageError, signed_in

# In words, for whoever is not told more by the answer.
_REFUSED = {
    401: "Sign in again, and try once more.",
    403: "You may not see this record.",
    404: "There is no such record, or you may not see it.",
    410: "This record was deleted.",
}


class Answer(NamedTuple):
    """What our own address answered."""

    # As it stands in the first line: 200 OK.
    line: str
    headers: Headers
    body: bytes
    # How long the answer took.
    seconds: float
    # Of the body there is more than was wanted.
    is_cut: bool = False

    @property
    def status(self) -> int:
        return int(self.line[:3])

    @property
    def size(self) -> int:
        """The bytes of the whole body."""
        told = self.headers.get("Content-Length", type=int)
        return told if self.is_cut and told else len(self.body)

    def json(self) -> Any:
        """Return what the body says. Raises ValueError where it is no JSON."""
        return fhir_json.loads(self.body)


def token_of(patient_id: str | None = None) -> OwnToken:
    """Return the token of who signed in; a patient's is for one record, their own unless named.

    Raises PageError for a record that is not linked to them.
    """
    signed = signed_in()
    if signed.user.role != PATIENT:
        return own_token(signed, signed.user)
    linked = [link.patient_id for link in links_of(signed.user.id)]
    if patient_id is None:
        patient_id = next(iter(linked), None)
    if patient_id not in linked:
        raise PageError(403, "This record is not linked to you.")
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
    """Return what an address of ours answers to a request, path with its query: /fhir/Patient/p1.

    It goes through the whole application, as if it came over HTTP. via is which of our pages asks,
    for the audit trail. Of a body of more than most bytes, no more than these and a piece is read.
    """
    path, _, query = path.partition("?")
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
    # In a context of its own: what is kept of one request (its snapshot, its token, its line in the
    # audit trail) is no other's.
    with current_app.app_context():
        chunks, line, answered = run_wsgi_app(current_app.wsgi_app, builder.get_environ())
        content, is_cut = _read(chunks, most)
        if close := getattr(chunks, "close", None):
            close()
    return Answer(line, answered, content, time.perf_counter() - began, is_cut)


def _read(chunks: Iterable[bytes], most: int | None) -> tuple[bytes, bool]:
    """Return the body as far as it is wanted, and whether there is more."""
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if most is not None and size > most:
            return b"".join(pieces), True
    return b"".join(pieces), False


def read(path: str, token: OwnToken | None = None, via: str = "pages") -> dict[str, Any]:
    """Return the resource at an address of ours, for who signed in. Raises PageError."""
    accept = {"Accept": "application/fhir+json"}
    answer = ask(path, (token or token_of()).secret, headers=accept, via=via)
    if answer.status != 200:
        raise PageError(answer.status, _REFUSED.get(answer.status, _told(answer)))
    found: dict[str, Any] = answer.json()
    return found


def _told(answer: Answer) -> str:
    """Return what an OperationOutcome says."""
    try:
        issue = answer.json()["issue"][0]
        return str(issue.get("diagnostics") or issue["details"]["text"])
    except (ValueError, LookupError, TypeError):
        return f"The server answered {answer.line}."
