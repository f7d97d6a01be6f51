"""What a token gives access to, in words: the one of our pages, or one that is pasted.

A token is looked up by its digest. It is never in an address, a log or a page, except where its
bearer asks to see it. Outside the demo only its own user can inspect a token.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from flask import Response

from fhirapp.auth.models import OF_PAGES, Client, User, digest
from fhirapp.auth.protector import BearerToken, look_up
from fhirapp.auth.scopes import Access, Permission
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.definition import Definition, Visibility, types
from fhirapp.features.explore.snippets import snippets
from fhirapp.rest.access import carriers, filter_conditions
from fhirapp.web.internal_client import token_of
from fhirapp.web.labels import in_words
from fhirapp.web.pages import PageError, blueprint_of, field, for_signed_in, page, signed_in
from fhirapp.web.texts import _
from fhirapp.web.times import moment

blueprint = blueprint_of("explore_token", __name__)
_LONGEST_TOKEN = 500
_FIRST_REQUEST = "/fhir/Patient?_count=5"
_UNKNOWN = _("This server has no such token of yours. Tokens are removed a day after they expire.")


class TypeAccess(NamedTuple):
    """The access of a token to some types: whose resources it may read and search.

    Empty for none; searchable is False for types without search.
    """

    names: Sequence[str]
    read: str
    search: str
    searchable: bool


@blueprint.get("/explore/token")
@for_signed_in
def own() -> Response:
    """Show the token of our pages, in the demo without being asked, and what it gives access to."""
    # The demo's accounts are public, and so may their tokens be.
    return _token_page(_own_secret(), reveals=settings().demo)


@blueprint.post("/explore/token")
@for_signed_in
def pasted() -> Response:
    """Show what a pasted token gives access to, or the own token itself. 404 for another's."""
    if field("show", 10):
        return _token_page(_own_secret(), reveals=True)
    words = field("token", _LONGEST_TOKEN).split()
    # As in the Authorization header.
    secret = "".join(words[1:] if words[:1] == ["Bearer"] else words)
    if not secret:
        raise PageError(400, _("Paste a token."))
    return _token_page(secret, is_pasted=True)


def _own_secret() -> str:
    """Return the token of who signed in. Raises PageError where a patient has no record yet."""
    try:
        return token_of().secret
    except PageError as error:
        message = _(
            "No record is linked to your account yet. Ask your clinic to link it; then you "
            "get a token."
        )
        raise PageError(error.status, message, _("You have no token yet")) from None


def _token_page(secret: str, *, is_pasted: bool = False, reveals: bool = False) -> Response:
    token = look_up(digest(secret))
    is_demo = settings().demo
    if token is None or not (is_demo or token.user_id == signed_in().user.id):
        raise PageError(404, _(_UNKNOWN), _("Token not found"))
    return page(
        "explore/token.html",
        scripts=True,
        inspected=_token_values(token),
        is_pasted=is_pasted,
        secret=secret if reveals else "",
        command=snippets(_FIRST_REQUEST)[0].code,
    )


def _token_values(token: BearerToken) -> dict[str, Any]:
    """Return what the page shows of a token."""
    client = db.session.get(Client, token.client_id)
    user = db.session.get(User, token.user_id) if token.user_id else None
    over = _why_inactive(token)
    access = Access((), None) if over else token.access()
    reaches = _reaches(access)
    return {
        "client": client.name if client else token.client_id,
        "is_of_pages": client is not None and client.kind == OF_PAGES,
        # Nobody for a backend's.
        "user": user,
        "scopes": [in_words(text) for text in token.scope.split()],
        # What is left after the client's registration and the user's role.
        "in_force": [
            str(scope) for scope in access.scopes if scope.context != "patient" or access.patient
        ],
        "patient_id": token.patient_id,
        "expires": moment(token.expires_at),
        "remaining": remaining(token.expires_at - int(time.time())),
        "over": over,
        "reaches": [reach for reach in reaches if reach.read or reach.search],
        "nothing_of": sorted(
            name for reach in reaches if not (reach.read or reach.search) for name in reach.names
        ),
    }


def _why_inactive(token: BearerToken) -> str:
    """Return why a token gives no access any more; empty where it does."""
    if token.revoked or token.grant_revoked:
        return _("It was revoked.")
    if token.client_disabled:
        return _("Its app is disabled.")
    if token.user_disabled:
        return _("Its user is disabled.")
    return _("It has expired.") if token.is_expired() else ""


def remaining(seconds: int) -> str:
    """Return the time that is left in words: 42 minutes; empty where there is none."""
    if seconds <= 0:
        return ""
    if seconds < 60:
        return _("less than a minute")
    minutes = seconds // 60
    if minutes == 1:
        return _("1 minute")
    if minutes < 120:
        return _("%(number)s minutes", number=minutes)
    hours = minutes // 60
    if hours < 48:
        return _("%(number)s hours", number=hours)
    return _("%(number)s days", number=hours // 24)


def _reaches(access: Access) -> Sequence[TypeAccess]:
    """Return what a token gives access to, for each type; types with the same together."""
    names: dict[tuple[str, str, bool], list[str]] = {}
    for definition in types().values():
        searched = _of_whom(definition, access, "s") if definition.searchable else ""
        reach = _of_whom(definition, access, "r"), searched, definition.searchable
        names.setdefault(reach, []).append(definition.name)
    return [TypeAccess(type_names, *reach) for reach, type_names in names.items()]


def _of_whom(definition: Definition, access: Access, permission: str) -> str:
    """Return in words which resources of a type a token reaches; empty for none."""
    if definition.visibility is Visibility.ANY_SCOPE:
        if access.allows_any(permission):
            return _("all, as with any clinical token")
        is_user = access.own is not None and access.own[0] == definition.name
        return _("only that of the user") if is_user and permission == "r" else ""
    if definition.visibility is Visibility.TARGETS:
        reaches = access.allows_any(permission)
        return _("only those whose targets it can all read") if reaches else ""
    if definition.visibility is Visibility.CARRIER:
        reaches = any(access.grants(carrier.name, permission) for carrier in carriers())
        return _("only those attached to documents that it can read") if reaches else ""
    grants = access.grants(definition.name, permission)
    words = (_granted(definition, grant) for grant in grants)
    return ", ".join(dict.fromkeys(filter(None, words)))


def _granted(definition: Definition, grant: Permission) -> str:
    """Return in words what a grant reaches, as rest/access.py has it; empty for nothing."""
    if grant.patient is not None and not definition.compartment:
        return ""
    if filter_conditions(definition, grant.filters) is None:
        return ""
    whose = _("only that of patient %(id)s", id=grant.patient) if grant.patient else _("all")
    only = _(" and ").join(
        _("%(name)s is %(value)s", name=name, value=value) for name, value in grant.filters
    )
    return _("%(whose)s, only where %(only)s", whose=whose, only=only) if only else whose
