"""What an observation says by way of others that stand in it."""

from __future__ import annotations

from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import has_code


def observed(statement: Element, template: str, *codes: str) -> Element | None:
    """Return the observation in a statement that has a template, or else one of these codes."""
    inner = statement.all("entryRelationship/observation")
    for one in inner:
        if template in one.templates():
            return one
    return next((one for one in inner if has_code(one.first("code"), *codes)), None)
