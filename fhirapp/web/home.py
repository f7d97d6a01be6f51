"""Where a browser begins that was given no more than the server's address.

The documentation of the API: Swagger UI on our own description, signed in by OAuth.
The demo's sample app: what a SMART app does, with its source beside it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from flask import Response

from fhirapp.address import base_url, fhir_url
from fhirapp.auth.clients.first_party import REDIRECT_PATH, add_documentation
from fhirapp.auth.clients.registration import API_DOCS
from fhirapp.auth.demo import APP, BACKEND, CONFIDENTIAL, PEOPLE, SAMPLE_PATH, SECRET
from fhirapp.auth.models.user import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.auth.users.accounts import has_administrator
from fhirapp.auth.users.sessions import Signed
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.rest.capability import software_version
from fhirapp.web.internal_client import ask, token_of
from fhirapp.web.pages import PageError, blueprint_of, page, see_other, sign_in_address, signed
from fhirapp.web.texts import _

blueprint = blueprint_of("start", __name__)
_VIA = "home"
# Of all the processes of the server: they are copies of the first.
_SINCE = int(time.time())
# A search of the demo's that has something to explain.
_EXAMPLE = "/fhir/AllergyIntolerance?patient=p1&_explain=true"
# Where a person of the demo begins.
_FIRST: Mapping[str, str] = {CLINICIAN: "/patients", PATIENT: "/patients", ADMINISTRATOR: "/admin"}
# What people count as records; the other types say who wrote them, and where.
_COUNTED = ("Patient", "AllergyIntolerance", "DocumentReference")


class Count(NamedTuple):
    """How many records of a type somebody may read."""

    type: str
    words: str
    number: int


@blueprint.get("/")
def home() -> Response:
    """Tell what this server is and how it is, and where to go from here."""
    found = signed()
    if found is not None and not found.complete:
        return see_other(sign_in_address("/"))
    demo = settings().demo
    return page(
        "home.html",
        version=software_version(),
        since=_SINCE,
        counts=_counts(found) if found is not None else (),
        people={one.role: one for one in PEOPLE} if demo else {},
        password=SECRET,
        clients=_clients() if demo else (),
        sample=SAMPLE_PATH,
        example=f"/explore?{urlencode({'address': _EXAMPLE})}",
        first=_FIRST,
        is_new=found is None and not has_administrator(db.session.connection()),
    )


def _counts(found: Signed) -> Sequence[Count]:
    """Return how many records somebody may read; nothing where they may read none."""
    try:
        token = token_of()
    except PageError:
        # A patient without a record.
        return ()
    words = {
        "Patient": _("patients"),
        "AllergyIntolerance": _("allergies and intolerances"),
        "DocumentReference": _("notes and documents"),
    }
    counts: list[Count] = []
    for name in _COUNTED if found.user.role != PATIENT else _COUNTED[1:]:
        answer = ask(f"/fhir/{name}?_summary=count", token.secret, via=_VIA)
        if answer.status == 200:
            counts.append(Count(name, words[name], answer.json()["total"]))
    return counts


def _clients() -> Sequence[tuple[str, str, str]]:
    """Return the clients of the demo: id, secret, what it is for."""
    return (
        (BACKEND, SECRET, _("A program without a user, for all patients")),
        (APP, "", _("An app in a browser or on a phone, with PKCE")),
        (CONFIDENTIAL, SECRET, _("An app with a server of its own")),
    )


_OF_PATIENTS, _OF_STAFF = "launch/patient patient/*.rs", "user/*.rs"


@blueprint.get("/api-docs")
def show() -> Response:
    """Show every address with its parameters, to be tried."""
    add_documentation()
    found = signed()
    is_patient = found is not None and found.user.role == PATIENT
    return page(
        "api_docs.html",
        scripts=True,
        client_id=API_DOCS,
        fhir_url=fhir_url(),
        redirect_uri=base_url() + REDIRECT_PATH,
        scope=_OF_PATIENTS if is_patient else _OF_STAFF,
    )


@blueprint.get(REDIRECT_PATH)
def signed_in() -> Response:
    """Hand the code that came with the address to the window that asked for it."""
    return page("api_docs_signed_in.html", scripts=True)


_SOURCE = Path(__file__).parent / "static" / "sample-app.js"


@blueprint.get(SAMPLE_PATH)
def app() -> Response:
    """Show the sample app, and its source."""
    if not settings().demo:
        raise PageError(404, _("The sample app is a part of the demo."))
    return page("sample.html", scripts=True, source=_source())


@cache
def _source() -> tuple[str, ...]:
    return tuple(_SOURCE.read_text(encoding="utf-8").splitlines())
