"""The home page, and the choice of the language of pages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from flask import Response
from sqlalchemy import func, select

from fhirapp.auth.models import ADMINISTRATOR, PATIENT, User
from fhirapp.auth.users.accounts import has_administrator
from fhirapp.db import db
from fhirapp.definition import featured_types, types
from fhirapp.feature import features, imported
from fhirapp.rest.capability import software_version
from fhirapp.store.import_models import ImportRun
from fhirapp.web import cookies, pages
from fhirapp.web.internal_client import ask, kept_for_state, token_of
from fhirapp.web.labels import plural_of
from fhirapp.web.texts import _, offered_languages

blueprint = pages.blueprint_of("start", __name__)
_VIA = "home"
# The same in all processes of the server, which are copies of the first.
_SINCE = int(time.time())


@blueprint.get("/")
def home() -> Response:
    """Show what this server is, its state, and where to go from here."""
    session = pages.current_session()
    if session and not session.complete:
        return pages.see_other(pages.sign_in_address("/"))
    variants = (imported(feature.home)() for feature in features() if feature.home)
    template, values = next(filter(None, variants), ("home.html", {}))
    return pages.page(
        template,
        version=software_version(),
        since=_SINCE,
        counts=_counts(session.user) if session else (),
        imported=_last_import(),
        is_new=session is None and not has_administrator(db.session.connection()),
        **values,
    )


@blueprint.get(pages.START)
@pages.for_signed_in
def start() -> Response:
    """Redirect to the first page of the user's role: patients, own record, or administration."""
    first = "/admin" if pages.signed_in().user.role == ADMINISTRATOR else "/patients"
    return pages.see_other(first if pages.has_page(first) else "/account")


def _counts(user: User) -> list[dict[str, Any]]:
    """Return how many records of each type a user may read; empty if there are none.

    Counts of roles that see all patients are cached for each state of the records.
    """
    names = featured_types()
    if user.role == PATIENT:
        numbers = _totals(names)
    else:
        names = [*(name for name, type_ in types().items() if type_.compartment == "id"), *names]
        numbers = kept_for_state(
            ("counts", user.role),
            lambda: _totals(names),
            is_whole=lambda counted: len(counted) == len(names),
        )
    return [
        {"type": name, "words": plural_of(name), "number": number}
        for name, number in numbers.items()
    ]


def _totals(names: Sequence[str]) -> Mapping[str, int]:
    try:
        token = token_of()
    except pages.PageError:
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


@blueprint.post("/language")
def choose_language() -> Response:
    """Show pages in another language from now on, in this browser."""
    code = pages.field("language", 20)
    if code not in offered_languages():
        raise pages.PageError(400, _("Pages are not available in this language."))
    cookies.set_language(code)
    return pages.see_other(pages.local_path(pages.field("back", 20_000)))
