"""Consents of people to apps, and how to take them back."""

from __future__ import annotations

import time
from urllib.parse import urlencode

from flask import Response, request
from werkzeug.exceptions import NotFound

from fhirapp.db import db, writing
from fhirapp.web.admin import consents
from fhirapp.web.admin.consents import Filter, Place
from fhirapp.web.admin.names import patients_named
from fhirapp.web.pages import PageError, blueprint_of, field, for_administrators, page, see_other
from fhirapp.web.texts import _
from fhirapp.web.words import in_words

blueprint = blueprint_of("admin_grants", __name__)
_LONGEST = 200
_PLACE_PARTS = 2


@blueprint.get("/admin/grants")
@for_administrators
def every() -> Response:
    """List the consents, the newest first, or those that a filter finds."""
    which = Filter(_asked("person"), _asked("app"), ended="ended" in request.args)
    done = request.args.get("done", "")
    number = int(done) if done.isascii() and done.isdecimal() and len(done) <= 9 else None
    return _listed(which, _place(request.args.get("older", "")), number=number)


@blueprint.post("/admin/grants/<uuid:key>/take-back")
@for_administrators
def take_one_back(key: object) -> Response:
    """Take back one consent: the app is refused at its next request."""
    which = Filter(field("person", _LONGEST), field("app", _LONGEST))
    db.session.rollback()
    with writing() as connection:
        number = consents.revoke_one(connection, str(key))
    if not number:
        raise NotFound
    return see_other(_address(which, done=number))


@blueprint.post("/admin/grants/take-back")
@for_administrators
def take_back() -> Response:
    """Take back what a filter finds, once somebody said that they are sure."""
    which = Filter(field("person", _LONGEST), field("app", _LONGEST))
    if which.is_empty:
        raise PageError(400, _("Say first whose consents, or to which app."))
    given = field("until", 20)
    if not (given.isascii() and given.isdecimal()):
        return _listed(which, asks=True)
    db.session.rollback()
    with writing() as connection:
        number = consents.revoke_matching(connection, which, int(given))
    return see_other(_address(which, done=number))


def _asked(name: str) -> str:
    text = request.args.get(name, "")[:_LONGEST]
    # PostgreSQL takes no NUL in a text, and nobody's name has a line break.
    return text if text.isprintable() else ""


def _place(text: str) -> Place | None:
    """Return the place that an address names, None for the beginning."""
    parts = text.split("~")
    if len(parts) != _PLACE_PARTS or not text.isascii() or not text.isprintable():
        return None
    return Place(int(parts[0]), parts[1]) if parts[0].isdecimal() and len(parts[0]) < 12 else None


def _address(which: Filter, **more: object) -> str:
    asked = {"person": which.person, "app": which.app, "ended": "1" if which.ended else ""} | more
    query = urlencode({name: value for name, value in asked.items() if value or value == 0})
    return f"/admin/grants?{query}" if query else "/admin/grants"


def _listed(
    which: Filter, after: Place | None = None, *, asks: bool = False, number: int | None = None
) -> Response:
    found, more = consents.find_consents(which, after)
    last = found[-1].grant if found else None
    older = f"{last.created_at}~{last.id}" if more and last else ""
    in_force = Filter(which.person, which.app)
    now = int(time.time())
    return page(
        "admin/grants.html",
        which=which,
        found=found,
        patients=patients_named(one.grant.patient_id for one in found if one.grant.patient_id),
        in_words=in_words,
        older=_address(which, older=older) if older else "",
        first=_address(which) if after else "",
        in_force=consents.count(in_force),
        asks=asks,
        at=now,
        number=number,
    )
