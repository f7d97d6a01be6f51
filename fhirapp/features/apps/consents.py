"""Consents of all users to all apps: search and revoke."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Response, request
from sqlalchemy import Connection, func, or_, select
from werkzeug.exceptions import NotFound

from fhirapp.audit.events import record
from fhirapp.auth.models import OF_PAGES, AccessToken, Client, Grant, RefreshToken, User
from fhirapp.auth.tokens import revoke_grants
from fhirapp.db import db, writing
from fhirapp.web import pages
from fhirapp.web.admin.audit_descriptions import patients_named
from fhirapp.web.labels import in_words
from fhirapp.web.texts import _

SHOWN = 50
# Of what is typed as a name: more tell nobody apart.
_MOST_WORDS = 8


@dataclass(frozen=True)
class ConsentFilter:
    """Which consents: of people, to apps, in whose names or ids each word stands."""

    person: str = ""
    app: str = ""
    # Whether ended consents are included.
    ended: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.person.strip() or self.app.strip())

    def conditions(self) -> list[Any]:
        """Return what a Grant must meet."""
        now = int(time.time())
        people = select(User.id).where(*_words(self.person, User.name, User.username, User.id))
        apps = select(Client.client_id).where(
            Client.kind != OF_PAGES, *_words(self.app, Client.name, Client.client_id)
        )
        holds = () if self.ended else (Grant.revoked_at.is_(None), Grant.expires_at > now)
        of_whom = (Grant.user_id.in_(people),) if self.person.strip() else ()
        return [Grant.client_id.in_(apps), *of_whom, *holds]


class ConsentCursor(NamedTuple):
    """A cursor in the list, which is sorted by these, the newest first."""

    created_at: int
    grant_id: str


class Consent(NamedTuple):
    """A consent with its user and app, and the time of its newest token, None if none is stored.

    Tokens last an hour, so this tells when an app was last used.
    """

    grant: Grant
    client: Client
    user: User
    token_at: int | None


def find_consents(
    which: ConsentFilter, after: ConsentCursor | None = None
) -> tuple[Sequence[Consent], bool]:
    """Return the newest consents, and whether there are more."""
    query = (
        select(Grant, Client, User)
        .join(Client, Client.client_id == Grant.client_id)
        .join(User, User.id == Grant.user_id)
        .where(*which.conditions())
        .order_by(Grant.created_at.desc(), Grant.id.desc())
        .limit(SHOWN + 1)
    )
    if after is not None:
        same = (Grant.created_at == after.created_at) & (Grant.id < after.grant_id)
        query = query.where(or_(Grant.created_at < after.created_at, same))
    rows = db.session.execute(query).all()
    tokens = _newest_tokens([grant.id for grant, _, _ in rows[:SHOWN]])
    consents = [
        Consent(grant, client, user, tokens.get(grant.id)) for grant, client, user in rows[:SHOWN]
    ]
    return consents, len(rows) > SHOWN


def count(which: ConsentFilter) -> int:
    """Return how many consents there are."""
    query = select(func.count()).select_from(Grant).where(*which.conditions())
    return db.session.execute(query).scalar_one()


def revoke_matching(connection: Connection, which: ConsentFilter, given_until: int) -> int:
    """Revoke the active consents that were given until then; return how many."""
    number = revoke_grants(connection, *which.conditions(), Grant.created_at <= given_until)
    if number:
        record("app-ended", what=f"{number} consents")
    return number


def revoke_one(connection: Connection, grant_id: str) -> int | None:
    """Revoke one consent; return 0 if it is no longer active, None if there is none."""
    found = connection.execute(
        select(Grant.client_id, Grant.user_id).where(Grant.id == grant_id)
    ).first()
    if found is None:
        return None
    number = revoke_grants(connection, Grant.id == grant_id, *ConsentFilter().conditions())
    if number:
        record("app-ended", about=f"app/{found.client_id}", what=f"of the user {found.user_id}")
    return number


def _words(text: str, *columns: Any) -> list[Any]:
    """Return that each word of a text stands in one of the columns."""
    return [
        or_(*(func.lower(column).contains(word, autoescape=True) for column in columns))
        for word in text.lower().replace(",", " ").split()[:_MOST_WORDS]
    ]


def _newest_tokens(grant_ids: Sequence[str]) -> dict[str | None, int]:
    """Return when the newest token of each grant was issued that has not been swept out."""
    newest: dict[str | None, int] = {}
    for kind in (AccessToken, RefreshToken):
        rows = db.session.execute(
            select(kind.grant_id, func.max(kind.issued_at))
            .where(kind.grant_id.in_(grant_ids))
            .group_by(kind.grant_id)
        )
        for grant_id, at in rows:
            newest[grant_id] = max(at, newest.get(grant_id, 0))
    return newest


blueprint = pages.blueprint_of("admin_grants", __name__)
_LONGEST = 200
_CURSOR_PARTS = 2


@blueprint.get("/admin/grants")
@pages.for_administrators
def index() -> Response:
    """List the consents, the newest first, or those that a filter finds."""
    which = ConsentFilter(_argument("person"), _argument("app"), ended="ended" in request.args)
    done = request.args.get("done", "")
    number = int(done) if done.isascii() and done.isdecimal() and len(done) <= 9 else None
    return _list_page(which, _cursor(request.args.get("older", "")), number=number)


@blueprint.post("/admin/grants/<uuid:key>/take-back")
@pages.for_administrators
def revoke(key: object) -> Response:
    """Revoke one consent: the app is refused at its next request."""
    which = ConsentFilter(pages.field("person", _LONGEST), pages.field("app", _LONGEST))
    with writing() as connection:
        number = revoke_one(connection, str(key))
    if number is None:
        raise NotFound
    return pages.see_other(_address(which, done=number))


@blueprint.post("/admin/grants/take-back")
@pages.for_administrators
def revoke_all() -> Response:
    """Revoke the consents that a filter finds, once the administrator confirmed it."""
    which = ConsentFilter(pages.field("person", _LONGEST), pages.field("app", _LONGEST))
    if which.is_empty:
        raise pages.PageError(400, _("Enter a user or an app first."))
    until = pages.field("until", 20)
    if not (until.isascii() and until.isdecimal()):
        return _list_page(which, asks=True)
    with writing() as connection:
        number = revoke_matching(connection, which, int(until))
    return pages.see_other(_address(which, done=number))


def _argument(name: str) -> str:
    text = request.args.get(name, "")[:_LONGEST]
    # PostgreSQL takes no NUL in a text, and nobody's name has a line break.
    return text if text.isprintable() else ""


def _cursor(text: str) -> ConsentCursor | None:
    """Parse the cursor in an address; None for the first page."""
    parts = text.split("~")
    if len(parts) != _CURSOR_PARTS or not text.isascii() or not text.isprintable():
        return None
    return (
        ConsentCursor(int(parts[0]), parts[1])
        if parts[0].isdecimal() and len(parts[0]) < 12
        else None
    )


def _address(which: ConsentFilter, **more: object) -> str:
    parameters = {
        "person": which.person,
        "app": which.app,
        "ended": "1" if which.ended else "",
    } | more
    query = urlencode({name: value for name, value in parameters.items() if value or value == 0})
    return f"/admin/grants?{query}" if query else "/admin/grants"


def _list_page(
    which: ConsentFilter,
    after: ConsentCursor | None = None,
    *,
    asks: bool = False,
    number: int | None = None,
) -> Response:
    found, more = find_consents(which, after)
    last = found[-1].grant if found else None
    older = f"{last.created_at}~{last.id}" if more and last else ""
    in_force = ConsentFilter(which.person, which.app)
    now = int(time.time())
    return pages.page(
        "apps/consents.html",
        which=which,
        found=found,
        patients=patients_named(row.grant.patient_id for row in found if row.grant.patient_id),
        in_words=in_words,
        older=_address(which, older=older) if older else "",
        first=_address(which) if after else "",
        in_force=count(in_force),
        asks=asks,
        at=now,
        number=number,
        unchanged=_(pages.NOTHING_CHANGED),
    )
