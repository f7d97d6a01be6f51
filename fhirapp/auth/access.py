"""What a token lets its bearer see, worked out anew at each request.

Access = what the token's scopes say ∩ what its client is registered for ∩ what its user may see,
the last two as they are now. Pure.
Source: decisions §6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fhirapp.auth.scopes import CONTEXTS_OF_ROLE, FHIR_USER, READ, Scope, clinical_scopes


class Grant(NamedTuple):
    """A part of a type that may be seen: one patient's, or all where patient is None."""

    patient: str | None
    filters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Access:
    """What may be seen: the scopes in force, and the patient that the token is about."""

    scopes: tuple[Scope, ...]
    patient: str | None
    # Who the user is in the records, as (type, id), where the token says so (fhirUser): readable
    # whatever else is not.
    own: tuple[str, str] | None = None

    def grants(self, resource_type: str, permission: str) -> tuple[Grant, ...]:
        """Return what may be seen of a type with permission "r" or "s"; nothing is forbidden.

        A grant without limits makes the others superfluous.
        """
        return _grants(self, resource_type, permission)

    @property
    def is_granular(self) -> bool:
        """Whether some scope is narrowed by a filter."""
        return any(scope.filters for scope in self.scopes)

    def allows_any(self, permission: str) -> bool:
        """Say whether some clinical scope has the permission."""
        return any(
            permission in scope.permissions and (scope.context != "patient" or self.patient)
            for scope in self.scopes
        )


@lru_cache(maxsize=1024)
def _grants(access: Access, resource_type: str, permission: str) -> tuple[Grant, ...]:
    grants = []
    for scope in access.scopes:
        if permission not in scope.permissions or scope.resource_type not in ("*", resource_type):
            continue
        if scope.context == "patient":
            if access.patient is None:
                continue
            grant = Grant(access.patient, scope.filters)
        else:
            grant = Grant(None, scope.filters)
        if grant == Grant(None):
            return (grant,)
        grants.append(grant)
    if (
        access.own is not None
        and access.own[0] == resource_type == "Patient"
        and permission == READ
    ):
        grants.append(Grant(access.own[1]))
    return tuple(dict.fromkeys(grants))


@lru_cache(maxsize=1024)
def access_of(
    token_scope: str,
    registered_scope: str,
    patient: str | None,
    role: str | None = None,
    is_linked: bool = True,
    own: tuple[str, str] | None = None,
) -> Access:
    """Return the access of a token, given its scope, its client's registration and its user.

    role is the user's, None of a token without one. A patient that is not linked to the user any
    more is out of reach. own is who the user is in the records, as (type, id).
    """
    registered = clinical_scopes(registered_scope)
    scopes = [part for scope in clinical_scopes(token_scope) for part in scope.within(registered)]
    if role is not None:
        scopes = [scope for scope in scopes if scope.context in CONTEXTS_OF_ROLE[role]]
    if FHIR_USER not in token_scope.split() or FHIR_USER not in registered_scope.split():
        own = None
    return Access(tuple(dict.fromkeys(scopes)), patient if is_linked else None, own)
