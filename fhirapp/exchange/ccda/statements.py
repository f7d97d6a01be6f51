"""What a statement says by way of the observations in it."""

from __future__ import annotations

from collections.abc import Iterator

from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import has_code

_GROUPING = frozenset({"entryRelationship", "component", "organizer"})


def inner(statement: Element) -> Iterator[tuple[Element, Element]]:
    """Yield the observations in a statement, also in an organizer, each with its relationship."""
    for related in statement.all("entryRelationship"):
        for observation in _observations(related):
            yield related, observation


def _observations(holder: Element) -> Iterator[Element]:
    for one in holder.elements:
        if one.name == "observation":
            yield one
        elif one.name in _GROUPING:
            yield from _observations(one)


def observed(statements: list[Element], template: str, *codes: str) -> list[Element]:
    """Return the observations in statements that have a template or one of these codes."""
    return [
        observation
        for statement in statements
        for _, observation in inner(statement)
        if template in observation.templates() or has_code(observation.first("code"), *codes)
    ]
