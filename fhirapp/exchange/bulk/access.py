"""Who may export, and how far: what a search with the same token finds, decided as it is there.

Backend clients alone: with `system/` scopes that read and search. A clinician's or a patient's
token exports nothing. Source: decisions §6; SMART Backend Services.
"""

from __future__ import annotations

from collections.abc import Iterable

from fhirapp.auth.access.compartment import Access, Grant, access_of
from fhirapp.auth.access.protector import Token, authenticate, insufficient_scope
from fhirapp.auth.scopes import READ, SEARCH
from fhirapp.rest.visibility import NOTHING, visible
from fhirapp.search.condition import AnyCondition
from fhirapp.store.definition import Definition, Visibility, types


def exporter() -> tuple[Token, Access]:
    """Return the request's token, and what it may export.

    Raises LoginRequired, TokenExpired or Forbidden, before any data is touched.
    """
    token = authenticate()
    access = exporting(token.access())
    if not access.scopes:
        raise insufficient_scope(
            "An export takes the token of a backend client, with system scopes that read and "
            "search.",
            "system/*.rs",
        )
    return token, access


def exporting(access: Access) -> Access:
    """Return the part of an access that counts for an export."""
    return Access(
        tuple(
            scope
            for scope in access.scopes
            if scope.context == "system" and {READ, SEARCH} <= {*scope.permissions}
        ),
        patient=None,
    )


def registered_still(scope: str, registered: str) -> Access:
    """Return what is left of the scopes of an export, given its client's registration as it is."""
    return exporting(access_of(scope, registered, None))


def scope_of(access: Access) -> str:
    """Return an access as scopes."""
    return " ".join(map(str, access.scopes))


def reaches(definition: Definition, access: Access) -> bool:
    """Say whether anything of a type may be exported at all."""
    return limit_of(definition, access) is not NOTHING


def limit_of(definition: Definition, access: Access) -> AnyCondition | None:
    """Return the condition that a row `r` may be exported; None where every row may."""
    return visible(definition, access, SEARCH)


def covers(now: Access, then: Access, names: Iterable[str]) -> bool:
    """Say whether an access reaches all that another reached of these types."""
    served = types()
    deciding = [served[name] for name in names if name in served]
    if any(one.visibility is Visibility.TARGETS for one in deciding):
        # Of such a type, what may be seen hangs on all types.
        deciding = list(served.values())
    return all(
        any(_is_within(wanted, held) for held in now.grants(one.name, SEARCH))
        for one in deciding
        if one.visibility is Visibility.SCOPE
        for wanted in then.grants(one.name, SEARCH)
    )


def _is_within(wanted: Grant, held: Grant) -> bool:
    """Say whether one part of a type lies within another: filters narrow."""
    return {*held.filters} <= {*wanted.filters}
