"""Values that no resource can have: a code that a required binding does not list.

A search for one is answered, and finds nothing, or with `:not` everything; so the answer says it,
with the code that was meant perhaps. It does not repeat the value: a token may name a person.
Source: decisions §3, §4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from fhirapp.fhir.elements import Binding, binding_at
from fhirapp.fhir.outcome import issue
from fhirapp.search.explain import Issue
from fhirapp.search.parameter import Parameter
from fhirapp.search.query import Query
from fhirapp.search.token import Token
from fhirapp.store.definition import Definition


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
        return [binding for one in searched for binding in bindings_of(definition, one)]
    found = []
    for path in parameter.paths:
        name, *rest = path.split(".")
        element = definition.schema.elements.get(name)
        found.append(binding_at(element.check if element else None, rest))
    return [one for one in found if one] if all(found) else []


def _doubt(parameter: Token, bindings: Sequence[Binding], choice: str) -> str:
    """Return what speaks against a value; empty for nothing."""
    code, system = parameter.parse(choice)
    if system and system not in {parameter.system, *(one.system for one in bindings)}:
        # Beside the coding that it must have, a concept may have others.
        return f"all values are of the system {parameter.system}" if parameter.system else ""
    codes = [one for binding in bindings for one in binding.codes]
    if not code or code in codes:
        return ""
    near = get_close_matches(code.casefold(), codes, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"one value is none of {', '.join(codes)}{hint}"
