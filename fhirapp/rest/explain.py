"""What `_explain=true` adds to how a search is read: the token's limits, and the demo's SQL.

fhirapp/search/explain.py explains the parameters. The limits of a token name no patient and hold no
count: the total is of what the token may see, and plans have no estimates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fhirapp.auth.scopes import Access, Permission
from fhirapp.db import reader
from fhirapp.definition import Visibility, types
from fhirapp.fhir.words import shortened
from fhirapp.search.explain import STATEMENT, TOKEN, Issue, explanation, text_part

_SCOPES = "http://hl7.org/fhir/smart-app-launch/STU2.2/scopes-and-launch-context.html"
_ALIKE = re.compile(r"\?(?:, \?){50,}")
_LONGEST = 5_000
_LIMITS = {
    Visibility.ANY_SCOPE: "may see every {name}, as any clinical scope does.",
    Visibility.TARGETS: "may see each {name} whose every target it may see.",
}


class Statements:
    """Runs SELECTs in the request's snapshot of records, and keeps them."""

    def __init__(self) -> None:
        self._run: list[tuple[str, Sequence[Any]]] = []

    def __call__(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        self._run.append((sql, values))
        return reader().all(sql, values)

    def explain(self) -> Iterator[Issue]:
        """Yield an issue for each statement: its SQL, without values, and the database's plan."""
        for statement, values in self._run:
            # Of a value set's codes, thousands are alike.
            sql = _ALIKE.sub("?, …", statement)
            lines = [shortened(line, _LONGEST) for line in reader().plan(statement, values)]
            parts = [text_part("sql", sql), text_part("plan", "\n".join(lines))]
            plan = "; ".join(line.strip() for line in lines)
            yield explanation(STATEMENT, f"SQL: {sql} -- Plan: {plan}", parts=parts)


def explain_limits(names: Iterable[str], access: Access) -> Iterator[Issue]:
    """Yield an issue for each of these types that says how far the token reaches."""
    for name in dict.fromkeys(names):
        template = _LIMITS.get(types()[name].visibility) or _by_scope(access.grants(name, "s"))
        limit = template.format(name=name)
        yield explanation(TOKEN, f"Token: {limit}", None, [_SCOPES], [text_part("text", limit)])


def _by_scope(grants: Sequence[Permission]) -> str:
    if not grants:
        return "may see no {name}; its scope does not cover search of them."
    if Permission(None) in grants:
        return "may see every {name}."
    reaches = dict.fromkeys(
        ("each {name} of one patient" if grant.patient else "each {name}")
        + (" that the filter of its scope finds" if grant.filters else "")
        for grant in grants
    )
    return f"may see {', and '.join(reaches)}."
