"""`_explain=true`: how a search was read, what limited it, and in demo mode the SQL it became.

fhirapp/search/explain.py tells of the parameters. What limits a token is told without naming a
patient, and no count is given: the total is of what the token may see, plans have no estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fhirapp.auth.access.compartment import Access, Grant
from fhirapp.db import Reader
from fhirapp.search.explain import Issue, explained
from fhirapp.store.definition import Visibility, types

_SCOPES = "http://hl7.org/fhir/smart-app-launch/STU2.2/scopes-and-launch-context.html"
_LIMITS = {
    Visibility.ANY_SCOPE: "Token: may see every {name}, as any clinical scope does.",
    Visibility.TARGETS: "Token: may see each {name} whose every target it may see.",
}


class Statements:
    """Runs SELECTs, and remembers them."""

    def __init__(self, snapshot: Reader) -> None:
        self._snapshot = snapshot
        self._asked: list[tuple[str, Sequence[Any]]] = []

    def __call__(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        self._asked.append((sql, values))
        return self._snapshot.all(sql, values)

    def explained(self) -> Iterator[Issue]:
        """Yield an issue for each statement: its SQL, without values, and the database's plan."""
        for sql, values in self._asked:
            plan = "; ".join(self._snapshot.plan(sql, values))
            yield explained(f"SQL: {sql} -- Plan: {plan}")


def explain_limits(names: Iterable[str], access: Access) -> Iterator[Issue]:
    """Yield an issue for each of these types that says how far the token reaches."""
    for name in dict.fromkeys(names):
        limit = _LIMITS.get(types()[name].visibility) or _by_scope(access.grants(name, "s"))
        yield explained(limit.format(name=name), None, _SCOPES)


def _by_scope(grants: Sequence[Grant]) -> str:
    if not grants:
        return "Token: may see no {name}; its scope does not cover search of them."
    if Grant(None) in grants:
        return "Token: may see every {name}."
    reaches = dict.fromkeys(
        ("each {name} of one patient" if grant.patient else "each {name}")
        + (" that the filter of its scope finds" if grant.filters else "")
        for grant in grants
    )
    return f"Token: may see {', and '.join(reaches)}."
