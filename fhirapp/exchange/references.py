"""Conditional references: `Practitioner?identifier=system|value` becomes `Practitioner/<id>`.

Source: FHIR R4 http §3.1.0.11.2.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from fhirapp.db import Reader
from fhirapp.fhir.outcome import FhirError
from fhirapp.search.order import NEWEST_FIRST
from fhirapp.search.page import find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import parse_query, select
from fhirapp.store.definition import Definition

_CONDITIONAL = re.compile(r"([A-Z][A-Za-z]+)\?(\S+)")
_HINT = re.compile(rb'"reference"\s*:\s*"[A-Z][A-Za-z]+\?')


class Unresolved(NamedTuple):
    """A conditional reference that is kept as it is, and why; may_come if a later line may help."""

    reference: str
    reason: str
    may_come: bool = False


class Resolver:
    """Looks conditional references up; what was found is remembered for the whole import."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        self._found: dict[str, str] = {}

    def resolve(self, line: bytes, resource: Any, snapshot: Reader) -> list[Unresolved]:
        """Replace what can be resolved, in place; return what cannot."""
        if not _HINT.search(line):
            return []
        unresolved = []
        for holder in _references(resource):
            value = holder["reference"]
            parts = _CONDITIONAL.fullmatch(value)
            if parts is None:
                continue
            target = self._found.get(value)
            if target is None:
                found = self._look_up(parts[1], parts[2], snapshot)
                if isinstance(found, Unresolved):
                    unresolved.append(found)
                    continue
                target = self._found[value] = f"{parts[1]}/{found}"
            holder["reference"] = target
        return unresolved

    def _look_up(self, type_name: str, query: str, snapshot: Reader) -> str | Unresolved:
        """Return the one id that a query finds, or why there is none."""
        whole = f"{type_name}?{query}"
        definition = self._definitions.get(type_name)
        if definition is None:
            return Unresolved(whole, f"{type_name} is not served")
        context = Context(definition.tables, "")
        try:
            asked_for = parse_qsl(query, keep_blank_values=True)
            parsed = parse_query(definition.params, asked_for, context, strict=True)
        except FhirError as error:
            return Unresolved(whole, f"{type_name}: {error.diagnostics}")
        if parsed.ignored or not parsed.conditions:
            # It would match whoever is the only one there.
            return Unresolved(whole, f"{type_name}: the query asks for nothing")
        selection = select(definition.sql_table, parsed.conditions, snapshot.all)
        rows = find_page(snapshot.all, selection, NEWEST_FIRST, None, 2)
        if len(rows) == 1:
            return str(rows[0][0])
        if rows:
            return Unresolved(whole, f"{type_name}: more than one matches")
        return Unresolved(whole, f"{type_name}: none matches", may_come=True)


def _references(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every Reference in a resource that has a literal reference."""
    if isinstance(value, dict):
        if isinstance(value.get("reference"), str):
            yield value
        for content in value.values():
            yield from _references(content)
    elif isinstance(value, list):
        for content in value:
            yield from _references(content)
