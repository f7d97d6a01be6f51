"""The pages that everybody may see: home, the manual, API documentation, sample app.

The API documentation is Swagger UI on our own OpenAPI description, signed in by OAuth; the sample
app of the demo shows what a SMART app does, with its source beside it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from flask import Response, request
from sqlalchemy import func, select

from fhirapp.auth.clients.first_party import REDIRECT_PATH, add_documentation
from fhirapp.auth.clients.registration import API_DOCS
from fhirapp.auth.demo import APP, BACKEND, BY_ROLE, CONFIDENTIAL, SAMPLE_PATH, SECRET
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User
from fhirapp.auth.users.accounts import has_administrator
from fhirapp.config import base_url, fhir_url, settings
from fhirapp.db import db
from fhirapp.definition import featured_types, types
from fhirapp.docs import pages, search
from fhirapp.exchange.models import ImportRun
from fhirapp.rest.capability import software_version
from fhirapp.web import cookies
from fhirapp.web.internal_client import ask, kept_for_state, token_of
from fhirapp.web.labels import plural_of
from fhirapp.web.live_search import ADDRESS, live_search
from fhirapp.web.markdown import manual_html
from fhirapp.web.pages import (
    PageError,
    blueprint_of,
    current_session,
    field,
    local_path,
    page,
    see_other,
    sign_in_address,
)
from fhirapp.web.texts import _, offered

blueprint = blueprint_of("start", __name__)
_VIA = "home"
# The same in all processes of the server, which are copies of the first.
_SINCE = int(time.time())
# A search of the demo's records, to begin with, and the one that the page shows, explained.
_EXAMPLE = {"address": "/fhir/AllergyIntolerance?patient=p1&_explain=true"}
_EXPLAINED = {"address": f"{ADDRESS}&_explain=true", "narrow": "1"}
# Of a demo account: the page to which it signs in, the words of the button, what it may see.
_ACCOUNTS: Mapping[str, tuple[str, str, str]] = {
    CLINICIAN: ("/patients", _("Continue as clinician"), _("Clinician: all patients")),
    PATIENT: ("/patients", _("Continue as patient"), _("Patient: their own record")),
    ADMINISTRATOR: (
        "/admin",
        _("Continue as administrator"),
        _("Administrator: users, apps and imports"),
    ),
}


class Count(NamedTuple):
    """The number of records of a type that the user may read."""

    type: str
    words: str
    number: int


@blueprint.get("/")
def home() -> Response:
    """Show what this server is, its state, and where to go from here."""
    session = current_session()
    if session and not session.complete:
        return see_other(sign_in_address("/"))
    demo = settings().demo
    return page(
        "home.html",
        version=software_version(),
        since=_SINCE,
        counts=_counts(session.user) if session else (),
        people=BY_ROLE if demo else {},
        password=SECRET,
        clients=_clients() if demo else (),
        sample=SAMPLE_PATH,
        example=f"/explore?{urlencode(_EXAMPLE)}",
        explained=f"/explore?{urlencode(_EXPLAINED)}#explained",
        live=live_search() if demo else None,
        accounts=_ACCOUNTS,
        imported=_last_import(),
        is_new=session is None and not has_administrator(db.session.connection()),
    )


def _counts(user: User) -> Sequence[Count]:
    """Return the numbers of records that a user may read; empty where they may read none.

    Those of a role that sees all patients are counted once for each state of the records.
    """
    names = featured_types()
    if user.role == PATIENT:
        numbers = _counted(names)
    else:
        names = [*(name for name, each in types().items() if each.compartment == "id"), *names]
        numbers = kept_for_state(
            ("counts", user.role),
            lambda: _counted(names),
            is_whole=lambda counted: len(counted) == len(names),
        )
    return [Count(name, plural_of(name), number) for name, number in numbers.items()]


def _counted(names: Sequence[str]) -> Mapping[str, int]:
    try:
        token = token_of()
    except PageError:
        # A patient without a record.
        return {}
    answers = {name: ask(f"/fhir/{name}?_summary=count", token.secret, via=_VIA) for name in names}
    return {
        name: answer.json()["total"] for name, answer in answers.items() if answer.status == 200
    }


def _last_import() -> int | None:
    """Return when the last import ended, in seconds since 1970."""
    ended = db.session.scalar(select(func.max(ImportRun.ended_at)))
    return int(datetime.fromisoformat(ended).timestamp()) if ended else None


def _clients() -> Sequence[tuple[str, str, str]]:
    """Return the clients of the demo: id, secret, what it is for."""
    return (
        (BACKEND, SECRET, _("System (no user), for all patients")),
        (APP, "", _("Browser or mobile app, with PKCE")),
        (CONFIDENTIAL, SECRET, _("An app with its own server")),
    )


@blueprint.post("/language")
def choose_language() -> Response:
    """Show pages in another language from now on, in this browser."""
    code = field("language", 20)
    if code not in offered():
        raise PageError(400, _("Pages are not available in this language."))
    cookies.set_language(code)
    return see_other(local_path(field("back", 20_000)))


@blueprint.get("/docs")
def contents() -> Response:
    """List the pages, or what a search found in them."""
    words = request.args.get("q", "")[:200]
    if not words.strip():
        return manual_page("index")
    return page("docs_search.html", words=words, found=search(words), pages=_listed())


@blueprint.get("/docs/<name>")
def manual_page(name: str) -> Response:
    """Show a page of the manual. 404 where there is none."""
    shown = pages().get(name)
    if shown is None:
        raise PageError(404, _("The manual does not have this page."))
    return page("docs.html", shown=shown, text=manual_html(shown.text), pages=_listed())


def _listed() -> list[tuple[str, str]]:
    """Return the address and title of each page, in the order of the contents."""
    return [
        ("/docs" if name == "index" else f"/docs/{name}", shown.title)
        for name, shown in pages().items()
    ]


_OF_PATIENTS, _OF_STAFF = "launch/patient patient/*.rs", "user/*.rs"


@blueprint.get("/api-docs")
def api_docs() -> Response:
    """Show every address of the API with its parameters, and a form to send it."""
    add_documentation()
    session = current_session()
    is_patient = session is not None and session.user.role == PATIENT
    return page(
        "api_docs.html",
        scripts=True,
        client_id=API_DOCS,
        fhir_url=fhir_url(),
        redirect_uri=base_url() + REDIRECT_PATH,
        scope=_OF_PATIENTS if is_patient else _OF_STAFF,
        backend=BACKEND,
        secret=SECRET,
    )


@blueprint.get(REDIRECT_PATH)
def api_docs_signed_in() -> Response:
    """Pass the authorization code to the window that opened this one."""
    return page("api_docs_signed_in.html", scripts=True)


_SOURCE = Path(__file__).parent / "static" / "sample-app.js"


@blueprint.get(SAMPLE_PATH)
def sample_app() -> Response:
    """Show the sample app, and its source."""
    if not settings().demo:
        raise PageError(404, _("The sample app is available only in the demo."))
    return page("sample.html", scripts=True, source=_source())


@cache
def _source() -> tuple[str, ...]:
    return tuple(_SOURCE.read_text(encoding="utf-8").splitlines())
