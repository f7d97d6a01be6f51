"""SMART scopes: their grammar, what they allow, and which this server supports.

    patient/AllergyIntolerance.rs?clinical-status=active
    └ context └ type            └ permissions └ filter

Source: SMART App Launch 2.2 scopes; decisions §6. This server only reads: c, u and d are dropped.

The access of a token is worked out anew at each request: what its scopes say ∩ what its client is
registered for ∩ what its user may see, the last two as they are now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from flask import Flask, current_app

READ, SEARCH = "r", "s"
OPENID, FHIR_USER, PROFILE = "openid", "fhirUser", "profile"
OFFLINE, ONLINE = "offline_access", "online_access"
LAUNCH, LAUNCH_PATIENT, LAUNCH_ENCOUNTER = "launch", "launch/patient", "launch/encounter"
# What is no clinical scope: who the user is, what is in context, for how long.
SESSION = "session"
SESSION_SCOPES = frozenset(
    {OPENID, FHIR_USER, PROFILE, OFFLINE, ONLINE, LAUNCH, LAUNCH_PATIENT, LAUNCH_ENCOUNTER}
)
# The contexts of the scopes that a client of each kind may be registered for.
CONTEXTS_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "backend": ("system",),
    "public": ("patient", "user", SESSION),
    "confidential": ("patient", "user", SESSION),
}
# What a user of each role can allow a client, decisions §6.
CONTEXTS_OF_ROLE: Mapping[str, tuple[str, ...]] = {
    "clinician": ("patient", "user"),
    "administrator": ("patient", "user"),
    "patient": ("patient",),
}
_SESSION_SCOPES_OF_ROLE: Mapping[str, frozenset[str]] = {
    "clinician": SESSION_SCOPES,
    "administrator": SESSION_SCOPES,
    "patient": frozenset({OPENID, FHIR_USER, LAUNCH_PATIENT, LAUNCH_ENCOUNTER, OFFLINE}),
}

_CLINICAL = re.compile(
    r"(?P<context>patient|user|system)/(?P<type>\*|[A-Z][A-Za-z]+)"
    r"(?:\.(?P<permissions>read|write|\*|c?r?u?d?s?))?(?:\?(?P<filter>\S+))?"
)
_EXTENSION = "fhirapp.enforceable"
# SMART v1, and a scope without suffix (service.md 5), in terms of v2.
_NAMED = {None: "rs", "read": "rs", "*": "rs", "write": ""}


class Scope(NamedTuple):
    """A clinical scope: what it lets whom do; resource_type is * for every type.

    permissions is "r" (read, vread, history), "s" (search) or "rs"; filters narrow the resources.
    """

    context: str
    resource_type: str
    permissions: str
    filters: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        query = urlencode(self.filters, safe=":/|,$")
        suffix = f"?{query}" if query else ""
        return f"{self.context}/{self.resource_type}.{self.permissions}{suffix}"

    def within(self, registered: Iterable[Scope]) -> tuple[Scope, ...]:
        """Return what this scope and registered ones allow both, nothing where they do not meet.

        `system/*.rs` within `system/Patient.r` is `system/Patient.r`; filters of both hold.
        """
        met: dict[tuple[str, tuple[tuple[str, str], ...]], set[str]] = {}
        for other in registered:
            types = {self.resource_type, other.resource_type} - {"*"}
            if other.context != self.context or len(types) > 1:
                continue
            filters = tuple(sorted({*self.filters, *other.filters}))
            common = set(self.permissions) & set(other.permissions)
            met.setdefault((types.pop() if types else "*", filters), set()).update(common)
        return tuple(
            Scope(self.context, resource_type, "".join(sorted(permissions)), filters)
            for (resource_type, filters), permissions in met.items()
            if permissions
        )


@lru_cache(maxsize=1024)
def parse_scope(text: str) -> Scope | None:
    """Read one scope; None for what is no clinical scope, or allows nothing here."""
    match = _CLINICAL.fullmatch(text)
    if match is None:
        return None
    suffix = match["permissions"]
    if suffix == "":
        return None
    permissions = _NAMED.get(suffix)
    if permissions is None:
        permissions = "".join(letter for letter in suffix if letter in (READ, SEARCH))
    if not permissions:
        return None
    filters: tuple[tuple[str, str], ...] = ()
    if match["filter"] is not None:
        filters = tuple(sorted(parse_qsl(match["filter"], keep_blank_values=True)))
        # PostgreSQL takes no NUL in a text.
        if not filters or not all(
            name and value and f"{name}{value}".isprintable() for name, value in filters
        ):
            return None
    return Scope(match["context"], match["type"], permissions, filters)


@lru_cache(maxsize=1024)
def clinical_scopes(text: str) -> tuple[Scope, ...]:
    """Return the clinical scopes of a space-separated list, in order."""
    return tuple(scope for scope in map(parse_scope, text.split()) if scope is not None)


def grantable(
    requested: Iterable[str],
    registered: str,
    contexts: Iterable[str],
    enforceable: Callable[[Scope], bool],
) -> list[str]:
    """Return which of the requested scopes a client registered for `registered` may have.

    A scope that is granted whole is echoed as requested, others as what is left: `.rs` of `.cruds`.
    Scopes of other contexts are left out, and those that cannot be enforced: unknown types and
    filters. Session scopes (openid, launch/patient) are granted where they are registered.
    """
    allowed, known = clinical_scopes(registered), set(contexts)
    session = SESSION_SCOPES & set(registered.split()) if SESSION in known else frozenset()
    granted: dict[str, None] = {}
    for text in requested:
        if text in session:
            granted[text] = None
        scope = parse_scope(text)
        if scope is None or scope.context not in known or not enforceable(scope):
            continue
        reached = scope.within(allowed)
        if scope in reached and not _writes(text):
            granted[text] = None
        else:
            granted.update(dict.fromkeys(_scope_text(text, part) for part in reached))
    return list(granted)


def of_role(scopes: Iterable[str], role: str) -> list[str]:
    """Return those of the scopes that a user of this role can allow a client."""
    contexts, session = CONTEXTS_OF_ROLE[role], _SESSION_SCOPES_OF_ROLE[role]
    return [
        text
        for text in scopes
        if text in session or ((scope := parse_scope(text)) and scope.context in contexts)
    ]


def is_of_patient(scopes: Iterable[str]) -> bool:
    """Say whether some of the scopes need a patient in context: an encounter is a patient's too."""
    listed = [*scopes]
    return LAUNCH_PATIENT in listed or LAUNCH_ENCOUNTER in listed or of_record(listed)


def of_record(scopes: Iterable[str]) -> bool:
    """Say whether some of the scopes reach the record of the patient in context."""
    return any(text.startswith("patient/") for text in scopes)


def _suffix(text: str) -> str | None:
    match = _CLINICAL.fullmatch(text)
    return match["permissions"] if match else None


def _writes(text: str) -> bool:
    suffix = _suffix(text)
    return suffix == "*" or (suffix not in _NAMED and bool(set(suffix or "") & set("cud")))


def _scope_text(text: str, scope: Scope) -> str:
    """Return what is left of a requested scope, in the syntax of the request where that fits."""
    if _suffix(text) in ("*", "read") and scope.permissions == READ + SEARCH:
        scope = scope._replace(permissions="read")
    return str(scope)


class ServedTypes(NamedTuple):
    """What scopes need to know of the types that the app serves; rest/ knows it.

    enforceable checks a scope's type and filters; names returns the types whose own scopes decide
    who may see them, and whether each belongs to a patient's record.
    """

    enforceable: Callable[[Scope], bool]
    names: Callable[[], Mapping[str, bool]]


def init_app(app: Flask, served: ServedTypes) -> None:
    """Set what scopes need to know of the types that the app serves."""
    app.extensions[_EXTENSION] = served


def enforceable(scope: Scope) -> bool:
    """Say whether a scope names a type that is served, and only filters that can be enforced."""
    served: ServedTypes = current_app.extensions[_EXTENSION]
    return served.enforceable(scope)


def supported() -> list[str]:
    """Return the scopes that discovery lists: the session's, and those of each type."""
    served: ServedTypes = current_app.extensions[_EXTENSION]
    clinical = []
    for context in ("patient", "user", "system"):
        for name, in_record in served.names().items():
            if in_record or context != "patient":
                clinical.append(f"{context}/{name}.rs")
        clinical += [f"{context}/*.rs", f"{context}/*.read"]
    return [*sorted(SESSION_SCOPES), *clinical]


class Permission(NamedTuple):
    """A part of a type that may be seen: one patient's, or all where patient is None."""

    patient: str | None
    filters: tuple[tuple[str, str], ...] = ()


class OwnRecords(NamedTuple):
    """Who a user is in the records; patient is in whose record that stands, None of staff."""

    resource_type: str
    id: str
    patient: str | None = None


@dataclass(frozen=True)
class Access:
    """What may be seen: the scopes in force, and the patient that the token is about."""

    scopes: tuple[Scope, ...]
    patient: str | None
    # Who the user is in the records, where the token says so (fhirUser): readable whatever else is
    # not.
    own: OwnRecords | None = None

    @cached_property
    def _hash(self) -> int:
        return hash((self.scopes, self.patient, self.own))

    def __hash__(self) -> int:
        # Asked for at each look into a cache, and scopes are many.
        return self._hash

    def grants(self, resource_type: str, permission: str) -> tuple[Permission, ...]:
        """Return what may be seen of a type with permission "r" or "s"; nothing is forbidden.

        A grant without limits makes the others superfluous.
        """
        return _grants(self, resource_type, permission)

    def own_id(self, resource_type: str, permission: str) -> str | None:
        """Return the id of the user's own resource of a type, which fhirUser alone lets read."""
        if permission != READ or self.own is None or self.own.resource_type != resource_type:
            return None
        return self.own.id

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
def _grants(access: Access, resource_type: str, permission: str) -> tuple[Permission, ...]:
    grants = []
    for scope in access.scopes:
        if permission not in scope.permissions or scope.resource_type not in ("*", resource_type):
            continue
        if scope.context == "patient":
            if access.patient is None:
                continue
            grant = Permission(access.patient, scope.filters)
        else:
            grant = Permission(None, scope.filters)
        if grant == Permission(None):
            return (grant,)
        grants.append(grant)
    if access.own is not None and access.own_id(resource_type, permission):
        grants += _own_grants(access.own)
    return tuple(dict.fromkeys(grants))


def _own_grants(own: OwnRecords) -> list[Permission]:
    """Return what lets a user read who they are; a Practitioner needs none."""
    if own.patient is None:
        return []
    # A RelatedPerson is one of several of the patient, and its past may be in another's record.
    filters = () if own.resource_type == "Patient" else (("_id", own.id),)
    return [Permission(own.patient, filters)]


@lru_cache(maxsize=1024)
def access_of(
    token_scope: str,
    registered_scope: str,
    patient: str | None,
    role: str | None = None,
    is_linked: bool = True,
    own: OwnRecords | None = None,
) -> Access:
    """Return the access of a token, given its scope, its client's registration and its user.

    role is the user's, None of a token without one. A patient that is not linked to the user any
    more is out of reach. own is who the user is in the records.
    """
    registered = clinical_scopes(registered_scope)
    scopes = [part for scope in clinical_scopes(token_scope) for part in scope.within(registered)]
    if role is not None:
        scopes = [scope for scope in scopes if scope.context in CONTEXTS_OF_ROLE[role]]
    if FHIR_USER not in token_scope.split() or FHIR_USER not in registered_scope.split():
        own = None
    return Access(tuple(dict.fromkeys(scopes)), patient if is_linked else None, own)
