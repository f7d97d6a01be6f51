"""What a token lets its bearer do, in words: that of our pages, or one that is pasted.

A token is looked up by its digest, and never stands in an address, a log or a page, but where its
bearer asks to see it. Outside the demo somebody's tokens are told to nobody else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from flask import Response

from fhirapp.auth.access import Access, Grant
from fhirapp.auth.models import Client, User, digest
from fhirapp.auth.models.client import OF_PAGES
from fhirapp.auth.protector import Token, look_up
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.definition import Definition, Visibility, types
from fhirapp.rest.access import carriers, filtered
from fhirapp.web.internal_client import token_of
from fhirapp.web.labels import Words, in_words, moment
from fhirapp.web.pages import PageError, blueprint_of, field, for_signed_in, page, signed_in
from fhirapp.web.texts import _

blueprint = blueprint_of("explore_token", __name__)
_LONGEST_TOKEN = 500
_UNKNOWN = (
    "That is no token of yours that this server knows. One that ended more than a day ago is"
    " forgotten."
)


class Reach(NamedTuple):
    """What a token lets see of some types: of whom it may read, and find by searching.

    Empty for none; searchable is False for types that nobody can search.
    """

    names: Sequence[str]
    read: str
    search: str
    searchable: bool


class Inspected(NamedTuple):
    """A token in words."""

    client: str
    is_of_pages: bool
    # Whose it is; empty for a backend's.
    user: str
    role: str
    scopes: Sequence[Words]
    # The scopes in force: what is left after the client's registration and the user's role.
    in_force: Sequence[str]
    patient_id: str | None
    expires: str
    # In 42 minutes; empty where it is over.
    remaining: str
    # Why it opens nothing now; empty where it does.
    over: str
    reaches: Sequence[Reach]
    nothing_of: Sequence[str]


@blueprint.get("/explore/token")
@for_signed_in
def own() -> Response:
    """Show what the token of our pages lets the person see."""
    return _shown(_own_secret())


@blueprint.post("/explore/token")
@for_signed_in
def pasted() -> Response:
    """Show what a pasted token lets see, or the own token itself. 404 for one of somebody else."""
    if field("show", 10):
        return _shown(_own_secret(), reveals=True)
    words = field("token", _LONGEST_TOKEN).split()
    # As it stands in the header.
    secret = "".join(words[1:] if words[:1] == ["Bearer"] else words)
    if not secret:
        raise PageError(400, _("Paste a token."))
    return _shown(secret, is_pasted=True)


def _own_secret() -> str:
    """Return the token of who signed in. Raises PageError where a patient has no record yet."""
    try:
        return token_of().secret
    except PageError as error:
        message = _("No record is linked to you yet. Ask your clinic: then there is a token.")
        raise PageError(error.status, message, _("You have no token yet")) from None


def _shown(secret: str, *, is_pasted: bool = False, reveals: bool = False) -> Response:
    token = look_up(digest(secret))
    if token is None or not _may_know(token):
        raise PageError(404, _(_UNKNOWN), _("No such token"))
    return page(
        "explore/token.html",
        scripts=True,
        inspected=inspected(token),
        is_pasted=is_pasted,
        secret=secret if reveals else "",
    )


def _may_know(token: Token) -> bool:
    """Say whether who signed in may be told of a token: it is theirs, or this is the demo."""
    return settings().demo or token.user_id == signed_in().user.id


def inspected(token: Token) -> Inspected:
    """Return a token in words."""
    client = db.session.get(Client, token.client_id)
    user = db.session.get(User, token.user_id) if token.user_id else None
    over = _over(token)
    access = Access((), None) if over else token.access()
    reaches = _reaches(access)
    return Inspected(
        client=client.name if client else token.client_id,
        is_of_pages=client is not None and client.kind == OF_PAGES,
        user=user.name if user else "",
        role=user.role if user else "",
        scopes=[in_words(text) for text in token.scope.split()],
        in_force=[str(one) for one in access.scopes if one.context != "patient" or access.patient],
        patient_id=token.patient_id,
        expires=moment(token.expires_at),
        remaining=remaining(token.expires_at - int(time.time())),
        over=over,
        reaches=[one for one in reaches if one.read or one.search],
        nothing_of=sorted(
            name for one in reaches if not (one.read or one.search) for name in one.names
        ),
    )


def _over(token: Token) -> str:
    """Say why a token opens nothing any more; empty where it does."""
    if token.revoked or token.grant_revoked:
        return _("It was taken back.")
    if token.client_disabled:
        return _("Its app is disabled.")
    if token.user_disabled:
        return _("Whose it is, is disabled.")
    return _("It has expired.") if token.is_expired() else ""


def remaining(seconds: int) -> str:
    """Return how long something lasts yet: 42 minutes; empty where it is over."""
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
    return (
        _("%(number)s hours", number=hours)
        if hours < 48
        else _("%(number)s days", number=hours // 24)
    )


def _reaches(access: Access) -> Sequence[Reach]:
    """Return what a token lets see of every type; types with the same together."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for definition in types().values():
        searched = _of_whom(definition, access, "s") if definition.searchable else ""
        reach = _of_whom(definition, access, "r"), searched, definition.searchable
        found.setdefault(reach, []).append(definition.name)
    return [Reach(names, *reach) for reach, names in found.items()]


def _of_whom(definition: Definition, access: Access, permission: str) -> str:
    """Say in words which resources of a type a token reaches; empty for none."""
    if definition.visibility is Visibility.ANY_SCOPE:
        if access.allows_any(permission):
            return _("every one, as any token does that opens records")
        is_user = access.own is not None and access.own[0] == definition.name
        return _("that of the user") if is_user and permission == "r" else ""
    if definition.visibility is Visibility.TARGETS:
        reaches = access.allows_any(permission)
        return _("those of which it may see all that they are about") if reaches else ""
    if definition.visibility is Visibility.CARRIER:
        reaches = any(access.grants(one.name, permission) for one in carriers())
        return _("those that stand in a document that it may read") if reaches else ""
    granted = [_granted(definition, one) for one in access.grants(definition.name, permission)]
    return ", ".join(dict.fromkeys(filter(None, granted)))


def _granted(definition: Definition, grant: Grant) -> str:
    """Say in words what a grant reaches; empty for nothing, as rest/visibility.py has it."""
    if grant.patient is not None and not definition.compartment:
        return ""
    if filtered(definition, grant.filters) is None:
        return ""
    whose = _("that of one patient, %(id)s", id=grant.patient) if grant.patient else _("every one")
    only = " and ".join(
        _("%(name)s is %(value)s", name=name, value=value) for name, value in grant.filters
    )
    return _("%(whose)s, only where %(only)s", whose=whose, only=only) if only else whose
