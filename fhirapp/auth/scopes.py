"""SMART scopes: their grammar, and what they allow. Pure: text in, values out.

    patient/AllergyIntolerance.rs?clinical-status=active
    └ context └ type            └ permissions └ filter

Source: SMART App Launch 2.2 scopes; decisions §6. This server only reads: c, u and d are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl

READ, SEARCH = "r", "s"

_CLINICAL = re.compile(
    r"(?P<context>patient|user|system)/(?P<type>\*|[A-Z][A-Za-z]+)"
    r"(?:\.(?P<permissions>read|write|\*|c?r?u?d?s?))?(?:\?(?P<filter>\S+))?"
)
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

    def within(self, registered: Iterable[Scope]) -> Scope | None:
        """Return what of this scope lies within registered ones, None where nothing does."""
        reach = {
            permission
            for one in registered
            if one.context == self.context
            and one.resource_type in ("*", self.resource_type)
            and set(one.filters) <= set(self.filters)
            for permission in one.permissions
        }
        permissions = "".join(letter for letter in self.permissions if letter in reach)
        return self._replace(permissions=permissions) if permissions else None


@lru_cache(maxsize=1024)
def parse_scope(text: str) -> Scope | None:
    """Read one scope; None for what is no clinical scope, or allows nothing here."""
    found = _CLINICAL.fullmatch(text)
    if found is None:
        return None
    suffix = found["permissions"]
    if suffix == "":
        return None
    permissions = _NAMED.get(suffix)
    if permissions is None:
        permissions = "".join(letter for letter in suffix if letter in (READ, SEARCH))
    if not permissions:
        return None
    filters: tuple[tuple[str, str], ...] = ()
    if found["filter"] is not None:
        filters = tuple(sorted(parse_qsl(found["filter"], keep_blank_values=True)))
        if not filters or not all(name and value for name, value in filters):
            return None
    return Scope(found["context"], found["type"], permissions, filters)


@lru_cache(maxsize=1024)
def clinical_scopes(text: str) -> tuple[Scope, ...]:
    """Return the clinical scopes of a space-separated list, in order."""
    return tuple(scope for scope in map(parse_scope, text.split()) if scope is not None)


def grantable(asked: Iterable[str], registered: str, contexts: Iterable[str]) -> list[str]:
    """Return the scopes that a client registered for `registered` may be given of those asked.

    Echoed as asked where granted whole, else as what is left: of `.cruds`, `.rs`. Scopes of other
    contexts are left out.
    """
    allowed, known = clinical_scopes(registered), set(contexts)
    granted: dict[str, None] = {}
    for text in asked:
        scope = parse_scope(text)
        if scope is None or scope.context not in known:
            continue
        reached = scope.within(allowed)
        if reached is not None:
            whole = reached == scope and not _writes(text)
            granted[text if whole else _written(text, reached)] = None
    return list(granted)


def _suffix(text: str) -> str | None:
    found = _CLINICAL.fullmatch(text)
    return found["permissions"] if found else None


def _writes(text: str) -> bool:
    suffix = _suffix(text)
    return suffix == "*" or (suffix not in _NAMED and bool(set(suffix or "") & set("cud")))


def _written(text: str, scope: Scope) -> str:
    """Write what is left of an asked scope in the syntax that was asked."""
    permissions = scope.permissions
    if _suffix(text) in ("*", "read") and permissions == READ + SEARCH:
        permissions = "read"
    query = text.partition("?")[2]
    return f"{scope.context}/{scope.resource_type}.{permissions}" + (f"?{query}" if query else "")
