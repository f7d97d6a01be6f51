"""What `_explain=true` adds to how a search is read: the token's limits, and the demo's SQL.

fhirapp/search/explain.py explains the parameters. The limits of a token name no patient and hold no
count: the total is of what the token may see, and plans have no estimates.

Any search is warned of values that no resource can have: a code that a required binding does not
list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from fhirapp.auth.scopes import Access, Grant
from fhirapp.db import Reader
from fhirapp.definition import Definition, Visibility, types
from fhirapp.fhir.elements import Binding, binding_at
from fhirapp.fhir.outcome import issue
from fhirapp.search.explain import STATEMENT, TOKEN, Issue, explanation, text_part
from fhirapp.search.parameter import Parameter
from fhirapp.search.query import Query
from fhirapp.search.token import Token

_SCOPES = "http://hl7.org/fhir/smart-app-launch/STU2.2/scopes-and-launch-context.html"
_LIMITS = {
    Visibility.ANY_SCOPE: "may see every {name}, as any clinical scope does.",
    Visibility.TARGETS: "may see each {name} whose every target it may see.",
}


class Statements:
    """Runs SELECTs, and keeps them."""

    def __init__(self, snapshot: Reader) -> None:
        self._snapshot = snapshot
        self._run: list[tuple[str, Sequence[Any]]] = []

    def __call__(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        self._run.append((sql, values))
        return self._snapshot.all(sql, values)

    def explain(self) -> Iterator[Issue]:
        """Yield an issue for each statement: its SQL, without values, and the database's plan."""
        for sql, values in self._run:
            plan = self._snapshot.plan(sql, values)
            parts = [text_part("sql", sql), *(text_part("plan", step) for step in plan)]
            yield explanation(STATEMENT, f"SQL: {sql} -- Plan: {'; '.join(plan)}", parts=parts)


def explain_limits(names: Iterable[str], access: Access) -> Iterator[Issue]:
    """Yield an issue for each of these types that says how far the token reaches."""
    for name in dict.fromkeys(names):
        template = _LIMITS.get(types()[name].visibility) or _by_scope(access.grants(name, "s"))
        limit = template.format(name=name)
        yield explanation(TOKEN, f"Token: {limit}", None, [_SCOPES], [text_part("text", limit)])


def _by_scope(grants: Sequence[Grant]) -> str:
    if not grants:
        return "may see no {name}; its scope does not cover search of them."
    if Grant(None) in grants:
        return "may see every {name}."
    reaches = dict.fromkeys(
        ("each {name} of one patient" if grant.patient else "each {name}")
        + (" that the filter of its scope finds" if grant.filters else "")
        for grant in grants
    )
    return f"may see {', and '.join(reaches)}."


def doubts(definition: Definition, query: Query) -> Iterator[Issue]:
    """Yield a warning for each parameter with a value that cannot be."""
    warned = set()
    for name, value in query.applied:
        base, _, modifier = name.partition(":")
        parameter = definition.params.by_name[base]
        if not isinstance(parameter, Token) or modifier not in ("", "not"):
            continue
        bindings = bindings_of(definition, parameter)
        for choice in parameter.choices(value) if bindings else ():
            message = _doubt(parameter, bindings, choice)
            if message and (name, message) not in warned:
                warned.add((name, message))
                yield issue("warning", "code-invalid", f"{name}: {message}", name)


def bindings_of(definition: Definition, parameter: Parameter) -> list[Binding]:
    """Return the required bindings of a parameter's elements; nothing where one has none."""
    if parameter.searches:
        searched = [definition.params.by_name[name] for name in parameter.searches]
        return [binding for part in searched for binding in bindings_of(definition, part)]
    bindings = []
    for path in parameter.paths:
        name, *rest = path.split(".")
        element = definition.schema.elements.get(name)
        bindings.append(binding_at(element.check if element else None, rest))
    return [binding for binding in bindings if binding] if all(bindings) else []


def _doubt(parameter: Token, bindings: Sequence[Binding], choice: str) -> str:
    """Return why no resource can have a value; empty where one can."""
    code, system = parameter.parse(choice)
    if system and system not in {parameter.system, *(binding.system for binding in bindings)}:
        # Beside the coding that it must have, a concept may have others.
        return f"all values are of the system {parameter.system}" if parameter.system else ""
    codes = [known for binding in bindings for known in binding.codes]
    if not code or code in codes:
        return ""
    near = get_close_matches(code.casefold(), codes, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"one value is none of {', '.join(codes)}{hint}"
